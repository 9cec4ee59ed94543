//! The snapshot of a session: jobs with their tasks, queues and nodes, by index.

use super::fit::FitError;
use super::resource::{Dim, Dims, Resource, Unnamed, at_most};
use super::roles::{Role, Roles};
use super::task::{Status, Task};
use super::topology::DomainId;
use super::turns::Turns;
use super::upstream::Upstream;
use crate::compat::{Compat, Difference};
use crate::wire::{PodGroupCondition, PodGroupStatus};
use evictd_placement::Cluster;
use evictd_pod::TooManyResources;
use hashbrown::HashMap;
use jiff::Timestamp;
use std::sync::Arc;

/// The phases of a pod group (S6-010).
pub(crate) const PENDING: &str = "Pending";
pub(crate) const INQUEUE: &str = "Inqueue";
pub(crate) const RUNNING: &str = "Running";
pub(crate) const UNKNOWN: &str = "Unknown";
pub(crate) const COMPLETED: &str = "Completed";

/// A pod group with its tasks.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Job {
    /// `namespace/name`.
    pub(crate) key: Arc<str>,
    /// Whether the group is there; its pods may come before it.
    pub(crate) has_group: bool,
    /// The further fields of a group of `scheduling.k8s.io`.
    pub(crate) upstream: Option<Box<Upstream>>,
    /// Whether it is a pod of no group.
    pub(crate) is_plain: bool,
    /// Whether its queue is there, too.
    pub(crate) is_live: bool,
    /// The names of its queue and of its priority class; the fields below are resolved from them.
    pub(crate) queue_name: Box<str>,
    pub(crate) class_name: Box<str>,
    pub(crate) queue: usize,
    pub(crate) priority: i32,
    /// The priority of its class, before that of its pods limits it.
    pub(crate) class_priority: i32,
    /// The lowest priority that one of its pods is known to have.
    pub(crate) lowest_of_pods: Option<i32>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) min_member: i32,
    /// By role; the sum of it is kept beside.
    pub(crate) min_task_member: Vec<(Role, i32)>,
    pub(crate) min_task_total: i32,
    /// Whether its tasks start one after the other, so that it needs more when some of them run.
    pub(crate) in_stages: bool,
    /// Whether its pods have to be near to each other.
    pub(crate) has_topology: bool,
    /// The amounts that it needs to be enqueued.
    pub(crate) min_resources: Option<Resource>,
    /// Why its minResources are ignored: then it is not enqueued.
    pub(crate) refused: Option<TooManyResources>,
    /// It was let in although it did not fit, so that its pods are made.
    pub(crate) without_promise: bool,
    pub(crate) phase: String,
    pub(crate) conditions: Vec<PodGroupCondition>,
    /// Of each condition, whether this session said it.
    pub(crate) set_now: Vec<bool>,
    /// Its status as it was when the session began.
    pub(crate) before: PodGroupStatus,
    pub(crate) tasks: Vec<usize>,
    counts: [i32; Status::ALL.len()],
    /// Tasks that wait and ask for nothing.
    pub(crate) pending_best_effort: i32,
    /// The sum of its allocated tasks.
    pub(crate) allocated: Resource,
    /// The sum of all its tasks' requests.
    pub(crate) total_request: Resource,
    /// The sum of its tasks with scheduling gates.
    pub(crate) gated: Resource,
    /// Whether nodes are kept from it for another job in this session.
    pub(crate) excluded: bool,
    /// Whether it was tried in vain, and nodes are being freed for it or were just now.
    pub(crate) freed: bool,
    /// Why this session did not let it in.
    pub(crate) not_enqueued_because: Option<String>,
    /// The domain where its pods are tried just now.
    pub(crate) within: Option<DomainId>,
    /// The message about the domain in which most of its pods fit.
    pub(crate) best_domain: Option<String>,
    /// By task, in the order in which they were found.
    pub(crate) fit_errors: HashMap<usize, FitError>,
    /// Roles that have a fit error.
    pub(crate) failed_roles: Vec<Role>,
}

