//! Questions to plugins, tier by tier: whose answer counts, and when the next tier is asked (S6-097 to S6-102).

mod enqueue;
mod order_check;
mod victims;

pub(crate) use order_check::Lost;
pub(crate) use victims::EvictionKind;

use super::Session;
use super::snapshot::Job;
use super::task::{Status, Task};
use crate::compat::Difference;
use crate::conf::{Plugin, PluginName, Switch};
use std::cmp::Ordering;

/// A plugin's vote on whether a job may be enqueued, or is pipelined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vote {
    Abstain,
    Permit,
    Reject,
}

/// Why a job is not taken up (S6-120).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

fn bool_order(first: bool, other: bool) -> Ordering {
    // True comes first.
    other.cmp(&first)
}

impl Session<'_> {
    /// The plugins that take part at a point, tier by tier.
    pub(crate) fn at(&self, switch: Switch) -> impl Iterator<Item = impl Iterator<Item = &Plugin>> {
        let tiers = self.conf.tiers.iter();
        tiers.map(move |tier| tier.iter().filter(move |plugin| plugin.at(switch)))
    }

    fn first_order(
        &self,
        switch: Switch,
        compare: impl Fn(&Plugin) -> Ordering,
    ) -> Option<Ordering> {
        self.deciding(switch, compare).map(|(_, order)| order)
    }

    /// The first plugin that orders two items, and its order.
    fn deciding(
        &self,
        switch: Switch,
        compare: impl Fn(&Plugin) -> Ordering,
    ) -> Option<(PluginName, Ordering)> {
        let plugins = self.at(switch).flatten();
        let mut orders = plugins.map(|plugin| (plugin.name, compare(plugin)));
        orders.find(|(_, order)| order.is_ne())
    }

    /// Whether one job comes before another.
    pub(crate) fn job_before(&self, one: usize, other: usize) -> bool {
        let (left, right) = (&self.snapshot.jobs[one], &self.snapshot.jobs[other]);
        let order = self.job_order(one, other).unwrap_or_else(|| {
            let created = left.created.cmp(&right.created);
            created.then_with(|| left.key.cmp(&right.key))
        });
        order.is_lt()
    }

    /// The order of two jobs by plugins.
    fn job_order(&self, one: usize, other: usize) -> Option<Ordering> {
        self.job_rule(one, other).map(|(_, order)| order)
    }

    /// Whether a gang runs in part and comes first for that.
    pub(crate) fn is_broken(&self, job: &Job) -> bool {
        self.compat.has(Difference::BrokenGangsFirst)
            && job.count(Status::Running) > 0
            && job.ready() < job.min_member
    }

    /// The plugin that decides the order of two jobs, and how; none where only their age and their names do.
    pub(crate) fn job_rule(&self, one: usize, other: usize) -> Option<(PluginName, Ordering)> {
        let (left, right) = (&self.snapshot.jobs[one], &self.snapshot.jobs[other]);
        self.deciding(Switch::JobOrder, |plugin| match plugin.name {
            PluginName::Priority => right.priority.cmp(&left.priority),
            PluginName::Gang => bool_order(self.is_broken(left), self.is_broken(right))
                .then_with(|| bool_order(!left.is_ready(), !right.is_ready())),
            PluginName::Drf => self.plugins.drf.as_ref().map_or(Ordering::Equal, |drf| {
                let namespaces = drf.compare_namespaces(&self.snapshot, one, other);
                namespaces.then_with(|| drf.share(one).total_cmp(&drf.share(other)))
            }),
            _ => Ordering::Equal,
        })
    }

    /// Whether one task comes before another of its job.
    pub(crate) fn task_before(&self, one: usize, other: usize) -> bool {
        let (left, right) = (&self.snapshot.tasks[one], &self.snapshot.tasks[other]);
        let order = self.first_order(Switch::TaskOrder, |plugin| match plugin.name {
            PluginName::Priority => right.priority.cmp(&left.priority),
            _ => Ordering::Equal,
        });
        order
            .unwrap_or_else(|| default_task_order(left, right))
            .is_lt()
    }

    /// Whether one queue comes before another.
    pub(crate) fn queue_before(&self, one: usize, other: usize) -> bool {
        let (left, right) = (&self.snapshot.queues[one], &self.snapshot.queues[other]);
        let by_priority = || right.priority.cmp(&left.priority);
        let order = self.first_order(Switch::QueueOrder, |plugin| match plugin.name {
            PluginName::Proportion => {
                self.plugins
                    .proportion
                    .as_ref()
                    .map_or(Ordering::Equal, |proportion| {
                        let share = |queue| proportion.shares.share(queue);
                        by_priority().then_with(|| share(one).total_cmp(&share(other)))
                    })
            }
            PluginName::Capacity => {
                self.plugins
                    .capacity
                    .as_ref()
                    .map_or(Ordering::Equal, |capacity| {
                        let share = |queue| capacity.shares.share(queue);
                        let shares = || share(one).total_cmp(&share(other));
                        let deserving =
                            || bool_order(capacity.deserves(one), capacity.deserves(other));
                        by_priority().then_with(shares).then_with(deserving)
                    })
            }
            PluginName::Drf => self
                .plugins
                .drf
                .as_ref()
                .map_or(Ordering::Equal, |drf| drf.compare_queues(one, other)),
            _ => Ordering::Equal,
        });
        let order = order.unwrap_or_else(|| {
            let created = left.created.cmp(&right.created);
            created.then_with(|| left.name.cmp(&right.name))
        });
        order.is_lt()
    }

    /// Whether a queue has had its share: any plugin says so.
    pub(crate) fn is_overused(&self, queue: usize) -> bool {
        self.at(Switch::Overused).flatten().any(|plugin| {
            let proportion = self.plugins.proportion.as_ref();
            plugin.name == PluginName::Proportion
                && proportion.is_some_and(|proportion| proportion.is_overused(queue))
        })
    }

    /// Whether a queue may have a task more: all plugins say so.
    pub(crate) fn is_allocatable(&self, queue: usize, task: usize) -> bool {
        if !self.leaves_share(task) {
            return false;
        }
        let request = &self.snapshot.tasks[task].request;
        let open = self.snapshot.queues[queue].open;
        self.at(Switch::Allocatable)
            .flatten()
            .all(|plugin| match plugin.name {
                PluginName::Proportion => {
                    let proportion = self.plugins.proportion.as_ref();
                    open && proportion.is_none_or(|proportion| proportion.may_have(queue, request))
                }
                PluginName::Capacity => {
                    let capacity = self.plugins.capacity.as_ref();
                    open && capacity.is_none_or(|capacity| capacity.may_have(queue, request))
                }
                _ => true,
            })
    }

    /// Whether a queue may take room from others for a task: all plugins say so.
    pub(crate) fn is_preemptive(&self, queue: usize, task: usize) -> bool {
        let request = &self.snapshot.tasks[task].request;
        let open = self.snapshot.queues[queue].open;
        self.at(Switch::Preemptive)
            .flatten()
            .all(|plugin| match plugin.name {
                PluginName::Proportion => {
                    let proportion = self.plugins.proportion.as_ref();
                    open && proportion.is_none_or(|proportion| proportion.may_have(queue, request))
                }
                PluginName::Capacity => {
                    let capacity = self.plugins.capacity.as_ref();
                    open && capacity.is_none_or(|capacity| capacity.may_reclaim(queue, request))
                }
                _ => true,
            })
    }

    /// Whether a job has enough to start: all plugins say so.
    pub(crate) fn is_ready(&self, job: usize) -> bool {
        let mut plugins = self.at(Switch::JobReady).flatten();
        plugins.all(|plugin| plugin.name != PluginName::Gang || self.has_gang(job))
    }

    /// Whether a job's gang is complete, by number and by role.
    pub(crate) fn has_gang(&self, job: usize) -> bool {
        self.snapshot.jobs[job].is_ready() && self.snapshot.enough_by_role(job, Task::is_there)
    }

    /// Whether a job's gang will be complete after the pending evictions.
    pub(crate) fn is_pipelined(&self, job_id: usize) -> bool {
        let counts = |task: &Task| task.is_there() || task.status == Status::Pipelined;
        self.voted(Switch::JobPipelined, |plugin| match plugin.name {
            PluginName::Gang => {
                let job = &self.snapshot.jobs[job_id];
                if job.is_pipelined() && self.snapshot.enough_by_role(job_id, counts) {
                    Vote::Permit
                } else {
                    Vote::Reject
                }
            }
            _ => Vote::Abstain,
        })
    }

    /// One rejection decides; a permission ends with its tier.
    fn voted(&self, switch: Switch, vote: impl Fn(&Plugin) -> Vote) -> bool {
        for tier in self.at(switch) {
            let mut permitted = false;
            for plugin in tier {
                match vote(plugin) {
                    Vote::Reject => return false,
                    Vote::Permit => permitted = true,
                    Vote::Abstain => {}
                }
            }
            if permitted {
                return true;
            }
        }
        true
    }

    /// Whether a job lacks something: all of the first tier that has an opinion.
    pub(crate) fn is_starving(&self, job: usize) -> bool {
        let job = &self.snapshot.jobs[job];
        let has = job.ready() + job.pipelined();
        for tier in self.at(Switch::JobStarving) {
            let mut said = false;
            for plugin in tier {
                let starving = match plugin.name {
                    PluginName::Gang => has < job.min_member,
                    PluginName::Priority => {
                        i32::try_from(job.tasks.len()).is_ok_and(|all| has < all)
                    }
                    _ => continue,
                };
                said = true;
                if !starving {
                    return false;
                }
            }
            if said {
                return true;
            }
        }
        false
    }

    /// Why a job is not taken up; the first plugin that objects. There is no switch for it.
    pub(crate) fn invalid(&self, job: usize) -> Option<Invalid> {
        let mut plugins = self.conf.tiers.iter().flatten();
        if !plugins.any(|plugin| plugin.name == PluginName::Gang) {
            return None;
        }
        if !self
            .snapshot
            .enough_by_role(job, |task| task.status.is_valid())
        {
            return Some(Invalid {
                reason: "NotEnoughPodsOfTask",
                message: "Not enough valid pods of each task for gang-scheduling".to_owned(),
            });
        }
        let job = &self.snapshot.jobs[job];
        let valid = Status::ALL.into_iter().filter(|status| status.is_valid());
        let valid: i32 = valid.map(|status| job.count(status)).sum();
        (valid < job.min_member).then(|| Invalid {
            reason: "NotEnoughTasks",
            message: format!(
                "Not enough valid tasks for gang-scheduling, valid: {valid}, min: {}",
                job.min_member
            ),
        })
    }
}

/// By the index in their names if both have one, else by age (S6-097).
fn default_task_order(left: &Task, right: &Task) -> Ordering {
    let by_index = left.index.zip(right.index);
    let by_index = by_index.map_or(Ordering::Equal, |(left, right)| left.cmp(&right));
    by_index
        .then_with(|| left.created.cmp(&right.created))
        .then_with(|| left.uid.cmp(&right.uid))
}
