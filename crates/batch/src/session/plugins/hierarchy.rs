//! Hierarchical fairness: the share of an inner node comes from its children, scaled so that none counts for more than
//! the smallest (S6-128).

use crate::session::snapshot::ids::{HierarchyId, JobId, QueueId};
use crate::session::snapshot::resource::{Dim, Resource};
use crate::session::snapshot::{Queue, Snapshot};
use hashbrown::{HashMap, HashSet};
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Debug, Clone)]
struct Node {
    weight: f64,
    allocated: Resource,
    share: f64,
    /// It can use no more, or a resource that it lacks is exhausted.
    saturated: bool,
    children: Vec<HierarchyId>,
    /// The job of a leaf.
    job: Option<JobId>,
}

impl Node {
    const fn new(weight: f64, allocated: Resource, job: Option<JobId>) -> Self {
        Self {
            weight,
            allocated,
            share: 0.0,
            saturated: false,
            children: Vec::new(),
            job,
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct Hierarchy {
    nodes: Vec<Node>,
    /// The leaf of each job.
    leaves: Vec<HierarchyId>,
    /// Of each queue the nodes on its path, from the root on.
    paths: Vec<Arc<[HierarchyId]>>,
    allocated: Resource,
}

impl Hierarchy {
    pub(super) fn new(snapshot: &Snapshot) -> Self {
        let mut hierarchy = Self {
            nodes: vec![Node::new(1.0, Resource::default(), None)],
            leaves: vec![HierarchyId::ROOT; snapshot.jobs.len()],
            paths: Vec::new(),
            allocated: Resource::default(),
        };
        let mut names: HashMap<(HierarchyId, &str), HierarchyId> = HashMap::new();
        for queue in &snapshot.queues {
            let path = hierarchy.path(queue, &mut names);
            hierarchy.paths.push(path.into());
        }
        for (index, job) in snapshot.live_jobs() {
            let parent = hierarchy.paths[job.queue]
                .last()
                .copied()
                .unwrap_or(HierarchyId::ROOT);
            hierarchy.leaves[index] =
                hierarchy.add(parent, Node::new(1.0, Resource::default(), Some(index)));
        }
        hierarchy
    }

    fn add(&mut self, parent: HierarchyId, node: Node) -> HierarchyId {
        self.nodes.push(node);
        let index = HierarchyId::of(self.nodes.len() - 1);
        self.nodes[parent].children.push(index);
        index
    }

    /// The nodes on the path of a queue; missing ones are added.
    fn path<'q>(
        &mut self,
        queue: &'q Queue,
        names: &mut HashMap<(HierarchyId, &'q str), HierarchyId>,
    ) -> Vec<HierarchyId> {
        let mut path = vec![HierarchyId::ROOT];
        let mut weights = queue.path_weights.split('/').skip(1);
        let mut at = HierarchyId::ROOT;
        for name in queue.path.split('/').skip(1) {
            let weight: f64 = weights
                .next()
                .and_then(|text| text.parse().ok())
                .unwrap_or(1.0);
            at = if let Some(known) = names.get(&(at, name)) {
                *known
            } else {
                let node = Node::new(weight.max(1.0), Resource::default(), None);
                let new = self.add(at, node);
                names.insert((at, name), new);
                new
            };
            path.push(at);
        }
        path
    }

    /// A job got room, or lost it. [`Hierarchy::update`] has to follow.
    pub(super) fn change(
        &mut self,
        snapshot: &Snapshot,
        job: JobId,
        request: &Resource,
        more: bool,
    ) {
        let leaf = &mut self.nodes[self.leaves[job]];
        for amount in [&mut leaf.allocated, &mut self.allocated] {
            if more {
                amount.add(request);
            } else {
                amount.sub(request);
            }
        }
        // Inner nodes are computed together once all changes are in.
        (_, leaf.share) = leaf.allocated.dominant(&snapshot.total);
    }

    /// Computes the shares of all inner nodes again.
    pub(super) fn update(&mut self, snapshot: &Snapshot) {
        let total = snapshot.total.some();
        let demanded = total.filter(|(dim, total)| self.allocated.get(*dim) < *total);
        let demanded: HashSet<Dim> = demanded.map(|(dim, _)| dim).collect();
        // Children have higher indices than their parents, so they are visited first.
        for index in (0..self.nodes.len()).rev().map(HierarchyId::of) {
            match self.nodes[index].job {
                Some(job) => {
                    let request = &snapshot.jobs[job].total_request;
                    let node = &mut self.nodes[index];
                    node.saturated = is_saturated(&node.allocated, request, &demanded);
                }
                None => self.update_inner(snapshot, index),
            }
        }
    }

    fn update_inner(&mut self, snapshot: &Snapshot, index: HierarchyId) {
        let children = self.nodes[index].children.iter();
        let children: Vec<&Node> = children.map(|child| &self.nodes[*child]).collect();
        let unsaturated = children.iter().filter(|child| !child.saturated);
        let smallest = unsaturated
            .filter(|child| child.share != 0.0)
            .map(|child| child.share)
            .fold(1.0, f64::min);
        let mut allocated = Resource::default();
        for child in children.iter().filter(|child| child.share != 0.0) {
            let mut part = child.allocated.clone();
            // Scaled to the smallest share, so that a child with more does not count against its siblings.
            if !child.saturated {
                part.scale(smallest / child.share);
            }
            allocated.add(&part);
        }
        let saturated = children.iter().all(|child| child.saturated);
        let node = &mut self.nodes[index];
        (_, node.share) = allocated.dominant(&snapshot.total);
        node.allocated = allocated;
        node.saturated = saturated;
    }

    /// The order of two queues: at the first difference of their paths the smaller share by weight comes first, and a
    /// saturated node last.
    pub(super) fn compare(&self, one: QueueId, other: QueueId) -> Ordering {
        for (one, other) in self.paths[one].iter().zip(self.paths[other].iter()) {
            let (one, other) = (&self.nodes[*one], &self.nodes[*other]);
            let order = one.saturated.cmp(&other.saturated).then_with(|| {
                let share = |node: &Node| node.share / node.weight;
                share(one).total_cmp(&share(other))
            });
            if order.is_ne() {
                return order;
            }
        }
        Ordering::Equal
    }
}

/// Whether a job has all that it requests of a resource, or lacks an exhausted one.
fn is_saturated(allocated: &Resource, request: &Resource, demanded: &HashSet<Dim>) -> bool {
    allocated.some().any(|(dim, held)| {
        let wanted = request.get(dim);
        wanted != 0.0 && (held >= wanted || !demanded.contains(&dim))
    })
}
