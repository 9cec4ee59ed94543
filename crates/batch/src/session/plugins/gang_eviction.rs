//! Asks the plugins about the victims of whole gangs, and of shuffle.

use super::tiers::common;
use super::{Plugin, Plugins, Tiers};
use crate::conf::{PluginName, Switch};
use crate::session::eviction_kind::EvictionKind;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::Resource;
use evictd_batch_objects::Difference;
use std::cmp::Ordering;

impl Tiers<'_> {
    /// The candidates, in their order, that the plugins permit a gang to evict (S6-198). No switch disables a plugin here.
    pub(crate) fn evictable(
        self,
        kind: EvictionKind,
        (job, task): (JobId, TaskId),
        candidates: &[TaskId],
    ) -> Vec<TaskId> {
        let mut granted = Vec::new();
        for tier in self.plugins.each_tier() {
            let permitted =
                tier.map(|plugin| plugin.gang_evictable(self.snapshot, kind, job, candidates));
            let victims = common(permitted);
            if !victims.is_empty() {
                granted = victims;
                break;
            }
        }
        if kind == EvictionKind::GangReclaim
            && self
                .plugins
                .compat
                .has(Difference::ReclaimOnlyAboveDeserved)
        {
            granted = self.above_deserved(task, granted);
        }
        granted
    }

    /// Whether a queue may evict pods of others for this request: all plugins permit it.
    pub(crate) fn is_preemptive_for(self, queue: QueueId, request: &Resource) -> bool {
        self.each(Switch::Preemptive)
            .all(|(_, plugin)| plugin.preemptive(self.snapshot, queue, request))
    }

    /// The order in which jobs of one queue lose pods: the last job first.
    pub(crate) fn victim_job_order(self, one: JobId, other: JobId) -> Ordering {
        self.job_before(one, other)
            .cmp(&self.job_before(other, one))
    }

    /// The running tasks that shuffle evicts, and the plugins that chose them. The first tier with any decides.
    pub(crate) fn shuffled(self, running: &[TaskId]) -> (Vec<TaskId>, Vec<PluginName>) {
        let mut asked = Vec::new();
        for tier in self.plugins.at(Switch::Victim) {
            let mut all: Vec<TaskId> = Vec::new();
            for (name, plugin) in tier {
                if let Some(victims) = plugin.shuffled(self.snapshot, running) {
                    asked.push(name);
                    all.extend(victims);
                }
            }
            if !all.is_empty() {
                all.sort_unstable_by_key(|task| &self.snapshot.tasks[*task].key);
                all.dedup();
                return (all, asked);
            }
        }
        (Vec::new(), asked)
    }
}

impl Plugins {
    /// Every plugin, tier by tier.
    fn each_tier(&self) -> impl Iterator<Item = impl Iterator<Item = &dyn Plugin>> {
        let tiers = self.tiers.iter();
        tiers.map(|tier| tier.iter().map(|entry| &*self.opened[entry.at].1))
    }
}
