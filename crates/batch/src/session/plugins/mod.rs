//! The plugins of a session: one trait with Volcano's hooks, and one file for each plugin. A new plugin is a file, and a
//! line in [`build`]. Plugins that filter and score nodes are in `evaluate`.

mod build;
mod capacity;
mod cdp;
mod conformance;
mod drf;
mod extender;
mod gang;
mod gang_eviction;
mod hierarchy;
mod network_topology_aware;
mod node_group;
mod numa_aware;
mod on_nodes;
mod overcommit;
mod pdb;
mod priority;
mod proportion;
mod queue_tree;
mod redistribution;
mod rescheduling;
mod resource_quota;
mod resource_strategy_fit;
mod shares;
mod sla;
mod task_topology;
mod tdm;
mod tiers;
mod usable_nodes;
mod usage;

use build::build;
pub(crate) use drf::JobShare;
pub(crate) use network_topology_aware::Purpose;
use on_nodes::NodeEntry;
pub(crate) use on_nodes::OnNode;
pub(crate) use pdb::Budgets;
pub(crate) use queue_tree::QueueTree;
pub use shares::LimitingKey;
pub(crate) use shares::{QueueShare, Shares};
pub(crate) use tiers::Tiers;

use crate::conf::{self, Action, Conf, PluginName, Switch};
use crate::session::eviction_kind::EvictionKind;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::fit::Refusal;
use crate::session::snapshot::hyper_nodes::HyperNodeId;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::Resource;
use crate::session::snapshot::sub_jobs::{Nearness, SubJob};
use evictd_batch_objects::Compat;
use evictd_placement::{Cluster, NodeId};
use std::cmp::Ordering;
use std::fmt::Debug;

/// A plugin's vote on whether a job may be enqueued, or is pipelined.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Vote {
    Abstain,
    Permit,
    Reject,
}

/// Why a job is not scheduled (S6-120).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Invalid {
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The amount that a job has lost to another one so far.
#[derive(Debug, Default)]
pub(crate) struct Lost {
    pub(crate) tasks: i32,
    pub(crate) amount: Resource,
}

/// The amounts that a job leaves free for the job with a reservation.
#[derive(Debug, Default)]
pub(crate) struct Reserved {
    pub(crate) of_cluster: Option<Resource>,
    pub(crate) of_share: Option<Resource>,
    /// The amounts that jobs of its queue hold and would lose to it.
    pub(crate) returned: Option<Resource>,
}

/// The order of two tasks by a plugin.
pub(crate) trait TaskOrder {
    fn task_order(&self, snapshot: &Snapshot, one: TaskId, other: TaskId) -> Ordering;
}

