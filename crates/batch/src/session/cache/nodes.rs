//! Nodes and the amounts on them, read from the cluster.

use super::Cache;
use crate::session::snapshot::resource::{Dim, Dims, Resource, number};
use crate::session::snapshot::{Node, Snapshot};
use evictd_placement::{Amounts, Cluster, NodeId, Symbol};
use evictd_pod::resources::EPHEMERAL_STORAGE;

impl Cache {
    /// Reads nodes from the cluster as far as they changed after change `since`. A caller that does so before each
    /// session reports neither nodes nor pods of other schedulers. Placements by other profiles count at once.
    pub fn renew(&mut self, cluster: &Cluster, since: u64) {
        let (changes, nodes) = (cluster.changes(), cluster.nodes().len());
        if since == 0 || changes.of_all() > since || nodes != self.snapshot.nodes.len() {
            self.renew_all(cluster);
            return;
        }
        for id in changes.nodes_since(since) {
            let tasks = std::mem::take(&mut self.snapshot.nodes[id.index()].tasks);
            let node = node_of(&mut self.snapshot, cluster, id);
            self.snapshot.nodes[id.index()] = Node { tasks, ..node };
        }
    }

    fn renew_all(&mut self, cluster: &Cluster) {
        self.stale_nodes = true;
        let snapshot = &mut self.snapshot;
        let nodes = cluster.node_ids().map(|id| node_of(snapshot, cluster, id));
        let nodes: Vec<Node> = nodes.collect();
        snapshot.nodes = nodes;
        for kept in self.pods.values() {
            let Some(task) = kept.task else { continue };
            let node = cluster.find_node(&kept.node_name);
            snapshot.tasks[task].node = node;
            if let Some(node) = node {
                snapshot.nodes[node.index()].tasks.push(task);
            }
        }
        // The map of pods has no order.
        let tasks = &snapshot.tasks;
        for node in &mut snapshot.nodes {
            node.tasks.sort_unstable_by_key(|task| &tasks[*task].key);
        }
    }
}

/// A node without tasks of its own. The cluster keeps the sum of its pods' requests; only terminating pods are visited.
fn node_of(snapshot: &mut Snapshot, cluster: &Cluster, id: NodeId) -> Node {
    let (node, dims) = (cluster.node(id), &mut snapshot.dims);
    let mut read = |amounts: &Amounts| {
        let scalars = cluster.scalars(amounts.scalars).iter().copied();
        amounts_of(cluster, dims, amounts, scalars)
    };
    let mut allocatable = read(&node.allocatable);
    allocatable.set(Dim::PODS, number(node.allowed_pods));
    let mut releasing = Resource::default();
    for pod in node.pods.iter().filter(|pod| pod.terminating) {
        let mut request = read(&pod.amounts);
        request.set(Dim::PODS, 1.0);
        releasing.add(&request);
    }
    let mut used = amounts_of(
        cluster,
        dims,
        &node.requested,
        node.requested_scalars.iter(),
    );
    if let Ok(pods @ 1..) = i64::try_from(node.pods.len()) {
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
