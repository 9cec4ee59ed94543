//! Suggestions: changes after which a pod would fit. For some nodes the fewest changes are searched. Each set of changes is tried
//! on the cluster before it is suggested.

mod propose;

use crate::cycle::{Filtered, Verdict};
use crate::framework::Framework;
use evictd_placement::{Cluster, NodeId, Pod, Statement};
use evictd_pod::{Node, wire};
use evictd_what_if::{Limits, Options, Propose, Suggestion, alternatives};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How much is searched on one node.
const LIMITS: Limits = Limits {
    changes: 3,
    sets: 5,
};
/// The most pods whose removal is suggested.
const MAX_REMOVED: usize = 5;
/// How many nodes are tried for each node that is reported.
const TRIED_PER_NODE: usize = 4;

/// The changes that would let a pod fit on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSuggestions {
    /// The node.
    pub node: String,
    /// Each of these sets of changes is sufficient.
    pub alternatives: Vec<Vec<Suggestion>>,
}

/// Suggestions for the nodes that need the fewest changes, at most `most`. The cluster is changed and restored. Empty if a
/// `PreFilter` plugin rejected every node.
pub fn suggestions(
    cluster: &mut Cluster,
    framework: &Framework,
    pod: &wire::Pod,
    filtered: &Filtered,
    most: usize,
) -> Vec<NodeSuggestions> {
    if filtered.pre_filter_rejection().is_some() {
        return Vec::new();
    }
    let nearest = nearest(cluster, pod, filtered);
    let distances: BTreeMap<NodeId, i64> = nearest.iter().copied().collect();
    let mut found = Vec::new();
    for (id, _) in nearest
        .into_iter()
        .take(most.saturating_mul(TRIED_PER_NODE))
    {
        let alternatives = alternatives(&mut Trial::new(cluster, framework, pod, id), LIMITS);
        if let Some(fewest) = alternatives.iter().map(Vec::len).min() {
            let node = cluster.node_name(id).to_owned();
            let rank = (fewest, distances.get(&id).copied().unwrap_or_default());
            found.push((rank, NodeSuggestions { node, alternatives }));
        }
    }
    // The sort is stable: among nodes that lack as much the nearest stays first.
    found.sort_by_key(|(rank, _)| *rank);
    found
        .into_iter()
        .map(|(_, suggestion)| suggestion)
        .take(most)
        .collect()
}

/// The rejected nodes in the order in which they are tried: first those where the removal of pods could help, then those that
/// passed more filters, then those that lack less.
fn nearest(cluster: &mut Cluster, wire: &wire::Pod, filtered: &Filtered) -> Vec<(NodeId, i64)> {
    let Ok(pod) = cluster.pod(wire.clone()) else {
        return Vec::new();
    };
    let mut rejected: Vec<_> = cluster
        .node_ids()
        .zip(&filtered.verdicts)
        .filter_map(|(id, verdict)| match verdict {
            Verdict::Rejected(index, rejection) => {
                let distance = propose::distance(cluster, id, &pod);
                Some((rejection.code, Reverse(*index), distance, id))
            }
            _ => None,
        })
        .collect();
    rejected.sort();
    cluster.release(pod);
    rejected
        .into_iter()
        .map(|(_, _, distance, id)| (id, distance))
        .collect()
}

/// A node and a pod that are changed until the pod fits on the node.
struct Trial<'a> {
    cluster: &'a mut Cluster,
    framework: &'a Framework,
    id: NodeId,
    node: Node,
    pod: wire::Pod,
}

/// Why the pod does not fit after some changes.
#[derive(Debug, Default, PartialEq)]
struct Rejected {
    plugin: String,
    reasons: Vec<String>,
    /// The next change to try. It tells two taints or two labels apart, whose reasons are the same.
    next: Option<Suggestion>,
}

impl<'a> Trial<'a> {
    fn new(
        cluster: &'a mut Cluster,
        framework: &'a Framework,
        pod: &wire::Pod,
        id: NodeId,
    ) -> Self {
        Self {
            node: cluster.node_to_wire(id),
            pod: pod.clone(),
            cluster,
            framework,
            id,
        }
    }

    /// The removal of pods from the node, if that lets the pod fit.
    fn removal(&mut self, suggestions: &[Suggestion]) -> Options<Suggestion> {
        let removed = self.changed(suggestions, |trial, _, _, pod| {
            removable_pods(trial.framework, trial.cluster, pod, trial.id)
        });
        let removed = removed.flatten().map(Suggestion::RemovePods);
        removed.map(|removed| vec![removed]).into_iter().collect()
    }

