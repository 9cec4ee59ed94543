//! Tentative placements and evictions that can be undone exactly.

use super::{Cluster, PodLocation};
use crate::id::NodeId;
use crate::pod::Pod;
use std::sync::Arc;

/// A transaction on a cluster, like Volcano's `Statement`. [`Statement::undo`] restores the cluster and
/// [`Statement::commit`] keeps the changes. Until then nothing else may change the cluster, and only one statement may
/// exist.
///
/// The cost of a step grows with the pods of its node, not with the cluster.
#[derive(Debug, Default)]
#[must_use]
pub struct Statement {
    placed: Vec<Placed>,
    removed: Vec<Removed>,
}

/// A pod that was placed on a node.
#[derive(Debug)]
struct Placed {
    pod_key: Arc<str>,
    /// `None` after `take_back`.
    node: Option<NodeId>,
    /// Its previous location, the index there, and the previous pod.
    before: Option<(PodLocation, usize, Pod)>,
}

/// A pod that was removed from a node.
#[derive(Debug)]
struct Removed {
    node: NodeId,
    pod_key: Arc<str>,
    /// `None` after `put_back`.
    pod: Option<Pod>,
}

impl Statement {
    /// Places a pod from [`Cluster::pod`] on a node. It counts there as if bound, and its nomination no longer counts.
    /// A pod that this statement removed must not be placed. The returned number identifies the placement in
    /// [`Statement::take_back`].
    pub fn place(&mut self, cluster: &mut Cluster, mut pod: Pod, node: NodeId) -> usize {
        let pod_key = cluster.pod_key(&pod);
        let before = cluster.detach(&pod_key);
        cluster.join_group(&mut pod);
        let name = cluster.nodes[node.index()].name;
        cluster.symbols.hold_again(name);
        cluster.place(node, pod);
        cluster
            .locations
            .insert(Arc::clone(&pod_key), PodLocation::Node(name));
        self.placed.push(Placed {
            pod_key,
            node: Some(node),
            before,
        });
        self.placed.len() - 1
    }

    /// Takes back a placed pod, to place it elsewhere or to release it. Its nomination counts again only after the end.
    pub fn take_back(&mut self, cluster: &mut Cluster, placed: usize) -> Option<Pod> {
        self.placed[placed].take_back(cluster)
    }

    /// Removes a pod from its node by its index. The returned number identifies the removal in [`Statement::put_back`].
    pub fn remove(&mut self, cluster: &mut Cluster, node: NodeId, index: usize) -> usize {
        let pod = cluster.remove_from_node(node, index);
        self.removed.push(Removed {
            node,
            pod_key: cluster.pod_key(&pod),
            pod: Some(pod),
        });
        self.removed.len() - 1
    }

    /// Puts a removed pod back.
    pub fn put_back(&mut self, cluster: &mut Cluster, removed: usize) {
        let removed = &mut self.removed[removed];
        if let Some(pod) = removed.pod.take() {
            cluster.place(removed.node, pod);
        }
    }

    /// Removes a pod again that was put back.
    pub fn remove_again(&mut self, cluster: &mut Cluster, removed: usize) {
        let removed = &mut self.removed[removed];
        let pods = &cluster.nodes[removed.node.index()].pods;
        if removed.pod.is_none()
            && let Some(index) = cluster.find(pods, &removed.pod_key)
        {
            removed.pod = Some(cluster.remove_from_node(removed.node, index));
        }
    }

    /// The removed pod of this number and its node; `None` while it is back.
    pub fn removed(&self, removed: usize) -> Option<(NodeId, &Pod)> {
        let removed = &self.removed[removed];
        Some((removed.node, removed.pod.as_ref()?))
    }

    /// Undoes all steps. Returns the pods that were still placed, in order, for the caller to release.
    pub fn undo(mut self, cluster: &mut Cluster) -> Vec<Pod> {
        let mut pods = Vec::new();
        // The reverse order restores the order of the lists.
        for mut placed in self.placed.drain(..).rev() {
            pods.extend(placed.take_back(cluster));
            if let Some((location, index, before)) = placed.before {
                cluster.reattach(placed.pod_key, location, index, before);
            }
        }
        pods.reverse();
        for index in (0..self.removed.len()).rev() {
            self.put_back(cluster, index);
        }
        pods
    }

    /// Keeps all changes: placed pods are assumed on their nodes, and removed pods are gone from the cluster.
    pub fn commit(self, cluster: &mut Cluster) {
        for placed in self.placed {
            if let Some((location, _, pod)) = placed.before {
                cluster.forget(location, pod);
            }
        }
        for removed in self.removed {
            if let Some(pod) = removed.pod
                && let Some(location) = cluster.locations.remove(&removed.pod_key)
            {
                cluster.forget(location, pod);
            }
        }
    }
}

impl Placed {
    fn take_back(&mut self, cluster: &mut Cluster) -> Option<Pod> {
        let node = self.node.take()?;
        let at = cluster.find(&cluster.nodes[node.index()].pods, &self.pod_key)?;
        let mut pod = cluster.remove_from_node(node, at);
        cluster.leave_chosen(&self.pod_key);
        cluster.leave_group(&mut pod);
        if let Some(PodLocation::Node(name)) = cluster.locations.remove(&self.pod_key) {
            cluster.symbols.release(name);
        }
        Some(pod)
    }
}
