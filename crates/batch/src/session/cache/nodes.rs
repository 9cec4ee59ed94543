//! Nodes, the amounts on them and their groups, read from the cluster before each session.

use super::Cache;
use crate::session::snapshot::Node;
use crate::session::snapshot::resource::Resource;
use evictd_batch_objects::Compat;
use evictd_hyper_nodes::HyperNode;
use evictd_placement::{Cluster, NodeId};
use std::sync::Arc;

impl Cache {
    /// A `HyperNode` came or changed.
    pub fn hyper_node(&mut self, object: &HyperNode) {
        self.hyper_nodes.put(object);
    }

    /// A `HyperNode` is deleted.
    pub fn remove_hyper_node(&mut self, name: &str) {
        self.hyper_nodes.remove(name);
    }

    /// Builds the groups of near nodes if something changed.
    pub(super) fn read_hyper_nodes(&mut self, cluster: &Cluster, compat: Compat) {
        let by_rank = &self.snapshot.by_rank;
        if let Some(groups) = self.hyper_nodes.rebuilt(cluster, by_rank, compat) {
            self.snapshot.hyper_nodes = Arc::new(groups);
        }
    }

    /// Reads the nodes that have changed in the cluster since the last session.
    pub fn read_nodes(&mut self, cluster: &Cluster) {
        let changes = cluster.changes();
        let since = self.read_until.replace(changes.now());
        let known = self.snapshot.nodes.len() == cluster.nodes().len();
        let Some(since) = since.filter(|since| known && changes.of_all() <= *since) else {
            return self.read_all_nodes(cluster);
        };
        let snapshot = &mut self.snapshot;
        for id in changes.nodes_since(since) {
            snapshot.nodes[id.index()].read(cluster, &mut snapshot.dims, id);
        }
    }

    fn read_all_nodes(&mut self, cluster: &Cluster) {
        let snapshot = &mut self.snapshot;
        snapshot
            .nodes
            .resize_with(cluster.nodes().len(), Node::default);
        snapshot.total = Resource::default();
        for (id, node) in cluster.node_ids().zip(&mut snapshot.nodes) {
            node.read(cluster, &mut snapshot.dims, id);
            // Indices of nodes may have moved, so tasks are assigned by the names of their nodes.
            node.tasks.clear();
            snapshot.total.add(&node.allocatable);
        }
        for task in self.pods.values() {
            let node = cluster.find_node(&snapshot.tasks[*task].node_name);
            snapshot.tasks[*task].node = node;
            if let Some(node) = node {
                snapshot.nodes[node.index()].tasks.push(*task);
            }
        }
        // The map of pods has no order.
        let tasks = &snapshot.tasks;
        for node in &mut snapshot.nodes {
            node.tasks.sort_unstable_by_key(|task| &tasks[*task].key);
        }
        let mut by_rank: Vec<NodeId> = snapshot.node_ids().collect();
        by_rank.sort_unstable_by_key(|node| cluster.node_name(*node));
        snapshot.ranks = vec![0; by_rank.len()];
        for (rank, node) in by_rank.iter().enumerate() {
            snapshot.ranks[node.index()] = rank;
        }
        snapshot.by_rank = by_rank;
    }
}
