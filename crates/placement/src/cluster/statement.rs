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

impl Cluster {
    /// Removes a pod from a node by its index.
    pub(super) fn remove_from_node(&mut self, id: NodeId, index: usize) -> Pod {
        let node = &mut self.nodes[id.index()];
        let pod = node.pods.remove(index);
        let template = &self.templates.items()[pod.template.index()];
        node.request(&pod, template, self.scalars.items(), -1);
        self.groups.count(pod.counted(), id, -1);
        self.changes.node(id);
        pod
    }

    /// Removes a pod from its location without releasing anything.
    fn detach(&mut self, pod_key: &str) -> Option<(PodLocation, usize, Pod)> {
        let location = self.locations.remove(pod_key)?;
        let (index, pod) = match location {
            PodLocation::Nominated => {
                self.changes.all();
                let index = self.find(&self.nominated, pod_key)?;
                (index, self.nominated.remove(index))
            }
            PodLocation::Node(name) => {
                if let Some(id) = self.node_by_name.get(&name).copied() {
                    let index = self.find(&self.node(id).pods, pod_key)?;
                    (index, self.remove_from_node(id, index))
                } else {
                    let index = self.find(self.orphaned.get(&name)?, pod_key)?;
                    let orphaned = self.orphaned.get_mut(&name)?;
                    (index, orphaned.remove(index))
                }
            }
        };
        Some((location, index, pod))
    }

    /// Puts back a pod that [`Cluster::detach`] removed.
    fn reattach(&mut self, pod_key: Arc<str>, location: PodLocation, index: usize, pod: Pod) {
        match location {
            PodLocation::Nominated => {
                self.changes.all();
                self.nominated.insert(index, pod);
            }
            PodLocation::Node(name) => match self.node_by_name.get(&name).copied() {
                Some(id) => self.place(id, pod),
                None => self.orphaned.entry(name).or_default().insert(index, pod),
            },
        }
        self.locations.insert(pod_key, location);
    }

    /// Releases all references of a pod that is no longer in a list.
    fn forget(&mut self, location: PodLocation, pod: Pod) {
        self.release_kept(pod);
        if let PodLocation::Node(name) = location {
            self.symbols.release(name);
        }
    }

    /// Removes a pod from its group.
    fn leave_group(&mut self, pod: &mut Pod) {
        let before = self.groups.table.count();
        let group = std::mem::take(&mut pod.group);
        self.groups.table.release(&mut self.symbols, group.0);
        if self.groups.table.count() != before {
            self.changes.all();
        }
    }

    /// The key of a pod: its UID, or `namespace/name` without one.
    pub fn pod_key(&self, pod: &Pod) -> Arc<str> {
        match pod.uid() {
            "" => Arc::from(self.full_name(pod)),
            _ => Arc::clone(&pod.identity.uid),
        }
    }
}
