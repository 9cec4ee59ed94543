//! Node-level reclaim within the main loop: which never waits for the container runtime.

use crate::{
    pods::PodSet,
    reclaim::{Answered, Finished, MemoryReclaimer, Progress, Reclaimer, Situation, Target},
};
use evictd_eviction::{Answer, Housekeeper, Reclaim};
use evictd_kernel::signals::Sample;
use evictd_reclaim::{ColdShare, cold_shares};
use evictd_signals::{NodeCondition, Observations, Signal};
use evictd_usage::Usage;
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeSet, time::Duration};

/// While a reclaim is under way, a cycle runs at least this often, to see how much it has freed.
pub(super) const RECLAIM_INTERVAL: Duration = Duration::from_millis(100);
/// The period of checks for the container runtime's socket.
const SOCKET_PERIOD: SignedDuration = SignedDuration::from_secs(10);

/// A static pod is listed by the UID of its mirror, and the runtime knows it by this one.
const OF_STATIC_PODS: [&str; 2] = ["kubernetes.io/config.mirror", "kubernetes.io/config.hash"];

/// Frees space and page cache, so that a pod need not be evicted.
pub struct NodeReclaim {
    /// Removes dead containers and unused images.
    pub(super) reclaimer: Reclaimer,
    memory: MemoryReclaimer,
    /// When it was last looked whether the container runtime's socket is there.
    socket_looked_for: Option<Timestamp>,
}

impl NodeReclaim {
    /// Nothing is under way yet.
    pub const fn new(reclaimer: Reclaimer, memory: MemoryReclaimer) -> Self {
        Self {
            reclaimer,
            memory,
            socket_looked_for: None,
        }
    }

    /// Reports the available space to a reclaim under way; returns it if that ends it.
    pub(super) fn observe(
        &mut self,
        now: Timestamp,
        housekeeper: &Housekeeper,
        seen: &Observations,
        dry_run: bool,
    ) -> Option<Finished> {
        let under_way = self.reclaimer.under_way();
        let relieved = |want: Reclaim| housekeeper.disks_relieved(seen, &want);
        let situation = Situation {
            seen,
            relieved: under_way.is_some_and(relieved),
            watched: watches_disks(housekeeper),
            near: housekeeper.is_disk_near(seen),
            dry_run,
        };
        self.reclaimer.observe(now, &situation)
    }

    /// The answer to [`evictd_eviction::Step::Reclaim`]: begins one if none is under way. The amount that it may still
    /// free decides whether pods are ranked beside it.
    pub(super) fn ask<'a, P>(
        &mut self,
        now: Timestamp,
        want: Reclaim,
        situation: &Situation<'a>,
        active: &super::Active,
    ) -> Answer<'a, P> {
        match self
            .reclaimer
            .ask(now, want, situation, || active_pods(active))
        {
            Progress::Off => Answer::Reclaimed(None),
            Progress::UnderWay(outlook) => Answer::Reclaiming(outlook),
            Progress::Over => Answer::Reclaimed(Some(situation.seen)),
        }
    }

    /// The next answer of the container runtime. Cancel safe.
    pub(super) async fn answered(&mut self) -> Answered {
        self.reclaimer.answered().await
    }

    /// Takes an answer of the container runtime; returns the reclaim if that ends it.
    pub(super) fn on_answer(&mut self, now: Timestamp, answered: Answered) -> Option<Finished> {
        self.reclaimer.on_answer(now, answered)
    }

    /// The reclaim of page cache that has ended since the last call.
    pub(super) fn page_cache_finished(&mut self) -> Option<Finished> {
        let reclaimed = self.memory.finished()?;
        let signal = Signal::MemoryAvailable;
        Some(Finished { signal, reclaimed })
    }

    /// How much page cache pods should give now. While a soft memory threshold waits for its grace period, pods give
    /// page cache above their requests. Not where there is swap, because the kernel would write their memory to it
    /// instead.
    pub(super) fn page_cache_wanted(
        &self,
        now: Timestamp,
        housekeeper: &Housekeeper,
        sample: &Sample,
    ) -> Option<u64> {
        let has_swap = sample.swap.is_none_or(|swap| swap.total > 0);
        // An unknown amount of swap counts as some: reclaim could then write memory to it.
        if has_swap || !self.memory.is_due(now) {
            return None;
        }
        housekeeper.cold_memory_wanted(now, &sample.observations)
    }

    /// Begins to reclaim page cache of the pods.
    pub(super) fn begin_page_cache(
        &mut self,
        now: Timestamp,
        short: u64,
        set: &PodSet,
        usage: &Usage,
    ) {
        let target = |share: &ColdShare| {
            let pod = &set.pods[share.index];
            Some(Target {
                pod: pod.full_name(),
                cgroup: pod.cgroup.as_ref()?.relative.clone(),
                bytes: share.bytes,
            })
        };
        let shares = cold_shares(short, &set.pods, usage);
        let targets = shares.iter().filter_map(target).collect();
        self.memory.begin(now, short, targets);
    }

    /// Whether something is being reclaimed.
    pub(super) fn is_busy(&self) -> bool {
        self.reclaimer.is_busy() || self.memory.is_busy()
    }

    /// Disk evictions that wait for a container runtime begin once its socket exists.
    pub(super) fn look_for_socket(&mut self, now: Timestamp, housekeeper: &mut Housekeeper) {
        let recent = |last: Timestamp| now.duration_since(last) < SOCKET_PERIOD;
        let withheld = housekeeper.rules().withhold_disk_evictions.is_some();
        if !withheld || self.socket_looked_for.is_some_and(recent) {
            return;
        }
        self.socket_looked_for = Some(now);
        if self.reclaimer.is_socket_there() {
            let mut rules = housekeeper.rules().clone();
            // Once its socket was there, a runtime that goes away later is one that does not answer.
            rules.withhold_disk_evictions = None;
            housekeeper.reconfigure(rules);
            self.reclaimer.retry();
        }
    }
}

/// Whether any threshold is on a disk signal.
pub(super) fn watches_disks(housekeeper: &Housekeeper) -> bool {
    let mut thresholds = housekeeper.thresholds();
    let disk = Some(NodeCondition::DiskPressure);
    thresholds.any(|threshold| threshold.signal.condition() == disk)
}

/// UIDs of the pods that run or are about to; `None` if they are not certain.
pub(super) fn active_pods(active: &super::Active) -> Option<BTreeSet<String>> {
    let set = active.set();
    // With an uncertain list a running pod might be missing, and its images would be removed.
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
