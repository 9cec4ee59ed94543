//! Bindings: gangs are bound together, the API server answers, and a pod gives back its node.

use super::waiting_pods::refused;
use super::{Attempt, Outcome, Rejected, Scheduler};
use crate::change::pod_key;
use crate::framework::Refusal;
use crate::gang::{GroupOutcome, GroupResult};
use crate::plugins::PluginSet;
use crate::pod_lifecycle::{Binding, WaitingPod};
use crate::pre_bind::PreBindPlan;
use crate::scheduling_queue::Answer;
use evictd_placement::{Cluster, NodeId, Pod};
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;

/// A binding that failed.
#[derive(Debug)]
pub struct NotBound {
    /// The binding.
    pub binding: Binding,
    /// Whether a watch shows that the pod has a node.
    pub has_node: bool,
}

impl Scheduler {
    /// The API server has bound a pod that was placed. Returns its binding, unless the pod was deleted meanwhile.
    pub fn bound(&mut self, now: Timestamp, key: &str) -> Option<Binding> {
        match self.queue.answered(now, key, true)? {
            Answer::Bound(binding) => Some(*binding),
            Answer::NotBound(..) | Answer::HasNode(_) => None,
        }
    }

    /// A pod that was placed could not be bound: its place is free again, and it is tried later (S5-065). A pod that has a
    /// node by now, as a watch shows, stays there. A pod of a batch session is not tried again here. `None` if the pod was deleted meanwhile.
    pub fn bind_failed(&mut self, now: Timestamp, key: &Arc<str>) -> Option<NotBound> {
        match self.queue.answered(now, key, false)? {
            Answer::NotBound(binding, node) => {
                if binding.is_of_session {
                    self.cluster.remove_pod(&binding.pod.metadata);
                    let moved = self.queue.session_pod_left(now, &binding.pod, &node);
                    self.moved.extend(moved);
                } else {
                    let placed = (&*binding.pod, &*node);
                    self.unbind(now, key, placed, PluginSet::default());
                }
                Some(NotBound {
                    binding: *binding,
                    has_node: false,
                })
            }
            Answer::Bound(binding) | Answer::HasNode(binding) => Some(NotBound {
                binding: *binding,
                has_node: true,
            }),
        }
    }

    /// A batch session binds the pod to this node and hands over the compiled pod, which is assumed there. Returns the
    /// `PreBind` plan, with which the caller binds the pod. `None` if an earlier binding of the pod is not answered: then
    /// it must not be bound.
    pub fn bind_of_session(
        &mut self,
        now: Timestamp,
        pod: &Arc<wire::Pod>,
        node: NodeId,
        hand_over: impl FnOnce(&Cluster) -> Option<Pod>,
    ) -> Option<PreBindPlan> {
        let key = pod_key(&pod.metadata);
        if self.queue.lifecycles().awaits_answer(&key) {
            return None;
        }
        let compiled = hand_over(&self.cluster)?;
        let name = self.cluster.node_name(node);
        self.queue.bind_of_session(now, pod, name);
        let pre_bind = PreBindPlan::begin(&mut self.cluster, &compiled, node);
        self.cluster.assume(compiled, node);
        Some(pre_bind)
    }

    /// A batch session evicts the pod, which counts as terminating from now on.
    pub fn evict_of_session(&mut self, now: Timestamp, pod: &wire::Metadata) {
        self.queue.evict_of_session(now, pod);
        self.cluster.set_terminating(pod, true);
    }

    /// A pod was not evicted. Returns whether it counted as evicted until now.
    pub fn eviction_failed(&mut self, now: Timestamp, pod: &wire::Metadata) -> bool {
        let counted = self.queue.eviction_failed(now, &pod_key(pod));
        if counted {
            self.cluster.set_terminating(pod, false);
        }
        counted
    }

    /// A watch shows that a pod of batch sessions is deleted. The end of a pod is not reported here.
    pub fn deleted(&mut self, now: Timestamp, pod: &wire::Metadata) {
        self.queue.deleted(now, pod);
    }

    /// A watch shows this pod. Returns it with the decisions of batch sessions that the watch does not show yet.
    pub fn shown(&mut self, now: Timestamp, pod: &Arc<wire::Pod>) -> Arc<wire::Pod> {
        self.queue.shown(now, pod)
    }

    /// The bindings that are not answered, of pods that exist.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.queue.lifecycles().bindings()
    }

    /// A pod that was placed gives back all that it has on its node.
    pub(super) fn leave_node(&mut self, pod: &wire::Pod, node: &str) {
        if let Some(profile) = self.profile_of(pod) {
            self.frameworks[profile].unreserve(self.chosen(pod, node));
        }
        self.cluster.remove_pod(&pod.metadata);
    }

    /// Sends a pod that was placed back to the queue. Without rejectors it failed with an error.
    pub(super) fn unbind(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        (pod, node): (&wire::Pod, &str),
        rejectors: PluginSet,
    ) {
        self.leave_node(pod, node);
        // A pod that is not in flight any more has been deleted meanwhile.
        let moved = self.queue.binding_failed(now, key, rejectors);
        self.moved.extend(moved.into_iter().flatten());
        self.nominate(key);
    }
}

