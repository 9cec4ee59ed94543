//! Bindings of gangs: all pods are bound once every plugin has permitted each of them, or all of them give back their nodes.

use super::binding_cycle::BindingCycle;
use super::cluster_state::ClusterState;
use super::{Attempt, Outcome, Rejected};
use crate::framework::PluginRejection;
use crate::gang::{GroupOutcome, title};
use crate::plugins::PluginSet;
use crate::pod_lifecycle::WaitingPod;
use jiff::Timestamp;
use std::sync::Arc;

/// Pods of a gang that have a node, with their keys.
pub(super) type PlacedPods = Vec<(Arc<str>, WaitingPod)>;

impl BindingCycle {
    /// Binds the placed pods of a gang, or lets them wait for the last permit.
    pub(super) fn bind_or_wait(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        gang: &Arc<str>,
        pods: PlacedPods,
    ) {
        let is_permitted = pods.iter().all(|(_, waiting)| waiting.pending.is_empty());
        // Later pods of the gang must not be bound before the earlier ones.
        if is_permitted && state.queue.lifecycles().waiting_gang(gang).is_empty() {
            return self.bind_gang(state, now, gang, pods);
        }
        for (key, waiting) in pods {
            let node = Arc::clone(&waiting.node);
            let outcome = Outcome::WaitsOnPermit { node };
            self.results.push_waiting(&key, &waiting, outcome);
            state.queue.delay(now, &key, waiting);
        }
    }

    /// Binds the placed pods of a group that is no gang: each by itself, once it is permitted.
    pub(super) fn bind_each(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        group: &str,
        pods: PlacedPods,
    ) {
        self.report_groups(state, group, &pods, &GroupOutcome::Placed);
        for (key, mut waiting) in pods {
            waiting.gang = None;
            let (pod, number) = (Arc::clone(&waiting.pod), waiting.attempts);
            let outcome = if waiting.pending.is_empty() {
                self.bind(state, now, &key, waiting)
            } else {
                let node = Arc::clone(&waiting.node);
                state.queue.delay(now, &key, waiting);
                Outcome::WaitsOnPermit { node }
            };
            self.results.push(Attempt {
                key,
                pod,
                number,
                outcome,
            });
        }
    }

    pub(super) fn bind_permitted_gangs(&mut self, state: &mut ClusterState, now: Timestamp) {
        for gang in state.queue.lifecycles().permitted_gangs() {
            let pods = state.queue.take_waiting_gang(&gang);
            self.bind_gang(state, now, &gang, pods);
        }
    }

    /// Binds all of them, unless a `PreBind` plugin fails for one.
    fn bind_gang(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        gang: &str,
        pods: PlacedPods,
    ) {
        let error = pods.iter().find_map(|(_, waiting)| {
            let message = self.pre_bind_error(state, waiting)?;
            Some(format!("pod {:?}: {message}", waiting.pod.metadata.name))
        });
        if let Some(message) = error {
            let message = format!("{}: {message}", title(gang));
            let outcome = GroupOutcome::Error(message.clone());
            self.report_groups(state, gang, &pods, &outcome);
            for (key, waiting) in pods {
                self.forget(state, now, &key, &waiting, PluginSet::default());
                let outcome = Outcome::Error(message.clone());
                self.results.push_waiting(&key, &waiting, outcome);
            }
            return;
        }
        // Without claims to prepare there is nothing that could fail between the bindings of two pods.
        let must_prepare = pods.iter().any(|(_, waiting)| !waiting.pre_bind.is_empty());
        if must_prepare {
            let keys = pods.iter().map(|(key, _)| Arc::clone(key)).collect();
            self.results.push_gang_binding(keys);
        }
        self.report_groups(state, gang, &pods, &GroupOutcome::Placed);
        for (key, waiting) in pods {
            let (pod, number) = (Arc::clone(&waiting.pod), waiting.attempts);
            state.queue.bind(now, &key, &pod, number);
            let outcome = Outcome::Placed {
                node: waiting.node,
                result: waiting.result,
                pre_bind: waiting.pre_bind,
            };
            self.results.push(Attempt {
                key,
                pod,
                number,
                outcome,
            });
        }
    }

    /// A plugin has rejected one pod of a gang: all its pods that wait for permits give back their nodes.
    pub(super) fn reject_gang(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        gang: &str,
        rejection: &PluginRejection,
    ) {
        let rejected = || Rejected::on_chosen_node(rejection.clone());
        let message = format!(
            "{} {}: its pods are bound all at once or not at all.",
            rejected().message,
            title(gang)
        );
        let pods = state.queue.take_waiting_gang(gang);
        for (_, waiting) in &pods {
            self.unreserve(state, waiting);
            state.cluster_mut().forget_pod(&waiting.pod.metadata);
        }
        let keys: Vec<Arc<str>> = pods.iter().map(|(key, _)| Arc::clone(key)).collect();
        let rejectors = rejected().failure().rejectors;
        // All at once: the room that one of them frees must not wake the others.
        let moved = state.queue.gang_rejected(now, &keys, rejectors);
        state.count(moved);
        let outcome = GroupOutcome::Unschedulable(message.clone());
        self.report_groups(state, gang, &pods, &outcome);
        for (key, waiting) in pods {
            state.nominate(&key);
            let outcome = Outcome::Unschedulable(Rejected {
                message: message.clone(),
                ..rejected()
            });
            self.results.push_waiting(&key, &waiting, outcome);
        }
    }

    /// Reports the same result for the groups of these pods and all groups above them.
    fn report_groups(
        &mut self,
        state: &ClusterState,
        root: &str,
        pods: &PlacedPods,
        outcome: &GroupOutcome,
    ) {
        let pods = pods.iter().map(|(_, waiting)| &*waiting.pod);
        for group in state.queue.groups_of(root, pods) {
            self.results.push_group(group, outcome.clone());
        }
    }
}