impl Job {
    /// A job of which nothing but the name is known.
    pub(crate) fn new(key: Arc<str>) -> Self {
        Self {
            key,
            has_group: false,
            upstream: None,
            is_plain: false,
            is_live: false,
            queue_name: Box::default(),
            class_name: Box::default(),
            queue: 0,
            priority: 0,
            class_priority: 0,
            lowest_of_pods: None,
            created: None,
            min_member: 0,
            min_task_member: Vec::new(),
            min_task_total: 0,
            in_stages: false,
            has_topology: false,
            min_resources: None,
            refused: None,
            without_promise: false,
            phase: String::new(),
            conditions: Vec::new(),
            set_now: Vec::new(),
            before: PodGroupStatus::default(),
            tasks: Vec::new(),
            counts: [0; Status::ALL.len()],
            pending_best_effort: 0,
            allocated: Resource::default(),
            total_request: Resource::default(),
            gated: Resource::default(),
            excluded: false,
            freed: false,
            not_enqueued_because: None,
            within: None,
            best_domain: None,
            fit_errors: HashMap::new(),
            failed_roles: Vec::new(),
        }
    }

    pub(crate) fn namespace(&self) -> &str {
        self.key.split('/').next().unwrap_or_default()
    }

    /// Whether it is a `PodGroup` of Volcano's, which events are about.
    pub(crate) const fn has_object(&self) -> bool {
        self.upstream.is_none() && !self.is_plain
    }

    /// Whether the session before tried it in vain.
    fn failed(&self) -> bool {
        let mut conditions = self.before.conditions.iter();
        conditions.any(|condition| condition.kind == "Unschedulable" && condition.status == "True")
    }

    /// The labels of nodes of which all its pods have to share the values.
    pub(crate) fn topology(&self) -> &[Box<str>] {
        let upstream = self.upstream.as_deref();
        upstream.map_or(&[], |group| &group.topology)
    }

    /// The status of its group that the next session finds.
    pub(crate) fn begin(&mut self, status: PodGroupStatus) {
        self.phase.clone_from(&status.phase);
        self.conditions.clone_from(&status.conditions);
        self.set_now = vec![false; status.conditions.len()];
        self.before = status;
    }

    /// Drops the results of a session.
    pub(crate) fn forget_session(&mut self) {
        if self.phase != self.before.phase {
            self.phase.clone_from(&self.before.phase);
        }
        if self.set_now.contains(&true) {
            self.conditions.clone_from(&self.before.conditions);
            self.set_now.clear();
            self.set_now.resize(self.conditions.len(), false);
        }
        self.excluded = false;
        self.not_enqueued_because = None;
        self.best_domain = None;
        self.fit_errors.clear();
        self.failed_roles.clear();
    }

    /// Counts its tasks anew, so that no resource is named that none of them names.
    pub(crate) fn recount(&mut self, tasks: &[Task]) {
        self.counts = [0; Status::ALL.len()];
        self.pending_best_effort = 0;
        self.allocated = Resource::default();
        self.total_request = Resource::default();
        self.gated = Resource::default();
        self.lowest_of_pods = None;
        for index in std::mem::take(&mut self.tasks) {
            self.add(&tasks[index], index);
        }
    }

    /// Adds a task.
    pub(crate) fn add(&mut self, task: &Task, index: usize) {
        self.tally(task, 1);
        self.total_request.add(&task.request);
        let lowest = [self.lowest_of_pods, task.pod_priority];
        self.lowest_of_pods = lowest.into_iter().flatten().min();
        if task.gated {
            self.gated.add(&task.request);
        }
        self.tasks.push(index);
    }

