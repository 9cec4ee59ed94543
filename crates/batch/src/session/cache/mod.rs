//! The scheduler cache: the objects of sessions, kept between sessions and updated by events (S6-088).

mod hyper_nodes;
mod nodes;
mod pods;

use super::Session;
use super::diagnosis::{DiagnosisObserver, JobDiagnosis};
use super::objects::{
    GROUP_LIMITS, HIERARCHY, HIERARCHY_WEIGHTS, Objects, PREEMPTABLE, ROOT, Setting, is_true, key,
};
use super::observer::Observer;
use super::outcome::Outcome;
use super::plain::Owners;
use super::pod_id::PodId;
use super::snapshot::{Budget, Dequeue, GROUP_MARKS, Job, Queue, Quota, Snapshot};
use super::turns::Turns;
use crate::conf::Conf;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::is_scalar;
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::sub_jobs::JobTopology;
use crate::session::snapshot::upstream::upstream_job;
use crate::session::snapshot::upstream::{QueuesOfWorkloads, Upstream};
use evictd_batch_objects::{
    Compat, IN_STAGES, NodeMetrics, Numatopology, PodGroup, PodGroupStatus, QueueState,
    ResourceQuota, Workload, queue_of,
};
use evictd_placement::Cluster;
use evictd_pod::resources::{CPU, MEMORY, PODS};
use evictd_pod::wire::{Metadata, PodDisruptionBudget, PriorityClass, ResourceList, Time};
use evictd_pod::{Quantity, TooManyResources};
use hashbrown::{HashMap, HashSet};
use hyper_nodes::KnownHyperNodes;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The scheduler cache: jobs, queues, and the tasks on nodes. Events may arrive in any order.
///
/// It belongs to one [`Cluster`], which holds the nodes and counts the pods on them. The cache needs the pods of jobs only.
/// Update the cluster first when a pod is added or changed.
#[derive(Debug)]
pub struct Cache {
    setting: Setting,
    snapshot: Snapshot,
    pods: HashMap<PodId, TaskId>,
    jobs: HashMap<Arc<str>, JobId>,
    queues: HashMap<Arc<str>, QueueId>,
    /// By name, with its value and whether it is that of pods that name none.
    classes: BTreeMap<String, (i32, bool)>,
    workloads: QueuesOfWorkloads,
    owners: Owners,
    free_tasks: Vec<TaskId>,
    free_jobs: Vec<JobId>,
    /// The change of the cluster up to which nodes were read.
    read_until: Option<u64>,
    /// Jobs or queues have changed since the last session.
    stale_jobs: bool,
    hyper_nodes: KnownHyperNodes,
}

impl Cache {
    /// Nothing yet.
    pub fn new(setting: Setting) -> Self {
        let mut snapshot = Snapshot::default();
        snapshot.facts.extender.clone_from(&setting.extender);
        Self {
            setting,
            snapshot,
            pods: HashMap::new(),
            jobs: HashMap::new(),
            queues: HashMap::new(),
            classes: BTreeMap::new(),
            workloads: QueuesOfWorkloads::new(),
            owners: Owners::default(),
            free_tasks: Vec::new(),
            free_jobs: Vec::new(),
            read_until: None,
            stale_jobs: true,
            hyper_nodes: KnownHyperNodes::default(),
        }
    }

    /// All these objects. The cluster holds the nodes and the pods on them already. Of several pods of one name the first
    /// counts.
    pub fn of(cluster: &mut Cluster, objects: &Objects, setting: Setting) -> Self {
        let mut cache = Self::new(setting);
        for hyper_node in &objects.hyper_nodes {
            cache.hyper_node(hyper_node);
        }
        for queue in &objects.queues {
            cache.queue(queue);
        }
        for class in &objects.priority_classes {
            cache.class(class);
        }
        for group in &objects.pod_groups {
            cache.group(group);
        }
        for workload in &objects.workloads {
            cache.workload(workload);
        }
        for group in &objects.upstream_pod_groups {
            cache.upstream_group(group);
        }
        for owner in &objects.owners {
            cache.owner(&owner.metadata);
        }
        cache.facts(objects);
        let mut observer = HashSet::new();
        for pod in &objects.pods {
            if observer.insert((pod.metadata.namespace_or_default(), &pod.metadata.name)) {
                cache.pod(cluster, pod);
            }
        }
        cache
    }

