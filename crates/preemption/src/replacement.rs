//! Predicts where the pods that replace the victims fit.

use crate::groups::Victim;
use crate::plan::Plan;
use evictd_placement::{Checks, Cluster, NodeId, Pod};

/// Where a victim's replacement fits after the preemption.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The victim.
    pub victim: Victim,
    /// For example `ReplicaSet/web-5d4f`. A pod without an owner gets no replacement.
    pub owner: Option<String>,
    /// How many other nodes fit it now, each with one replacement.
    pub nodes: usize,
    /// The first of these nodes.
    pub first: Option<NodeId>,
}

/// The replacements of the chosen node's victims, in the plan's order. The chosen node itself is left out: a victim
/// that fits beside the pod is no victim.
pub fn replacements(cluster: &Cluster, plan: &Plan) -> Vec<Replacement> {
    let Some(choice) = plan.choice() else {
        return Vec::new();
    };
    let victims = plan.victims(choice);
    let mut found: Vec<Replacement> = Vec::with_capacity(victims.len());
    for victim in victims {
        let pod = victim.pod(cluster);
        let alike = found
            .iter()
            .find(|other| fit_alike(other.victim.pod(cluster), pod));
        let (nodes, first) = match alike {
            Some(other) => (other.nodes, other.first),
            None => fitting_nodes(cluster, pod, choice.node, victims),
        };
        found.push(Replacement {
            victim: *victim,
            owner: owner(cluster, pod),
            nodes,
            first,
        });
    }
    found
}

/// Whether two pods surely fit on the same nodes.
fn fit_alike(one: &Pod, other: &Pod) -> bool {
    (one.template, one.amounts, one.priority) == (other.template, other.amounts, other.priority)
}

/// Counts the nodes other than `chosen` that fit a pod once the victims are evicted. The room that they free on these nodes does
/// not count.
fn fitting_nodes(
    cluster: &Cluster,
    pod: &Pod,
    chosen: NodeId,
    victims: &[Victim],
) -> (usize, Option<NodeId>) {
    let mut checks = Checks::new(cluster, pod);
    for on_node in victims.chunk_by(|one, other| one.node == other.node) {
        let indices: Vec<usize> = on_node.iter().map(|victim| victim.index()).collect();
        checks.assume_evicted(on_node[0].node, &indices);
    }
    let mut fitting = cluster
        .node_ids()
        .filter(|id| *id != chosen)
        .filter(|id| checks.fits(*id).is_ok());
    let first = fitting.next();
    (usize::from(first.is_some()) + fitting.count(), first)
}

/// The owner that replaces the pod, for example `ReplicaSet/web-5d4f`.
pub fn owner(cluster: &Cluster, pod: &Pod) -> Option<String> {
    let owner = cluster.template(pod).owner?;
    let text = |symbol| cluster.symbols().text(symbol);
    Some(format!("{}/{}", text(owner.kind), text(owner.name)))
}
