//! The agent: observes the node in a loop and, if it has to, terminates one pod.
//!
//! ```text
//!   signals -> housekeeper -> usage -> housekeeper -> evict      (one cycle)
//!                    \________ publish: status, metrics, log, history ________/
//! ```

mod active;
mod admission;
mod allocatable;
mod answer;
mod cluster;
mod dedup;
mod departures;
mod local_storage;
mod pause;
mod reclaim;
mod restored;
mod returning;
mod sleep;
pub mod start;
mod terminations;
#[cfg(test)]
mod tests;
mod timer;
mod unfinished;

pub use allocatable::Allocatable;
pub use cluster::Cluster;
pub use pause::Pauses;
pub use timer::Timer;
pub use unfinished::Unfinished;

use crate::{
    config::Admission,
    delivery::Notice,
    evict::EvictError,
    fact::{Cycle, Decided, Fact},
    filesystems::WatchedPaths,
    kept::Kept,
    pause::Pause,
    pods::{LocalPod, PodCache, PodSet},
    publish::Publishers,
    reclaim::{MemoryReclaimer, Reclaimer},
    sampling_interval::SamplingInterval,
    server::state::Question,
    usage,
};
use active::Active;
use dedup::Dedup;
use evictd_eviction::{
    Answer, Decision, Housekeeper, NodeCondition, Observation, Observations, Rules, Signal,
    SignalMap, Step, Usage, UsageNeed,
    departures::{Departure, NoticeState, Purpose},
    record::{self, Record},
    rules::FilesystemLayout,
};
use evictd_kernel::{
    clock::Clock,
    kill::CgroupEvictor,
    signals::{Layout, Sample, Sampler},
    wake::{WakeListeners, WokenBy},
};
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};
use terminations::Terminations;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An observation older than this must be repeated before a pod may be evicted for it.
const MAX_OBSERVATION_AGE: SignedDuration = SignedDuration::from_millis(50);
/// How long to wait for pods that are being killed when the agent stops.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(2);

/// The settings that may change while the agent runs.
#[derive(Debug, Clone)]
pub struct Behaviour {
    /// The rules; their filesystem layout is detected, not configured.
    pub rules: Rules,
    /// The longest sleep between two cycles.
    pub housekeeping_interval: Duration,
    /// Decide and publish, but terminate no pod.
    pub dry_run: bool,
    /// How new pods are checked.
    pub admission: Admission,
    /// Priorities of the priority classes that manifests may name, in addition to the built-in ones.
    pub priority_classes: BTreeMap<String, i32>,
    /// The shortest time between SIGTERM and SIGKILL if the grace period is not zero (S1-049).
    pub least_grace: Duration,
}

/// The connections of an agent to the machine and the cluster.
pub struct Ports {
    /// The timer of the main loop.
    pub timer: Timer,
    /// Notifications that wake the main loop early.
    pub wake_listeners: WakeListeners,
    /// Reads the available amount of each signal.
    pub sampler: Sampler,
    /// Which directories it watches.
    pub filesystems: WatchedPaths,
    /// The pods of this node with their cgroups.
    pub pod_cache: PodCache,
    /// The node's allocatable resources.
    pub allocatable: Allocatable,
    /// Measures the usage of pods.
    pub usage: usage::UsageReader,
    /// Reclaims space without evicting a pod.
    pub reclaimer: Reclaimer,
    /// Reclaims page cache of pods.
    pub memory_reclaimer: MemoryReclaimer,
    /// Terminates the processes of pods through their cgroups.
    pub evictor: Arc<CgroupEvictor>,
    /// The container runtime, if it is to stop the pods.
    pub runtime: Option<evictd_cri::Client>,
    /// Informs the cluster; `None` without one.
    pub cluster: Option<Cluster>,
    /// Pauses, which keep the agent from terminating pods for a while.
    pub pauses: Pauses,
    /// Publish decisions and state.
    pub publishers: Publishers,
    /// Decisions that an earlier run did not finish.
    pub unfinished: Vec<Unfinished>,
    /// The state that an earlier run kept.
    pub kept: Kept,
    /// The kernel's boot id; empty where the kernel has none.
    pub boot_id: String,
}

