//! Extenders: HTTP services that filter and score nodes, and choose among victims. The caller sends the requests. An attempt
//! continues with the response on the cluster as it is then.

use crate::config;
use crate::cycle::{Filtered, Verdict};
use crate::evidence::Evidence;
use crate::framework::Framework;
use crate::scheduling_algorithm::ScheduleResult;
use evictd_placement::{Cluster, Code, MAX_SCORE, NodeId, Pod};
use evictd_pod::wire;
use evictd_preemption::{Extender, ExtenderError, Offer, Victim};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A request that an attempt depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtenderRequest {
    /// Filter and score these nodes, with every extender one after the other.
    Nodes(Vec<Arc<str>>),
    /// Choose among these victims, with one extender.
    Victims {
        /// The extender by its index in the configuration.
        extender: usize,
        /// Nodes that could be freed.
        candidates: Vec<NodeVictims>,
    },
}

/// The victims on a node (`NodeNameToVictims`).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVictims {
    /// The node.
    pub node: Arc<str>,
    /// The UIDs of the victims.
    pub victims: Vec<Arc<str>>,
    /// How many of them violate a disruption budget (`NumPDBViolations`).
    pub violations: usize,
}

/// The response to an [`ExtenderRequest`].
#[derive(Debug, Clone)]
pub enum ExtenderResponse {
    /// To [`ExtenderRequest::Nodes`], or an error.
    Nodes(Result<NodesResponse, String>),
    /// To [`ExtenderRequest::Victims`].
    Victims {
        /// The extender by its index.
        extender: usize,
        /// The nodes that may be freed, or an error.
        accepted: Result<Vec<NodeVictims>, String>,
    },
}

/// Filtered and scored nodes.
#[derive(Debug, Clone, Default)]
pub struct NodesResponse {
    /// The nodes that every extender passes.
    pub passed: HashSet<Arc<str>>,
    /// Why others are rejected, and whether the removal of pods could help there (S5-050).
    pub rejected: HashMap<Arc<str>, (Code, String)>,
    /// The sum of the weighted scores of the extenders; 0 for nodes that are missing here.
    pub scores: HashMap<Arc<str>, i64>,
}

/// The highest score of an extender (`MaxExtenderPriority`); plugins give up to [`MAX_SCORE`].
const MAX_EXTENDER_SCORE: i64 = 10;

/// The requests and responses of one attempt.
#[derive(Debug, Default)]
pub(crate) struct ExtenderState {
    /// Which attempt it is, from 1.
    pub(crate) attempt: u32,
    pub(crate) requested: HashSet<Arc<str>>,
    pub(crate) nodes: Option<Result<NodesResponse, String>>,
    /// By the index of the extender.
    pub(crate) victims: BTreeMap<usize, Result<Vec<NodeVictims>, String>>,
    /// The extenders reject the nominated node.
    pub(crate) leaves_nominated: bool,
    /// How many requests about nodes were sent.
    pub(crate) rounds: u32,
}

impl ExtenderState {
    pub(crate) fn add(&mut self, response: ExtenderResponse) {
        match response {
            // The responses about other nodes still hold.
            ExtenderResponse::Nodes(Ok(new)) if matches!(self.nodes, Some(Ok(_))) => {
                if let Some(Ok(known)) = &mut self.nodes {
                    known.passed.extend(new.passed);
                    known.rejected.extend(new.rejected);
                    known.scores.extend(new.scores);
                }
            }
            ExtenderResponse::Nodes(nodes) => self.nodes = Some(nodes),
            ExtenderResponse::Victims { extender, accepted } => {
                self.victims.insert(extender, accepted);
            }
        }
    }
}

/// Whether an extender is asked about a pod: it manages no resources, or one that the pod requests.
pub fn is_interested(extender: &config::Extender, pod: &wire::Pod) -> bool {
    let managed = &extender.managed_resources;
    let mut containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    managed.is_empty()
        || containers.any(|container| {
            let resources = &container.resources;
            managed.iter().any(|name| {
                resources.requests.contains_key(name) || resources.limits.contains_key(name)
            })
        })
}

/// Whether an extender filters or scores the nodes for a pod.
pub(crate) fn considers_nodes(extender: &config::Extender, pod: &wire::Pod) -> bool {
    let has_verb = !extender.filter_verb.is_empty() || !extender.prioritize_verb.is_empty();
    has_verb && is_interested(extender, pod)
}

