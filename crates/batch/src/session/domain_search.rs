//! The topology domains of groups whose pods all belong in one domain.

use super::Session;
use super::free_capacity::times;
use super::plugins::Purpose;
use crate::session::gang;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{DomainId, JobId};
use crate::session::snapshot::resource::{Dim, Resource};
use evictd_batch_objects::Difference;

/// The candidate domains of a job; `None` for one without topology constraints.
pub(crate) fn choice(session: &mut Session<'_>, job: JobId) -> Option<Vec<DomainId>> {
    if let Some(groups) = groups(session, job) {
        return Some(groups);
    }
    let job = &session.tx.snapshot.jobs[job];
    let labels = job.topology();
    if labels.is_empty() {
        return None;
    }
    let tasks = job.tasks.iter();
    let taken = tasks.filter_map(|task| session.tx.snapshot.tasks[*task].node);
    Some(session.topology.choice(session.tx.cluster, labels, taken))
}

/// The groups that may hold all pods of a job, lowest tier first. `None` without a hard network topology. In Volcano only
/// allocate uses them.
fn groups(session: &Session<'_>, job: JobId) -> Option<Vec<DomainId>> {
    let snapshot = &session.tx.snapshot;
    let network = snapshot.jobs[job].network.as_ref()?;
    if !session.tx.compat.has(Difference::UnknownTopologyWaits) {
        return None;
    }
    network.hard_tier(&snapshot.hyper_nodes)?;
    let tiers = session.tx.tiers().gradient(
        network.nearness,
        snapshot.hyper_nodes.top(),
        (network.allocated, None),
        Purpose::Allocate,
    );
    Some(tiers.into_iter().flatten().map(DomainId::Group).collect())
}

/// The same as a list of trials: a job without topology constraints has one.
pub(crate) fn tries(session: &mut Session<'_>, job: JobId) -> Vec<Option<DomainId>> {
    choice(session, job).map_or_else(
        || vec![None],
        |choice| choice.into_iter().map(Some).collect(),
    )
}

/// Does something while the pods of a job can be nowhere else.
pub(crate) fn within<T>(
    session: &mut Session<'_>,
    (job, within): (JobId, Option<DomainId>),
    act: impl FnOnce(&mut Session<'_>) -> T,
) -> T {
    session.tx.snapshot.jobs[job].within = within;
    let done = act(session);
    session.tx.snapshot.jobs[job].within = None;
    done
}

/// The most pending pods of a job that could be in each of these domains, counting pending evictions and, if given,
/// `held` amounts by node. `None` if a task cannot be compiled.
pub(crate) fn most_in(
    session: &mut Session<'_>,
    job: JobId,
    choice: &[DomainId],
    held: Option<&[Resource]>,
) -> Option<Vec<usize>> {
    let parts = gang::waiting_parts(session, job)?;
    let mut total = vec![0_usize; choice.len()];
    for part in &parts {
        let mut most = vec![0_usize; choice.len()];
        for node in session.tx.snapshot.node_ids() {
            let mut at = session.topology.positions(choice, node);
            at.retain(|at| most[*at] < part.count);
            if at.is_empty() {
                continue;
            }
            let on_node = &session.tx.snapshot.nodes[node.index()];
            let room = |dim: Dim| {
                let held = held.map_or(0.0, |held| held[node.index()].get(dim));
                held + on_node.idle.get(dim) + on_node.releasing.get(dim)
                    - on_node.pipelined.get(dim)
            };
            let count = times(&part.request, room);
            let (evaluator, view) = session.evaluation();
            let open = |task| evaluator.might_take(view, task, node, held.is_some());
            if count > 0 && part.task.is_none_or(open) {
                for at in at {
                    most[at] = most[at].saturating_add(count);
                }
            }
        }
        for (total, most) in total.iter_mut().zip(most) {
            *total += most.min(part.count);
        }
    }
    Some(total)
}

/// The domain in which the most pods of a job that wait could be, the first of equals, and how many.
pub(crate) fn most_idle_domain(
    session: &mut Session<'_>,
    job: JobId,
    choice: &[DomainId],
) -> Option<(DomainId, usize)> {
    let most = most_in(session, job, choice, None);
    let most = most.unwrap_or_else(|| vec![0; choice.len()]);
    let domains = choice.iter().copied().zip(most);
    domains.reduce(|best, domain| if domain.1 > best.1 { domain } else { best })
}

/// The message for a job without a domain.
pub(crate) fn no_domain_message(snapshot: &Snapshot, job: JobId) -> String {
    let network = snapshot.jobs[job].network.as_ref();
    if let Some(tier) = network.and_then(|network| network.nearness.tier()) {
        return format!("no HyperNode of tier {tier} or lower holds all its pods that have nodes");
    }
    match snapshot.jobs[job].topology() {
        [key] => format!("no node has the label {key}"),
        keys => format!("no node has all of the labels {}", keys.join(", ")),
    }
}

/// The message about the domain in which most pods of a job fit: how many, and of how many, if they can be counted.
pub(crate) fn domain_message(
    session: &Session<'_>,
    job: JobId,
    within: DomainId,
    counts: Option<(usize, usize)>,
) -> String {
    let job = &session.tx.snapshot.jobs[job];
    let best = session.topology.words(within);
    let of_group = matches!(within, DomainId::Group(_));
    let mut tasks = job
        .tasks
        .iter()
        .map(|task| &session.tx.snapshot.tasks[*task]);
    if tasks.any(|task| task.node.is_some()) {
        return if of_group {
            format!(
                "All its pods have to be near to those that have nodes, at best in HyperNode {best}"
            )
        } else {
            format!("All its pods have to be on nodes with {best}, where some of them are")
        };
    }
    let network = job.network.as_ref();
    let tier = network.and_then(|network| network.nearness.tier());
    let place = tier.filter(|_| of_group).map_or_else(
        || {
            let keys = job.topology().join(" and the same ");
            format!("on nodes with the same {keys}")
        },
        |tier| format!("in one HyperNode of tier {tier} or lower"),
    );
    let room = match (counts, of_group) {
        (None, _) => "none of them has room for all".to_owned(),
        (Some((fit, all)), true) => format!("at best there is room for {fit} of {all}, in {best}"),
        (Some((fit, all)), false) => {
            format!("at best there is room for {fit} of {all}, on those with {best}")
        }
    };
    format!("All its pods have to be {place}: {room}")
}
