//! Nodes reserved for a job that has waited long, so that it does not starve behind smaller ones (volcano#748, #947).
//!
//! One job at a time has a turn ([`Turns`](crate::session::turns::Turns)). A turn needs pending pods: a PodGroup alone proves no
//! demand. Nodes are reserved against jobs that come after it. A turn ends when the job starts, when it no longer
//! waits, and after a second bound. Then the job waits as long as before until its next turn, and other queues and
//! namespaces come first. The pause between two turns is as long as the turn was, because reserved nodes stand idle:
//! half of the time belongs to small jobs. A queue, and a namespace in it, wait longer if they had more nodes reserved
//! than their part ([`Parts`]). The condition `Reserved` is only written, never read.

mod nodes;
mod parts;

use crate::conf::{Action, PluginName};
use crate::session::Session;
use crate::session::close;
use crate::session::eviction_kind::EvictionKind;
use crate::session::gang;
use crate::session::gang::{Gang, need_of};
use crate::session::plugins::Tiers;
use crate::session::plugins::{QueueShare, Reserved};
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::Resource;
use crate::session::snapshot::task::Status;
use crate::session::transaction::Transaction;
use crate::session::turns::Candidate;
use evictd_batch_objects::{Difference, PodGroupCondition, PodGroupConditionType, PodGroupPhase};
use jiff::{SignedDuration, Timestamp};
use nodes::soonest;
use parts::Parts;

/// So many nodes are named.
const NAMED: usize = 5;

/// The reservation of a job.
#[derive(Debug)]
pub(crate) struct Reservation {
    job: JobId,
    /// The request of its smallest gang.
    need: Resource,
    /// By node.
    pub(crate) nodes: Vec<bool>,
    /// The amounts that jobs of its queue hold on those nodes; they return to the queue's share.
    returns: Resource,
    /// The latest end.
    pub(crate) until: Timestamp,
}

/// How long a job waits before nodes are reserved for it, and for how long they are.
#[derive(Clone, Copy)]
struct Bounds {
    after: SignedDuration,
    hold: SignedDuration,
}

/// Chooses the job with a reservation in this session, and its nodes.
pub(crate) fn reserve(session: &mut Session<'_>) {
    let (Some(now), Some(bounds)) = (session.tx.snapshot.now, bounds(session)) else {
        return;
    };
    session.tx.snapshot.turns.not_after(now);
    let holder = holder(&session.tx.snapshot);
    if holder.is_none() {
        session.tx.snapshot.turns.end(now);
    }
    let mut chosen = None;
    if let Some((job, since)) = holder {
        // A job that cannot start in all that time would keep the nodes idle for ever.
        let over = now.duration_since(since) >= bounds.hold;
        match nodes_for(session, job).filter(|_| !over) {
            Some(nodes) => chosen = Some((job, since, nodes)),
            None => end_reservation(&mut session.tx, job, over, now),
        }
    }
    if chosen.is_none()
        && session
            .tx
            .snapshot
            .turns
            .next_after()
            .is_none_or(|at| at <= now)
    {
        chosen = first_starving(session, now, bounds.after);
    }
    withdraw_others(
        &mut session.tx.snapshot,
        chosen.as_ref().map(|(job, ..)| *job),
        now,
    );
    if let Some((job, since, nodes)) = chosen {
        let until = since.checked_add(bounds.hold).unwrap_or(Timestamp::MAX);
        keep(session, job, since, until, nodes);
    }
}

fn candidate(snapshot: &Snapshot, job: JobId) -> Candidate<'_> {
    let job = &snapshot.jobs[job];
    Candidate {
        job: &job.key,
        created: job.created,
        queue: &snapshot.queues[job.queue].name,
    }
}

/// The job with the current turn, and its begin.
fn holder(snapshot: &Snapshot) -> Option<(JobId, Timestamp)> {
    let name = snapshot.turns.job()?;
    let mut live = snapshot.live.iter().copied();
    let job = live.find(|job| *snapshot.jobs[*job].key == *name)?;
    Some((job, snapshot.turns.since(candidate(snapshot, job))?))
}

/// Clears the condition of groups without a turn: an earlier scheduler or a tenant wrote it.
fn withdraw_others(snapshot: &mut Snapshot, chosen: Option<JobId>, now: Timestamp) {
    let claims = |job: &JobId| {
        let mut conditions = snapshot.jobs[*job].conditions.iter();
        // The condition is writable for tenants. Only the turns decide.
        let claims = conditions.any(|condition| condition.holds(PodGroupConditionType::Reserved));
        claims && Some(*job) != chosen
    };
    let others: Vec<JobId> = snapshot.live.iter().copied().filter(claims).collect();
    for job in others {
        set_reserved_condition(
            snapshot,
            job,
            false,
            "Done",
            "no nodes are kept for it".to_owned(),
            now,
        );
    }
}

