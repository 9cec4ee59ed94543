//! Plugin conformance: pods that are critical for the cluster are never evicted (S6-125).

use super::Plugin;
use crate::session::eviction_kind::EvictionKind;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, TaskId};

#[derive(Debug)]
pub(super) struct Conformance;

fn without_critical(snapshot: &Snapshot, candidates: &[TaskId]) -> Vec<TaskId> {
    let candidates = candidates.iter().copied();
    candidates
        .filter(|task| !snapshot.tasks[*task].critical)
        .collect()
}

impl Plugin for Conformance {
    fn unprotected(&self, snapshot: &Snapshot, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(without_critical(snapshot, candidates))
    }

    fn gang_evictable(
        &self,
        snapshot: &Snapshot,
        _: EvictionKind,
        _: JobId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        Some(without_critical(snapshot, candidates))
    }

    fn might_yield(&self, _: &Snapshot, _: JobId, _: JobId) -> Option<bool> {
        Some(true)
    }
}
