//! Which pods a task may preempt within its queue without preempting in turn: its job has to come before the victim's
//! in the job order, also after the preemption.
//!
//! Volcano's tiers permit victims by one order after the other. Where priority permits none, drf may, so a job of low
//! priority preempts one of high priority, which preempts it back at once.

use crate::conf::{PluginName, Switch};
use crate::session::Session;
use crate::session::resource::Resource;
use hashbrown::HashMap;
use std::cmp::Ordering;

/// The amount that a job has lost to another one so far.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    pub(crate) tasks: i32,
    pub(crate) amount: Resource,
}

impl Session<'_> {
    /// The victims, evicted one by one, that a task comes before.
    pub(crate) fn allowed_by_order(&self, task: usize, victims: &[usize]) -> Vec<usize> {
        let mut lost: HashMap<usize, Lost> = HashMap::new();
        let victims = victims.iter().copied().filter(|victim| {
            let evicted = &self.snapshot.tasks[*victim];
            if evicted.job == self.snapshot.tasks[task].job {
                return self.is_more_important(task, *victim);
            }
            let lost = lost.entry(evicted.job).or_default();
            lost.tasks += 1;
            lost.amount.add(&evicted.request);
            let precedes = self.precedes(task, evicted.job, lost);
            if !precedes {
                lost.tasks -= 1;
                lost.amount.sub(&evicted.request);
            }
            precedes
        });
        victims.collect()
    }

    /// Whether a task comes before another one of its job for a better reason than its name or age.
    fn is_more_important(&self, task: usize, other: usize) -> bool {
        let priority = |task: usize| self.snapshot.tasks[task].priority;
        let mut plugins = self.at(Switch::TaskOrder).flatten();
        plugins.any(|plugin| plugin.name == PluginName::Priority)
            && priority(task) > priority(other)
    }

    /// Whether a task comes before a job that has lost an amount. The first plugin that orders their jobs, with the
    /// task placed, decides. Where no plugin does, an incomplete job may take what a younger job can spare.
    pub(crate) fn precedes(&self, task_id: usize, job: usize, lost: &Lost) -> bool {
        let task = &self.snapshot.tasks[task_id];
        let (left, right) = (&self.snapshot.jobs[task.job], &self.snapshot.jobs[job]);
        let complete = left.is_pipelined();
        let spares = right.ready() + right.pending_best_effort - lost.tasks >= right.min_member;
        let mut orders = self.at(Switch::JobOrder).flatten();
        let order = orders.find_map(|plugin| {
            let order = match plugin.name {
                PluginName::Priority => right.priority.cmp(&left.priority),
                PluginName::Gang => complete.cmp(&spares),
                PluginName::Drf => {
                    let drf = self.plugins.drf.as_ref();
                    drf.map_or(Ordering::Equal, |drf| {
                        drf.compare_after(&self.snapshot, task_id, job, &lost.amount)
                    })
                }
                _ => Ordering::Equal,
            };
            order.is_ne().then_some(order)
        });
        order.map_or_else(
            || {
                let age = left.created.cmp(&right.created);
                let age = age.then_with(|| left.key.cmp(&right.key));
                !complete && spares && age.is_lt()
            },
            Ordering::is_lt,
        )
    }
}
