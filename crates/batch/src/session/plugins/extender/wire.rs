//! Requests and responses of plugin extender. The keys are those of Volcano's structs in Go, where the case of a key does not
//! matter. Fields that sessions do not know are left out.

use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, Resource};
use crate::session::snapshot::{Job, labels_of};
use evictd_placement::{Cluster, NodeId};
use evictd_pod::wire::TextMap;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Amounts<'s> {
    #[serde(rename = "MilliCPU")]
    milli_cpu: f64,
    memory: f64,
    scalar_resources: BTreeMap<&'s str, f64>,
    max_task_num: i64,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct TaskInfo<'s> {
    #[serde(rename = "UID")]
    uid: &'s str,
    job: &'s str,
    name: &'s str,
    namespace: &'s str,
    task_role: &'s str,
    resreq: Amounts<'s>,
    init_resreq: Amounts<'s>,
    node_name: &'s str,
    /// Volcano's number.
    status: u32,
    priority: i32,
    preemptable: bool,
    best_effort: bool,
    sch_gated: bool,
    pod: PodInfo<'s>,
}

/// A v1 Pod with the fields that sessions know.
#[derive(Debug, Serialize)]
struct PodInfo<'s> {
    metadata: Metadata<'s>,
    spec: PodSpec<'s>,
}

#[derive(Debug, Serialize)]
struct Metadata<'s> {
    #[serde(skip_serializing_if = "str::is_empty")]
    namespace: &'s str,
    name: &'s str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'s str,
    labels: Option<&'s TextMap>,
    annotations: Option<&'s TextMap>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct PodSpec<'s> {
    node_name: &'s str,
    priority: Option<i32>,
    /// One container with the sum of all requests, because single containers are not kept.
    containers: [Container<'s>; 1],
}

#[derive(Debug, Serialize)]
struct Container<'s> {
    name: &'static str,
    resources: Requests<'s>,
}

#[derive(Debug, Serialize)]
struct Requests<'s> {
    requests: BTreeMap<&'s str, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct NodeInfo<'s> {
    name: &'s str,
    node: V1Node<'s>,
    /// Sessions have ready nodes only.
    state: NodeState,
    releasing: Amounts<'s>,
    pipelined: Amounts<'s>,
    idle: Amounts<'s>,
    used: Amounts<'s>,
    allocatable: Amounts<'s>,
    tasks: BTreeMap<&'s str, TaskInfo<'s>>,
}

#[derive(Debug, Serialize)]
struct V1Node<'s> {
    metadata: Metadata<'s>,
    status: NodeStatus<'s>,
}

#[derive(Debug, Serialize)]
struct NodeStatus<'s> {
    allocatable: BTreeMap<&'s str, String>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
struct NodeState {
    phase: u32,
    reason: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct JobInfo<'s> {
    #[serde(rename = "UID")]
    uid: &'s str,
    name: &'s str,
    namespace: &'s str,
    queue: &'s str,
    priority: i32,
    min_available: i32,
    task_min_available: BTreeMap<&'s str, i32>,
    task_min_available_total: i32,
    tasks: BTreeMap<&'s str, TaskInfo<'s>>,
    allocated: Amounts<'s>,
    total_request: Amounts<'s>,
    creation_timestamp: Option<String>,
    pod_group: GroupInfo<'s>,
}

#[derive(Debug, Serialize)]
struct GroupInfo<'s> {
    metadata: Metadata<'s>,
    spec: GroupSpec<'s>,
    status: GroupStatus<'s>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct GroupSpec<'s> {
    min_member: i32,
    queue: &'s str,
    priority_class_name: &'s str,
    min_resources: Option<BTreeMap<&'s str, String>>,
}

#[derive(Debug, Serialize)]
struct GroupStatus<'s> {
    phase: &'s str,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct QueueInfo {
    #[serde(rename = "UID")]
    uid: String,
    name: String,
    weight: i64,
    weights: String,
    hierarchy: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct SessionOpen<'s> {
    jobs: BTreeMap<&'s str, JobInfo<'s>>,
    nodes: BTreeMap<&'s str, NodeInfo<'s>>,
    queues: BTreeMap<&'s str, &'s QueueInfo>,
    node_list: Vec<&'s str>,
}

#[derive(Debug, Serialize)]
pub(super) struct OnNodeRequest<'s> {
    pub(super) task: TaskInfo<'s>,
    pub(super) node: NodeInfo<'s>,
}

#[derive(Debug, Serialize)]
pub(super) struct OnNodesRequest<'s> {
    pub(super) task: TaskInfo<'s>,
    pub(super) nodes: Vec<NodeInfo<'s>>,
}