    /// Evaluates the changed node and pod, and restores the cluster.
    fn changed<T>(
        &mut self,
        suggestions: &[Suggestion],
        ask: impl FnOnce(&Self, &Node, &wire::Pod, &Pod) -> T,
    ) -> Option<T> {
        let (mut node, mut wire) = (self.node.clone(), self.pod.clone());
        let mut removed = Statement::default();
        for suggestion in suggestions {
            suggestion.apply(&mut node, &mut wire);
            match suggestion {
                Suggestion::RemovePods(names) => self.remove_pods(&mut removed, self.id, names),
                Suggestion::AwaitPods(names) => {
                    for id in self.cluster.node_ids().collect::<Vec<_>>() {
                        self.remove_pods(&mut removed, id, names);
                    }
                }
                _ => {}
            }
        }
        self.cluster.update_node(&node);
        let pod = self.cluster.pod(wire.clone()).ok();
        let answer = pod.map(|pod| {
            let answer = ask(self, &node, &wire, &pod);
            self.cluster.release(pod);
            answer
        });
        removed.undo(self.cluster);
        self.cluster.update_node(&self.node);
        answer
    }

    fn remove_pods(&mut self, removed: &mut Statement, id: NodeId, names: &[String]) {
        // From the end, because a removal shifts the indices after it.
        for index in (0..self.cluster.node(id).pods.len()).rev() {
            let pod = &self.cluster.node(id).pods[index];
            if names.contains(&self.cluster.full_name(pod)) {
                removed.remove(self.cluster, id, index);
            }
        }
    }
}

impl evictd_what_if::Trial for Trial<'_> {
    type Change = Suggestion;
    type Obstacle = Rejected;

    fn obstacle(&mut self, suggestions: &[Suggestion]) -> Option<Rejected> {
        let rejected = self.changed(suggestions, |trial, node, wire, pod| {
            let rejected = trial.framework.rejection(trial.cluster, pod, trial.id);
            let (plugin, reasons) = rejected?;
            let next = propose::of_fields(&plugin, node, wire);
            Some(Rejected {
                plugin,
                reasons,
                next,
            })
        });
        // A change may have made the pod invalid.
        rejected.unwrap_or_else(|| Some(Rejected::default()))
    }
}

impl Propose for Trial<'_> {
    fn proposals(
        &mut self,
        suggestions: &[Suggestion],
        rejected: &Rejected,
    ) -> Vec<Options<Suggestion>> {
        let Rejected {
            plugin, reasons, ..
        } = rejected;
        let proposals = self.changed(suggestions, |trial, node, wire, pod| {
            let here = (&*trial.cluster, trial.id);
            propose::proposals(here, (node, wire), pod, (plugin, reasons))
        });
        let mut proposals = proposals.unwrap_or_default();
        // Resources can be added or freed, and either may be what an administrator can do.
        if plugin == "NodeResourcesFit" {
            proposals.push(self.removal(suggestions));
        }
        proposals
    }

    fn last_resort(&mut self, suggestions: &[Suggestion], _: &Rejected) -> Options<Suggestion> {
        self.removal(suggestions)
    }

    fn is_progress(before: &Rejected, after: &Rejected) -> bool {
        before != after
    }
}

/// The pods of a node, the most important first, without which the pod would fit. `None` if that does not help, or if there are
/// too many.
fn removable_pods(
    framework: &Framework,
    cluster: &Cluster,
    pod: &Pod,
    id: NodeId,
) -> Option<Vec<String>> {
    let (mut checks, _) = framework.compile_filters(cluster, pod);
    let mut trial = checks.on(id);
    // A controller would create another pod at once, and one that terminates is awaited.
    let is_removable = |pod: &Pod| !pod.terminating && cluster.template(pod).owner.is_none();
    let pods = trial.pods().iter().enumerate();
    let removable: Vec<_> = pods.filter(|(_, pod)| is_removable(pod)).collect();
    for (index, _) in &removable {
        trial.remove(*index);
    }
    if trial.fits().is_err() {
        return None;
    }
    // As in a preemption: the most important pods are put back first.
    let victims = removable.into_iter().filter(|(index, _)| {
        trial.put_back(*index);
        let stays = trial.still_fits();
        if !stays {
            trial.remove(*index);
        }
        !stays
    });
    let victims: Vec<String> = victims.map(|(_, pod)| cluster.full_name(pod)).collect();
    let is_short = (1..=MAX_REMOVED).contains(&victims.len());
    is_short.then_some(victims)
}
