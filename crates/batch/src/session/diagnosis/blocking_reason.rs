//! Why a job gets no room at all: it is not enqueued, its queue is at its share, or it has too few pods.

use super::written;
use crate::conf::PluginName;
use crate::session::Session;
use crate::session::plugins::Tiers;
use crate::session::plugins::{LimitingKey, QueueShare};
use crate::session::priority_queue::PriorityQueue;
use crate::session::reservation;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, Resource, Unnamed};
use crate::session::snapshot::task::Status;
use crate::session::transaction::Transaction;
use evictd_pod::Quantity;
use serde::Serialize;

/// Why a job gets no room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum BlockingReason {
    /// Its queue, or one above it, is closed.
    Closed {
        /// That queue.
        queue: String,
    },
    /// It is not enqueued, or its queue takes no jobs.
    #[serde(rename = "notLetIn")]
    NotEnqueued {
        /// The plugin that objects.
        plugin: &'static str,
        /// In its words.
        words: String,
        /// The exceeded resources.
        lacks: Vec<Shortfall>,
        /// The key of a queue that is the limit.
        #[serde(rename = "limitedBy", skip_serializing_if = "Option::is_none")]
        limited_by: Option<LimitingKey>,
    },
    /// Its queue holds all that it deserves, so that none of its jobs is looked at.
    ShareUsed {
        /// For each resource that the job requests: `wanted` is allocated to the queue, `limit` is deserved.
        lacks: Vec<Shortfall>,
    },
    /// It has fewer pods than its gang needs.
    TooFewPods {
        /// In the session's words.
        words: String,
    },
    /// Its queue may not have more.
    Limit {
        /// The plugin that says so.
        plugin: &'static str,
        /// How many of its pods that wait the queue may still have.
        allowed: usize,
        /// The resources exceeded by the pods that it needs to start.
        lacks: Vec<Shortfall>,
        /// The key of a queue that is the limit.
        #[serde(rename = "limitedBy", skip_serializing_if = "Option::is_none")]
        limited_by: Option<LimitingKey>,
    },
}

/// More of a resource is wanted than there may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shortfall {
    /// The resource.
    pub resource: String,
    /// The allocated or promised amount.
    pub held: Quantity,
    /// The sum with the request.
    pub wanted: Quantity,
    /// The limit.
    pub limit: Quantity,
}

/// Why a pending job is not enqueued.
pub(super) fn not_enqueued_because(session: &Session<'_>, job_id: JobId) -> Option<BlockingReason> {
    let job = &session.tx.snapshot.jobs[job_id];
    if !job.is_pending() {
        return None;
    }
    let objection = job.min_resources.as_ref().and_then(|need| {
        let (plugin, words) = reservation::objection(session, job_id, need)?;
        Some((need, plugin, words))
    });
    let Some((need, plugin, words)) = objection else {
        let words = job.not_enqueued_because.clone()?;
        let (plugin, lacks) = ("placement", Vec::new());
        return Some(BlockingReason::NotEnqueued {
            plugin,
            words,
            lacks,
            limited_by: None,
        });
    };
    // Plugins object without words to a closed queue only.
    if words.is_empty() {
        return Some(closed(&session.tx, job.queue));
    }
    let objecting = session.tx.plugins.get(plugin);
    let above = objecting.and_then(|plugin| plugin.closed_above(&session.tx.snapshot, job.queue));
    if let Some(above) = above {
        return Some(closed(&session.tx, above));
    }
    // A limit that is always exceeded is reported before one that depends on other jobs.
    if let Some((plugin, (lacks, limited_by))) = beyond_queue(&session.tx, job.queue, need) {
        return Some(BlockingReason::NotEnqueued {
            plugin: plugin.as_str(),
            words,
            lacks,
            limited_by: Some(limited_by),
        });
    }
    let limit = objecting.and_then(|plugin| plugin.cluster_limit(need));
    let (lacks, limited_by) = if let Some((promised, limit)) = limit {
        let lacks = lacks(&session.tx.snapshot, (&promised, limit), need);
        (lacks, None)
    } else {
        let with_job = |share: &QueueShare| share.with_job(need);
        match exceeded(&session.tx, (plugin, job.queue), with_job, need) {
            Some((lacks, limited_by)) => (lacks, Some(limited_by)),
            None => (Vec::new(), None),
        }
    };
    Some(BlockingReason::NotEnqueued {
        plugin: plugin.as_str(),
        words,
        lacks,
        limited_by,
    })
}

