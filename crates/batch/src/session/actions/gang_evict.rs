//! Actions gangpreempt and gangreclaim: room for a whole gang at once (S6-192 to S6-202).

use super::bundles::{self, Bundle};
use crate::conf::Action;
use crate::session::Session;
use crate::session::actions::task_placement;
use crate::session::eviction_kind::EvictionKind;
use crate::session::objects::{PREEMPTABLE, is_true};
use crate::session::plugins::Budgets;
use crate::session::priority_queue::PriorityQueue;
use crate::session::reservation;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Resource, Unnamed};
use crate::session::snapshot::task::Status;
use crate::session::transaction::Operations;
use evictd_batch_objects::Difference;

pub(crate) fn gang_preempt(session: &mut Session<'_>) {
    evict_for_gangs(session, EvictionKind::GangPreempt);
}

pub(crate) fn gang_reclaim(session: &mut Session<'_>) {
    evict_for_gangs(session, EvictionKind::GangReclaim);
}

fn evict_for_gangs(session: &mut Session<'_>, kind: EvictionKind) {
    let tiers = session.tx.tiers();
    let mut queues = PriorityQueue::default();
    let mut jobs = vec![PriorityQueue::default(); tiers.snapshot.queues.len()];
    for (id, job) in tiers.snapshot.live_jobs() {
        // Reclaim and preempt by gangs respect the topology of a job, which only allocate knows.
        let apart = job.has_topology && session.tx.compat.has(Difference::SpareProtectedPods);
        if job.is_pending() || apart || tiers.invalid(id).is_some() || !tiers.is_starving(id) {
            continue;
        }
        if jobs[job.queue].is_empty() {
            queues.push(job.queue, |one, other| tiers.queue_before(one, other));
        }
        jobs[job.queue].push(id, |one, other| tiers.job_before(one, other));
    }
    while let Some(queue) = queues.pop(|one, other| session.tx.tiers().queue_before(one, other)) {
        if kind == EvictionKind::GangReclaim && session.tx.tiers().is_overused(queue) {
            continue;
        }
        let waiting = &mut jobs[queue];
        while let Some(job) = waiting.pop(|one, other| session.tx.tiers().job_before(one, other)) {
            evict_for(session, kind, queue, job);
        }
    }
}

/// Evicts bundle after bundle until all tasks that a job asks for can be placed.
fn evict_for(session: &mut Session<'_>, kind: EvictionKind, queue: QueueId, job: JobId) {
    let mut waiting = task_placement::waiting(session.tx.tiers(), job);
    let tasks: Vec<TaskId> =
        std::iter::from_fn(|| waiting.pop(|one, other| session.tx.tiers().task_before(one, other)))
            .collect();
    let Some(first) = tasks.first().copied() else {
        return;
    };
    let snapshot = &session.tx.snapshot;
    let demand = bundles::sum(snapshot, tasks.iter().copied());
    if kind == EvictionKind::GangReclaim && !session.tx.tiers().is_preemptive_for(queue, &demand)
        || session.tx.snapshot.tasks[first].never_preempts
            && session.tx.compat.has(Difference::SpareProtectedPods)
    {
        return;
    }
    let candidates = candidates(session, kind, job);
    let bundles = bundles::bundles(session.tx.tiers(), kind, job, &demand, candidates);
    let bundles = granted(session, kind, (job, first), bundles);
    let mut room = future_idle(&session.tx.snapshot);
    let mut taken: Vec<Bundle> = Vec::new();
    for bundle in bundles {
        room.add(&bundles::sum(
            &session.tx.snapshot,
            bundle.tasks.iter().copied(),
        ));
        taken.push(bundle);
        if !demand.within(&room, Unnamed::Zero) {
            continue;
        }
        let Some(operations) = attempt(session, kind, job, (&tasks, &taken)) else {
            continue;
        };
        let operations = if session.tx.compat.has(Difference::FewestVictims) {
            session.tx.discard(operations);
            give_back(session, kind, (job, &tasks), &mut taken)
        } else {
            Some(operations)
        };
        if let Some(operations) = operations {
            session.tx.commit(operations);
        }
        return;
    }
}

/// The idle amounts of all nodes after pending evictions.
fn future_idle(snapshot: &Snapshot) -> Resource {
    let mut room = Resource::default();
    for node in &snapshot.nodes {
        room.add(&node.idle);
        room.add(&node.releasing);
    }
    room
}