/// Gangs: all their pods are bound once every plugin has permitted each of them, or all of them give back their nodes.
impl Scheduler {
    /// Binds the placed pods of a gang, or lets them wait for the last permit.
    pub(super) fn hold_or_bind(
        &mut self,
        now: Timestamp,
        gang: &Arc<str>,
        pods: Vec<(Arc<str>, WaitingPod)>,
    ) {
        let waits = pods.iter().any(|(_, waiting)| !waiting.by.is_empty());
        // Later pods of the gang must not be bound before the earlier ones.
        if !waits && self.queue.lifecycles().waiting_gang(gang).is_empty() {
            return self.bind_gang(now, gang, pods);
        }
        for (key, waiting) in pods {
            let node = Arc::clone(&waiting.node);
            self.report(&key, &waiting, Outcome::WaitsOnPermit { node });
            self.queue.delay(now, &key, waiting);
        }
    }

    pub(super) fn bind_permitted_gangs(&mut self, now: Timestamp) {
        for gang in self.queue.lifecycles().permitted_gangs() {
            let pods = self.queue.take_waiting_gang(&gang);
            self.bind_gang(now, &gang, pods);
        }
    }

    /// Binds all of them, unless a `PreBind` plugin fails for one.
    fn bind_gang(&mut self, now: Timestamp, gang: &str, pods: Vec<(Arc<str>, WaitingPod)>) {
        let error = pods.iter().find_map(|(_, waiting)| {
            let chosen = self.chosen(&waiting.pod, &waiting.node);
            let message = self.frameworks[waiting.profile].wrong_before_binding(chosen)?;
            Some(format!("pod {:?}: {message}", waiting.pod.metadata.name))
        });
        if let Some(message) = error {
            let message = format!("pod group {gang:?}: {message}");
            for (key, waiting) in pods {
                let placed = (&*waiting.pod, &*waiting.node);
                self.unbind(now, &key, placed, PluginSet::default());
                self.report(&key, &waiting, Outcome::Error(message.clone()));
            }
            return self.report_group(gang, GroupOutcome::Unschedulable(message));
        }
        if pods.iter().any(|(_, waiting)| !waiting.pre_bind.is_empty()) {
            let keys = pods.iter().map(|(key, _)| Arc::clone(key));
            self.together.push(keys.collect());
        }
        self.report_group(gang, GroupOutcome::Placed);
        for (key, waiting) in pods {
            self.queue.bind(now, &key, &waiting.pod, waiting.number);
            let (pod, number) = (waiting.pod, waiting.number);
            let outcome = Outcome::Placed {
                node: waiting.node,
                decided: waiting.decided,
                pre_bind: waiting.pre_bind,
            };
            self.decided.push_back(Attempt {
                key,
                pod,
                number,
                outcome,
            });
        }
    }

    /// All pods of a gang that wait for permits give back their nodes, because a plugin refused one.
    pub(super) fn withdraw_gang(&mut self, now: Timestamp, gang: &str, refusal: &Refusal) {
        let none = format!("pod group {gang:?}: its pods are bound all at once or not at all.");
        let message = format!("{} {none}", refused(refusal.clone()).message);
        let pods = self.queue.take_waiting_gang(gang);
        for (_, waiting) in &pods {
            self.leave_node(&waiting.pod, &waiting.node);
        }
        let keys: Vec<Arc<str>> = pods.iter().map(|(key, _)| Arc::clone(key)).collect();
        let rejectors = refused(refusal.clone()).failure().rejectors;
        self.moved
            .extend(self.queue.gang_rejected(now, &keys, rejectors));
        for (key, waiting) in pods {
            self.nominate(&key);
            let rejected = Rejected {
                message: message.clone(),
                ..refused(refusal.clone())
            };
            self.report(&key, &waiting, Outcome::Unschedulable(rejected));
        }
        self.report_group(gang, GroupOutcome::Unschedulable(message));
    }

    fn report(&mut self, key: &Arc<str>, waiting: &WaitingPod, outcome: Outcome) {
        self.decided.push_back(Attempt {
            key: Arc::clone(key),
            pod: Arc::clone(&waiting.pod),
            number: waiting.number,
            outcome,
        });
    }

    fn report_group(&mut self, name: &str, outcome: GroupOutcome) {
        if let Some(group) = self.queue.group(name).cloned() {
            self.groups.push(GroupResult { group, outcome });
        }
    }
}
