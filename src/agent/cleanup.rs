//! What an evicted pod has written outlasts its processes: the disk has it back once somebody cleans up, and until then
//! nobody else has to go for that disk (S1-059).

use super::{Agent, flight::CLEANUP, flight::Flight};
use crate::clock;
use evictd_eviction::{NodeCondition, UsageNeed};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Pods whose files are still there as far as anybody knows, and until when they are waited for.
#[derive(Debug, Default)]
pub(super) struct Cleanups(BTreeMap<String, Timestamp>);

impl Cleanups {
    /// Answers until when they are waited for.
    fn begin(&mut self, uid: &str, now: Timestamp) -> Timestamp {
        let until = clock::after(now, CLEANUP);
        self.0.insert(uid.to_owned(), until);
        until
    }

    /// Forgets those that are over, because nobody lists the pod any more or it takes too long; who they are.
    fn take_over(&mut self, now: Timestamp, is_listed: impl Fn(&str) -> bool) -> Vec<String> {
        let mut over = Vec::new();
        self.0.retain(|uid, until| {
            let waits = now < *until && is_listed(uid);
            if !waits {
                over.push(uid.clone());
            }
            waits
        });
        over
    }

    /// Whether the next victim for this has to wait.
    pub(super) fn block(&self, need: UsageNeed) -> bool {
        !self.0.is_empty() && is_of_disk(need.signal.condition())
    }
}

fn is_of_disk(condition: Option<NodeCondition>) -> bool {
    condition == Some(NodeCondition::DiskPressure)
}

impl Agent {
    /// The last process of an evicted pod is gone, and what it held is back, or on its way.
    pub(super) fn evicted_is_gone(&mut self, now: Timestamp, flight: &Flight) {
        if !is_of_disk(flight.errand.condition()) {
            return self.housekeeper.gone(&flight.uid);
        }
        tracing::info!(
            EVICTD_POD = flight.pod,
            "waiting at most {} s for what {} has written to be cleaned up",
            CLEANUP.as_secs(),
            flight.pod
        );
        let until = self.cleanups.begin(&flight.uid, now);
        self.housekeeper.dying(&flight.uid, until);
    }

    /// Takes note of files that are gone, as far as anybody knows.
    pub(super) fn look_at_cleanups(&mut self, now: Timestamp) {
        let active = &self.active;
        for uid in self.cleanups.take_over(now, |uid| active.is_listed(uid)) {
            self.housekeeper.gone(&uid);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_eviction::Signal;
    use jiff::SignedDuration;

    #[test]
    fn s1_059_only_disks_wait_for_files_until_they_are_gone_or_it_takes_too_long() {
        let need = |signal| UsageNeed { signal, hard: true };
        let mut cleanups = Cleanups::default();
        let now = Timestamp::UNIX_EPOCH;
        cleanups.begin("one", now);
        assert!(cleanups.take_over(now, |_| true).is_empty());
        assert!(cleanups.block(need(Signal::NodefsInodesFree)));
        assert!(!cleanups.block(need(Signal::MemoryAvailable)));
        assert_eq!(cleanups.take_over(now, |_| false), ["one"]);
        assert!(!cleanups.block(need(Signal::NodefsInodesFree)));
        cleanups.begin("two", now);
        let almost = now + CLEANUP - SignedDuration::from_millis(1);
        assert!(cleanups.take_over(almost, |_| true).is_empty());
        assert_eq!(cleanups.take_over(now + CLEANUP, |_| true), ["two"]);
    }
}
