//! What an evicted pod has written outlasts its processes: the disk has it back once somebody cleans up, and until then
//! nobody else has to go for that disk (S1-059).

use super::{Agent, Errand, flight::CLEANUP, flight::Flight};
use evictd_eviction::{NodeCondition, Signal, UsageNeed};
use jiff::Timestamp;
use std::collections::BTreeMap;

/// Pods whose files are still there as far as anybody knows, and until when they are waited for.
#[derive(Debug, Default)]
pub(super) struct Cleanups(BTreeMap<String, Timestamp>);

impl Cleanups {
    fn begin(&mut self, uid: &str, now: Timestamp) {
        let until = now.saturating_add(CLEANUP).unwrap_or(now);
        self.0.insert(uid.to_owned(), until);
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
        !self.0.is_empty() && is_disk(need.signal)
    }
}

fn is_disk(signal: Signal) -> bool {
    signal.condition() == Some(NodeCondition::DiskPressure)
}

impl Agent {
    /// The last process of an evicted pod is gone, and what it held is back, or on its way.
    pub(super) fn evicted_is_gone(&mut self, now: Timestamp, flight: &Flight) {
        let signal = match &flight.errand {
            Errand::Eviction { signal, .. } => Signal::parse(signal),
            Errand::Rejection | Errand::Preemption { .. } => None,
        };
        if !signal.is_some_and(is_disk) {
            return self.housekeeper.gone(&flight.uid);
        }
        tracing::info!(
            EVICTD_POD = flight.pod,
            "waiting at most {} s for what {} has written to be cleaned up",
            CLEANUP.as_secs(),
            flight.pod
        );
        self.cleanups.begin(&flight.uid, now);
        let end = now.saturating_add(CLEANUP).unwrap_or(now);
        self.housekeeper.dying(&flight.uid, end);
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
