//! The HyperNodes between sessions. Their tree is built again when one of them, or a node's labels, changed.

use super::Cache;
use crate::session::snapshot::hyper_nodes::HyperNodes;
use evictd_batch_objects::{Compat, Difference};
use evictd_hyper_nodes::{HyperNode, Order};
use evictd_placement::{Cluster, NodeId};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

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

impl Cache {
    /// A `HyperNode` came or changed.
    pub fn hyper_node(&mut self, object: &HyperNode) {
        let known = &mut self.hyper_nodes.objects;
        let name = &object.metadata.name;
        match known.iter_mut().find(|known| known.metadata.name == *name) {
            Some(known) if known.spec == object.spec => return,
            Some(known) => known.clone_from(object),
            None => known.push(object.clone()),
        }
        self.hyper_nodes.built = None;
    }

    /// A `HyperNode` is deleted.
    pub fn remove_hyper_node(&mut self, name: &str) {
        let known = &mut self.hyper_nodes.objects;
        known.retain(|known| known.metadata.name != name);
        self.hyper_nodes.built = None;
    }

    /// Builds the groups of near nodes if something changed.
    pub(super) fn read_hyper_nodes(&mut self, cluster: &Cluster, compat: Compat) {
        let order = if compat.has(Difference::UnknownTopologyWaits) {
            Order::ByName
        } else {
            Order::AsTheyCame
        };
        let reads_labels = !self.hyper_nodes.objects.is_empty();
        let now = cluster.changes().now();
        if let Some(built) = &mut self.hyper_nodes.built
            && built.order == order
            && built.is_current(cluster, reads_labels)
        {
            built.at = now;
            return;
        }
        let objects: Vec<&HyperNode> = self.hyper_nodes.objects.iter().collect();
        let by_rank = &self.snapshot.by_rank;
        let groups = HyperNodes::build(cluster, by_rank, &objects, order);
        self.snapshot.hyper_nodes = Arc::new(groups);
        let nodes = cluster.node_ids();
        self.hyper_nodes.built = Some(Built {
            order,
            at: now,
            nodes: nodes
                .map(|id| fingerprint(cluster, id, reads_labels))
                .collect(),
        });
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
