//! What would have to be different for a pod that fits nowhere to fit: for some nodes the fewest changes, each set of them
//! tried on the cluster before it is told.

mod propose;

use crate::cycle::{Filtered, Verdict};
use crate::framework::Framework;
use evictd_placement::{Cluster, NodeId, Pod, Statement};
use evictd_pod::{Node, wire};
use evictd_what_if::{Suggestion, Trial as _, one_by_one, step_by_step};
use std::cmp::Reverse;

/// The most changes that are combined.
const COMBINED: usize = 3;
/// The most pods that are told to go.
const AWAY: usize = 5;
/// How many nodes are tried for each that is told.
const TRIED: usize = 4;

/// What would let a pod fit on a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSuggestions {
    /// The node.
    pub node: String,
    /// Each of these sets of changes is enough.
    pub alternatives: Vec<Vec<Suggestion>>,
}

/// The suggestions for the nodes that need the fewest changes, at most `most`. The cluster is changed and put back. Empty where
/// something is said before any node is looked at.
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
    let mut found = Vec::new();
    for id in nearest.into_iter().take(most.saturating_mul(TRIED)) {
        let mut alternatives: Vec<_> = [false, true]
            .into_iter()
            .filter_map(|pods_go| Trial::new(cluster, framework, pod, id).search(pods_go))
            .collect();
        alternatives.dedup();
        if let Some(fewest) = alternatives.iter().map(Vec::len).min() {
            let node = cluster.node_name(id).to_owned();
            found.push((fewest, NodeSuggestions { node, alternatives }));
        }
    }
    // The nearest stay in front among those that need as many.
    found.sort_by_key(|(fewest, _)| *fewest);
    found
        .into_iter()
        .map(|(_, suggestion)| suggestion)
        .take(most)
        .collect()
}

/// The rejected nodes: first those where pods that leave could help, then those that have passed more filters, then those
/// that lack less.
fn nearest(cluster: &mut Cluster, wire: &wire::Pod, filtered: &Filtered) -> Vec<NodeId> {
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
    rejected.into_iter().map(|(.., id)| id).collect()
}

/// A node and a pod that are changed until the one fits on the other.
struct Trial<'a> {
    cluster: &'a mut Cluster,
    framework: &'a Framework,
    id: NodeId,
    node: Node,
    pod: wire::Pod,
}

/// The plugin that rejects a pod, with its words.
type Rejected = (String, Vec<String>);

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

    /// The changes after which the pod fits, and none of which can be left out. With `pods_go` others leave where it lacks
    /// a resource.
    fn search(mut self, pods_go: bool) -> Option<Vec<Suggestion>> {
        let suggestions = step_by_step(&mut self, COMBINED, |trial, suggestions, by| {
            Some(vec![trial.answer(suggestions, by, pods_go)?])
        })?;
        // Pods that are removed for one reason may leave room, too.
        Some(one_by_one(&mut self, suggestions))
    }

    /// The suggestion for a rejection after these changes.
    fn answer(
        &mut self,
        suggestions: &[Suggestion],
        by: &Rejected,
        pods_go: bool,
    ) -> Option<Suggestion> {
        let (plugin, reasons) = by;
        let proposals = self.changed(suggestions, |trial, node, wire, pod| {
            if pods_go && plugin == "NodeResourcesFit" {
                return Vec::new();
            }
            let here = (&*trial.cluster, trial.id);
            propose::proposals(here, (node, wire), pod, (plugin, reasons))
        })?;
        let mut changes = suggestions.to_vec();
        for suggestion in proposals {
            changes.push(suggestion);
            if self.obstacle(&changes).as_ref() != Some(by) {
                return changes.pop();
            }
            changes.pop();
        }
        let away = self.changed(suggestions, |trial, _, _, pod| {
            let goes = who_goes(trial.framework, trial.cluster, pod, trial.id)?;
            let pods = &trial.cluster.node(trial.id).pods;
            let goes = goes.into_iter().map(|index| &pods[index]);
            Some(goes.map(|pod| trial.cluster.full_name(pod)).collect())
        })??;
        Some(Suggestion::RemovePods(away))
    }

    /// Asks about the changed node and pod, and puts the cluster back.
    fn changed<T>(
        &mut self,
        suggestions: &[Suggestion],
        ask: impl FnOnce(&Self, &Node, &wire::Pod, &Pod) -> T,
    ) -> Option<T> {
        let (mut node, mut wire) = (self.node.clone(), self.pod.clone());
        let mut away = Statement::default();
        for suggestion in suggestions {
            suggestion.apply(&mut node, &mut wire);
            if let Suggestion::RemovePods(names) = suggestion {
                self.take_away(&mut away, names);
            }
        }
        self.cluster.update_node(&node);
        let pod = self.cluster.pod(wire.clone()).ok();
        let answer = pod.map(|pod| {
            let answer = ask(self, &node, &wire, &pod);
            self.cluster.release(pod);
            answer
        });
        away.undo(self.cluster);
        self.cluster.update_node(&self.node);
        answer
    }

    fn take_away(&mut self, away: &mut Statement, names: &[String]) {
        // From the end, so that those before keep their places.
        for index in (0..self.cluster.node(self.id).pods.len()).rev() {
            let pod = &self.cluster.node(self.id).pods[index];
            if names.contains(&self.cluster.full_name(pod)) {
                away.remove(self.cluster, self.id, index);
            }
        }
    }
}

impl evictd_what_if::Trial for Trial<'_> {
    type Change = Suggestion;
    type Obstacle = Rejected;

    fn obstacle(&mut self, suggestions: &[Suggestion]) -> Option<Rejected> {
        let rejected = self.changed(suggestions, |trial, _, _, pod| {
            trial.framework.rejection(trial.cluster, pod, trial.id)
        });
        // A pod that is no longer one is not known to be placed.
        rejected.unwrap_or_else(|| Some(Rejected::default()))
    }
}

/// The pods of a node, the most important first, without which the pod would fit; `None` if that does not help, or if they
/// are too many to be told.
fn who_goes(framework: &Framework, cluster: &Cluster, pod: &Pod, id: NodeId) -> Option<Vec<usize>> {
    let (mut checks, _) = framework.compile_filters(cluster, pod);
    let mut trial = checks.on(id);
    let mut away = Vec::new();
    for index in (0..trial.pods().len()).rev() {
        if trial.fits().is_ok() {
            break;
        }
        trial.remove(index);
        away.push(index);
    }
    if trial.fits().is_err() {
        return None;
    }
    // The most important come back first, where they can.
    let goes: Vec<usize> = away
        .into_iter()
        .rev()
        .filter(|index| {
            trial.put_back(*index);
            let stays = trial.still_fits();
            if !stays {
                trial.remove(*index);
            }
            !stays
        })
        .collect();
    (1..=AWAY).contains(&goes.len()).then_some(goes)
}
