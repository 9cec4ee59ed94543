//! The victims that plugins permit, and their order (S6-099, S6-115).

use crate::compat::Difference;
use crate::conf::{PluginName, Switch};
use crate::session::Session;
use crate::session::plugins::Drf;
use crate::session::priority_queue::PriorityQueue;
use crate::session::resource::{Resource, Unnamed};
use hashbrown::HashMap;

/// Why others have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EvictionKind {
    /// From jobs of the same queue.
    Preempt,
    /// From other queues.
    Reclaim,
}

impl EvictionKind {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Preempt => "preempt",
            Self::Reclaim => "reclaim",
        }
    }
}

impl Session<'_> {
    /// The victims of a task that the plugins permit (S6-099). A tier's victims are the intersection over its plugins.
    /// A plugin that permits none ends its tier without victims; after an empty intersection the next plugin starts
    /// anew. The first tier with victims decides.
    pub(crate) fn permitted(
        &self,
        kind: EvictionKind,
        task: usize,
        candidates: &[usize],
    ) -> Vec<usize> {
        let mut victims = self.permitted_by_tiers(kind, task, candidates);
        if kind == EvictionKind::Preempt && self.compat.has(Difference::PreemptByJobOrder) {
            victims = self.allowed_by_order(task, &victims);
        }
        if kind == EvictionKind::Reclaim && self.compat.has(Difference::ReclaimOnlyAboveDeserved) {
            if !self.anybody_knows_shares() {
                return Vec::new();
            }
            for plugin in [PluginName::Proportion, PluginName::Capacity] {
                if let Some(permitted) = self.permitted_by(plugin, kind, task, &victims) {
                    victims = permitted;
                }
            }
        }
        victims
    }

    /// Whether any plugin computes deserved shares. Without one, every queue would reclaim from every other.
    fn anybody_knows_shares(&self) -> bool {
        let plugins = &self.plugins;
        let hierarchical = plugins.drf.as_ref().is_some_and(Drf::is_hierarchical);
        plugins.proportion.is_some() || plugins.capacity.is_some() || hierarchical
    }

    fn permitted_by_tiers(
        &self,
        kind: EvictionKind,
        task: usize,
        candidates: &[usize],
    ) -> Vec<usize> {
        let switch = match kind {
            EvictionKind::Preempt => Switch::Preemptable,
            EvictionKind::Reclaim => Switch::Reclaimable,
        };
        for tier in self.at(switch) {
            let mut victims: Vec<usize> = Vec::new();
            for plugin in tier {
                let Some(permitted) = self.permitted_by(plugin.name, kind, task, candidates) else {
                    continue;
                };
                if permitted.is_empty() {
                    victims.clear();
                    break;
                }
                if victims.is_empty() {
                    victims = permitted;
                } else {
                    victims.retain(|victim| permitted.contains(victim));
                }
            }
            if !victims.is_empty() {
                return victims;
            }
        }
        Vec::new()
    }

    /// The victims that one plugin permits; `None` if it has no victim function.
    fn permitted_by(
        &self,
        plugin: PluginName,
        kind: EvictionKind,
        task_id: usize,
        candidates: &[usize],
    ) -> Option<Vec<usize>> {
        let snapshot = &self.snapshot;
        let task = &snapshot.tasks[task_id];
        let all = || candidates.iter().copied();
        let victims = match (plugin, kind) {
            (PluginName::Conformance, _) => all()
                .filter(|candidate| !snapshot.tasks[*candidate].critical)
                .collect(),
            // Whole gangs, or the tasks that they can spare, are chosen with the order of the victims.
            (PluginName::Gang, _) if self.compat.has(Difference::WholeGangs) => return None,
            (PluginName::Gang, _) => self.spare(candidates),
            (PluginName::Priority, EvictionKind::Preempt) => all()
                .filter(|victim| {
                    let victim = &snapshot.tasks[*victim];
                    if victim.job == task.job {
                        return victim.priority < task.priority;
                    }
                    let priority = |job: usize| snapshot.jobs[job].priority;
                    priority(victim.job) < priority(task.job)
                })
                .collect(),
            (PluginName::Drf, EvictionKind::Preempt) => self
                .plugins
                .drf
                .as_ref()?
                .victims(snapshot, task_id, candidates),
            (PluginName::Drf, EvictionKind::Reclaim) => {
                let drf = self.plugins.drf.as_ref()?;
                drf.reclaimed(snapshot, task_id, candidates)?
            }
            (PluginName::Proportion, EvictionKind::Reclaim) => self.above_share(candidates)?,
            (PluginName::Capacity, EvictionKind::Reclaim) => {
                let capacity = self.plugins.capacity.as_ref()?;
                let order = self.victims_in_order(candidates.to_vec());
                capacity.victims(snapshot, &task.request, order.into_iter())
            }
            _ => return None,
        };
        Some(victims)
    }

    /// Whether gangs that cannot spare a task go as a whole.
    pub(crate) fn spares_gangs(&self) -> bool {
        let mut plugins = self.conf.tiers.iter().flatten();
        self.compat.has(Difference::WholeGangs)
            && plugins.any(|plugin| plugin.name == PluginName::Gang)
    }

    /// Tasks that their gangs can spare (S6-122).
    fn spare(&self, candidates: &[usize]) -> Vec<usize> {
        let mut left: HashMap<usize, i32> = HashMap::new();
        let victims = candidates.iter().copied().filter(|candidate| {
            let job_id = self.snapshot.tasks[*candidate].job;
            let job = &self.snapshot.jobs[job_id];
            let left = left.entry(job_id).or_insert_with(|| job.ready());
            let spare = *left > job.min_member;
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
            let task = &self.snapshot.tasks[*candidate];
            let queue = self.snapshot.jobs[task.job].queue;
            let Some(share) = proportion.shares.of(queue) else {
                return false;
            };
            let left = left.entry(queue).or_insert_with(|| share.allocated.clone());
            let above = !left.within(&share.deserved, Unnamed::Zero);
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
        let mut waiting = PriorityQueue::default();
        let before = |one: usize, other: usize| {
            let (left, right) = (self.snapshot.tasks[one].job, self.snapshot.tasks[other].job);
            if left == right {
                return !self.task_before(one, other);
            }
            let queue = |job: usize| self.snapshot.jobs[job].queue;
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