/// A plugin of a session. Each hook is called only where the configuration enables it, and by default has no opinion.
#[expect(unused_variables, reason = "the names document the hooks")]
pub(crate) trait Plugin: Debug {
    /// `Less` if the first job comes first.
    fn job_order(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Ordering {
        Ordering::Equal
    }

    /// Why this plugin orders the first job first, for people.
    fn job_order_message(&self, snapshot: &Snapshot, one: JobId, other: JobId) -> Option<String> {
        None
    }

    /// The order of a task's job and of another one, once the task is placed and the other job has lost an amount.
    fn job_order_after(
        &self,
        snapshot: &Snapshot,
        task: TaskId,
        job: JobId,
        lost: &Lost,
    ) -> Ordering {
        Ordering::Equal
    }

    /// The order of tasks; `None` if the plugin orders none. It is asked once a session, because tasks are compared often.
    fn task_order(&self) -> Option<&dyn TaskOrder> {
        None
    }

    fn queue_order(&self, snapshot: &Snapshot, one: QueueId, other: QueueId) -> Ordering {
        Ordering::Equal
    }

    /// The order in which two queues lose pods to another queue; `Less` if the first loses them first.
    fn victim_queue_order(&self, one: QueueId, other: QueueId, preemptor: QueueId) -> Ordering {
        Ordering::Equal
    }

    /// The candidates without those that no task may preempt or reclaim; `None` if the plugin protects no pods.
    fn unprotected(&self, snapshot: &Snapshot, candidates: &[TaskId]) -> Option<Vec<TaskId>> {
        None
    }

    /// The candidates that a task may preempt within its queue.
    fn preemptable(
        &self,
        tiers: Tiers<'_>,
        preemptor: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        self.unprotected(tiers.snapshot, candidates)
    }

    /// The candidates that a task may reclaim from other queues.
    fn reclaimable(
        &self,
        tiers: Tiers<'_>,
        reclaimer: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        self.unprotected(tiers.snapshot, candidates)
    }

    /// The candidates, in their order, that a gang may evict.
    fn gang_evictable(
        &self,
        snapshot: &Snapshot,
        kind: EvictionKind,
        job: JobId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        None
    }

    /// The running tasks that shuffle evicts; `None` where it has no opinion now.
    fn shuffled(&self, snapshot: &Snapshot, running: &[TaskId]) -> Option<Vec<TaskId>> {
        None
    }

    /// Whether a job may lose pods to another job of its queue, without looking at single tasks.
    fn might_yield(&self, snapshot: &Snapshot, job: JobId, to: JobId) -> Option<bool> {
        None
    }

    /// Whether a job with this request may be enqueued. An error is the objection; it is empty for a closed queue.
    fn job_enqueueable(
        &self,
        tiers: Tiers<'_>,
        job: JobId,
        request: &Resource,
        reserved: &Reserved,
    ) -> Result<Vote, String> {
        match self.queue_shares() {
            Some(shares) => shares.enqueueable(tiers.snapshot, job, request, reserved),
            None => Ok(Vote::Abstain),
        }
    }

    /// A job was enqueued, with all plugins' consent.
    fn job_let_in(&mut self, snapshot: &Snapshot, job: JobId) {}

    /// A job was enqueued: sets aside its request.
    fn job_enqueued(&mut self, queue: QueueId, request: &Resource) {
        if let Some(shares) = self.queue_shares_mut() {
            shares.add_inqueue(queue, request);
        }
    }

    /// Whether a queue has its deserved share.
    fn overused(&self, queue: QueueId) -> bool {
        false
    }

    /// Whether a queue may use one request more.
    fn allocatable(&self, snapshot: &Snapshot, queue: QueueId, request: &Resource) -> bool {
        let Some(shares) = self.queue_shares() else {
            return true;
        };
        let fits = |share: &QueueShare| share.with(request).within_for(self.limit(share), request);
        snapshot.queues[queue].open
            && self.has_place(queue)
            && shares.path(queue).all(|(_, share)| fits(share))
    }

    /// Whether jobs of a queue may have anything: it has a place in the tree of queues, and no queues below.
    fn has_place(&self, queue: QueueId) -> bool {
        true
    }

    /// Why no job of a queue is enqueued, whatever it requests.
    fn queue_objection(&self, snapshot: &Snapshot, queue: QueueId) -> Option<String> {
        None
    }

    /// Whether a queue may evict pods of other queues for a request.
    fn preemptive(&self, snapshot: &Snapshot, queue: QueueId, request: &Resource) -> bool {
        self.allocatable(snapshot, queue, request)
    }

    fn job_ready(&self, snapshot: &Snapshot, job: JobId) -> bool {
        true
    }

    fn job_pipelined(&self, snapshot: &Snapshot, job: JobId) -> Vote {
        Vote::Abstain
    }

    fn job_starving(&self, snapshot: &Snapshot, job: JobId) -> Option<bool> {
        None
    }

    /// Why a job is not scheduled. No switch disables this hook.
    fn job_valid(&self, snapshot: &Snapshot, job: JobId) -> Option<Invalid> {
        None
    }

    /// A task was allocated or pipelined.
    fn allocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        if let Some(shares) = self.queue_shares_mut() {
            shares.change(snapshot, task, true);
        }
    }

