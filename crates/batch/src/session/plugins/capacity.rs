//! Plugin capacity: each queue names its deserved share itself (S6-150, S6-151), with `enableHierarchy` at every level of
//! a tree (S6-152 to S6-168).

use super::queue_tree::TreeFault;
use super::{Plugin, QueueShare, QueueTree, Reserved, Shares, Tiers, Vote};
use crate::conf;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, EPSILON, Resource, Unnamed, at_most};
use evictd_batch_objects::{Compat, Difference};
use hashbrown::HashMap;
use std::cmp::Ordering;

#[derive(Debug, Clone)]
pub(super) struct Capacity {
    shares: Shares,
    /// With `enableHierarchy`.
    tree: Option<QueueTree>,
    /// Whether the tree is used. Volcano's plugin decides nothing where a queue has no place in it.
    usable: bool,
    /// How many levels of ancestors are compared in reclaim.
    ancestor_levels: usize,
    compat: Compat,
}

/// The amounts that victims leave to their queues.
struct Left<'s> {
    shares: &'s Shares,
    allocated: HashMap<QueueId, Resource>,
}

/// The requested resources, without the number of pods.
fn asked(request: &Resource) -> impl Iterator<Item = Dim> {
    let asked = request.iter();
    asked.filter_map(|(dim, amount)| (amount > 0.0 && dim != Dim::PODS).then_some(dim))
}

