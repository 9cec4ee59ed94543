//! The tasks of a job by the nodes that they should share.

use super::affinities::Affinities;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::resource::{Dim, Resource, Unnamed};
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::task::Task;
use crate::session::snapshot::{Node, Snapshot};
use evictd_placement::NodeId;
use hashbrown::HashMap;
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Bytes of memory that weigh as much as a thousandth of a core.
const MEMORY_UNIT: f64 = 1024.0 * 1024.0;

/// The buckets of a job.
#[derive(Debug)]
pub(super) struct Buckets {
    affinities: Affinities,
    all: Vec<Bucket>,
    of: HashMap<TaskId, Known>,
    /// The most tasks of one bucket when it was made.
    largest: usize,
    /// The tasks beside which others may not be, by node and role.
    placed: HashMap<NodeId, BTreeMap<Role, i64>>,
}

/// A task with a role that a rule names.
#[derive(Debug, Clone, Copy)]
struct Known {
    bucket: usize,
    /// A number for its bucket and role.
    key: u32,
    /// Its place among all tasks.
    place: usize,
}

/// Tasks that should be on one node.
#[derive(Debug, Default)]
struct Bucket {
    by_role: BTreeMap<Role, i64>,
    /// Those without a node, in order.
    left: Vec<TaskId>,
    /// Their requests together, and the requests of the last one, two, …
    request: Resource,
    tails: Vec<Resource>,
    /// Their requests as one number.
    weight: f64,
    on_node: HashMap<NodeId, i64>,
    bound: usize,
}

impl Bucket {
    fn add(&mut self, snapshot: &Snapshot, id: TaskId) {
        let task = &snapshot.tasks[id];
        *self.by_role.entry(task.role).or_default() += 1;
        if task.named_node().is_empty() {
            self.left.push(id);
            self.change(&task.request, true);
            return;
        }
        self.bound += 1;
        if let Some(node) = task.node {
            *self.on_node.entry(node).or_default() += 1;
        }
    }

    fn change(&mut self, request: &Resource, more: bool) {
        if more {
            self.request.add(request);
            self.weight += weight(request);
        } else {
            self.request.sub(request);
            self.weight -= weight(request);
        }
    }

    /// Sums the requests of the last tasks anew.
    fn sum_tails(&mut self, snapshot: &Snapshot) {
        self.tails.clear();
        let mut sum = Resource::default();
        for task in self.left.iter().rev() {
            sum.add(&snapshot.tasks[*task].request);
            self.tails.push(sum.clone());
        }
    }

