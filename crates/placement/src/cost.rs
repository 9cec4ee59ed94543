//! The cost of an attempt, as far as the pod's spec decides it. One unit takes about as long as one unit of a device
//! selector's cost, so that all work of an attempt is counted in the same unit.

use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::selector::{NodeSelector, Selector};
use crate::template::{PodTerm, Spread};

/// Comparing this many values takes about as long as one unit.
const STEPS_OF_UNIT: usize = 512;
/// The units of an attempt besides its nodes.
const ATTEMPT: u64 = 100;
/// The steps of a node with the filters that every pod has.
const NODE: usize = 128;
/// The steps to find a label and to begin a comparison.
const REQUIREMENT: usize = 32;
/// The steps of a term, constraint, volume or claim besides its requirements.
const TERM: usize = 32;

/// The cost of an attempt to place a pod, without the evaluation of device selectors. An attempt that ends early costs less.
pub fn estimated_cost(cluster: &Cluster, pod: &Pod) -> u64 {
    let template = cluster.template(pod);
    let preferred_nodes = template.preferred_nodes.iter();
    let node_selectors = template
        .node_affinity
        .iter()
        .chain(preferred_nodes.map(|(_, selector)| selector));
    let preferred = template.preferred.iter().map(|(_, term)| term);
    let terms = || {
        let required = template.affinity.iter().chain(&template.anti_affinity);
        required.chain(preferred.clone())
    };
    let spread = || template.spread.iter().chain(&template.soft_spread);
    let things = template.node_selector.iter().count()
        + template.tolerations.len()
        + template.ports.len()
        + template.volumes.len()
        + template.images.len()
        + template.device_claims.len()
        + terms().count()
        + spread().count();
    let of_node = NODE + TERM * things + node_selectors.map(of_node_selector).sum::<usize>();
    let of_group = terms().map(of_term).sum::<usize>() + spread().map(of_spread).sum::<usize>();
    let nodes = cluster.nodes().len().saturating_mul(of_node);
    let groups = cluster.groups().len().saturating_mul(of_group);
    // A cost that does not fit is as high as any.
    let units = u64::try_from(nodes.saturating_add(groups) / STEPS_OF_UNIT).unwrap_or(u64::MAX);
    ATTEMPT.saturating_add(units)
}

fn of_node_selector(selector: &NodeSelector) -> usize {
    let (requirements, values) = selector.size();
    REQUIREMENT * requirements + values
}

fn of_selector(selector: &Selector) -> usize {
    let (requirements, values) = selector.size();
    REQUIREMENT * requirements + values
}

fn of_term(term: &PodTerm) -> usize {
    TERM + term.namespaces.len()
        + of_selector(&term.selector)
        + of_selector(&term.namespace_selector)
}

fn of_spread(spread: &Spread) -> usize {
    TERM + of_selector(&spread.selector)
}
