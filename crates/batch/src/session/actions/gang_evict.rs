//! Actions gangpreempt and gangreclaim: room for a whole gang at once (S6-192 to S6-202).

use super::bundles::{self, Bundle};
use crate::conf::Action;
use crate::session::Session;
use crate::session::actions::domain_placement;
use crate::session::actions::group_placement::PendingParts;
use crate::session::actions::task_placement;
use crate::session::domain_search;
use crate::session::eviction_kind::EvictionKind;
use crate::session::objects::{PREEMPTABLE, is_true};
use crate::session::plugins::{Budgets, Purpose};
use crate::session::priority_queue::PriorityQueue;
use crate::session::reservation;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::hyper_nodes::HyperNodeId;
use crate::session::snapshot::ids::{DomainId, JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Resource, Unnamed};
use crate::session::snapshot::task::{Status, UnknownPlace};
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
        if job.is_pending() || tiers.invalid(id).is_some() || !tiers.is_starving(id) {
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

/// The tasks of a gang that ask for room, by the parts of its job, in the order in which they are placed.
struct Demand {
    job: JobId,
    parts: Vec<(usize, Vec<TaskId>)>,
    /// The job has enough already, and asks for one part alone.
    was_ready: bool,
    sum: Resource,
}

impl Demand {
    fn of(session: &Session<'_>, job: JobId) -> Self {
        let tiers = session.tx.tiers();
        let was_ready = tiers.is_ready(job);
        let mut parts = if tiers.snapshot.jobs[job].network.is_some() {
            PendingParts::of(tiers, job).into_parts(tiers, job)
        } else {
            let mut waiting = task_placement::waiting(tiers, job);
            let tasks =
                std::iter::from_fn(|| waiting.pop(|one, other| tiers.task_before(one, other)));
            vec![(0, tasks.collect())]
        };
        if was_ready {
            parts.truncate(1);
        }
        let tasks = parts.iter().flat_map(|(_, tasks)| tasks.iter().copied());
        let sum = bundles::sum(tiers.snapshot, tasks);
        Self {
            job,
            parts,
            was_ready,
            sum,
        }
    }

    fn first(&self) -> Option<TaskId> {
        let mut tasks = self
            .parts
            .iter()
            .flat_map(|(_, tasks)| tasks.iter().copied());
        tasks.next()
    }
}

/// Evicts pods for a job in the first group of nodes where that suffices.
fn evict_for(session: &mut Session<'_>, kind: EvictionKind, queue: QueueId, job: JobId) {
    let demand = Demand::of(session, job);
    let Some(first) = demand.first() else {
        return;
    };
    if kind == EvictionKind::GangReclaim
        && !session.tx.tiers().is_preemptive_for(queue, &demand.sum)
        || session.tx.snapshot.tasks[first].never_preempts
            && session.tx.compat.has(Difference::SpareProtectedPods)
    {
        return;
    }
    for group in groups(session, kind, job) {
        if evict_in(session, kind, (&demand, first), group) {
            return;
        }
    }
}

const fn action_of(kind: EvictionKind) -> Action {
    match kind {
        EvictionKind::GangReclaim => Action::GangReclaim,
        _ => Action::GangPreempt,
    }
}

/// The groups of nodes in which evictions are tried for a job, the widest first (S6-194).
fn groups(session: &Session<'_>, kind: EvictionKind, job: JobId) -> Vec<HyperNodeId> {
    let snapshot = &session.tx.snapshot;
    let top = snapshot.hyper_nodes.top();
    let job = &snapshot.jobs[job];
    let Some(network) = &job.network else {
        return vec![top];
    };
    let need = job.min_resources.as_ref();
    let tiers = session.tx.tiers().gradient(
        network.nearness,
        top,
        (network.allocated, need),
        Purpose::Evict,
    );
    let arguments = session.conf.arguments_of(action_of(kind));
    let most = arguments.map_or(8.0, |arguments| arguments.whole("maxDomains", 8.0));
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is at least one"
    )]
    let most = if most >= 1.0 { most as usize } else { 8 };
    let groups: Vec<HyperNodeId> = tiers.into_iter().flatten().take(most).collect();
    if groups.is_empty() && !network.has_limit() {
        return vec![top];
    }
    groups
}

