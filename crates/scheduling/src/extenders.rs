//! Extenders: who is asked over HTTP about some pods. What they are asked is a question that whoever runs the scheduler puts
//! to them; the attempt goes on when the answer is there, on the cluster as it is then.

use crate::config;
use crate::cycle::{Filtered, Verdict};
use crate::evidence::Evidence;
use crate::framework::Framework;
use crate::scheduling_algorithm::ScheduleResult;
use evictd_placement::{Cluster, Code, MAX_SCORE, NodeId, Pod};
use evictd_pod::wire;
use evictd_preemption::{Extender, ExtenderError, Offer};
use hashbrown::{HashMap, HashSet};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What has to be asked before it is known what becomes of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ExtenderRequest {
    /// Which of these nodes will do, in the opinion of all extenders one after the other, and how good they are.
    Nodes(Vec<Arc<str>>),
    /// Which of these victims may go, in the opinion of one extender, by its index in the configuration.
    Victims {
        /// The extender.
        extender: usize,
        /// Nodes that could be freed.
        offers: Vec<NodeVictims>,
    },
}

/// A node that could be freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeVictims {
    /// The node.
    pub node: Arc<str>,
    /// The UIDs of the pods that would go.
    pub victims: Vec<Arc<str>>,
    /// How many of them break a budget.
    pub violations: usize,
}

/// What was said.
#[derive(Debug, Clone)]
pub enum ExtenderResponse {
    /// To [`ExtenderRequest::Nodes`]; in words why there is no answer.
    Nodes(Result<NodesResponse, String>),
    /// To [`ExtenderRequest::Victims`].
    Victims {
        /// Who said it.
        extender: usize,
        /// The nodes that may be freed; in words why there is no answer.
        agreed: Result<Vec<NodeVictims>, String>,
    },
}

/// Which nodes are left, and how good they are.
#[derive(Debug, Clone, Default)]
pub struct NodesResponse {
    /// The nodes that every extender lets pass.
    pub left: HashSet<Arc<str>>,
    /// Why others are not, and whether pods that leave could help there (S5-050).
    pub rejected: HashMap<Arc<str>, (Code, String)>,
    /// The sum of what the extenders give, each times its weight; nodes that are not in it get nothing.
    pub scores: HashMap<Arc<str>, i64>,
}

/// The highest score that an extender gives, where a plugin gives 100.
const MAX_EXTENDER_SCORE: i64 = 10;

/// What is known of a pod about which extenders are asked.
#[derive(Debug, Default)]
pub(crate) struct ExtenderState {
    /// Which attempt it is.
    pub(crate) number: u32,
    /// The nodes that they were asked about.
    pub(crate) nodes: HashSet<Arc<str>>,
    pub(crate) reply: Option<Result<NodesResponse, String>>,
    pub(crate) victims: BTreeMap<usize, Result<Vec<NodeVictims>, String>>,
    /// They do not want the node that is being freed for it.
    pub(crate) leaves_nominated: bool,
    /// How often they were asked about nodes.
    pub(crate) rounds: u32,
}

impl ExtenderState {
    pub(crate) fn hear(&mut self, reply: ExtenderResponse) {
        match reply {
            // What was said of other nodes before still holds.
            ExtenderResponse::Nodes(Ok(new)) if matches!(self.reply, Some(Ok(_))) => {
                if let Some(Ok(known)) = &mut self.reply {
                    known.left.extend(new.left);
                    known.rejected.extend(new.rejected);
                    known.scores.extend(new.scores);
                }
            }
            ExtenderResponse::Nodes(reply) => self.reply = Some(reply),
            ExtenderResponse::Victims { extender, agreed } => {
                self.victims.insert(extender, agreed);
            }
        }
    }
}

/// Whether an extender is asked about a pod: it manages no resources, or one that the pod asks for.
pub fn is_interested(extender: &config::Extender, pod: &wire::Pod) -> bool {
    let managed = &extender.managed_resources;
    let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    managed.is_empty()
        || containers.into_iter().any(|container| {
            let resources = &container.resources;
            let asks = |name: &String| {
                resources.requests.contains_key(name) || resources.limits.contains_key(name)
            };
            managed.iter().any(asks)
        })
}

/// Whether an extender has something to say about the nodes for a pod.
pub(crate) fn asks(extender: &config::Extender, pod: &wire::Pod) -> bool {
    let verbs = [&extender.filter_verb, &extender.prioritize_verb];
    verbs.iter().any(|verb| !verb.is_empty()) && is_interested(extender, pod)
}

