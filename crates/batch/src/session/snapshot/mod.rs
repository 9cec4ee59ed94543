//! The snapshot of a session: jobs with their tasks, queues and nodes, by index.

mod facts;
pub(crate) mod fit;
pub(crate) mod hyper_nodes;
pub(crate) mod ids;
mod job;
mod node;
pub(crate) mod numa;
mod queue;
pub(crate) mod resource;
pub(crate) mod roles;
pub(crate) mod sub_jobs;
pub(crate) mod task;
pub(crate) mod upstream;

pub(crate) use facts::{Budget, Facts, Quota};
pub(crate) use job::{
    GROUP_MARKS, Job, TOPOLOGY_AFFINITY, TOPOLOGY_ANTI_AFFINITY, TOPOLOGY_TASK_ORDER,
};
pub(crate) use node::{Freed, Node};
pub(crate) use queue::{Dequeue, Queue};

use crate::conf::PluginName;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Dims, Resource};
use crate::session::snapshot::roles::{Role, Roles};
use crate::session::snapshot::task::{Status, Task};
use crate::session::turns::Turns;
use evictd_batch_objects::{Compat, Difference, PodGroupPhase};
use evictd_placement::Cluster;
use evictd_placement::NodeId;
use evictd_pod::wire::TextMap;
use hashbrown::HashMap;
use hyper_nodes::HyperNodes;
use jiff::Timestamp;
use std::sync::Arc;
use sub_jobs::SubJob;

/// The clock of sessions to which no time was given: 2026-11-01T12:00:00Z.
const FIXED_CLOCK: Timestamp = Timestamp::constant(1_793_534_400, 0);

/// The snapshot. The slots of deleted tasks, jobs and queues are reused.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) dims: Dims,
    pub(crate) tasks: Vec<Task>,
    pub(crate) jobs: Vec<Job>,
    /// The jobs that have a pod group and a queue.
    pub(crate) live: Vec<JobId>,
    pub(crate) queues: Vec<Queue>,
    /// By [`evictd_placement::NodeId::index`].
    pub(crate) nodes: Vec<Node>,
    /// Nodes in the order of their names, and the rank of each.
    pub(crate) by_rank: Vec<NodeId>,
    pub(crate) ranks: Vec<usize>,
    /// The allocatable amounts of all nodes.
    pub(crate) total: Resource,
    pub(crate) roles: Roles,
    /// The turns of jobs with reservations.
    pub(crate) turns: Turns,
    /// The time of the session, if anybody has said it.
    pub(crate) now: Option<Timestamp>,
    /// When shuffle last asked each plugin that waits between its evictions.
    pub(crate) shuffled_at: HashMap<PluginName, Timestamp>,
    /// Objects that single plugins read.
    pub(crate) facts: Facts,
    /// The groups of near nodes.
    pub(crate) hyper_nodes: Arc<HyperNodes>,
}

impl Snapshot {
    /// The jobs that have a pod group and a queue.
    pub(crate) fn live_jobs(&self) -> impl Iterator<Item = (JobId, &Job)> {
        self.live.iter().map(|job| (*job, &self.jobs[*job]))
    }

    /// The time that plugins go by.
    pub(crate) fn clock(&self) -> Timestamp {
        self.now.unwrap_or(FIXED_CLOCK)
    }

