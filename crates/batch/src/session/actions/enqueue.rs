//! Action enqueue: moves pending jobs to `Inqueue`, one job of each queue in turn (S6-104).

use crate::session::Session;
use crate::session::actions::admission;
use crate::session::close;
use crate::session::gang;
use crate::session::priority_queue::PriorityQueue;
use crate::session::reservation;
use crate::session::snapshot::ids::JobId;
use crate::session::snapshot::resource::Resource;
use crate::session::transaction::Transaction;
use evictd_batch_objects::{Difference, PodGroupPhase};
use evictd_reconcile::Tone;

pub(crate) fn enqueue(session: &mut Session<'_>) {
    let mut queues = PriorityQueue::default();
    let mut jobs = vec![PriorityQueue::default(); session.tx.snapshot.queues.len()];
    let mut seen = vec![false; session.tx.snapshot.queues.len()];
    for (index, job) in session.tx.snapshot.live_jobs() {
        if !std::mem::replace(&mut seen[job.queue], true) {
            queues.push(job.queue, |one, other| {
                session.tx.tiers().enqueues_before(one, other)
            });
        }
        if job.is_pending() {
            jobs[job.queue].push(index, |one, other| {
                session.tx.tiers().job_before(one, other)
            });
        }
    }
    let mut free = None;
    while let Some(queue) = queues.pop(|one, other| session.tx.tiers().enqueues_before(one, other))
    {
        let job = jobs[queue].pop(|one, other| session.tx.tiers().job_before(one, other));
        let Some(job) = job else { continue };
        let need = session.tx.snapshot.jobs[job].min_resources.clone();
        if let Some(refused) = session.tx.snapshot.jobs[job].refused {
            let words = format!("spec.minResources: {refused}");
            // The amounts cannot be compared, so the job stays pending and says why.
            session.tx.snapshot.jobs[job].not_enqueued_because = Some(words);
        } else if let Some(words) = session.tx.tiers().topology_objection(job) {
            session.tx.snapshot.jobs[job].not_enqueued_because = Some(words);
        } else if let Some(words) = queue_objection(session, job) {
            session.tx.snapshot.jobs[job].not_enqueued_because = Some(words);
        } else if reservation::may_create_pods(session, job) {
            session.tx.snapshot.jobs[job].without_promise = true;
            session.tx.snapshot.jobs[job].phase = PodGroupPhase::Inqueue;
        } else if need.is_none_or(|need| is_enqueueable(session, job, &need))
            && admission::is_placeable(session, job, &mut free)
        {
            enqueued(&mut session.tx, job);
            promise(session, job);
            session.tx.snapshot.jobs[job].without_promise = false;
            session.tx.snapshot.jobs[job].phase = PodGroupPhase::Inqueue;
            if session.tx.compat.has(Difference::EnqueueWhatFits) {
                close::withdraw_unschedulable(&mut session.tx.snapshot, job);
            }
        }
        if session.tx.snapshot.jobs[job].is_pending() && session.is_fifo(queue) {
            continue;
        }
        // One job of each queue has its turn, so that a long queue does not promise the whole cluster to itself.
        queues.push(queue, |one, other| {
            session.tx.tiers().enqueues_before(one, other)
        });
    }
}

/// Why the queue of a job without minResources takes no job. Volcano asks no plugin about such a job.
fn queue_objection(session: &Session<'_>, job: JobId) -> Option<String> {
    let job = &session.tx.snapshot.jobs[job];
    let asks = session.tx.compat.has(Difference::EnqueueWhatFits) && job.min_resources.is_none();
    let plugins = &session.tx.plugins;
    asks.then(|| plugins.queue_objection(&session.tx.snapshot, job.queue))?
}

/// Adds the smallest gang of an enqueued job without minResources to its queue's inqueue amounts.
fn promise(session: &mut Session<'_>, job_id: JobId) {
    let job = &session.tx.snapshot.jobs[job_id];
    if !session.tx.compat.has(Difference::EnqueueWhatFits) || job.min_resources.is_some() {
        return;
    }
    let queue = job.queue;
    let Some(need) = gang::smallest_gang(session, job_id).need() else {
        return;
    };
    // Volcano promises nothing to a job without minResources, so that too many such jobs are enqueued.
    for shares in session.tx.plugins.each_shares_mut() {
        shares.add_inqueue(queue, &need);
    }
}

/// Whether a job with a request may be enqueued; an objection becomes an event.
fn is_enqueueable(session: &mut Session<'_>, job: JobId, request: &Resource) -> bool {
    let objection = reservation::objection(session, job, request);
    let Some((_, words)) = objection else {
        return true;
    };
    if session.tx.compat.has(Difference::ConditionSaysWhy) {
        let queue = session.tx.snapshot.jobs[job].queue;
        let reason = if words.is_empty() {
            let name = &session.tx.snapshot.queues[queue].name;
            format!("queue {name} is not open")
        } else {
            words.clone()
        };
        session.tx.snapshot.jobs[job].not_enqueued_because = Some(reason);
    }
    if !words.is_empty() {
        session
            .tx
            .group_event(job, Tone::Normal, "Unschedulable", words);
    }
    false
}

/// Sets aside the request of a job that was enqueued.
fn enqueued(tx: &mut Transaction<'_>, job: JobId) {
    tx.plugins.job_let_in(&tx.snapshot, job);
    let job = &tx.snapshot.jobs[job];
    let Some(need) = &job.min_resources else {
        return;
    };
    let request = job.without_gated(need);
    tx.plugins.job_enqueued(job.queue, &request);
}
