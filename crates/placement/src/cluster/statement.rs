//! Tentative placements and removals, undone exactly.

use super::{Cluster, Place};
use crate::id::NodeId;
use crate::pod::Pod;
use std::sync::Arc;

/// What was done to a cluster for the time being. It ends with [`Statement::undo`], after which the cluster is as it was,
/// or with [`Statement::commit`]. Until then nothing else may change the cluster, and one statement is under way at a time.
///
/// A step costs what a pod that comes or goes costs: it grows with the pods of its node and not with the cluster.
#[derive(Debug, Default)]
#[must_use]
pub struct Statement {
    placed: Vec<Placed>,
    removed: Vec<Removed>,
}

/// A pod that was put on a node.
#[derive(Debug)]
struct Placed {
    known_as: Arc<str>,
    /// `None` once it was taken off again.
    node: Option<NodeId>,
    /// What it was before: where, at which index of the list there, and the pod as it was.
    before: Option<(Place, usize, Pod)>,
}

/// A pod that was taken off a node.
#[derive(Debug)]
struct Removed {
    node: NodeId,
    known_as: Arc<str>,
    /// `None` once it is back.
    pod: Option<Pod>,
}

impl Statement {
    /// Puts a pod that [`Cluster::pod`] has given out on a node. It counts there as if it were bound; a nomination that
    /// it had counts no more. It must not be one that was taken off. The number that is returned means it in
    /// [`Statement::take_back`].
    pub fn place(&mut self, cluster: &mut Cluster, mut pod: Pod, node: NodeId) -> usize {
        let known_as = cluster.known_as(&pod);
        let before = cluster.lift(&known_as);
        cluster.join_group(&mut pod);
        let name = cluster.nodes[node.index()].name;
        cluster.symbols.hold_again(name);
        cluster.place(node, pod);
        cluster
            .places
            .insert(Arc::clone(&known_as), Place::Node(name));
        self.placed.push(Placed {
            known_as,
            node: Some(node),
            before,
        });
        self.placed.len() - 1
    }

    /// Takes a pod that was placed off again, if it is there, to be placed elsewhere or released. A nomination that it had
    /// counts again only after the end.
    pub fn take_back(&mut self, cluster: &mut Cluster, placed: usize) -> Option<Pod> {
        self.placed[placed].take_back(cluster)
    }

    /// Takes a pod off its node, by its index there. The number that is returned means it in [`Statement::put_back`].
    pub fn remove(&mut self, cluster: &mut Cluster, node: NodeId, index: usize) -> usize {
        let pod = cluster.take_off(node, index);
        self.removed.push(Removed {
            node,
            known_as: cluster.known_as(&pod),
            pod: Some(pod),
        });
        self.removed.len() - 1
    }

    /// Puts a pod back that was taken off, if it is away.
    pub fn put_back(&mut self, cluster: &mut Cluster, removed: usize) {
        let removed = &mut self.removed[removed];
        if let Some(pod) = removed.pod.take() {
            cluster.place(removed.node, pod);
        }
    }

    /// Takes a pod off once more that was put back.
    pub fn remove_again(&mut self, cluster: &mut Cluster, removed: usize) {
        let removed = &mut self.removed[removed];
        let pods = &cluster.nodes[removed.node.index()].pods;
        if removed.pod.is_none()
            && let Some(index) = cluster.find(pods, &removed.known_as)
        {
            removed.pod = Some(cluster.take_off(removed.node, index));
        }
    }

    /// The pod with this number while it is away, with its node.
    pub fn removed(&self, removed: usize) -> Option<(NodeId, &Pod)> {
        let removed = &self.removed[removed];
        Some((removed.node, removed.pod.as_ref()?))
    }

    /// Undoes everything. Returns the pods that are placed still, in the order of placing, to be released.
    pub fn undo(mut self, cluster: &mut Cluster) -> Vec<Pod> {
        let mut pods = Vec::new();
        // Backwards, so that lists get their order again.
        for mut placed in self.placed.drain(..).rev() {
            pods.extend(placed.take_back(cluster));
            if let Some((place, index, before)) = placed.before {
                cluster.put_down(placed.known_as, place, index, before);
            }
        }
        pods.reverse();
        for index in (0..self.removed.len()).rev() {
            self.put_back(cluster, index);
        }
        pods
    }

