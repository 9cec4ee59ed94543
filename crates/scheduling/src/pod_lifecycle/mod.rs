//! The life of a pod that is being scheduled. This module alone knows in which phase each pod is, which node it holds and
//! which node is nominated for it.
//!
//! ```text
//!                 Pending
//!                    |
//!    Gated, Active, Backoff, ErrorBackoff, Unschedulable <---+
//!                    | pop                                   |
//!                InFlight ------------------------- Failed --+
//!                    | Assumed                               |
//!                Assumed -- Delayed --> Permit --- Failed ---+
//!                    |                    |                  |
//!                    +------- Done -------+                  |
//!                    |                                       |
//!                 Binding -- Answered: not bound -- Failed --+
//!                  |    |
//!        Answered: |    | Assigned: a watch shows the node
//!          bound   |    |
//!                Bound  Assigned
//!                  |    |
//!         Assigned |    | Answered
//!                  forgotten
//! ```
//!
//! A pod can end in every phase ([`Event::Gone`]). Then only an unanswered binding is remembered, so that a pod that comes
//! back with the same UID is not bound twice at the same time. The caller carries out every [`Command`].

mod event;
mod nominations;
mod placed;
mod pools;
#[cfg(test)]
mod tests;

pub(crate) use event::{Command, Event};
pub use placed::Binding;
pub(crate) use placed::WaitingPod;

use crate::plugins::PluginSet;
use crate::queue::{Entry, Moved, Pool, Queue, QueueError, QueueingHints, Settings, Updated};
use hashbrown::HashMap;
use jiff::Timestamp;
use nominations::Nominations;
use placed::{Placed, Stage};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where a pod is between its arrival and its node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// A plugin keeps it out of the queue (`PreEnqueue`).
    Gated,
    /// It is tried as soon as it is first.
    Active,
    /// It was rejected and backs off.
    Backoff,
    /// Its last attempt ended in an error, and it backs off.
    ErrorBackoff,
    /// It waits for an event that its rejectors registered.
    Unschedulable,
    /// It is being tried.
    InFlight,
    /// Its attempt has found a node.
    Assumed,
    /// It has a node and waits until plugins permit its binding.
    Permit,
    /// It is being bound.
    Binding,
    /// The API server has bound it; no watch shows that yet.
    Bound,
    /// A watch shows its node; the answer to its binding is awaited.
    Assigned,
}

impl From<Pool> for Phase {
    fn from(pool: Pool) -> Self {
        match pool {
            Pool::Active => Self::Active,
            Pool::Backoff => Self::Backoff,
            Pool::ErrorBackoff => Self::ErrorBackoff,
            Pool::Unschedulable => Self::Unschedulable,
            Pool::Gated => Self::Gated,
        }
    }
}

/// Every pod that is being scheduled, by UID. `E` is an event of the cluster.
#[derive(Debug)]
pub(crate) struct PodLifecycles<E> {
    /// The pods that wait or are in flight; assumed ones are in flight until their attempt is done.
    queue: Queue<E>,
    /// The pods that hold a node, and those whose binding is not answered.
    placed: HashMap<Arc<str>, Placed>,
    /// How many of them are in [`Phase::Permit`].
    permits: usize,
    nominations: Nominations,
    /// The pods that batch sessions evict and no watch shows as terminating, with the time of the decision.
    evictions: HashMap<Arc<str>, Timestamp>,
}

