//! Nodes, and what is on them, taken from the cluster itself.

use super::Cache;
use crate::session::model::{Model, Node};
use crate::session::resource::{Dim, Dims, Resource, number};
use evictd_placement::{Amounts, Cluster, NodeId, Symbol};
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

/// A node without tasks of its own. The cluster keeps the sum of what its pods ask for; only those that end are looked at.
fn node_of(model: &mut Model, cluster: &Cluster, id: NodeId) -> Node {
    let (own, dims) = (cluster.node(id), &mut model.dims);
    let mut read = |amounts: &Amounts| {
        let scalars = cluster.scalars(amounts.scalars).iter().copied();
        amounts_of(cluster, dims, amounts, scalars)
    };
    let mut allocatable = read(&own.allocatable);
    allocatable.set(Dim::PODS, number(own.allowed_pods));
    let mut releasing = Resource::default();
    for pod in own.pods.iter().filter(|pod| pod.terminating) {
        let mut request = read(&pod.amounts);
        request.set(Dim::PODS, 1.0);
        releasing.add(&request);
    }
    let mut used = amounts_of(cluster, dims, &own.requested, own.requested_scalars.iter());
    if let Ok(pods @ 1..) = i64::try_from(own.pods.len()) {
        used.set(Dim::PODS, number(pods));
    }
    let mut idle = allocatable.clone();
    idle.sub(&used);
    Node {
        allocatable,
        idle,
        used,
        releasing,
        ..Node::default()
    }
}

/// Amounts of the cluster as a session counts them; the rarer resources are those of `scalars`.
fn amounts_of(
    cluster: &Cluster,
    dims: &mut Dims,
    amounts: &Amounts,
    scalars: impl Iterator<Item = (Symbol, i64)>,
) -> Resource {
    let mut read = Resource::default();
    for (name, amount) in scalars {
        let name = cluster.symbols().text(name);
        read.add_scalar(dims, name, number(amount) * 1000.0);
    }
    if amounts.ephemeral_storage != 0 {
        let amount = number(amounts.ephemeral_storage) * 1000.0;
        read.add_scalar(dims, EPHEMERAL_STORAGE, amount);
    }
    read.cpu = number(amounts.cpu);
    read.memory = number(amounts.memory);
    read
}
