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
mod contents;
mod dedup;
mod departures;
mod hook;
mod local_storage;
mod near_misses;
mod notes;
mod pause;
mod ports;
mod reclaim;
mod sleep;
pub(crate) mod start;
mod terminations;
#[cfg(test)]
mod tests;
mod timer;
mod unfinished;

pub(crate) use allocatable::Allocatable;
pub(crate) use cluster::Cluster;
pub(crate) use pause::Pauses;
pub(crate) use ports::{Behaviour, Ports};
pub(crate) use reclaim::NodeReclaim;
pub(crate) use terminations::Terminations;
pub(crate) use timer::Timer;
pub(crate) use unfinished::Unfinished;

use crate::{
    evict::EvictError,
    fact::{Cycle, Fact},
    pods::{LocalPod, PodSet},
    reclaim::{Finished, Situation},
    server::state::Question,
};
use active::Active;
use allocatable::COUNTS_HUGE_PAGES_SINCE;
use dedup::Dedup;
use evictd_decision::{Decision, record::Record};
use evictd_departures::{Departures, Event};
use evictd_eviction::{Answer, Housekeeper, Rules, Step, rules::FilesystemLayout};
use evictd_kernel::{
    clock::Clock,
    signals::{Layout, Sample},
    wake::WokenBy,
};
use evictd_signals::{NodeCondition, Observations, Signal, SignalMap};
use evictd_usage::{Usage, UsageNeed};
use jiff::{SignedDuration, Timestamp};
use sleep::Sleep;
use std::{collections::BTreeSet, mem::take, sync::Arc, time::Duration};
use terminations::TerminationEvent;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// An observation older than this must be repeated before a pod may be evicted for it.
const MAX_OBSERVATION_AGE: SignedDuration = SignedDuration::from_millis(50);
/// How long to wait for pods that are being killed when the agent stops.
const SHUTDOWN_WAIT: Duration = Duration::from_secs(2);

/// The daemon's main loop and its state.
pub struct Agent {
    clock: Clock,
    behaviour: Behaviour,
    housekeeper: Housekeeper,
    sleep: Sleep,
    ports: Ports,
    active: Active,
    /// For each signal the last observation that was not past its threshold.
    clear: SignalMap<Timestamp>,
    dedup: Dedup,
    layout: Option<Layout>,
    decisions: u64,
    woken_by: WokenBy,
    local_storage: local_storage::LocalStorageCheck,
    admission: admission::Admission,
}

impl Agent {
    /// An agent before its first cycle.
    pub fn new(clock: Clock, behaviour: Behaviour, mut ports: Ports) -> Self {
        let now = clock.now();
        ports.sampler.follow(&behaviour.rules.thresholds);
        let (unfinished, kept) = (take(&mut ports.unfinished), take(&mut ports.kept));
        ports.terminations.hooks.set(behaviour.hook.clone());
        let mut agent = Self {
            housekeeper: Housekeeper::new(Rules {
                kubelet_is_here: !ports.allocatable.is_machine(),
                ..behaviour.rules.clone()
            }),
            sleep: Sleep::new(behaviour.housekeeping_interval),
            clock,
            behaviour,
            ports,
            active: Active::default(),
            clear: SignalMap::from_fn(|_| now),
            dedup: Dedup::default(),
            layout: None,
            decisions: 0,
            woken_by: WokenBy::default(),
            local_storage: local_storage::LocalStorageCheck::default(),
            admission: admission::Admission::default(),
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
            // The branches below that set no cause were asked from outside.
            self.woken_by = WokenBy::Request;
            tokio::select! {
                () = self.ports.timer.after(sleep) => self.woken_by = WokenBy::Sleep,
                by = self.ports.wake_listeners.notified() => self.woken_by = by,
                event = self.ports.terminations.next() => {
                    if let TerminationEvent::Ended(_) = event {
                        self.woken_by = WokenBy::Departure;
                    }
                    if let Some(error) = self.note_termination(event) {
                        return Err(error);
                    }
                }
                () = self.ports.pod_cache.changed() => self.woken_by = WokenBy::Pods,
                () = self.ports.usage.measured() => {}
                answered = self.ports.reclaim.answered() => {
                    let now = self.clock.now();
                    let finished = self.ports.reclaim.on_answer(now, answered);
                    self.note_reclaimed(now, finished);
                }
                Some(question) = questions.recv() => self.answer(question).await,
                Some(behaviour) = changes.recv() => self.apply(*behaviour),
                () = stop.cancelled() => break,
            }
        }
        // On the heap: the future of the loop stays in memory for as long as the daemon runs.
        Box::pin(self.shut_down()).await;
        Ok(())
    }

