//! Whether a job may be enqueued, and the amounts that are set aside for it (S6-100, S6-104, S6-105, S6-134).

use super::Vote;
use crate::compat::Difference;
use crate::conf::{Action, PluginName, Switch};
use crate::session::Session;
use crate::session::plugins::QueueShare;
use crate::session::resource::{Dim, Resource};

impl Session<'_> {
    /// Whether a job with a need may be let in; an objection becomes an event.
    pub(crate) fn is_enqueueable(&mut self, job: usize, need: &Resource) -> bool {
        let objection = self.objection(job, need);
        let allowed = objection.is_none();
        if let Some((_, words)) = objection.filter(|(_, words)| !words.is_empty()) {
            self.group_event(job, "Normal", "Unschedulable", words);
        }
        allowed
    }

    /// The plugin that keeps a job with a need out, and in which words; empty for a queue that is closed.
    pub(crate) fn objection(&self, job: usize, need: &Resource) -> Option<(PluginName, String)> {
        for tier in self.at(Switch::JobEnqueued) {
            let mut permitted = false;
            for plugin in tier {
                match self.vote_on(plugin.name, job, need) {
                    Ok(Vote::Permit) => permitted = true,
                    Ok(_) => {}
                    Err(words) => return Some((plugin.name, words)),
                }
            }
            if permitted {
                break;
            }
        }
        None
    }

    /// A plugin's vote on whether a job may be let in; as an error its objection, which is empty for a queue that is
    /// closed.
    fn vote_on(&self, plugin: PluginName, job_id: usize, need: &Resource) -> Result<Vote, String> {
        let job = &self.snapshot.jobs[job_id];
        let words = |dims: &mut dyn Iterator<Item = Dim>, text: &str, word: &str| {
            let names: Vec<String> = dims
                .map(|dim| format!("{word} {}", self.snapshot.dims.name(dim)))
                .collect();
            if names.is_empty() {
                return Ok(Vote::Permit);
            }
            Err(format!("{text}: {}", names.join(", ")))
        };
        let shares = match plugin {
            PluginName::Overcommit => {
                let Some(overcommit) = &self.plugins.overcommit else {
                    return Ok(Vote::Abstain);
                };
                let kept = self.left_over_at_entry(job_id);
                let lacking = overcommit.lacking(need, kept);
                let full = !lacking.is_empty();
                if full
                    && self.compat.has(Difference::EnqueueReclaimers)
                    && self.may_reclaim(job_id, need)
                {
                    return Ok(Vote::Abstain);
                }
                let text = "resource in cluster is overused";
                return words(&mut lacking.into_iter(), text, "overused");
            }
            PluginName::Proportion => self
                .plugins
                .proportion
                .as_ref()
                .map(|proportion| &proportion.shares),
            PluginName::Capacity => self
                .plugins
                .capacity
                .as_ref()
                .map(|capacity| &capacity.shares),
            _ => None,
        };
        let Some(share) = shares.and_then(|shares| shares.of(job.queue)) else {
            return Ok(Vote::Abstain);
        };
        if !self.snapshot.queues[job.queue].open {
            return Err(String::new());
        }
        let mut sum = share.with_job(need);
        if let Some(kept) = self.left_over_of_share_at_entry(job_id) {
            sum.add(&kept);
        }
        let mut exceeded = sum.exceeded(&share.real_capability, need);
        let text = "queue resource quota insufficient";
        words(&mut exceeded, text, "insufficient")
    }

    /// Whether a job's queue deserves so much more than it holds and has let in that others will make room for the job.
    pub(crate) fn may_reclaim(&self, job: usize, need: &Resource) -> bool {
        if !self.conf.actions.contains(&Action::Reclaim) {
            return false;
        }
        let queue = self.snapshot.jobs[job].queue;
        let fits = |share: Option<&QueueShare>, deserved: &Resource| {
            share.is_some_and(|share| share.with_job(need).within_for(deserved, need))
        };
        let (proportion, capacity) = (&self.plugins.proportion, &self.plugins.capacity);
        if let Some(plugin) = proportion {
            return fits(plugin.shares.of(queue), &plugin.if_wanted(queue)[queue]);
        }
        let share = capacity
            .as_ref()
            .and_then(|capacity| capacity.shares.of(queue));
        share.is_some_and(|with_share| fits(share, &with_share.deserved))
    }

    /// Sets aside the request of a job that was enqueued.
    pub(crate) fn enqueued(&mut self, job: usize) {
        let plugins = self.at(Switch::JobEnqueued).flatten();
        let plugins: Vec<PluginName> = plugins.map(|plugin| plugin.name).collect();
        let job = &self.snapshot.jobs[job];
        let Some(need) = &job.min_resources else {
            return;
        };
        let amount = job.without_gated(need);
        for plugin in plugins {
            let state = &mut self.plugins;
            let shares = match plugin {
                PluginName::Overcommit => {
                    if let Some(overcommit) = &mut state.overcommit {
                        overcommit.let_in(&amount);
                    }
                    continue;
                }
                PluginName::Proportion => state
                    .proportion
                    .as_mut()
                    .map(|proportion| &mut proportion.shares),
                PluginName::Capacity => {
                    state.capacity.as_mut().map(|capacity| &mut capacity.shares)
                }
                _ => None,
            };
            if let Some(share) = shares.and_then(|shares| shares.queues[job.queue].as_mut()) {
                share.inqueue.add(&amount);
            }
        }
    }
}
