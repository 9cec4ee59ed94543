//! The content of the picture: written by the scenario, read by the drawing thread.

use super::scenario::{Player, Scenario};
use evictd_decision::{
    Decision,
    record::{Outcome, Record},
};
use evictd_eviction::Housekeeper;
use evictd_node::{Cycle, Decided, Fact, Publish, Terminated};
use evictd_pod::resources;
use evictd_signals::{Observations, Signal, StarvedResource};
use jiff::Timestamp;
use std::{
    fs,
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};
use tokio::sync::mpsc;

/// The state of a pod in the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Alive,
    /// It was chosen.
    Going,
    /// Its last process has exited.
    Gone,
}

/// A pod in the picture.
#[derive(Debug, Clone)]
pub struct PodLine {
    /// `namespace/name`.
    pub pod: String,
    /// Its QoS class.
    pub qos: &'static str,
    /// Its priority.
    pub priority: i32,
    /// Its request of the scenario's resource; `None` if no pod requests that.
    pub request: Option<i64>,
    /// Its present usage of that resource.
    pub usage: Option<i64>,
    /// The highest usage seen.
    pub peak: i64,
    /// Whether it is never evicted.
    pub critical: bool,
    /// Its state.
    pub fate: Fate,
}

/// A threshold of a signal in the picture.
#[derive(Debug, Clone)]
pub struct Mark {
    /// It is met below this value.
    pub value: i64,
    /// The grace period; zero for a hard threshold.
    pub grace: Duration,
    /// Since when it is crossed.
    pub crossed_since: Option<Timestamp>,
}

/// A signal in the picture with its thresholds.
#[derive(Debug, Clone)]
pub struct SignalLine {
    /// The signal.
    pub signal: Signal,
    /// The available amount.
    pub available: i64,
    /// The capacity.
    pub capacity: i64,
    /// Its thresholds.
    pub marks: Vec<Mark>,
}

/// A decision with its outcome.
#[derive(Debug, Clone)]
pub struct Act {
    /// The decision.
    pub decision: Decision,
    /// Its record, with the outcome once known.
    pub record: Record,
}

/// The picture's content.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The scenario.
    pub scenario: Scenario,
    /// The requirements of a real run, if this one is simulated.
    pub missing: Option<String>,
    /// When it began.
    pub started: Timestamp,
    /// When the last cycle ran.
    pub now: Timestamp,
    /// The longest time until the next cycle.
    pub sleep: Duration,
    /// The number of cycles so far.
    pub looks: u64,
    /// The watched signals.
    pub signals: Vec<SignalLine>,
    /// The available amount of the scenario's signal over time.
    pub trace: Vec<(Timestamp, i64)>,
    /// The least available memory of all observations, in bytes.
    pub lowest_memory: Option<i64>,
    /// The pods.
    pub pods: Vec<PodLine>,
    /// The decisions, in order.
    pub acts: Vec<Act>,
    /// The result in one line, and whether it was as expected; `None` until the scenario has ended.
    pub verdict: Option<(bool, String)>,
}

/// The scene, shared by the main loop and the drawing thread.
#[derive(Debug, Clone)]
pub struct Stage(Arc<Mutex<Scene>>);