/// Evicts bundle after bundle in a group of nodes until all tasks that a job asks for can be placed there.
fn evict_in(
    session: &mut Session<'_>,
    kind: EvictionKind,
    (demand, first): (&Demand, TaskId),
    group: HyperNodeId,
) -> bool {
    let job = demand.job;
    let candidates = candidates(session, kind, (job, group));
    let bundles = bundles::bundles(session.tx.tiers(), kind, job, &demand.sum, candidates);
    let bundles = granted(session, kind, (job, first), bundles);
    let mut room = future_idle(&session.tx.snapshot, group);
    let mut taken: Vec<Bundle> = Vec::new();
    for bundle in bundles {
        room.add(&bundles::sum(
            &session.tx.snapshot,
            bundle.tasks.iter().copied(),
        ));
        taken.push(bundle);
        if !demand.sum.within(&room, Unnamed::Zero) {
            continue;
        }
        let Some(operations) = attempt(session, kind, (demand, group), &taken) else {
            continue;
        };
        let operations = if session.tx.compat.has(Difference::FewestVictims) {
            session.tx.discard(operations);
            give_back(session, kind, (demand, group), &mut taken)
        } else {
            Some(operations)
        };
        match operations {
            // It fits without evictions, and pipelined here it would never be bound.
            Some(operations) if domain_placement::is_left_to_allocate(session, &operations) => {
                session.tx.discard(operations);
            }
            Some(operations) => commit(session, operations),
            None => {}
        }
        return true;
    }
    false
}

/// Carries the plan for a gang out. Volcano's next allocate does not know its places. Its cache forgets the nominated group at the
/// end of the session. Within the session the pods have no nominated nodes yet, so that its fast path places none (S6-201).
fn commit(session: &mut Session<'_>, operations: Operations) {
    if !session.tx.compat.has(Difference::NominatedFirst) {
        let placed: Vec<TaskId> = operations.placed_tasks().collect();
        for task in placed {
            session.tx.snapshot.tasks[task].unknown_place = UnknownPlace::Pending;
        }
    }
    session.tx.commit(operations);
}

/// The idle amounts of the nodes of a group after pending evictions.
fn future_idle(snapshot: &Snapshot, group: HyperNodeId) -> Resource {
    let mut room = Resource::default();
    for node in &snapshot.hyper_nodes.at(group).nodes {
        let node = &snapshot.nodes[node.index()];
        room.add(&node.idle);
        room.add(&node.releasing);
    }
    room
}