    /// Whether it is not let in yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.phase.is_empty() || self.phase == PENDING
    }

    pub(crate) const fn count(&self, status: Status) -> i32 {
        self.counts[status as usize]
    }

    /// Tasks that hold room or have succeeded.
    pub(crate) fn ready(&self) -> i32 {
        let counted = Status::ALL.into_iter();
        let counted =
            counted.filter(|status| status.is_allocated() || *status == Status::Succeeded);
        counted.map(|status| self.count(status)).sum()
    }

    pub(crate) const fn pipelined(&self) -> i32 {
        self.count(Status::Pipelined)
    }

    /// Tasks that have a node outside of this session, or are over.
    pub(crate) const fn scheduled(&self) -> i32 {
        self.count(Status::Bound)
            + self.count(Status::Running)
            + self.count(Status::Succeeded)
            + self.count(Status::Failed)
    }

    /// Whether its gang is complete, by number alone (S6-121).
    pub(crate) fn is_ready(&self) -> bool {
        self.ready() + self.pending_best_effort >= self.min_member
    }

    /// Whether some of it may go if so many stay that hold room.
    pub(crate) fn can_spare(&self, left: i32) -> bool {
        let whole = self
            .upstream
            .as_ref()
            .is_some_and(|upstream| upstream.goes_whole);
        !whole && left >= self.min_member
    }

    pub(crate) fn is_pipelined(&self) -> bool {
        self.ready() + self.pipelined() + self.pending_best_effort >= self.min_member
    }

    /// Whether the smallest numbers by role decide, too.
    pub(crate) const fn goes_by_role(&self) -> bool {
        self.min_member >= self.min_task_total
    }

    /// Adds or removes a task in the counts.
    pub(crate) fn tally(&mut self, task: &Task, times: i32) {
        self.counts[task.status as usize] += times;
        if task.best_effort && task.status == Status::Pending {
            self.pending_best_effort += times;
        }
        if task.status.is_allocated() {
            if times > 0 {
                self.allocated.add(&task.request);
            } else {
                self.allocated.sub(&task.request);
            }
        }
    }

    /// Whether something is known of the phase that is not good: an event says so.
    pub(crate) fn is_unschedulable_phase(&self) -> bool {
        matches!(self.phase.as_str(), PENDING | INQUEUE | UNKNOWN)
    }

    /// Its minResources, or nothing.
    pub(crate) fn min_resources(&self) -> Resource {
        self.min_resources.clone().unwrap_or_default()
    }

    /// An amount without the requests of gated tasks (S6-089).
    pub(crate) fn without_gated(&self, amount: &Resource) -> Resource {
        let mut left = amount.clone();
        if self.gated.is_empty() {
            return left;
        }
        for (dim, amount) in amount.iter() {
            if let Some(gated) = self.gated.named(dim) {
                left.set(dim, (amount - gated).max(0.0));
            }
        }
        left
    }

    /// Its minResources beyond its allocation (S6-105).
    fn reserved(&self) -> Resource {
        let mut reserved = Resource::default();
        for (dim, amount) in self.min_resources().iter() {
            let left = amount - self.allocated.get(dim);
            let unknown = dim != Dim::PODS && self.allocated.named(dim).is_none();
            if left > 0.0 || unknown {
                reserved.set(dim, left);
            }
        }
        reserved
    }

    /// How many of its tasks hold room.
    pub(crate) fn allocated_tasks(&self) -> i32 {
        let counted = Status::ALL
            .into_iter()
            .filter(|status| status.is_allocated());
        counted.map(|status| self.count(status)).sum()
    }

    /// The amount promised and not yet allocated, if it was enqueued or runs.
    fn inqueue(&self) -> Option<Resource> {
        self.min_resources.as_ref()?;
        let runs = self.phase == RUNNING && self.allocated_tasks() >= self.min_member;
        let let_in = self.phase == INQUEUE && !self.without_promise;
        (let_in || runs).then(|| self.without_gated(&self.reserved()))
    }
}

/// A queue.
#[derive(Debug)]
pub(crate) struct Queue {
    pub(crate) name: Arc<str>,
    /// Its place may be taken by another.
    pub(crate) gone: bool,
    /// The name of the queue above it; empty for the one above all.
    pub(crate) parent_name: Box<str>,
    pub(crate) created: Option<Timestamp>,
    /// The queue above it.
    pub(crate) parent: Option<usize>,
    pub(crate) weight: f64,
    pub(crate) priority: i32,
    pub(crate) open: bool,
    pub(crate) reclaimable: bool,
    pub(crate) capability: Option<Resource>,
    pub(crate) guarantee: Option<Resource>,
    pub(crate) deserved: Resource,
    /// `root/a/b` and the weights along it, as its annotations say (S6-128).
    pub(crate) path: Box<str>,
    pub(crate) path_weights: Box<str>,
}