#[derive(Debug, Serialize)]
pub(super) struct EvicteesRequest<'s> {
    pub(super) evictor: TaskInfo<'s>,
    pub(super) evictees: Vec<TaskInfo<'s>>,
}

#[derive(Debug, Serialize)]
pub(super) struct JobRequest<'s> {
    pub(super) job: JobInfo<'s>,
}

#[derive(Debug, Serialize)]
pub(super) struct QueueRequest<'s> {
    pub(super) queue: &'s QueueInfo,
}

#[derive(Debug, Serialize)]
pub(super) struct TaskRequest<'s> {
    pub(super) task: TaskInfo<'s>,
}

/// The code of a refusal that evictions may change. With every other one they do not help.
pub(super) const UNSCHEDULABLE: i64 = 2;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PredicateResponse {
    /// Why the node is refused; empty if it is not.
    pub(super) status: Option<String>,
    pub(super) code: i64,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PrioritizeResponse {
    pub(super) node_score: Option<BTreeMap<String, f64>>,
    pub(super) error_message: Option<String>,
}

/// A vote: positive permits, negative rejects, zero abstains.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct VoteResponse {
    pub(super) status: i64,
    pub(super) victims: Option<Vec<Victim>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
pub(super) struct Victim {
    #[serde(rename = "UID")]
    pub(super) uid: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct OverusedResponse {
    pub(super) overused: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ReadyResponse {
    pub(super) status: bool,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct EventResponse {
    pub(super) error_message: Option<String>,
}

/// Makes the objects of requests. It keeps the parts that only the cluster knows, as they are when the session opens.
#[derive(Debug)]
pub(super) struct Encoder {
    /// By node its name and labels.
    nodes: Vec<(Box<str>, TextMap)>,
    /// By task the labels of its pod.
    labels: Vec<TextMap>,
    /// By queue.
    queues: Vec<QueueInfo>,
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "amounts came as whole numbers"
)]
const fn whole(amount: f64) -> i64 {
    amount as i64
}

fn quantities<'s>(snapshot: &'s Snapshot, amounts: &Resource) -> BTreeMap<&'s str, String> {
    let some = amounts.iter().filter(|(_, amount)| *amount != 0.0);
    let quantities = some.map(|(dim, amount)| {
        let amount = whole(amount);
        let text = match dim {
            Dim::MEMORY | Dim::PODS => amount.to_string(),
            _ if amount % 1000 == 0 => (amount / 1000).to_string(),
            _ => format!("{amount}m"),
        };
        (snapshot.dims.name(dim), text)
    });
    quantities.collect()
}

fn amounts<'s>(snapshot: &'s Snapshot, resource: &Resource) -> Amounts<'s> {
    let scalars = resource.iter().skip(2);
    Amounts {
        milli_cpu: resource.cpu,
        memory: resource.memory,
        scalar_resources: scalars
            .map(|(dim, amount)| (snapshot.dims.name(dim), amount))
            .collect(),
        max_task_num: whole(resource.get(Dim::PODS)),
    }
}

impl Encoder {
    pub(super) fn open(snapshot: &Snapshot, cluster: &Cluster) -> Self {
        let symbols = cluster.symbols();
        let nodes = cluster.node_ids().map(|id| {
            let labels = cluster.node(id).labels.iter();
            let labels = labels.map(|(key, value)| (symbols.text(key), symbols.text(value)));
            (cluster.node_name(id).into(), labels.collect())
        });
        let queues = snapshot.queues.iter().map(|queue| QueueInfo {
            uid: queue.name.to_string(),
            name: queue.name.to_string(),
            weight: whole(queue.weight),
            weights: queue.path_weights.to_string(),
            hierarchy: queue.path.to_string(),
        });
        let labels = snapshot.tasks.iter();
        Self {
            nodes: nodes.collect(),
            labels: labels.map(|task| labels_of(cluster, task)).collect(),
            queues: queues.collect(),
        }
    }

    pub(super) fn node_name(&self, node: NodeId) -> &str {
        self.nodes.get(node.index()).map_or("", |(name, _)| name)
    }

    pub(super) fn queue(&self, queue: QueueId) -> &QueueInfo {
        &self.queues[queue.index()]
    }

