//! The barriers of gangs: no pod of a gang is bound before the claims of all its pods are prepared.

use super::writer::GangBarrier;
use std::collections::HashMap;
use std::sync::Arc;

/// The barriers of pods whose bindings are not begun yet, by key.
#[derive(Default)]
pub(super) struct GangBarriers(HashMap<Arc<str>, GangBarrier>);

impl GangBarriers {
    /// Adds a barrier for each of these lists of pods.
    pub(super) fn add(&mut self, gangs: Vec<Vec<Arc<str>>>) {
        for gang in gangs {
            let barrier = GangBarrier::new(gang.len());
            self.0
                .extend(gang.into_iter().map(|key| (key, barrier.clone())));
        }
    }

    /// Whether bindings wait at a barrier for others that are not begun yet. Those must begin even if many are under way,
    /// or none of them would ever end.
    pub(super) fn wait_for_others(&self) -> bool {
        !self.0.is_empty()
    }

    /// The barrier of a pod whose binding begins.
    pub(super) fn take(&mut self, pod: &str) -> Option<GangBarrier> {
        self.0.remove(pod)
    }
}
