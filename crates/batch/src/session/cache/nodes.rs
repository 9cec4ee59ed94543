//! Nodes, and what is on them, taken from the cluster itself.

use super::Cache;
use crate::session::model::{Model, Node};
use crate::session::resource::{Dim, Dims, Resource, number};
use crate::session::task::Status;
use evictd_placement::{Amounts, Cluster, NodeId};
use evictd_pod::resources::EPHEMERAL_STORAGE;

impl Cache {
    /// Takes what nodes have and what is on them from the cluster, as far as it has changed since its change `since`. Whoever
    /// does so before each session tells of no nodes, and of no pods of others: what other parts of the scheduler have put
    /// on a node counts from that moment on.
    pub fn renew(&mut self, cluster: &Cluster, since: u64) {
        let (changes, nodes) = (cluster.changes(), cluster.nodes().len());
        if since == 0 || changes.of_all() > since || nodes != self.model.nodes.len() {
            self.renew_all(cluster);
            return;
        }
        for id in changes.nodes_since(since) {
            let tasks = std::mem::take(&mut self.model.nodes[id.index()].tasks);
            let node = node_of(&mut self.model, cluster, id);
            self.model.nodes[id.index()] = Node { tasks, ..node };
        }
    }

    fn renew_all(&mut self, cluster: &Cluster) {
        self.stale_nodes = true;
        let model = &mut self.model;
        let nodes = cluster.node_ids().map(|id| node_of(model, cluster, id));
        let nodes: Vec<Node> = nodes.collect();
        model.nodes = nodes;
        for kept in self.pods.values() {
            let Some(task) = kept.task else { continue };
            let node = cluster.find_node(&kept.node_name).map(NodeId::index);
            model.tasks[task].node = node;
            if let Some(node) = node {
                model.nodes[node].tasks.push(task);
            }
        }
        // Pods are kept in no order.
        let tasks = &model.tasks;
        for node in &mut model.nodes {
            node.tasks.sort_unstable_by_key(|task| &tasks[*task].key);
        }
    }
}

/// A node without tasks of its own.
fn node_of(model: &mut Model, cluster: &Cluster, id: NodeId) -> Node {
    let own = cluster.node(id);
    let mut allocatable = amounts_of(cluster, &mut model.dims, &own.allocatable);
    allocatable.set(Dim::PODS, number(own.allowed_pods));
    let mut node = Node {
        idle: allocatable.clone(),
        allocatable,
        ..Node::default()
    };
    for pod in &own.pods {
        let mut request = amounts_of(cluster, &mut model.dims, &pod.amounts);
        request.set(Dim::PODS, 1.0);
        let status = if pod.terminating {
            Status::Releasing
        } else {
            Status::Running
        };
        node.put(&request, status);
    }
    node
}

/// Amounts of the cluster as a session counts them.
fn amounts_of(cluster: &Cluster, dims: &mut Dims, amounts: &Amounts) -> Resource {
    let mut read = Resource::default();
    for (name, amount) in cluster.scalars(amounts.scalars) {
        let name = cluster.symbols().text(*name);
        read.add_scalar(dims, name, number(*amount) * 1000.0);
    }
    if amounts.ephemeral_storage != 0 {
        let amount = number(amounts.ephemeral_storage) * 1000.0;
        read.add_scalar(dims, EPHEMERAL_STORAGE, amount);
    }
    read.cpu = number(amounts.cpu);
    read.memory = number(amounts.memory);
    read
}