    pub(super) fn task<'s>(&'s self, snapshot: &'s Snapshot, id: TaskId) -> TaskInfo<'s> {
        let task = &snapshot.tasks[id];
        let namespace = task
            .key
            .split_once('/')
            .map_or("", |(namespace, _)| namespace);
        let node_name = task
            .node
            .map_or(&*task.node_name, |node| self.node_name(node));
        TaskInfo {
            uid: &task.id,
            job: &snapshot.jobs[task.job].key,
            name: task.name(),
            namespace,
            task_role: snapshot.roles.name(task.role),
            resreq: amounts(snapshot, &task.request),
            init_resreq: amounts(snapshot, &task.request),
            node_name,
            status: 1 << task.status as u32,
            priority: task.priority,
            preemptable: task.preemptable,
            best_effort: task.best_effort,
            sch_gated: task.gated,
            pod: PodInfo {
                metadata: Metadata {
                    namespace,
                    name: task.name(),
                    uid: &task.id,
                    labels: self.labels.get(id.index()),
                    annotations: None,
                },
                spec: PodSpec {
                    node_name,
                    priority: task.pod_priority,
                    containers: [Container {
                        name: "all",
                        resources: Requests {
                            requests: quantities(snapshot, &task.request),
                        },
                    }],
                },
            },
        }
    }

    /// Tasks by their UID.
    fn tasks<'s>(
        &'s self,
        snapshot: &'s Snapshot,
        tasks: &'s [TaskId],
    ) -> BTreeMap<&'s str, TaskInfo<'s>> {
        let tasks = tasks.iter().map(|id| {
            let task = self.task(snapshot, *id);
            (task.uid, task)
        });
        tasks.collect()
    }

    pub(super) fn node<'s>(&'s self, snapshot: &'s Snapshot, id: NodeId) -> NodeInfo<'s> {
        let node = &snapshot.nodes[id.index()];
        let (name, labels) = &self.nodes[id.index()];
        NodeInfo {
            name,
            node: V1Node {
                metadata: Metadata {
                    namespace: "",
                    name,
                    uid: "",
                    labels: Some(labels),
                    annotations: None,
                },
                status: NodeStatus {
                    allocatable: quantities(snapshot, &node.allocatable),
                },
            },
            state: NodeState {
                phase: 1,
                reason: "",
            },
            releasing: amounts(snapshot, &node.releasing),
            pipelined: amounts(snapshot, &node.pipelined),
            idle: amounts(snapshot, &node.idle),
            used: amounts(snapshot, &node.used),
            allocatable: amounts(snapshot, &node.allocatable),
            tasks: self.tasks(snapshot, &node.tasks),
        }
    }

    pub(super) fn job<'s>(&'s self, snapshot: &'s Snapshot, id: JobId) -> JobInfo<'s> {
        let job = &snapshot.jobs[id];
        let (namespace, name) = job.key.split_once('/').unwrap_or(("", &job.key));
        let roles = job.min_task_member.iter();
        JobInfo {
            uid: &job.key,
            name,
            namespace,
            queue: &snapshot.queues[job.queue].name,
            priority: job.priority,
            min_available: job.min_member,
            task_min_available: roles
                .map(|(role, min)| (snapshot.roles.name(*role), *min))
                .collect(),
            task_min_available_total: job.min_task_total,
            tasks: self.tasks(snapshot, &job.tasks),
            allocated: amounts(snapshot, &job.allocated),
            total_request: amounts(snapshot, &job.total_request),
            creation_timestamp: job.created.map(|created| created.to_string()),
            pod_group: group(snapshot, job, namespace, name),
        }
    }

    pub(super) fn session<'s>(&'s self, snapshot: &'s Snapshot) -> SessionOpen<'s> {
        let jobs = snapshot.live.iter().map(|id| {
            let job = self.job(snapshot, *id);
            (job.uid, job)
        });
        let nodes = snapshot.by_rank.iter().map(|id| {
            let node = self.node(snapshot, *id);
            (node.name, node)
        });
        let queues = snapshot
            .live_queues()
            .map(|(id, queue)| (&*queue.name, self.queue(id)));
        let names = snapshot.by_rank.iter().map(|id| self.node_name(*id));
        SessionOpen {
            jobs: jobs.collect(),
            nodes: nodes.collect(),
            queues: queues.collect(),
            node_list: names.collect(),
        }
    }
}

fn group<'s>(
    snapshot: &'s Snapshot,
    job: &'s Job,
    namespace: &'s str,
    name: &'s str,
) -> GroupInfo<'s> {
    let need = job.min_resources.as_ref();
    GroupInfo {
        metadata: Metadata {
            namespace,
            name,
            uid: "",
            labels: None,
            annotations: Some(&job.marks),
        },
        spec: GroupSpec {
            min_member: job.min_member,
            queue: &job.queue_name,
            priority_class_name: &job.class_name,
            min_resources: need.map(|need| quantities(snapshot, need)),
        },
        status: GroupStatus {
            phase: job.phase.as_str(),
        },
    }
}
