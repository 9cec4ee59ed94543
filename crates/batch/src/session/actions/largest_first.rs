//! The second attempt for a gang with tasks of several sizes: the largest first.

use crate::conf::Action;
use crate::session::Session;
use crate::session::actions::domain_placement;
use crate::session::actions::task_placement;
use crate::session::evaluate::Turn;
use crate::session::priority_queue::PriorityQueue;
use crate::session::reservation;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::transaction::Operations;
use evictd_batch_objects::Difference;

/// Places a gang that its own order of tasks could not place: small tasks may have taken the only nodes for large ones.
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
    if is_placed || operations.placed() == 0 || !session.tx.compat.has(Difference::LargestFirst) {
        return;
    }
    session.tx.discard(std::mem::take(operations));
    let Some(gang) = by_size(session, job) else {
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

/// The tasks that a job lacks to start, the largest first. `None` if all of them have the same size.
fn by_size(session: &Session<'_>, job: JobId) -> Option<Vec<TaskId>> {
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
    gang.sort_by(|one, other| size(other).total_cmp(&size(one)));
    let request = |task: &TaskId| &snapshot.tasks[*task].request;
    let differ = gang
        .windows(2)
        .any(|pair| request(&pair[0]) != request(&pair[1]));
    differ.then_some(gang)
}

/// Places these tasks in their order, up to the first that finds no node.
fn place_all(session: &mut Session<'_>, job: JobId, gang: &[TaskId]) -> Operations {
    let queue = session.tx.snapshot.jobs[job].queue;
    let mut operations = Operations::default();
    let caches = task_placement::caches_refusals(session, Action::Allocate);
    let mut turn = None;
    let mut last: Option<TaskId> = None;
    for task in gang {
        let tasks = &session.tx.snapshot.tasks;
        let same = last.is_some_and(|last| tasks[last].request == tasks[*task].request);
        // Nodes that refused a large task may take a small one of the same role.
        if caches && !same {
            turn = Some(Turn::default());
        }
        last = Some(*task);
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