fn bounds(session: &Session<'_>) -> Option<Bounds> {
    let arguments = session.conf.arguments_of(Action::Allocate);
    let seconds = |name: &str, default: f64| {
        let seconds = arguments.map_or(default, |arguments| arguments.number(name, default));
        SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX)
    };
    let bounds = Bounds {
        after: seconds("reservation.afterSeconds", 600.0),
        hold: seconds("reservation.forSeconds", 14_400.0),
    };
    let acts = session.tx.compat.has(Difference::ReserveNodes)
        && session.conf.actions.contains(&Action::Allocate);
    (acts && bounds.hold.is_positive()).then_some(bounds)
}

/// The first job that has waited too long and that nodes can be reserved for, with those nodes.
fn first_starving(
    session: &mut Session<'_>,
    now: Timestamp,
    after: SignedDuration,
) -> Option<(JobId, Timestamp, Vec<bool>)> {
    let jobs = session.tx.snapshot.live.iter().copied();
    let jobs = jobs.filter(|job| has_starved(&session.tx.snapshot, *job, now, after));
    let mut jobs: Vec<JobId> = jobs.collect();
    jobs.retain(|job| waits(session.tx.tiers(), *job));
    if jobs.is_empty() {
        return None;
    }
    let parts = Parts::of(&session.tx.snapshot, |queue| {
        session.tx.tiers().deserved_part(queue)
    });
    jobs.retain(|job| {
        let queue = session.tx.snapshot.jobs[*job].queue;
        let shares = [parts.of_queue(queue), parts.of_namespace(queue)];
        let paid = session
            .tx
            .snapshot
            .turns
            .paid_at(candidate(&session.tx.snapshot, *job), shares);
        paid.is_none_or(|at| at <= now)
    });
    jobs.sort_by(|one, other| {
        let rank = |job: JobId| {
            session
                .tx
                .snapshot
                .turns
                .rank(candidate(&session.tx.snapshot, job))
        };
        let before = |one, other| session.tx.tiers().job_before(one, other);
        let by_turns = rank(*one).cmp(&rank(*other));
        by_turns.then_with(|| before(*other, *one).cmp(&before(*one, *other)))
    });
    let mut jobs = jobs.into_iter();
    // As times are written.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let (job, nodes) = jobs.find_map(|job| Some((job, nodes_for(session, job)?)))?;
    // The candidate borrows the snapshot.
    let mut turns = std::mem::take(&mut session.tx.snapshot.turns);
    turns.begin(candidate(&session.tx.snapshot, job), now);
    session.tx.snapshot.turns = turns;
    Some((job, now, nodes))
}

/// Whether a job has waited for so long since it came, or since its last turn.
fn has_starved(snapshot: &Snapshot, job: JobId, now: Timestamp, after: SignedDuration) -> bool {
    let created = snapshot.jobs[job].created;
    let since = created.max(snapshot.turns.ended(candidate(snapshot, job)));
    since.is_some_and(|since| now.duration_since(since) >= after)
}

/// Whether a job without pods has waited long enough for a reservation. It is enqueued although it does not fit,
/// because its pods are created then, and only pods prove demand.
pub(crate) fn may_create_pods(session: &Session<'_>, job_id: JobId) -> bool {
    let (Some(now), Some(bounds)) = (session.tx.snapshot.now, bounds(session)) else {
        return false;
    };
    let job = &session.tx.snapshot.jobs[job_id];
    job.tasks.is_empty()
        && has_starved(&session.tx.snapshot, job_id, now, bounds.after)
        && queue_may_have(&session.tx, job.queue, &job.min_resources())
}

/// Whether a job waits for room, and nothing else.
fn waits(tiers: Tiers<'_>, job_id: JobId) -> bool {
    let job = &tiers.snapshot.jobs[job_id];
    let starts = job.count(Status::Running) + job.count(Status::Bound) > 0;
    let waiting = job.is_pending()
        || job.phase == PodGroupPhase::Inqueue
        || job.phase == PodGroupPhase::Unknown;
    waiting && !starts && !job.is_ready() && tiers.invalid(job_id).is_none()
}

