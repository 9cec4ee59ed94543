//! Reports the state when a session opens and after its actions.

use crate::conf::PluginName;
use crate::session::Session;
use crate::session::objects::{ROOT, quantity};
use crate::session::outcome::{
    Amount, Amounts, Eviction, HyperNodeOutcome, JobGroupOutcome, JobShareOutcome, NumaAssignment,
    Outcome, QueueOutcome, QueueTreeOutcome, Refused,
};
use crate::session::plugins::{Plugin, QueueShare};
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::hyper_nodes::HyperNodeId;
use crate::session::snapshot::ids::{QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, Resource};
use crate::session::snapshot::task::Status;
use crate::session::transaction::Transaction;
use std::collections::BTreeMap;

/// Before any action.
pub(crate) fn report_open(tx: &Transaction<'_>, lists_groups: bool, outcome: &mut Outcome) {
    let by_rank = tx.snapshot.by_rank.iter();
    outcome.session_nodes = by_rank.map(|node| tx.node_name(*node).to_owned()).collect();
    let mut queues = PriorityQueue::default();
    let mut jobs = vec![PriorityQueue::default(); tx.snapshot.queues.len()];
    for (index, job) in tx.snapshot.live_jobs() {
        outcome.session_jobs.push(job.key.to_string());
        if let Some(invalid) = tx.tiers().invalid(index) {
            let refused = Refused {
                reason: invalid.reason.to_owned(),
                message: invalid.message,
            };
            outcome.invalid_jobs.insert(job.key.to_string(), refused);
        }
        // A queue is listed once, with its first job.
        if jobs[job.queue].is_empty() {
            queues.push(job.queue, |one, other| tx.tiers().queue_before(one, other));
        }
        jobs[job.queue].push(index, |one, other| tx.tiers().job_before(one, other));
    }
    outcome.session_jobs.sort_unstable();
    while let Some(queue) = queues.pop(|one, other| tx.tiers().queue_before(one, other)) {
        let waiting = &mut jobs[queue];
        let order =
            std::iter::from_fn(|| waiting.pop(|one, other| tx.tiers().job_before(one, other)));
        let order = order.map(|job| tx.snapshot.jobs[job].key.to_string());
        let name = tx.snapshot.queues[queue].name.to_string();
        outcome
            .job_order_at_open
            .insert(name.clone(), order.collect());
        outcome.queue_order_at_open.push(name);
    }
    outcome.queues_at_open = queue_outcomes(tx, true);
    outcome.queue_tree_at_open = queue_tree(tx);
    report_groups(tx, lists_groups, outcome);
    let job_shares = tx.plugins.all().find_map(Plugin::job_shares);
    outcome.job_shares_at_open = job_shares.map(|job_shares| {
        let shares = tx.snapshot.live_jobs().map(|(index, job)| {
            let job_share = &job_shares[index.index()];
            let dominant = job_share
                .dominant
                .map_or("", |dim| tx.snapshot.dims.name(dim));
            let share = JobShareOutcome {
                dominant_resource: dominant.to_owned(),
                share: job_share.share,
            };
            (job.key.to_string(), share)
        });
        shares.collect()
    });
}

/// The groups of near nodes, if there are any.
fn report_groups(tx: &Transaction<'_>, lists_groups: bool, outcome: &mut Outcome) {
    let snapshot = &tx.snapshot;
    let groups = &snapshot.hyper_nodes;
    if groups.is_flat() {
        return;
    }
    let name = |id: HyperNodeId| groups.at(id).name.to_string();
    let shown = groups.ids().map(|id| {
        let group = groups.at(id);
        let mut children: Vec<String> = group.children.iter().map(|child| name(*child)).collect();
        children.sort_unstable();
        let nodes = group.nodes.iter();
        let outcome = HyperNodeOutcome {
            children,
            nodes: nodes.map(|node| tx.node_name(*node).to_owned()).collect(),
            parent: group.parent.map_or_else(String::new, name),
            tier: group.tier,
        };
        (name(id), outcome)
    });
    // They are as many texts as there are nodes in groups.
    outcome.hyper_nodes_at_open = lists_groups.then(|| shown.collect());
    outcome.hyper_nodes_ready = Some(groups.ready);
    outcome.cache_errors.clone_from(&groups.mistakes);
    outcome.allocated_hyper_nodes_at_open = Some(groups_of_jobs(snapshot));
}

/// The groups of the placed pods of all jobs with a network topology.
pub(super) fn groups_of_jobs(snapshot: &Snapshot) -> BTreeMap<String, JobGroupOutcome> {
    let name = |id: HyperNodeId| snapshot.hyper_nodes.at(id).name.to_string();
    let jobs = snapshot.live_jobs().filter_map(|(_, job)| {
        let network = job.network.as_ref()?;
        let parts = network.sub_jobs.iter();
        let parts = parts.filter_map(|part| Some((part.id.clone(), name(part.allocated?))));
        let outcome = JobGroupOutcome {
            job: network.allocated.map_or_else(String::new, name),
            sub_jobs: parts.collect(),
        };
        (outcome != JobGroupOutcome::default()).then(|| (job.key.to_string(), outcome))
    });
    jobs.collect()
}