fn closed(tx: &Transaction<'_>, queue: QueueId) -> BlockingReason {
    let queue = tx.snapshot.queues[queue].name.to_string();
    BlockingReason::Closed { queue }
}

/// The resources that an amount exceeds in a queue, or in the nearest queue above it, and the limiting key. The amount is
/// computed from the share.
fn exceeded(
    tx: &Transaction<'_>,
    (plugin, queue): (PluginName, QueueId),
    amount: impl Fn(&QueueShare) -> Resource,
    need: &Resource,
) -> Option<(Vec<Shortfall>, LimitingKey)> {
    let shares = tx.plugins.get(plugin)?.queue_shares()?;
    shares.path(queue).find_map(|(at, share)| {
        let amount = amount(share);
        let first = amount.exceeded(&share.real_capability, need).next()?;
        let key = shares.limiting_key(&tx.snapshot, at, first);
        let amounts = (&amount, &share.real_capability);
        Some((lacks(&tx.snapshot, amounts, need), key))
    })
}

/// The shortfall of a queue that could not hold a request even if it were empty, although the cluster could.
fn beyond_queue(
    tx: &Transaction<'_>,
    queue: QueueId,
    need: &Resource,
) -> Option<(PluginName, (Vec<Shortfall>, LimitingKey))> {
    if !need.within_for(&tx.snapshot.total, need) {
        return None;
    }
    let plugins = [PluginName::Proportion, PluginName::Capacity];
    plugins.into_iter().find_map(|plugin| {
        let found = exceeded(tx, (plugin, queue), |_| need.clone(), need)?;
        Some((plugin, found))
    })
}

/// Whether the queue of a job that waits for room has had its share.
pub(super) fn share_used(tx: &Transaction<'_>, job: JobId) -> Option<BlockingReason> {
    let job = &tx.snapshot.jobs[job];
    if job.is_pending() || job.count(Status::Pending) == 0 || !tx.tiers().is_overused(job.queue) {
        return None;
    }
    let share = share_by(tx, PluginName::Proportion, job.queue)?;
    let asked = job
        .total_request
        .some()
        .filter(|(dim, _)| *dim != Dim::PODS);
    let nothing = Resource::default();
    // One that lends of its part has not had it.
    // Its queue is overused only by the reduced share.
    if !share.entitled().within(&share.allocated, Unnamed::Zero) {
        return None;
    }
    let amounts = (&share.allocated, &share.deserved);
    let lacks = asked.map(|(dim, _)| shortfall(&tx.snapshot, dim, amounts, &nothing));
    Some(BlockingReason::ShareUsed {
        lacks: lacks.collect(),
    })
}

/// Whether a job has too few pods for its gang.
pub(super) fn too_few(tiers: Tiers<'_>, job_id: JobId) -> Option<BlockingReason> {
    let job = &tiers.snapshot.jobs[job_id];
    // The pods of a pending job need not exist yet.
    let words = tiers.invalid(job_id).filter(|_| !job.is_pending())?.message;
    Some(BlockingReason::TooFewPods { words })
}

