//! Preemptors: pods whose victims are being deleted (S5-112).

use hashbrown::HashMap;
use jiff::Timestamp;
use std::sync::Arc;

/// The deletion of the victims of one pod.
#[derive(Debug)]
pub struct Preemption {
    /// The nominated node.
    pub node: Arc<str>,
    /// When the first deletion was requested.
    pub began: Timestamp,
    /// The API server has not answered all deletions.
    is_under_way: bool,
    /// No watch shows yet that the last victim terminates. Until then another attempt would choose the same victims again.
    gates: bool,
}

/// Every preemptor, by UID.
#[derive(Debug, Default)]
pub(super) struct Preemptions {
    by_pod: HashMap<Arc<str>, Preemption>,
    /// The preemptors that wait for a victim to terminate, by the UID of that victim.
    by_last_victim: HashMap<Arc<str>, Vec<Arc<str>>>,
}

impl Preemptions {
    pub(super) fn get(&self, pod: &str) -> Option<&Preemption> {
        self.by_pod.get(pod)
    }

    pub(super) fn gates(&self, pod: &str) -> bool {
        // Most of the time no pod preempts, and hashing the UID costs more than this check.
        !self.by_pod.is_empty() && self.get(pod).is_some_and(|preemption| preemption.gates)
    }

    /// Returns false if the victims of an earlier attempt are still being deleted.
    pub(super) fn begin(&mut self, now: Timestamp, pod: &Arc<str>, node: &str) -> bool {
        if self.get(pod).is_some_and(|earlier| earlier.is_under_way) {
            return false;
        }
        let preemption = Preemption {
            node: node.into(),
            began: now,
            is_under_way: true,
            gates: true,
        };
        self.by_pod.insert(Arc::clone(pod), preemption);
        true
    }

    /// Keeps the pod gated until a watch shows that this victim terminates.
    pub(super) fn await_victim(&mut self, pod: &str, victim: &str) {
        if let Some((pod, _)) = self.by_pod.get_key_value(pod) {
            let preemptors = self.by_last_victim.entry(victim.into()).or_default();
            preemptors.push(Arc::clone(pod));
        }
    }

    /// Returns the pods that are no longer gated.
    pub(super) fn on_terminating(&mut self, victim: &str) -> Vec<Arc<str>> {
        let mut preemptors = self.by_last_victim.remove(victim).unwrap_or_default();
        preemptors.retain(|pod| self.ungate(pod));
        preemptors
    }

    /// All deletions are answered. Returns whether the pod is still gated.
    pub(super) fn end(&mut self, pod: &str) -> bool {
        let Some(preemption) = self.by_pod.get_mut(pod) else {
            return false;
        };
        preemption.is_under_way = false;
        let gates = preemption.gates;
        // A gated pod still waits for the watch event of its last victim.
        if !gates {
            self.by_pod.remove(pod);
        }
        gates
    }

    pub(super) fn awaits_victim(&self, pod: &str) -> bool {
        let mut awaited = self.by_last_victim.values().flatten();
        awaited.any(|preemptor| **preemptor == *pod)
    }

    /// The pod need not wait for its victims any more. Returns whether it was gated.
    pub(super) fn ungate(&mut self, pod: &str) -> bool {
        if self.by_pod.is_empty() {
            return false;
        }
        let Some(preemption) = self.by_pod.get_mut(pod) else {
            return false;
        };
        let was_gated = std::mem::replace(&mut preemption.gates, false);
        if !preemption.is_under_way {
            self.by_pod.remove(pod);
        }
        self.by_last_victim.retain(|_, pods| {
            pods.retain(|preemptor| **preemptor != *pod);
            !pods.is_empty()
        });
        was_gated
    }
}
