//! Which nodes are reserved: the fewest with room several times over, most idle first.

use crate::session::Session;
use crate::session::domain_search;
use crate::session::free_capacity::times;
use crate::session::gang::Part;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{DomainId, JobId};
use crate::session::snapshot::resource::Resource;
use crate::session::snapshot::task::Status;
use evictd_placement::NodeId;

/// So many times the needed room is reserved, if possible, because the last pods of a node may run for hours. With
/// exactly the needed room, everything freed before them would stand idle.
const SPARE: usize = 2;

/// The fewest nodes with room for all pods several times over once others have ended; the idlest nodes come first. If
/// all pods belong in one topology domain, the domain with the most idle room.
pub(super) fn soonest(session: &mut Session<'_>, job: JobId, parts: &[Part]) -> Option<Vec<bool>> {
    let mut free_amounts = emptied(&session.tx.snapshot, job);
    let mut best: Option<Kept> = None;
    for within in domain_search::tries(session, job) {
        let kept = soonest_in(session, within, parts, &mut free_amounts);
        let freer = |kept: &Kept| best.as_ref().is_none_or(|best| kept.free > best.free);
        best = kept.filter(freer).or(best);
    }
    best.map(|kept| kept.nodes)
}

/// The free amounts by node if all other jobs had ended.
fn emptied(snapshot: &Snapshot, job: JobId) -> Vec<Resource> {
    let snapshot = &snapshot;
    let mut free_amounts: Vec<Resource> = Vec::with_capacity(snapshot.nodes.len());
    for node in &snapshot.nodes {
        let mut room = node.future_idle();
        let others = node.tasks.iter().map(|task| &snapshot.tasks[*task]);
        let others = others.filter(|task| {
            // The idle amounts after pending evictions contain these already.
            let stays = matches!(task.status, Status::Releasing | Status::Pipelined);
            !stays && snapshot.jobs[task.job].is_live && task.job != job
        });
        others.for_each(|task| room.add(&task.request));
        free_amounts.push(room);
    }
    free_amounts
}

/// The nodes of one topology domain. The free amounts are restored afterwards.
fn soonest_in(
    session: &mut Session<'_>,
    within: Option<DomainId>,
    parts: &[Part],
    free_amounts: &mut [Resource],
) -> Option<Kept> {
    let mut kept = Kept {
        nodes: vec![false; free_amounts.len()],
        free: 0.0,
    };
    let mut taken: Vec<(NodeId, Resource)> = Vec::new();
    let fits = parts.iter().all(|part| {
        keep_part(
            session,
            within,
            part,
            (&mut *free_amounts, &mut taken),
            &mut kept,
        )
    });
    for (node, amount) in taken {
        free_amounts[node.index()].add(&amount);
    }
    fits.then_some(kept)
}

/// Reserves nodes for pods that are alike; none if they would not even fit alone.
fn keep_part(
    session: &mut Session<'_>,
    within: Option<DomainId>,
    part: &Part,
    (free_amounts, taken): (&mut [Resource], &mut Vec<(NodeId, Resource)>),
    kept: &mut Kept,
) -> bool {
    // A few large nodes stand idle for a shorter time than many that are freed one after the other.
    let mut order = rated(session, within, part, free_amounts);
    // Nodes that are already reserved come first.
    order.sort_by(|one, other| {
        let kept = kept.nodes[other.node.index()].cmp(&kept.nodes[one.node.index()]);
        kept.then_with(|| other.free.total_cmp(&one.free))
    });
    if first_with_room(&order, part.count).is_none() {
        return false;
    }
    let wanted = part.count.saturating_mul(SPARE);
    let mut used = first_with_room(&order, wanted).unwrap_or(order);
    drop_needless(&mut used, wanted);
    let mut left = part.count;
    for node in used {
        let count = node.most.min(left);
        left -= count;
        kept.nodes[node.node.index()] = true;
        let mut amount = part.request.clone();
        #[expect(clippy::cast_precision_loss, reason = "there are not so many pods")]
        {
            kept.free += node.free * node.most as f64;
            amount.scale(count as f64);
        }
        free_amounts[node.node.index()].sub(&amount);
        taken.push((node.node, amount));
    }
    true
}

/// The nodes that pods could be on if others had left, in the order of their names.
fn rated(
    session: &mut Session<'_>,
    within: Option<DomainId>,
    part: &Part,
    free_amounts: &[Resource],
) -> Vec<Rated> {
    let by_rank = session.tx.snapshot.by_rank.clone();
    let rated = by_rank.into_iter().filter_map(|node| {
        if !session.topology.reaches(within, node) {
            return None;
        }
        let most = times(&part.request, |dim| free_amounts[node.index()].get(dim));
        if most == 0 {
            return None;
        }
        // A pod that is not made proves no need.
        let task = part.task?;
        let (evaluator, view) = session.evaluation();
        let open = evaluator.might_take(view, task, node, true);
        let idle = view.snapshot.nodes[node.index()].future_idle();
        let parts = part.request.some();
        let parts = parts.map(|(dim, amount)| idle.get(dim) / amount);
        let now = parts.fold(f64::INFINITY, f64::min).max(0.0);
        #[expect(clippy::cast_precision_loss, reason = "there are not so many pods")]
        let free = (now / most as f64).min(1.0);
        open.then_some(Rated { node, most, free })
    });
    rated.collect()
}

/// A candidate set of nodes.
#[derive(Debug)]
struct Kept {
    nodes: Vec<bool>,
    /// So many pods would have room there now.
    free: f64,
}

/// A node that pods of a part could be on.
#[derive(Debug, Clone, Copy)]
struct Rated {
    node: NodeId,
    /// How many of them, when others have left.
    most: usize,
    /// The idle part of that room.
    free: f64,
}

/// The first that have room for so many pods together, if all have.
fn first_with_room(order: &[Rated], count: usize) -> Option<Vec<Rated>> {
    let mut sum = 0_usize;
    let mut used = Vec::new();
    for node in order {
        if sum >= count {
            break;
        }
        sum = sum.saturating_add(node.most);
        used.push(*node);
    }
    (sum >= count).then_some(used)
}

/// Drops nodes that are not needed for so many pods, last first.
fn drop_needless(used: &mut Vec<Rated>, count: usize) {
    let mut sum = used
        .iter()
        .fold(0_usize, |sum, node| sum.saturating_add(node.most));
    for at in (0..used.len()).rev() {
        if sum - used[at].most >= count {
            sum -= used[at].most;
            used.remove(at);
        }
    }
}