    /// The number of last tasks, without this one, to leave out until the rest fits.
    fn beyond(&self, id: TaskId, request: &Resource, free: &Resource) -> usize {
        if self.request.within(free, Unnamed::Zero) {
            return 0;
        }
        let at = self.left.iter().rposition(|task| *task == id);
        // Its place from the end.
        let place = at.map(|at| self.left.len() - 1 - at);
        let most = self.left.len() - usize::from(place.is_some());
        let fits_without = |count: usize| {
            let mut rest = self.request.clone();
            if place.is_some_and(|place| place < count) {
                rest.add(request);
                rest.sub(&self.tails[count]);
            } else {
                rest.sub(&self.tails[count - 1]);
            }
            rest.within(free, Unnamed::Zero)
        };
        let (mut low, mut high) = (1, most);
        while low < high {
            let middle = usize::midpoint(low, high);
            if fits_without(middle) {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        high
    }
}

/// The requests as one number: a core and a gibibyte weigh about the same.
fn weight(request: &Resource) -> f64 {
    let amounts = request.iter();
    let weights = amounts.map(|(dim, amount)| match dim {
        Dim::MEMORY => amount / MEMORY_UNIT,
        _ => amount,
    });
    weights.sum()
}

/// Tasks with a node come first, by the names of the nodes.
fn order(affinities: &Affinities, one: &Task, other: &Task) -> Ordering {
    let (left, right) = (one.named_node(), other.named_node());
    let waits = left.is_empty().cmp(&right.is_empty());
    waits
        .then_with(|| left.cmp(right))
        .then_with(|| affinities.order(one, other))
        .then_with(|| one.name().cmp(other.name()))
}

impl Buckets {
    /// The buckets of a job with rules; `running` says whether anti-affinity counts the tasks that have nodes already.
    pub(super) fn of(snapshot: &Snapshot, job: JobId, running: bool) -> Option<Self> {
        let affinities = Affinities::of(snapshot, job)?;
        let tasks = snapshot.jobs[job].tasks.iter().copied();
        let mut tasks: Vec<TaskId> = tasks
            .filter(|task| affinities.names(snapshot.tasks[*task].role))
            .collect();
        tasks.sort_by(|one, other| {
            order(&affinities, &snapshot.tasks[*one], &snapshot.tasks[*other])
        });
        let mut buckets = Self {
            affinities,
            all: Vec::new(),
            of: HashMap::new(),
            largest: 0,
            placed: HashMap::new(),
        };
        buckets.fill(snapshot, &tasks);
        if running {
            for task in snapshot.jobs[job].tasks.iter().copied() {
                let task = &snapshot.tasks[task];
                let node = task.node.filter(|_| task.status.is_allocated());
                if let Some(node) = node {
                    buckets.count(task.role, node, 1);
                }
            }
        }
        Some(buckets)
    }

    /// Counts a task for the anti-affinity of others.
    fn count(&mut self, role: Role, node: NodeId, change: i64) {
        if role != 0 {
            let tasks = self.placed.entry(node).or_default();
            *tasks.entry(role).or_default() += change;
        }
    }

    fn fill(&mut self, snapshot: &Snapshot, tasks: &[TaskId]) {
        let mut by_node: HashMap<&str, usize> = HashMap::new();
        let mut keys: HashMap<(usize, Role), u32> = HashMap::new();
        for (place, id) in tasks.iter().enumerate() {
            let task = &snapshot.tasks[*id];
            let node = task.named_node();
            let known = if node.is_empty() {
                self.nearest(task.role)
            } else {
                by_node.get(node).copied()
            };
            let at = known.unwrap_or(self.all.len());
            if known.is_none() {
                self.all.push(Bucket::default());
            }
            if !node.is_empty() {
                by_node.insert(node, at);
            }
            let bucket = &mut self.all[at];
            bucket.add(snapshot, *id);
            self.largest = self.largest.max(bucket.left.len() + bucket.bound);
            let next = u32::try_from(keys.len() + 1).unwrap_or(u32::MAX);
            let key = *keys.entry((at, task.role)).or_insert(next);
            let known = Known {
                bucket: at,
                key,
                place,
            };
            self.of.insert(*id, known);
        }
        for bucket in &mut self.all {
            bucket.sum_tails(snapshot);
        }
    }

    /// The bucket with the highest affinity for a role; the smaller request wins a tie. `None` if all affinities are negative.
    fn nearest(&self, role: Role) -> Option<usize> {
        let rated = self.all.iter().enumerate().map(|(at, bucket)| {
            let attraction = self.affinities.attraction(role, &bucket.by_role);
            (attraction, bucket.weight, at)
        });
        let best = rated.reduce(|best, next| {
            let better = next.0 > best.0 || (next.0 == best.0 && next.1 < best.1);
            if better { next } else { best }
        })?;
        (best.0 >= 0).then_some(best.2)
    }

    /// A number for the bucket and the role of a task; `None` for a task in no bucket.
    pub(super) fn key(&self, task: TaskId) -> Option<u32> {
        self.of.get(&task).map(|known| known.key)
    }

    /// `Less` if the first of two tasks of the job comes first.
    pub(super) fn order(&self, snapshot: &Snapshot, one: TaskId, other: TaskId) -> Ordering {
        let at = |task: TaskId| self.of.get(&task).map(|known| known.bucket);
        let Some((left, right)) = at(one).zip(at(other)) else {
            return Ordering::Equal;
        };
        let size = |at: usize| self.all[at].left.len();
        let order = size(right).cmp(&size(left)).then(left.cmp(&right));
        order.then_with(|| {
            self.affinities
                .order(&snapshot.tasks[one], &snapshot.tasks[other])
        })
    }

    /// How good a node is for a task, from 0 to 100; more if anti-affinity allows tasks of several buckets there.
    pub(super) fn score(&self, snapshot: &Snapshot, id: TaskId, node: NodeId) -> f64 {
        let Some(known) = self.of.get(&id) else {
            return 0.0;
        };
        let (bucket, task) = (&self.all[known.bucket], &snapshot.tasks[id]);
        let free = free_on(&snapshot.nodes[node.index()]);
        let lacks = |(dim, amount)| free.named(dim).is_none_or(|free| free < amount);
        if task.request.iter().any(lacks) {
            return 0.0;
        }
        let beside = self.placed.get(&node);
        let repulsion = beside.map_or(0, |tasks| self.affinities.repulsion(task.role, tasks));
        let on_node = bucket.on_node.get(&node).copied().unwrap_or(0);
        let together = bucket.left.len() - bucket.beyond(id, &task.request, &free);
        let together = i64::try_from(together).unwrap_or(i64::MAX);
        #[expect(clippy::cast_precision_loss, reason = "numbers of tasks of a job")]
        let score = (on_node - repulsion + together) as f64 * 100.0 / self.largest as f64;
        score
    }

    /// A task was placed, or with `undone` taken off again.
    pub(super) fn place(&mut self, snapshot: &Snapshot, id: TaskId, node: NodeId, undone: bool) {
        let change = if undone { -1 } else { 1 };
        let task = &snapshot.tasks[id];
        self.count(task.role, node, change);
        let Some(known) = self.of.get(&id) else {
            return;
        };
        let bucket = &mut self.all[known.bucket];
        *bucket.on_node.entry(node).or_default() += change;
        bucket.change(&task.request, undone);
        if undone {
            let place = |task: &TaskId| self.of.get(task).map(|known| known.place);
            let before = |task: &TaskId| place(task) < Some(known.place);
            let at = bucket.left.partition_point(before);
            bucket.left.insert(at, id);
        } else {
            bucket.left.retain(|task| *task != id);
        }
        bucket.sum_tails(snapshot);
    }
}

fn free_on(node: &Node) -> Resource {
    let mut free = node.idle.clone();
    free.add(&node.releasing);
    free
}