    /// Runs one session. Afterwards the cluster and this cache are as before.
    pub fn session(&mut self, cluster: &mut Cluster, conf: &Conf, compat: Compat) -> Outcome {
        self.watched(cluster, conf, compat, &mut ())
    }

    /// Runs one session, and looks closely at one job meanwhile, `namespace/name`. Nothing is observer of a job that the session
    /// does not look at: it has no pod group, or no queue.
    pub fn diagnosis(
        &mut self,
        cluster: &mut Cluster,
        conf: &Conf,
        compat: Compat,
        job: &str,
    ) -> (Outcome, Option<JobDiagnosis>) {
        let at = self.jobs.get(job).copied();
        self.settle(cluster);
        let Some(at) = at.filter(|at| self.snapshot.jobs[*at].is_live) else {
            return (self.session(cluster, conf, compat), None);
        };
        let mut observer = DiagnosisObserver::of(at);
        let outcome = self.watched(cluster, conf, compat, &mut observer);
        (outcome, Some(observer.into_diagnosis()))
    }

    pub(in crate::session) fn watched(
        &mut self,
        cluster: &mut Cluster,
        conf: &Conf,
        compat: Compat,
        observer: &mut impl Observer,
    ) -> Outcome {
        self.settle(cluster);
        self.read_hyper_nodes(cluster, compat);
        let snapshot = std::mem::take(&mut self.snapshot);
        let (snapshot, outcome) = Session::run(cluster, snapshot, conf, compat, observer);
        self.snapshot = snapshot;
        self.assume_processors(&outcome);
        outcome
    }

    /// Sets the time of the next sessions. Without it no nodes are reserved.
    pub fn set_now(&mut self, now: Timestamp) {
        self.snapshot.now = Some(now);
    }

    /// The reservation turns. Keep them across restarts.
    pub const fn turns(&self) -> &Turns {
        &self.snapshot.turns
    }

    /// Sets the turns as an earlier run left them.
    pub fn set_turns(&mut self, turns: Turns) {
        self.snapshot.turns = turns;
    }

    /// A queue came or changed.
    pub fn queue(&mut self, wire: &evictd_batch_objects::Queue) {
        self.stale_jobs = true;
        let (spec, metadata) = (&wire.spec, &wire.metadata);
        let name: Arc<str> = metadata.name.as_str().into();
        let annotation = |name: &str| {
            let text = metadata.annotations.get(name);
            text.unwrap_or_default().into()
        };
        let parent = match spec.parent.as_str() {
            "" if &*name == ROOT => "",
            "" => ROOT,
            parent => parent,
        };
        let dims = &mut self.snapshot.dims;
        let mut some = |list: &ResourceList| (!list.is_empty()).then(|| dims.read(list));
        let queue = Queue {
            name: Arc::clone(&name),
            gone: false,
            parent_name: parent.into(),
            created: metadata.creation_timestamp.map(Time::timestamp),
            parent: None,
            weight: f64::from(spec.weight),
            priority: spec.priority,
            open: wire.status.state == QueueState::Open,
            reclaimable: spec.reclaimable.unwrap_or(true),
            dequeue: match spec.dequeue_strategy.as_str() {
                "fifo" => Dequeue::Fifo,
                _ => Dequeue::Traverse,
            },
            capability: some(&spec.capability),
            guarantee: some(&spec.guarantee.resource),
            deserved: some(&spec.deserved).unwrap_or_default(),
            path: annotation(HIERARCHY),
            path_weights: annotation(HIERARCHY_WEIGHTS),
            affinity: spec.affinity.clone(),
            group_limits: metadata.annotations.get(GROUP_LIMITS).map(Into::into),
        };
        // Slots of deleted queues are reused, so that ids stay small.
        let free = || {
            let mut ids = self.snapshot.queue_ids();
            ids.find(|id| self.snapshot.queues[*id].gone)
        };
        let at = self.queues.get(&name).copied().or_else(free);
        if let Some(at) = at {
            self.snapshot.queues[at] = queue;
        } else {
            self.snapshot.queues.push(queue);
        }
        let at = at.unwrap_or_else(|| QueueId::of(self.snapshot.queues.len() - 1));
        self.queues.insert(name, at);
    }

    /// A queue is deleted. Its jobs are left out until it exists again.
    pub fn remove_queue(&mut self, name: &str) {
        if let Some(at) = self.queues.remove(name) {
            self.stale_jobs = true;
            self.snapshot.queues[at].gone = true;
        }
    }