/// The amounts and tasks of a node (S6-091).
#[derive(Debug, Default)]
pub(crate) struct Node {
    pub(crate) allocatable: Resource,
    pub(crate) idle: Resource,
    pub(crate) used: Resource,
    pub(crate) releasing: Resource,
    pub(crate) pipelined: Resource,
    /// Tasks of jobs on it.
    pub(crate) tasks: Vec<usize>,
}

impl Node {
    /// Counts a request as that of a task with this status.
    pub(crate) fn put(&mut self, request: &Resource, status: Status) {
        if status == Status::Pipelined {
            self.pipelined.add(request);
            return;
        }
        self.idle.sub(request);
        self.used.add(request);
        if status == Status::Releasing {
            self.releasing.add(request);
        }
    }

    pub(crate) fn take(&mut self, request: &Resource, status: Status) {
        if status == Status::Pipelined {
            self.pipelined.sub(request);
            return;
        }
        self.idle.add(request);
        self.used.sub(request);
        if status == Status::Releasing {
            self.releasing.sub(request);
        }
    }

    /// The idle amounts after the pending evictions.
    pub(crate) fn future_idle(&self) -> Resource {
        let mut idle = self.idle.clone();
        idle.add(&self.releasing);
        idle.sub(&self.pipelined);
        idle
    }

    /// Whether a request fits into the idle amounts.
    pub(crate) fn has_idle(&self, request: &Resource) -> bool {
        request.within(&self.idle, Unnamed::Zero)
    }

    /// Whether it fits after the pending evictions.
    pub(crate) fn will_have(&self, request: &Resource) -> bool {
        self.lacks(request).is_none()
    }

    /// The first dimension of which there will be too little.
    pub(crate) fn lacks(&self, request: &Resource) -> Option<Dim> {
        let mut asked = request.iter();
        let lacking = asked.find(|(dim, amount)| {
            let idle = self.idle.get(*dim) + self.releasing.get(*dim) - self.pipelined.get(*dim);
            !at_most(*amount, idle)
        });
        lacking.map(|(dim, _)| dim)
    }
}

/// The snapshot. The slots of deleted tasks, jobs and queues are reused.
#[derive(Debug, Default)]
pub(crate) struct Snapshot {
    pub(crate) dims: Dims,
    pub(crate) tasks: Vec<Task>,
    pub(crate) jobs: Vec<Job>,
    /// The jobs that have a pod group and a queue.
    pub(crate) live: Vec<usize>,
    pub(crate) queues: Vec<Queue>,
    /// By [`evictd_placement::NodeId::index`].
    pub(crate) nodes: Vec<Node>,
    /// Nodes in the order of their names, and where each stands in it.
    pub(crate) by_rank: Vec<usize>,
    pub(crate) ranks: Vec<usize>,
    /// The allocatable amounts of all nodes.
    pub(crate) total: Resource,
    pub(crate) roles: Roles,
    /// Which jobs nodes are or were kept for.
    pub(crate) turns: Turns,
    /// The time of the session, if anybody has said it.
    pub(crate) now: Option<Timestamp>,
}

impl Snapshot {
    /// The jobs that have a pod group and a queue.
    pub(crate) fn live_jobs(&self) -> impl Iterator<Item = (usize, &Job)> {
        self.live.iter().map(|job| (*job, &self.jobs[*job]))
    }

