//! The life of a pod that is being scheduled. This module alone knows the phase of each pod, its assumed and its nominated node,
//! and whether it waits for its victims.
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
//! A pod can end in every phase ([`Event::Gone`]). Then only an unanswered binding is remembered. A pod that comes back
//! with the same UID must not be bound twice at the same time. The caller carries out every [`Command`].

mod event;
mod nominations;
mod placed;
mod pools;
mod preemptions;
#[cfg(test)]
mod tests;
mod views;

pub(crate) use event::{Command, Event};
pub use placed::Binding;
pub(crate) use placed::WaitingPod;
pub use preemptions::Preemption;

use crate::plugins::{PluginName, PluginSet};
use crate::queue::{Entry, Moved, Pool, Queue, QueueError, QueueingHints, Settings, Updated};
use evictd_pod::compatibility::Release;
use hashbrown::HashMap;
use jiff::Timestamp;
use nominations::Nominations;
use placed::{InBinding, Placed, Stage};
use preemptions::Preemptions;
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
    preemptions: Preemptions,
    /// The pods that batch sessions evict and no watch shows as terminating, with the time of the decision.
    evictions: HashMap<Arc<str>, Timestamp>,
    release: Release,
}

/// The label of a new pod without a node in metrics (S7-250).
pub(crate) const fn added_label(release: Release) -> &'static str {
    match release {
        Release::V1_36 => "UnschedulablePodAdd",
        Release::V1_37 => "UnscheduledPodAdd",
    }
}

