//! Events in the life of one pod after an attempt: permits, the binding, the deletion of its victims, and the decisions of
//! batch sessions.

use super::{SchedulingQueue, pod_left};
use crate::events::ClusterEvent;
use crate::gang::group_of;
use crate::pod_lifecycle::{Binding, Command, Event, PodLifecycles, Preemption, WaitingPod};
use crate::queue::{Moved, Scope};
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;

/// The result of the request to bind a pod.
#[derive(Debug)]
pub(crate) enum BindingResult {
    /// The pod is bound.
    Bound(Box<Binding>),
    /// It is not bound, and holds this node until it is forgotten and has failed.
    NotBound(Box<Binding>, Arc<str>),
    /// It was not bound, but a watch shows that it has a node.
    HasNode(Box<Binding>),
}

impl SchedulingQueue {
    /// Plugins delay the binding of an assumed pod.
    pub(crate) fn delay(&mut self, now: Timestamp, pod: &str, waiting: WaitingPod) {
        let waiting = Box::new(waiting);
        self.advance(now, Event::Delayed { pod, waiting });
    }

    /// The attempt of an assumed pod is over, and its binding begins.
    pub(crate) fn bind(&mut self, now: Timestamp, key: &str, pod: &Arc<wire::Pod>, attempts: u32) {
        let binding = Binding {
            pod: Arc::clone(pod),
            attempts,
            began: now,
            arrived: None,
            is_of_session: false,
        };
        let binding = Some(binding);
        self.advance(now, Event::Done { pod: key, binding });
    }

    /// The API server has answered. `None` if the pod was deleted, or was not being bound.
    pub(crate) fn answered(
        &mut self,
        now: Timestamp,
        pod: &str,
        is_bound: bool,
    ) -> Option<BindingResult> {
        self.advance(now, Event::Answered { pod, is_bound })
            .into_iter()
            .find_map(|command| match command {
                Command::Announce(binding) => Some(BindingResult::Bound(binding)),
                Command::Unbind { node, binding } => Some(BindingResult::NotBound(binding, node)),
                Command::Keep(binding) => Some(BindingResult::HasNode(binding)),
                _ => None,
            })
    }

    /// Takes out a pod that waits for permits. It keeps its node.
    pub(crate) fn take_waiting_pod(&mut self, pod: &str) -> Option<WaitingPod> {
        self.lifecycles.take_waiting_pod(pod)
    }

    /// Takes out the pods of a gang that wait for permits, sorted by key. They keep their nodes.
    pub(crate) fn take_waiting_gang(&mut self, gang: &str) -> Vec<(Arc<str>, WaitingPod)> {
        self.lifecycles
            .waiting_gang(gang)
            .into_iter()
            .filter_map(|pod| {
                let waiting = self.lifecycles.take_waiting_pod(&pod)?;
                Some((pod, waiting))
            })
            .collect()
    }

    /// The phases of all pods.
    pub(crate) const fn lifecycles(&self) -> &PodLifecycles<ClusterEvent> {
        &self.lifecycles
    }
}

/// The deletion of victims. Until the last one terminates the preemptor is gated, because another attempt would choose the
/// same victims (S5-112).
impl SchedulingQueue {
    /// The victims of a pod on this node are to be deleted. Returns false if the pod does not wait, or if the victims of an
    /// earlier attempt are still being deleted: then these must not be deleted.
    pub fn begin_preemption(&mut self, now: Timestamp, pod: &str, node: &str) -> bool {
        let Some(pod) = self.hints.pods.key(pod) else {
            return false;
        };
        let event = Event::PreemptionBegun { pod: &pod, node };
        matches!(self.advance(now, event)[..], [Command::DeleteVictims])
    }

    /// Every victim of the pod but this one terminates. `terminates` says that this one does, too, so that no watch event
    /// will show it.
    pub fn last_victim(
        &mut self,
        now: Timestamp,
        pod: &str,
        victim: &str,
        terminates: bool,
    ) -> Vec<Moved> {
        let event = Event::LastVictim {
            pod,
            victim,
            terminates,
        };
        let commands = self.advance(now, event);
        self.ungated(now, commands)
    }

