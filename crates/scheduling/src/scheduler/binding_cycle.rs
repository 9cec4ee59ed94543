//! From the chosen node to the answer of the API server: Reserve, Permit, `PreBind` and the binding.

use super::cluster_state::ClusterState;
use super::results::Results;
use super::{Outcome, PodAttempt, Rejected};
use crate::framework::Framework;
use crate::plugins::PluginSet;
use crate::pod_lifecycle::{Binding, WaitingPod};
use crate::scheduling_algorithm::ScheduleResult;
use crate::scheduling_queue::BindingResult;
use evictd_placement::{Chosen, Cluster, Pod};
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

/// The pods that have a node in the decision of the scheduler and not yet in the API server.
pub(super) struct BindingCycle {
    pub(super) profiles: Arc<[Framework]>,
    pub(super) results: Results,
    /// The change of the cluster after which the Permit plugins were last asked.
    pub(super) permits_checked_at: u64,
}

pub(super) const fn chosen<'c>(
    cluster: &'c Cluster,
    pod: &'c wire::Pod,
    node: &'c str,
) -> Chosen<'c> {
    Chosen { cluster, pod, node }
}

impl BindingCycle {
    pub(super) fn new(profiles: Arc<[Framework]>) -> Self {
        Self {
            profiles,
            results: Results::default(),
            permits_checked_at: 0,
        }
    }

    /// The profile of a pod, as an index.
    pub(super) fn profile_of(&self, pod: &wire::Pod) -> Option<usize> {
        let name = pod.spec.scheduler_name_or_default();
        self.profiles
            .iter()
            .position(|profile| profile.scheduler_name == name)
    }

    /// Assumes the pod on the chosen node and binds it, or lets it wait for permits, unless a plugin rejects it (S5-058,
    /// S5-059).
    pub(super) fn assume_and_bind(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        attempt: PodAttempt<'_>,
        pod: Pod,
        result: ScheduleResult,
    ) -> Outcome {
        let PodAttempt {
            key,
            pod: wire,
            number,
            profile,
        } = attempt;
        let chosen_node = state.cluster().node_name(result.chosen);
        let chosen = chosen(state.cluster(), wire, chosen_node);
        let on_node = (&pod, result.chosen);
        let (pre_bind, pending) = match self.profiles[profile].reserve_and_permit(chosen, on_node) {
            Ok(permitted) => permitted,
            Err(rejection) => {
                state.cluster_mut().release(pod);
                let rejected = Rejected::on_chosen_node(rejection);
                state.failed(now, key, &rejected.failure());
                return Outcome::Unschedulable(rejected);
            }
        };
        state.cluster_mut().assume_devices(&pod, &pre_bind.devices);
        let node = state.assume(now, key, pod, result.chosen);
        let waiting = WaitingPod {
            pod: Arc::clone(wire),
            attempts: number,
            profile,
            node: Arc::clone(&node),
            result,
            pre_bind,
            since: now,
            pending,
            gang: None,
        };
        if waiting.pending.is_empty() {
            return self.bind(state, now, key, waiting);
        }
        state.queue.delay(now, key, waiting);
        Outcome::WaitsOnPermit { node }
    }

    /// Begins the binding of a permitted pod, unless a `PreBind` plugin fails.
    pub(super) fn bind(
        &mut self,
        state: &mut ClusterState,
        now: Timestamp,
        key: &str,
        waiting: WaitingPod,
    ) -> Outcome {
        if let Some(message) = self.pre_bind_error(state, &waiting) {
            self.forget(state, now, key, &waiting, PluginSet::default());
            return Outcome::Error(message);
        }
        state.queue.bind(now, key, &waiting.pod, waiting.attempts);
        Outcome::Placed {
            node: waiting.node,
            result: waiting.result,
            pre_bind: waiting.pre_bind,
        }
    }

    pub(super) fn pre_bind_error(
        &self,
        state: &ClusterState,
        waiting: &WaitingPod,
    ) -> Option<String> {
        let chosen = chosen(state.cluster(), &waiting.pod, &waiting.node);
        self.profiles[waiting.profile].pre_bind_error(chosen)
    }

    /// Sends a pod that has a node back to the queue. Without rejectors it failed with an error.
    pub(super) fn forget(
        &self,
        state: &mut ClusterState,
        now: Timestamp,
        key: &str,
        waiting: &WaitingPod,
        rejectors: PluginSet,
    ) {
        self.unreserve(state, waiting);
        state.forget(now, key, &waiting.pod, rejectors);
    }

    pub(super) fn unreserve(&self, state: &ClusterState, waiting: &WaitingPod) {
        let chosen = chosen(state.cluster(), &waiting.pod, &waiting.node);
        self.profiles[waiting.profile].unreserve(chosen);
    }

    /// The API server has bound a pod. `None` if the pod was deleted meanwhile.
    pub(super) fn on_bound(state: &mut ClusterState, now: Timestamp, key: &str) -> Option<Binding> {
        match state.queue.answered(now, key, true)? {
            BindingResult::Bound(binding) => Some(*binding),
            BindingResult::NotBound(..) | BindingResult::HasNode(_) => None,
        }
    }

    /// The API server has not bound a pod. `None` if the pod was deleted meanwhile.
    pub(super) fn on_not_bound(
        &self,
        state: &mut ClusterState,
        now: Timestamp,
        key: &str,
    ) -> Option<NotBound> {
        let (binding, has_node) = match state.queue.answered(now, key, false)? {
            BindingResult::NotBound(binding, node) => {
                if binding.is_of_session {
                    state.session_pod_left(now, &binding.pod, &node);
                } else {
                    self.return_to_queue(state, now, key, (&binding.pod, &node));
                }
                (binding, false)
            }
            BindingResult::Bound(binding) | BindingResult::HasNode(binding) => (binding, true),
        };
        Some(NotBound {
            binding: *binding,
            has_node,
        })
    }

    fn return_to_queue(
        &self,
        state: &mut ClusterState,
        now: Timestamp,
        key: &str,
        (pod, node): (&wire::Pod, &str),
    ) {
        if let Some(profile) = self.profile_of(pod) {
            self.profiles[profile].unreserve(chosen(state.cluster(), pod, node));
        }
        state.forget(now, key, pod, PluginSet::default());
    }
}