    fn deallocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        if let Some(shares) = self.queue_shares_mut() {
            shares.change(snapshot, task, false);
        }
    }

    /// The shares of queues, if the plugin computes them. The hooks about queues go by them, unless the plugin says more.
    fn queue_shares(&self) -> Option<&Shares> {
        None
    }

    fn queue_shares_mut(&mut self) -> Option<&mut Shares> {
        None
    }

    /// The amounts that a queue may hold.
    fn limit<'s>(&self, share: &'s QueueShare) -> &'s Resource {
        &share.real_capability
    }

    /// The deserved share of a queue if another queue wanted the whole cluster.
    fn deserved_if_wanted(&self, queue: QueueId, wanting: QueueId) -> Option<&Resource> {
        None
    }

    /// Whether reclaim may make room for a request of a queue.
    fn may_reclaim(&self, queue: QueueId, request: &Resource) -> Option<bool> {
        let share = self.queue_shares()?.of(queue)?;
        let deserved = self.deserved_if_wanted(queue, queue)?;
        Some(share.with_job(request).within_for(deserved, request))
    }

    /// Whether a queue holds more than it would deserve if another queue wanted the whole cluster.
    fn may_lose(&self, queue: QueueId, wanting: QueueId) -> Option<bool> {
        let share = self.queue_shares()?.of(queue)?;
        Some(share.exceeds(self.deserved_if_wanted(queue, wanting)?))
    }

    /// Whether an amount, computed from the queue's share, is within the limits of a queue.
    fn within_limits(
        &self,
        queue: QueueId,
        amount: &dyn Fn(&QueueShare) -> Resource,
        request: &Resource,
    ) -> bool {
        let Some(shares) = self.queue_shares() else {
            return true;
        };
        shares.path(queue).all(|(_, share)| {
            let amount = amount(share);
            amount.within_for(self.limit(share), request)
                && amount.within_for(&share.real_capability, request)
        })
    }

    /// Of two queues the largest part of their fair shares that they hold or were promised.
    fn promised_shares(
        &self,
        snapshot: &Snapshot,
        (one, other): (QueueId, QueueId),
    ) -> Option<(f64, f64)> {
        let shares = self.queue_shares()?;
        let promised = |queue: QueueId| shares.promised(queue, &snapshot.total, false);
        Some((promised(one), promised(other)))
    }

    /// The tree of queues, if the plugin uses it.
    fn queue_tree(&self) -> Option<&QueueTree> {
        None
    }

    /// The closed queue above a queue that keeps its jobs out.
    fn closed_above(&self, snapshot: &Snapshot, queue: QueueId) -> Option<QueueId> {
        None
    }

    /// Whether it knows the deserved share of a queue.
    fn knows_shares(&self) -> bool {
        self.queue_shares().is_some()
    }

    /// The dominant shares of jobs.
    fn job_shares(&self) -> Option<&[JobShare]> {
        None
    }

    /// Whether namespaces are compared before jobs.
    fn compares_namespaces(&self) -> bool {
        false
    }

    /// The promised amounts with one more request, and their limit.
    fn cluster_limit(&self, request: &Resource) -> Option<(Resource, &Resource)> {
        None
    }

    /// A key, beside the class of the task, on which its answers about nodes depend.
    fn node_key(&self, snapshot: &Snapshot, task: TaskId) -> u64 {
        0
    }

    /// Whether its answer about a node depends on other nodes, too.
    fn looks_beyond(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        false
    }

    /// Why a task may not be on a node.
    fn node_refusal(&self, at: OnNode<'_>) -> Option<Refusal> {
        None
    }

    /// How good a node is for a task.
    fn node_score(&self, at: OnNode<'_>) -> f64 {
        0.0
    }

    /// How good each of some nodes is for a task, where the scores depend on each other.
    fn node_scores(&self, at: OnNode<'_>, nodes: &[NodeId]) -> Option<Vec<f64>> {
        None
    }

    /// Whether its scores of nodes depend on each other although its refusals do not.
    fn scores_together(&self, snapshot: &Snapshot, task: TaskId) -> bool {
        false
    }

    /// `Less` if the first part of a job comes first.
    fn sub_job_order(&self, snapshot: &Snapshot, one: &SubJob, other: &SubJob) -> Ordering {
        Ordering::Equal
    }

    /// Whether it counts the tasks of parts of jobs.
    fn counts_parts(&self) -> bool {
        false
    }

    /// The groups of nodes below `root` where tasks are tried that need so much, in the order of trial. Unknown needs leave no
    /// group out. `allocated` is the group of those that have nodes.
    fn gradient(
        &self,
        nearness: Nearness,
        root: HyperNodeId,
        (allocated, need): (Option<HyperNodeId>, Option<&Resource>),
        purpose: Purpose,
    ) -> Option<Vec<Vec<HyperNodeId>>> {
        None
    }

    /// How good each of these groups of nodes is for a part of a job.
    fn group_scores(
        &self,
        snapshot: &Snapshot,
        part: &SubJob,
        groups: &[HyperNodeId],
    ) -> Option<Vec<f64>> {
        None
    }

    /// The processors that tasks got in this session.
    fn processors_assigned(&self) -> Option<Vec<(TaskId, NodeId, String)>> {
        None
    }

    /// Whether gangs that cannot spare a task are evicted as a whole.
    fn evicts_whole_gangs(&self) -> bool {
        false
    }

    /// Why a task that has just got a node must not keep it.
    fn veto(&self, task: TaskId) -> Option<&str> {
        None
    }

    /// The session ends. Returns whether the plugin may decide otherwise in the next one although nothing has changed.
    fn closed(&self) -> bool {
        false
    }
}

