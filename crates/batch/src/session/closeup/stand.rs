//! Where a queue stands: what it holds, wants, deserves and may have.

use super::written;
use crate::conf::PluginName;
use crate::session::Session;
use crate::session::model::Queue;
use crate::session::plugins::QueueShare;
use crate::session::resource::{Dim, EPSILON, Resource};
use crate::session::task::Status;
use evictd_pod::Quantity;
use serde::Serialize;

/// A queue.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct QueueStand {
    /// Its name.
    pub name: String,
    /// Whether it is open.
    pub open: bool,
    /// Its state, as it is stored.
    pub state: String,
    /// Its weight beside the others'.
    pub weight: f64,
    /// The higher comes first.
    pub priority: i32,
    /// The plugin that gives it its share; absent where none does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub plugin: Option<&'static str>,
    /// The largest part of what it deserves that it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub share: Option<f64>,
    /// Its jobs of which pods hold room.
    pub running: usize,
    /// Its amounts by resource.
    pub resources: Vec<Stand>,
}

/// A queue's amounts of a resource.
#[derive(Debug, Clone, Serialize)]
pub struct Stand {
    /// The resource.
    pub resource: String,
    /// What its pods hold.
    pub allocated: Quantity,
    /// What it deserves.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deserved: Option<Quantity>,
    /// The most that it may have.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capability: Option<Quantity>,
    /// Whether its own capability says so, and not what the cluster has.
    pub capped: bool,
    /// What its pods hold and wait for.
    pub request: Quantity,
    /// What its jobs that were let in were promised and do not hold yet.
    pub promised: Quantity,
}

impl Session<'_> {
    /// A queue as it is now.
    pub(super) fn stand_of(&self, queue: usize) -> QueueStand {
        let own = &self.model.queues[queue];
        let plugins = [PluginName::Capacity, PluginName::Proportion].into_iter();
        let mut shares = plugins.filter_map(|plugin| Some((plugin, self.share_by(plugin, queue)?)));
        let by = shares.next();
        let jobs = self.model.live_jobs();
        let running = jobs.filter(|(_, job)| job.queue == queue && job.allocated_tasks() > 0);
        let resources = match by {
            Some((_, share)) => self.stands(own, share, true),
            None => self.stands(own, &self.summed(queue), false),
        };
        QueueStand {
            name: own.name.to_string(),
            open: own.open,
            state: String::new(),
            weight: own.weight,
            priority: own.priority,
            plugin: by.map(|(plugin, _)| plugin.as_str()),
            share: by.map(|(_, share)| share.share),
            running: running.count(),
            resources,
        }
    }

    /// What a queue holds and wants, where no plugin keeps count.
    fn summed(&self, queue: usize) -> QueueShare {
        let mut sum = QueueShare::default();
        for (index, job) in self.model.live_jobs().filter(|(_, job)| job.queue == queue) {
            sum.allocated.add(&job.allocated);
            sum.request.add(&job.allocated);
            for task in self.model.tasks_of(index, Status::Pending) {
                sum.request.add(&self.model.tasks[task].request);
            }
        }
        sum
    }

    fn stands(&self, queue: &Queue, share: &QueueShare, shared: bool) -> Vec<Stand> {
        let mut dims: Vec<Dim> = Vec::new();
        for amounts in [&share.request, &share.allocated, &share.inqueue] {
            let some = amounts.iter().filter(|(_, amount)| *amount >= EPSILON);
            dims.extend(some.map(|(dim, _)| dim));
        }
        dims.sort_unstable();
        dims.dedup();
        let stand = |dim: Dim| {
            let name = self.model.dims.name(dim);
            let amount = |amounts: &Resource| written(name, amounts.get(dim));
            let limit = |limit: &Resource| {
                let limit = limit.named(dim).filter(|own| shared && *own < f64::MAX);
                limit.map(|own| written(name, own))
            };
            Stand {
                resource: name.to_owned(),
                allocated: amount(&share.allocated),
                deserved: limit(share.entitled()),
                capability: limit(&share.real_capability),
                capped: queue.capability.as_ref().is_some_and(|own| {
                    own.get(dim) > 0.0 && own.get(dim) <= share.real_capability.get(dim)
                }),
                request: amount(&share.request),
                promised: amount(&share.inqueue),
            }
        };
        dims.into_iter().map(stand).collect()
    }
}
