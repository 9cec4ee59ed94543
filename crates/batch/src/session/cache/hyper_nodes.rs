//! The HyperNodes between sessions. Their tree is built again when one of them, or a node's labels, changed.

use crate::session::snapshot::hyper_nodes::HyperNodes;
use evictd_batch_objects::{Compat, Difference};
use evictd_hyper_nodes::{HyperNode, Order};
use evictd_placement::{Cluster, NodeId};
use std::hash::{DefaultHasher, Hash, Hasher};

/// The objects, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct KnownHyperNodes {
    objects: Vec<HyperNode>,
    /// `None` if the tree is to be built again.
    built: Option<Built>,
}

/// The state that the tree was built from.
#[derive(Debug)]
struct Built {
    order: Order,
    /// The change of the cluster until which nodes were compared.
    at: u64,
    /// By node a number for its name and labels.
    nodes: Vec<u64>,
}

impl KnownHyperNodes {
    pub(super) fn put(&mut self, object: &HyperNode) {
        let name = &object.metadata.name;
        let mut known = self.objects.iter_mut();
        match known.find(|known| known.metadata.name == *name) {
            Some(known) if known.spec == object.spec => return,
            Some(known) => known.clone_from(object),
            None => self.objects.push(object.clone()),
        }
        self.built = None;
    }

    pub(super) fn remove(&mut self, name: &str) {
        self.objects.retain(|known| known.metadata.name != name);
        self.built = None;
    }

    /// The groups of near nodes, built again if something changed; `None` while the last ones are current.
    pub(super) fn rebuilt(
        &mut self,
        cluster: &Cluster,
        by_rank: &[NodeId],
        compat: Compat,
    ) -> Option<HyperNodes> {
        let order = if compat.has(Difference::UnknownTopologyWaits) {
            Order::ByName
        } else {
            Order::AsTheyCame
        };
        let reads_labels = !self.objects.is_empty();
        let now = cluster.changes().now();
        if let Some(built) = &mut self.built
            && built.order == order
            && built.is_current(cluster, reads_labels)
        {
            built.at = now;
            return None;
        }
        let objects: Vec<&HyperNode> = self.objects.iter().collect();
        let groups = HyperNodes::build(cluster, by_rank, &objects, order);
        let nodes = cluster.node_ids();
        self.built = Some(Built {
            order,
            at: now,
            nodes: nodes
                .map(|id| fingerprint(cluster, id, reads_labels))
                .collect(),
        });
        Some(groups)
    }
}

impl Built {
    /// Whether no node's name, and no label that may count, changed since.
    fn is_current(&self, cluster: &Cluster, reads_labels: bool) -> bool {
        let changes = cluster.changes();
        let same = |id: NodeId| {
            let known = self.nodes.get(id.index());
            known == Some(&fingerprint(cluster, id, reads_labels))
        };
        self.nodes.len() == cluster.nodes().len()
            && if changes.of_all() <= self.at {
                changes.nodes_since(self.at).all(same)
            } else {
                cluster.node_ids().all(same)
            }
    }
}

/// A number for the name of a node, and for its labels if they count.
fn fingerprint(cluster: &Cluster, id: NodeId, reads_labels: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    cluster.node_name(id).hash(&mut hasher);
    if reads_labels {
        for (key, value) in cluster.node(id).labels.iter() {
            let symbols = cluster.symbols();
            (symbols.text(key), symbols.text(value)).hash(&mut hasher);
        }
    }
    hasher.finish()
}
