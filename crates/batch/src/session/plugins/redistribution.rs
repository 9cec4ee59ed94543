//! Redistribution of unused share. Jobs start as a whole or not at all, so the rest of a queue's share may be too small
//! for any pending job. Other queues use it until that changes.

use super::node_group::NodeGroup;
use super::shares::{QueueShare, ReducedShare, Shares};
use crate::session::snapshot::ids::{JobId, QueueId};
use crate::session::snapshot::resource::{Dim, Resource, Unnamed, share};
use crate::session::snapshot::task::{Status, Task};
use crate::session::snapshot::{Job, Snapshot};
use evictd_placement::{Cluster, Domains, NodeId};
use std::collections::BTreeMap;

/// The number of queues whose share is redistributed; each costs a scan of all pending jobs.
const MOST_REDUCED: usize = 16;

/// The number of nodes that a session may check for all gangs together, because a tenant chooses the number of gangs.
const MOST_CHECKS: usize = 1 << 18;

/// The demand of a job.
struct Want<'s> {
    /// All of this at once, or nothing.
    gang: Resource,
    /// Any number of these besides.
    rest: Vec<Alike<'s>>,
}

/// Equal tasks that start one by one.
struct Alike<'s> {
    one: &'s Resource,
    count: usize,
}

/// Lowers deserved shares to the usable amounts, largest surplus first, because one queue's surplus may be what another
/// lacks. Afterwards each usable amount is computed again, since early queues did not see later changes.
pub(super) fn redistribute(
    shares: &mut Shares,
    (snapshot, cluster): (&Snapshot, &Cluster),
    node_group: Option<&NodeGroup>,
    total: &Resource,
) {
    let unmet = |share: &QueueShare| !share.request.within_for(&share.deserved, &share.request);
    // Where every queue has its request, no share is lent.
    if !shares.queues.iter().flatten().any(unmet) {
        return;
    }
    let queues = shares.queues.iter();
    let mut wants: Vec<Option<Vec<Want<'_>>>> = queues
        .map(|share| share.as_ref().map(|_| Vec::new()))
        .collect();
    let mut checks = GangChecks {
        snapshot,
        cluster,
        node_group,
        never: vec![false; shares.queues.len()],
        left: MOST_CHECKS,
    };
    for (index, job) in snapshot.live_jobs() {
        if let Some(wants) = &mut wants[job.queue] {
            wants.extend(Want::of(index, &mut checks));
        }
    }
    for ((wants, share), never) in wants.iter_mut().zip(&shares.queues).zip(checks.never) {
        // A queue with its whole request can use it, unless the nodes cannot hold some of its pods.
        if !never && !share.as_ref().is_some_and(unmet) {
            *wants = None;
        }
    }
    for wants in wants.iter_mut().flatten() {
        let size = |want: &Want<'_>| want.gang.dominant(&snapshot.total).1;
        wants.sort_by(|one, other| size(other).total_cmp(&size(one)));
    }
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
    wants: &[Option<Vec<Want<'_>>>],
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
fn reduced_share(queue: &QueueShare, wants: &[Want<'_>]) -> Option<ReducedShare> {
    let left = left_over(queue, wants);
    let mut usable = queue.deserved.clone();
    usable.sub(&left);
    let deserved = queue.deserved.clone();
    (!left.is_empty()).then_some(ReducedShare { usable, deserved })
}

/// The part of its deserved share that no pending job could use, largest gangs first.
fn left_over(queue: &QueueShare, wants: &[Want<'_>]) -> Resource {
    let mut left = queue.deserved.beyond(&queue.allocated);
    for want in wants {
        if want.gang.within_for(&left, &want.gang) {
            left = left.beyond(&want.gang);
            let mut used = Resource::default();
            for alike in &want.rest {
                used.add(&alike.used_of(&left));
            }
            left = left.beyond(&used);
        }
    }
    left
}

impl Alike<'_> {
    /// The part of an amount that these tasks alone can use. No task uses what is smaller than it.
    fn used_of(&self, left: &Resource) -> Resource {
        let asked = self.one.some().filter(|(dim, _)| *dim != Dim::PODS);
        let mut used = self.one.clone();
        used.scale(whole_times(asked, left).min(number(self.count)));
        used
    }
}

impl<'s> Want<'s> {
    /// `None` if the job waits for nothing, or for more than fits on nodes without pods.
    fn of(job_id: JobId, checks: &mut GangChecks<'s>) -> Option<Self> {
        let snapshot = checks.snapshot;
        let job = &snapshot.jobs[job_id];
        let waiting = snapshot.tasks_of(job_id, Status::Pending);
        let waiting = waiting.map(|task| &snapshot.tasks[task]);
        let waiting = waiting.filter(|task| !task.gated && !task.best_effort);
        let mut tasks: Vec<&Task> = waiting.collect();
        if tasks.is_empty() {
            return None;
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
        let mut requests: Vec<&'s Resource> = tasks.into_iter().map(|task| &task.request).collect();
        let pending = requests.len();
        let others = requests.split_off(of_roles);
        requests.extend(checks.holdable(job.queue, &others));
        checks.never[job.queue] |= requests.len() < pending;
        if requests.len() < missing
            || !checks.may_fit(job, &requests[..of_roles], of_roles)
            || !checks.may_fit(job, &requests, missing)
        {
            checks.never[job.queue] = true;
            return None;
        }
        let rest = alike(&requests[missing..]).collect();
        let mut gang = Resource::default();
        for request in &requests[..missing] {
            gang.add(request);
        }
        Some(Self { gang, rest })
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

/// Whether gangs could start if no other pod existed.
struct GangChecks<'s> {
    snapshot: &'s Snapshot,
    cluster: &'s Cluster,
    node_group: Option<&'s NodeGroup>,
    /// By queue, whether it has a gang that cannot start, or pods that fit on no node.
    never: Vec<bool>,
    /// The number of nodes that may still be checked.
    left: usize,
}

impl GangChecks<'_> {
    /// Whether `needed` of the tasks may fit on nodes that are near enough to each other for the job.
    fn may_fit(&mut self, job: &Job, requests: &[&Resource], needed: usize) -> bool {
        let snapshot = self.snapshot;
        let groups = &snapshot.hyper_nodes;
        let network = job.network.as_ref();
        if let Some(tier) = network.and_then(|network| network.hard_tier(groups)) {
            let mut near = groups.ids().map(|id| groups.at(id));
            return near.any(|group| {
                group.tier <= tier && self.may_hold(job.queue, &group.nodes, requests, needed)
            });
        }
        if job.topology().is_empty() {
            return self.may_hold(job.queue, &snapshot.by_rank, requests, needed);
        }
        let mut domains: BTreeMap<usize, Vec<NodeId>> = BTreeMap::new();
        // A tenant chooses the labels, and finding their domains visits every node.
        self.left = self.left.saturating_sub(snapshot.nodes.len());
        let by_labels = Domains::new(self.cluster, job.topology().iter().map(AsRef::as_ref));
        for node in &snapshot.by_rank {
            if let Some(domain) = by_labels.at(*node) {
                domains.entry(domain).or_default().push(*node);
            }
        }
        let mut domains = domains.values();
        domains.any(|nodes| self.may_hold(job.queue, nodes, requests, needed))
    }

    /// Whether `needed` of the tasks may fit on some nodes together. Sums of amounts do not show that: three nodes of 4 cores
    /// hold three tasks of 3 cores, not four. Competition between unequal tasks is left out, so that `true` proves nothing. It is
    /// also the answer once no check is left.
    fn may_hold(
        &mut self,
        queue: QueueId,
        nodes: &[NodeId],
        requests: &[&Resource],
        needed: usize,
    ) -> bool {
        let mut held = 0.0;
        for Alike { one, count } in alike(requests) {
            if held >= number(needed) {
                break;
            }
            held += self.count(queue, nodes, one, number(count));
        }
        held >= number(needed)
    }

    /// The requests without those that the nodes cannot hold. No pod ever uses the share that is kept for them.
    fn holdable<'r>(&mut self, queue: QueueId, requests: &[&'r Resource]) -> Vec<&'r Resource> {
        let snapshot = self.snapshot;
        let mut all = Vec::with_capacity(requests.len());
        for Alike { one, count } in alike(requests) {
            let held = self.count(queue, &snapshot.by_rank, one, number(count));
            let times = (0_u32..)
                .zip(0..count)
                .take_while(|(at, _)| f64::from(*at) < held);
            all.extend(times.map(|_| one));
        }
        all
    }

    /// How many such requests of a queue some nodes hold without other pods, up to `most`. It is `most` once no check is left.
    fn count(&mut self, queue: QueueId, nodes: &[NodeId], request: &Resource, most: f64) -> f64 {
        let mut count = 0.0;
        for node in nodes {
            if count >= most || self.left == 0 {
                break;
            }
            self.left -= 1;
            let groups = self.node_group;
            if groups.is_some_and(|groups| groups.refused_by_rules(queue, *node).is_some()) {
                continue;
            }
            let allocatable = &self.snapshot.nodes[node.index()].allocatable;
            count += whole_times(request.some(), allocatable);
        }
        if self.left == 0 {
            most
        } else {
            count.min(most)
        }
    }
}

/// Runs of equal requests, because equal tasks come one after the other.
fn alike<'r>(requests: &[&'r Resource]) -> impl Iterator<Item = Alike<'r>> {
    let runs = requests.chunk_by(|one, other| one == other);
    runs.filter_map(|run| {
        let count = run.len();
        run.first().map(|one| Alike { one, count })
    })
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// How many such requests fit into an amount.
fn whole_times(request: impl Iterator<Item = (Dim, f64)>, amount: &Resource) -> f64 {
    let times = request.map(|(dim, asked)| (amount.get(dim) / asked).floor());
    times.fold(f64::from(u32::MAX), f64::min)
}
