//! Where pods like the victims could go: their owners will make new ones.

use crate::plan::Plan;
use evictd_placement::{Checks, Cluster, NodeId, Pod};

/// Where a victim's replacement could go, once the victims are gone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replacement {
    /// The victim, as an index of the chosen node's pods.
    pub victim: usize,
    /// `ReplicaSet/web-5d4f`; nobody makes a new one of a pod without an owner.
    pub owner: Option<String>,
    /// On how many other nodes it would fit now; each is asked for one replacement alone.
    pub nodes: usize,
    /// One of them.
    pub first: Option<NodeId>,
}

/// Of each victim of the chosen node, in the plan's order. The chosen node itself has no room for any of them beside the
/// incoming pod, or it would not be a victim.
pub fn replacements(cluster: &Cluster, plan: &Plan) -> Vec<Replacement> {
    let Some(choice) = plan.choice() else {
        return Vec::new();
    };
    let pods = &cluster.node(choice.node).pods;
    let victims: Vec<usize> = plan
        .victims(choice)
        .iter()
        .map(|index| *index as usize)
        .collect();
    let mut found: Vec<Replacement> = Vec::with_capacity(victims.len());
    for victim in &victims {
        let pod = &pods[*victim];
        let alike = found
            .iter()
            .find(|other| are_alike(&pods[other.victim], pod));
        let (nodes, first) = match alike {
            Some(other) => (other.nodes, other.first),
            None => places(cluster, pod, choice.node, &victims),
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

/// Whether two pods fit on the same nodes.
fn are_alike(one: &Pod, other: &Pod) -> bool {
    (one.template, one.amounts, one.priority) == (other.template, other.amounts, other.priority)
}

fn places(cluster: &Cluster, pod: &Pod, but: NodeId, gone: &[usize]) -> (usize, Option<NodeId>) {
    let mut checks = Checks::new(cluster, pod);
    checks.forget(but, gone);
    let others = cluster.node_ids().filter(|id| *id != but);
    let mut fitting = others.filter(|id| checks.fits(*id).is_ok());
    let first = fitting.next();
    (usize::from(first.is_some()) + fitting.count(), first)
}

/// `ReplicaSet/web-5d4f`: who makes a new pod when this one goes.
pub fn owner(cluster: &Cluster, pod: &Pod) -> Option<String> {
    let owner = cluster.template(pod).owner?;
    let text = |symbol| cluster.symbols().text(symbol);
    Some(format!("{}/{}", text(owner.kind), text(owner.name)))
}