    /// A class of priorities came or changed.
    pub fn class(&mut self, wire: &PriorityClass) {
        self.stale_jobs = true;
        let name = wire.metadata.name.clone();
        self.classes.insert(name, (wire.value, wire.global_default));
    }

    /// A priority class is deleted.
    pub fn remove_class(&mut self, name: &str) {
        self.stale_jobs = true;
        self.classes.remove(name);
    }

    /// A pod group came or changed.
    pub fn group(&mut self, wire: &PodGroup) {
        self.stale_jobs = true;
        let roles = wire.spec.min_task_member.iter();
        let roles: Vec<(Role, i32)> = roles
            .map(|(role, count)| (self.snapshot.roles.of(role), *count))
            .collect();
        let need = wire.spec.min_resources.as_ref();
        let refused = need.and_then(|list| TooManyResources::check(list.len()).err());
        let need = need.filter(|_| refused.is_none());
        let need = need.map(|list| self.snapshot.dims.read(list));
        let at = self.job(key(&wire.metadata));
        let job = &mut self.snapshot.jobs[at];
        job.has_group = true;
        job.queue_name = wire.spec.queue.as_str().into();
        job.class_name = wire.spec.priority_class_name.as_str().into();
        job.created = wire.metadata.creation_timestamp.map(Time::timestamp);
        job.min_member = wire.spec.min_member;
        job.min_task_total = roles
            .iter()
            .fold(0, |sum: i32, (_, count)| sum.saturating_add(*count));
        job.min_task_member = roles;
        let is_staged = wire.metadata.annotations.get(IN_STAGES);
        job.is_staged = is_staged.is_some_and(is_true);
        let topology = wire.spec.network_topology.as_ref();
        job.network = JobTopology::read(topology, &wire.spec.sub_group_policy);
        job.refused = refused;
        job.min_resources = need;
        let list = wire.spec.min_resources.as_ref();
        // The amounts of a session lose names that only quotas know, named zeros and parts of a thousandth.
        let of_quota = |(name, amount): (&str, &Quantity)| {
            let amount = amount.nano_value();
            amount == 0
                || amount % 1_000_000 != 0
                || !is_scalar(name) && ![CPU, MEMORY, PODS].contains(&name)
        };
        let list = list.filter(|list| job.refused.is_none() && list.iter().any(of_quota));
        job.min_list = list.map(|list| Box::new(list.clone()));
        let metadata = &wire.metadata;
        let marks = GROUP_MARKS.into_iter().filter_map(|key| {
            // Only this mark may be a label, too.
            let label = metadata.labels.get(key).filter(|_| key == PREEMPTABLE);
            Some((key, metadata.annotations.get(key).or(label)?))
        });
        job.marks = marks.collect();
        job.begin(wire.status.clone());
    }

    /// A pod group is deleted. Its pods wait for another one.
    pub fn remove_group(&mut self, metadata: &Metadata) {
        let Some(at) = self.jobs.get(&key(metadata)).copied() else {
            return;
        };
        self.stale_jobs = true;
        self.snapshot.jobs[at].has_group = false;
        self.drop_unused(at);
    }

    /// Records the status that a session gave a job. Groups of `scheduling.k8s.io` have no phase, and bare pods have no
    /// group, so no object stores it.
    pub fn assume_status(&mut self, job: &str, status: PodGroupStatus) {
        if let Some(at) = self.jobs.get(job) {
            self.snapshot.jobs[*at].begin(status);
        }
    }

    /// The job of that name, which may be new.
    fn job(&mut self, key: Arc<str>) -> JobId {
        if let Some(at) = self.jobs.get(&key) {
            return *at;
        }
        let job = Job::new(Arc::clone(&key));
        let at = if let Some(at) = self.free_jobs.pop() {
            self.snapshot.jobs[at] = job;
            at
        } else {
            self.snapshot.jobs.push(job);
            JobId::of(self.snapshot.jobs.len() - 1)
        };
        self.jobs.insert(key, at);
        at
    }

    /// Forgets a job that has neither a group nor pods.
    fn drop_unused(&mut self, at: JobId) {
        let job = &self.snapshot.jobs[at];
        if !job.has_group && job.tasks.is_empty() && self.jobs.remove(&job.key).is_some() {
            self.stale_jobs = true;
            let job = &mut self.snapshot.jobs[at];
            job.min_task_member.clear();
            job.failed_roles.clear();
            self.free_jobs.push(at);
        }
    }

