//! Frees a node for a task: evicts victims one by one until the task fits.

use crate::session::Session;
use crate::session::eviction_kind::EvictionKind;
use crate::session::plugins::Tiers;
use crate::session::reservation;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::resource::Unnamed;
use crate::session::snapshot::task::Status;
use crate::session::transaction::Operations;
use crate::session::transaction::Transaction;
use evictd_batch_objects::Difference;
use evictd_placement::NodeId;
use hashbrown::HashMap;

/// A task that wants room, and where.
#[derive(Clone, Copy)]
struct Preemptor {
    kind: EvictionKind,
    task: TaskId,
    node: NodeId,
    /// Whether filters that look beyond the node passed before any eviction.
    coupled: bool,
}

/// Frees a node for a task: evicts victims one by one until it fits. Returns whether it fits; if not, nothing is
/// evicted.
pub(super) fn free_node(
    session: &mut Session<'_>,
    operations: &mut Operations,
    kind: EvictionKind,
    (task, node): (TaskId, NodeId),
    candidates: &[TaskId],
) -> bool {
    // The victim functions of plugins are expensive, and never return more than the candidates.
    if !suffices(&session.tx.snapshot, task, node, candidates) {
        return false;
    }
    let victims = permitted_candidates(session, kind, task, candidates);
    if !suffices(&session.tx.snapshot, task, node, &victims) {
        return false;
    }
    let (evaluator, view) = session.evaluation();
    let preemptor = Preemptor {
        kind,
        task,
        node,
        coupled: evaluator.passes_coupled(view, task, node),
    };
    let mut own_steps = Operations::default();
    let mut evicted = Vec::new();
    // Room is checked before each round, so that no round is evicted in vain.
    for victims in rounds(session, preemptor, victims) {
        if fits_now(session, preemptor) {
            break;
        }
        for victim in victims {
            // A whole gang may share victims with an earlier round.
            if session.tx.snapshot.tasks[victim].status == Status::Releasing {
                continue;
            }
            session.tx.evict(&mut own_steps, victim, kind);
            evicted.push(victim);
        }
    }
    if !fits_now(session, preemptor) {
        // Filters may still refuse, for example because an affinity needs one of the victims.
        session.tx.discard(own_steps);
        return false;
    }
    if session.tx.compat.has(Difference::FewestVictims) {
        undo_unneeded(session, preemptor, &mut own_steps, &mut evicted);
    }
    let mut requests = evicted
        .iter()
        .map(|victim| &session.tx.snapshot.tasks[*victim].request);
    // Volcano nominates the node only if victims free something, and reclaim nominates it for any victim.
    let evicts = if kind.is_reclaim() {
        requests.len() > 0
    } else {
        requests.any(|request| !request.is_empty())
    };
    session.tx.pipeline(&mut own_steps, task, node, evicts);
    if session.tx.vetoed(&mut own_steps, task).is_some() {
        // Nothing is evicted for a task that would not get the room.
        session.tx.discard(own_steps);
        return false;
    }
    operations.append(own_steps);
    true
}

/// The candidates that the plugins permit.
fn permitted_candidates(
    session: &Session<'_>,
    kind: EvictionKind,
    task: TaskId,
    candidates: &[TaskId],
) -> Vec<TaskId> {
    if !session.tx.tiers().evicts_whole_gangs() {
        return session.tx.tiers().permitted(kind, task, candidates);
    }
    // Tasks that gangs can spare come first, then those with the least lost work, because plugins permit only so many.
    let (mut all, mut rest) = spare_first(session.tx.tiers(), task, candidates.to_vec());
    if kind == EvictionKind::Reclaim && session.tx.compat.has(Difference::LeastLostWork) {
        let gangs = least_lost_first(&session.tx.snapshot, gangs_of(&session.tx.snapshot, &rest));
        let job = |task: TaskId| session.tx.snapshot.tasks[task].job;
        rest.sort_by_cached_key(|task| gangs.iter().position(|gang| *gang == job(*task)));
    }
    all.extend(rest);
    session.tx.tiers().permitted(kind, task, &all)
}

