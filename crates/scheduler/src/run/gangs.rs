//! Which pods of gangs are bound only all together.

use super::writer::Together;
use std::collections::HashMap;
use std::sync::Arc;

/// Pods, by key, whose bindings are not begun yet and wait for each other's claims.
#[derive(Default)]
pub(super) struct Gangs(HashMap<Arc<str>, Together>);

impl Gangs {
    /// None of the pods in one list is bound before what the claims of all of them need is done.
    pub(super) fn decided(&mut self, gangs: Vec<Vec<Arc<str>>>) {
        for gang in gangs {
            let all = Together::new(gang.len());
            self.0
                .extend(gang.into_iter().map(|key| (key, all.clone())));
        }
    }

    /// Whether bindings that were begun wait for others that were not: those must be begun whatever else is under way.
    pub(super) fn wait_for_others(&self) -> bool {
        !self.0.is_empty()
    }

    /// With what others a pod is bound, by key. To be asked once.
    pub(super) fn of(&mut self, pod: &str) -> Option<Together> {
        self.0.remove(pod)
    }
}