/// The tasks that may be evicted, before plugins are asked.
fn candidates(session: &Session<'_>, kind: EvictionKind, preemptor: JobId) -> Vec<TaskId> {
    let snapshot = &session.tx.snapshot;
    let ours = session.tx.compat.has(Difference::SpareProtectedPods);
    let to = &snapshot.jobs[preemptor];
    let may_go = |id: &TaskId| {
        let task = &snapshot.tasks[*id];
        let job = &snapshot.jobs[task.job];
        let spared = job
            .marks
            .get(PREEMPTABLE)
            .is_some_and(|text| !is_true(text));
        let meant = match kind {
            EvictionKind::GangReclaim => {
                task.status == Status::Running
                    && job.queue != to.queue
                    && snapshot.queues[job.queue].reclaimable
            }
            _ => {
                matches!(task.status, Status::Bound | Status::Running)
                    && job.queue == to.queue
                    && job.priority < to.priority
            }
        };
        let critical = ours && task.critical;
        meant && task.preemptable && !spared && !critical && job.is_live && task.job != preemptor
    };
    let on_nodes = snapshot.nodes.iter().flat_map(|node| node.tasks.iter());
    on_nodes.copied().filter(may_go).collect()
}

/// The bundles without the tasks that the plugins do not permit. A whole bundle stays only if all of it may go.
fn granted(
    session: &Session<'_>,
    kind: EvictionKind,
    preemptor: (JobId, TaskId),
    bundles: Vec<Bundle>,
) -> Vec<Bundle> {
    let action = match kind {
        EvictionKind::GangReclaim => Action::GangReclaim,
        _ => Action::GangPreempt,
    };
    let arguments = session.conf.arguments_of(action);
    let takes_whole = arguments.is_none_or(|arguments| arguments.boolean("allowWholeBundle", true));
    let all: Vec<TaskId> = bundles
        .iter()
        .flat_map(|bundle| bundle.tasks.iter().copied())
        .collect();
    let mut granted = session.tx.tiers().evictable(kind, preemptor, &all);
    if session.tx.compat.has(Difference::SpareProtectedPods) {
        let budgets = Budgets::open(&session.tx.snapshot, session.tx.cluster);
        granted = budgets.kept_by(&granted);
    }
    let kept = bundles.into_iter().filter_map(|mut bundle| {
        let before = bundle.tasks.len();
        bundle.tasks.retain(|task| granted.contains(task));
        let complete = bundle.tasks.len() == before;
        let usable = !bundle.whole || (complete && takes_whole);
        (usable && !bundle.tasks.is_empty()).then_some(bundle)
    });
    kept.collect()
}

/// Evicts these bundles and pipelines all tasks. `None` if a task fits nowhere; then nothing has changed.
fn attempt(
    session: &mut Session<'_>,
    kind: EvictionKind,
    job: JobId,
    (tasks, bundles): (&[TaskId], &[Bundle]),
) -> Option<Operations> {
    let mut operations = Operations::default();
    for victim in bundles.iter().flat_map(|bundle| bundle.tasks.iter()) {
        session.tx.evict(&mut operations, *victim, kind);
    }
    let queue = session.tx.snapshot.jobs[job].queue;
    let placed = tasks.iter().all(|task| {
        if !reservation::is_allocatable(session, queue, *task) {
            return false;
        }
        let (evaluator, view) = session.evaluation();
        let node = evaluator.choose(view, *task, true, None);
        if let Ok(node) = node {
            session.tx.pipeline(&mut operations, *task, node, true);
        }
        node.is_ok()
    });
    if placed && session.tx.tiers().is_pipelined(job) {
        return Some(operations);
    }
    session.tx.discard(operations);
    None
}

/// Leaves out the victims without which the gang fits as well, the last first. Of a whole bundle all tasks stay or none.
fn give_back(
    session: &mut Session<'_>,
    kind: EvictionKind,
    (job, tasks): (JobId, &[TaskId]),
    taken: &mut [Bundle],
) -> Option<Operations> {
    for at in (0..taken.len()).rev() {
        let mut left = taken[at].tasks.len();
        while left > 0 {
            let from = if taken[at].whole { 0 } else { left - 1 };
            let spared: Vec<TaskId> = taken[at].tasks.drain(from..left).collect();
            match attempt(session, kind, job, (tasks, taken)) {
                Some(operations) => session.tx.discard(operations),
                None => {
                    taken[at].tasks.splice(from..from, spared);
                }
            }
            left = from;
        }
    }
    attempt(session, kind, job, (tasks, taken))
}