    /// Sweeps the names of tasks that no job and no pod has any more.
    fn sweep_roles(&mut self) {
        let snapshot = &mut self.snapshot;
        let of_jobs = snapshot.jobs.iter().flat_map(|job| {
            let needed = job.min_task_member.iter().map(|(role, _)| *role);
            needed.chain(job.failed_roles.iter().copied())
        });
        let of_tasks = snapshot.tasks.iter().map(|task| task.role);
        snapshot.roles.sweep(of_jobs.chain(of_tasks));
    }

    /// Forgets names of resources that no object mentions any more.
    fn sweep_names(&mut self) {
        let mut dims = std::mem::take(&mut self.snapshot.dims);
        dims.sweep(self.snapshot.amounts());
        self.snapshot.dims = dims;
    }

    /// Resolves references by name after changes.
    fn settle(&mut self, cluster: &Cluster) {
        if self.snapshot.dims.is_due_for_sweep() {
            self.sweep_names();
        }
        if self.snapshot.roles.is_due_for_sweep() {
            self.sweep_roles();
        }
        self.read_nodes(cluster);
        if std::mem::take(&mut self.stale_jobs) {
            self.settle_jobs();
        }
    }

    fn settle_jobs(&mut self) {
        let snapshot = &mut self.snapshot;
        for queue in &mut snapshot.queues {
            queue.parent = self.queues.get(&*queue.parent_name).copied();
        }
        let classes = || self.classes.values();
        let default = classes().find(|(_, is_default)| *is_default);
        let default = default.map_or(0, |(value, _)| *value);
        snapshot.live.clear();
        for (index, job) in snapshot.jobs.iter_mut().enumerate() {
            let named = match &job.upstream {
                Some(upstream) => upstream.queue_name(&self.workloads),
                None => &*job.queue_name,
            };
            let queue_name = match named {
                "" => self.setting.default_queue.as_str(),
                queue => queue,
            };
            let queue = self.queues.get(queue_name).copied();
            let upstream = job.upstream.as_deref();
            let against =
                upstream.and_then(|_| Upstream::reason_against(queue_name, queue.is_some()));
            let class = self.classes.get(&*job.class_name).map(|(value, _)| *value);
            job.class_priority = match upstream {
                Some(upstream) => upstream.priority(class, job.tasks.len()),
                None => class.unwrap_or(default),
            };
            // A group of scheduling.k8s.io that only other schedulers' pods name is no job.
            let is_job = job.has_group && (upstream.is_none() || !job.tasks.is_empty());
            let queue = queue.filter(|_| is_job && against.is_none());
            job.is_live = queue.is_some();
            if let Some(upstream) = &mut job.upstream {
                // It is reported as the reason of the group, which is no job meanwhile.
                upstream.left_out = against.filter(|_| is_job);
            }
            let Some(queue) = queue else { continue };
            job.queue = queue;
            snapshot.live.push(JobId::of(index));
        }
        let jobs = &snapshot.jobs;
        snapshot.live.sort_unstable_by_key(|job| &jobs[*job].key);
    }

    /// A group came or changed.
    pub fn upstream_group(&mut self, wire: &evictd_pod::wire::PodGroup) {
        self.stale_jobs = true;
        let at = self.job(upstream_job(&wire.metadata));
        let job = &mut self.snapshot.jobs[at];
        job.upstream.get_or_insert_default().read(wire);
        job.has_group = true;
        job.class_name = wire.spec.priority_class_name.as_str().into();
        job.created = wire.metadata.creation_timestamp.map(Time::timestamp);
        let gang = wire.spec.scheduling_policy.gang.as_ref();
        job.min_member = gang.map_or(1, |gang| gang.min_count);
    }

    /// A group is deleted. Its pods wait for another one.
    pub fn remove_upstream_group(&mut self, metadata: &Metadata) {
        let Some(at) = self.jobs.get(&upstream_job(metadata)).copied() else {
            return;
        };
        self.stale_jobs = true;
        let job = &mut self.snapshot.jobs[at];
        job.has_group = false;
        job.begin(PodGroupStatus::default());
        self.drop_unused(at);
    }

    /// A workload came or changed.
    pub fn workload(&mut self, wire: &Workload) {
        self.stale_jobs = true;
        let name = key(&wire.metadata);
        let queue = queue_of(&wire.metadata).into();
        self.workloads.insert((&*name).into(), queue);
    }