    /// Every stored amount.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = &Resource> {
        let nodes = self.nodes.iter().flat_map(Node::amounts);
        let jobs = self.jobs.iter().flat_map(|job| {
            let sums = [&job.allocated, &job.total_request, &job.gated];
            sums.into_iter().chain(&job.min_resources)
        });
        let queues = self.queues.iter().flat_map(|queue| {
            let limits = queue.capability.iter().chain(&queue.guarantee);
            limits.chain([&queue.deserved])
        });
        let tasks = self.tasks.iter().map(|task| &task.request);
        nodes
            .chain(jobs)
            .chain(queues)
            .chain(tasks)
            .chain([&self.total])
    }

    /// Sets the priority that each job has in a session.
    pub(crate) fn set_priorities(&mut self, compat: Compat) {
        for at in &self.live {
            let job = &mut self.jobs[*at];
            let lowest = job
                .lowest_of_pods
                .filter(|_| compat.has(Difference::LowestPodPriority));
            job.priority = lowest.map_or(job.class_priority, |priority| {
                priority.min(job.class_priority)
            });
        }
    }

    /// The part of its job that a task is in; none for jobs without parts and network topology.
    pub(crate) fn sub_job_of(&self, task: &Task) -> Option<&SubJob> {
        let network = self.jobs[task.job].network.as_ref()?;
        network.sub_jobs.get(task.sub_job)
    }

    /// Whether evictions for a job, task by task, respect its network topology: it has none, or all its pods are kept in one
    /// group. Volcano's do not (S6-191).
    pub(crate) fn evicts_by_task(&self, job: JobId, compat: Compat) -> bool {
        let network = self.jobs[job].network.as_ref();
        network.is_none_or(|network| {
            let kept = compat.has(Difference::UnknownTopologyWaits);
            !network.is_asked() || (kept && network.policies.is_empty())
        })
    }

    /// Whether enough parts of a job by each policy count.
    pub(crate) fn enough_parts(&self, job: JobId, counts: impl Fn(&SubJob) -> bool) -> bool {
        let Some(network) = &self.jobs[job].network else {
            return true;
        };
        let mut policies = network.policies.iter().enumerate();
        policies.all(|(at, policy)| {
            let parts = network.sub_jobs.iter();
            let parts = parts.filter(|part| part.policy == Some(at) && counts(part));
            let count = i32::try_from(parts.count()).unwrap_or(i32::MAX);
            count >= policy.min_sub_groups.unwrap_or(0)
        })
    }

    /// Divides jobs into their parts, and finds the groups of nodes where these may be and are.
    pub(crate) fn open_topologies(&mut self, cluster: &Cluster, compat: Compat) {
        let strict = compat.has(Difference::UnknownTopologyWaits);
        for at in 0..self.live.len() {
            let id = self.live[at];
            let Some(mut network) = self.jobs[id].network.take() else {
                continue;
            };
            let job = &self.jobs[id];
            network.clear();
            // Numbers of an earlier tree mean nothing in this one.
            network.allocated = None;
            for task in &job.tasks {
                let labels = labels_of(cluster, &self.tasks[*task]);
                let job = (&*job.key, job.min_member);
                let part = network.assign(job, (*task, &labels), strict);
                self.tasks[*task].sub_job = part;
            }
            network.settle(&self.hyper_nodes, strict);
            if self.hyper_nodes.ready {
                network.recover(&self.hyper_nodes, &self.tasks);
            }
            self.jobs[id].network = Some(network);
        }
    }

    pub(crate) fn queue_ids(&self) -> impl Iterator<Item = QueueId> + use<> {
        (0..self.queues.len()).map(QueueId::of)
    }

    pub(crate) fn node_ids(&self) -> impl Iterator<Item = NodeId> + use<> {
        (0..self.nodes.len()).map(NodeId::of)
    }

    /// The queues that exist.
    pub(crate) fn live_queues(&self) -> impl Iterator<Item = (QueueId, &Queue)> {
        let queues = self.queues.iter().enumerate();
        let queues = queues.map(|(index, queue)| (QueueId::of(index), queue));
        queues.filter(|(_, queue)| !queue.gone)
    }

    /// The tasks of a job that have a status.
    pub(crate) fn tasks_of(&self, job: JobId, status: Status) -> impl Iterator<Item = TaskId> {
        let tasks = self.jobs[job].tasks.iter().copied();
        tasks.filter(move |task| self.tasks[*task].status == status)
    }

    /// Finds the jobs for which nodes are being freed.
    pub(crate) fn note_freed(&mut self, cluster: &Cluster) {
        for at in 0..self.live.len() {
            let job = self.live[at];
            self.jobs[job].freed = match self.jobs[job].count(Status::Pending) {
                0 => Freed::None,
                _ => self.freed_for(job, cluster),
            };
        }
    }

    /// The room for a job's tasks on their nominated nodes. A nomination stays on the pods even if others have taken the room.
    fn freed_for(&self, job: JobId, cluster: &Cluster) -> Freed {
        let mut promised: HashMap<&str, Resource> = HashMap::new();
        for task in self.tasks_of(job, Status::Pending) {
            let task = &self.tasks[task];
            // Several tasks may be nominated on one node, and need room there together.
            if !task.nominated.is_empty() {
                let sum = promised.entry(&task.nominated).or_default();
                sum.add(&task.request);
            }
        }
        let room = |(node, sum): (&&str, &Resource)| match cluster.find_node(node) {
            Some(node) => self.nodes[node.index()].freed_for(sum),
            None => Freed::None,
        };
        promised.iter().map(room).min().unwrap_or_default()
    }

    /// Whether the last session failed to place a job, and victims do not still hold its room. Once they have left, something
    /// else keeps it from its room, such as the share of its queue.
    pub(crate) fn has_failed(&self, job: JobId) -> bool {
        self.jobs[job].failed() && self.jobs[job].freed != Freed::Later
    }

    /// The amount promised to a job and not yet allocated, if it was enqueued or runs. After a failed attempt evictd
    /// promises it nothing, because it may never start.
    pub(crate) fn promised(&self, job_id: JobId, compat: Compat) -> Option<Resource> {
        let job = &self.jobs[job_id];
        if compat.has(Difference::EnqueueWhatFits)
            && job.phase == PodGroupPhase::Inqueue
            && self.has_failed(job_id)
        {
            return None;
        }
        job.inqueue()
    }

    /// Reads the amounts of a node after the cluster has placed or removed a pod there.
    pub(crate) fn refresh_node(&mut self, cluster: &Cluster, node: NodeId) {
        self.nodes[node.index()].refresh(cluster, &mut self.dims, node);
    }

    /// Changes the status of a task in its job's counts.
    pub(crate) fn set_status(&mut self, task: TaskId, status: Status) {
        let task = &mut self.tasks[task];
        let job = &mut self.jobs[task.job];
        job.tally(task, -1);
        task.status = status;
        job.tally(task, 1);
    }

    /// The tasks of a job by role that hold room, have succeeded, or wait and ask for nothing.
    pub(crate) fn by_role(&self, job: JobId, counts: impl Fn(&Task) -> bool) -> HashMap<Role, i32> {
        let mut by_role = HashMap::new();
        for task in &self.jobs[job].tasks {
            let task = &self.tasks[*task];
            if counts(task) {
                *by_role.entry(task.role).or_default() += 1;
            }
        }
        by_role
    }

    /// How many tasks of each role a job's gang lacks, if the numbers by role decide.
    pub(crate) fn lacking_by_role(&self, job_id: JobId) -> HashMap<Role, i32> {
        let job = &self.jobs[job_id];
        if !job.counts_by_role() || job.min_task_member.is_empty() {
            return HashMap::new();
        }
        let there = self.by_role(job_id, Task::is_there);
        let lacking = job.min_task_member.iter().map(|(role, min)| {
            let there = there.get(role).copied().unwrap_or(0);
            (*role, min.saturating_sub(there))
        });
        lacking.filter(|(_, lacking)| *lacking > 0).collect()
    }

    /// Whether a job with running tasks waits for its next stage: of each role enough tasks are on nodes, or none.
    pub(crate) fn waits_for_stage(&self, job_id: JobId) -> bool {
        let job = &self.jobs[job_id];
        if !job.is_staged || job.count(Status::Running) == 0 {
            return false;
        }
        let placed = |task: &Task| task.status.is_allocated() || task.status.is_done();
        let by_role = self.by_role(job_id, placed);
        let mut needed = job.min_task_member.iter();
        needed.all(|(role, min)| by_role.get(role).is_none_or(|placed| placed >= min))
    }

    /// Whether a job's gang is complete, by number and by role.
    pub(crate) fn has_gang(&self, job: JobId) -> bool {
        self.jobs[job].is_ready() && self.enough_by_role(job, Task::is_there)
    }

    /// Whether enough tasks of each role count.
    pub(crate) fn enough_by_role(&self, job_id: JobId, counts: impl Fn(&Task) -> bool) -> bool {
        let job = &self.jobs[job_id];
        if !job.counts_by_role() || job.min_task_member.is_empty() {
            return true;
        }
        let by_role = self.by_role(job_id, counts);
        let mut wanted = job.min_task_member.iter();
        wanted.all(|(role, min)| by_role.get(role).copied().unwrap_or(0) >= *min)
    }
}

/// The labels of a task's pod. Those of a pod that has ended are kept with it.
pub(crate) fn labels_of(cluster: &Cluster, task: &Task) -> TextMap {
    if let Some(labels) = task.labels() {
        return labels.clone();
    }
    let on_node = || {
        let node = cluster.node(task.node?);
        node.pods.iter().find(|pod| match pod.uid() {
            "" => cluster.full_name(pod) == **task.id,
            uid => *uid == **task.id,
        })
    };
    let pod = task.pod.as_ref().or_else(on_node);
    let symbols = cluster.symbols();
    let labels = pod.into_iter().flat_map(|pod| pod.labels().iter());
    labels
        .map(|(key, value)| (symbols.text(key), symbols.text(value)))
        .collect()
}