/// Whether a job's queue may not have all of its pods that wait.
pub(super) fn limited(session: &mut Session<'_>, job_id: JobId) -> Option<BlockingReason> {
    let job = &session.tx.snapshot.jobs[job_id];
    let queue = job.queue;
    if job.is_pending() {
        return None;
    }
    if let Some(words) = session.tx.plugins.no_place(&session.tx.snapshot, queue) {
        return Some(BlockingReason::NotEnqueued {
            plugin: PluginName::Capacity.as_str(),
            words,
            lacks: Vec::new(),
            limited_by: None,
        });
    }
    let missing = usize::try_from(job.min_member.saturating_sub(job.ready())).unwrap_or(0);
    let tasks = in_order(session, job_id);
    let mut had = Vec::new();
    for task in &tasks {
        if reservation::is_allocatable(session, queue, *task) {
            session.tx.plugins.allocated(&session.tx.snapshot, *task);
            // The tasks are counted one beside the other, and taken back below.
            had.push(*task);
        }
    }
    let allowed = had.len();
    for task in had {
        session.tx.plugins.deallocated(&session.tx.snapshot, task);
    }
    // The queue is not the limit.
    if allowed == tasks.len() {
        return None;
    }
    if !session.tx.snapshot.queues[queue].open {
        return Some(closed(&session.tx, queue));
    }
    let mut need = Resource::default();
    for task in tasks.iter().take(missing.max(allowed + 1)) {
        need.add(&session.tx.snapshot.tasks[*task].request);
    }
    let (plugin, lacks, limited_by) = limit(&session.tx, queue, &need);
    Some(BlockingReason::Limit {
        plugin: plugin.as_str(),
        allowed,
        lacks,
        limited_by,
    })
}

/// The limit that a request exceeds in a queue or above it, by the first plugin.
fn limit(
    tx: &Transaction<'_>,
    queue: QueueId,
    need: &Resource,
) -> (PluginName, Vec<Shortfall>, Option<LimitingKey>) {
    for plugin in [PluginName::Capacity, PluginName::Proportion] {
        let key = exceeded(tx, (plugin, queue), |share| share.with(need), need);
        if plugin == PluginName::Proportion {
            // It gives no more than the deserved share, which is the narrower limit.
            let Some(share) = share_by(tx, plugin, queue) else {
                continue;
            };
            let lacks = lacks(&tx.snapshot, (&share.with(need), share.entitled()), need);
            if !lacks.is_empty() {
                return (plugin, lacks, key.map(|(_, key)| key));
            }
        } else if let Some((lacks, key)) = key {
            return (plugin, lacks, Some(key));
        }
    }
    (PluginName::Capacity, Vec::new(), None)
}

/// The tasks of a job that wait for room, in their order.
pub(super) fn in_order(session: &Session<'_>, job: JobId) -> Vec<TaskId> {
    let before = |one: TaskId, other: TaskId| session.tx.tiers().task_before(one, other);
    let mut waiting = PriorityQueue::default();
    for task in session.tx.snapshot.tasks_of(job, Status::Pending) {
        if !session.tx.snapshot.tasks[task].gated {
            waiting.push(task, before);
        }
    }
    std::iter::from_fn(|| waiting.pop(before)).collect()
}

/// A queue's share in a plugin.
pub(super) fn share_by<'s>(
    tx: &'s Transaction<'_>,
    plugin: PluginName,
    queue: QueueId,
) -> Option<&'s QueueShare> {
    let plugin = tx.plugins.get(plugin)?;
    plugin.queue_shares()?.of(queue)
}

fn lacks(snapshot: &Snapshot, amounts: (&Resource, &Resource), need: &Resource) -> Vec<Shortfall> {
    let exceeded = amounts.0.exceeded(amounts.1, need);
    exceeded
        .map(|dim| shortfall(snapshot, dim, amounts, need))
        .collect()
}

/// The shortfall of one resource, with and without a request.
fn shortfall(
    snapshot: &Snapshot,
    dim: Dim,
    (wanted, limit): (&Resource, &Resource),
    need: &Resource,
) -> Shortfall {
    let name = snapshot.dims.name(dim);
    Shortfall {
        resource: name.to_owned(),
        held: written(name, wanted.get(dim) - need.get(dim)),
        wanted: written(name, wanted.get(dim)),
        limit: written(name, limit.get(dim)),
    }
}
