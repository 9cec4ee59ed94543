//! What keeps a job from getting room at all: it is not let in, its queue holds its share, or it has too few pods.

use super::written;
use crate::conf::PluginName;
use crate::session::Session;
use crate::session::order::Waiting;
use crate::session::plugins::QueueShare;
use crate::session::resource::{Dim, Resource, Unnamed};
use crate::session::task::Status;
use evictd_pod::Quantity;
use serde::Serialize;

/// Something that keeps a job from getting room.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "camelCase")]
pub enum Hold {
    /// Its queue is closed.
    Closed,
    /// It is not let in.
    NotLetIn {
        /// The plugin that objects.
        plugin: &'static str,
        /// In its words.
        words: String,
        /// What is too much.
        lacks: Vec<Lack>,
    },
    /// Its queue holds all that it deserves, so that none of its jobs is looked at.
    ShareUsed {
        /// Of each resource that the job asks for: `wanted` is what the queue holds, `limit` what it deserves.
        lacks: Vec<Lack>,
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
        /// What is too much with those that it needs to start.
        lacks: Vec<Lack>,
    },
}

/// More of a resource is wanted than there may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lack {
    /// The resource.
    pub resource: String,
    /// What there is, or was promised.
    pub held: Quantity,
    /// What there would be in all.
    pub wanted: Quantity,
    /// What there may be.
    pub limit: Quantity,
}