impl<E> PodLifecycles<E> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            queue: Queue::new(settings),
            placed: HashMap::new(),
            permits: 0,
            nominations: Nominations::default(),
            evictions: HashMap::new(),
        }
    }

    /// Applies an event and returns the commands that follow from it.
    pub(crate) fn on_event(
        &mut self,
        now: Timestamp,
        event: Event<'_, E>,
        hints: &impl QueueingHints<E>,
    ) -> Vec<Command> {
        match event {
            Event::Pending {
                pod,
                priority,
                nominated,
            } if !self.is_assumed(pod) => {
                let label = "UnschedulablePodAdd";
                let moved = self.queue.add(Arc::clone(pod), priority, label, now, hints);
                self.nominate_active(pod, nominated, moved.as_ref());
                moved.into_iter().map(Command::Count).collect()
            }
            Event::Pending { .. } => Vec::new(),
            Event::Updated {
                pod,
                priority,
                nominated,
                events,
            } => {
                let updated = self.queue.update(pod, priority, events, now, hints);
                self.updated(pod, nominated, updated)
            }
            Event::Terminating { pod } | Event::Forgotten { pod } => self.free(pod),
            Event::Assigned { pod, node } => self.assigned(pod, node),
            Event::Gone { pod } => self.gone(pod),
            Event::Assumed { pod, node } => self.assume(pod, node),
            Event::Delayed { pod, waiting } => self.delay(pod, waiting),
            Event::Done { pod, binding } => self.done(pod, binding),
            Event::BoundBySession { pod, node, binding } => {
                self.bind_of_session(pod, node, binding)
            }
            Event::EvictedBySession { pod } => {
                self.evictions.insert(Arc::clone(pod), now);
                Vec::new()
            }
            Event::Deleted { pod } => {
                self.evictions.remove(pod);
                Vec::new()
            }
            Event::EvictionFailed { pod } => {
                let restores = self.evictions.remove(pod).is_some();
                restores.then_some(Command::Restore).into_iter().collect()
            }
            Event::Shown {
                pod,
                has_node,
                terminates,
            } => self.shown(pod, has_node, terminates),
            Event::Failed {
                pod,
                rejectors,
                pending,
                nominated,
            } => self.failed(now, pod, (rejectors, pending), nominated, hints),
            Event::Answered { pod, is_bound } => self.answered(pod, is_bound),
            Event::PutOff { pod, namespace } => {
                self.queue.put_off(pod, namespace, hints);
                Vec::new()
            }
            Event::NominationLeft { pod } => {
                self.nominations.remove(pod);
                Vec::new()
            }
        }
    }

    fn updated(
        &mut self,
        pod: &Arc<str>,
        (before, after): (&str, &str),
        updated: Updated,
    ) -> Vec<Command> {
        match updated {
            // The node in memory stays nominated where the status names none (S5-109).
            Updated::InPlace | Updated::Woken(_) if before.is_empty() && after.is_empty() => {
                if let Some(node) = self.nominations.node_of(pod).cloned() {
                    self.nominations.set(pod, &node);
                }
            }
            Updated::InPlace | Updated::Woken(_) => self.nominations.set(pod, after),
            Updated::New(ref moved) => self.nominate_active(pod, after, Some(moved)),
            Updated::InFlight => {}
        }
        match updated {
            Updated::Woken(moved) | Updated::New(moved) => vec![Command::Count(moved)],
            Updated::InFlight | Updated::InPlace => Vec::new(),
        }
    }

    /// A pod that becomes active is nominated as its status says; a gated one is not (S5-109).
    fn nominate_active(&mut self, pod: &Arc<str>, node: &str, moved: Option<&Moved>) {
        if moved.is_some_and(|moved| moved.pool == Pool::Active) {
            self.nominations.set(pod, node);
        }
    }

    /// A pod whose earlier binding is not answered is not assumed.
    fn assume(&mut self, pod: &Arc<str>, node: &str) -> Vec<Command> {
        if !self.awaits_answer(pod) {
            // It may have been deleted and created again during the attempt, which counts for both (S5-106).
            self.queue.delete(pod);
            self.nominations.remove(pod);
            let placed = Placed::new(node, Stage::Assumed);
            self.placed.insert(Arc::clone(pod), placed);
        }
        Vec::new()
    }

    fn delay(&mut self, pod: &str, waiting: Box<WaitingPod>) -> Vec<Command> {
        if let Some(placed) = self.placed.get_mut(pod)
            && matches!(placed.stage, Stage::Assumed)
        {
            placed.stage = Stage::Permit(waiting);
            self.permits += 1;
        }
        Vec::new()
    }

    fn shown(&mut self, pod: &str, has_node: bool, terminates: bool) -> Vec<Command> {
        if terminates {
            self.evictions.remove(pod);
        }
        if has_node {
            self.leave(pod, Stage::Assigned);
        }
        Vec::new()
    }

    fn free(&mut self, pod: &str) -> Vec<Command> {
        let placed = self.placed.get_mut(pod);
        let Some(placed) = placed.filter(|placed| placed.takes_room) else {
            return Vec::new();
        };
        placed.takes_room = false;
        let node = Arc::clone(&placed.node);
        vec![Command::Free { node }]
    }

    /// The pod has its node. Another node that was assumed or nominated for it is free.
    fn assigned(&mut self, pod: &str, node: &str) -> Vec<Command> {
        let assumed = self.assumed_node(pod).cloned();
        let held = assumed.or_else(|| self.nominations.node_of(pod).cloned());
        if self.placed.get(pod).is_some_and(|own| own.is_of_session) {
            self.queue.delete(pod);
            self.nominations.remove(pod);
        } else {
            self.leave(pod, Stage::Assigned);
        }
        let elsewhere = held.filter(|held| **held != *node);
        let freed = elsewhere.map(|node| Command::Free { node });
        freed.into_iter().collect()
    }

    fn gone(&mut self, pod: &str) -> Vec<Command> {
        let freed = self.free(pod);
        self.leave(pod, |_| Stage::Gone);
        freed
    }

    /// The pod is no longer scheduled. It is kept in this stage only while its binding is not answered.
    fn leave(&mut self, pod: &str, unanswered: impl FnOnce(Box<Binding>) -> Stage) {
        self.queue.delete(pod);
        self.nominations.remove(pod);
        if self.placed.is_empty() {
            return;
        }
        let Some((key, mut placed)) = self.placed.remove_entry(pod) else {
            return;
        };
        placed.takes_room = false;
        placed.stage = match placed.stage {
            Stage::Assumed | Stage::Bound => return,
            Stage::Permit(_) => {
                self.permits -= 1;
                return;
            }
            Stage::Binding(parts) => match parts.1 {
                Some(binding) => unanswered(Box::new(binding)),
                None => return,
            },
            Stage::Assigned(binding) => unanswered(binding),
            Stage::Gone => Stage::Gone,
        };
        self.placed.insert(key, placed);
    }

    fn bind_of_session(&mut self, pod: &Arc<str>, node: &str, binding: Binding) -> Vec<Command> {
        if self.awaits_answer(pod) {
            return Vec::new();
        }
        let stage = Stage::Binding(Box::new((None, Some(binding))));
        let mut placed = Placed::new(node, stage);
        placed.takes_room = false;
        placed.is_of_session = true;
        self.placed.insert(Arc::clone(pod), placed);
        vec![Command::Bind]
    }

    /// An assumed pod is being bound; any other one is dropped.
    fn done(&mut self, pod: &str, binding: Option<Binding>) -> Vec<Command> {
        let entry = self.queue.done(pod);
        let Some(placed) = self.placed.get_mut(pod) else {
            return Vec::new();
        };
        match placed.stage {
            Stage::Assumed => {}
            Stage::Permit(_) => self.permits -= 1,
            Stage::Binding(_) | Stage::Bound | Stage::Assigned(_) | Stage::Gone => {
                return Vec::new();
            }
        }
        let binding = binding.map(|binding| Binding {
            first_failure: entry.as_ref().and_then(Entry::first_failure),
            ..binding
        });
        let binds = binding.is_some();
        placed.stage = Stage::Binding(Box::new((entry, binding)));
        binds.then_some(Command::Bind).into_iter().collect()
    }

    fn failed(
        &mut self,
        now: Timestamp,
        pod: &str,
        (rejectors, pending): (PluginSet, PluginSet),
        nominated: Option<&str>,
        hints: &impl QueueingHints<E>,
    ) -> Vec<Command> {
        let entry = self.give_up(pod);
        let Some(nominated) = nominated else {
            let ended = self.queue.done(pod).or(entry);
            let refused = ended.is_none().then(|| QueueError::NotInFlight(pod.into()));
            return refused.into_iter().map(Command::Refuse).collect();
        };
        let failure = (rejectors, pending);
        let moved = match entry {
            Some(entry) => {
                let pod = Arc::from(pod);
                self.queue.requeue(pod, (entry, None), failure, now, hints)
            }
            None => self.queue.failed(pod, failure, now, hints),
        };
        match moved {
            Ok(moved) => {
                self.nominations.set(&moved.pod, nominated);
                vec![Command::Count(moved)]
            }
            Err(error) => {
                self.nominations.set(&pod.into(), nominated);
                vec![Command::Refuse(error)]
            }
        }
    }

    /// The pod has no node any more. Returns its queue entry if its attempt was done.
    fn give_up(&mut self, pod: &str) -> Option<Entry> {
        let placed = self.placed.get(pod)?;
        if matches!(placed.stage, Stage::Assigned(_) | Stage::Gone) {
            return None;
        }
        match self.placed.remove(pod)?.stage {
            Stage::Permit(_) => {
                self.permits -= 1;
                None
            }
            Stage::Binding(parts) => parts.0,
            Stage::Assumed | Stage::Bound | Stage::Assigned(_) | Stage::Gone => None,
        }
    }

    fn answered(&mut self, pod: &str, is_bound: bool) -> Vec<Command> {
        let Some((key, mut placed)) = self.placed.remove_entry(pod) else {
            return Vec::new();
        };
        let command = match placed.stage {
            Stage::Gone => return Vec::new(),
            Stage::Assigned(binding) if is_bound => return vec![Command::Announce(binding)],
            Stage::Assigned(binding) => return vec![Command::Keep(binding)],
            Stage::Binding(mut parts) => {
                let answered = parts.1.take().map(Box::new);
                if is_bound {
                    placed.stage = Stage::Bound;
                    answered.map(Command::Announce)
                } else {
                    let node = Arc::clone(&placed.node);
                    let command = answered.map(|binding| Command::Unbind { node, binding });
                    if placed.is_of_session {
                        return command.into_iter().collect();
                    }
                    placed.stage = Stage::Binding(parts);
                    command
                }
            }
            other => {
                placed.stage = other;
                None
            }
        };
        self.placed.insert(key, placed);
        command.into_iter().collect()
    }
}