impl<E> PodLifecycles<E> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            queue: Queue::new(settings),
            placed: HashMap::new(),
            permits: 0,
            nominations: Nominations::default(),
            preemptions: Preemptions::default(),
            evictions: HashMap::new(),
            release: Release::default(),
        }
    }

    /// Applies an event of one pod.
    pub(crate) fn on_event(
        &mut self,
        now: Timestamp,
        event: Event<'_, E>,
        hints: &impl QueueingHints<E>,
    ) -> Vec<Command> {
        let gates = Gates {
            hints,
            preemptions: &self.preemptions,
            release: self.release,
        };
        match event {
            Event::Pending {
                pod,
                priority,
                nominated,
            } if !self.is_assumed(pod) => {
                let label = added_label(self.release);
                let moved = self
                    .queue
                    .add(Arc::clone(pod), priority, label, now, &gates);
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
                let updated = self.queue.update(pod, priority, events, now, &gates);
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
            Event::EvictionFailed { pod } => self
                .evictions
                .remove(pod)
                .is_some()
                .then_some(Command::Restore)
                .into_iter()
                .collect(),
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
                self.queue.put_off(pod, namespace, &gates);
                Vec::new()
            }
            Event::NominationLeft { pod } => {
                self.nominations.remove(pod);
                Vec::new()
            }
            Event::PreemptionBegun { pod, node } => {
                let begins = self.preemptions.begin(now, pod, node);
                begins
                    .then_some(Command::DeleteVictims)
                    .into_iter()
                    .collect()
            }
            Event::LastVictim {
                pod,
                victim,
                terminates,
            } => self.last_victim(pod, victim, terminates),
            Event::VictimTerminating { victim } => self
                .preemptions
                .on_terminating(victim)
                .into_iter()
                .map(|pod| Command::Ungate {
                    pod,
                    activates: false,
                })
                .collect(),
            Event::PreemptionEnded { pod, has_failed } => self.end_preemption(pod, has_failed),
        }
    }

    fn last_victim(&mut self, pod: &str, victim: &str, terminates: bool) -> Vec<Command> {
        if self.preemptions.get(pod).is_none() {
            return Vec::new();
        }
        if !terminates {
            self.preemptions.await_victim(pod, victim);
            return Vec::new();
        }
        self.preemptions.ungate(pod);
        vec![Command::Ungate {
            pod: pod.into(),
            // No further event will wake it.
            activates: true,
        }]
    }

    fn end_preemption(&mut self, pod: &str, has_failed: bool) -> Vec<Command> {
        let is_gated = self.preemptions.end(pod);
        if !has_failed && (!is_gated || self.preemptions.awaits_victim(pod)) {
            return Vec::new();
        }
        self.preemptions.ungate(pod);
        vec![Command::Ungate {
            pod: pod.into(),
            activates: has_failed,
        }]
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

    /// Behaves as this release from now on.
    pub(crate) const fn set_release(&mut self, release: Release) {
        self.release = release;
    }

    /// A pod that becomes active is nominated as its status says. A gated one is not (S5-109), before 1.37 (S7-227).
    fn nominate_active(&mut self, pod: &Arc<str>, node: &str, moved: Option<&Moved>) {
        let counts = |pool: Pool| {
            pool == Pool::Active || (pool == Pool::Gated && self.release >= Release::V1_37)
        };
        if moved.is_some_and(|moved| counts(moved.pool)) {
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
        // Once only: the deletion of a pod and its failed binding may both free the node.
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
        let held = self
            .assumed_node(pod)
            .cloned()
            .or_else(|| self.nominations.node_of(pod).cloned());
        let is_of_session = self
            .placed
            .get(pod)
            .is_some_and(|placed| placed.is_of_session);
        if is_of_session {
            self.queue.delete(pod);
            self.nominations.remove(pod);
            self.preemptions.ungate(pod);
        } else {
            self.leave(pod, Stage::Assigned);
        }
        held.filter(|held| **held != *node)
            .map(|node| Command::Free { node })
            .into_iter()
            .collect()
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
        self.preemptions.ungate(pod);
        if self.placed.is_empty() {
            return;
        }
        let Some((key, mut placed)) = self.placed.remove_entry(pod) else {
            return;
        };
        placed.takes_room = false;
        placed.stage = match placed.stage {
            // The API server has answered, or was never asked.
            Stage::Assumed | Stage::Bound => return,
            Stage::Permit(_) => {
                self.permits -= 1;
                return;
            }
            Stage::Binding(parts) => match parts.request {
                Some(binding) => unanswered(Box::new(binding)),
                None => return,
            },
            Stage::Assigned(binding) => unanswered(binding),
            Stage::Gone => Stage::Gone,
        };
        self.placed.insert(key, placed);
    }

    fn bind_of_session(&mut self, pod: &Arc<str>, node: &str, binding: Binding) -> Vec<Command> {
        // Two bindings at a time could be answered in any order.
        if self.awaits_answer(pod) {
            return Vec::new();
        }
        let stage = Stage::Binding(Box::new(InBinding {
            entry: None,
            request: Some(binding),
        }));
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
            arrived: entry.as_ref().and_then(Entry::arrived),
            ..binding
        });
        let binds = binding.is_some();
        placed.stage = Stage::Binding(Box::new(InBinding {
            entry,
            request: binding,
        }));
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
        let gates = Gates {
            hints,
            preemptions: &self.preemptions,
            release: self.release,
        };
        let Some(nominated) = nominated else {
            return self
                .queue
                .done(pod)
                .or(entry)
                .is_none()
                .then(|| QueueError::NotInFlight(pod.into()))
                .into_iter()
                .map(Command::Refuse)
                .collect();
        };
        let failure = (rejectors, pending);
        let moved = match entry {
            Some(entry) => {
                let pod = Arc::from(pod);
                self.queue.requeue(pod, (entry, None), failure, now, &gates)
            }
            None => self.queue.failed(pod, failure, now, &gates),
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
            Stage::Binding(parts) => parts.entry,
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
                let answered = parts.request.take().map(Box::new);
                if is_bound {
                    placed.stage = Stage::Bound;
                    answered.map(Command::Announce)
                } else {
                    let node = Arc::clone(&placed.node);
                    let command = answered.map(|binding| Command::Unbind { node, binding });
                    // The next session decides about it; it has no entry in the queue.
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

/// The gates of the plugins, and that of a preemption. The plugins do not know which pods wait for victims.
struct Gates<'p, H> {
    hints: &'p H,
    preemptions: &'p Preemptions,
    release: Release,
}

impl<E, H: QueueingHints<E>> QueueingHints<E> for Gates<'_, H> {
    fn registered(&self, event: &E) -> PluginSet {
        self.hints.registered(event)
    }

    fn wakes(&self, plugin: PluginName, pod: &str, event: &E) -> bool {
        self.hints.wakes(plugin, pod, event)
    }

    fn template(&self, plugin: PluginName, pod: &str, event: &E) -> Option<usize> {
        self.hints.template(plugin, pod, event)
    }

    fn gate(&self, pod: &str) -> Option<PluginName> {
        let by_preemption = || {
            let plugin = PluginName::DefaultPreemption;
            let is_gated = || self.preemptions.gates(pod);
            self.hints.pre_enqueue(plugin, &is_gated).then_some(plugin)
        };
        self.hints.gate(pod).or_else(by_preemption)
    }

    fn profile(&self, pod: &str) -> u16 {
        self.hints.profile(pod)
    }

    fn reopens_gated(&self) -> bool {
        self.release >= Release::V1_37
    }
}