impl Capacity {
    pub(super) fn open(snapshot: &Snapshot, plugin: &conf::Plugin, compat: Compat) -> Self {
        let level = plugin
            .arguments
            .number("ancestorReclaimLevel", 0.0)
            .max(0.0);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a deeper level than any tree has is the same as the deepest"
        )]
        let ancestor_levels = level as usize;
        let mut capacity = Self {
            shares: Shares::default(),
            tree: plugin.is_hierarchical().then(|| QueueTree::open(snapshot)),
            usable: true,
            ancestor_levels,
            compat,
        };
        match capacity.tree.take() {
            None => capacity.open_flat(snapshot),
            Some(tree) => {
                capacity.open_tree(snapshot, &tree);
                capacity.tree = Some(tree);
            }
        }
        capacity
    }

    fn open_flat(&mut self, snapshot: &Snapshot) {
        self.shares = Shares::open(snapshot, self.compat);
        for (share, queue) in self.shares.queues.iter_mut().zip(&snapshot.queues) {
            let Some(share) = share else { continue };
            share.deserved = queue.deserved.clone();
            share
                .deserved
                .lower_to(&share.real_capability, Unnamed::Infinity);
            share.deserved.raise_to(&share.guarantee);
            // A queue that deserves nothing comes last, whatever it holds.
            share.share_of_nothing = Some(1.0);
            share.update();
        }
    }

    fn open_tree(&mut self, snapshot: &Snapshot, tree: &QueueTree) {
        self.shares.ancestors.clone_from(&tree.ancestors);
        self.shares.inner_shares_follow = self.compat.has(Difference::InnerSharesFollow);
        for queue in &snapshot.queues {
            let share = (!queue.gone).then(|| QueueShare {
                weight: queue.weight,
                deserved: queue.deserved.clone(),
                guarantee: queue.guarantee.clone().unwrap_or_default(),
                capability: queue.capability.clone().unwrap_or_default(),
                share_of_nothing: Some(1.0),
                ..QueueShare::default()
            });
            self.shares.queues.push(share);
        }
        self.usable = self.compat.has(Difference::UsableBranches) || tree.is_sound(snapshot);
        if !self.usable {
            return;
        }
        for (job, _) in snapshot.live_jobs() {
            self.shares.count(snapshot, job, self.compat);
        }
        self.set_limits(snapshot, tree);
        for share in self.shares.queues.iter_mut().flatten() {
            share.update();
        }
    }

    /// Sets what the queues of a tree deserve and may have, from the root to the leaves (S6-156 to S6-158).
    fn set_limits(&mut self, snapshot: &Snapshot, tree: &QueueTree) {
        let unlimited = unlimited(snapshot);
        let tops = tree.tops(snapshot);
        for top in tops.iter().copied() {
            let Some(share) = &mut self.shares.queues[top] else {
                continue;
            };
            if share.capability.is_empty() {
                share.capability = unlimited.clone();
            } else if tree.is_root(top) && self.compat.has(Difference::UnnamedRootIsUnlimited) {
                inherit(&mut share.capability, &unlimited);
            }
            share.real_capability = share.capability.clone();
        }
        let mut next = tops;
        while let Some(parent) = next.pop() {
            self.set_limits_below(tree, parent);
            next.extend(&tree.children[parent]);
        }
    }

    /// Sets the limits of the children of a queue.
    fn set_limits_below(&mut self, tree: &QueueTree, parent: QueueId) {
        let Some(above) = self.shares.of(parent).cloned() else {
            return;
        };
        let (mut guaranteed, mut deserved) = (Resource::default(), Resource::default());
        for child in &tree.children[parent] {
            let Some(share) = &mut self.shares.queues[*child] else {
                continue;
            };
            share.deserved.raise_to(&share.guarantee);
            deserved.add(&share.deserved);
            guaranteed.add(&share.guarantee);
            inherit(&mut share.capability, &above.capability);
        }
        for child in &tree.children[parent] {
            let Some(share) = &mut self.shares.queues[*child] else {
                continue;
            };
            let mut most = above.real_capability.beyond(&guaranteed);
            most.add(&share.guarantee);
            most.lower_to(&share.capability, Unnamed::Infinity);
            share.real_capability = most;
        }
        if let Some(share) = &mut self.shares.queues[parent]
            && tree.is_root(parent)
        {
            share.guarantee = guaranteed;
            share.deserved = deserved;
        }
    }

    /// Whether a queue deserves anything.
    fn deserves(&self, queue: QueueId) -> bool {
        let share = self.shares.of(queue);
        share.is_some_and(|share| !share.deserved.is_empty())
    }

    /// The queues whose shares decide the order of two queues.
    fn compared(&self, one: QueueId, other: QueueId) -> (QueueId, QueueId) {
        match &self.tree {
            Some(tree) if tree.is_leaf(one) && tree.is_leaf(other) => tree.below_common(one, other),
            _ => (one, other),
        }
    }

    /// Why jobs of a queue are not enqueued; empty where Volcano reports nothing.
    fn no_place_message(&self, snapshot: &Snapshot, queue: QueueId) -> Option<String> {
        if self.has_place(queue) {
            return None;
        }
        let told = self.compat.has(Difference::UsableBranches);
        let tree = self.tree.as_ref().filter(|_| told);
        let Some(tree) = tree else {
            return Some(String::new());
        };
        let name = |queue: QueueId| &snapshot.queues[queue].name;
        Some(match tree.fault(queue) {
            Some(TreeFault::MissingParent(lost)) => format!(
                "spec.parent of queue {}: there is no queue {}",
                name(lost),
                snapshot.queues[lost].parent_name
            ),
            Some(TreeFault::Cycle(at)) => {
                format!(
                    "spec.parent of queue {}: the parents form a cycle",
                    name(at)
                )
            }
            None => {
                let below = tree.children[queue].iter().map(|child| &**name(*child));
                let below: Vec<&str> = below.collect();
                format!(
                    "queue {} has queues below it ({}), and takes no jobs itself",
                    name(queue),
                    below.join(", ")
                )
            }
        })
    }

    /// The closed queue above a queue that is nearest to it.
    fn closed_above(&self, snapshot: &Snapshot, queue: QueueId) -> Option<QueueId> {
        if !self.compat.has(Difference::ClosedAncestors) {
            return None;
        }
        let mut above = self.tree.as_ref()?.ancestors[queue].iter().rev().copied();
        above.find(|at| !snapshot.queues[*at].open)
    }

    /// Whether a queue may reclaim for a request: at least one resource stays within its deserved share, or within that
    /// of a near ancestor (S6-151, S6-163).
    fn may_reclaim(&self, queue: QueueId, request: &Resource) -> bool {
        let Some(share) = self.shares.of(queue) else {
            return false;
        };
        let deserves = |share: &QueueShare| {
            let with = share.with(request);
            asked(request).any(|dim| {
                let (with, deserved) = (with.get(dim), share.deserved.get(dim));
                (with >= EPSILON || deserved >= EPSILON) && at_most(with, deserved)
            })
        };
        share
            .with(request)
            .within_for(&share.real_capability, request)
            && (deserves(share)
                || self
                    .near_ancestors(queue)
                    .any(|(_, above)| self.shares.of(above).is_some_and(deserves)))
    }

    /// The ancestors of a queue that reclaim compares, without the root, each with its level.
    fn near_ancestors(&self, queue: QueueId) -> impl Iterator<Item = (usize, QueueId)> {
        self.tree.iter().flat_map(move |tree| {
            let most = tree.ancestors[queue].len().min(self.ancestor_levels);
            let levels =
                (1..=most).filter_map(move |level| Some((level, tree.above(queue, level)?)));
            levels.filter(|(_, above)| !tree.is_root(*above))
        })
    }

    /// The tasks that other queues may lose to a request; `candidates` are in victim order (S6-164).
    fn victims(
        &self,
        snapshot: &Snapshot,
        reclaimer: TaskId,
        candidates: impl Iterator<Item = TaskId>,
    ) -> Vec<TaskId> {
        let reclaimer = &snapshot.tasks[reclaimer];
        let (request, to) = (&reclaimer.request, snapshot.jobs[reclaimer.job].queue);
        let mut left = Left {
            shares: &self.shares,
            allocated: HashMap::new(),
        };
        let may_go = |candidate: &TaskId| {
            let task = &snapshot.tasks[*candidate];
            let from = snapshot.jobs[task.job].queue;
            // Its room would be of no use to the request.
            let helps = asked(&task.request).any(|dim| request.get(dim) >= EPSILON);
            let goes = helps
                && self.has_place(from)
                && self.keeps_guarantees(&mut left, from, &task.request)
                && self.is_above_deserved(&mut left, (from, to), (&task.request, request));
            if goes {
                left.take(from, &task.request);
                for above in self.counted_ancestors(from, to) {
                    left.take(above, &task.request);
                }
            }
            goes
        };
        candidates.filter(may_go).collect()
    }

    /// Whether a queue keeps its guarantee without a victim. Volcano does not look at the queues above it (S6-166).
    fn keeps_guarantees(&self, left: &mut Left<'_>, queue: QueueId, victim: &Resource) -> bool {
        let all = self.compat.has(Difference::AncestorGuarantees);
        let path: Vec<QueueId> = self.shares.path(queue).map(|(at, _)| at).collect();
        let is_root = |at: QueueId| self.tree.as_ref().is_some_and(|tree| tree.is_root(at));
        path.into_iter()
            .filter(|at| *at == queue || (all && !is_root(*at)))
            .all(|at| {
                left.of(at).is_some_and(|(share, allocated)| {
                    let mut without = allocated.clone();
                    without.sub(victim);
                    share.guarantee.within(&without, Unnamed::Zero)
                })
            })
    }

    /// Whether a victim's queue, and the ancestors that differ from those of the reclaimer, hold more than they deserve
    /// (S6-165).
    fn is_above_deserved(
        &self,
        left: &mut Left<'_>,
        (from, to): (QueueId, QueueId),
        (victim, request): (&Resource, &Resource),
    ) -> bool {
        let Some((share, allocated)) = left.of(from) else {
            return false;
        };
        if !names_some(&share.deserved, victim) {
            let wants = self
                .shares
                .of(to)
                .is_some_and(|share| names_some(&share.deserved, request));
            // Neither of the two queues deserves the resources, so there is nothing to give back.
            if !wants && self.share_near_ancestor(from, to) {
                return false;
            }
        } else if !exceeds(share, allocated, victim) {
            return false;
        }
        self.checked_ancestors(from, to).all(|(_, above)| {
            left.of(above).is_some_and(|(share, allocated)| {
                !names_some(&share.deserved, victim) || exceeds(share, allocated, victim)
            })
        })
    }

    /// The near ancestors of a victim's queue that are not those of the reclaimer at the same level.
    fn checked_ancestors(
        &self,
        from: QueueId,
        to: QueueId,
    ) -> impl Iterator<Item = (usize, QueueId)> {
        self.near_ancestors(from).filter(move |(level, above)| {
            let tree = self.tree.as_ref();
            tree.and_then(|tree| tree.above(to, *level)) != Some(*above)
        })
    }

    /// The ancestors of a victim's queue that hold less without the victim: Volcano counts it where it compares.
    fn counted_ancestors(&self, from: QueueId, to: QueueId) -> Vec<QueueId> {
        match &self.tree {
            Some(tree) if self.compat.has(Difference::AncestorGuarantees) => {
                tree.ancestors[from].clone()
            }
            _ => {
                let checked = self.checked_ancestors(from, to);
                checked.map(|(_, above)| above).collect()
            }
        }
    }

    /// Whether two queues have an ancestor below the root in common within the compared levels.
    fn share_near_ancestor(&self, one: QueueId, other: QueueId) -> bool {
        self.near_ancestors(one)
            .any(|(_, above)| self.near_ancestors(other).any(|(_, at)| at == above))
    }
}