/// Views.
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
        let placed = self.placed.get(pod).and_then(Placed::phase);
        placed.is_some_and(|phase| phase != Phase::Assigned)
    }

    /// Whether the API server has not answered yet whether a pod of this UID was bound.
    pub(crate) fn awaits_answer(&self, pod: &str) -> bool {
        self.placed.get(pod).is_some_and(Placed::awaits_answer)
    }

    /// The node that a batch session has chosen for the pod, if no watch shows it yet.
    pub(crate) fn node_of_session(&self, pod: &str) -> Option<&Arc<str>> {
        let placed = self.placed.get(pod).filter(|own| own.is_of_session)?;
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

    pub(crate) fn first_failure(&self, pod: &str) -> Option<Timestamp> {
        let entry = self.placed.get(pod).and_then(|placed| match &placed.stage {
            Stage::Binding(parts) => parts.0.as_ref(),
            _ => None,
        });
        match entry {
            Some(entry) => entry.first_failure(),
            None => self.queue.first_failure(pod),
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
        let pods = self.waiting_pods().map(|(pod, _)| Arc::clone(pod));
        let mut pods: Vec<Arc<str>> = pods.collect();
        pods.sort_unstable();
        pods
    }

    /// The pods of a gang in [`Phase::Permit`], in the order of their UIDs.
    pub(crate) fn waiting_gang(&self, gang: &str) -> Vec<Arc<str>> {
        let of_gang = |waiting: &WaitingPod| waiting.gang.as_deref() == Some(gang);
        let pods = self.waiting_pods();
        let pods = pods.filter(|(_, waiting)| of_gang(waiting));
        let mut pods: Vec<Arc<str>> = pods.map(|(pod, _)| Arc::clone(pod)).collect();
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
                *gangs.entry(gang).or_insert(true) &= waiting.by.is_empty();
            }
        }
        let gangs = gangs.into_iter().filter(|(_, is_permitted)| *is_permitted);
        gangs.map(|(gang, _)| Arc::clone(gang)).collect()
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
