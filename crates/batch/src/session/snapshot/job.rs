//! A job of a snapshot: a pod group with its tasks, or a bare pod.

use crate::session::snapshot::fit::FitError;
use crate::session::snapshot::ids::{DomainId, QueueId, TaskId};
use crate::session::snapshot::node::Freed;
use crate::session::snapshot::resource::{Dim, Resource};
use crate::session::snapshot::roles::Role;
use crate::session::snapshot::sub_jobs::JobTopology;
use crate::session::snapshot::task::{Status, Task};
use crate::session::snapshot::upstream::Upstream;
use evictd_batch_objects::{
    BUDGET_MAX_UNAVAILABLE, BUDGET_MIN_AVAILABLE, PodGroupCondition, PodGroupConditionType,
    PodGroupPhase, PodGroupStatus,
};
use evictd_pod::TooManyResources;
use evictd_pod::wire::{ResourceList, TextMap};
use hashbrown::HashMap;
use jiff::Timestamp;
use std::sync::Arc;

/// The annotations of a group that say which of its tasks belong together, and which come first.
pub(crate) const TOPOLOGY_AFFINITY: &str = "volcano.sh/task-topology-affinity";
pub(crate) const TOPOLOGY_ANTI_AFFINITY: &str = "volcano.sh/task-topology-anti-affinity";
pub(crate) const TOPOLOGY_TASK_ORDER: &str = "volcano.sh/task-topology-task-order";

/// The annotations of groups that single plugins read.
pub(crate) const GROUP_MARKS: [&str; 8] = [
    "volcano.sh/sla-waiting-time",
    "sla-waiting-time",
    "volcano.sh/preemptable",
    BUDGET_MIN_AVAILABLE,
    BUDGET_MAX_UNAVAILABLE,
    TOPOLOGY_AFFINITY,
    TOPOLOGY_ANTI_AFFINITY,
    TOPOLOGY_TASK_ORDER,
];

/// A pod group with its tasks.
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts")]
pub(crate) struct Job {
    /// `namespace/name`.
    pub(crate) key: Arc<str>,
    /// Whether the group exists; its pods may be seen before it.
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
    pub(crate) queue: QueueId,
    pub(crate) priority: i32,
    /// The priority of its class, before that of its pods limits it.
    pub(crate) class_priority: i32,
    /// The lowest priority that one of its pods is known to have.
    pub(crate) lowest_of_pods: Option<i32>,
    pub(crate) created: Option<Timestamp>,
    pub(crate) min_member: i32,
    /// By role, with the sum below.
    pub(crate) min_task_member: Vec<(Role, i32)>,
    pub(crate) min_task_total: i32,
    /// Whether its tasks start one after the other, so that it needs more when some of them run.
    pub(crate) is_staged: bool,
    /// How near to each other its pods have to be, and its parts. Most jobs have nothing of the kind.
    pub(crate) network: Option<Box<JobTopology>>,
    /// The amounts that it needs to be enqueued.
    pub(crate) min_resources: Option<Resource>,
    /// The same with every name, also of quotas, if it has such names.
    pub(crate) min_list: Option<Box<ResourceList>>,
    /// The annotations of its group that single plugins read.
    pub(crate) marks: TextMap,
    /// Why its minResources are ignored: then it is not enqueued.
    pub(crate) refused: Option<TooManyResources>,
    /// It was enqueued although it did not fit, so that its pods are created.
    pub(crate) without_promise: bool,
    pub(crate) phase: PodGroupPhase,
    pub(crate) conditions: Vec<PodGroupCondition>,
    /// Of each condition, whether this session said it.
    pub(crate) set_now: Vec<bool>,
    /// Its status as it was when the session began.
    pub(crate) before: PodGroupStatus,
    pub(crate) tasks: Vec<TaskId>,
    counts: [i32; Status::ALL.len()],
    /// Tasks that wait and ask for nothing.
    pub(crate) pending_best_effort: i32,
    /// The sum of its allocated tasks.
    pub(crate) allocated: Resource,
    /// The sum of all its tasks' requests.
    pub(crate) total_request: Resource,
    /// The sum of its tasks with scheduling gates.
    pub(crate) gated: Resource,
    /// Whether nodes are reserved against it in this session.
    pub(crate) excluded: bool,
    /// The room that evictions make for its tasks, on all its nominated nodes.
    pub(crate) freed: Freed,
    /// Why this session did not enqueue it.
    pub(crate) not_enqueued_because: Option<String>,
    /// The domain where its pods are tried just now.
    pub(crate) within: Option<DomainId>,
    /// The message about the domain in which most of its pods fit.
    pub(crate) best_domain: Option<String>,
    /// By task, in the order in which they were found.
    pub(crate) fit_errors: HashMap<TaskId, FitError>,
    /// Roles that have a fit error.
    pub(crate) failed_roles: Vec<Role>,
}