    /// Lets everything stay as it is: who was placed is assumed to be there, and who was taken off is gone.
    pub fn commit(self, cluster: &mut Cluster) {
        for placed in self.placed {
            if let Some((place, _, pod)) = placed.before {
                cluster.forget(place, pod);
            }
        }
        for removed in self.removed {
            if let Some(pod) = removed.pod
                && let Some(place) = cluster.places.remove(&removed.known_as)
            {
                cluster.forget(place, pod);
            }
        }
    }
}

impl Placed {
    fn take_back(&mut self, cluster: &mut Cluster) -> Option<Pod> {
        let node = self.node.take()?;
        let at = cluster.find(&cluster.nodes[node.index()].pods, &self.known_as)?;
        let mut pod = cluster.take_off(node, at);
        cluster.leave_chosen(&self.known_as);
        cluster.leave_group(&mut pod);
        if let Some(Place::Node(name)) = cluster.places.remove(&self.known_as) {
            cluster.symbols.release(name);
        }
        Some(pod)
    }
}

impl Cluster {
    /// Takes a pod off a node, by its index there.
    pub(super) fn take_off(&mut self, id: NodeId, index: usize) -> Pod {
        let node = &mut self.nodes[id.index()];
        let pod = node.pods.remove(index);
        let template = &self.templates.items()[pod.template.index()];
        node.request(&pod, template, self.scalars.items(), -1);
        self.groups.count(pod.counted(), id, -1);
        self.changes.node(id);
        pod
    }

    /// Takes what is known of a pod out of its place, and gives nothing back.
    fn lift(&mut self, known_as: &str) -> Option<(Place, usize, Pod)> {
        let place = self.places.remove(known_as)?;
        let (index, pod) = match place {
            Place::Nominated => {
                self.changes.all();
                let index = self.find(&self.nominated, known_as)?;
                (index, self.nominated.remove(index))
            }
            Place::Node(name) => {
                if let Some(id) = self.node_by_name.get(&name).copied() {
                    let index = self.find(&self.node(id).pods, known_as)?;
                    (index, self.take_off(id, index))
                } else {
                    let index = self.find(self.early.get(&name)?, known_as)?;
                    let early = self.early.get_mut(&name)?;
                    (index, early.remove(index))
                }
            }
        };
        Some((place, index, pod))
    }

    /// Puts a pod back where [`Cluster::lift`] has taken it from.
    fn put_down(&mut self, known_as: Arc<str>, place: Place, index: usize, pod: Pod) {
        match place {
            Place::Nominated => {
                self.changes.all();
                self.nominated.insert(index, pod);
            }
            Place::Node(name) => match self.node_by_name.get(&name).copied() {
                Some(id) => self.place(id, pod),
                None => self.early.entry(name).or_default().insert(index, pod),
            },
        }
        self.places.insert(known_as, place);
    }

    /// Gives back all that a pod referred to which is in no list any more.
    fn forget(&mut self, place: Place, pod: Pod) {
        self.release_kept(pod);
        if let Place::Node(name) = place {
            self.symbols.release(name);
        }
    }

    /// Takes a pod out of its group.
    fn leave_group(&mut self, pod: &mut Pod) {
        let before = self.groups.table.count();
        let group = std::mem::take(&mut pod.group);
        self.groups.table.release(&mut self.symbols, group.0);
        if self.groups.table.count() != before {
            self.changes.all();
        }
    }

    /// What a pod is known by: its unique id, or `namespace/name` where it has none.
    pub fn known_as(&self, pod: &Pod) -> Arc<str> {
        match pod.uid() {
            "" => Arc::from(self.full_name(pod)),
            _ => Arc::clone(&pod.identity.uid),
        }
    }
}