/// The daemon's main loop and its state.
pub struct Agent {
    clock: Clock,
    behaviour: Behaviour,
    housekeeper: Housekeeper,
    sampling_interval: SamplingInterval,
    ports: Ports,
    terminations: Terminations,
    /// Notices about pods whose termination is about to begin, by the ids of their decisions.
    notices: BTreeMap<String, Notice>,
    /// Ids of decisions of an earlier run that were taken up.
    unfinished: BTreeSet<String>,
    active: Active,
    watched: Vec<(Signal, Observation, i64)>,
    /// For each signal the last observation that was not past its threshold.
    clear: SignalMap<Timestamp>,
    dedup: Dedup,
    layout: Option<Layout>,
    decisions: u64,
    woken_by: WokenBy,
    local_storage: local_storage::LocalStorageCheck,
    admission: admission::Admission,
    /// When it was last looked whether the container runtime's socket is there.
    socket_looked_for: Option<Timestamp>,
}

impl Agent {
    /// An agent before its first cycle.
    pub fn new(clock: Clock, behaviour: Behaviour, mut ports: Ports) -> Self {
        let now = clock.now();
        ports.sampler.follow(&behaviour.rules.thresholds);
        let unfinished = std::mem::take(&mut ports.unfinished);
        let kept = std::mem::take(&mut ports.kept);
        let mut agent = Self {
            housekeeper: Housekeeper::new(Rules {
                kubelet_is_here: !ports.allocatable.is_machine(),
                ..behaviour.rules.clone()
            }),
            sampling_interval: SamplingInterval::new(behaviour.housekeeping_interval),
            clock,
            behaviour,
            ports,
            terminations: Terminations::default(),
            notices: BTreeMap::new(),
            unfinished: BTreeSet::new(),
            active: Active::default(),
            watched: Vec::new(),
            clear: SignalMap::from_fn(|_| now),
            dedup: Dedup::default(),
            layout: None,
            decisions: 0,
            woken_by: WokenBy::default(),
            local_storage: local_storage::LocalStorageCheck::default(),
            admission: admission::Admission::default(),
            socket_looked_for: None,
        };
        agent.resume_unfinished(unfinished);
        agent.restore(&kept);
        agent
    }

    /// Runs cycles until `stop`, or finds that it lacks a permission without which it is useless. At the end it waits for pods
    /// that are being killed, at most two seconds. `changes` are settings to apply.
    pub async fn run(
        mut self,
        mut questions: mpsc::Receiver<Question>,
        mut changes: mpsc::Receiver<Box<Behaviour>>,
        stop: CancellationToken,
    ) -> Result<(), EvictError> {
        loop {
            let sleep = self.cycle().await;
            self.woken_by = WokenBy::Request;
            tokio::select! {
                () = self.ports.timer.after(sleep) => self.woken_by = WokenBy::Sleep,
                by = self.ports.wake_listeners.notified() => self.woken_by = by,
                ended = self.terminations.ended() => {
                    self.woken_by = WokenBy::Departure;
                    if let Some(error) = self.note_ended(ended) {
                        return Err(error);
                    }
                }
                progress = cluster::progress(self.ports.cluster.as_mut()) => {
                    self.note_progress(progress);
                }
                () = self.ports.pod_cache.changed() => self.woken_by = WokenBy::Pods,
                () = self.ports.usage.measured() => {}
                answered = self.ports.reclaimer.answered() => self.reclaim_answered(answered),
                Some(question) = questions.recv() => self.answer(question).await,
                Some(behaviour) = changes.recv() => self.apply(*behaviour),
                () = stop.cancelled() => break,
            }
        }
        Box::pin(self.shut_down()).await;
        Ok(())
    }

    /// Runs one cycle; returns how long to sleep after it.
    async fn cycle(&mut self) -> Duration {
        let now = self.clock.now();
        self.update_pause(now);
        self.housekeeper
            .set_terminations_off(self.terminations_off());
        self.follow_kubelet();
        let sample = self.ports.sampler.sample(now);
        self.detect_layout();
        self.update_pods(false);
        let seen = &sample.observations;
        let mut step = self.housekeeper.begin(now, seen);
        self.check_departures(now, false);
        self.observe_reclaim(now, seen);
        self.reclaim_page_cache(now, &sample);
        self.admission.observe(now, &self.housekeeper, seen);
        let commands = self.housekeeper.take_commands();
        self.run_commands(commands);
        self.note_crossings(now);
        let terminations_off = self.terminations_off();
        self.ports.publishers.publish(&Fact::Observed {
            now,
            housekeeper: &self.housekeeper,
            dry_run: terminations_off,
        });
        let notified = self.woken_by.is_notification();
        self.ports.wake_listeners.refresh(now, notified);
        self.ports
            .wake_listeners
            .notify_at(now, &self.housekeeper, seen);
        let pods = &self.active.set().pods;
        self.dedup.forget_ended(now, &self.housekeeper, pods);
        while step != Step::Rest {
            step = self.answer_step(now, step, seen).await;
        }
        let sleep = self.sleep(now, &sample);
        self.publish_cycle(now, &sample, sleep);
        sleep
    }