impl Plugin for Capacity {
    fn queue_order(&self, snapshot: &Snapshot, one: QueueId, other: QueueId) -> Ordering {
        if !self.usable {
            return Ordering::Equal;
        }
        let priority = |queue: QueueId| snapshot.queues[queue].priority;
        let inner = |queue: QueueId| self.tree.as_ref().is_some_and(|tree| !tree.is_leaf(queue));
        let (left, right) = self.compared(one, other);
        let order = priority(other)
            .cmp(&priority(one))
            .then_with(|| inner(one).cmp(&inner(other)))
            .then_with(|| self.shares.share(left).total_cmp(&self.shares.share(right)));
        // A queue that deserves something comes before one that deserves nothing.
        order.then_with(|| self.deserves(right).cmp(&self.deserves(left)))
    }

    fn victim_queue_order(&self, one: QueueId, other: QueueId, preemptor: QueueId) -> Ordering {
        let Some(tree) = self.tree.as_ref().filter(|_| self.usable) else {
            return Ordering::Equal;
        };
        // Siblings come before cousins.
        let level = |queue: QueueId| tree.common_level(queue, preemptor);
        level(other).cmp(&level(one))
    }

    fn reclaimable(
        &self,
        tiers: Tiers<'_>,
        reclaimer: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        if !self.usable {
            return Some(Vec::new());
        }
        let order = tiers.victims_in_order(reclaimer, candidates.to_vec());
        Some(self.victims(tiers.snapshot, reclaimer, order.into_iter()))
    }

