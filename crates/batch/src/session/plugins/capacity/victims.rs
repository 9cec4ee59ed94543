//! The pods that queues lose to a queue that reclaims its deserved share (S6-164 to S6-166).

use super::{Capacity, asked, exceeds, is_rarer, names_dim, names_some};
use crate::session::plugins::{Plugin, QueueShare, Shares};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, EPSILON, Resource, Unnamed, at_most};
use crate::session::snapshot::task::Status;
use evictd_batch_objects::Difference;
use hashbrown::HashMap;

/// The amounts that victims leave to their queues.
struct Left<'s> {
    shares: &'s Shares,
    allocated: HashMap<QueueId, Resource>,
}

/// The resources that a request lacks on a node.
#[derive(Default)]
struct Scarce {
    dims: Vec<Dim>,
    /// The rarer ones that the reclaimer's queue deserves.
    owed: Vec<Dim>,
}

impl Capacity {
    /// The tasks that other queues may lose to a request; `candidates` are in victim order (S6-164).
    pub(super) fn victims(
        &self,
        snapshot: &Snapshot,
        reclaimer: TaskId,
        candidates: impl Iterator<Item = TaskId>,
    ) -> Vec<TaskId> {
        let task = &snapshot.tasks[reclaimer];
        let (request, to) = (&task.request, snapshot.jobs[task.job].queue);
        let candidates: Vec<TaskId> = candidates.collect();
        let scarce = self.scarce(snapshot, reclaimer, &candidates);
        let missing = missing_of(snapshot, reclaimer);
        let mut owed: HashMap<QueueId, bool> = HashMap::new();
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
                && *owed
                    .entry(from)
                    .or_insert_with(|| self.deserves_scarce((from, to), &missing, &scarce.dims))
                && self.keeps_guarantees(&mut left, from, &task.request)
                && self.is_above_deserved(&mut left, (from, to), (&task.request, request), &scarce);
            if goes {
                left.take(from, &task.request);
                for above in self.counted_ancestors(from, to) {
                    left.take(above, &task.request);
                }
            }
            goes
        };
        candidates.into_iter().filter(may_go).collect()
    }

    /// The tasks that other queues may lose to a whole gang; neither its request nor the levels above count (S6-169).
    pub(super) fn gang_victims(&self, snapshot: &Snapshot, candidates: &[TaskId]) -> Vec<TaskId> {
        let mut left = Left {
            shares: &self.shares,
            allocated: HashMap::new(),
        };
        let may_go = |candidate: &TaskId| {
            let task = &snapshot.tasks[*candidate];
            let (from, request) = (snapshot.jobs[task.job].queue, &task.request);
            let goes = self.keeps_guarantees(&mut left, from, request)
                && left.of(from).is_some_and(|(share, allocated)| {
                    !names_some(&share.deserved, request) || exceeds(share, allocated, request, &[])
                });
            if goes {
                left.take(from, request);
            }
            goes
        };
        candidates.iter().copied().filter(may_go).collect()
    }

    /// The resources that a request lacks on the node of its victims. None for Volcano, which does not look at them.
    fn scarce(&self, snapshot: &Snapshot, reclaimer: TaskId, victims: &[TaskId]) -> Scarce {
        let node = victims
            .first()
            .and_then(|victim| snapshot.tasks[*victim].node);
        let Some(node) = node.filter(|_| self.compat.has(Difference::ReclaimOnlyOwed)) else {
            return Scarce::default();
        };
        let task = &snapshot.tasks[reclaimer];
        let room = snapshot.nodes[node.index()].future_idle();
        let asked = asked(&task.request);
        let dims: Vec<Dim> = asked
            .filter(|dim| !at_most(task.request.get(*dim), room.get(*dim)))
            .collect();
        let share = self.shares.of(snapshot.jobs[task.job].queue);
        let deserves = |dim: Dim| share.is_some_and(|share| share.deserved.get(dim) >= EPSILON);
        let owed = dims.iter().copied();
        let owed = owed.filter(|dim| is_rarer(*dim) && deserves(*dim));
        Scarce {
            owed: owed.collect(),
            dims,
        }
    }

    /// Whether a queue deserves the scarce resources that a job needs to start, compared with a queue that loses them.
    /// Otherwise two queues above their shares would reclaim the same room in turn. Cpu and memory that it does not name
    /// are not counted, nor is a rarer resource that neither names.
    fn deserves_scarce(
        &self,
        (from, to): (QueueId, QueueId),
        missing: &Resource,
        scarce: &[Dim],
    ) -> bool {
        scarce.iter().all(|dim| {
            let names = |at: QueueId| {
                let share = self.shares.of(at)?;
                names_dim(&share.deserved, *dim).then_some(share)
            };
            if names(to).is_none() && (!is_rarer(*dim) || names(from).is_none()) {
                return true;
            }
            // A queue above both of them owes neither of them anything against the other.
            let above_both = |at: QueueId| {
                let tree = self.tree.as_ref();
                tree.is_some_and(|tree| tree.ancestors[from].contains(&at))
            };
            let near = self.near_ancestors(to).map(|(_, above)| above);
            let near = near.filter(|above| !above_both(*above));
            let mut shares = std::iter::once(to).chain(near).filter_map(names);
            shares.any(|share| {
                let wanted = share.allocated.get(*dim) + missing.get(*dim);
                at_most(wanted, share.deserved.get(*dim))
            })
        })
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
        scarce: &Scarce,
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
        } else if !is_beyond(share, allocated, victim, scarce) {
            return false;
        }
        self.checked_ancestors(from, to).all(|(_, above)| {
            left.of(above).is_some_and(|(share, allocated)| {
                !names_some(&share.deserved, victim) || is_beyond(share, allocated, victim, scarce)
            })
        })
    }

    /// The near ancestors of a victim's queue that are not those of the reclaimer at the same level.
    pub(super) fn checked_ancestors(
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

/// The requests of the pods that a job lacks to start, of which this one is the next.
fn missing_of(snapshot: &Snapshot, next: TaskId) -> Resource {
    let task = &snapshot.tasks[next];
    let job = &snapshot.jobs[task.job];
    let missing = job.min_member - job.ready() - job.pipelined() - job.pending_best_effort;
    let missing = usize::try_from(missing).unwrap_or(0);
    let others = snapshot.tasks_of(task.job, Status::Pending);
    let others = others.filter(|other| *other != next && !snapshot.tasks[*other].best_effort);
    let mut sum = task.request.clone();
    for other in others.take(missing.saturating_sub(1)) {
        sum.add(&snapshot.tasks[other].request);
    }
    sum
}

/// Whether a queue holds more than its share, or a scarce resource that it does not name, such as a kind of GPU, and that
/// the reclaimer's queue deserves.
fn is_beyond(share: &QueueShare, allocated: &Resource, victim: &Resource, scarce: &Scarce) -> bool {
    let unnamed = |dim: &Dim| victim.get(*dim) >= EPSILON && share.deserved.named(*dim).is_none();
    scarce.owed.iter().any(unnamed) || exceeds(share, allocated, victim, &scarce.dims)
}