/// Removes the feasible nodes that the extenders reject.
pub(crate) fn apply_filter(
    cluster: &Cluster,
    response: &NodesResponse,
    mut filtered: Box<Filtered>,
) -> Box<Filtered> {
    for id in std::mem::take(&mut filtered.feasible) {
        let name = cluster.node_name(id);
        if response.passed.contains(name) {
            filtered.feasible.push(id);
            continue;
        }
        // As kube-scheduler: a node that is missing without a reason cannot be freed by a preemption.
        let rejection = response
            .rejected
            .get(name)
            .cloned()
            .unwrap_or((Code::UnschedulableAndUnresolvable, String::new()));
        filtered.verdicts[id.index()] = Verdict::ByExtender(filtered.by_extenders.len());
        filtered.by_extenders.push(rejection);
    }
    filtered
}

/// The best of the feasible nodes by the scores of plugins and extenders (S5-055). There must be at least one.
pub(crate) fn select_host(
    framework: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    feasible: &[NodeId],
    response: Option<&NodesResponse>,
) -> ScheduleResult {
    let mut totals = match framework.score(cluster, pod, feasible) {
        Some(scores) => scores.totals,
        None => vec![0; feasible.len()],
    };
    for (total, id) in totals.iter_mut().zip(feasible) {
        let scaled = response
            .and_then(|response| response.scores.get(cluster.node_name(*id)))
            .copied()
            .unwrap_or(0)
            .saturating_mul(MAX_SCORE / MAX_EXTENDER_SCORE);
        *total = total.saturating_add(scaled);
    }
    let best = totals.iter().copied().max().unwrap_or(0);
    let top: Vec<NodeId> = feasible
        .iter()
        .zip(&totals)
        .filter(|(_, total)| **total == best)
        .map(|(id, _)| *id)
        .collect();
    ScheduleResult {
        chosen: framework
            .tie_break
            .choose(cluster, &top)
            .unwrap_or(feasible[0]),
        feasible: feasible.len(),
        score: (feasible.len() > 1).then_some(best),
        top,
        nodes: Vec::new(),
        evidence: Evidence::default(),
    }
}

/// An extender that replays its response to a preemption, or records the request that it would need.
pub(crate) struct ReplayedExtender<'a> {
    pub(crate) index: usize,
    pub(crate) extender: &'a config::Extender,
    pub(crate) response: Option<&'a Result<Vec<NodeVictims>, String>>,
    pub(crate) request: Option<Vec<NodeVictims>>,
}

impl Extender for ReplayedExtender<'_> {
    fn name(&self) -> &str {
        &self.extender.url_prefix
    }

    fn is_interested(&self, _cluster: &Cluster, _preemptor: &Pod) -> bool {
        // The others are not replayed.
        true
    }

    fn is_ignorable(&self) -> bool {
        self.extender.ignorable
    }

    fn process(
        &mut self,
        cluster: &Cluster,
        _preemptor: &Pod,
        offers: &[Offer],
    ) -> Result<Vec<Offer>, ExtenderError> {
        let error = |problem: String| ExtenderError {
            name: self.extender.url_prefix.clone(),
            problem,
        };
        match self.response {
            None => {
                // The error ends this preemption. It is repeated with the response.
                let request = offers.iter().map(|offer| to_request(cluster, offer));
                self.request = Some(request.collect());
                Err(error("it was not asked yet".to_owned()))
            }
            Some(Err(problem)) => Err(error(problem.clone())),
            Some(Ok(accepted)) => accepted
                .iter()
                .map(|candidate| from_response(cluster, candidate).map_err(error))
                .collect(),
        }
    }
}

fn to_request(cluster: &Cluster, offer: &Offer) -> NodeVictims {
    NodeVictims {
        node: cluster.node_name(offer.node).into(),
        victims: offer
            .victims
            .iter()
            .map(|victim| cluster.pod_key(victim.pod(cluster)))
            .collect(),
        violations: offer.violations,
    }
}

fn from_response(cluster: &Cluster, candidate: &NodeVictims) -> Result<Offer, String> {
    let name = &candidate.node;
    let node = cluster
        .find_node(name)
        .ok_or_else(|| format!("there is no node {name:?}"))?;
    // Pods of a group may be on other nodes. Only those that were offered are accepted later.
    let find = |uid: &Arc<str>| {
        let found = cluster.find_pod(uid);
        found
            .map(|(id, index)| Victim::new(id, index))
            .ok_or_else(|| format!("there is no pod with the UID {uid:?} on node {name:?}"))
    };
    let victims: Result<Vec<Victim>, String> = candidate.victims.iter().map(find).collect();
    Ok(Offer {
        node,
        victims: victims?,
        violations: candidate.violations,
    })
}
