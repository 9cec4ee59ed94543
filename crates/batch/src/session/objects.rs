//! From Kubernetes' and Volcano's objects to what a session works on (S6-088, S6-089).

use super::cache::{Cache, key};
use super::model::{Job, Model, NewJob, Node, Queue};
use super::resource::{Dim, Dims, Resource, number};
use super::task::{Role, Status, Task, index_of};
use crate::wire::{self, PodGroup};
use evictd_placement::{Amounts, Cluster};
use evictd_pod::resources::{EPHEMERAL_STORAGE, PODS, scheduler_request, scheduler_resources};
use evictd_pod::wire::{Pod, PriorityClass, ResourceList};
use evictd_pod::{Quantity, resources};
use hashbrown::HashMap;
use serde::Deserialize;
use std::sync::Arc;

/// Names the job of a pod.
const GROUP: &str = "scheduling.k8s.io/group-name";
/// Names the task of a job that a pod is of.
const TASK_SPEC: &str = "volcano.sh/task-spec";
/// A priority in place of the pod's own (S6-124).
const TASK_PRIORITY: &str = "volcano.sh/task-priority";
/// Whether a pod may be a victim (S6-116).
const PREEMPTABLE: &str = "volcano.sh/preemptable";
/// The queue above all others.
pub(crate) const ROOT: &str = "root";
const HIERARCHY: &str = "volcano.sh/hierarchy";
const HIERARCHY_WEIGHTS: &str = "volcano.sh/hierarchy-weights";

/// Whether a session asks for this annotation of a pod.
pub fn reads_annotation(key: &str) -> bool {
    [GROUP, TASK_SPEC, TASK_PRIORITY, PREEMPTABLE].contains(&key)
}

/// What a cluster holds, as lists of objects.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Objects {
    /// `volcano-scheduler.conf`.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub conf: String,
    /// Nodes.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub nodes: Vec<evictd_pod::Node>,
    /// Pods, also those of other schedulers.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub pods: Vec<Pod>,
    /// Pod groups.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub pod_groups: Vec<PodGroup>,
    /// Queues.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub queues: Vec<wire::Queue>,
    /// Priority classes.
    #[serde(deserialize_with = "evictd_pod::wire::null_is_default")]
    pub priority_classes: Vec<PriorityClass>,
}

impl Objects {
    /// All but nodes and pods of others. Of two objects of one name the first counts.
    pub fn cache(&self, setting: &Setting) -> Cache {
        let mut cache = Cache::default();
        for pod in self.pods.iter().rev() {
            if pod.spec.scheduler_name == setting.scheduler {
                cache.put_pod(Arc::new(pod.clone()));
            } else {
                cache.remove_pod(&pod.metadata);
            }
        }
        for group in self.pod_groups.iter().rev() {
            cache.put_group(Arc::new(group.clone()));
        }
        for queue in self.queues.iter().rev() {
            cache.put_queue(Arc::new(queue.clone()));
        }
        for class in self.priority_classes.iter().rev() {
            cache.put_class(Arc::new(class.clone()));
        }
        cache
    }
}

/// Whose pods are placed, and where jobs go that name no queue (S6-141).
#[derive(Debug, Clone)]
pub struct Setting {
    /// `schedulerName` of the pods.
    pub scheduler: String,
    /// The queue of jobs that name none.
    pub default_queue: String,
}

impl Default for Setting {
    fn default() -> Self {
        Self {
            scheduler: "volcano".to_owned(),
            default_queue: "default".to_owned(),
        }
    }
}

/// As far as a pod is (S6-090).
fn status_of(pod: &Pod) -> Status {
    let deleted = pod.metadata.deletion_timestamp.is_some();
    match pod.status.phase.as_str() {
        "Running" | "Pending" if deleted => Status::Releasing,
        "Running" => Status::Running,
        "Pending" if pod.spec.node_name.is_empty() => Status::Pending,
        "Pending" => Status::Bound,
        "Succeeded" => Status::Succeeded,
        "Failed" => Status::Failed,
        _ => Status::Unknown,
    }
}

/// A boolean as Go reads it; anything else is false.
fn is_true(text: &str) -> bool {
    matches!(text, "1" | "t" | "T" | "true" | "TRUE" | "True")
}

/// What a pod asks for, with itself as one pod.
fn request_of(pod: &Pod) -> ResourceList {
    let spec = &pod.spec;
    let names = scheduler_resources(spec);
    let amounts = names.map(|name| (name, scheduler_request(spec, name)));
    let mut list: ResourceList = amounts.collect();
    list.insert(PODS, Quantity::count(1));
    list
}

/// Whether a pod is one that the cluster itself needs (S6-125).
fn is_critical(pod: &Pod) -> bool {
    let class = pod.spec.priority_class_name.as_str();
    matches!(class, "system-cluster-critical" | "system-node-critical")
        || pod.metadata.namespace_or_default() == "kube-system"
}

struct Builder<'c> {
    cluster: &'c mut Cluster,
    model: Model,
    jobs: HashMap<Arc<str>, usize>,
    roles: HashMap<Box<str>, Role>,
}

