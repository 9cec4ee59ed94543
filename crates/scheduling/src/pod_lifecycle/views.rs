//! Read access to the lifecycles.

use super::placed::{Placed, Stage};
use super::{Binding, Phase, PodLifecycles, Preemption, WaitingPod};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

impl<E> PodLifecycles<E> {
    pub(crate) fn phase(&self, pod: &str) -> Option<Phase> {
        let placed = self.placed.get(pod).and_then(Placed::phase);
        let in_flight = || self.queue.is_in_flight(pod).then_some(Phase::InFlight);
        let waits = || self.queue.pool(pod).map(Phase::from);
        placed.or_else(in_flight).or_else(waits)
    }

    /// The node that the pod counts on although no watch shows it there.
    pub(crate) fn assumed_node(&self, pod: &str) -> Option<&Arc<str>> {
        let placed = self.placed.get(pod)?;
        placed.takes_room.then_some(&placed.node)
    }

    /// Whether the pod has a node and could still be sent back to the queue.
    pub(crate) fn is_placed(&self, pod: &str) -> bool {
        let placed = self.placed.get(pod).and_then(Placed::phase);
        matches!(
            placed,
            Some(Phase::Assumed | Phase::Permit | Phase::Binding)
        )
    }

    /// Whether the pod was assumed and no watch shows its node yet.
    pub(crate) fn is_assumed(&self, pod: &str) -> bool {
        self.placed
            .get(pod)
            .and_then(Placed::phase)
            .is_some_and(|phase| phase != Phase::Assigned)
    }

    /// Whether the API server has not answered yet whether a pod of this UID was bound.
    pub(crate) fn awaits_answer(&self, pod: &str) -> bool {
        self.placed.get(pod).is_some_and(Placed::awaits_answer)
    }

    /// The node that a batch session has chosen for the pod, if no watch shows it yet.
    pub(crate) fn node_of_session(&self, pod: &str) -> Option<&Arc<str>> {
        let placed = self.placed.get(pod).filter(|placed| placed.is_of_session)?;
        let is_shown = !matches!(placed.stage, Stage::Binding(_) | Stage::Bound);
        (!is_shown).then_some(&placed.node)
    }

    /// When a batch session decided to evict the pod, if no watch shows yet that it terminates.
    pub(crate) fn evicted_at(&self, pod: &str) -> Option<Timestamp> {
        self.evictions.get(pod).copied()
    }

    /// The bindings that are not answered, of pods that still exist.
    pub(crate) fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.placed.values().filter_map(Placed::binding)
    }

    pub(crate) fn arrived(&self, pod: &str) -> Option<Timestamp> {
        let entry = self.placed.get(pod).and_then(|placed| match &placed.stage {
            Stage::Binding(parts) => parts.entry.as_ref(),
            _ => None,
        });
        match entry {
            Some(entry) => entry.arrived(),
            None => self.queue.arrived(pod),
        }
    }

    pub(crate) const fn has_waiting_pods(&self) -> bool {
        self.permits > 0
    }

    pub(crate) fn waiting_pod(&self, pod: &str) -> Option<&WaitingPod> {
        self.placed.get(pod)?.waiting()
    }

    /// The pods in [`Phase::Permit`], in no order.
    fn waiting_pods(&self) -> impl Iterator<Item = (&Arc<str>, &WaitingPod)> {
        let placed = self.placed.iter().filter(|_| self.permits > 0);
        placed.filter_map(|(pod, placed)| Some((pod, placed.waiting()?)))
    }

    /// The pods in [`Phase::Permit`], in the order of their UIDs.
    pub(crate) fn waiting_uids(&self) -> Vec<Arc<str>> {
        let mut pods: Vec<Arc<str>> = self
            .waiting_pods()
            .map(|(pod, _)| Arc::clone(pod))
            .collect();
        pods.sort_unstable();
        pods
    }

    /// The pods of a gang in [`Phase::Permit`], in the order of their UIDs.
    pub(crate) fn waiting_gang(&self, gang: &str) -> Vec<Arc<str>> {
        let of_gang = |waiting: &WaitingPod| waiting.gang.as_deref() == Some(gang);
        let mut pods: Vec<Arc<str>> = self
            .waiting_pods()
            .filter(|(_, waiting)| of_gang(waiting))
            .map(|(pod, _)| Arc::clone(pod))
            .collect();
        pods.sort_unstable();
        pods
    }

    /// Takes the pod out of [`Phase::Permit`]; it stays assumed.
    pub(crate) fn take_waiting_pod(&mut self, pod: &str) -> Option<WaitingPod> {
        let placed = self.placed.get_mut(pod)?;
        placed.waiting()?;
        self.permits -= 1;
        match std::mem::replace(&mut placed.stage, Stage::Assumed) {
            Stage::Permit(waiting) => Some(*waiting),
            _ => None,
        }
    }

    /// The gangs in [`Phase::Permit`] whose pods all have every permit, by name.
    pub(crate) fn permitted_gangs(&self) -> Vec<Arc<str>> {
        let mut gangs: BTreeMap<&Arc<str>, bool> = BTreeMap::new();
        for (_, waiting) in self.waiting_pods() {
            if let Some(gang) = &waiting.gang {
                *gangs.entry(gang).or_insert(true) &= waiting.pending.is_empty();
            }
        }
        gangs
            .into_iter()
            .filter(|(_, is_permitted)| *is_permitted)
            .map(|(gang, _)| Arc::clone(gang))
            .collect()
    }

    /// The deletion of the victims of a pod, while it is under way or gates the pod.
    pub(crate) fn preemption(&self, pod: &str) -> Option<&Preemption> {
        self.preemptions.get(pod)
    }

    /// Whether a pod waits until its last victim terminates.
    pub(crate) fn awaits_victims(&self, pod: &str) -> bool {
        self.preemptions.gates(pod)
    }

    pub(crate) fn nominated_node(&self, pod: &str) -> Option<&Arc<str>> {
        self.nominations.node_of(pod)
    }

    /// The pods that are nominated on the node, in the order of nomination.
    pub(crate) fn nominated_on(&self, node: &str) -> &[Arc<str>] {
        self.nominations.on(node)
    }

    /// Nodes by name, with the pods that are nominated on them.
    pub(crate) fn nominations(&self) -> impl Iterator<Item = (&str, &[Arc<str>])> {
        self.nominations.iter()
    }
}
