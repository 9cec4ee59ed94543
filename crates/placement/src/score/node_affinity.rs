//! `NodeAffinity`: preferred node affinity (S5-084).

use crate::cluster::Cluster;
use crate::filter::Here;
use crate::plugin::{Score, normalize_by_highest};
use crate::pod::Pod;
use crate::selector::NodeSelector;

struct NodeAffinity(Box<[(i64, NodeSelector)]>);

/// `added` are the preferred terms of the profile.
pub(crate) fn new(
    cluster: &Cluster,
    pod: &Pod,
    added: &[(i64, NodeSelector)],
) -> Option<Box<dyn Score>> {
    let preferred = cluster.template(pod).preferred_nodes.iter();
    let all: Box<[_]> = preferred.chain(added).cloned().collect();
    (!all.is_empty()).then(|| Box::new(NodeAffinity(all)) as _)
}

impl Score for NodeAffinity {
    fn is_local(&self) -> bool {
        true
    }

    fn raw(&self, here: Here<'_>) -> i64 {
        let (node, symbols) = (here.node, here.cluster.symbols());
        let liked = self
            .0
            .iter()
            .filter(|(_, selector)| selector.matches(symbols, node.name, &node.labels));
        liked.map(|(weight, _)| weight).sum()
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_by_highest(scores, false);
    }
}
