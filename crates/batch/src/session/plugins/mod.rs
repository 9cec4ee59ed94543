//! What plugins know of jobs and queues, kept up to date as tasks get room and lose it. Rules without any state of their
//! own (gang, priority, conformance) are beside the questions that they answer.

mod capacity;
mod drf;
mod hierarchy;
mod lending;
mod overcommit;
mod proportion;
mod shares;

pub(crate) use capacity::Capacity;
pub(crate) use drf::Drf;
pub(crate) use overcommit::Overcommit;
pub(crate) use proportion::Proportion;
pub(crate) use shares::{QueueShare, Shares};

use super::Form;
use super::model::Model;
use crate::conf::{Conf, PluginName};

/// The state of those plugins that are loaded.
#[derive(Debug, Default)]
pub(crate) struct Plugins {
    pub(crate) drf: Option<Drf>,
    pub(crate) proportion: Option<Proportion>,
    pub(crate) capacity: Option<Capacity>,
    pub(crate) overcommit: Option<Overcommit>,
}

impl Plugins {
    /// What they know when a session begins.
    pub(crate) fn open(model: &Model, conf: &Conf, form: &Form) -> Self {
        let mut own = Self::default();
        for plugin in conf.tiers.iter().flatten() {
            match plugin.name {
                PluginName::Drf => own.drf = Some(Drf::open(model, plugin)),
                PluginName::Proportion => own.proportion = Some(Proportion::open(model, form)),
                PluginName::Capacity => own.capacity = Some(Capacity::open(model, form)),
                PluginName::Overcommit => {
                    let factor = plugin.arguments.number("overcommit-factor", 1.2);
                    own.overcommit = Some(Overcommit::open(model, form, factor));
                }
                _ => {}
            }
        }
        own
    }

    /// A task got room, or a promise of room.
    pub(crate) fn allocated(&mut self, model: &Model, task: usize) {
        self.change(model, task, true);
    }

    /// A task lost it.
    pub(crate) fn deallocated(&mut self, model: &Model, task: usize) {
        self.change(model, task, false);
    }

    fn change(&mut self, model: &Model, task: usize, more: bool) {
        let task = &model.tasks[task];
        let job = &model.jobs[task.job];
        if let Some(drf) = &mut self.drf {
            drf.change(model, task.job, &task.request, more);
        }
        if let Some(own) = &mut self.proportion {
            own.shares.change(job.queue, &task.request, more);
        }
        if let Some(own) = &mut self.capacity {
            own.shares.change(job.queue, &task.request, more);
        }
    }
}