/// After the last action.
pub(crate) fn report_actions(tx: &Transaction<'_>, outcome: &mut Outcome) {
    let key = |task: TaskId| tx.snapshot.tasks[task].key.to_string();
    outcome.queues_after = queue_outcomes(tx, false);
    let assigned = tx.plugins.all().find_map(Plugin::processors_assigned);
    outcome.numa_assigned = assigned.map(|assigned| {
        let assigned = assigned.into_iter().map(|(task, node, cpu)| {
            let node = tx.node_name(node).to_owned();
            (key(task), NumaAssignment { node, cpu })
        });
        assigned.collect()
    });
    let binds = tx.binds.iter();
    outcome.binds = binds
        .map(|(task, node)| (key(*task), tx.node_name(*node).to_owned()))
        .collect();
    let bindings = tx.binds.iter();
    outcome.bindings = bindings
        .map(|(task, node)| (tx.snapshot.tasks[*task].id.clone(), *node))
        .collect();
    outcome.bound = outcome.binds.keys().cloned().collect();
    let evicted = tx.evicted.iter();
    outcome.evicted = evicted
        .map(|(task, kind)| Eviction {
            pod: key(*task),
            reason: *kind,
            id: tx.snapshot.tasks[*task].id.clone(),
        })
        .collect();
    outcome.evicted.sort_unstable();
    let jobs = tx.snapshot.live_jobs();
    for index in jobs.flat_map(|(_, job)| job.tasks.iter().copied()) {
        let task = &tx.snapshot.tasks[index];
        let Some(node) = task.node else { continue };
        let name = tx.node_name(node);
        match task.status {
            Status::Pipelined => {
                outcome.pipelined.insert(key(index), name.to_owned());
            }
            Status::Allocated => {
                outcome
                    .allocated_not_bound
                    .push(format!("{} -> {name}", task.key));
            }
            _ => {}
        }
    }
    outcome.allocated_not_bound.sort_unstable();
}

/// The amounts that queues' tasks hold, for the status of the queues.
pub(super) fn report_queues(snapshot: &Snapshot, outcome: &mut Outcome) {
    let mut allocated = vec![Resource::default(); snapshot.queues.len()];
    // Without the queue above all others nothing is summed up.
    let top = snapshot
        .live_queues()
        .any(|(_, queue)| &*queue.name == ROOT);
    for (_, job) in snapshot.live_jobs() {
        let mut queue = Some(job.queue);
        // The root is at most so many steps away, unless the parents form a circle.
        for _ in snapshot.queue_ids() {
            let Some(at) = queue else { break };
            allocated[at].add(&job.allocated);
            let parent = snapshot.queues[at].parent;
            queue = parent.filter(|parent| top && *parent != at);
        }
    }
    for (index, queue) in snapshot.live_queues() {
        let held = &allocated[index];
        let amounts = held
            .iter()
            .filter(|(dim, amount)| *amount != 0.0 || matches!(*dim, Dim::CPU | Dim::MEMORY));
        let amounts = amounts.map(|(dim, amount)| {
            let name = snapshot.dims.name(dim);
            (name.to_owned(), quantity(name, amount).to_string())
        });
        let amounts: BTreeMap<String, String> = amounts.collect();
        outcome
            .queue_allocated
            .insert(queue.name.to_string(), amounts);
    }
}

fn amounts(snapshot: &Snapshot, resource: &Resource) -> Amounts {
    let amounts = resource.iter();
    amounts
        .map(|(dim, amount)| (snapshot.dims.name(dim).to_owned(), Amount(amount)))
        .collect()
}

/// Queues' shares, if a plugin shares by queue.
fn queue_outcomes(tx: &Transaction<'_>, all: bool) -> Option<BTreeMap<String, QueueOutcome>> {
    let names = [PluginName::Capacity, PluginName::Proportion];
    let shares = tx.plugins.shares_of(names)?;
    let queues = tx.snapshot.queues.iter().zip(&shares.queues);
    let outcomes = queues.filter_map(|(queue, share)| {
        Some((
            queue.name.to_string(),
            queue_outcome(&tx.snapshot, share.as_ref()?, all),
        ))
    });
    Some(outcomes.collect())
}

/// The tree of queues, if plugin capacity uses one.
fn queue_tree(tx: &Transaction<'_>) -> Option<BTreeMap<String, QueueTreeOutcome>> {
    let plugin = tx.plugins.get(PluginName::Capacity)?;
    let (tree, shares) = plugin.queue_tree().zip(plugin.queue_shares())?;
    let names = |queues: &[QueueId]| {
        let names = queues
            .iter()
            .map(|queue| tx.snapshot.queues[*queue].name.to_string());
        names.collect::<Vec<String>>()
    };
    let queues = tx.snapshot.live_queues().filter_map(|(id, queue)| {
        let share = shares.of(id)?;
        let outcome = QueueTreeOutcome {
            ancestors: names(&tree.ancestors[id]),
            capability: amounts(&tx.snapshot, &share.capability),
            children: names(&tree.children[id]),
            guarantee: amounts(&tx.snapshot, &share.guarantee),
        };
        Some((queue.name.to_string(), outcome))
    });
    Some(queues.collect())
}

/// The free amounts of reserved nodes.
pub(crate) fn reserved_free(session: &Session<'_>) -> Option<Amounts> {
    let reservation = session.reservation.as_ref()?;
    let snapshot = &session.tx.snapshot;
    let mut free = Resource::default();
    let nodes = snapshot.nodes.iter().zip(&reservation.nodes);
    nodes
        .filter(|(_, reserved)| **reserved)
        .for_each(|(node, _)| free.add(&node.idle));
    Some(amounts(snapshot, &free))
}

fn queue_outcome(snapshot: &Snapshot, share: &QueueShare, all: bool) -> QueueOutcome {
    let if_all = |resource: &Resource| all.then(|| amounts(snapshot, resource));
    QueueOutcome {
        allocated: amounts(snapshot, &share.allocated),
        deserved: if_all(&share.deserved),
        elastic: if_all(&share.elastic),
        inqueue: amounts(snapshot, &share.inqueue),
        real_capability: if_all(&share.real_capability),
        request: if_all(&share.request),
        share: share.share,
    }
}