    /// Fetches the data that a step of the housekeeper asks for, and carries out the resulting decision. Returns the
    /// next step.
    async fn answer_step(&mut self, now: Timestamp, step: Step, seen: &Observations) -> Step {
        match step {
            Step::Rest => Step::Rest,
            Step::LocalStorage => {
                // A pod is known before its runtime has made its cgroup.
                if self.local_storage.lacks_a_cgroup(now, &self.active) {
                    self.update_cgroups(now);
                }
                let set = Arc::clone(self.active.set());
                let reader = &mut self.ports.usage;
                let usage = self.local_storage.usage(now, &self.active, reader);
                let known = usage.as_ref().map(|usage| (&set.pods[..], usage));
                let answer = Answer::LocalStorage(known);
                self.decide(now, answer, usage.as_ref()).await
            }
            Step::Reclaim(want) => self.reclaim(now, want, seen).await,
            Step::Measure(signal) => {
                // The usage of a pod whose cgroup is new would count as the host's.
                if self
                    .active
                    .set()
                    .pods
                    .iter()
                    .any(|pod| pod.cgroup.is_none())
                {
                    self.update_cgroups(now);
                }
                let set = Arc::clone(self.active.set());
                let pods = 0..set.pods.len();
                let usage = self.ports.usage.read_these(now, &set, pods);
                let answer = Answer::Measured(signal, &set.pods, &usage);
                self.decide(now, answer, None).await
            }
            Step::Watch(need) => {
                let set = Arc::clone(self.active.set());
                let usage = self.usage_of_terminating(now, &set);
                let answer = Answer::Watched(need, &set.pods, &usage);
                self.decide(now, answer, None).await
            }
            Step::Rank(need) => self.rank_and_decide(now, need).await,
        }
    }

    async fn decide(
        &mut self,
        now: Timestamp,
        answer: Answer<'_, LocalPod>,
        usage: Option<&Usage>,
    ) -> Step {
        let (next, decisions) = self.housekeeper.answer(now, answer);
        for decision in decisions {
            let measured_at = usage.and_then(|usage| measured_at(&decision, usage));
            self.carry_out(decision, measured_at).await;
        }
        next
    }

    /// Some threshold acts and no pod has to be waited for: ranks the pods and evicts the first.
    async fn rank_and_decide(&mut self, seen: Timestamp, need: UsageNeed) -> Step {
        self.update_cgroups(seen);
        let set = Arc::clone(self.active.set());
        let thresholds = self.housekeeper.first_observed();
        // Figures from before the first crossing do not show which pod caused it.
        let of_signal = thresholds.filter(|(threshold, _)| threshold.signal == need.signal);
        let crossed = of_signal.map(|(_, since)| since).min().unwrap_or(seen);
        let reader = self.ports.usage.with(self.housekeeper.rules(), need.signal);
        let Some(mut usage) = reader.read(seen, need.signal, crossed, &set).await else {
            return self.decide(seen, Answer::NotYet, None).await;
        };
        let (now, fresh) = self.observe_again(seen, need);
        let fresh = (need, fresh.as_ref());
        let ranked = self.housekeeper.rank_for(now, fresh, &set.pods, &usage);
        let Some(ranked) = ranked else {
            return self.decide(now, Answer::NotYet, None).await;
        };
        // The message names the containers of the victim only, so those of other pods are not read.
        if let Some(first) = ranked.iter().find(|pod| pod.spared.is_none()) {
            self.ports
                .usage
                .read_containers(now, &set, first.index, &mut usage)
                .await;
        }
        let answer = Answer::InOrder {
            need,
            pods: &set.pods,
            usage: &usage,
            ranked,
        };
        self.decide(now, answer, Some(&usage)).await
    }

