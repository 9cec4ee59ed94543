//! Plugin capacity: each queue names its deserved share itself (S6-150, S6-151), with `enableHierarchy` at every level of
//! a tree (S6-152 to S6-168).

mod victims;

use super::queue_tree::TreeFault;
use super::{Plugin, QueueShare, QueueTree, Reserved, Shares, Tiers, Vote};
use crate::conf;
use crate::session::eviction_kind::EvictionKind;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, EPSILON, Resource, Unnamed, at_most};
use evictd_batch_objects::{Compat, Difference};
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

/// The requested resources, without the number of pods.
fn asked(request: &Resource) -> impl Iterator<Item = Dim> {
    let asked = request.iter();
    asked.filter_map(|(dim, amount)| (amount > 0.0 && dim != Dim::PODS).then_some(dim))
}

impl Capacity {
    pub(super) fn open(snapshot: &Snapshot, plugin: &conf::Plugin, compat: Compat) -> Self {
        let level = plugin.arguments.whole("ancestorReclaimLevel", 0.0).max(0.0);
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
        self.shares.explains = self.compat.has(Difference::ConditionSaysWhy);
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

    /// Sets the deserved shares and the limits of the queues of a tree, from the root to the leaves (S6-156 to S6-158).
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
        let has_message = self.compat.has(Difference::UsableBranches);
        let tree = self.tree.as_ref().filter(|_| has_message);
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

    /// Whether a queue may reclaim for a request: at least one resource stays within its deserved share, or within that
    /// of a near ancestor (S6-151, S6-163). `with` adds the request to the allocation of a queue.
    fn deserves_some(
        &self,
        queue: QueueId,
        with: impl Fn(&QueueShare) -> Resource,
        request: &Resource,
    ) -> bool {
        let Some(share) = self.shares.of(queue) else {
            return false;
        };
        let deserves = |share: &QueueShare| {
            let with = with(share);
            asked(request).any(|dim| {
                let (with, deserved) = (with.get(dim), share.deserved.get(dim));
                (with >= EPSILON || deserved >= EPSILON) && at_most(with, deserved)
            })
        };
        with(share).within_for(&share.real_capability, request)
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

    fn gang_evictable(
        &self,
        snapshot: &Snapshot,
        kind: EvictionKind,
        _: JobId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        if kind == EvictionKind::GangPreempt {
            return Some(candidates.to_vec());
        }
        Some(self.gang_victims(snapshot, candidates))
    }

    // The nearest one.
    fn closed_above(&self, snapshot: &Snapshot, queue: QueueId) -> Option<QueueId> {
        if !self.compat.has(Difference::ClosedAncestors) {
            return None;
        }
        let mut above = self.tree.as_ref()?.ancestors[queue].iter().rev().copied();
        above.find(|at| !snapshot.queues[*at].open)
    }

    fn queue_objection(&self, snapshot: &Snapshot, queue: QueueId) -> Option<String> {
        let no_place = self.no_place_message(snapshot, queue);
        let no_place = no_place.filter(|message| !message.is_empty());
        no_place.or_else(|| {
            let closed = self.closed_above(snapshot, queue)?;
            let closed = &snapshot.queues[closed].name;
            Some(format!("queue {closed} above its queue is not open"))
        })
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
            && let Some(message) = self.queue_objection(tiers.snapshot, queue)
        {
            return Err(message);
        }
        self.shares
            .enqueueable(tiers.snapshot, job, request, reserved)
    }

    fn preemptive(&self, snapshot: &Snapshot, queue: QueueId, request: &Resource) -> bool {
        self.has_place(queue)
            && snapshot.queues[queue].open
            && self.deserves_some(queue, |share| share.with(request), request)
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

    fn may_reclaim(&self, queue: QueueId, request: &Resource) -> Option<bool> {
        let with = |share: &QueueShare| share.with_job(request);
        Some(self.has_place(queue) && self.deserves_some(queue, with, request))
    }

    /// As far as it can be known without a node.
    fn may_lose(&self, queue: QueueId, wanting: QueueId) -> Option<bool> {
        let (share, wanted) = (self.shares.of(queue)?, self.shares.of(wanting)?);
        let held = &share.allocated;
        let borrows = |dim: Dim| {
            is_rarer(dim)
                && share.deserved.named(dim).is_none()
                && wanted.deserved.get(dim) >= EPSILON
        };
        let beyond = exceeds(share, held, held, &[]) || asked(held).any(borrows);
        let above = self.checked_ancestors(queue, wanting).all(|(_, above)| {
            let above = self.shares.of(above);
            above.is_none_or(|above| {
                !names_some(&above.deserved, held) || exceeds(above, &above.allocated, held, &[])
            })
        });
        Some(above && (beyond || !names_some(&share.deserved, held)))
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

/// No limit on cpu, memory, and each resource that the cluster has.
fn unlimited(snapshot: &Snapshot) -> Resource {
    let mut unlimited = Resource::default();
    for (dim, _) in snapshot.total.iter() {
        unlimited.set(dim, f64::MAX);
    }
    unlimited
}

/// Fills in the resources that a capability does not limit: cpu and memory of zero, and resources that it does not name (S6-157).
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

/// Whether a queue holds more than its share of a requested resource. If some of them are scarce, only these count.
fn exceeds(share: &QueueShare, allocated: &Resource, request: &Resource, scarce: &[Dim]) -> bool {
    asked(request)
        .filter(|dim| scarce.is_empty() || scarce.contains(dim))
        .any(|dim| names_dim(&share.deserved, dim) && allocated.get(dim) > share.deserved.get(dim))
}

/// Whether a deserved share names a resource. Of a rarer resource it may be zero.
fn names_dim(deserved: &Resource, dim: Dim) -> bool {
    match dim {
        Dim::CPU | Dim::MEMORY => deserved.get(dim) >= EPSILON,
        _ => deserved.named(dim).is_some(),
    }
}

/// Whether a resource is neither cpu nor memory.
const fn is_rarer(dim: Dim) -> bool {
    !matches!(dim, Dim::CPU | Dim::MEMORY)
}