    /// A workload is deleted.
    pub fn remove_workload(&mut self, metadata: &Metadata) {
        self.stale_jobs = true;
        self.workloads.remove(&*key(metadata));
    }

    /// All of these among the objects of a file.
    pub(crate) fn facts(&mut self, objects: &Objects) {
        for quota in &objects.resource_quotas {
            self.quota(quota);
        }
        for budget in &objects.pod_disruption_budgets {
            self.budget(budget);
        }
        for (node, metrics) in &objects.node_metrics {
            self.node_metrics(node, Some(metrics.clone()));
        }
        for topology in &objects.numatopologies {
            self.numatopology(topology);
        }
        self.snapshot.now = objects.now;
    }

    /// A quota came or changed.
    pub fn quota(&mut self, wire: &ResourceQuota) {
        let (metadata, status) = (&wire.metadata, &wire.status);
        let quota = Quota {
            hard: status.hard.clone(),
            used: status.used.clone(),
        };
        let quotas = &mut self.snapshot.facts.quotas;
        let of_namespace = quotas.entry(metadata.namespace_or_default().into());
        of_namespace
            .or_default()
            .insert(metadata.name.as_str().into(), quota);
    }

    /// A quota is deleted.
    pub fn remove_quota(&mut self, metadata: &Metadata) {
        let quotas = &mut self.snapshot.facts.quotas;
        let namespace = metadata.namespace_or_default();
        if let Some(of_namespace) = quotas.get_mut(namespace) {
            of_namespace.remove(metadata.name.as_str());
            if of_namespace.is_empty() {
                quotas.remove(namespace);
            }
        }
    }

    /// A disruption budget came or changed.
    pub fn budget(&mut self, wire: &PodDisruptionBudget) {
        let disrupted = wire.status.disrupted_pods.keys();
        let budget = Budget {
            namespace: wire.metadata.namespace_or_default().into(),
            selector: wire.spec.selector.clone().unwrap_or_default(),
            allowed: wire.status.disruptions_allowed.unwrap_or(0),
            disrupted: disrupted.map(|name| (**name).into()).collect(),
        };
        let budgets = &mut self.snapshot.facts.budgets;
        budgets.insert(key(&wire.metadata), budget);
    }

    /// A disruption budget is deleted.
    pub fn remove_budget(&mut self, metadata: &Metadata) {
        self.snapshot.facts.budgets.remove(&key(metadata));
    }

    /// The processors of a node came or changed.
    pub fn numatopology(&mut self, wire: &Numatopology) {
        self.snapshot.facts.numa.put(wire);
    }

    /// The processors of a node are no longer reported.
    pub fn remove_numatopology(&mut self, metadata: &Metadata) {
        self.snapshot.facts.numa.remove(metadata);
    }

    /// Pods that are bound keep the processors that the session chose until their nodes report them.
    fn assume_processors(&mut self, outcome: &Outcome) {
        let Some(assigned) = &outcome.numa_assigned else {
            return;
        };
        let tasks = &self.snapshot.tasks;
        let pods = &self.pods;
        let numa = &mut self.snapshot.facts.numa;
        // Only pods on their node keep processors: unbound and deleted pods have none.
        numa.keep(|node, pod| {
            let task = pods.get(pod).map(|task| &tasks[*task]);
            task.is_some_and(|task| task.node == Some(node) && !task.status.is_done())
        });
        for (pod, node) in &outcome.bindings {
            let task = pods.get(pod).map(|task| &tasks[*task]);
            let found = task.and_then(|task| Some((task, assigned.get(&*task.key)?)));
            if let Some((task, found)) = found {
                numa.assume(*node, pod.clone(), Arc::clone(&task.key), &found.cpu);
            }
        }
    }

    /// The measured use of all nodes. One that is left out is no longer measured.
    pub fn measured_nodes(&mut self, nodes: impl IntoIterator<Item = (String, NodeMetrics)>) {
        let nodes = nodes.into_iter();
        let nodes = nodes.map(|(node, metrics)| (node.into(), metrics));
        self.snapshot.facts.node_metrics = nodes.collect();
    }

    /// The measured use of a node; `None` where nothing is measured any more.
    pub fn node_metrics(&mut self, node: &str, metrics: Option<NodeMetrics>) {
        let known = &mut self.snapshot.facts.node_metrics;
        match metrics {
            Some(metrics) => known.insert(node.into(), metrics),
            None => known.remove(node),
        };
    }
}