    fn job_enqueueable(
        &self,
        tiers: Tiers<'_>,
        job: JobId,
        request: &Resource,
        reserved: &Reserved,
    ) -> Result<Vote, String> {
        let queue = tiers.snapshot.jobs[job].queue;
        if let Some(message) = self.no_place_message(tiers.snapshot, queue) {
            return Err(message);
        }
        if tiers.snapshot.queues[queue].open
            && let Some(closed) = self.closed_above(tiers.snapshot, queue)
        {
            let closed = &tiers.snapshot.queues[closed].name;
            return Err(format!("queue {closed} above its queue is not open"));
        }
        self.shares
            .enqueueable(tiers.snapshot, job, request, reserved)
    }

    fn preemptive(&self, snapshot: &Snapshot, queue: QueueId, request: &Resource) -> bool {
        self.has_place(queue) && snapshot.queues[queue].open && self.may_reclaim(queue, request)
    }

    fn queue_shares(&self) -> Option<&Shares> {
        Some(&self.shares)
    }

    fn queue_shares_mut(&mut self) -> Option<&mut Shares> {
        Some(&mut self.shares)
    }

    fn has_place(&self, queue: QueueId) -> bool {
        let Some(tree) = &self.tree else { return true };
        self.usable && tree.is_leaf(queue) && tree.fault(queue).is_none()
    }

    fn queue_tree(&self) -> Option<&QueueTree> {
        self.tree.as_ref()
    }

    fn deserved_if_wanted(&self, queue: QueueId, _: QueueId) -> Option<&Resource> {
        self.shares.of(queue).map(|share| &share.deserved)
    }

    fn promised_shares(
        &self,
        snapshot: &Snapshot,
        (one, other): (QueueId, QueueId),
    ) -> Option<(f64, f64)> {
        let (one, other) = self.compared(one, other);
        let promised = |queue: QueueId| self.shares.promised(queue, &snapshot.total, true);
        Some((promised(one), promised(other)))
    }
}

impl Left<'_> {
    /// A queue's share, and the amount that it holds without the victims so far.
    fn of(&mut self, queue: QueueId) -> Option<(&QueueShare, &Resource)> {
        let share = self.shares.of(queue)?;
        let left = self.allocated.entry(queue);
        Some((share, left.or_insert_with(|| share.allocated.clone())))
    }

    fn take(&mut self, queue: QueueId, victim: &Resource) {
        if let Some(left) = self.allocated.get_mut(&queue) {
            left.sub(victim);
        }
    }
}

/// No limit on cpu, memory, and each resource that the cluster has.
fn unlimited(snapshot: &Snapshot) -> Resource {
    let mut unlimited = Resource::default();
    for (dim, _) in snapshot.total.iter() {
        unlimited.set(dim, f64::MAX);
    }
    unlimited
}

/// Fills in what a capability does not limit: cpu and memory of zero, and resources that it does not name (S6-157).
fn inherit(capability: &mut Resource, above: &Resource) {
    for (dim, amount) in above.iter() {
        let unset = match dim {
            Dim::CPU | Dim::MEMORY => capability.get(dim) <= 0.0,
            _ => capability.named(dim).is_none(),
        };
        if unset {
            capability.set(dim, amount);
        }
    }
}

/// Whether a queue deserves any of some resources.
fn names_some(deserved: &Resource, request: &Resource) -> bool {
    let mut some = request.some();
    some.any(|(dim, _)| deserved.get(dim) >= EPSILON)
}

/// Whether a queue holds more than its share of a requested resource.
fn exceeds(share: &QueueShare, allocated: &Resource, request: &Resource) -> bool {
    // Of a rarer resource it is enough that it is named.
    let named = |dim: Dim| match dim {
        Dim::CPU | Dim::MEMORY => share.deserved.get(dim) >= EPSILON,
        _ => share.deserved.named(dim).is_some(),
    };
    asked(request).any(|dim| named(dim) && allocated.get(dim) > share.deserved.get(dim))
}
