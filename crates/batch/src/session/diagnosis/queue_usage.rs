//! The usage of a queue: allocated, requested, deserved and the capability.

use super::written;
use crate::conf::PluginName;
use crate::session::diagnosis::blocking_reason;
use crate::session::plugins::QueueShare;
use crate::session::snapshot::Queue;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::QueueId;
use crate::session::snapshot::resource::{Dim, EPSILON, Resource};
use crate::session::snapshot::task::Status;
use crate::session::transaction::Transaction;
use evictd_pod::Quantity;
use serde::Serialize;

/// A queue.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueUsage {
    /// Its name.
    pub name: String,
    /// Whether it is open.
    pub open: bool,
    /// Its state, as it is stored.
    pub state: String,
    /// Its weight.
    pub weight: f64,
    /// Its priority.
    pub priority: i32,
    /// The plugin that gives it its share; absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<&'static str>,
    /// The largest part of its deserved share that is allocated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// The number of its jobs with allocated pods.
    pub running: usize,
    /// Its amounts by resource.
    pub resources: Vec<ResourceUsage>,
}

/// A queue's amounts of a resource.
#[derive(Debug, Clone, Serialize)]
pub struct ResourceUsage {
    /// The resource.
    pub resource: String,
    /// The amount that its pods hold.
    pub allocated: Quantity,
    /// The deserved amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<Quantity>,
    /// The part of the deserved amount that other queues lend. No pod is evicted for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lent: Option<Quantity>,
    /// The most that it may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<Quantity>,
    /// Whether its own capability is the limit, and not the size of the cluster.
    pub capped: bool,
    /// The amount that its pods hold or wait for.
    pub request: Quantity,
    /// The inqueue amount: promised to enqueued jobs and not allocated yet.
    pub promised: Quantity,
}

/// A queue as it is now.
pub(super) fn queue_usage(tx: &Transaction<'_>, queue_id: QueueId) -> QueueUsage {
    let queue = &tx.snapshot.queues[queue_id];
    let plugins = [PluginName::Capacity, PluginName::Proportion].into_iter();
    let mut shares = plugins
        .filter_map(|plugin| Some((plugin, blocking_reason::share_by(tx, plugin, queue_id)?)));
    let by = shares.next();
    let jobs = tx.snapshot.live_jobs();
    let running = jobs.filter(|(_, job)| job.queue == queue_id && job.allocated_tasks() > 0);
    let resources = match by {
        Some((_, share)) => usages(&tx.snapshot, queue, share, true),
        None => usages(&tx.snapshot, queue, &summed(&tx.snapshot, queue_id), false),
    };
    QueueUsage {
        name: queue.name.to_string(),
        open: queue.open,
        state: String::new(),
        weight: queue.weight,
        priority: queue.priority,
        plugin: by.map(|(plugin, _)| plugin.as_str()),
        share: by.map(|(_, share)| share.share),
        running: running.count(),
        resources,
    }
}

/// A queue's share where no plugin keeps one.
fn summed(snapshot: &Snapshot, queue: QueueId) -> QueueShare {
    let mut sum = QueueShare::default();
    for (index, job) in snapshot.live_jobs().filter(|(_, job)| job.queue == queue) {
        sum.allocated.add(&job.allocated);
        sum.request.add(&job.allocated);
        for task in snapshot.tasks_of(index, Status::Pending) {
            sum.request.add(&snapshot.tasks[task].request);
        }
    }
    sum
}

fn usages(
    snapshot: &Snapshot,
    queue: &Queue,
    share: &QueueShare,
    shared: bool,
) -> Vec<ResourceUsage> {
    let mut dims: Vec<Dim> = Vec::new();
    for amounts in [&share.request, &share.allocated, &share.inqueue] {
        let some = amounts.iter().filter(|(_, amount)| *amount >= EPSILON);
        dims.extend(some.map(|(dim, _)| dim));
    }
    dims.sort_unstable();
    dims.dedup();
    let usage = |dim: Dim| {
        let name = snapshot.dims.name(dim);
        let amount = |amounts: &Resource| written(name, amounts.get(dim));
        let limit = |limit: &Resource| {
            let limit = limit
                .named(dim)
                .filter(|amount| shared && *amount < f64::MAX);
            limit.map(|amount| written(name, amount))
        };
        ResourceUsage {
            resource: name.to_owned(),
            allocated: amount(&share.allocated),
            deserved: limit(share.entitled()),
            lent: Some(share.lent.get(dim))
                .filter(|lent| dim != Dim::PODS && *lent >= EPSILON)
                .map(|lent| written(name, lent)),
            capability: limit(&share.real_capability),
            capped: queue.capability.as_ref().is_some_and(|capability| {
                // The real capability is also bounded by the cluster and by the guarantees of others.
                capability.get(dim) > 0.0 && capability.get(dim) <= share.real_capability.get(dim)
            }),
            request: amount(&share.request),
            promised: amount(&share.inqueue),
        }
    };
    dims.into_iter().map(usage).collect()
}