impl Model {
    /// Reads what is known. The cluster holds the nodes and the pods on them already; those that wait are compiled for it.
    pub(crate) fn new(cluster: &mut Cluster, cache: &Cache, setting: &Setting) -> Self {
        let mut builder = Builder {
            cluster,
            model: Self {
                // No role at all.
                roles: vec![Box::default()],
                ..Self::default()
            },
            jobs: HashMap::new(),
            roles: HashMap::new(),
        };
        builder.nodes();
        let queues: Vec<&wire::Queue> = cache.queues.values().map(|own| &**own).collect();
        builder.queues(&queues);
        builder.groups(cache, setting);
        for pod in cache.pods.values() {
            builder.pod(pod, setting);
        }
        builder.model
    }
}

/// Amounts of the cluster as a session counts them.
fn amounts_of(cluster: &Cluster, dims: &mut Dims, amounts: &Amounts) -> Resource {
    let scalars = cluster.scalars(amounts.scalars).iter();
    let named = scalars.map(|(name, amount)| (cluster.symbols().text(*name), *amount));
    let rest =
        (amounts.ephemeral_storage != 0).then_some((EPHEMERAL_STORAGE, amounts.ephemeral_storage));
    let mut read = Resource::default();
    for (name, amount) in named.chain(rest) {
        read.add_scalar(dims, name, number(amount) * 1000.0);
    }
    read.cpu = number(amounts.cpu);
    read.memory = number(amounts.memory);
    read
}

fn list_of(dims: &mut Dims, list: &ResourceList) -> Option<super::resource::Resource> {
    (!list.is_empty()).then(|| dims.read(list))
}

