//! Whether a pending job could be placed, which enqueue requires (volcano#3910, kueue#11287).

use crate::conf::Action;
use crate::session::Session;
use crate::session::actions::starving;
use crate::session::domain_search;
use crate::session::eviction_kind::EvictionKind;
use crate::session::free_capacity::{FreeCapacity, GangQuery, VictimPool};
use crate::session::gang;
use crate::session::gang::Gang;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{DomainId, JobId};
use crate::session::snapshot::resource::{Dim, Resource};
use crate::session::snapshot::task::Status;
use crate::session::transaction::Transaction;
use hashbrown::HashMap;

/// Whether the smallest gang of a job fits on the nodes now, or after evictions that its queue may ask for. The
/// reason is recorded if it does not fit. If it fits, its room counts as taken from now on.
pub(super) fn is_placeable(
    session: &mut Session<'_>,
    job_id: JobId,
    free: &mut Option<FreeCapacity>,
) -> bool {
    let job = &session.tx.snapshot.jobs[job_id];
    let runs = job.count(Status::Running) + job.count(Status::Bound) > 0;
    // A job that runs in part was enqueued before. Keeping it out now would only strand its pods.
    if !session.checks_placement() || runs {
        return true;
    }
    // It is computed once for each session, because it visits every enqueued job.
    let mut capacity = match free.take() {
        Some(free) => free,
        None => free_capacity(session),
    };
    let gang = gang::smallest_gang(session, job_id);
    let tries = domain_search::tries(session, job_id);
    let mut placed = first_room(session, &mut capacity, (job_id, &gang), &tries, None);
    if placed.is_err() {
        for pool in victim_pools(session, job_id, &gang) {
            if !capacity.knows(pool) {
                capacity.learn(pool, held_by(&session.tx, pool, job_id));
            }
            placed =
                first_room(session, &mut capacity, (job_id, &gang), &tries, Some(pool)).or(placed);
        }
    }
    if let Err(at) = placed {
        let words = not_enqueued_message(session, &gang, at);
        let words = with_refusals(session, &gang, at, words);
        let words = with_domains(session, &mut capacity, (job_id, &gang), &tries, words);
        session.tx.snapshot.jobs[job_id].not_enqueued_because = Some(words);
    }
    *free = Some(capacity);
    placed.is_ok()
}

/// Places a gang in the first of these domains in which all of it fits. As an error the place of the part that does not fit
/// into the last one.
fn first_room(
    session: &mut Session<'_>,
    free: &mut FreeCapacity,
    (job, gang): (JobId, &Gang),
    tries: &[Option<DomainId>],
    pool: Option<VictimPool>,
) -> Result<(), usize> {
    let mut placed = match gang {
        Gang::Nothing | Gang::Unknown => Ok(()),
        _ => Err(0),
    };
    for within in tries {
        let (evaluator, view) = session.evaluation();
        let gang_query = GangQuery {
            job,
            gang,
            within: *within,
        };
        placed = free.place(evaluator, view, gang_query, pool);
        if placed.is_ok() {
            break;
        }
    }
    placed
}

/// Why a job is not enqueued, with the best topology domain if its pods belong in one.
fn with_domains(
    session: &mut Session<'_>,
    free: &mut FreeCapacity,
    (job, gang): (JobId, &Gang),
    tries: &[Option<DomainId>],
    words: String,
) -> String {
    if tries.is_empty() {
        return domain_search::no_domain_message(&session.tx.snapshot, job);
    }
    let mut best: Option<(DomainId, usize)> = None;
    for within in tries.iter().flatten() {
        let gang_query = GangQuery {
            job,
            gang,
            within: Some(*within),
        };
        let (evaluator, view) = session.evaluation();
        let count = free.count(evaluator, view, gang_query);
        if best.is_none_or(|(_, most)| count > most) {
            best = Some((*within, count));
        }
    }
    let Some((within, fit)) = best else {
        return words;
    };
    // Of a sum of amounts no pods can be counted.
    let counts = match gang {
        Gang::Parts(parts) => Some((fit, parts.iter().map(|part| part.count).sum())),
        Gang::Nothing | Gang::Unknown | Gang::Sum(..) => None,
    };
    format!(
        "{words}. {}",
        domain_search::domain_message(session, job, within, counts)
    )
}

/// The free capacity beside the jobs that were enqueued before.
fn free_capacity(session: &mut Session<'_>) -> FreeCapacity {
    let mut free = FreeCapacity::new(session.evaluation().1);
    for job in session.tx.snapshot.live.clone() {
        if !awaits_placement(&session.tx.snapshot, job) {
            continue;
        }
        let gang = gang::smallest_gang(session, job);
        let tries = domain_search::tries(session, job);
        // One that does not fit holds nothing, as when room is given out.
        let _ = first_room(session, &mut free, (job, &gang), &tries, None);
    }
    free
}

