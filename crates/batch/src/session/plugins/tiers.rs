//! Asks the plugins tier by tier: whose answer counts, and when the next tier is asked (S6-097 to S6-102, S6-115).

use super::{Invalid, Lost, Plugin, Plugins, Purpose, Reserved, Shares, Vote};
use crate::conf::{PluginName, Switch};
use crate::session::eviction_kind::EvictionKind;
use crate::session::priority_queue::PriorityQueue;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::hyper_nodes::HyperNodeId;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::Resource;
use crate::session::snapshot::sub_jobs::{Nearness, SubJob};
use crate::session::snapshot::task::{Status, Task, UnknownPlace};
use evictd_batch_objects::Difference;
use hashbrown::HashMap;
use std::cmp::Ordering;

/// The plugins' view of a snapshot.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tiers<'s> {
    pub(crate) snapshot: &'s Snapshot,
    pub(crate) plugins: &'s Plugins,
}

impl<'s> Tiers<'s> {
    pub(super) fn each(self, switch: Switch) -> impl Iterator<Item = (PluginName, &'s dyn Plugin)> {
        self.plugins.at(switch).flatten()
    }

    fn first_order(
        self,
        switch: Switch,
        order: impl Fn(&dyn Plugin) -> Ordering,
    ) -> Option<Ordering> {
        let mut orders = self.each(switch).map(|(_, plugin)| order(plugin));
        orders.find(|order| order.is_ne())
    }

    pub(crate) fn job_before(self, one: JobId, other: JobId) -> bool {
        let (left, right) = (&self.snapshot.jobs[one], &self.snapshot.jobs[other]);
        let order = self.job_order(one, other).unwrap_or_else(|| {
            let created = left.created.cmp(&right.created);
            created.then_with(|| left.key.cmp(&right.key))
        });
        order.is_lt()
    }

    /// The order of two jobs by plugins, without their age and names.
    fn job_order(self, one: JobId, other: JobId) -> Option<Ordering> {
        let order = |plugin: &dyn Plugin| plugin.job_order(self.snapshot, one, other);
        self.first_order(Switch::JobOrder, order)
    }

    /// The plugin that decides the order of two jobs; `None` if their age or names decide.
    pub(crate) fn job_order_plugin(
        self,
        one: JobId,
        other: JobId,
    ) -> Option<(PluginName, &'s dyn Plugin)> {
        self.each(Switch::JobOrder)
            .find(|(_, plugin)| plugin.job_order(self.snapshot, one, other).is_ne())
    }

    /// Whether one task comes before another of its job.
    pub(crate) fn task_before(self, one: TaskId, other: TaskId) -> bool {
        let orders = self.plugins.task_orders();
        let mut orders = orders.map(|order| order.task_order(self.snapshot, one, other));
        let order = orders.find(|order| order.is_ne());
        let tasks = &self.snapshot.tasks;
        order
            .unwrap_or_else(|| default_task_order(&tasks[one], &tasks[other]))
            .is_lt()
    }

    pub(crate) fn queue_before(self, one: QueueId, other: QueueId) -> bool {
        let (left, right) = (&self.snapshot.queues[one], &self.snapshot.queues[other]);
        let order = |plugin: &dyn Plugin| plugin.queue_order(self.snapshot, one, other);
        let order = self.first_order(Switch::QueueOrder, order);
        let order = order.unwrap_or_else(|| {
            let created = left.created.cmp(&right.created);
            created.then_with(|| left.name.cmp(&right.name))
        });
        order.is_lt()
    }

    /// The order of queues in enqueue. Jobs that are enqueued take room from later ones, so promised amounts count as
    /// allocated. Volcano ignores them.
    pub(crate) fn enqueues_before(self, one: QueueId, other: QueueId) -> bool {
        let mut plugins = [PluginName::Capacity, PluginName::Proportion]
            .into_iter()
            .filter_map(|name| self.plugins.get(name));
        let counts = self.plugins.compat.has(Difference::EnqueueWhatFits);
        let promised = plugins
            .find_map(|plugin| plugin.promised_shares(self.snapshot, (one, other)))
            .filter(|_| counts);
        let Some((left, right)) = promised else {
            return self.queue_before(one, other);
        };
        let priority = |queue: QueueId| self.snapshot.queues[queue].priority;
        let order = priority(other).cmp(&priority(one));
        let order = order.then_with(|| left.total_cmp(&right));
        order
            .then_with(|| {
                self.queue_before(other, one)
                    .cmp(&self.queue_before(one, other))
            })
            .is_lt()
    }

