//! Whom plugins grant as victims, and the order in which those go (S6-099, S6-115).

use crate::conf::{PluginName, Switch};
use crate::session::Session;
use crate::session::order::Waiting;
use crate::session::plugins::Drf;
use crate::session::resource::{Resource, Unnamed};
use hashbrown::HashMap;

/// Why others have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Taking {
    /// From jobs of the same queue.
    Preempt,
    /// From other queues.
    Reclaim,
}

impl Taking {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Preempt => "preempt",
            Self::Reclaim => "reclaim",
        }
    }
}

impl Session<'_> {
    /// Whom a task may take room from, by what plugins grant (S6-099). Within a tier only those count that each plugin
    /// grants; one that grants nobody ends the tier with nothing, and where nobody is granted by all, the next plugin
    /// starts anew with its own. The first tier that grants somebody decides.
    pub(crate) fn granted(&self, taking: Taking, task: usize, candidates: &[usize]) -> Vec<usize> {
        let mut victims = self.granted_by_tiers(taking, task, candidates);
        if taking == Taking::Preempt && self.form.keeps_order {
            victims = self.preceded(task, &victims);
        }
        if taking == Taking::Reclaim && self.form.keeps_shares {
            if !self.anybody_knows_shares() {
                return Vec::new();
            }
            for plugin in [PluginName::Proportion, PluginName::Capacity] {
                if let Some(granted) = self.granted_by(plugin, taking, task, &victims) {
                    victims = granted;
                }
            }
        }
        victims
    }

    /// Whether any plugin says what a queue deserves: without one every queue would take from every other.
    fn anybody_knows_shares(&self) -> bool {
        let own = &self.plugins;
        let hierarchical = own.drf.as_ref().is_some_and(Drf::is_hierarchical);
        own.proportion.is_some() || own.capacity.is_some() || hierarchical
    }

    fn granted_by_tiers(&self, taking: Taking, task: usize, candidates: &[usize]) -> Vec<usize> {
        let switch = match taking {
            Taking::Preempt => Switch::Preemptable,
            Taking::Reclaim => Switch::Reclaimable,
        };
        for tier in self.at(switch) {
            let mut victims: Vec<usize> = Vec::new();
            for plugin in tier {
                let Some(granted) = self.granted_by(plugin.name, taking, task, candidates) else {
                    continue;
                };
                if granted.is_empty() {
                    victims.clear();
                    break;
                }
                if victims.is_empty() {
                    victims = granted;
                } else {
                    victims.retain(|own| granted.contains(own));
                }
            }
            if !victims.is_empty() {
                return victims;
            }
        }
        Vec::new()
    }

    /// Whom one plugin grants; `None` for one that has no opinion.
    fn granted_by(
        &self,
        plugin: PluginName,
        taking: Taking,
        task: usize,
        candidates: &[usize],
    ) -> Option<Vec<usize>> {
        let model = &self.model;
        let own = &model.tasks[task];
        let all = || candidates.iter().copied();
        let victims = match (plugin, taking) {
            (PluginName::Conformance, _) => {
                all().filter(|own| !model.tasks[*own].critical).collect()
            }
            // Whole gangs go, or what they can spare: that is seen to where it is decided who goes.
            (PluginName::Gang, _) if self.form.whole_gangs => return None,
            (PluginName::Gang, _) => self.spare(candidates),
            (PluginName::Priority, Taking::Preempt) => all()
                .filter(|victim| {
                    let victim = &model.tasks[*victim];
                    if victim.job == own.job {
                        return victim.priority < own.priority;
                    }
                    let priority = |job: usize| model.jobs[job].priority;
                    priority(victim.job) < priority(own.job)
                })
                .collect(),
            (PluginName::Drf, Taking::Preempt) => {
                self.plugins.drf.as_ref()?.victims(model, task, candidates)
            }
            (PluginName::Drf, Taking::Reclaim) => {
                let drf = self.plugins.drf.as_ref()?;
                drf.reclaimed(model, task, candidates)?
            }
            (PluginName::Proportion, Taking::Reclaim) => self.above_share(candidates)?,
            (PluginName::Capacity, Taking::Reclaim) => {
                let capacity = self.plugins.capacity.as_ref()?;
                let order = self.victims_in_order(candidates.to_vec());
                capacity.victims(model, &own.request, order.into_iter())
            }
            _ => return None,
        };
        Some(victims)
    }

    /// Whether gangs that cannot spare a task go as a whole.
    pub(crate) fn spares_gangs(&self) -> bool {
        let mut plugins = self.conf.tiers.iter().flatten();
        self.form.whole_gangs && plugins.any(|plugin| plugin.name == PluginName::Gang)
    }

    /// Tasks that their gangs can spare (S6-122).
    fn spare(&self, candidates: &[usize]) -> Vec<usize> {
        let mut left: HashMap<usize, i32> = HashMap::new();
        let victims = candidates.iter().copied().filter(|candidate| {
            let job = self.model.tasks[*candidate].job;
            let own = &self.model.jobs[job];
            let left = left.entry(job).or_insert_with(|| own.ready());
            let spare = *left > own.min_member;
            *left -= i32::from(spare);
            spare
        });
        victims.collect()
    }

    /// Tasks of queues that hold more than they deserve (S6-133).
    fn above_share(&self, candidates: &[usize]) -> Option<Vec<usize>> {
        let proportion = self.plugins.proportion.as_ref()?;
        let mut left: HashMap<usize, Resource> = HashMap::new();
        let victims = candidates.iter().copied().filter(|candidate| {
            let task = &self.model.tasks[*candidate];
            let queue = self.model.jobs[task.job].queue;
            let Some(own) = proportion.shares.of(queue) else {
                return false;
            };
            let left = left.entry(queue).or_insert_with(|| own.allocated.clone());
            let above = !left.within(&own.deserved, Unnamed::Zero);
            if above {
                left.sub(&task.request);
            }
            above
        });
        Some(victims.collect())
    }

    /// Victims in the order in which they go (S6-115): the last queue first, of a queue the last job that plugins tell
    /// apart, and of those the last task.
    pub(crate) fn victims_in_order(&self, victims: Vec<usize>) -> Vec<usize> {
        let mut waiting = Waiting::default();
        let before = |one: usize, other: usize| {
            let (left, right) = (self.model.tasks[one].job, self.model.tasks[other].job);
            if left == right {
                return !self.task_before(one, other);
            }
            let queue = |job: usize| self.model.jobs[job].queue;
            if queue(left) != queue(right) {
                return !self.queue_before(queue(left), queue(right));
            }
            match self.job_order(left, right) {
                Some(order) => order.is_gt(),
                None => !self.task_before(one, other),
            }
        };
        for victim in victims {
            waiting.push(victim, before);
        }
        std::iter::from_fn(|| waiting.pop(before)).collect()
    }
}