/// Whether a job is enqueued and not placed yet.
fn awaits_placement(snapshot: &Snapshot, job_id: JobId) -> bool {
    let job = &snapshot.jobs[job_id];
    !job.is_pending() && !job.is_ready() && !snapshot.has_failed(job_id)
}

/// The victim pools that a job's queue may draw from.
fn victim_pools(session: &Session<'_>, job_id: JobId, gang: &Gang) -> Vec<VictimPool> {
    let job = &session.tx.snapshot.jobs[job_id];
    if let Gang::Parts(parts) = gang {
        let mut tasks = parts.iter().filter_map(|part| part.task);
        // Without eviction one of its pods would never start, and the gang needs all of them.
        if tasks.any(|task| session.tx.snapshot.tasks[task].never_preempts) {
            return Vec::new();
        }
    }
    let Some(need) = gang.need() else {
        return Vec::new();
    };
    let mut all = Vec::new();
    if session.conf.actions.contains(&Action::Preempt)
        && session
            .tx
            .snapshot
            .evicts_by_task(job_id, session.tx.compat)
    {
        all.push((EvictionKind::Preempt, job.queue, job.priority));
    }
    if session.conf.actions.contains(&Action::GangPreempt) {
        all.push((EvictionKind::GangPreempt, job.queue, job.priority));
    }
    let shared = session.tx.tiers().has_shares();
    let takes = [
        (Action::Reclaim, EvictionKind::Reclaim),
        (Action::GangReclaim, EvictionKind::GangReclaim),
    ];
    let actions = &session.conf.actions;
    let kind = takes.iter().find(|(action, _)| actions.contains(action));
    if let Some((_, kind)) = kind
        && (!shared || session.tx.tiers().may_reclaim(job_id, &need))
    {
        // Reclaim ignores priorities, so that one pool serves all jobs of the queue.
        all.push((*kind, job.queue, 0));
    }
    all
}

/// The requests of possible victims by node. This may be more than the plugins permit in the end, because their
/// answer depends on earlier evictions.
fn held_by(tx: &Transaction<'_>, (kind, queue, _): VictimPool, job: JobId) -> Vec<Resource> {
    let mut held = vec![Resource::default(); tx.snapshot.nodes.len()];
    // By job, since it is the same for all of its tasks.
    let mut gives: HashMap<JobId, bool> = HashMap::new();
    for (node, on_node) in tx.snapshot.nodes.iter().enumerate() {
        for task in &on_node.tasks {
            let is_candidate = starving::is_candidate(&tx.snapshot, kind, queue, *task);
            let task = &tx.snapshot.tasks[*task];
            let may_go = match kind {
                _ if !is_candidate => false,
                kind if kind.is_reclaim() => {
                    let other = tx.snapshot.jobs[task.job].queue;
                    tx.tiers().exceeds_share(other, queue)
                }
                kind => *gives
                    .entry(task.job)
                    .or_insert_with(|| tx.tiers().might_lose(kind, task.job, job)),
            };
            if may_go {
                held[node].add(&task.request);
            }
        }
    }
    held
}

/// The message of a job that is not enqueued.
fn not_enqueued_message(session: &Session<'_>, gang: &Gang, at: usize) -> String {
    let Gang::Parts(parts) = gang else {
        return "there is no room now for its minResources".to_owned();
    };
    let Some(part) = parts.get(at) else {
        return "there is no room now for its gang".to_owned();
    };
    let role = match session.tx.snapshot.roles.name(part.role) {
        "" => String::new(),
        role => format!(" of task {role}"),
    };
    let amounts = amounts_text(session, &part.request);
    let count = part.count;
    let beside = if parts.len() > 1 {
        " beside the rest of its gang"
    } else {
        ""
    };
    let pods = match count {
        1 => format!("1 pod{role} that asks for {amounts}"),
        count => format!("{count} pods{role} that ask for {amounts} each"),
    };
    format!("there is no room now for {pods}{beside}")
}

/// The message with the nodes that refuse the pods whatever room they have, and the plugins that do.
fn with_refusals(session: &mut Session<'_>, gang: &Gang, at: usize, words: String) -> String {
    let Gang::Parts(parts) = gang else {
        return words;
    };
    let Some(task) = parts.get(at).and_then(|part| part.task) else {
        return words;
    };
    let (evaluator, view) = session.evaluation();
    match evaluator.refusing(view, task) {
        None => words,
        Some((refusing, all, reasons)) if refusing == all => {
            format!("{words}, because every node refuses them: {reasons}")
        }
        Some((refusing, all, reasons)) => {
            format!("{words}, and {refusing} of {all} nodes refuse them: {reasons}")
        }
    }
}

/// `cpu 2, memory 1Gi`.
fn amounts_text(session: &Session<'_>, amounts: &Resource) -> String {
    let some = amounts.some().filter(|(dim, _)| *dim != Dim::PODS);
    let texts: Vec<String> = some
        .map(|(dim, amount)| {
            let name = session.tx.snapshot.dims.name(dim);
            format!("{name} {}", crate::session::objects::quantity(name, amount))
        })
        .collect();
    texts.join(", ")
}