    /// Whether a queue has its share: any plugin says so.
    pub(crate) fn is_overused(self, queue: QueueId) -> bool {
        self.each(Switch::Overused)
            .any(|(_, plugin)| plugin.overused(queue))
    }

    /// Whether a queue may use one task more: all plugins permit it.
    pub(crate) fn is_allocatable(self, queue: QueueId, task: TaskId) -> bool {
        let request = &self.snapshot.tasks[task].request;
        self.each(Switch::Allocatable)
            .all(|(_, plugin)| plugin.allocatable(self.snapshot, queue, request))
    }

    /// Whether a queue may evict pods of others for a task: all plugins permit it.
    pub(crate) fn is_preemptive(self, queue: QueueId, task: TaskId) -> bool {
        let request = &self.snapshot.tasks[task].request;
        self.each(Switch::Preemptive)
            .all(|(_, plugin)| plugin.preemptive(self.snapshot, queue, request))
    }

    /// Whether a job has enough to start: all plugins say so.
    pub(crate) fn is_ready(self, job: JobId) -> bool {
        self.each(Switch::JobReady)
            .all(|(_, plugin)| plugin.job_ready(self.snapshot, job))
    }

    /// Whether a part of a job has enough. Of a job without policies for parts, whether the job has.
    pub(crate) fn is_part_ready(self, job: JobId, part: usize) -> bool {
        self.counts_part(job, part, Switch::SubJobReady, |part| {
            part.is_ready(&self.snapshot.tasks)
        })
        .unwrap_or_else(|| self.is_ready(job))
    }

    /// The same after the pending evictions.
    pub(crate) fn is_part_pipelined(self, job: JobId, part: usize) -> bool {
        self.counts_part(job, part, Switch::SubJobPipelined, |part| {
            part.is_pipelined(&self.snapshot.tasks)
        })
        .unwrap_or_else(|| self.is_pipelined(job) || self.has_unknown_places(job))
    }

    /// Whether tasks of a job were pipelined where allocate does not know of it. Its part counts them always.
    pub(crate) fn has_unknown_places(self, job: JobId) -> bool {
        let mut tasks = self.snapshot.jobs[job].tasks.iter();
        tasks.any(|task| self.snapshot.tasks[*task].unknown_place != UnknownPlace::None)
    }

    /// Whether a part counts, if some plugin counts parts; `None` for a job without policies for parts.
    fn counts_part(
        self,
        job: JobId,
        part: usize,
        switch: Switch,
        counts: impl Fn(&SubJob) -> bool,
    ) -> Option<bool> {
        let network = self.snapshot.jobs[job].network.as_ref();
        let network = network.filter(|network| !network.policies.is_empty())?;
        let counted = self.each(switch).any(|(_, plugin)| plugin.counts_parts());
        Some(!counted || network.sub_jobs.get(part).is_none_or(counts))
    }

    /// Whether a part of a job comes before another one.
    pub(crate) fn part_before(self, one: &SubJob, other: &SubJob) -> bool {
        let order = |plugin: &dyn Plugin| plugin.sub_job_order(self.snapshot, one, other);
        let order = self.first_order(Switch::SubJobOrder, order);
        let order = order.unwrap_or_else(|| {
            let order = one.match_index.cmp(&other.match_index);
            order.then_with(|| one.id.cmp(&other.id))
        });
        order.is_lt()
    }

    /// The groups of nodes below `root` where tasks are tried, in the order of trial: the first plugin that has an opinion
    /// decides. Without one it is `root` alone.
    pub(crate) fn gradient(
        self,
        nearness: Nearness,
        root: HyperNodeId,
        (allocated, need): (Option<HyperNodeId>, Option<&Resource>),
        purpose: Purpose,
    ) -> Vec<Vec<HyperNodeId>> {
        let mut plugins = self.each(Switch::HyperNodeGradient);
        let found = plugins
            .find_map(|(_, plugin)| plugin.gradient(nearness, root, (allocated, need), purpose));
        found.unwrap_or_else(|| vec![vec![root]])
    }

    /// How good each of these groups of nodes is for a part of a job.
    pub(crate) fn group_scores(self, part: &SubJob, groups: &[HyperNodeId]) -> Vec<f64> {
        let mut totals = vec![0.0; groups.len()];
        for (_, plugin) in self.each(Switch::HyperNodeOrder) {
            let scores = plugin.group_scores(self.snapshot, part, groups);
            for (total, score) in totals.iter_mut().zip(scores.into_iter().flatten()) {
                *total += score;
            }
        }
        totals
    }

