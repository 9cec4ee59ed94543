//! Questions to plugins, tier by tier: whose answer counts, and when the next tier is asked (S6-097 to S6-102).

use super::Session;
use super::model::Job;
use super::resource::{Dim, Resource};
use super::task::{Status, Task};
use crate::conf::{Plugin, PluginName, Switch};
use std::cmp::Ordering;

/// What a plugin votes on whether a job may be let in, or will have enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Vote {
    Abstain,
    Permit,
    Reject,
}

/// Why others have to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
    fn at(&self, switch: Switch) -> impl Iterator<Item = impl Iterator<Item = &Plugin>> {
        let tiers = self.conf.tiers.iter();
        tiers.map(move |tier| tier.iter().filter(move |own| own.at(switch)))
    }

    fn first_order(
        &self,
        switch: Switch,
        compare: impl Fn(&Plugin) -> Ordering,
    ) -> Option<Ordering> {
        let mut orders = self.at(switch).flatten().map(compare);
        orders.find(|order| order.is_ne())
    }

    /// Whether one job comes before another.
    pub(crate) fn job_before(&self, one: usize, other: usize) -> bool {
        let (left, right) = (&self.model.jobs[one], &self.model.jobs[other]);
        let order = self.job_order(one, other).unwrap_or_else(|| {
            let created = left.created.cmp(&right.created);
            created.then_with(|| left.key.cmp(&right.key))
        });
        order.is_lt()
    }

    /// What plugins say of the order of two jobs.
    fn job_order(&self, one: usize, other: usize) -> Option<Ordering> {
        let (left, right) = (&self.model.jobs[one], &self.model.jobs[other]);
        if self.form.broken_gangs_first {
            let broken = |job: &Job| job.count(Status::Running) > 0 && job.ready() < job.min_member;
            let order = bool_order(broken(left), broken(right));
            if order.is_ne() {
                return Some(order);
            }
        }
        self.first_order(Switch::JobOrder, |plugin| match plugin.name {
            PluginName::Priority => right.priority.cmp(&left.priority),
            PluginName::Gang => bool_order(!left.is_ready(), !right.is_ready()),
            PluginName::Drf => self.plugins.drf.as_ref().map_or(Ordering::Equal, |drf| {
                let namespaces = drf.compare_namespaces(&self.model, one, other);
                namespaces.then_with(|| drf.share(one).total_cmp(&drf.share(other)))
            }),
            _ => Ordering::Equal,
        })
    }

    /// Whether one task comes before another of its job.
    pub(crate) fn task_before(&self, one: usize, other: usize) -> bool {
        let (left, right) = (&self.model.tasks[one], &self.model.tasks[other]);
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
        let (left, right) = (&self.model.queues[one], &self.model.queues[other]);
        let by_priority = || right.priority.cmp(&left.priority);
        let order = self.first_order(Switch::QueueOrder, |plugin| match plugin.name {
            PluginName::Proportion => {
                self.plugins
                    .proportion
                    .as_ref()
                    .map_or(Ordering::Equal, |own| {
                        let share = |queue| own.shares.share(queue);
                        by_priority().then_with(|| share(one).total_cmp(&share(other)))
                    })
            }
            PluginName::Capacity => self
                .plugins
                .capacity
                .as_ref()
                .map_or(Ordering::Equal, |own| {
                    let share = |queue| own.shares.share(queue);
                    let shares = || share(one).total_cmp(&share(other));
                    let deserving = || bool_order(own.deserves(one), own.deserves(other));
                    by_priority().then_with(shares).then_with(deserving)
                }),
            PluginName::Drf => self
                .plugins
                .drf
                .as_ref()
                .map_or(Ordering::Equal, |own| own.compare_queues(one, other)),
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
            let own = self.plugins.proportion.as_ref();
            plugin.name == PluginName::Proportion && own.is_some_and(|own| own.is_overused(queue))
        })
    }

    /// Whether a queue may have a task more: all plugins say so.
    pub(crate) fn is_allocatable(&self, queue: usize, task: usize) -> bool {
        let request = &self.model.tasks[task].request;
        let open = self.model.queues[queue].open;
        self.at(Switch::Allocatable)
            .flatten()
            .all(|plugin| match plugin.name {
                PluginName::Proportion => {
                    let own = self.plugins.proportion.as_ref();
                    open && own.is_none_or(|own| own.may_have(queue, request))
                }
                PluginName::Capacity => {
                    let own = self.plugins.capacity.as_ref();
                    open && own.is_none_or(|own| own.may_have(queue, request))
                }
                _ => true,
            })
    }

    /// Whether a queue may take room from others for a task: all plugins say so.
    pub(crate) fn is_preemptive(&self, queue: usize, task: usize) -> bool {
        let request = &self.model.tasks[task].request;
        let open = self.model.queues[queue].open;
        self.at(Switch::Preemptive)
            .flatten()
            .all(|plugin| match plugin.name {
                PluginName::Proportion => {
                    let own = self.plugins.proportion.as_ref();
                    open && own.is_none_or(|own| own.may_have(queue, request))
                }
                PluginName::Capacity => {
                    let own = self.plugins.capacity.as_ref();
                    open && own.is_none_or(|own| own.may_reclaim(queue, request))
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
        self.model.jobs[job].is_ready() && self.model.enough_by_role(job, Task::is_there)
    }

    /// Whether a job will have enough once others have gone.
    pub(crate) fn is_pipelined(&self, job: usize) -> bool {
        let counts = |task: &Task| task.is_there() || task.status == Status::Pipelined;
        self.voted(Switch::JobPipelined, |plugin| match plugin.name {
            PluginName::Gang => {
                let own = &self.model.jobs[job];
                if own.is_pipelined() && self.model.enough_by_role(job, counts) {
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
        let own = &self.model.jobs[job];
        let has = own.ready() + own.pipelined();
        for tier in self.at(Switch::JobStarving) {
            let mut said = false;
            for plugin in tier {
                let starving = match plugin.name {
                    PluginName::Gang => has < own.min_member,
                    PluginName::Priority => {
                        i32::try_from(own.tasks.len()).is_ok_and(|all| has < all)
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
            .model
            .enough_by_role(job, |task| task.status.is_valid())
        {
            return Some(Invalid {
                reason: "NotEnoughPodsOfTask",
                message: "Not enough valid pods of each task for gang-scheduling".to_owned(),
            });
        }
        let own = &self.model.jobs[job];
        let valid = Status::ALL.into_iter().filter(|status| status.is_valid());
        let valid: i32 = valid.map(|status| own.count(status)).sum();
        (valid < own.min_member).then(|| Invalid {
            reason: "NotEnoughTasks",
            message: format!(
                "Not enough valid tasks for gang-scheduling, valid: {valid}, min: {}",
                own.min_member
            ),
        })
    }

    /// Whether a job with a need may be let in; whoever objects says so in an event.
    pub(crate) fn is_enqueueable(&mut self, job: usize, need: &Resource) -> bool {
        let tiers = self.at(Switch::JobEnqueued);
        let tiers: Vec<Vec<PluginName>> = tiers
            .map(|tier| tier.map(|plugin| plugin.name).collect())
            .collect();
        for tier in tiers {
            let mut permitted = false;
            for plugin in tier {
                match self.vote_on(plugin, job, need) {
                    Ok(Vote::Permit) => permitted = true,
                    Ok(_) => {}
                    Err(words) => {
                        if !words.is_empty() {
                            self.group_event(job, "Normal", "Unschedulable", words);
                        }
                        return false;
                    }
                }
            }
            if permitted {
                return true;
            }
        }
        true
    }

    /// A plugin's vote on whether a job may be let in; as an error its objection, which is empty for a queue that is
    /// closed.
    fn vote_on(&self, plugin: PluginName, job: usize, need: &Resource) -> Result<Vote, String> {
        let own = &self.model.jobs[job];
        let words = |dims: &mut dyn Iterator<Item = Dim>, text: &str, word: &str| {
            let names: Vec<String> = dims
                .map(|dim| format!("{word} {}", self.model.dims.name(dim)))
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
                let lacking = overcommit.lacking(need);
                let text = "resource in cluster is overused";
                return words(&mut lacking.into_iter(), text, "overused");
            }
            PluginName::Proportion => self.plugins.proportion.as_ref().map(|own| &own.shares),
            PluginName::Capacity => self.plugins.capacity.as_ref().map(|own| &own.shares),
            _ => None,
        };
        let Some(share) = shares.and_then(|shares| shares.of(own.queue)) else {
            return Ok(Vote::Abstain);
        };
        if !self.model.queues[own.queue].open {
            return Err(String::new());
        }
        let sum = share.with_job(need);
        let mut exceeded = sum.exceeded(&share.real_capability, need);
        let text = "queue resource quota insufficient";
        words(&mut exceeded, text, "insufficient")
    }

    /// A job was let in: what it needs is set aside.
    pub(crate) fn enqueued(&mut self, job: usize) {
        let plugins = self.at(Switch::JobEnqueued).flatten();
        let plugins: Vec<PluginName> = plugins.map(|plugin| plugin.name).collect();
        let own = &self.model.jobs[job];
        let Some(need) = &own.min_resources else {
            return;
        };
        let amount = own.without_gated(need);
        for plugin in plugins {
            let state = &mut self.plugins;
            let shares = match plugin {
                PluginName::Overcommit => {
                    if let Some(own) = &mut state.overcommit {
                        own.let_in(&amount);
                    }
                    continue;
                }
                PluginName::Proportion => state.proportion.as_mut().map(|own| &mut own.shares),
                PluginName::Capacity => state.capacity.as_mut().map(|own| &mut own.shares),
                _ => None,
            };
            if let Some(own) = shares.and_then(|shares| shares.queues[own.queue].as_mut()) {
                own.inqueue.add(&amount);
            }
        }
    }

    /// Whom a task may take room from, by what plugins grant (S6-099). Within a tier only those count that each plugin
    /// grants; one that grants nobody ends the tier with nothing, and where nobody is granted by all, the next plugin
    /// starts anew with its own. The first tier that grants somebody decides.
    pub(crate) fn granted(&self, taking: Taking, task: usize, candidates: &[usize]) -> Vec<usize> {
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
        let mut left: hashbrown::HashMap<usize, i32> = hashbrown::HashMap::new();
        let victims = candidates.iter().copied().filter(|candidate| {
            let job = self.model.tasks[*candidate].job;
            let own: &Job = &self.model.jobs[job];
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
        let mut left: hashbrown::HashMap<usize, Resource> = hashbrown::HashMap::new();
        let victims = candidates.iter().copied().filter(|candidate| {
            let task = &self.model.tasks[*candidate];
            let queue = self.model.jobs[task.job].queue;
            let Some(own) = proportion.shares.of(queue) else {
                return false;
            };
            let left = left.entry(queue).or_insert_with(|| own.allocated.clone());
            let above = !left.within(&own.deserved, super::resource::Unnamed::Zero);
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
        let mut waiting = super::order::Waiting::default();
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

/// By the index in their names if both have one, else by age (S6-097).
fn default_task_order(left: &Task, right: &Task) -> Ordering {
    let by_index = left.index.zip(right.index);
    let by_index = by_index.map_or(Ordering::Equal, |(left, right)| left.cmp(&right));
    by_index
        .then_with(|| left.created.cmp(&right.created))
        .then_with(|| left.uid.cmp(&right.uid))
}