impl Session<'_> {
    /// Why a job that waits to be let in is not.
    pub(super) fn kept_out(&self, job: usize) -> Option<Hold> {
        let own = &self.model.jobs[job];
        if !own.is_pending() {
            return None;
        }
        let objection = own.min_resources.as_ref().and_then(|need| {
            let (plugin, words) = self.objection(job, need)?;
            Some((need, plugin, words))
        });
        let Some((need, plugin, words)) = objection else {
            let words = own.kept_out.clone()?;
            let (plugin, lacks) = ("placement", Vec::new());
            return Some(Hold::NotLetIn {
                plugin,
                words,
                lacks,
            });
        };
        if words.is_empty() {
            return Some(Hold::Closed);
        }
        // What will never change by itself is told rather than what others hold now.
        if let Some((plugin, lacks)) = self.beyond_queue(own.queue, need) {
            return Some(Hold::NotLetIn {
                plugin: plugin.as_str(),
                words,
                lacks,
            });
        }
        let overcommit = self.plugins.overcommit.as_ref();
        let overcommit = overcommit.filter(|_| plugin == PluginName::Overcommit);
        let lacks = match (overcommit, self.share_by(plugin, own.queue)) {
            (Some(own), _) => self.lacks((&own.with(need), own.limit()), need),
            (None, Some(share)) => {
                self.lacks((&share.with_job(need), &share.real_capability), need)
            }
            (None, None) => Vec::new(),
        };
        let plugin = plugin.as_str();
        Some(Hold::NotLetIn {
            plugin,
            words,
            lacks,
        })
    }

    /// What a queue may not even hold of a need when it holds nothing else, though the cluster has so much.
    fn beyond_queue(&self, queue: usize, need: &Resource) -> Option<(PluginName, Vec<Lack>)> {
        let plugins = [PluginName::Proportion, PluginName::Capacity];
        plugins.into_iter().find_map(|plugin| {
            let share = self.share_by(plugin, queue)?;
            let in_cluster = need.within_for(&self.model.total, need);
            let beyond = in_cluster && !need.within_for(&share.real_capability, need);
            beyond.then(|| (plugin, self.lacks((need, &share.real_capability), need)))
        })
    }

    /// Whether the queue of a job that waits for room has had its share.
    pub(super) fn share_used(&self, job: usize) -> Option<Hold> {
        let own = &self.model.jobs[job];
        if own.is_pending() || own.count(Status::Pending) == 0 || !self.is_overused(own.queue) {
            return None;
        }
        let share = self.share_by(PluginName::Proportion, own.queue)?;
        let asked = own
            .total_request
            .some()
            .filter(|(dim, _)| *dim != Dim::PODS);
        let nothing = Resource::default();
        // One that lends of its part has not had it.
        if !share.entitled().within(&share.allocated, Unnamed::Zero) {
            return None;
        }
        let amounts = (&share.allocated, &share.deserved);
        let lacks = asked.map(|(dim, _)| self.lack(dim, amounts, &nothing));
        Some(Hold::ShareUsed {
            lacks: lacks.collect(),
        })
    }

    /// Whether a job has too few pods for its gang.
    pub(super) fn too_few(&self, job: usize) -> Option<Hold> {
        let own = &self.model.jobs[job];
        // The pods of one that is not let in need not have been made.
        let words = self.invalid(job).filter(|_| !own.is_pending())?.message;
        Some(Hold::TooFewPods { words })
    }

    /// Whether a job's queue may not have all of its pods that wait.
    pub(super) fn limited(&mut self, job: usize) -> Option<Hold> {
        let own = &self.model.jobs[job];
        let queue = own.queue;
        if own.is_pending() {
            return None;
        }
        let missing = usize::try_from(own.min_member.saturating_sub(own.ready())).unwrap_or(0);
        let tasks = self.in_order(job);
        let mut had = Vec::new();
        for task in &tasks {
            if self.is_allocatable(queue, *task) {
                self.plugins.allocated(&self.model, *task);
                had.push(*task);
            }
        }
        let allowed = had.len();
        for task in had {
            self.plugins.deallocated(&self.model, task);
        }
        if allowed == tasks.len() {
            return None;
        }
        if !self.model.queues[queue].open {
            return Some(Hold::Closed);
        }
        let mut need = Resource::default();
        for task in tasks.iter().take(missing.max(allowed + 1)) {
            need.add(&self.model.tasks[*task].request);
        }
        let (plugin, lacks) = self.limit(queue, &need);
        Some(Hold::Limit {
            plugin: plugin.as_str(),
            allowed,
            lacks,
        })
    }

    /// What of a queue's limit so much more exceeds.
    fn limit(&self, queue: usize, need: &Resource) -> (PluginName, Vec<Lack>) {
        for plugin in [PluginName::Capacity, PluginName::Proportion] {
            let Some(share) = self.share_by(plugin, queue) else {
                continue;
            };
            let limit = match plugin {
                PluginName::Capacity => &share.real_capability,
                _ => share.entitled(),
            };
            let lacks = self.lacks((&share.with(need), limit), need);
            if !lacks.is_empty() {
                return (plugin, lacks);
            }
        }
        (PluginName::Capacity, Vec::new())
    }

    /// The tasks of a job that wait for room, in their order.
    pub(super) fn in_order(&self, job: usize) -> Vec<usize> {
        let before = |one: usize, other: usize| self.task_before(one, other);
        let mut waiting = Waiting::default();
        for task in self.model.tasks_of(job, Status::Pending) {
            if !self.model.tasks[task].gated {
                waiting.push(task, before);
            }
        }
        std::iter::from_fn(|| waiting.pop(before)).collect()
    }

    /// What a plugin knows of a queue's share.
    pub(super) fn share_by(&self, plugin: PluginName, queue: usize) -> Option<&QueueShare> {
        let shares = match plugin {
            PluginName::Proportion => self.plugins.proportion.as_ref().map(|own| &own.shares),
            PluginName::Capacity => self.plugins.capacity.as_ref().map(|own| &own.shares),
            _ => None,
        };
        shares?.of(queue)
    }

    fn lacks(&self, amounts: (&Resource, &Resource), need: &Resource) -> Vec<Lack> {
        let exceeded = amounts.0.exceeded(amounts.1, need);
        exceeded.map(|dim| self.lack(dim, amounts, need)).collect()
    }

    /// What is wanted and what there may be, with and without a need.
    fn lack(&self, dim: Dim, (wanted, limit): (&Resource, &Resource), need: &Resource) -> Lack {
        let name = self.model.dims.name(dim);
        Lack {
            resource: name.to_owned(),
            held: written(name, wanted.get(dim) - need.get(dim)),
            wanted: written(name, wanted.get(dim)),
            limit: written(name, limit.get(dim)),
        }
    }
}
