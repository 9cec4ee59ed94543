//! Who may go for whom within a queue so that it never goes back and forth: whoever takes room has to come before whoever loses
//! it, also once that is done, by the same order in which room is given out.
//!
//! Volcano's tiers grant victims by one order after the other: where priority grants nobody drf may, so that a job of low priority
//! takes room from one of high priority, which takes it back at once.

use crate::conf::{PluginName, Switch};
use crate::session::Session;
use crate::session::resource::Resource;
use hashbrown::HashMap;
use std::cmp::Ordering;

/// What a job has lost to another one so far.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    pub(crate) tasks: i32,
    pub(crate) amount: Resource,
}

impl Session<'_> {
    /// Those of some victims, one going after the other, whom a task comes before.
    pub(crate) fn preceded(&self, task: usize, victims: &[usize]) -> Vec<usize> {
        let mut lost: HashMap<usize, Lost> = HashMap::new();
        let victims = victims.iter().copied().filter(|victim| {
            let own = &self.model.tasks[*victim];
            if own.job == self.model.tasks[task].job {
                return self.is_more_important(task, *victim);
            }
            let lost = lost.entry(own.job).or_default();
            lost.tasks += 1;
            lost.amount.add(&own.request);
            let goes = self.precedes(task, own.job, lost);
            if !goes {
                lost.tasks -= 1;
                lost.amount.sub(&own.request);
            }
            goes
        });
        victims.collect()
    }

    /// Whether a task comes before another one of its job for a better reason than its name or age.
    fn is_more_important(&self, task: usize, other: usize) -> bool {
        let priority = |task: usize| self.model.tasks[task].priority;
        let mut plugins = self.at(Switch::TaskOrder).flatten();
        plugins.any(|plugin| plugin.name == PluginName::Priority)
            && priority(task) > priority(other)
    }

    /// Whether a task comes before a job that has lost so much, as the first plugin says that tells their jobs apart when the
    /// task has its room. Where none does a job that is not complete may take from a younger one what that can spare.
    pub(crate) fn precedes(&self, task: usize, job: usize, lost: &Lost) -> bool {
        let own = &self.model.tasks[task];
        let (left, right) = (&self.model.jobs[own.job], &self.model.jobs[job]);
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
                        drf.compare_after(&self.model, task, job, &lost.amount)
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