/// The nodes to reserve for a job. `None` if it does not wait with all pods that it needs, if its queue may not
/// have so much, or if an empty cluster is too small. No node is reserved while its queue is over its share by pods
/// elsewhere. Then the job waits for those pods, and reserved nodes would stand idle.
fn nodes_for(session: &mut Session<'_>, job: JobId) -> Option<Vec<bool>> {
    if !waits(session.tx.tiers(), job) {
        // A job that can start without a reservation needs none.
        return None;
    }
    let Gang::Parts(parts) = gang::smallest_gang(session, job) else {
        return None;
    };
    let need = need_of(&parts);
    let queue = session.tx.snapshot.jobs[job].queue;
    if !queue_may_have(&session.tx, queue, &need) {
        return None;
    }
    let nodes = soonest(session, job, &parts)?;
    // Where there is room for it already, it is the share alone that it lacks.
    let returns = if has_idle(&session.tx.snapshot, &nodes, &need) {
        Resource::default()
    } else {
        held_on(&session.tx.snapshot, &nodes, queue)
    };
    let may_start = within_share(&session.tx, queue, &need, |share| {
        let mut sum = share.with(&need);
        sum.sub(&returns);
        sum
    });
    Some(nodes.into_iter().map(|node| node && may_start).collect())
}

/// Whether some nodes together have so much free now.
fn has_idle(snapshot: &Snapshot, nodes: &[bool], need: &Resource) -> bool {
    let mut idle = Resource::default();
    let some = snapshot.nodes.iter().zip(nodes);
    for (node, _) in some.filter(|(_, kept)| **kept) {
        idle.add(&node.future_idle());
    }
    need.within_for(&idle, need)
}

/// The amounts that jobs of a queue hold on some nodes.
fn held_on(snapshot: &Snapshot, nodes: &[bool], queue: QueueId) -> Resource {
    let mut held = Resource::default();
    let some = snapshot.nodes.iter().zip(nodes);
    let tasks = some
        .filter(|(_, kept)| **kept)
        .flat_map(|(node, _)| &node.tasks);
    for task in tasks {
        let task = &snapshot.tasks[*task];
        if task.status.is_allocated() && snapshot.jobs[task.job].queue == queue {
            held.add(&task.request);
        }
    }
    held
}

/// Whether a queue may ever hold so much.
fn queue_may_have(tx: &Transaction<'_>, queue: QueueId, need: &Resource) -> bool {
    let open = tx.snapshot.queues[queue].open;
    open && within_share(tx, queue, need, |_| need.clone())
}

/// Whether an amount is within a queue's limits, in the requested resources.
fn within_share(
    tx: &Transaction<'_>,
    queue: QueueId,
    asked: &Resource,
    amount: impl Fn(&QueueShare) -> Resource,
) -> bool {
    tx.plugins
        .all()
        .all(|plugin| plugin.within_limits(queue, &amount, asked))
}

/// The reservation that a job has to respect.
fn respected<'s>(session: &'s Session<'_>, job: JobId) -> Option<&'s Reservation> {
    let excluded = session.tx.snapshot.jobs[job].excluded;
    session.reservation.as_ref().filter(|_| excluded)
}

/// The reservation that a job has to respect in enqueue: only one for a job that is not enqueued either.
fn respected_at_entry<'s>(session: &'s Session<'_>, job: JobId) -> Option<&'s Reservation> {
    let kept = respected(session, job);
    kept.filter(|kept| session.tx.snapshot.jobs[kept.job].is_pending())
}

/// The amount of its queue's share that a job of the same queue leaves free. Amounts that the reserved nodes will
/// return are not part of it.
fn reserved_share(snapshot: &Snapshot, kept: &Reservation, job: JobId) -> Option<Resource> {
    let same = snapshot.jobs[kept.job].queue == snapshot.jobs[job].queue;
    same.then(|| kept.need.beyond(&kept.returns))
}

/// The amounts that a job leaves free when it is enqueued. A placement check beside the reserved nodes replaces that of
/// the cluster.
fn reserved_amounts(session: &Session<'_>, job: JobId) -> Reserved {
    let Some(kept) = respected_at_entry(session, job) else {
        return Reserved::default();
    };
    Reserved {
        of_cluster: (!session.checks_placement()).then(|| kept.need.clone()),
        of_share: reserved_share(&session.tx.snapshot, kept, job),
        returned: None,
    }
}

/// The plugin that objects to enqueueing a job beside the reservation, and its words.
pub(crate) fn objection(
    session: &Session<'_>,
    job: JobId,
    request: &Resource,
) -> Option<(PluginName, String)> {
    let mut reserved = reserved_amounts(session, job);
    let objection = session.tx.tiers().objection(job, request, &reserved)?;
    let kinds = preempting(session, job);
    if kinds.is_empty() {
        return Some(objection);
    }
    // Whether the evictions really make room is checked by the placement on nodes.
    reserved.returned = Some(session.tx.tiers().yields_to(job, &kinds));
    session.tx.tiers().objection(job, request, &reserved)
}