    /// Observes the node again if reading the usage of many pods took so long that an earlier victim may have ended
    /// meanwhile. For disk signals the last observation is used, because filesystems are observed in the background.
    fn observe_again(
        &mut self,
        seen: Timestamp,
        need: UsageNeed,
    ) -> (Timestamp, Option<Observations>) {
        let now = self.clock.now();
        let disk = need.signal.condition() == Some(NodeCondition::DiskPressure);
        if disk || now.duration_since(seen) < MAX_OBSERVATION_AGE {
            return (seen, None);
        }
        let sample = self.ports.sampler.sample(now);
        (now, Some(sample.observations))
    }

    /// Usage of the pods that are leaving, to see whether it shrinks. Reads only those, to leave the CPU to them.
    fn usage_of_terminating(&mut self, now: Timestamp, set: &PodSet) -> Usage {
        let departures = self.housekeeper.departures();
        let pods = set.pods.iter().enumerate();
        let terminating: Vec<usize> = pods
            .filter(|(_, pod)| departures.is_terminating(&pod.uid))
            .map(|(index, _)| index)
            .collect();
        self.ports
            .usage
            .read_these(now, set, terminating.into_iter())
    }

    /// Writes the decision to disk first, so that the next run can finish it; then terminates the pod; then
    /// publishes.
    async fn carry_out(&mut self, decision: Decision, measured_at: Option<Timestamp>) {
        let dry_run = self.terminations_off();
        if (decision.eviction.is_none() || dry_run) && !self.dedup.is_new(&decision) {
            return;
        }
        self.decisions += 1;
        let id = format!("{:x}-{}", decision.time.as_millisecond(), self.decisions);
        let leaving = self.departure(&id, &decision).filter(|_| !dry_run);
        let notice = leaving.as_ref().and_then(|(_, notice)| notice.clone());
        let paused = self.paused().cloned();
        let record = Record {
            dry_run,
            paused: paused.as_ref().map(Pause::record),
            woken_by: Some(self.woken_by.as_str().into()),
            boot_id: Some(self.ports.boot_id.clone()),
            publication: notice.map(record::Publication::waiting),
            ..Record::of_decision(id, &decision)
        };
        let acted_at = self.clock.now();
        let decided = Decided {
            decision: &decision,
            record: &record,
            measured_at,
            acted_at,
            paused: paused.as_ref(),
            asked: leaving.as_ref().is_some_and(|(one, _)| one.asked),
        };
        self.ports.publishers.publish(&Fact::Deciding(&decided));
        if let Some((departure, notice)) = leaving {
            self.dedup.note_evicted(decision.signal);
            self.begin_departure(departure, notice);
            tokio::task::yield_now().await;
        }
        self.ports.publishers.publish(&Fact::Decided(&decided));
    }

    /// The departure that this decision starts, and the notice to the API server; `None` if the decision evicts no
    /// pod.
    fn departure(&self, id: &str, decision: &Decision) -> Option<(Departure, Option<Notice>)> {
        let (now, eviction) = (decision.time, decision.eviction.as_ref()?);
        let set = self.active.set();
        let pod = set.pods.get(eviction.index)?;
        let cgroup = pod.cgroup.as_ref()?;
        let asked = u64::try_from(eviction.grace_period_seconds).unwrap_or(0);
        let grace = Duration::from_secs(asked).max(self.behaviour.least_grace);
        let acting = decision.threshold.as_ref();
        let (crossed_at, clear_at) = acting.map_or((now, now), |acting| {
            (
                acting.first_observed_at,
                self.clear[acting.threshold.signal],
            )
        });
        let purpose = Purpose::Eviction {
            cause: decision.kind,
            signal: decision.signal.to_owned(),
            crossed_at,
            clear_at,
        };
        let name = (id.to_owned(), eviction.pod.clone(), pod.uid.clone());
        let notice = self.notice(id, decision, pod, grace);
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        let mut departure = Departure::new(name, purpose, now, grace);
        departure.cgroup = Some(cgroup.relative.clone());
        departure.owner = decision.owner.as_ref().and_then(|counted| {
            let condition = decision.acting_signal()?.condition()?;
            Some((counted.owner.clone(), condition))
        });
        departure.asked = notice.is_none() && self.asks(decision, &pod.uid);
        if notice.is_some() {
            departure.notice_state = NoticeState::Pending;
        }
        Some((departure, notice))
    }

