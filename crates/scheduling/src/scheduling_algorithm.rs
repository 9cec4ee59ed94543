//! Chooses the node of a pod: filters, scores and the best node. Pods of one workload often follow each other. So the filter
//! results and scores of one pod are kept for the next equal pod. Only nodes that have changed are evaluated again.

mod equivalence_cache;
mod equivalence_class;

use crate::cycle::Filtered;
use crate::evidence::{Evidence, RejectedNodes};
use crate::framework::Framework;
use crate::pre_filter::Prepared;
use equivalence_cache::EquivalenceCache;
use evictd_placement::{Cluster, NodeId, Pod};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The chosen node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScheduleResult {
    /// The chosen node, one of `top`.
    pub chosen: NodeId,
    /// How many nodes are feasible.
    pub feasible: usize,
    /// The highest total score; `None` if only one node is feasible.
    pub score: Option<i64>,
    /// All nodes with that score.
    pub top: Vec<NodeId>,
    /// The feasible nodes, if each was looked at for this pod alone.
    pub nodes: Vec<NodeId>,
    /// Why this node was chosen.
    pub evidence: Evidence,
}

/// Schedules pods and caches the results of the last equivalence class.
#[derive(Default)]
pub struct SchedulingAlgorithm {
    cache: Option<EquivalenceCache>,
    /// How many nodes were evaluated since the number was last taken.
    evaluated: usize,
}

/// The result of a pod that fits on no node and for which no pod is evicted.
#[derive(Clone)]
pub(crate) struct UnschedulableResult {
    pub(crate) message: String,
    pub(crate) plugins: BTreeSet<String>,
    /// Whether a preemption was tried.
    pub(crate) preempts: bool,
    /// Whether the nomination of the pod must be cleared.
    pub(crate) clears_nomination: bool,
    pub(crate) rejections: Arc<[RejectedNodes]>,
}

impl SchedulingAlgorithm {
    /// Chooses a node. If no node is feasible it returns the results of the filters.
    pub fn schedule(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Result<ScheduleResult, Box<Filtered>> {
        self.schedule_where(framework, cluster, pod, None)
    }

    /// As [`Self::schedule`], among the allowed nodes.
    pub(crate) fn schedule_among(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
        allowed: &dyn Fn(NodeId) -> bool,
    ) -> Result<ScheduleResult, Box<Filtered>> {
        self.schedule_where(framework, cluster, pod, Some(allowed))
    }

    /// The result of the last pod, if it was equal to this one, fits on no node, and the cluster has not changed since.
    pub(crate) fn cached_unschedulable(
        &self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
    ) -> Option<&UnschedulableResult> {
        self.cache.as_ref()?.unschedulable(framework, cluster, pod)
    }

    /// Keeps the result of the pod that was just tried for the next equal pod.
    pub(crate) fn cache_unschedulable(&mut self, pod: &Pod, result: UnschedulableResult) {
        if let Some(cache) = &mut self.cache {
            cache.set_unschedulable(pod, result);
        }
    }

    /// How many nodes were evaluated since the last call.
    pub(crate) const fn take_evaluated(&mut self) -> usize {
        std::mem::replace(&mut self.evaluated, 0)
    }

    /// Another preemption may evict pods that the last one could not.
    pub(crate) fn forget_unschedulable(&mut self) {
        if let Some(cache) = &mut self.cache {
            cache.forget_unschedulable();
        }
    }

    fn schedule_where(
        &mut self,
        framework: &Framework,
        cluster: &Cluster,
        pod: &Pod,
        allowed: Option<&dyn Fn(NodeId) -> bool>,
    ) -> Result<ScheduleResult, Box<Filtered>> {
        let known = self
            .cache
            .take()
            .filter(|cache| cache.holds_for(framework, cluster, pod));
        let cache = if let Some(mut cache) = known {
            self.evaluated += cache.update(framework, cluster, pod);
            cache
        } else {
            self.evaluated += cluster.nodes().len();
            let prepared = Prepared::new(framework, cluster, pod);
            match EquivalenceCache::new(framework, cluster, pod, prepared) {
                Ok(cache) => cache,
                Err(prepared) => {
                    return schedule_uncached(framework, (cluster, pod), *prepared, allowed);
                }
            }
        };
        let cache = self.cache.insert(cache);
        if let Some(mut result) = cache.select_host(framework.tie_break, cluster, allowed) {
            result.evidence.rejections = cache.rejections(framework, cluster, pod);
            if !cluster.template(pod).device_claims.is_empty() {
                result.nodes = cache.feasible(allowed).map(|(id, _)| id).collect();
            }
            return Ok(result);
        }
        let filtered = Filtered::of_verdicts(framework, cache.verdicts().to_vec());
        Err(Box::new(filtered))
    }
}

/// Pods whose results depend on other pods or on a nomination are not cached.
fn schedule_uncached(
    framework: &Framework,
    (cluster, pod): (&Cluster, &Pod),
    prepared: Prepared,
    allowed: Option<&dyn Fn(NodeId) -> bool>,
) -> Result<ScheduleResult, Box<Filtered>> {
    let mut filtered = framework.filter_prepared(cluster, pod, prepared);
    if let Some(allowed) = allowed {
        filtered.feasible.retain(|id| allowed(*id));
    }
    if filtered.feasible.is_empty() {
        return Err(Box::new(filtered));
    }
    let scores = framework.score(cluster, pod, &filtered.feasible);
    let top = match &scores {
        Some(scores) => scores.top(&filtered.feasible),
        None => filtered.feasible.clone(),
    };
    let Some(chosen) = framework.tie_break.choose(cluster, &top) else {
        return Err(Box::new(filtered));
    };
    let mut evidence = Evidence {
        rejections: filtered.rejections(framework, cluster, pod),
        ..Evidence::default()
    };
    let deciding = scores
        .as_ref()
        .and_then(|scores| scores.deciding(&filtered.feasible, chosen));
    if let Some((runner_up, scores)) = deciding {
        evidence.runner_up = Some(cluster.node_name(runner_up).to_owned());
        evidence.scores = scores;
    }
    Ok(ScheduleResult {
        chosen,
        feasible: filtered.feasible.len(),
        score: scores.and_then(|scores| scores.totals.into_iter().max()),
        top,
        nodes: filtered.feasible,
        evidence,
    })
}