impl Stage {
    /// A scene without pods.
    pub fn new(scenario: Scenario, started: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Scene {
            scenario,
            missing: None,
            started,
            now: started,
            sleep: Duration::ZERO,
            looks: 0,
            signals: Vec::new(),
            trace: Vec::new(),
            lowest_memory: None,
            pods: Vec::new(),
            acts: Vec::new(),
            verdict: None,
        })))
    }

    /// Locks the scene for reading or writing.
    pub fn scene(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Scene {
    /// The signal of this scenario.
    pub fn signal(&self) -> Signal {
        match self.scenario {
            Scenario::Pids => Signal::PidAvailable,
            Scenario::Disk => Signal::NodefsAvailable,
            Scenario::Memory | Scenario::Soft | Scenario::Critical => Signal::MemoryAvailable,
        }
    }

    /// The resource of this scenario.
    pub fn resource(&self) -> StarvedResource {
        self.signal().resource()
    }

    /// The main decision: the first that evicted a pod, else the last.
    pub fn act(&self) -> Option<&Act> {
        let ended = |act: &&Act| act.decision.eviction.is_some();
        self.acts.iter().find(ended).or(self.acts.last())
    }

    /// Adds a pod.
    pub fn enter(&mut self, player: &Player) {
        let pod = player.pod("demo", false);
        let memory = self.resource() == StarvedResource::Memory;
        self.pods.push(PodLine {
            pod: pod.full_name(),
            qos: pod.qos.as_str(),
            priority: pod.priority(),
            request: memory.then(|| pod.reserved(resources::MEMORY).value()),
            usage: None,
            peak: 0,
            critical: pod.critical.is_some(),
            fate: Fate::Alive,
        });
    }

    /// Updates the usage of a pod.
    pub fn uses(&mut self, pod: &str, usage: Option<i64>) {
        if let Some(line) = self.pods.iter_mut().find(|line| line.pod == pod) {
            line.usage = usage;
            line.peak = line.peak.max(usage.unwrap_or(0));
        }
    }

    /// Updates the scene after a cycle.
    pub fn look(
        &mut self,
        now: Timestamp,
        observations: &Observations,
        housekeeper: &Housekeeper,
        sleep: Duration,
    ) {
        self.now = now;
        self.looks += 1;
        self.sleep = sleep;
        self.signals = signals(observations, housekeeper);
        if let Some(seen) = observations.get(self.signal()) {
            self.trace.push((now, seen.available));
        }
        if let Some(seen) = observations.get(Signal::MemoryAvailable) {
            let lowest = self.lowest_memory.unwrap_or(i64::MAX);
            self.lowest_memory = Some(lowest.min(seen.available));
        }
    }

    /// Adds a decision.
    pub fn decide(&mut self, decision: &Decision, record: &Record) {
        self.acts.push(Act {
            decision: decision.clone(),
            record: record.clone(),
        });
        if let Some(eviction) = &decision.eviction {
            self.set_fate(&eviction.pod, Fate::Going);
        }
    }

    /// Notes that a termination has ended.
    pub fn terminated(&mut self, id: &str, pod: &str, outcome: &Outcome) {
        let gone = outcome.gone_seconds().is_some();
        self.set_fate(pod, if gone { Fate::Gone } else { Fate::Alive });
        if let Some(act) = self.acts.iter_mut().find(|act| act.record.id == id) {
            act.record.conclude(outcome.clone());
        }
    }

    fn set_fate(&mut self, pod: &str, fate: Fate) {
        if let Some(line) = self.pods.iter_mut().find(|line| line.pod == pod) {
            line.fate = fate;
        }
    }
}

fn signals(observations: &Observations, housekeeper: &Housekeeper) -> Vec<SignalLine> {
    let mut lines: Vec<SignalLine> = Vec::new();
    for threshold in housekeeper.thresholds() {
        let Some(seen) = observations.get(threshold.signal) else {
            continue;
        };
        let mut crossed = housekeeper.first_observed();
        let mark = Mark {
            value: threshold.value.at(seen.capacity).value(),
            grace: threshold.grace_period.unsigned_abs(),
            crossed_since: crossed
                .find(|(met, _)| *met == threshold)
                .map(|(_, since)| since),
        };
        match lines
            .iter_mut()
            .find(|line| line.signal == threshold.signal)
        {
            Some(line) => line.marks.push(mark),
            None => lines.push(SignalLine {
                signal: threshold.signal,
                available: seen.available,
                capacity: seen.capacity,
                marks: vec![mark],
            }),
        }
    }
    lines
}

/// Publishes the actions of the main loop to the stage, and reports ended terminations.
#[derive(Debug)]
pub(crate) struct Watcher {
    /// The stage.
    pub stage: Stage,
    /// The pods' directories, where a kubelet has them.
    pub pods: PathBuf,
    /// Receives `namespace/name` and outcome of each pod whose termination has ended.
    pub terminated: mpsc::UnboundedSender<(String, Outcome)>,
}

impl Publish for Watcher {
    fn publish(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::CycleEnded(look) => self.looked(look),
            Fact::Decided(decided) => self.decided(decided),
            Fact::Terminated(ended) => self.terminated(ended),
            _ => {}
        }
    }
}

impl Watcher {
    fn looked(&mut self, look: &Cycle<'_>) {
        let mut scene = self.stage.scene();
        let observations = &look.sample.observations;
        scene.look(look.now, observations, look.housekeeper, look.sleep);
    }

    fn decided(&mut self, decided: &Decided<'_>) {
        self.stage.scene().decide(decided.decision, decided.record);
    }

    fn terminated(&mut self, ended: &Terminated<'_>) {
        let (departure, outcome) = (ended.departure, ended.outcome());
        if let (true, Some((_, name))) = (
            outcome.gone_seconds().is_some(),
            departure.pod.split_once('/'),
        ) {
            // The kubelet would remove these files. If they stayed, the disk would stay full and another pod would
            // be evicted.
            let _ = fs::remove_dir_all(self.pods.join(name));
        }
        self.stage
            .scene()
            .terminated(&departure.id, &departure.pod, &outcome);
        // The receiver is closed when the scenario is over.
        let _ = self.terminated.send((departure.pod.clone(), outcome));
    }
}
