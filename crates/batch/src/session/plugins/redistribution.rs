//! Redistribution of unused share. Jobs start as a whole or not at all, so the rest of a queue's share may be too small
//! for any pending job. Other queues use it until that changes.

use super::shares::{QueueShare, ReducedShare, Shares};
use super::usable_nodes::{Alike, Demand, SetId, UsableNodes};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId};
use crate::session::snapshot::resource::{Dim, Resource, Unnamed, share};
use crate::session::snapshot::task::{Status, Task};
use std::collections::BTreeMap;

/// The number of queues whose share is redistributed; each costs a scan of all pending jobs.
const MOST_REDUCED: usize = 16;

/// The demand of a queue's pending jobs.
#[derive(Default)]
struct Wants<'s> {
    jobs: Vec<Want<'s>>,
    /// The room in the node sets that only some pods may use.
    rooms: BTreeMap<SetId, Resource>,
    /// Whether some of its pods never start, or not everywhere.
    limited: bool,
}

/// The demand of a job.
struct Want<'s> {
    /// All of this at once, or nothing.
    gang: Resource,
    /// The same by the nodes that may be used.
    by_set: BTreeMap<SetId, Resource>,
    /// Any number of these besides.
    rest: Vec<Alike<'s>>,
}

/// Lowers deserved shares to the usable amounts, largest surplus first, because one queue's surplus may be what another
/// lacks. Afterwards each usable amount is computed again, since early queues did not see later changes.
pub(super) fn redistribute<'s>(
    shares: &mut Shares,
    mut nodes: UsableNodes<'s>,
    snapshot: &'s Snapshot,
    total: &Resource,
) {
    // Where every queue has its request, no share is lent.
    if !shares.queues.iter().flatten().any(is_unmet) {
        return;
    }
    let by_weight = shares.clone();
    let mut wants = wants_of(shares, &mut nodes, snapshot);
    let mut reduced_queues = Vec::new();
    while reduced_queues.len() < MOST_REDUCED
        && let Some((queue, reduced)) = largest_surplus(shares, snapshot, &wants)
    {
        set_reduced(shares, total, queue, Some(reduced));
        reduced_queues.push((queue, wants[queue].take().unwrap_or_default()));
    }
    // A later redistribution may be just the amount that an earlier queue lacked.
    for (queue, wants) in reduced_queues {
        set_reduced(shares, total, queue, None);
        let reduced = shares
            .of(queue)
            .and_then(|share| reduced_share(share, &wants));
        if reduced.is_some() {
            set_reduced(shares, total, queue, reduced);
        }
    }
    give_back(shares, total);
    // Reclaim must tell the two apart: a lent part may be smaller in the next session.
    for (share, by_weight) in shares.queues.iter_mut().zip(by_weight.queues) {
        if let Some((share, by_weight)) = share.as_mut().zip(by_weight) {
            share.lent = share.deserved.beyond(&by_weight.deserved);
        }
    }
}

fn is_unmet(share: &QueueShare) -> bool {
    !share.request.within_for(&share.deserved, &share.request)
}

/// The demand by queue; `None` for a queue that can use its whole deserved share.
fn wants_of<'s>(
    shares: &Shares,
    nodes: &mut UsableNodes<'s>,
    snapshot: &'s Snapshot,
) -> Vec<Option<Wants<'s>>> {
    let queues = shares.queues.iter();
    let mut wants: Vec<Option<Wants<'s>>> = queues
        .map(|share| share.as_ref().map(|_| Wants::default()))
        .collect();
    for (index, job) in snapshot.live_jobs() {
        if let Some(wants) = &mut wants[job.queue] {
            wants.add(index, nodes, snapshot);
        }
    }
    let with_index = wants.iter().enumerate();
    let sets = with_index.flat_map(|(index, wants)| {
        let sets = wants.iter().flat_map(Wants::sets);
        sets.map(move |set| (QueueId::of(index), set))
    });
    let rooms = nodes.rooms(sets);
    for (queue, rooms) in rooms {
        if let Some(wants) = &mut wants[queue] {
            wants.rooms = rooms;
            wants.limited = true;
        }
    }
    for (wants, share) in wants.iter_mut().zip(&shares.queues) {
        let is_met = !share.as_ref().is_some_and(is_unmet);
        if wants.as_ref().is_some_and(|wants| is_met && !wants.limited) {
            *wants = None;
        }
    }
    for wants in wants.iter_mut().flatten() {
        let size = |want: &Want<'_>| want.gang.dominant(&snapshot.total).1;
        let jobs = &mut wants.jobs;
        jobs.sort_by(|one, other| size(other).total_cmp(&size(one)));
    }
    wants
}