    /// Runs one cycle; returns how long to sleep after it.
    async fn cycle(&mut self) -> Duration {
        let now = self.clock.now();
        // After a change of the pause the same state means something else, so it is published again.
        if self.ports.pauses.update(now) {
            self.dedup = Dedup::default();
        }
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
        let reclaims = self.ports.reclaim.is_busy();
        let sleep = self.sleep.after(now, &self.housekeeper, &sample, reclaims);
        self.publish_cycle(now, &sample, sleep);
        near_misses::note(self, now, &sample, sleep);
        sleep
    }

    /// Fetches the data that a step of the housekeeper asks for, and carries out the decision. Returns the next step.
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
            Step::Reclaim(want) => {
                let situation = Situation {
                    seen,
                    relieved: false,
                    watched: true,
                    near: true,
                    dry_run: self.terminations_off(),
                };
                let reclaim = &mut self.ports.reclaim;
                let answer = reclaim.ask(now, want, &situation, &self.active);
                self.decide(now, answer, None).await
            }
            Step::Measure(signal) => {
                // The usage of a pod whose cgroup is new would count as the host's.
                let mut pods = self.active.set().pods.iter();
                if pods.any(|pod| pod.cgroup.is_none()) {
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
        // The earliest of several thresholds counts: each of them may be the one that acts.
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
        // Kept also where the rules stay the same, for the status page and for `evictd disk`.
        self.layout = Some(layout);
        if *self.housekeeper.rules() != rules {
            self.housekeeper.reconfigure(rules);
        }
    }

    fn apply(&mut self, behaviour: Behaviour) {
        let mut rules = behaviour.rules.clone();
        // These three are detected and not configured, so a new configuration does not have them.
        rules.layout = self.housekeeper.rules().layout;
        rules.runtime_files = self.housekeeper.rules().runtime_files;
        rules.kubelet_is_here = self.housekeeper.rules().kubelet_is_here;
        self.ports.sampler.follow(&rules.thresholds);
        self.housekeeper.reconfigure(rules);
        self.sleep.set_longest(behaviour.housekeeping_interval);
        self.ports.terminations.hooks.set(behaviour.hook.clone());
        self.behaviour = behaviour;
        // Under changed settings every lasting state is published again, as at a start.
        self.dedup = Dedup::default();
    }

    /// Updates the set of pods (with `fresh` also the existing cgroups), and carries out the decisions about new ones.
    fn update_pods(&mut self, fresh: bool) {
        let has_cluster = self.ports.terminations.has_cluster();
        // Without the API server a kubelet starts a rejected pod again. A machine of our own has no kubelet.
        let can_reject = has_cluster || self.ports.allocatable.is_machine();
        let situation = admission::Situation {
            now: self.clock.now(),
            mode: self.behaviour.admission,
            acts: !self.terminations_off() && can_reject,
            housekeeper: &self.housekeeper,
            room: &self.ports.allocatable,
            again: fresh,
        };
        let set = self.admission.check(&mut self.ports.pod_cache, &situation);
        self.take_set(set);
        for decision in self.admission.take_decisions(&self.active) {
            self.carry_out_admission(decision);
        }
    }

    /// Follows the resources that this node's kubelet counts and enforces, once its version is known.
    fn follow_kubelet(&mut self) {
        let Some(version) = self.ports.allocatable.kubelet() else {
            return;
        };
        self.housekeeper.follow_kubelet(version);
        // With evictd's own rules the sampler always does.
        if version >= COUNTS_HUGE_PAGES_SINCE {
            self.ports.sampler.subtract_huge_pages(true);
        }
    }

    /// Follows a reclaim under way, and the filesystems where the runtime keeps its files, once it has reported them.
    fn observe_reclaim(&mut self, now: Timestamp, seen: &Observations) {
        let dry_run = self.terminations_off();
        let reclaim = &mut self.ports.reclaim;
        reclaim.look_for_socket(now, &mut self.housekeeper);
        let places = reclaim.reclaimer.places();
        if let Some(paths) = self.ports.filesystems.follow(places) {
            self.ports.sampler.watch(paths);
            self.layout = None;
        }
        let finished = reclaim.observe(now, &self.housekeeper, seen, dry_run);
        self.note_reclaimed(now, finished);
    }

    /// Reclaims page cache of pods while a soft memory threshold waits for its grace period.
    fn reclaim_page_cache(&mut self, now: Timestamp, sample: &Sample) {
        // Also while nothing is terminated: a reclaim may have begun before.
        let finished = self.ports.reclaim.page_cache_finished();
        self.note_reclaimed(now, finished);
        if self.terminations_off() {
            return;
        }
        let reclaim = &self.ports.reclaim;
        let Some(short) = reclaim.page_cache_wanted(now, &self.housekeeper, sample) else {
            return;
        };
        self.update_cgroups(now);
        let set = Arc::clone(self.active.set());
        let every_pod = 0..set.pods.len();
        let usage = self.ports.usage.read_these(now, &set, every_pod);
        let reclaim = &mut self.ports.reclaim;
        reclaim.begin_page_cache(now, short, &set, &usage);
    }

    fn note_reclaimed(&mut self, now: Timestamp, finished: Option<Finished>) {
        let Some(Finished { signal, reclaimed }) = finished else {
            return;
        };
        self.decisions += 1;
        let id = format!("{:x}-{}", now.as_millisecond(), self.decisions);
        let record = Record {
            boot_id: Some(self.ports.boot_id.clone()),
            ..Record::of_reclaim(id, now, signal, reclaimed)
        };
        self.ports.publishers.publish(&Fact::Reclaimed(&record));
    }

    /// Whether decisions are only published.
    fn terminations_off(&self) -> bool {
        self.behaviour.dry_run || self.ports.pauses.in_force().is_some()
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

    /// Checks whether the kubelet has begun to evict a pod of the previous set. That counts like an eviction of
    /// evictd, so that no second pod is killed for the same shortage.
    fn note_kubelet_evictions(&mut self, now: Timestamp, next: &PodSet) {
        let before = Arc::clone(self.active.set());
        for uid in &next.evicted {
            // Its status shows the eviction in every later list, too.
            if self.active.was_evicted_by_kubelet(uid)
                || self.housekeeper.departures().get(uid).is_some()
            {
                continue;
            }
            let Some(pod) = before.pods.iter().find(|pod| pod.uid == *uid) else {
                continue;
            };
            tracing::info!(
                EVICTD_POD = pod.full_name(),
                EVICTD_POD_UID = uid,
                "the kubelet evicts {pod}; no other pod is evicted until its resources are free"
            );
            if let Some(cgroup) = &pod.cgroup {
                let names = (pod.full_name(), uid.clone());
                let cgroup = cgroup.relative.clone();
                let departure = Departures::kubelet_eviction(now, names, cgroup);
                self.report(Event::Begin(Box::new(departure)));
            }
        }
    }

    /// Tracks pods that are no longer listed but still run: their kubelet has their grace period to end them.
    fn note_deleted(&mut self, next: &PodSet) {
        for still_running in &next.still_running {
            let (pod, uid) = (still_running.pod.full_name(), still_running.pod.uid.clone());
            if self.housekeeper.departures().get(&uid).is_some() {
                continue;
            }
            let grace =
                SignedDuration::try_from(still_running.grace).unwrap_or(SignedDuration::MAX);
            let cgroup = still_running.cgroup.relative.clone();
            let departure = Departures::deleted(still_running.since, (pod, uid), cgroup, grace);
            self.report(Event::Begin(Box::new(departure)));
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
        if reclaim::watches_disks(&self.housekeeper) {
            let now = self.clock.now();
            // New containers have no counted layers yet, and a decision on a disk would wait for them.
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
        let reclaimer = &mut self.ports.reclaim.reclaimer;
        let reclaimable = reclaimer.reclaimable(now, active);
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

    /// Waits for pods that are being killed, but not for hooks and grace periods.
    async fn shut_down(mut self) {
        self.ports.terminations.end_hooks();
        let closing = tokio::spawn(self.ports.near_misses.close());
        let last_terminations = async {
            while !self.ports.terminations.is_empty() {
                let event = self.ports.terminations.next().await;
                self.note_termination(event);
            }
        };
        if tokio::time::timeout(SHUTDOWN_WAIT, last_terminations)
            .await
            .is_err()
        {
            tracing::warn!("stopping while pods are still terminating; they are left as they are");
        }
        let _ = closing.await;
        self.close_cluster().await;
    }
}

/// When the usage that the decision is based on was measured.
fn measured_at(decision: &Decision, usage: &Usage) -> Option<Timestamp> {
    let victim = decision.eviction.as_ref()?.index;
    usage.of(victim)?.measured(decision.resource)
}
