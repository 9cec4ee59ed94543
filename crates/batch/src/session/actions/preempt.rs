//! Action preempt: evicts pods of jobs and tasks that come later in the same queue (S6-112 to S6-116).

use super::starving::Refused;
use crate::session::Session;
use crate::session::actions::domain_placement;
use crate::session::actions::starving;
use crate::session::actions::task_placement;
use crate::session::actions::victims;
use crate::session::domain_search;
use crate::session::eviction_kind::EvictionKind;
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::transaction::Operations;
use evictd_batch_objects::Difference;

pub(crate) fn preempt(session: &mut Session<'_>) {
    // In Volcano jobs with a network topology do not preempt. Jobs with parts leave it to the actions for gangs.
    let compat = session.tx.compat;
    let tiers = session.tx.tiers();
    let mut starving = starving::starving(tiers, |job| tiers.snapshot.evicts_by_task(job, compat));
    let mut queues = PriorityQueue::default();
    for queue in session.tx.snapshot.queue_ids() {
        if !starving.by_queue[queue].is_empty() {
            queues.push(queue, |one, other| {
                session.tx.tiers().queue_before(one, other)
            });
        }
    }
    let mut refused = Refused::default();
    while let Some(queue) = queues.pop(|one, other| session.tx.tiers().queue_before(one, other)) {
        let waiting = &mut starving.by_queue[queue];
        while let Some(job) = waiting.pop(|one, other| session.tx.tiers().job_before(one, other)) {
            preempt_between(session, job, &mut starving.tasks[job], &mut refused);
            if session.is_fifo(queue) && session.tx.tiers().is_starving(job) {
                break;
            }
        }
        for job in &starving.jobs {
            if session.tx.snapshot.jobs[*job].queue == queue {
                preempt_within(session, *job, &mut refused);
            }
        }
    }
}

/// Lets tasks of a job take room from other jobs, if it has enough then.
fn preempt_between(
    session: &mut Session<'_>,
    job: JobId,
    tasks: &mut PriorityQueue<TaskId>,
    refused: &mut Refused,
) {
    domain_placement::free_for_job(
        session,
        EvictionKind::Preempt,
        (job, tasks),
        |session, operations, task| preempt_for(session, operations, task, false, refused),
    );
}

/// Preempts tasks for others of the same job, until one attempt fails.
fn preempt_within(session: &mut Session<'_>, job: JobId, refused: &mut Refused) {
    let Some(target) = domain_placement::settled(session, job) else {
        return;
    };
    domain_search::within(session, (job, target.within), |session| {
        let mut tasks = starving::preemptors(session.tx.tiers(), job);
        while let Some(task) = tasks.pop(|one, other| session.tx.tiers().task_before(one, other)) {
            let mut operations = Operations::default();
            if !preempt_for(session, &mut operations, task, true, refused)
                || domain_placement::is_left_to_allocate(session, &operations)
            {
                session.tx.discard(operations);
                // The tasks of a job are alike enough that the later ones would fail, too.
                break;
            }
            session.tx.commit(operations);
        }
    });
}

/// Whether a task may take room from others: not if it never does, and not while a node is being freed for it.
fn may_preempt(session: &mut Session<'_>, task_id: TaskId) -> bool {
    let task = &session.tx.snapshot.tasks[task_id];
    // A nomination means that victims are terminating already. Further ones would die for nothing.
    if task.never_preempts || task.nominated.is_empty() {
        return !task.never_preempts;
    }
    let anew = session.tx.compat.has(Difference::RecheckPlacement);
    let Some(id) = session.tx.cluster.find_node(&task.nominated) else {
        return anew;
    };
    let (evaluator, view) = session.evaluation();
    match evaluator.refusal(view, task_id, id) {
        // Filters ignore the idle amounts of a node.
        None => {
            let request = &session.tx.snapshot.tasks[task_id].request;
            anew && !session.tx.snapshot.nodes[id.index()].will_have(request)
        }
        Some(refusal) if refusal.unresolvable => true,
        Some(_) => {
            let priority = session.tx.snapshot.tasks[task_id]
                .pod
                .as_ref()
                .map_or(0, |pod| pod.priority);
            let mut pods = session.tx.cluster.node(id).pods.iter();
            // As in kube-scheduler: the task waits while victims of a preemption are still terminating there.
            !pods.any(|pod| pod.priority < priority && pod.terminating && pod.preempted)
        }
    }
}

/// Finds room for a task on the best node where it can be had; `within` its own job or from others of its queue.
fn preempt_for(
    session: &mut Session<'_>,
    operations: &mut Operations,
    task_id: TaskId,
    within: bool,
    refused: &mut Refused,
) -> bool {
    let may_preempt = may_preempt(session, task_id);
    // While a node is being freed for a task, no other pod is evicted for it, but its gang may count it. After a
    // crash only some of the victims may be terminating, and room for a part of the gang is room for others.
    let may_wait = session.tx.compat.has(Difference::FewestVictims)
        && !session.tx.snapshot.tasks[task_id].never_preempts;
    if !may_preempt && !may_wait {
        return false;
    }
    let mut nodes = starving::reachable(session, task_id);
    if task_placement::caches_refusals(session, crate::conf::Action::Preempt) {
        starving::without_refused(&session.tx.snapshot, task_id, &mut nodes, refused);
    }
    if !within
        && victims::fits_without_victims(
            session,
            operations,
            EvictionKind::Preempt,
            task_id,
            &nodes,
        )
    {
        return true;
    }
    if !may_preempt {
        return false;
    }
    // The first node that can be freed is taken: looking at all of them costs more than a better choice is worth.
    for node in starving::by_score(session, task_id, nodes) {
        let task = &session.tx.snapshot.tasks[task_id];
        let queue = session.tx.snapshot.jobs[task.job].queue;
        let candidates = session.tx.snapshot.nodes[node.index()]
            .tasks
            .iter()
            .copied();
        let candidates = candidates.filter(|candidate| {
            let other = &session.tx.snapshot.tasks[*candidate];
            starving::is_candidate(
                &session.tx.snapshot,
                EvictionKind::Preempt,
                queue,
                *candidate,
                // A task that asks for nothing gains nothing from the room of one that asks for something.
            ) && (other.best_effort || !task.best_effort)
                && within == (other.job == task.job)
        });
        let candidates = starving::by_key(&session.tx.snapshot, candidates.collect());
        if victims::free_node(
            session,
            operations,
            EvictionKind::Preempt,
            (task_id, node),
            &candidates,
        ) {
            return true;
        }
    }
    false
}
