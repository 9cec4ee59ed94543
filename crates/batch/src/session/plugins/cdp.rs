//! Plugin cdp: a pod that was bound a short time ago is not evicted (S6-221).

use super::Plugin;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, TaskId};

#[derive(Debug)]
pub(super) struct Cdp;

fn unprotected(snapshot: &Snapshot, candidates: &[TaskId]) -> Vec<TaskId> {
    let now = snapshot.clock();
    let candidates = candidates.iter().copied();
    candidates
        .filter(|task| {
            let until = snapshot.tasks[*task].protected_until();
            until.is_none_or(|until| until <= now)
        })
        .collect()
}

impl Plugin for Cdp {
    fn unprotected(&self, snapshot: &Snapshot, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        Some(unprotected(snapshot, candidates))
    }

    fn might_yield(&self, _: &Snapshot, _: JobId, _: JobId) -> Option<bool> {
        Some(true)
    }
}
