//! The state of plugins, updated as tasks are allocated and deallocated.

mod capacity;
mod drf;
mod hierarchy;
mod overcommit;
mod proportion;
mod redistribution;
mod shares;

pub(crate) use capacity::Capacity;
pub(crate) use drf::Drf;
pub(crate) use overcommit::Overcommit;
pub(crate) use proportion::Proportion;
pub(crate) use shares::{QueueShare, Shares};

use super::snapshot::Snapshot;
use crate::compat::Compat;
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
    /// Opens the plugins at the start of a session.
    pub(crate) fn open(snapshot: &Snapshot, conf: &Conf, compat: Compat) -> Self {
        let mut plugins = Self::default();
        for plugin in conf.tiers.iter().flatten() {
            match plugin.name {
                PluginName::Drf => plugins.drf = Some(Drf::open(snapshot, plugin)),
                PluginName::Proportion => {
                    plugins.proportion = Some(Proportion::open(snapshot, compat))
                }
                PluginName::Capacity => plugins.capacity = Some(Capacity::open(snapshot, compat)),
                PluginName::Overcommit => {
                    let factor = plugin.arguments.number("overcommit-factor", 1.2);
                    plugins.overcommit = Some(Overcommit::open(snapshot, compat, factor));
                }
                _ => {}
            }
        }
        plugins
    }

    /// A task got room, or a promise of room.
    pub(crate) fn allocated(&mut self, snapshot: &Snapshot, task: usize) {
        self.change(snapshot, task, true);
    }

    /// A task lost it.
    pub(crate) fn deallocated(&mut self, snapshot: &Snapshot, task: usize) {
        self.change(snapshot, task, false);
    }

    fn change(&mut self, snapshot: &Snapshot, task: usize, more: bool) {
        let task = &snapshot.tasks[task];
        let job = &snapshot.jobs[task.job];
        if let Some(drf) = &mut self.drf {
            drf.change(snapshot, task.job, &task.request, more);
        }
        if let Some(proportion) = &mut self.proportion {
            proportion.shares.change(job.queue, &task.request, more);
        }
        if let Some(capacity) = &mut self.capacity {
            capacity.shares.change(job.queue, &task.request, more);
        }
    }
}
