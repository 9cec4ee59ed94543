//! Pods that have a node: from the permits of plugins to the answer of the API server.

use super::{SchedulingQueue, gone_from};
use crate::change::pod_key;
use crate::events::ClusterEvent;
use crate::gang::group_of;
use crate::pod_lifecycle::{Binding, Command, Event, PodLifecycles, WaitingPod};
use crate::queue::{Moved, Scope};
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;

/// The result of the request to bind a pod.
#[derive(Debug)]
pub(crate) enum Answer {
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
            first_failure: None,
            is_of_session: false,
        };
        let binding = Some(binding);
        self.advance(now, Event::Done { pod: key, binding });
    }

    /// The API server has answered. `None` if the pod is gone, or was not being bound.
    pub(crate) fn answered(&mut self, now: Timestamp, pod: &str, is_bound: bool) -> Option<Answer> {
        let commands = self.advance(now, Event::Answered { pod, is_bound });
        commands.into_iter().find_map(|command| match command {
            Command::Announce(binding) => Some(Answer::Bound(binding)),
            Command::Unbind { node, binding } => Some(Answer::NotBound(binding, node)),
            Command::Keep(binding) => Some(Answer::HasNode(binding)),
            _ => None,
        })
    }

    /// Takes out a pod that waits for permits. It keeps its node.
    pub(crate) fn take_waiting_pod(&mut self, pod: &str) -> Option<WaitingPod> {
        self.lifecycles.take_waiting_pod(pod)
    }

    /// Takes out the pods of a gang that wait for permits, sorted by key. They keep their nodes.
    pub(crate) fn take_waiting_gang(&mut self, gang: &str) -> Vec<(Arc<str>, WaitingPod)> {
        let pods = self.lifecycles.waiting_gang(gang).into_iter();
        let taken = pods.filter_map(|pod| {
            let waiting = self.lifecycles.take_waiting_pod(&pod)?;
            Some((pod, waiting))
        });
        taken.collect()
    }

    /// The phases of all pods.
    pub(crate) const fn lifecycles(&self) -> &PodLifecycles<ClusterEvent> {
        &self.lifecycles
    }
}

/// Decisions of batch sessions. They count until they fail, although watches do not show them yet.
impl SchedulingQueue {
    pub(crate) fn bind_of_session(&mut self, now: Timestamp, pod: &Arc<wire::Pod>, node: &str) {
        let key = &pod_key(&pod.metadata);
        let binding = Binding {
            pod: Arc::clone(pod),
            attempts: 1,
            began: now,
            first_failure: None,
            is_of_session: true,
        };
        let event = Event::BoundBySession {
            pod: key,
            node,
            binding,
        };
        self.advance(now, event);
        if let Some(group) = group_of(pod) {
            self.known.groups.bind(group, key, node);
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
            let key = pod_key(&pod.metadata);
            self.known.groups.leave(&group, &key);
        }
        self.raise(now, gone_from(pod, node), Scope::All)
    }

    pub(crate) fn evict_of_session(&mut self, now: Timestamp, pod: &wire::Metadata) {
        let pod = &pod_key(pod);
        self.advance(now, Event::EvictedBySession { pod });
    }

    /// Returns whether the pod counted as evicted.
    pub(crate) fn eviction_failed(&mut self, now: Timestamp, pod: &str) -> bool {
        let commands = self.advance(now, Event::EvictionFailed { pod });
        matches!(commands[..], [Command::Restore])
    }

    pub(crate) fn deleted(&mut self, now: Timestamp, pod: &wire::Metadata) {
        let pod = &pod_key(pod);
        self.advance(now, Event::Deleted { pod });
    }

    /// A watch shows this pod. Returns it with the decisions that the watch does not show yet.
    pub(crate) fn shown(&mut self, now: Timestamp, pod: &Arc<wire::Pod>) -> Arc<wire::Pod> {
        let key = pod_key(&pod.metadata);
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