    /// Detects the filesystem layout (S1-025) once for the directories that are watched; a filesystem that does not answer
    /// delays it.
    fn detect_layout(&mut self) {
        if self.layout.is_some() {
            return;
        }
        let Some(layout) = self.ports.sampler.layout() else {
            return;
        };
        let found = FilesystemLayout {
            dedicated_image_fs: layout.dedicated_image_fs,
            split_container_fs: layout.split_container_fs,
        };
        tracing::info!("{layout}");
        if let Some(problem) = &layout.problem {
            tracing::warn!("{problem}");
        }
        let mut rules = self.housekeeper.rules().clone();
        (rules.layout, rules.runtime_files) = (found, layout.runtime_files);
        self.layout = Some(layout);
        if *self.housekeeper.rules() != rules {
            self.housekeeper.reconfigure(rules);
        }
    }

    fn apply(&mut self, behaviour: Behaviour) {
        let mut rules = behaviour.rules.clone();
        rules.layout = self.housekeeper.rules().layout;
        rules.runtime_files = self.housekeeper.rules().runtime_files;
        rules.kubelet_is_here = self.housekeeper.rules().kubelet_is_here;
        self.ports.sampler.follow(&rules.thresholds);
        self.housekeeper.reconfigure(rules);
        self.sampling_interval = SamplingInterval::new(behaviour.housekeeping_interval);
        self.behaviour = behaviour;
        self.dedup = Dedup::default();
    }

    /// Updates which cgroups exist, and whether a terminated pod runs again.
    fn update_cgroups(&mut self, now: Timestamp) {
        self.update_pods(true);
        self.check_departures(now, true);
    }

    fn take_set(&mut self, set: Arc<PodSet>) {
        let now = self.clock.now();
        self.note_kubelet_evictions(now, &set);
        self.note_deleted(&set);
        if self.active.take(set, self.have_left()) {
            self.pods_changed();
        }
    }

    /// Updates the set of live pods after a pod may have left or run again.
    fn refresh(&mut self) {
        if self.active.refresh(self.have_left()) {
            self.pods_changed();
        }
    }

    fn have_left(&self) -> BTreeSet<String> {
        let departures = self.housekeeper.departures().iter();
        let left = departures.filter(|departure| departure.has_left());
        left.map(|departure| departure.uid.clone()).collect()
    }

    fn pods_changed(&mut self) {
        let without = self.active.without_cgroup();
        self.housekeeper.set_without_cgroup(without);
        self.ports.usage.open(self.active.set());
        if self.watches_disks() {
            let now = self.clock.now();
            self.ports.usage.look_for_layers(now, self.active.set());
        }
    }

    fn note_crossings(&mut self, now: Timestamp) {
        let met = self.housekeeper.first_observed();
        let crossed: SignalMap<bool> = met.map(|(met, _)| (met.signal, true)).collect();
        let io = crossed[Signal::IoPsi];
        self.ports.usage.count_io(io, self.active.set());
        for (signal, clear) in &mut self.clear {
            if !crossed[signal] {
                *clear = now;
            }
        }
    }

    fn publish_cycle(&mut self, now: Timestamp, sample: &Sample, sleep: Duration) {
        let usage_problem = self.ports.usage.problem(now);
        let active = || reclaim::active_pods(&self.active);
        let reclaimable = self.ports.reclaimer.reclaimable(now, active);
        let finished = Cycle {
            now,
            woken_by: self.woken_by,
            usage_problem: usage_problem.as_deref(),
            sample,
            housekeeper: &self.housekeeper,
            layout: self.layout.as_ref(),
            reclaimable,
            pods: self.active.set(),
            sleep,
            dry_run: self.terminations_off(),
            paused: self.ports.pauses.in_force(),
            admission: self.behaviour.admission,
            took: self.clock.now().duration_since(now),
        };
        self.ports.publishers.publish(&Fact::CycleEnded(&finished));
    }

    /// Waits for pods that are being killed, but not for grace periods.
    async fn shut_down(mut self) {
        let last_terminations = async {
            while !self.terminations.is_empty() {
                let ended = self.terminations.ended().await;
                self.note_ended(ended);
            }
        };
        if tokio::time::timeout(SHUTDOWN_WAIT, last_terminations)
            .await
            .is_err()
        {
            tracing::warn!("stopping while pods are still terminating; they are left as they are");
        }
        self.close_cluster().await;
    }
}

/// When the usage that the decision is based on was measured.
fn measured_at(decision: &Decision, usage: &Usage) -> Option<Timestamp> {
    let victim = decision.eviction.as_ref()?.index;
    usage.of(victim)?.measured(decision.resource)
}