impl Builder<'_> {
    fn nodes(&mut self) {
        let (model, cluster) = (&mut self.model, &*self.cluster);
        for own in cluster.nodes() {
            let mut allocatable = amounts_of(cluster, &mut model.dims, &own.allocatable);
            allocatable.set(Dim::PODS, number(own.allowed_pods));
            let mut node = Node {
                idle: allocatable.clone(),
                allocatable,
                ..Node::default()
            };
            for pod in &own.pods {
                let mut request = amounts_of(cluster, &mut model.dims, &pod.amounts);
                request.set(Dim::PODS, 1.0);
                let status = if pod.terminating {
                    Status::Releasing
                } else {
                    Status::Running
                };
                node.put(&request, status);
            }
            model.nodes.push(node);
        }
        for node in &model.nodes {
            model.total.add(&node.allocatable);
        }
        let mut by_rank: Vec<usize> = (0..model.nodes.len()).collect();
        let nodes = self.cluster.nodes();
        by_rank.sort_unstable_by_key(|index| self.cluster.symbols().text(nodes[*index].name));
        model.ranks = vec![0; by_rank.len()];
        for (rank, node) in by_rank.iter().enumerate() {
            model.ranks[*node] = rank;
        }
        model.by_rank = by_rank;
    }

    fn queues(&mut self, queues: &[&wire::Queue]) {
        let model = &mut self.model;
        for wire in queues {
            let (spec, metadata) = (&wire.spec, &wire.metadata);
            let annotation = |name: &str| {
                let text = metadata.annotations.get(name);
                text.map_or("", String::as_str).into()
            };
            let queue = Queue {
                name: metadata.name.as_str().into(),
                created: metadata.creation_timestamp,
                parent: None,
                weight: f64::from(spec.weight),
                priority: spec.priority,
                open: wire.status.state == "Open",
                reclaimable: spec.reclaimable.unwrap_or(true),
                capability: list_of(&mut model.dims, &spec.capability),
                guarantee: list_of(&mut model.dims, &spec.guarantee.resource),
                deserved: model.dims.read(&spec.deserved),
                path: annotation(HIERARCHY),
                path_weights: annotation(HIERARCHY_WEIGHTS),
            };
            model.queues.push(queue);
        }
        let names: HashMap<&str, usize> = queues
            .iter()
            .enumerate()
            .map(|(index, wire)| (wire.metadata.name.as_str(), index))
            .collect();
        for (own, wire) in model.queues.iter_mut().zip(queues) {
            let parent = match wire.spec.parent.as_str() {
                "" if &*own.name == ROOT => continue,
                "" => ROOT,
                parent => parent,
            };
            own.parent = names.get(parent).copied();
        }
    }

    fn groups(&mut self, cache: &Cache, setting: &Setting) {
        let queues: HashMap<Arc<str>, usize> = self
            .model
            .queues
            .iter()
            .enumerate()
            .map(|(index, queue)| (Arc::clone(&queue.name), index))
            .collect();
        let classes = cache.classes.values();
        let priorities: HashMap<&str, i32> = classes
            .clone()
            .map(|class| (class.metadata.name.as_str(), class.value))
            .collect();
        let default = classes.filter(|class| class.global_default);
        let default = default.map(|class| class.value).next().unwrap_or(0);
        for wire in cache.groups.values() {
            let queue = match wire.spec.queue.as_str() {
                "" => setting.default_queue.as_str(),
                queue => queue,
            };
            let Some(queue) = queues.get(queue).copied() else {
                continue;
            };
            let class = wire.spec.priority_class_name.as_str();
            let priority = priorities.get(class).copied().unwrap_or(default);
            self.group(wire, queue, priority);
        }
    }

    fn group(&mut self, wire: &PodGroup, queue: usize, priority: i32) {
        let key = key(&wire.metadata);
        if self.jobs.contains_key(&key) {
            return;
        }
        let min_task_member = wire.spec.min_task_member.iter();
        let min_task_member = min_task_member
            .map(|(role, count)| (self.role(role), *count))
            .collect();
        let min_resources = wire.spec.min_resources.as_ref();
        let model = &mut self.model;
        let job = Job::new(NewJob {
            key: Arc::clone(&key),
            queue,
            priority,
            created: wire.metadata.creation_timestamp,
            min_member: wire.spec.min_member,
            min_task_member,
            min_resources: min_resources.map(|list| model.dims.read(list)),
            status: wire.status.clone(),
        });
        self.jobs.insert(key, model.jobs.len());
        model.jobs.push(job);
    }

    fn role(&mut self, name: &str) -> Role {
        if name.is_empty() {
            return 0;
        }
        if let Some(role) = self.roles.get(name) {
            return *role;
        }
        // Each takes more than a byte.
        let role = Role::try_from(self.model.roles.len()).unwrap_or(Role::MAX);
        self.model.roles.push(name.into());
        self.roles.insert(name.into(), role);
        role
    }

    fn pod(&mut self, pod: &Pod, setting: &Setting) {
        let status = status_of(pod);
        let request = self.model.dims.read(&request_of(pod));
        let node = (!pod.spec.node_name.is_empty() && !status.is_done())
            .then(|| self.cluster.find_node(&pod.spec.node_name))
            .flatten()
            .map(evictd_placement::NodeId::index);
        let own = pod.spec.scheduler_name == setting.scheduler;
        let group = pod.metadata.annotations.get(GROUP).filter(|_| own);
        let group = group.map(|name| format!("{}/{name}", pod.metadata.namespace_or_default()));
        let Some(job) = group.and_then(|key| self.jobs.get(&*key).copied()) else {
            return;
        };
        let mut task = self.task(pod, status, job);
        task.node = node;
        task.best_effort = request.is_empty();
        task.request = request;
        let index = self.model.tasks.len();
        if let Some(node) = node {
            self.model.nodes[node].tasks.push(index);
        }
        let job = &mut self.model.jobs[job];
        job.tasks.push(index);
        job.tally(&task, 1);
        job.total_request.add(&task.request);
        if task.gated {
            job.gated.add(&task.request);
        }
        self.model.tasks.push(task);
    }

    /// A task without what it asks for.
    fn task(&mut self, pod: &Pod, status: Status, job: usize) -> Task {
        let metadata = &pod.metadata;
        let annotation = |name: &str| metadata.annotations.get(name);
        let role = annotation(TASK_SPEC).map_or(0, |name| self.role(name));
        let preemptable = annotation(PREEMPTABLE).or_else(|| metadata.labels.get(PREEMPTABLE));
        let priority = annotation(TASK_PRIORITY).and_then(|text| text.parse().ok());
        let conditions = pod.status.conditions.iter().rev();
        let mut told = conditions.filter(|own| own.kind == "PodScheduled");
        let told = told.next().map(|own| {
            [
                own.status.as_str().into(),
                own.reason.as_str().into(),
                Box::default(),
            ]
        });
        let (mut compiled, mut mistake) = (None, None);
        if status == Status::Pending {
            match self.cluster.pod(pod.clone()) {
                Ok(pod) => compiled = Some(pod),
                Err(found) => mistake = Some(found.to_string().into()),
            }
        }
        Task {
            key: key(metadata),
            uid: metadata.uid.as_str().into(),
            job,
            request: super::resource::Resource::default(),
            status,
            node: None,
            priority: priority.or(pod.spec.priority).unwrap_or(1),
            role,
            best_effort: false,
            gated: !pod.spec.scheduling_gates.is_empty(),
            preemptable: preemptable.is_none_or(|text| is_true(text)),
            never_preempts: pod.spec.preemption_policy == "Never",
            critical: is_critical(pod),
            created: metadata.creation_timestamp,
            index: index_of(&metadata.name),
            pod: compiled,
            placed: None,
            removed: None,
            evicts: false,
            last: None,
            told,
            nominated: pod.status.nominated_node_name.as_str().into(),
            mistake,
        }
    }
}

/// A list of amounts as an object shows it.
pub(crate) fn quantity(name: &str, amount: f64) -> Quantity {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "amounts came as whole numbers"
    )]
    let whole = amount as i64;
    match name {
        resources::MEMORY => Quantity::bytes(whole),
        PODS => Quantity::count(whole),
        _ => Quantity::milli(whole),
    }
}
