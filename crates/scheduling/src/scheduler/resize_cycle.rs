//! An attempt to make room for a deferred in-place resize (S7-240 to S7-245). Only the node of the pod is tried, nothing is
//! nominated, and the condition `PodScheduled` stays true.

use super::Rejected;
use super::cluster_state::ClusterState;
use super::scheduling_cycle::TOO_COSTLY;
use crate::framework::{Framework, PostFilter};
use evictd_placement::{Checks, Cluster, Pod};
use evictd_pod::wire;
use evictd_preemption::{
    InPlace, Ineligible, NotCandidate, Options, Plan, VictimRules, preempt_in_place,
};
use std::sync::Arc;

/// kube-scheduler's message about a resize that fits.
const FITS: &str = "pod resize fits, waiting for Kubelet actuation";
/// kube-scheduler's message about a node with `disableResizePreemption`.
pub(super) const DISABLED: &str = "node had resize preemption disabled";

/// The profile of the pod preempts for no pod.
const NOT_ENABLED: &str = "its profile does not enable DefaultPreemption";

/// The result of an attempt for a resize.
#[derive(Default)]
pub(super) struct ResizeResult {
    /// The message. With victims also the node, which must not be nominated.
    pub(super) rejected: Rejected,
    /// The groups that are preempted as a whole.
    pub(super) groups: Vec<Arc<str>>,
}

impl ResizeResult {
    pub(super) fn waits(message: &str) -> Self {
        let message = message.to_owned();
        let rejected = Rejected {
            message,
            ..Rejected::default()
        };
        Self {
            rejected,
            ..Self::default()
        }
    }

    fn preempts(cluster: &Cluster, pod: &Pod, plan: &Plan) -> Self {
        let rejected = Rejected::default().with_plan(cluster, pod, Some(plan));
        let names: Vec<&str> = rejected.victims.iter().map(|(name, _)| &**name).collect();
        let message = format!("waiting for preempted pods to end: {}", names.join(", "));
        Self {
            rejected: Rejected {
                message,
                ..rejected
            },
            groups: plan.groups().to_vec(),
        }
    }
}

/// Tries the resize of a pod on its node.
pub(super) fn try_resize(
    state: &ClusterState,
    framework: &Framework,
    options: Options,
    (key, pod): (&str, &wire::Pod),
) -> ResizeResult {
    let cluster = state.cluster();
    let Some((node, index)) = cluster.find_pod(key) else {
        return ResizeResult::waits("its node is not known");
    };
    let compiled = &cluster.node(node).pods[index];
    // All other plugins skip the pod (S7-243).
    let filters = framework.filters.iter();
    let fit = filters.filter(|filter| filter.name() == "NodeResourcesFit");
    let fit = fit.filter_map(|filter| filter.filter(cluster, compiled));
    let mut checks = Checks::with(cluster, compiled, fit.collect());
    let lifecycles = state.queue.lifecycles();
    let rules = VictimRules {
        budgets: &state.cache.budgets,
        groups: Some(&state.queue),
    };
    let is_waiting = |pod: &Pod| lifecycles.is_placed(pod.uid());
    let tried = preempt_in_place(&mut checks, (node, index), rules, options, &is_waiting);
    match tried {
        _ if cluster.interrupt().is_raised() => ResizeResult::waits(TOO_COSTLY),
        InPlace::Fits => ResizeResult::waits(FITS),
        _ if !framework
            .post_filters
            .contains(&PostFilter::DefaultPreemption) =>
        {
            ResizeResult::waits(NOT_ENABLED)
        }
        _ if pod.spec.preemption_policy == "Never" => {
            ResizeResult::waits(Ineligible::Never.as_str())
        }
        InPlace::NotCandidate { why, obstacle } => {
            ResizeResult::waits(&obstacle_of(why, obstacle, &checks))
        }
        InPlace::Preempts(plan) => ResizeResult::preempts(cluster, compiled, &plan),
    }
}

fn obstacle_of(why: NotCandidate, obstacle: Option<String>, checks: &Checks<'_>) -> String {
    let reasons = why.status(checks).1.join(", ");
    match obstacle {
        Some(obstacle) => format!("{reasons} ({obstacle} without all pods of lower priority)"),
        None => reasons,
    }
}