/// A plugin in a tier, by its place among the opened ones.
#[derive(Debug)]
struct Entry {
    settings: conf::Plugin,
    at: usize,
}

/// The plugins of a session by tiers.
#[derive(Debug)]
pub(crate) struct Plugins {
    opened: Vec<(PluginName, Box<dyn Plugin>)>,
    tiers: Vec<Vec<Entry>>,
    /// The places in `opened` of those that order tasks.
    on_tasks: Vec<usize>,
    /// Those that judge nodes, in order.
    on_nodes: Vec<NodeEntry>,
    compat: Compat,
    /// Whether an action takes room from other queues.
    reclaims: bool,
}

impl Plugins {
    /// Opens the plugins at the start of a session.
    pub(crate) fn open(
        snapshot: &Snapshot,
        cluster: &Cluster,
        conf: &Conf,
        compat: Compat,
    ) -> Self {
        let mut opened: Vec<(PluginName, Box<dyn Plugin>)> = Vec::new();
        let mut tiers = Vec::new();
        for tier in &conf.tiers {
            let mut entries = Vec::new();
            for settings in tier {
                let Some(plugin) = build(settings, snapshot, cluster, (conf, compat)) else {
                    continue;
                };
                // A plugin that is named twice has the arguments of the last one.
                let known = opened.iter().position(|(name, _)| *name == settings.name);
                let at = known.unwrap_or(opened.len());
                match known {
                    Some(at) => opened[at].1 = plugin,
                    None => opened.push((settings.name, plugin)),
                }
                let settings = settings.clone();
                entries.push(Entry { settings, at });
            }
            tiers.push(entries);
        }
        let ordering = tiers.iter().flatten().filter(|entry: &&Entry| {
            entry.settings.at(Switch::TaskOrder) && opened[entry.at].1.task_order().is_some()
        });
        Self {
            on_tasks: ordering.map(|entry| entry.at).collect(),
            on_nodes: on_nodes::entries(conf, &opened),
            opened,
            tiers,
            compat,
            reclaims: [Action::Reclaim, Action::GangReclaim]
                .iter()
                .any(|action| conf.actions.contains(action)),
        }
    }