    /// Whether a job will have enough after the pending evictions. One rejection decides; a permission ends with its tier.
    pub(crate) fn is_pipelined(self, job: JobId) -> bool {
        for tier in self.plugins.at(Switch::JobPipelined) {
            let mut permitted = false;
            for (_, plugin) in tier {
                match plugin.job_pipelined(self.snapshot, job) {
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

    /// Whether a job lacks something: all plugins of the first tier that has an opinion.
    pub(crate) fn is_starving(self, job: JobId) -> bool {
        for tier in self.plugins.at(Switch::JobStarving) {
            let answers = tier.filter_map(|(_, plugin)| plugin.job_starving(self.snapshot, job));
            let mut answers = answers.peekable();
            if answers.peek().is_some() {
                return answers.all(|starving| starving);
            }
        }
        false
    }

    /// Why the network topology of a job, or of a part of it, cannot be kept.
    pub(crate) fn topology_objection(self, job: JobId) -> Option<String> {
        if !self.plugins.compat.has(Difference::UnknownTopologyWaits) {
            return None;
        }
        let network = self.snapshot.jobs[job].network.as_ref()?;
        let mut switched = self.each(Switch::HyperNodeGradient);
        let loaded = switched.any(|(name, _)| name == PluginName::NetworkTopologyAware);
        network.objection(&self.snapshot.hyper_nodes, loaded)
    }

    /// Why a job is not scheduled; the first plugin that objects.
    pub(crate) fn invalid(self, job: JobId) -> Option<Invalid> {
        if let Some(message) = self.topology_objection(job) {
            return Some(Invalid {
                reason: "UnknownNetworkTopology",
                message,
            });
        }
        let mut plugins = self.plugins.all();
        plugins.find_map(|plugin| plugin.job_valid(self.snapshot, job))
    }

    /// The plugin that objects to enqueueing a job, and its words; empty for a closed queue.
    pub(crate) fn objection(
        self,
        job: JobId,
        request: &Resource,
        reserved: &Reserved,
    ) -> Option<(PluginName, String)> {
        for tier in self.plugins.at(Switch::JobEnqueued) {
            let mut permitted = false;
            for (name, plugin) in tier {
                match plugin.job_enqueueable(self, job, request, reserved) {
                    Ok(vote) => permitted |= vote == Vote::Permit,
                    Err(objection) => return Some((name, objection)),
                }
            }
            if permitted {
                break;
            }
        }
        None
    }

    /// Whether a job's queue deserves so much more than it holds and was promised that reclaim will make room for the job.
    pub(crate) fn may_reclaim(self, job: JobId, request: &Resource) -> bool {
        let queue = self.snapshot.jobs[job].queue;
        let fits = |plugin: &dyn Plugin| plugin.may_reclaim(queue, request);
        self.plugins.reclaims && self.share_plugin().and_then(fits).unwrap_or(false)
    }

    /// The plugin whose shares decide reclaim.
    fn share_plugin(self) -> Option<&'s dyn Plugin> {
        let names = [PluginName::Proportion, PluginName::Capacity];
        names.into_iter().find_map(|name| self.plugins.get(name))
    }

    pub(crate) fn has_shares(self) -> bool {
        self.share_plugin().is_some()
    }

    /// Whether a queue's allocation exceeds its deserved share if another queue wanted the whole cluster. True if no plugin
    /// computes shares.
    pub(crate) fn exceeds_share(self, queue: QueueId, wanting: QueueId) -> bool {
        let plugin = self.share_plugin();
        plugin
            .and_then(|plugin| plugin.may_lose(queue, wanting))
            .unwrap_or(true)
    }

    /// The part of the cluster that a queue deserves, if a plugin computes it.
    pub(crate) fn deserved_part(self, queue: QueueId) -> Option<f64> {
        let shares: &Shares = self.share_plugin()?.queue_shares()?;
        let entitled = shares.of(queue)?.entitled();
        Some(entitled.dominant(&self.snapshot.total).1)
    }

    /// The victims of a task that the plugins permit (S6-099).
    pub(crate) fn permitted(
        self,
        kind: EvictionKind,
        task: TaskId,
        candidates: &[TaskId],
    ) -> Vec<TaskId> {
        let compat = self.plugins.compat;
        let victims = self.permitted_by_tiers(kind, task, candidates);
        match kind {
            EvictionKind::Preempt if compat.has(Difference::PreemptByJobOrder) => {
                self.allowed_by_order(task, &victims)
            }
            EvictionKind::Reclaim if compat.has(Difference::ReclaimOnlyAboveDeserved) => {
                self.above_deserved(task, victims)
            }
            _ => victims,
        }
    }

    /// A tier's victims are the intersection over its plugins. A plugin that permits none ends its tier without victims;
    /// after an empty intersection the next plugin starts anew. The first tier with victims decides.
    fn permitted_by_tiers(
        self,
        kind: EvictionKind,
        task: TaskId,
        candidates: &[TaskId],
    ) -> Vec<TaskId> {
        let switch = if kind.is_reclaim() {
            Switch::Reclaimable
        } else {
            Switch::Preemptable
        };
        for tier in self.plugins.at(switch) {
            let permitted =
                tier.map(|(_, plugin)| self.permitted_by(plugin, kind, task, candidates));
            let victims = common(permitted);
            if !victims.is_empty() {
                return victims;
            }
        }
        Vec::new()
    }

    fn permitted_by(
        self,
        plugin: &dyn Plugin,
        kind: EvictionKind,
        task: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        if kind.is_reclaim() {
            plugin.reclaimable(self, task, candidates)
        } else {
            plugin.preemptable(self, task, candidates)
        }
    }

    /// The victims that every plugin with shares permits. Without one, every queue would reclaim from every other.
    pub(super) fn above_deserved(self, task: TaskId, mut victims: Vec<TaskId>) -> Vec<TaskId> {
        if !self.plugins.all().any(Plugin::knows_shares) {
            return Vec::new();
        }
        for name in [PluginName::Proportion, PluginName::Capacity] {
            let plugin = self.plugins.get(name);
            let permitted = plugin.and_then(|plugin| plugin.reclaimable(self, task, &victims));
            victims = permitted.unwrap_or(victims);
        }
        victims
    }

    /// Whether gangs that cannot spare a task are evicted as a whole.
    pub(crate) fn evicts_whole_gangs(self) -> bool {
        self.plugins.all().any(Plugin::evicts_whole_gangs)
    }

    /// Whether a job may lose pods to another one of its queue: all plugins of a tier that have an opinion say so.
    pub(crate) fn might_yield(self, job: JobId, to: JobId) -> bool {
        self.plugins.at(Switch::Preemptable).any(|tier| {
            let answers = tier.filter_map(|(_, plugin)| plugin.might_yield(self.snapshot, job, to));
            let mut answers = answers.peekable();
            answers.peek().is_some() && answers.all(|yields| yields)
        })
    }

    /// Victims in the order of their eviction (S6-115, S6-168): the nearest queue of a tree first, then the last one. In a
    /// queue the last job by plugins comes first, and then the last task.
    pub(crate) fn victims_in_order(self, preemptor: TaskId, victims: Vec<TaskId>) -> Vec<TaskId> {
        let mut waiting = PriorityQueue::default();
        let preemptor = self.snapshot.jobs[self.snapshot.tasks[preemptor].job].queue;
        let before = |one: TaskId, other: TaskId| {
            let job = |task: TaskId| self.snapshot.tasks[task].job;
            let (left, right) = (job(one), job(other));
            if left == right {
                return !self.task_before(one, other);
            }
            let queue = |job: JobId| self.snapshot.jobs[job].queue;
            if queue(left) != queue(right) {
                return self.loses_before(queue(left), queue(right), preemptor);
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

    /// Whether a queue loses pods to another one before a third does.
    pub(crate) fn loses_before(self, one: QueueId, other: QueueId, preemptor: QueueId) -> bool {
        let mut orders = self
            .plugins
            .all()
            .map(|plugin| plugin.victim_queue_order(one, other, preemptor));
        match orders.find(|order| order.is_ne()) {
            Some(order) => order.is_lt(),
            None => !self.queue_before(one, other),
        }
    }

    /// The victims, evicted one by one, that a task comes before.
    ///
    /// A task's job has to come before the victim's also after the preemption. Volcano's tiers permit victims by one order
    /// after the other. Where priority permits none, drf may, so a job of low priority preempts one of high priority, which
    /// preempts it back at once.
    pub(crate) fn allowed_by_order(self, task: TaskId, victims: &[TaskId]) -> Vec<TaskId> {
        let mut lost: HashMap<JobId, Lost> = HashMap::new();
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

    /// Whether a plugin, and not its name or age, puts a task before another one of its job.
    fn is_more_important(self, task: TaskId, other: TaskId) -> bool {
        let mut orders = self.plugins.task_orders();
        orders.any(|order| order.task_order(self.snapshot, task, other).is_lt())
    }

    /// Whether a task comes before a job that has lost an amount. The first plugin that orders their jobs, with the task
    /// placed, decides. Where no plugin does, an incomplete job may take what a younger job can spare.
    pub(crate) fn precedes(self, task: TaskId, job: JobId, lost: &Lost) -> bool {
        let order = |plugin: &dyn Plugin| plugin.job_order_after(self.snapshot, task, job, lost);
        if let Some(order) = self.first_order(Switch::JobOrder, order) {
            return order.is_lt();
        }
        let left = &self.snapshot.jobs[self.snapshot.tasks[task].job];
        let right = &self.snapshot.jobs[job];
        let age = left.created.cmp(&right.created);
        let age = age.then_with(|| left.key.cmp(&right.key));
        !left.is_pipelined() && right.spares(lost.tasks) && age.is_lt()
    }

    /// The amounts that other jobs of its queue would lose to a job. This may be more than in the end, because the answer
    /// of plugins depends on earlier evictions.
    pub(crate) fn yields_to(self, job: JobId, kinds: &[EvictionKind]) -> Resource {
        let mut yields = Resource::default();
        let queue = self.snapshot.jobs[job].queue;
        for (other, held) in self.snapshot.live_jobs() {
            let may_lose = other != job
                && held.queue == queue
                && held.allocated_tasks() > 0
                && kinds.iter().any(|kind| self.might_lose(*kind, other, job));
            if may_lose {
                yields.add(&held.allocated);
            }
        }
        yields
    }

    /// Whether an action that evicts pods of the same queue may take some of a job for another one.
    pub(crate) fn might_lose(self, kind: EvictionKind, job: JobId, to: JobId) -> bool {
        match kind {
            EvictionKind::GangPreempt => {
                self.snapshot.jobs[job].priority < self.snapshot.jobs[to].priority
            }
            _ => self.might_yield(job, to) && self.might_evict_whole(job, to),
        }
    }

    /// Whether a job that cannot spare a pod could be evicted as a whole for another job: the other one has to come first
    /// even then. Always true for jobs that can spare pods.
    pub(crate) fn might_evict_whole(self, job_id: JobId, to: JobId) -> bool {
        let job = &self.snapshot.jobs[job_id];
        let whole = self.evicts_whole_gangs() && !job.can_spare(job.ready().saturating_sub(1));
        // The answer is used for all jobs of a queue and a priority, which may be of several namespaces.
        let by_namespace = self.compares_namespaces();
        if !whole || !self.plugins.compat.has(Difference::PreemptByJobOrder) || by_namespace {
            return true;
        }
        let Some(task) = self.snapshot.tasks_of(to, Status::Pending).next() else {
            return true;
        };
        let lost = Lost {
            tasks: job.ready(),
            amount: job.allocated.clone(),
        };
        self.precedes(task, job_id, &lost)
    }

    /// Whether namespaces are compared before jobs.
    pub(crate) fn compares_namespaces(self) -> bool {
        self.plugins.all().any(Plugin::compares_namespaces)
    }
}

/// The victims that all answers permit; none if one answer is empty. As in Volcano, an answer that has no victim in common
/// with those before it is forgotten with them: the next one begins anew.
pub(super) fn common(answers: impl Iterator<Item = Option<Vec<TaskId>>>) -> Vec<TaskId> {
    let mut victims: Vec<TaskId> = Vec::new();
    for permitted in answers.flatten() {
        if permitted.is_empty() {
            return Vec::new();
        }
        if victims.is_empty() {
            victims = permitted;
        } else {
            victims.retain(|victim| permitted.contains(victim));
        }
    }
    victims
}

/// By the index in their names if both have one, else by age (S6-097).
fn default_task_order(left: &Task, right: &Task) -> Ordering {
    let by_index = left.index.zip(right.index);
    let by_index = by_index.map_or(Ordering::Equal, |(left, right)| left.cmp(&right));
    by_index
        .then_with(|| left.created.cmp(&right.created))
        .then_with(|| left.id.cmp(&right.id))
}
