//! The second attempt for a gang of unlike tasks: those that the fewest nodes take first, and of these the largest.

use crate::conf::Action;
use crate::session::Session;
use crate::session::actions::domain_placement;
use crate::session::actions::task_placement;
use crate::session::evaluate::{Evaluator, TaskKind, Turn, View};
use crate::session::priority_queue::PriorityQueue;
use crate::session::reservation;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::resource::Unnamed;
use crate::session::transaction::Operations;
use evictd_batch_objects::Difference;
use evictd_placement::NodeId;
use hashbrown::HashMap;

/// The number of kinds of tasks for which nodes are counted, because a tenant chooses it. Others count as usable everywhere.
const MOST_KINDS: usize = 16;

/// Places a gang that its own order of tasks could not place: other tasks may have taken the only nodes for some.
/// `operations` are those of the first attempt, and then those of the second one.
pub(super) fn try_again(
    session: &mut Session<'_>,
    operations: &mut Operations,
    tasks: &mut PriorityQueue<TaskId>,
    job: JobId,
) {
    let tiers = session.tx.tiers();
    let is_placed = tiers.is_ready(job) || tiers.is_pipelined(job) || tiers.has_unknown_places(job);
    // Where no task found a node, no order helps.
    if is_placed || operations.placed() == 0 || !session.tx.compat.has(Difference::HardestFirst) {
        return;
    }
    session.tx.discard(std::mem::take(operations));
    let Some(gang) = by_difficulty(session, job) else {
        return;
    };
    let failed = domain_placement::take_attempt(&mut session.tx.snapshot, job);
    *operations = place_all(session, job, &gang);
    let tiers = session.tx.tiers();
    if tiers.is_ready(job) || tiers.is_pipelined(job) {
        *tasks = task_placement::waiting(tiers, job);
    } else {
        domain_placement::restore_fit_errors(&mut session.tx.snapshot, job, failed);
    }
}

/// The tasks that a job lacks to start, the hardest to place first. `None` if all of them are alike.
fn by_difficulty(session: &mut Session<'_>, job: JobId) -> Option<Vec<TaskId>> {
    let gang = gang_of(session, job);
    let mut by_kind: HashMap<TaskKind, usize> = HashMap::new();
    let mut rated = Vec::with_capacity(gang.len());
    for task in gang {
        let (evaluator, view) = session.evaluation();
        let kind = evaluator.kind(view, task)?;
        let is_counted = by_kind.len() < MOST_KINDS;
        let nodes = by_kind.entry(kind).or_insert_with(|| {
            if is_counted {
                usable_nodes(evaluator, view, task)
            } else {
                view.snapshot.nodes.len()
            }
        });
        rated.push((*nodes, task));
    }
    let snapshot = &session.tx.snapshot;
    let request = |task: TaskId| &snapshot.tasks[task].request;
    let size = |task: TaskId| request(task).dominant(&snapshot.total).1;
    rated.sort_by(|(few, one), (many, other)| {
        let by_nodes = few.cmp(many);
        by_nodes.then_with(|| size(*other).total_cmp(&size(*one)))
    });
    let differ = rated.windows(2).any(|pair| {
        let [(few, one), (many, other)] = pair else {
            return false;
        };
        few != many || request(*one) != request(*other)
    });
    differ.then(|| rated.into_iter().map(|(_, task)| task).collect())
}

/// How many nodes might take a task if no other pod was there.
fn usable_nodes(evaluator: &mut Evaluator, view: View<'_>, task: TaskId) -> usize {
    let request = &view.snapshot.tasks[task].request;
    let might_take = |node: &NodeId| {
        let allocatable = &view.snapshot.nodes[node.index()].allocatable;
        request.within(allocatable, Unnamed::Zero) && evaluator.might_take(view, task, *node, true)
    };
    view.snapshot.node_ids().filter(might_take).count()
}

/// The tasks that a job lacks to start: those that its roles need, and of the others the smallest.
fn gang_of(session: &Session<'_>, job: JobId) -> Vec<TaskId> {
    let tiers = session.tx.tiers();
    let snapshot = tiers.snapshot;
    let mut waiting = task_placement::waiting(tiers, job);
    let waiting = std::iter::from_fn(|| waiting.pop(|one, other| tiers.task_before(one, other)));
    let mut lacking = snapshot.lacking_by_role(job);
    let is_needed = |task: &TaskId| {
        let left = lacking.get_mut(&snapshot.tasks[*task].role);
        let left = left.filter(|left| **left > 0);
        left.map(|left| *left -= 1).is_some()
    };
    let (mut gang, mut others): (Vec<TaskId>, Vec<TaskId>) = waiting.partition(is_needed);
    let size = |task: &TaskId| snapshot.tasks[*task].request.dominant(&snapshot.total).1;
    others.sort_by(|one, other| size(one).total_cmp(&size(other)));
    let further = domain_placement::missing(snapshot, job).saturating_sub(gang.len());
    gang.extend(others.into_iter().take(further));
    gang
}

/// Places these tasks in their order, up to the first that finds no node.
fn place_all(session: &mut Session<'_>, job: JobId, gang: &[TaskId]) -> Operations {
    let queue = session.tx.snapshot.jobs[job].queue;
    let mut operations = Operations::default();
    let caches = task_placement::caches_refusals(session, Action::Allocate);
    let mut turn = None;
    let mut last: Option<TaskKind> = None;
    for task in gang {
        let (evaluator, view) = session.evaluation();
        let kind = evaluator.kind(view, *task);
        // Nodes that refused one task may take another of the same role.
        if caches && last != kind {
            turn = Some(Turn::default());
        }
        last = kind;
        if !reservation::is_allocatable(session, queue, *task) {
            break;
        }
        let node = task_placement::find_node(session, *task, turn.as_mut());
        let placed = node
            .and_then(|node| task_placement::give(&mut session.tx, &mut operations, *task, node));
        if placed.is_err() {
            break;
        }
    }
    operations
}