    /// The plugins that implement a hook, tier by tier.
    fn at(
        &self,
        switch: Switch,
    ) -> impl Iterator<Item = impl Iterator<Item = (PluginName, &dyn Plugin)>> {
        self.tiers.iter().map(move |tier| {
            let enabled = tier.iter().filter(move |entry| entry.settings.at(switch));
            enabled.map(|entry| (entry.settings.name, &*self.opened[entry.at].1))
        })
    }

    /// The plugins that order tasks, tier by tier.
    fn task_orders(&self) -> impl Iterator<Item = &dyn TaskOrder> {
        let plugins = self.on_tasks.iter().map(|at| &self.opened[*at].1);
        plugins.filter_map(|plugin| plugin.task_order())
    }

    /// Every opened plugin.
    pub(crate) fn all(&self) -> impl Iterator<Item = &dyn Plugin> {
        self.opened.iter().map(|(_, plugin)| &**plugin)
    }

    pub(crate) fn get(&self, name: PluginName) -> Option<&dyn Plugin> {
        let mut opened = self.opened.iter();
        opened
            .find(|(known, _)| *known == name)
            .map(|(_, plugin)| &**plugin)
    }

    /// The shares of queues by the first of these plugins that is loaded.
    pub(crate) fn shares_of(&self, names: [PluginName; 2]) -> Option<&Shares> {
        let mut plugins = names.into_iter().filter_map(|name| self.get(name));
        plugins.find_map(Plugin::queue_shares)
    }

    /// The queue shares of each plugin that has them.
    pub(crate) fn each_shares_mut(&mut self) -> impl Iterator<Item = &mut Shares> {
        let opened = self.opened.iter_mut();
        opened.filter_map(|(_, plugin)| plugin.queue_shares_mut())
    }

    /// The session ends. Returns whether the next one may have another result although nothing has changed.
    pub(crate) fn close(&self) -> bool {
        let all = self.opened.iter();
        all.fold(false, |other, (_, plugin)| plugin.closed() || other)
    }

    /// Why no job of a queue is enqueued, whatever it requests; the first plugin that objects.
    pub(crate) fn queue_objection(&self, snapshot: &Snapshot, queue: QueueId) -> Option<String> {
        let objection = |plugin: &dyn Plugin| plugin.queue_objection(snapshot, queue);
        self.all().find_map(objection)
    }

    /// Why a queue has no place in the tree of queues, so that no pod of its jobs gets a node.
    pub(crate) fn no_place(&self, snapshot: &Snapshot, queue: QueueId) -> Option<String> {
        let mut plugins = self.all().filter(|plugin| !plugin.has_place(queue));
        plugins.find_map(|plugin| plugin.queue_objection(snapshot, queue))
    }

    /// Why a task that has just got a node must not keep it.
    pub(crate) fn veto(&self, task: TaskId) -> Option<&str> {
        self.opened.iter().find_map(|(_, plugin)| plugin.veto(task))
    }

    /// Calls the hook of an enqueued job, in each tier that has the plugin.
    pub(crate) fn job_enqueued(&mut self, queue: QueueId, request: &Resource) {
        let entries = self.tiers.iter().flatten();
        let enabled = entries.filter(|entry| entry.settings.at(Switch::JobEnqueued));
        for entry in enabled {
            self.opened[entry.at].1.job_enqueued(queue, request);
        }
    }

    /// A job was enqueued.
    pub(crate) fn job_let_in(&mut self, snapshot: &Snapshot, job: JobId) {
        for (_, plugin) in &mut self.opened {
            plugin.job_let_in(snapshot, job);
        }
    }

    pub(crate) fn allocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        for (_, plugin) in &mut self.opened {
            plugin.allocated(snapshot, task);
        }
    }

    pub(crate) fn deallocated(&mut self, snapshot: &Snapshot, task: TaskId) {
        for (_, plugin) in &mut self.opened {
            plugin.deallocated(snapshot, task);
        }
    }
}