/// Takes the nodes away that the extenders do not want.
pub(crate) fn narrow(
    cluster: &Cluster,
    reply: &NodesResponse,
    mut filtered: Box<Filtered>,
) -> Box<Filtered> {
    let feasible = std::mem::take(&mut filtered.feasible);
    for id in feasible {
        let name = cluster.node_name(id);
        if reply.left.contains(name) {
            filtered.feasible.push(id);
            continue;
        }
        // Of what was left out without a word, kube-scheduler thinks that nothing helps there.
        let said = reply.rejected.get(name).cloned();
        let said = said.unwrap_or((Code::UnschedulableAndUnresolvable, String::new()));
        filtered.verdicts[id.index()] = Verdict::ByExtender(filtered.by_extenders.len());
        filtered.by_extenders.push(said);
    }
    filtered
}

/// The best of these nodes, of which there is one at least, by the scores of plugins and extenders (S5-055).
pub(crate) fn choose(
    framework: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    feasible: &[NodeId],
    reply: Option<&NodesResponse>,
) -> ScheduleResult {
    let scores = framework.score(cluster, pod, feasible);
    let mut totals = match scores {
        Some(scores) => scores.totals,
        None => vec![0; feasible.len()],
    };
    for (total, id) in totals.iter_mut().zip(feasible) {
        let own = reply.and_then(|own| own.scores.get(cluster.node_name(*id)));
        let own = own.copied().unwrap_or(0);
        let scaled = own.saturating_mul(MAX_SCORE / MAX_EXTENDER_SCORE);
        *total = total.saturating_add(scaled);
    }
    let best = totals.iter().copied().max().unwrap_or(0);
    let top = feasible.iter().zip(&totals);
    let top = top.filter(|(_, total)| **total == best);
    let top: Vec<NodeId> = top.map(|(id, _)| *id).collect();
    ScheduleResult {
        // It is called with nodes only.
        chosen: framework
            .tie_break
            .choose(cluster, &top)
            .unwrap_or(feasible[0]),
        feasible: feasible.len(),
        score: (feasible.len() > 1).then_some(best),
        top,
        evidence: Evidence::default(),
    }
}

/// An extender of a preemption that says what it has said before, or notes what it would have to be asked.
pub(crate) struct Replay<'a> {
    pub(crate) index: usize,
    pub(crate) extender: &'a config::Extender,
    pub(crate) said: Option<&'a Result<Vec<NodeVictims>, String>>,
    pub(crate) question: Option<Vec<NodeVictims>>,
}

impl Extender for Replay<'_> {
    fn name(&self) -> &str {
        &self.extender.url_prefix
    }

    fn is_interested(&self, _cluster: &Cluster, _preemptor: &Pod) -> bool {
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
        let wrong = |problem: String| ExtenderError {
            name: self.extender.url_prefix.clone(),
            problem,
        };
        match self.said {
            None => {
                let offers = offers.iter().map(|offer| offered(cluster, offer));
                self.question = Some(offers.collect());
                Err(wrong("it was not asked yet".to_owned()))
            }
            Some(Err(problem)) => Err(wrong(problem.clone())),
            Some(Ok(agreed)) => agreed
                .iter()
                .map(|own| offer(cluster, own).map_err(wrong))
                .collect(),
        }
    }
}

fn offered(cluster: &Cluster, offer: &Offer) -> NodeVictims {
    let pods = &cluster.node(offer.node).pods;
    let victims = offer.victims.iter();
    NodeVictims {
        node: cluster.node_name(offer.node).into(),
        victims: victims
            .map(|index| cluster.pod_key(&pods[*index as usize]))
            .collect(),
        violations: offer.violations,
    }
}

fn offer(cluster: &Cluster, agreed: &NodeVictims) -> Result<Offer, String> {
    let id = cluster.find_node(&agreed.node);
    let node = id.ok_or_else(|| format!("there is no node {:?}", agreed.node))?;
    let pods = &cluster.node(node).pods;
    let find = |uid: &Arc<str>| {
        let index = pods.iter().position(|pod| cluster.pod_key(pod) == *uid);
        // A node's pods are counted in 32 bits.
        let index = index.and_then(|index| u32::try_from(index).ok());
        let name = &agreed.node;
        index.ok_or_else(|| format!("there is no pod with the UID {uid:?} on node {name:?}"))
    };
    let victims: Result<Vec<u32>, String> = agreed.victims.iter().map(find).collect();
    Ok(Offer {
        node,
        victims: victims?,
        violations: agreed.violations,
    })
}