/// Whether a task could be on a node if all of these went.
fn suffices(snapshot: &Snapshot, task: TaskId, node: NodeId, victims: &[TaskId]) -> bool {
    let mut idle = snapshot.nodes[node.index()].future_idle();
    for victim in victims {
        idle.add(&snapshot.tasks[*victim].request);
    }
    snapshot.tasks[task].request.within(&idle, Unnamed::Zero)
}

/// Pipelines a task on the first node that has room for it, now or after pending evictions, so that no further pod
/// is evicted. Returns whether placed is one. Volcano leaves this to allocate, which discards gangs of which a part
/// lacks room.
pub(super) fn fits_without_victims(
    session: &mut Session<'_>,
    operations: &mut Operations,
    kind: EvictionKind,
    task: TaskId,
    nodes: &[NodeId],
) -> bool {
    if !session.tx.compat.has(Difference::FewestVictims) {
        return false;
    }
    let fits = |session: &mut Session<'_>, node: NodeId| {
        let room = session.tx.snapshot.nodes[node.index()]
            .will_have(&session.tx.snapshot.tasks[task].request);
        room && {
            let (evaluator, view) = session.evaluation();
            let coupled = evaluator.passes_coupled(view, task, node);
            fits_now(
                session,
                Preemptor {
                    kind,
                    task,
                    node,
                    coupled,
                },
            )
        }
    };
    let found = nodes.iter().copied().find(|node| fits(session, *node));
    let Some(node) = found else {
        return false;
    };
    session.tx.pipeline(operations, task, node, false);
    session.tx.vetoed(operations, task).is_none()
}

/// Whether the task fits on the node after the evictions so far.
fn fits_now(session: &mut Session<'_>, preemptor: Preemptor) -> bool {
    let task = &session.tx.snapshot.tasks[preemptor.task];
    let room = session.tx.snapshot.nodes[preemptor.node.index()].will_have(&task.request);
    let queue = session.tx.snapshot.jobs[task.job].queue;
    if !room
        || (preemptor.kind == EvictionKind::Preempt
            && !reservation::is_allocatable(session, queue, preemptor.task))
    {
        return false;
    }
    let anew = session.tx.compat.has(Difference::RecheckPlacement);
    let (evaluator, view) = session.evaluation();
    if anew {
        return evaluator.passes(view, preemptor.task, preemptor.node);
    }
    preemptor.kind == EvictionKind::Reclaim
        || (preemptor.coupled && evaluator.passes_apart(view, preemptor.task, preemptor.node))
}

/// The victims in the order of their eviction; those of one round are evicted together.
fn rounds(session: &Session<'_>, preemptor: Preemptor, victims: Vec<TaskId>) -> Vec<Vec<TaskId>> {
    if !session.tx.tiers().evicts_whole_gangs() {
        let order = session.tx.tiers().victims_in_order(preemptor.task, victims);
        return order.into_iter().map(|victim| vec![victim]).collect();
    }
    let (spare, rest) = spare_first(session.tx.tiers(), preemptor.task, victims);
    let mut gangs = gangs_of(&session.tx.snapshot, &rest);
    if preemptor.kind == EvictionKind::Reclaim && session.tx.compat.has(Difference::LeastLostWork) {
        gangs = least_lost_first(&session.tx.snapshot, gangs);
    } else {
        // The smallest first; the order among equals stays.
        gangs.sort_by_key(|job| session.tx.snapshot.jobs[*job].ready());
    }
    let gangs = gangs
        .into_iter()
        .filter_map(|job| whole_gang(&session.tx, preemptor, job));
    let gangs: Vec<Vec<TaskId>> = gangs.collect();
    let spare = spare.into_iter().map(|victim| vec![victim]);
    spare.chain(gangs).collect()
}

/// The jobs of some tasks, in the order in which they are met.
fn gangs_of(snapshot: &Snapshot, tasks: &[TaskId]) -> Vec<JobId> {
    let mut gangs = Vec::new();
    for task in tasks {
        let job = snapshot.tasks[*task].job;
        if !gangs.contains(&job) {
            gangs.push(job);
        }
    }
    gangs
}

/// Jobs in the order of the work that is lost if the whole job is evicted.
fn least_lost_first(snapshot: &Snapshot, jobs: Vec<JobId>) -> Vec<JobId> {
    let jobs = jobs.into_iter();
    let mut lost: Vec<(f64, JobId)> = jobs
        .map(|job| (loss(snapshot, placed(snapshot, job)), job))
        .collect();
    lost.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    lost.into_iter().map(|(_, job)| job).collect()
}

