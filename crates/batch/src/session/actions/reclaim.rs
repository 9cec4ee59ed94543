//! Action reclaim: a queue that has less than its share takes room back from others (S6-117, S6-118).

use crate::session::Session;
use crate::session::actions::domain_placement;
use crate::session::actions::starving;
use crate::session::actions::victims;
use crate::session::eviction_kind::EvictionKind;
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::transaction::Operations;
use evictd_batch_objects::Difference;
use evictd_placement::NodeId;

/// So many nodes that could be freed are compared.
const COMPARED: usize = 16;

pub(crate) fn reclaim(session: &mut Session<'_>) {
    // Volcano's reclaim ignores the topology of a job. Ours leaves jobs with parts to the actions for gangs.
    let compat = session.tx.compat;
    let tiers = session.tx.tiers();
    let mut starving = starving::starving(tiers, |job| {
        !compat.has(Difference::UnknownTopologyWaits) || tiers.snapshot.evicts_by_task(job, compat)
    });
    let mut queues = PriorityQueue::default();
    for queue in &starving.queues {
        queues.push(*queue, |one, other| {
            session.tx.tiers().queue_before(one, other)
        });
    }
    while let Some(queue) = queues.pop(|one, other| session.tx.tiers().queue_before(one, other)) {
        // A queue that has its share must not take from others.
        if session.tx.tiers().is_overused(queue) {
            continue;
        }
        let waiting = &mut starving.by_queue[queue];
        while let Some(job) = waiting.pop(|one, other| session.tx.tiers().job_before(one, other)) {
            reclaim_by(session, queue, job, &mut starving.tasks[job]);
            if session.is_fifo(queue) && session.tx.tiers().is_starving(job) {
                break;
            }
        }
    }
}

/// Lets tasks of a job take room from other queues, if it has enough then.
fn reclaim_by(
    session: &mut Session<'_>,
    queue: QueueId,
    job: JobId,
    tasks: &mut PriorityQueue<TaskId>,
) {
    domain_placement::free_for_job(
        session,
        EvictionKind::Reclaim,
        (job, tasks),
        |session, operations, task| reclaim_for(session, operations, queue, task),
    );
}

/// Finds room for a task on a node where others can give it; whether there is any.
fn reclaim_for(
    session: &mut Session<'_>,
    operations: &mut Operations,
    queue: QueueId,
    task: TaskId,
) -> bool {
    if session.tx.snapshot.tasks[task].never_preempts
        || !session.tx.tiers().is_preemptive(queue, task)
    {
        return false;
    }
    let nodes = starving::reachable(session, task);
    if victims::fits_without_victims(session, operations, EvictionKind::Reclaim, task, &nodes) {
        return true;
    }
    if session.tx.compat.has(Difference::LeastLostWork) {
        return reclaim_cheaply(session, operations, queue, task, nodes);
    }
    let mut nodes = nodes.into_iter();
    nodes.any(|node| reclaim_on(session, operations, queue, task, node))
}

/// Frees that one of some nodes on which the least work is lost.
fn reclaim_cheaply(
    session: &mut Session<'_>,
    operations: &mut Operations,
    queue: QueueId,
    task: TaskId,
    nodes: Vec<NodeId>,
) -> bool {
    let mut found: Vec<(f64, NodeId)> = Vec::new();
    for node in nodes {
        let mut tried = Operations::default();
        if reclaim_on(session, &mut tried, queue, task, node) {
            found.push((victims::loss(&session.tx.snapshot, tried.evicted()), node));
            session.tx.discard(tried);
        }
        // Each trial evicts and undoes, which is expensive. So the search ends after a few nodes.
        if found.len() == COMPARED {
            break;
        }
    }
    let best = found
        .into_iter()
        .min_by(|(one, _), (other, _)| one.total_cmp(other));
    best.is_some_and(|(_, node)| reclaim_on(session, operations, queue, task, node))
}

/// Frees a node for a task at the cost of other queues, if they can give so much there.
fn reclaim_on(
    session: &mut Session<'_>,
    operations: &mut Operations,
    queue: QueueId,
    task: TaskId,
    node: NodeId,
) -> bool {
    let candidates = session.tx.snapshot.nodes[node.index()]
        .tasks
        .iter()
        .copied();
    let candidates = candidates.filter(|candidate| {
        starving::is_candidate(
            &session.tx.snapshot,
            EvictionKind::Reclaim,
            queue,
            *candidate,
        )
    });
    let candidates = starving::by_key(&session.tx.snapshot, candidates.collect());
    !candidates.is_empty()
        && victims::free_node(
            session,
            operations,
            EvictionKind::Reclaim,
            (task, node),
            &candidates,
        )
}