impl Job {
    /// A job by its name alone.
    pub(crate) fn new(key: Arc<str>) -> Self {
        Self {
            key,
            has_group: false,
            upstream: None,
            is_plain: false,
            is_live: false,
            queue_name: Box::default(),
            class_name: Box::default(),
            queue: QueueId::of(0),
            priority: 0,
            class_priority: 0,
            lowest_of_pods: None,
            created: None,
            min_member: 0,
            min_task_member: Vec::new(),
            min_task_total: 0,
            is_staged: false,
            network: None,
            min_resources: None,
            min_list: None,
            marks: TextMap::new(),
            refused: None,
            without_promise: false,
            phase: PodGroupPhase::Unset,
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
            freed: Freed::None,
            not_enqueued_because: None,
            within: None,
            best_domain: None,
            fit_errors: HashMap::new(),
            failed_roles: Vec::new(),
        }
    }

    /// Whether its pods, or those of a part of it, are to be near to each other.
    pub(crate) fn has_topology(&self) -> bool {
        self.network
            .as_ref()
            .is_some_and(|network| network.is_asked())
    }

    /// Whether it is placed part by part, or within groups of near nodes.
    pub(crate) fn is_placed_by_groups(&self) -> bool {
        let network = self.network.as_ref();
        network.is_some_and(|network| network.is_placed_by_groups())
    }

    pub(crate) fn namespace(&self) -> &str {
        self.key.split('/').next().unwrap_or_default()
    }

    /// Whether it is a `PodGroup` of Volcano's, which events are about.
    pub(crate) const fn has_object(&self) -> bool {
        self.upstream.is_none() && !self.is_plain
    }

    /// Whether the last session failed to place it.
    pub(super) fn failed(&self) -> bool {
        let mut conditions = self.before.conditions.iter();
        conditions.any(|condition| condition.holds(PodGroupConditionType::Unschedulable))
    }

    /// The topology keys: all its pods belong on nodes with equal values.
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

    /// Counts its tasks again, so that only resources of its tasks are named.
    pub(crate) fn recount(&mut self, tasks: &[Task]) {
        self.counts = [0; Status::ALL.len()];
        self.pending_best_effort = 0;
        self.allocated = Resource::default();
        self.total_request = Resource::default();
        self.gated = Resource::default();
        self.lowest_of_pods = None;
        for index in std::mem::take(&mut self.tasks) {
            self.add(&tasks[index.index()], index);
        }
    }

    /// Adds a task.
    pub(crate) fn add(&mut self, task: &Task, index: TaskId) {
        self.tally(task, 1);
        self.total_request.add(&task.request);
        let lowest = [self.lowest_of_pods, task.pod_priority];
        self.lowest_of_pods = lowest.into_iter().flatten().min();
        if task.gated {
            self.gated.add(&task.request);
        }
        self.tasks.push(index);
    }

    /// Whether it is not enqueued yet.
    pub(crate) fn is_pending(&self) -> bool {
        self.phase.is_pending()
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

    /// Whether a task may be evicted if so many stay allocated.
    pub(crate) fn can_spare(&self, left: i32) -> bool {
        let whole = self
            .upstream
            .as_ref()
            .is_some_and(|upstream| upstream.evicted_as_whole);
        !whole && left >= self.min_member
    }

    /// Whether its gang is complete after it has lost so many tasks.
    pub(crate) fn spares(&self, lost: i32) -> bool {
        self.ready() + self.pending_best_effort - lost >= self.min_member
    }

    pub(crate) fn is_pipelined(&self) -> bool {
        self.ready() + self.pipelined() + self.pending_best_effort >= self.min_member
    }

    /// Whether the smallest numbers by role decide, too.
    pub(crate) const fn counts_by_role(&self) -> bool {
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
        matches!(
            self.phase,
            PodGroupPhase::Pending | PodGroupPhase::Inqueue | PodGroupPhase::Unknown
        )
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
    pub(super) fn inqueue(&self) -> Option<Resource> {
        self.min_resources.as_ref()?;
        let runs =
            self.phase == PodGroupPhase::Running && self.allocated_tasks() >= self.min_member;
        let let_in = self.phase == PodGroupPhase::Inqueue && !self.without_promise;
        (let_in || runs).then(|| self.without_gated(&self.reserved()))
    }
}
