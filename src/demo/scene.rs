//! What the picture shows: written by the loop's publisher, read by whoever draws.

use super::scenario::Scenario;
use crate::publish::{Decided, Landed, Look, Publish};
use evictd_eviction::{Signal, StarvedResource};
use jiff::Timestamp;
use serde_json::Value;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;

/// The state of a pod in the picture.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It runs.
    Alive,
    /// It was chosen.
    Going,
    /// Its last process is gone.
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
    /// Request of memory in bytes.
    pub request: i64,
    /// Memory it holds at present, in bytes.
    pub usage: Option<i64>,
    /// Whether it is spared whatever happens.
    pub critical: bool,
    /// How it fares.
    pub fate: Fate,
}

/// A signal against a threshold in the picture.
#[derive(Debug, Clone)]
pub struct SignalLine {
    /// The signal.
    pub signal: Signal,
    /// What is left.
    pub available: i64,
    /// What there is.
    pub capacity: i64,
    /// Below this it acts.
    pub threshold: i64,
    /// Whether it acts at once.
    pub hard: bool,
    /// Since when it is crossed.
    pub crossed_since: Option<Timestamp>,
}

/// The picture's content.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The play.
    pub scenario: Scenario,
    /// `real` or `simulated`.
    pub mode: &'static str,
    /// When it began.
    pub started: Timestamp,
    /// The last look.
    pub now: Timestamp,
    /// Milliseconds until the next look at the latest.
    pub sleep_ms: f64,
    /// Looks so far.
    pub looks: u64,
    /// The watched signals.
    pub signals: Vec<SignalLine>,
    /// Memory left, over time, in bytes.
    pub trace: Vec<(Timestamp, i64)>,
    /// The pods.
    pub pods: Vec<PodLine>,
    /// Decisions with their outcomes, as the history keeps them.
    pub decisions: Vec<Value>,
    /// One line on how it ended, once it has.
    pub verdict: Option<String>,
}

/// The scene, shared between the loop and the drawing.
#[derive(Debug, Clone)]
pub struct Stage(Arc<Mutex<Scene>>);

impl Stage {
    /// An empty stage.
    pub fn new(scenario: Scenario, mode: &'static str, started: Timestamp) -> Self {
        Self(Arc::new(Mutex::new(Scene {
            scenario,
            mode,
            started,
            now: started,
            sleep_ms: 0.0,
            looks: 0,
            signals: Vec::new(),
            trace: Vec::new(),
            pods: Vec::new(),
            decisions: Vec::new(),
            verdict: None,
        })))
    }

    /// The scene, for a moment.
    pub fn scene(&self) -> MutexGuard<'_, Scene> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Puts what the loop tells onto the stage, and says when something ended.
#[derive(Debug)]
pub struct Watcher {
    /// Where to.
    pub stage: Stage,
    /// `namespace/name` of each pod whose departure has ended, with the outcome.
    pub landed: mpsc::UnboundedSender<(String, Value)>,
}

impl Publish for Watcher {
    fn looked(&mut self, look: &Look<'_>) {
        let mut scene = self.stage.scene();
        scene.now = look.now;
        scene.looks += 1;
        scene.sleep_ms = look.sleep.as_secs_f64() * 1000.0;
        scene.signals.clear();
        for threshold in look.housekeeper.thresholds() {
            let Some(seen) = look.sample.observations.get(threshold.signal) else {
                continue;
            };
            let mut crossed = look.housekeeper.first_observed();
            scene.signals.push(SignalLine {
                signal: threshold.signal,
                available: seen.available,
                capacity: seen.capacity,
                threshold: threshold.value.at(seen.capacity).value(),
                hard: threshold.is_hard(),
                crossed_since: crossed
                    .find(|(met, _)| *met == threshold)
                    .map(|(_, since)| since),
            });
        }
        if let Some(seen) = look.sample.observations.get(Signal::MemoryAvailable) {
            scene.trace.push((look.now, seen.available));
        }
    }

    fn decided(&mut self, decided: &Decided<'_>) {
        let mut scene = self.stage.scene();
        scene.decisions.push(decided.record.clone());
        if let Some(eviction) = &decided.decision.eviction {
            scene.set_fate(&eviction.pod, Fate::Going);
        }
    }

    fn landed(&mut self, landed: &Landed<'_>) {
        let (flight, outcome) = (&landed.landing.flight, landed.outcome());
        let mut scene = self.stage.scene();
        scene.set_fate(&flight.pod, Fate::Gone);
        if let Some(decision) = scene
            .decisions
            .iter_mut()
            .find(|decision| decision["id"] == flight.id.as_str())
        {
            decision["outcome"] = outcome.clone();
        }
        // Nobody listens any more once the play is over.
        let _ = self.landed.send((flight.pod.clone(), outcome));
    }
}

impl Scene {
    fn set_fate(&mut self, pod: &str, fate: Fate) {
        if let Some(line) = self.pods.iter_mut().find(|line| line.pod == pod) {
            line.fate = fate;
        }
    }

    /// What the play is about.
    pub fn resource(&self) -> StarvedResource {
        match self.scenario {
            Scenario::Pids => StarvedResource::Pids,
            Scenario::Disk => StarvedResource::EphemeralStorage,
            Scenario::Memory | Scenario::Soft | Scenario::Critical => StarvedResource::Memory,
        }
    }
}
