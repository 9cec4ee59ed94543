//! The `PostFilter` point, for a pod that fits on no node (S5-053).

use crate::config::Point;
use crate::cycle::{Filtered, Verdict};
use crate::framework::{Framework, PostFilter};
use crate::pre_bind::ClaimRef;
use crate::recorder::{ERROR, run_plugin, status, timed};
use evictd_placement::{
    Checks, Cluster, NodeId, Pod, has_claims, left_over_claim, unavailable_claim,
};
use evictd_pod::compatibility::Release;
use evictd_preemption::{Extender, Options, Plan, PlanError, VictimRules, preempt};
use std::collections::BTreeSet;
use std::fmt::Write;

/// The input of a preemption beside the cluster.
pub struct PreemptionInput<'a, 'e> {
    /// The disruption budgets, and the groups of the pods.
    pub victims: VictimRules<'a>,
    /// The rules.
    pub options: Options,
    /// The extenders that take part.
    pub extenders: &'a mut [&'e mut dyn Extender],
    /// Whether a pod has a node and is not bound yet.
    pub is_waiting: &'a dyn Fn(&Pod) -> bool,
}

impl Default for PreemptionInput<'_, '_> {
    fn default() -> Self {
        Self::new(VictimRules::default())
    }
}

impl<'a> PreemptionInput<'a, '_> {
    /// A preemption with the default rules, without extenders and without pods that wait to be bound.
    pub fn new(victims: VictimRules<'a>) -> Self {
        Self {
            victims,
            options: Options::default(),
            extenders: &mut [],
            is_waiting: &|_| false,
        }
    }
}

/// The result for a pod that fits on no node.
#[derive(Debug)]
pub struct PostFilterResult {
    /// The message about the nodes (S5-051), from 1.37 on with the preemption that was found (S7-083).
    pub fit_error: String,
    /// The plugins that rejected the pod, by name (S5-052).
    pub plugins: BTreeSet<String>,
    /// The plan of a preemption, if one was tried.
    pub plan: Option<Plan>,
    /// A claim whose devices must be deallocated.
    pub deallocates: Option<ClaimRef>,
    /// The message of the condition and the event; `None` if a node is nominated.
    pub message: Option<String>,
    /// The status of the point.
    pub(crate) status: &'static str,
}

impl Framework {
    /// Why a pod does not fit on a node, with amounts and names where the rejection has none.
    pub fn obstacle(&self, cluster: &Cluster, pod: &Pod, node: NodeId) -> Option<String> {
        let (mut checks, _) = self.compile_filters(cluster, pod);
        checks.on(node).obstacle()
    }

    /// The obstacles on the nodes that need the least and have one, at most `most`: first those where preemption could help, then those
    /// that passed more filters.
    pub fn obstacles(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        filtered: &Filtered,
        most: usize,
    ) -> Vec<(String, String)> {
        let verdicts = cluster.node_ids().zip(&filtered.verdicts);
        let rejected = verdicts.filter_map(|(id, verdict)| match verdict {
            Verdict::Rejected(index, rejection) => {
                Some((rejection.code, std::cmp::Reverse(*index), id))
            }
            _ => None,
        });
        let mut rejected: Vec<_> = rejected.collect();
        rejected.sort();
        let (mut checks, _) = self.compile_filters(cluster, pod);
        let nearest = rejected.into_iter().filter_map(|(_, _, id)| {
            if cluster.interrupt().is_raised() {
                return None;
            }
            let obstacle = checks.on(id).obstacle()?;
            Some((cluster.node_name(id).to_owned(), obstacle))
        });
        nearest.take(most).collect()
    }

    /// The objects that keep a pod from every node, one line each.
    pub fn blockers(&self, cluster: &Cluster, pod: &Pod) -> Vec<String> {
        Checks::with(cluster, pod, Vec::new()).blockers()
    }

