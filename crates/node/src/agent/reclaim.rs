//! Node-level reclaim within the main loop: which never waits for the container runtime.

use super::Agent;
use crate::{
    fact::Fact,
    reclaim::{Answered, Finished, Progress, Situation, Target},
};
use evictd_eviction::{
    Answer, NodeCondition, Observations, Reclaim, Signal, Step,
    reclaim::{ColdShare, cold_shares},
    record::Record,
};
use evictd_kernel::signals::Sample;
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeSet, sync::Arc, time::Duration};

/// While a reclaim is under way, a cycle runs at least this often, to see how much it has freed.
pub(super) const RECLAIM_INTERVAL: Duration = Duration::from_millis(100);
/// The period of checks for the container runtime's socket.
const SOCKET_PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// A static pod is listed by the UID of its mirror, and the runtime knows it by this one.
const OF_STATIC_PODS: [&str; 2] = ["kubernetes.io/config.mirror", "kubernetes.io/config.hash"];

impl Agent {
    /// Reports the available space to a reclaim under way.
    pub(super) fn observe_reclaim(&mut self, now: Timestamp, seen: &Observations) {
        self.look_for_socket(now);
        self.follow_runtime();
        let under_way = self.ports.reclaimer.under_way();
        let relieved = |want: Reclaim| self.housekeeper.disks_relieved(seen, &want);
        let situation = Situation {
            seen,
            relieved: under_way.is_some_and(relieved),
            watched: self.watches_disks(),
            near: self.housekeeper.is_disk_near(seen),
            dry_run: self.terminations_off(),
        };
        let finished = self.ports.reclaimer.observe(now, &situation);
        self.note_reclaimed(now, finished);
    }

    /// The answer to [`Step::Reclaim`]: begins one if none is under way. The amount that it may still free decides
    /// whether pods are ranked beside it.
    pub(super) async fn reclaim(
        &mut self,
        now: Timestamp,
        want: Reclaim,
        seen: &Observations,
    ) -> Step {
        let situation = Situation {
            seen,
            relieved: false,
            watched: true,
            near: true,
            dry_run: self.terminations_off(),
        };
        let active = &self.active;
        let known = || active_pods(active);
        let progress = self.ports.reclaimer.ask(now, want, &situation, known);
        let answer = match progress {
            Progress::Off => Answer::Reclaimed(None),
            Progress::UnderWay(outlook) => Answer::Reclaiming(outlook),
            Progress::Over => Answer::Reclaimed(Some(seen)),
        };
        self.decide(now, answer, None).await
    }

    /// While a soft memory threshold waits for its grace period, pods give page cache above their requests. Not where
    /// there is swap, because the kernel would write their memory to it instead.
    pub(super) fn reclaim_page_cache(&mut self, now: Timestamp, sample: &Sample) {
        if let Some(reclaimed) = self.ports.memory_reclaimer.finished() {
            let signal = Signal::MemoryAvailable;
            self.note_reclaimed(now, Some(Finished { signal, reclaimed }));
        }
        let has_swap = sample.swap.is_none_or(|swap| swap.total > 0);
        if has_swap || self.terminations_off() || !self.ports.memory_reclaimer.is_due(now) {
            return;
        }
        let Some(short) = self
            .housekeeper
            .cold_memory_wanted(now, &sample.observations)
        else {
            return;
        };
        self.update_cgroups(now);
        let set = Arc::clone(self.active.set());
        let every_pod = 0..set.pods.len();
        let usage = self.ports.usage.read_these(now, &set, every_pod);
        let target = |share: &ColdShare| {
            let pod = &set.pods[share.index];
            Some(Target {
                pod: pod.full_name(),
                cgroup: pod.cgroup.as_ref()?.relative.clone(),
                bytes: share.bytes,
            })
        };
        let shares = cold_shares(short, &set.pods, &usage);
        let targets = shares.iter().filter_map(target).collect();
        self.ports.memory_reclaimer.begin(now, short, targets);
    }

    pub(super) fn reclaim_answered(&mut self, answered: Answered) {
        let now = self.clock.now();
        let finished = self.ports.reclaimer.on_answer(now, answered);
        self.note_reclaimed(now, finished);
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

    /// Watches the filesystems where the runtime keeps its files, once it has reported them.
    fn follow_runtime(&mut self) {
        let places = self.ports.reclaimer.places();
        if let Some(paths) = self.ports.filesystems.follow(places) {
            self.ports.sampler.watch(paths);
            self.layout = None;
        }
    }

    pub(super) fn watches_disks(&self) -> bool {
        let mut thresholds = self.housekeeper.thresholds();
        let disk = Some(NodeCondition::DiskPressure);
        thresholds.any(|threshold| threshold.signal.condition() == disk)
    }

    /// Disk evictions that wait for a container runtime begin once its socket exists.
    fn look_for_socket(&mut self, now: Timestamp) {
        let recent = |last: Timestamp| now.duration_since(last) < SOCKET_PERIOD;
        let withheld = self.housekeeper.rules().withhold_disk_evictions.is_some();
        if !withheld || self.socket_looked_for.is_some_and(recent) {
            return;
        }
        self.socket_looked_for = Some(now);
        if self.ports.reclaimer.is_socket_there() {
            let mut rules = self.housekeeper.rules().clone();
            rules.withhold_disk_evictions = None;
            self.housekeeper.reconfigure(rules);
            self.ports.reclaimer.retry();
        }
    }
}

/// UIDs of the pods that run or are about to; `None` if they are not certain.
pub(super) fn active_pods(active: &super::Active) -> Option<BTreeSet<String>> {
    let set = active.set();
    if !set.is_certain() {
        return None;
    }
    let listed = set.pods.iter().filter(|pod| !pod.terminal);
    let uids = listed.flat_map(|pod| {
        let of_static = OF_STATIC_PODS
            .iter()
            .filter_map(|key| pod.annotations.get(key));
        std::iter::once(pod.uid.as_str()).chain(of_static)
    });
    let unknown = set.unknown.iter().map(|group| group.uid.as_str());
    let still_running = set.still_running.iter();
    let still_running = still_running.map(|one| one.pod.uid.as_str());
    let all = uids.chain(unknown).chain(still_running);
    Some(all.map(str::to_owned).collect())
}