/// Returns the unclaimed surplus to its queues, so that their jobs are tried and get a fit error.
fn give_back(shares: &mut Shares, total: &Resource) {
    let queues = shares.queues.iter().flatten();
    let mut unclaimed = queues.fold(total.clone(), |sum, share| sum.beyond(&share.deserved));
    for share in shares.queues.iter_mut().flatten() {
        let Some(reduced) = &share.reduced else {
            continue;
        };
        let mut back = reduced.deserved.beyond(&share.deserved);
        back.lower_to(&unclaimed, Unnamed::Zero);
        unclaimed = unclaimed.beyond(&back);
        share.deserved.add(&back);
        share.update();
    }
}

/// Records a queue's surplus and divides again.
fn set_reduced(
    shares: &mut Shares,
    total: &Resource,
    queue: QueueId,
    reduced: Option<ReducedShare>,
) {
    if let Some(share) = &mut shares.queues[queue] {
        share.reduced = reduced;
    }
    shares.divide(total);
}

/// The queue with the largest surplus over all resources that it requests. Surplus of a single resource, such as memory
/// alone, helps no job.
fn largest_surplus(
    shares: &Shares,
    snapshot: &Snapshot,
    wants: &[Option<Wants<'_>>],
) -> Option<(QueueId, ReducedShare)> {
    let mut most: Option<([f64; 2], QueueId, ReducedShare)> = None;
    for (queue, (queue_share, wants)) in shares.queues.iter().zip(wants).enumerate() {
        let queue = QueueId::of(queue);
        let (Some(queue_share), Some(wants)) = (queue_share, wants) else {
            continue;
        };
        let Some(reduced) = reduced_share(queue_share, wants) else {
            continue;
        };
        let unused = queue_share.deserved.beyond(&reduced.usable);
        let asked = queue_share
            .request
            .some()
            .filter(|(dim, _)| *dim != Dim::PODS);
        let parts = asked.map(|(dim, _)| share(unused.get(dim), snapshot.total.get(dim)));
        let size = [
            parts.fold(1.0, f64::min),
            unused.dominant(&snapshot.total).1,
        ];
        let name = |queue: QueueId| &snapshot.queues[queue].name;
        let more = most.as_ref().is_none_or(|(most, other, _)| {
            let order = size[0].total_cmp(&most[0]);
            let order = order.then_with(|| size[1].total_cmp(&most[1]));
            order.then_with(|| name(*other).cmp(name(queue))).is_gt()
        });
        if more {
            most = Some((size, queue, reduced));
        }
    }
    most.map(|(_, queue, reduced)| (queue, reduced))
}

/// The part of its deserved share that a queue can use, if that is not all.
fn reduced_share(queue: &QueueShare, wants: &Wants<'_>) -> Option<ReducedShare> {
    let left = left_over(queue, wants);
    let mut usable = queue.deserved.clone();
    usable.sub(&left);
    let deserved = queue.deserved.clone();
    (!left.is_empty()).then_some(ReducedShare { usable, deserved })
}

/// The part of its deserved share that no pending job could use, largest gangs first.
fn left_over(queue: &QueueShare, wants: &Wants<'_>) -> Resource {
    let mut left = queue.deserved.beyond(&queue.allocated);
    let mut rooms = wants.rooms.clone();
    for want in &wants.jobs {
        let mut by_set = want.by_set.iter();
        let fits = want.gang.within_for(&left, &want.gang)
            && by_set.all(|(set, part)| {
                let room = rooms.get(set);
                room.is_none_or(|room| part.within_for(room, part))
            });
        if !fits {
            continue;
        }
        left = left.beyond(&want.gang);
        for (set, part) in &want.by_set {
            take(&mut rooms, *set, part);
        }
        let mut used = Resource::default();
        for alike in &want.rest {
            let mut usable = left.clone();
            if let Some(room) = rooms.get(&alike.one.set) {
                usable.lower_to(room, Unnamed::Zero);
            }
            let part = alike.used_of(&usable);
            take(&mut rooms, alike.one.set, &part);
            used.add(&part);
        }
        left = left.beyond(&used);
    }
    left
}

fn take(rooms: &mut BTreeMap<SetId, Resource>, set: SetId, part: &Resource) {
    if let Some(room) = rooms.get_mut(&set) {
        *room = room.beyond(part);
    }
}

impl<'s> Wants<'s> {
    fn sets(&self) -> impl Iterator<Item = SetId> {
        self.jobs.iter().flat_map(|want| {
            let gang = want.by_set.keys().copied();
            gang.chain(want.rest.iter().map(|alike| alike.one.set))
        })
    }

    /// Adds a job's demand, unless it waits for nothing, or for more than fits on nodes without pods.
    fn add(&mut self, job_id: JobId, nodes: &mut UsableNodes<'s>, snapshot: &'s Snapshot) {
        let job = &snapshot.jobs[job_id];
        let waiting = snapshot.tasks_of(job_id, Status::Pending);
        let waiting = waiting.map(|task| &snapshot.tasks[task]);
        let waiting = waiting.filter(|task| !task.gated && !task.best_effort);
        let mut tasks: Vec<&Task> = waiting.collect();
        if tasks.is_empty() {
            return;
        }
        let there = job.ready() + job.pending_best_effort;
        let missing = job.min_member.saturating_sub(there);
        let missing = usize::try_from(missing).unwrap_or(0).min(tasks.len());
        if missing < tasks.len() {
            let size = |task: &Task| task.request.dominant(&snapshot.total).1;
            tasks.sort_by(|one, other| size(one).total_cmp(&size(other)));
        }
        let of_roles = lacking_first(snapshot, job_id, &mut tasks);
        let missing = missing.max(of_roles);
        let pending = tasks.len();
        let others = tasks.split_off(of_roles);
        let mut demands_of = |tasks: Vec<&'s Task>| -> Vec<Demand<'s>> {
            let demands = tasks.into_iter();
            demands
                .filter_map(|task| nodes.demand_of(job.queue, task))
                .collect()
        };
        let (mut demands, others) = (demands_of(tasks), demands_of(others));
        let complete = demands.len() == of_roles;
        demands.extend(nodes.holdable(&others));
        self.limited |= demands.len() < pending;
        if !complete
            || demands.len() < missing
            || !nodes.may_fit(job, &demands[..of_roles], of_roles)
            || !nodes.may_fit(job, &demands, missing)
        {
            self.limited = true;
            return;
        }
        let rest = Alike::runs(&demands[missing..]).collect();
        let mut by_set: BTreeMap<SetId, Resource> = BTreeMap::new();
        let mut gang = Resource::default();
        for demand in &demands[..missing] {
            gang.add(demand.request);
            by_set.entry(demand.set).or_default().add(demand.request);
        }
        self.jobs.push(Want { gang, by_set, rest });
    }
}

/// Moves the tasks that a gang needs by their role to the front; returns how many they are.
fn lacking_first(snapshot: &Snapshot, job: JobId, tasks: &mut Vec<&Task>) -> usize {
    let mut lacking = snapshot.lacking_by_role(job);
    let is_needed = |task: &&Task| {
        let left = lacking.get_mut(&task.role).filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    };
    let (needed, others): (Vec<&Task>, Vec<&Task>) = tasks.drain(..).partition(is_needed);
    let count = needed.len();
    tasks.extend(needed);
    tasks.extend(others);
    count
}