    /// Runs the `PostFilter` plugins.
    ///
    /// # Errors
    /// Those of a preemption.
    pub fn post_filter(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        filtered: &Filtered,
        preemption: PreemptionInput<'_, '_>,
    ) -> Result<PostFilterResult, PlanError> {
        let PreemptionInput {
            victims,
            options,
            extenders,
            is_waiting,
        } = preemption;
        let (mut checks, _) = self.compile_filters(cluster, pod);
        let mut messages = Vec::new();
        let (mut plan, mut deallocates) = (None, None);
        let mut has_failed = false;
        for plugin in &self.post_filters {
            match plugin {
                PostFilter::DynamicResources
                    if self.has_run_pre_filter(plugin.as_str(), &filtered.pre_filter) =>
                {
                    let of_plugin = (plugin.as_str(), Point::PostFilter);
                    let run = || self.unavailable_claim(cluster, pod, filtered);
                    let claim = run_plugin(&*self.recorder, of_plugin, run, |_| status(false));
                    // Other pods of the group are not known here.
                    deallocates = claim.filter(|claim| !claim.is_of_group);
                    let message = claim_message(cluster, pod, filtered, deallocates.as_ref());
                    messages.push(message.to_owned());
                }
                // Its PreFilter has stored no state for it to find (S5-102).
                PostFilter::DynamicResources => {
                    messages = vec!["not found".to_owned()];
                    has_failed = true;
                    break;
                }
                PostFilter::DefaultPreemption => {
                    let options = Options {
                        frees_devices: options.frees_devices || self.frees_devices,
                        ..options
                    };
                    let rejections = filtered.rejections_by_node();
                    let (found, took) = timed(&*self.recorder, || {
                        preempt(
                            &mut checks,
                            rejections,
                            victims,
                            options,
                            extenders,
                            is_waiting,
                        )
                    });
                    let succeeds = found.as_ref().is_ok_and(|plan| plan.choice().is_some());
                    self.recorder.on_preemption("pod", status(succeeds), took);
                    if self.recorder.samples_plugins() {
                        let (name, point) = (plugin.as_str(), Point::PostFilter);
                        self.recorder.on_plugin(name, point, status(succeeds), took);
                    }
                    let found = found?;
                    let message = found.message(&checks);
                    messages.extend(message.map(|message| format!("preemption: {message}")));
                    plan = Some(found);
                }
            }
        }
        let mut fit_error = filtered.fit_error(cluster, pod);
        let is_current = cluster.compatibility().is_at_least(Release::V1_37);
        let has_group = cluster.template(pod).scheduling_group.is_some();
        if is_current && has_group {
            // S7-039: there it is the group that preempts, and its condition that says so.
            messages.clear();
        }
        let choice = plan.as_ref().and_then(|plan| Some((plan, plan.choice()?)));
        if let Some((plan, choice)) = choice
            && is_current
            && !has_group
        {
            let (node, victims) = (cluster.node_name(choice.node), plan.victims(choice).len());
            // Writing to a String does not fail.
            let _ = write!(
                fit_error,
                " preemption: found a potential placement for pod on node {node}, preempting {victims} victims"
            );
        }
        let is_nominated = choice.is_some();
        let message = if messages.is_empty() {
            fit_error.clone()
        } else {
            format!("{fit_error} {}", messages.join(", "))
        };
        Ok(PostFilterResult {
            plugins: self.rejectors(filtered),
            fit_error,
            plan,
            deallocates,
            message: (!is_nominated).then_some(message),
            status: if has_failed {
                ERROR
            } else {
                status(is_nominated)
            },
        })
    }

    /// A claim whose devices cannot be used on any node that rejects the pod for its devices alone.
    pub(crate) fn unavailable_claim(
        &self,
        cluster: &Cluster,
        pod: &Pod,
        filtered: &Filtered,
    ) -> Option<ClaimRef> {
        let nodes = cluster.node_ids().zip(&filtered.verdicts);
        let nodes = nodes.filter_map(|(id, verdict)| match verdict {
            Verdict::Rejected(index, rejection)
                if self.filters[*index].name() == "DynamicResources" =>
            {
                Some((id, rejection.reason))
            }
            _ => None,
        });
        let claim = unavailable_claim(cluster, pod, nodes);
        let claim = claim.or_else(|| left_over_claim(cluster, pod))?;
        let special = cluster.devices().special_claim(pod.uid());
        Some(ClaimRef {
            is_special: special.is_some_and(|special| special.metadata.uid == claim.metadata.uid),
            is_of_group: claim
                .status
                .reserved_for
                .iter()
                .any(|consumer| consumer.is_group(&consumer.name)),
            ..ClaimRef::of(&claim.metadata)
        })
    }
}

fn claim_message(
    cluster: &Cluster,
    pod: &Pod,
    filtered: &Filtered,
    deallocates: Option<&ClaimRef>,
) -> &'static str {
    let rejected_by_itself = filtered
        .pre_filter_rejection()
        .is_some_and(|(plugin, _)| plugin == PostFilter::DynamicResources.as_str());
    if rejected_by_itself || !has_claims(cluster, pod) {
        "no new claims to deallocate"
    } else if let Some(claim) = deallocates {
        if claim.is_special {
            "deletion of ResourceClaim completed"
        } else {
            "deallocation of ResourceClaim completed"
        }
    } else {
        "still not schedulable"
    }
}