/// The actions by which others of its queue may be evicted for a job, so that it may be enqueued.
fn preempting(session: &Session<'_>, job: JobId) -> Vec<EvictionKind> {
    let mut tasks = session.tx.snapshot.tasks_of(job, Status::Pending);
    if !session.tx.compat.has(Difference::EnqueuePreemptors)
        || !session.checks_placement()
        || tasks.any(|task| session.tx.snapshot.tasks[task].never_preempts)
    {
        return Vec::new();
    }
    let actions = &session.conf.actions;
    let by_task = session.tx.snapshot.evicts_by_task(job, session.tx.compat);
    let kinds = [
        (Action::Preempt, EvictionKind::Preempt, by_task),
        (Action::GangPreempt, EvictionKind::GangPreempt, true),
    ];
    let kinds = kinds
        .into_iter()
        .filter(|(action, _, may)| *may && actions.contains(action));
    kinds.map(|(_, kind, _)| kind).collect()
}

/// Whether a queue may use one task more beside the reservation.
pub(crate) fn is_allocatable(session: &Session<'_>, queue: QueueId, task: TaskId) -> bool {
    leaves_share(session, task) && session.tx.tiers().is_allocatable(queue, task)
}

/// Whether a task leaves its queue the share that the reservation needs.
fn leaves_share(session: &Session<'_>, task: TaskId) -> bool {
    let task = &session.tx.snapshot.tasks[task];
    let Some(kept) = respected(session, task.job) else {
        return true;
    };
    let Some(need) = reserved_share(&session.tx.snapshot, kept, task.job) else {
        return true;
    };
    let queue = session.tx.snapshot.jobs[task.job].queue;
    within_share(&session.tx, queue, &task.request, |share| {
        let mut sum = share.with(&task.request);
        sum.add(&need);
        sum
    })
}

/// Reserves nodes for a job against all jobs after it.
fn keep(
    session: &mut Session<'_>,
    job: JobId,
    since: Timestamp,
    until: Timestamp,
    nodes: Vec<bool>,
) {
    let Some(need) = gang::smallest_gang(session, job).need() else {
        return;
    };
    let priority =
        |job: JobId| session.tx.snapshot.queues[session.tx.snapshot.jobs[job].queue].priority;
    let after = |other: &JobId| {
        *other != job
            && priority(*other) <= priority(job)
            && !session.tx.tiers().job_before(*other, job)
    };
    let live = session.tx.snapshot.live.iter().copied();
    let excluded: Vec<JobId> = live.filter(after).collect();
    for other in excluded {
        session.tx.snapshot.jobs[other].excluded = true;
    }
    let by_rank = session.tx.snapshot.by_rank.iter();
    let kept: Vec<&str> = by_rank
        .filter(|node| nodes[node.index()])
        .map(|node| session.tx.cluster.node_name(*node))
        .collect();
    session.tx.snapshot.turns.keeps(kept.len(), nodes.len());
    let named: Vec<&str> = kept.iter().copied().take(NAMED).collect();
    let more = match kept.len() - named.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let message = if named.is_empty() {
        format!("its part of what its queue may have is kept for it until {until} at the latest")
    } else {
        let named = named.join(", ");
        format!("nodes are kept for it until {until} at the latest: {named}{more}")
    };
    set_reserved_condition(
        &mut session.tx.snapshot,
        job,
        true,
        "WaitedLong",
        message,
        since,
    );
    session.reservation = Some(Reservation {
        job,
        need,
        returns: held_on(
            &session.tx.snapshot,
            &nodes,
            session.tx.snapshot.jobs[job].queue,
        ),
        nodes,
        until,
    });
}

/// Ends the reservation of a job that can start.
pub(crate) fn starts(session: &mut Session<'_>, job: JobId) {
    let kept = session
        .reservation
        .take_if(|reservation| reservation.job == job);
    let (Some(_), Some(now)) = (kept, session.tx.snapshot.now) else {
        return;
    };
    for job in &mut session.tx.snapshot.jobs {
        // The nodes are open again for the rest of this session.
        job.excluded = false;
    }
    end_reservation(&mut session.tx, job, false, now);
}

fn end_reservation(tx: &mut Transaction<'_>, job: JobId, over: bool, now: Timestamp) {
    tx.snapshot.turns.end(now);
    let (reason, message) = if over {
        (
            "HeldLong",
            "it could not start while nodes were kept for it",
        )
    } else if waits(tx.tiers(), job) {
        (
            "Withdrawn",
            "its queue may not have so much, or it fits nowhere",
        )
    } else {
        ("Done", "it does not wait any more")
    };
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    set_reserved_condition(
        &mut tx.snapshot,
        job,
        false,
        reason,
        message.to_owned(),
        now,
    );
}

fn set_reserved_condition(
    snapshot: &mut Snapshot,
    job: JobId,
    holds: bool,
    reason: &str,
    message: String,
    since: Timestamp,
) {
    let condition = PodGroupCondition {
        last_transition_time: Some(since),
        ..PodGroupCondition::new(PodGroupConditionType::Reserved, holds, reason, message)
    };
    close::replace_condition(snapshot, job, condition);
}