/// The tasks that may be evicted, before plugins are asked.
fn candidates(
    session: &Session<'_>,
    kind: EvictionKind,
    (preemptor, group): (JobId, HyperNodeId),
) -> Vec<TaskId> {
    let snapshot = &session.tx.snapshot;
    let ours = session.tx.compat.has(Difference::SpareProtectedPods);
    let to = &snapshot.jobs[preemptor];
    let is_candidate = |id: &TaskId| {
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
    let nodes = snapshot.hyper_nodes.at(group).nodes.iter();
    let on_nodes = nodes.flat_map(|node| snapshot.nodes[node.index()].tasks.iter());
    on_nodes.copied().filter(is_candidate).collect()
}

/// The bundles without the tasks that the plugins do not permit. A whole bundle stays only if all of it may go.
fn granted(
    session: &Session<'_>,
    kind: EvictionKind,
    preemptor: (JobId, TaskId),
    bundles: Vec<Bundle>,
) -> Vec<Bundle> {
    let arguments = session.conf.arguments_of(action_of(kind));
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

/// Evicts these bundles and pipelines the tasks part by part, until the job has enough. `None` if a part fits nowhere; then
/// nothing has changed.
fn attempt(
    session: &mut Session<'_>,
    kind: EvictionKind,
    (demand, group): (&Demand, HyperNodeId),
    bundles: &[Bundle],
) -> Option<Operations> {
    let job = demand.job;
    let mut operations = Operations::default();
    for victim in bundles.iter().flat_map(|bundle| bundle.tasks.iter()) {
        session.tx.evict(&mut operations, *victim, kind);
    }
    for (part, tasks) in &demand.parts {
        let groups = groups_of_part(session, (job, *part), group);
        let placed = groups
            .into_iter()
            .find_map(|group| place_all(session, job, (*part, tasks), group));
        let Some(placed) = placed else {
            session.tx.discard(operations);
            return None;
        };
        operations.append(placed);
        if demand.was_ready || session.tx.tiers().is_pipelined(job) {
            break;
        }
    }
    if session.tx.tiers().is_pipelined(job) {
        return Some(operations);
    }
    session.tx.discard(operations);
    None
}

/// The groups of nodes below one in which a part of a job is tried.
fn groups_of_part(
    session: &Session<'_>,
    (job, part): (JobId, usize),
    root: HyperNodeId,
) -> Vec<HyperNodeId> {
    let snapshot = &session.tx.snapshot;
    let network = snapshot.jobs[job].network.as_ref();
    let Some(network) = network.filter(|network| network.has_limit()) else {
        return vec![root];
    };
    let part = &network.sub_jobs[part];
    let need = part.waiting(&snapshot.tasks);
    let tiers = session.tx.tiers().gradient(
        part.nearness,
        root,
        (part.allocated, Some(&need)),
        Purpose::Evict,
    );
    tiers.into_iter().flatten().collect()
}

/// Pipelines all these tasks of a part of a job on nodes of a group. `None` if one fits nowhere; then nothing has changed.
fn place_all(
    session: &mut Session<'_>,
    job: JobId,
    (part, tasks): (usize, &[TaskId]),
    group: HyperNodeId,
) -> Option<Operations> {
    let queue = session.tx.snapshot.jobs[job].queue;
    let top = session.tx.snapshot.hyper_nodes.top();
    let within = (group != top).then_some(DomainId::Group(group));
    let mut operations = Operations::default();
    let placed = domain_search::within(session, (job, within), |session| {
        tasks.iter().all(|task| {
            if !reservation::is_allocatable(session, queue, *task) {
                return false;
            }
            let (evaluator, view) = session.evaluation();
            let node = evaluator.choose(view, *task, true, None);
            let Ok(node) = node else {
                return false;
            };
            session.tx.pipeline(&mut operations, *task, node, true);
            session.tx.vetoed(&mut operations, *task).is_none()
        })
    });
    let tiers = session.tx.tiers();
    if placed && (tiers.is_part_ready(job, part) || tiers.is_part_pipelined(job, part)) {
        return Some(operations);
    }
    session.tx.discard(operations);
    None
}

/// Leaves out the victims without which the gang fits as well, the last first. Of a whole bundle all tasks stay or none.
fn give_back(
    session: &mut Session<'_>,
    kind: EvictionKind,
    demand: (&Demand, HyperNodeId),
    taken: &mut [Bundle],
) -> Option<Operations> {
    for at in (0..taken.len()).rev() {
        let mut left = taken[at].tasks.len();
        while left > 0 {
            let from = if taken[at].whole { 0 } else { left - 1 };
            let spared: Vec<TaskId> = taken[at].tasks.drain(from..left).collect();
            match attempt(session, kind, demand, taken) {
                Some(operations) => session.tx.discard(operations),
                None => {
                    taken[at].tasks.splice(from..from, spared);
                }
            }
            left = from;
        }
    }
    attempt(session, kind, demand, taken)
}