    /// A watch shows that a pod terminates or was deleted. To be called before the change is applied, which may then wake the
    /// pods that waited for this victim.
    pub fn victim_terminates(&mut self, now: Timestamp, victim: &str) -> Vec<Moved> {
        let commands = self.advance(now, Event::VictimTerminating { victim });
        self.ungated(now, commands)
    }

    /// Every deletion of the pod's victims is answered. After a failure the pod is tried again.
    pub fn end_preemption(&mut self, now: Timestamp, pod: &str, has_failed: bool) -> Vec<Moved> {
        let commands = self.advance(now, Event::PreemptionEnded { pod, has_failed });
        self.ungated(now, commands)
    }

    /// The deletion of the victims of a pod, while it is under way or gates the pod.
    pub fn preemption(&self, pod: &str) -> Option<&Preemption> {
        self.lifecycles.preemption(pod)
    }

    /// Activates these pods for a plugin, whatever they wait for (S5-034).
    pub fn activate<'p>(
        &mut self,
        now: Timestamp,
        pods: impl IntoIterator<Item = &'p str>,
    ) -> Vec<Moved> {
        pods.into_iter()
            .filter_map(|pod| self.lifecycles.activate(pod, now, &self.hints))
            .collect()
    }

    fn ungated(&mut self, now: Timestamp, commands: Vec<Command>) -> Vec<Moved> {
        let mut moved = Vec::new();
        for command in commands {
            let Command::Ungate { pod, activates } = command else {
                continue;
            };
            // The other pods of its gang may have waited for the same victims.
            if let Some(group) = self.pod(&pod).and_then(|pod| group_of(pod)) {
                moved.extend(self.retry_group(now, &group));
            }
            if activates {
                moved.extend(self.activate(now, [&*pod]));
            }
        }
        moved
    }
}

/// Decisions of batch sessions. They count until they fail, although watches do not show them yet.
impl SchedulingQueue {
    pub(crate) fn bind_of_session(&mut self, now: Timestamp, pod: &Arc<wire::Pod>, node: &str) {
        let key = &pod.metadata.key();
        let binding = Binding {
            pod: Arc::clone(pod),
            attempts: 1,
            began: now,
            arrived: None,
            is_of_session: true,
        };
        let event = Event::BoundBySession {
            pod: key,
            node,
            binding,
        };
        self.advance(now, event);
        if let Some(group) = group_of(pod) {
            self.hints.groups.bind(group, key, pod, node);
        }
    }

    /// A pod that a session has bound is not on its node, which is an event for the others.
    pub(crate) fn session_pod_left(
        &mut self,
        now: Timestamp,
        pod: &wire::Pod,
        node: &str,
    ) -> Vec<Moved> {
        if let Some(group) = group_of(pod) {
            self.hints.groups.leave(&group, &pod.metadata.key());
        }
        self.raise(now, pod_left(pod, node), Scope::All)
    }

    pub(crate) fn evict_of_session(&mut self, now: Timestamp, pod: &wire::Metadata) {
        let pod = &pod.key();
        self.advance(now, Event::EvictedBySession { pod });
    }

    /// Returns whether the pod counted as evicted.
    pub(crate) fn eviction_failed(&mut self, now: Timestamp, pod: &str) -> bool {
        let commands = self.advance(now, Event::EvictionFailed { pod });
        matches!(commands[..], [Command::Restore])
    }

    pub(crate) fn deleted(&mut self, now: Timestamp, pod: &wire::Metadata) {
        let pod = &pod.key();
        self.advance(now, Event::Deleted { pod });
    }

    /// A watch shows this pod. Returns it with the decisions that the watch does not show yet.
    pub(crate) fn shown(&mut self, now: Timestamp, pod: &Arc<wire::Pod>) -> Arc<wire::Pod> {
        let key = pod.metadata.key();
        let event = Event::Shown {
            pod: &key,
            has_node: !pod.spec.node_name.is_empty(),
            terminates: pod.metadata.deletion_timestamp.is_some(),
        };
        self.advance(now, event);
        let mut pod = Arc::clone(pod);
        if let Some(node) = self.lifecycles.node_of_session(&key) {
            Arc::make_mut(&mut pod).spec.node_name = node.to_string();
        }
        if let Some(evicted_at) = self.lifecycles.evicted_at(&key) {
            Arc::make_mut(&mut pod).metadata.deletion_timestamp = Some(evicted_at.into());
        }
        pod
    }
}