    /// Every amount that is kept from one session to the next.
    pub(crate) fn amounts(&self) -> impl Iterator<Item = &Resource> {
        let nodes = self.nodes.iter().flat_map(|node| {
            let Node {
                allocatable,
                idle,
                used,
                releasing,
                pipelined,
                ..
            } = node;
            [allocatable, idle, used, releasing, pipelined]
        });
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

    /// The queues that are there.
    pub(crate) fn live_queues(&self) -> impl Iterator<Item = (usize, &Queue)> {
        let queues = self.queues.iter().enumerate();
        queues.filter(|(_, queue)| !queue.gone)
    }

    /// The tasks of a job that have a status.
    pub(crate) fn tasks_of(&self, job: usize, status: Status) -> impl Iterator<Item = usize> {
        let tasks = self.jobs[job].tasks.iter().copied();
        tasks.filter(move |task| self.tasks[*task].status == status)
    }

    /// Notes for which of the jobs that were tried in vain nodes are being freed.
    pub(crate) fn note_freed(&mut self, cluster: &Cluster) {
        for at in 0..self.live.len() {
            let job = self.live[at];
            self.jobs[job].freed = self.jobs[job].failed() && self.is_freed_for(job, cluster);
        }
    }

    /// Whether the nodes that were promised to tasks of a job have room for them, or will have. A promise stays written on the
    /// pods also when others have taken the room.
    fn is_freed_for(&self, job: usize, cluster: &Cluster) -> bool {
        let mut promised: HashMap<&str, Resource> = HashMap::new();
        for task in self.tasks_of(job, Status::Pending) {
            let task = &self.tasks[task];
            if !task.nominated.is_empty() {
                let sum = promised.entry(&task.nominated).or_default();
                sum.add(&task.request);
            }
        }
        let mut nodes = promised.iter();
        let has_room = |(node, sum): (&&str, &Resource)| {
            let node = cluster.find_node(node);
            node.is_some_and(|node| self.nodes[node.index()].will_have(sum))
        };
        !promised.is_empty() && nodes.all(has_room)
    }

    /// Whether a job was tried in vain by the session before, and no node is being freed for it.
    pub(crate) fn is_in_vain(&self, job: usize) -> bool {
        self.jobs[job].failed() && !self.jobs[job].freed
    }

    /// The amount promised to a job and not yet allocated, if it was enqueued or runs. After a failed attempt evictd
    /// promises it nothing, because it may never start.
    pub(crate) fn promised(&self, job_id: usize, compat: Compat) -> Option<Resource> {
        let job = &self.jobs[job_id];
        if compat.has(Difference::EnqueueWhatFits)
            && job.phase == INQUEUE
            && self.is_in_vain(job_id)
        {
            return None;
        }
        job.inqueue()
    }

    /// Changes the status of a task in its job's counts.
    pub(crate) fn set_status(&mut self, task: usize, status: Status) {
        let task = &mut self.tasks[task];
        let job = &mut self.jobs[task.job];
        job.tally(task, -1);
        task.status = status;
        job.tally(task, 1);
    }

    /// The tasks of a job by role that hold room, have succeeded, or wait and ask for nothing.
    pub(crate) fn by_role(&self, job: usize, counts: impl Fn(&Task) -> bool) -> HashMap<Role, i32> {
        let mut by_role = HashMap::new();
        for task in &self.jobs[job].tasks {
            let task = &self.tasks[*task];
            if counts(task) {
                *by_role.entry(task.role).or_default() += 1;
            }
        }
        by_role
    }

    /// Whether a job of which tasks run waits for its next ones: of each role there are enough on nodes, or none.
    pub(crate) fn waits_for_stage(&self, job_id: usize) -> bool {
        let job = &self.jobs[job_id];
        if !job.in_stages || job.count(Status::Running) == 0 {
            return false;
        }
        let placed = |task: &Task| task.status.is_allocated() || task.status.is_done();
        let by_role = self.by_role(job_id, placed);
        let mut needed = job.min_task_member.iter();
        needed.all(|(role, min)| by_role.get(role).is_none_or(|placed| placed >= min))
    }

    /// Whether enough tasks of each role count.
    pub(crate) fn enough_by_role(&self, job_id: usize, counts: impl Fn(&Task) -> bool) -> bool {
        let job = &self.jobs[job_id];
        if !job.goes_by_role() || job.min_task_member.is_empty() {
            return true;
        }
        let by_role = self.by_role(job_id, counts);
        let mut wanted = job.min_task_member.iter();
        wanted.all(|(role, min)| by_role.get(role).copied().unwrap_or(0) >= *min)
    }
}