/// Splits tasks into those that their gangs can spare and the others, each in victim order.
fn spare_first(
    tiers: Tiers<'_>,
    preemptor: TaskId,
    tasks: Vec<TaskId>,
) -> (Vec<TaskId>, Vec<TaskId>) {
    let mut left: HashMap<JobId, i32> = HashMap::new();
    let order = tiers.victims_in_order(preemptor, tasks).into_iter();
    order.partition(|task| {
        let job_id = tiers.snapshot.tasks[*task].job;
        let job = &tiers.snapshot.jobs[job_id];
        let left = left.entry(job_id).or_insert_with(|| job.ready());
        // Each task that was counted as spare leaves the gang with one less to spare.
        *left -= 1;
        job.can_spare(*left)
    })
}

/// All tasks of a gang on nodes, if each may be evicted. `None` for the preemptor's own job and for a gang that was
/// placed in this session. A gang counts as one victim: its queue only has to be above its share before the first
/// task.
fn whole_gang(tx: &Transaction<'_>, preemptor: Preemptor, job_id: JobId) -> Option<Vec<TaskId>> {
    let job = &tx.snapshot.jobs[job_id];
    let new = [Status::Allocated, Status::Binding, Status::Pipelined];
    let same = tx.snapshot.tasks[preemptor.task].job == job_id;
    // Evicting what this session has just placed would move pods back and forth.
    if same || new.into_iter().any(|status| job.count(status) > 0) {
        return None;
    }
    let placed: Vec<TaskId> = placed(&tx.snapshot, job_id).collect();
    let may_be_evicted = |task: &TaskId| {
        let permitted = || {
            tx.tiers()
                .permitted(preemptor.kind, preemptor.task, &[*task])
        };
        tx.snapshot.tasks[*task].preemptable && !permitted().is_empty()
    };
    let all = placed.iter().all(may_be_evicted);
    let precedes = preemptor.kind == EvictionKind::Reclaim
        || !tx.compat.has(Difference::PreemptByJobOrder)
        || tx.tiers().allowed_by_order(preemptor.task, &placed).len() == placed.len();
    (all && precedes).then(|| tx.tiers().victims_in_order(preemptor.task, placed))
}

/// The tasks of a job that are on nodes, and were before this session.
fn placed(snapshot: &Snapshot, job: JobId) -> impl Iterator<Item = TaskId> {
    let tasks = snapshot.jobs[job].tasks.iter().copied();
    tasks.filter(|task| {
        let status = snapshot.tasks[*task].status;
        matches!(status, Status::Bound | Status::Running)
    })
}

/// The work that is lost by evicting some tasks: the sum of dominant share times running time. A task with an
/// unknown start time counts as just started.
pub(super) fn loss(snapshot: &Snapshot, tasks: impl Iterator<Item = TaskId>) -> f64 {
    let lost = tasks.map(|task| {
        let task = &snapshot.tasks[task];
        let lasted = snapshot.now.zip(task.started);
        let lasted = lasted.map_or(0.0, |(now, since)| now.duration_since(since).as_secs_f64());
        // A restart has a cost, too: among tasks that have just begun, the smallest are evicted.
        task.request.dominant(&snapshot.total).1 * (lasted.max(0.0) + 1.0)
    });
    lost.sum()
}

/// Undoes evictions that turn out to be unnecessary, in reverse victim order.
fn undo_unneeded(
    session: &mut Session<'_>,
    preemptor: Preemptor,
    operations: &mut Operations,
    evicted: &mut Vec<TaskId>,
) {
    for index in (0..evicted.len()).rev() {
        let victim = evicted[index];
        // A gang is evicted as a whole or not at all.
        let job = &session.tx.snapshot.jobs[session.tx.snapshot.tasks[victim].job];
        if session.tx.tiers().evicts_whole_gangs() && !job.can_spare(job.ready()) {
            continue;
        }
        session.tx.take_back(operations, victim);
        if fits_now(session, preemptor) {
            evicted.remove(index);
        } else {
            session.tx.evict(operations, victim, preemptor.kind);
        }
    }
}
