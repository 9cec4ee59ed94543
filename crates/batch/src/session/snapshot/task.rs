//! A pod of a job, as a session sees it.

use super::roles::Role;
use crate::session::pod_id::PodId;
use crate::session::snapshot::ids::JobId;
use crate::session::snapshot::resource::{Resource, number};
use evictd_batch_objects::TASK_SPEC;
use evictd_placement::NodeId;
use evictd_placement::Pod;
use evictd_pod::compatibility::Release;
use evictd_pod::wire::{ConditionStatus, Pod as PodObject, PodPhase, TextMap};
use evictd_pod::{QosClass, Quantity, duration, requests, resources};
use jiff::Timestamp;
use std::sync::Arc;

/// How far a task is (S6-090).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Status {
    /// It has no node.
    Pending,
    /// It got a node in this session.
    Allocated,
    /// It gets a node after pending evictions.
    Pipelined,
    /// It was sent to its node in this session.
    Binding,
    /// It has a node and does not run yet.
    Bound,
    Running,
    /// It is being deleted, or was evicted in this session.
    Releasing,
    Succeeded,
    Failed,
    Unknown,
}

impl Status {
    pub(crate) const ALL: [Self; 10] = [
        Self::Pending,
        Self::Allocated,
        Self::Pipelined,
        Self::Binding,
        Self::Bound,
        Self::Running,
        Self::Releasing,
        Self::Succeeded,
        Self::Failed,
        Self::Unknown,
    ];

    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Allocated => "Allocated",
            Self::Pipelined => "Pipelined",
            Self::Binding => "Binding",
            Self::Bound => "Bound",
            Self::Running => "Running",
            Self::Releasing => "Releasing",
            Self::Succeeded => "Succeeded",
            Self::Failed => "Failed",
            Self::Unknown => "Unknown",
        }
    }

    /// Whether it holds room of its own.
    pub(crate) const fn is_allocated(self) -> bool {
        matches!(
            self,
            Self::Allocated | Self::Binding | Self::Bound | Self::Running
        )
    }

    /// Whether it is over.
    pub(crate) const fn is_done(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }

    /// Whether it counts for the size of its gang (S6-120).
    pub(crate) const fn is_valid(self) -> bool {
        self.is_allocated() || matches!(self, Self::Succeeded | Self::Pipelined | Self::Pending)
    }
}

/// Where a task stood when a try was given up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Context {
    pub(crate) status: Status,
    pub(crate) node: Option<NodeId>,
    /// Whether pods were evicted for it.
    pub(crate) evicts: bool,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent fields of a pod")]
pub(crate) struct Task {
    /// `namespace/name`.
    pub(crate) key: Arc<str>,
    pub(crate) id: PodId,
    pub(crate) job: JobId,
    pub(crate) request: Resource,
    pub(crate) status: Status,
    pub(crate) node: Option<NodeId>,
    /// The node that its pod names, whether that exists or not; empty once the pod has ended.
    pub(crate) node_name: Box<str>,
    /// Orders the tasks of one job; an annotation may set it.
    pub(crate) priority: i32,
    /// The priority that admission gave to its pod.
    pub(crate) pod_priority: Option<i32>,
    pub(crate) role: Role,
    /// The part of its job that it is in, by its place.
    pub(crate) sub_job: usize,
    /// It asks for nothing.
    pub(crate) best_effort: bool,
    /// It has scheduling gates (S6-089).
    pub(crate) gated: bool,
    pub(crate) preemptable: bool,
    /// The quality of service of its pod.
    pub(crate) quality: QosClass,
    /// It may run on nodes of revocable zones.
    pub(crate) uses_zones: bool,
    pub(crate) never_preempts: bool,
    /// It is critical for the cluster (S6-125).
    pub(crate) critical: bool,
    pub(crate) created: Option<Timestamp>,
    /// Since when it is on its node, if that is known.
    pub(crate) started: Option<Timestamp>,
    /// The last part of a name like `job-task-3` (S6-097).
    pub(crate) index: Option<i64>,
    /// The compiled pod while it is on no node of the cluster.
    pub(crate) pod: Option<Pod>,
    /// Its number in the placement statement while it is on a node.
    pub(crate) placed: Option<usize>,
    /// Its number in the statement once it was removed from its node.
    pub(crate) removed: Option<usize>,
    /// Whether pods are evicted for it.
    pub(crate) evicts: bool,
    /// Whether its place is one that the next allocate does not know.
    pub(crate) unknown_place: UnknownPlace,
    /// Where it stood in the last try that was given up.
    pub(crate) last: Option<Context>,
    pub(crate) pod_scheduled: PodScheduled,
    pub(crate) nominated: Box<str>,
    /// Why its pod cannot be read.
    pub(crate) mistake: Option<Box<str>>,
    /// Present where a single plugin reads something of its pod.
    pub(crate) further: Option<Box<Further>>,
}

/// The actions for gangs of Volcano leave a copy of each task that they pipeline among the pending ones of its part (S6-201).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum UnknownPlace {
    /// There is no copy.
    #[default]
    None,
    /// Action allocate would place the copy.
    Pending,
    /// It has placed the copy, and the place holds room for nothing.
    Tried,
}

/// The parts of a pod that single plugins read. Few pods have any.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Further {
    /// The annotations of [`MARKS`].
    marks: TextMap,
    /// It is not evicted before this time.
    protected_until: Option<Timestamp>,
    /// The node where it ended, if it has a role.
    ended_on: Box<str>,
    /// The labels of a pod that has ended. No cluster knows them any more, and its part of the job counts it.
    labels: TextMap,
    /// Thousandths of a core and bytes of memory, where the limits are not the requests.
    limits: Option<[f64; 2]>,
    /// The containers of a guaranteed pod that waits, with the thousandths of a core that each requests.
    cpus: Option<Box<Requested>>,
}

/// Names of containers, and the thousandths of a core that each requests.
pub(crate) type Requested = [(Box<str>, Option<i64>)];

/// The protection of a running pod from eviction after its binding, as a duration.
pub(crate) const COOLDOWN: &str = "volcano.sh/cooldown-time";

/// The policy for NUMA nodes that a pod needs on its node.
pub(crate) const NUMA_POLICY: &str = "volcano.sh/numa-topology-policy";

/// The annotations of pods that single plugins read.
pub(crate) const MARKS: [&str; 3] = [
    "volcano.sh/resource-strategy-scoring-type",
    "volcano.sh/resource-strategy-weight",
    NUMA_POLICY,
];

impl Further {
    pub(crate) fn of(pod: &PodObject) -> Option<Box<Self>> {
        let metadata = &pod.metadata;
        let mut further = Self::default();
        let marks = MARKS.into_iter();
        further
            .marks
            .extend(marks.filter_map(|key| Some((key, metadata.annotations.get(key)?))));
        let cooldown = metadata.labels.get(COOLDOWN);
        let cooldown = cooldown.or_else(|| metadata.annotations.get(COOLDOWN));
        let cooldown = cooldown.and_then(|text| duration::parse(text).ok());
        let mut conditions = pod.status.conditions.iter();
        let bound = conditions.find(|condition| {
            condition.kind == "PodScheduled" && condition.status == ConditionStatus::True
        });
        let bound = bound.and_then(|condition| condition.last_transition_time);
        if pod.status.phase == PodPhase::Running
            && let Some((cooldown, bound)) = cooldown.zip(bound)
        {
            further.protected_until = bound.checked_add(cooldown).ok();
        }
        let has_role = metadata.annotations.get(TASK_SPEC).is_some();
        if has_role && matches!(pod.status.phase, PodPhase::Succeeded | PodPhase::Failed) {
            further.ended_on = pod.spec.node_name.as_str().into();
        }
        if pod.status.phase.has_ended() {
            further.labels = metadata.labels.clone();
        }
        further.limits = limits_of(pod);
        further.cpus = cpus_of(pod);
        (further != Self::default()).then(|| Box::new(further))
    }
}

/// The condition `PodScheduled` of a pod: as the last watch event shows it, and as it was written since.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct PodScheduled {
    shown: Option<ConditionText>,
    /// A write that no watch event shows yet.
    written: Option<Box<PendingWrite>>,
}

/// A condition and a nomination that are being written.
#[derive(Debug, Clone, PartialEq, Eq)]
struct PendingWrite {
    condition: ConditionText,
    nominated: Option<Box<str>>,
}

/// Status, reason and message of a condition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConditionText {
    pub(crate) status: Box<str>,
    pub(crate) reason: Box<str>,
    pub(crate) message: Box<str>,
}

impl PodScheduled {
    pub(crate) fn shown(shown: Option<ConditionText>) -> Self {
        Self {
            shown,
            written: None,
        }
    }

    /// Whether the pod has this reason and message already, or will have them once the pending write arrives.
    pub(crate) fn is_unscheduled_because(&self, reason: &str, message: &str) -> bool {
        let written = self.written.as_ref().map(|write| &write.condition);
        let current = written.or(self.shown.as_ref());
        current.is_some_and(|current| {
            &*current.status == "False"
                && *current.reason == *reason
                && *current.message == *message
        })
    }

    /// Whether this node is being written as the nominated one.
    pub(crate) fn is_nominating(&self, node: &str) -> bool {
        let nominated = self
            .written
            .as_ref()
            .and_then(|write| write.nominated.as_deref());
        nominated == Some(node)
    }

    pub(crate) fn write(&mut self, condition: ConditionText, nominated: Option<&str>) {
        // A write without a nomination leaves the earlier one as it is.
        let earlier = self.written.take().and_then(|write| write.nominated);
        self.written = Some(Box::new(PendingWrite {
            condition,
            nominated: nominated.map(Into::into).or(earlier),
        }));
    }

    pub(crate) fn write_failed(&mut self) {
        self.written = None;
    }

    /// Takes over the pending write of an earlier state of the same pod. A watch event that shows the state before the write
    /// is older than the write. Any other state is newer, and counts alone.
    pub(crate) fn keep_pending_write(&mut self, earlier: Self) {
        if self.shown == earlier.shown {
            self.written = earlier.written;
        }
    }
}

fn cpus_of(pod: &PodObject) -> Option<Box<Requested>> {
    let waits = pod.spec.node_name.is_empty() && pod.status.phase == PodPhase::Pending;
    // The API server writes the class into the status, so the release counts for files only.
    let exclusive = waits && QosClass::of_pod(pod, Release::default()) == QosClass::Guaranteed;
    let containers = pod.spec.containers.iter().map(|container| {
        let cpu = container.resources.requests.get(resources::CPU);
        let milli = cpu.map(evictd_pod::Quantity::milli_value);
        (container.name.as_str().into(), milli)
    });
    exclusive.then(|| containers.collect())
}

/// The limits of a pod on cpu and memory; `None` if they are its requests.
fn limits_of(pod: &PodObject) -> Option<[f64; 2]> {
    let containers = pod.spec.containers.iter().chain(&pod.spec.init_containers);
    let mut resources = containers.map(|container| &container.resources);
    let differ = resources.any(|amounts| {
        let differs = |name: &str| amounts.limits.get(name) != amounts.requests.get(name);
        differs(resources::CPU) || differs(resources::MEMORY)
    });
    if !differ {
        return None;
    }
    let limits = requests::limits(&pod.spec);
    let limit = |name: &str| {
        let limit = limits.iter().find(|(known, _)| *known == name);
        limit.map_or_else(Quantity::default, |(_, limit)| *limit)
    };
    let cpu = limit(resources::CPU).milli_value();
    Some([number(cpu), number(limit(resources::MEMORY).value())])
}

impl Task {
    /// Thousandths of a core and bytes of memory that its pod may use; `None` if no more than it requests.
    pub(crate) fn limits(&self) -> Option<[f64; 2]> {
        self.further.as_ref()?.limits
    }

    /// An annotation of [`MARKS`].
    pub(crate) fn mark(&self, key: &str) -> Option<&str> {
        self.further.as_ref()?.marks.get(key)
    }

    /// The node that its pod names, also after its end if it has a role.
    pub(crate) fn named_node(&self) -> &str {
        match &self.further {
            Some(further) if !further.ended_on.is_empty() => &further.ended_on,
            _ => &self.node_name,
        }
    }

    /// Its labels, if it has ended.
    pub(crate) fn labels(&self) -> Option<&TextMap> {
        let further = self.further.as_ref()?;
        Some(&further.labels).filter(|labels| !labels.is_empty())
    }

    /// Its pod is not evicted before this time.
    pub(crate) fn protected_until(&self) -> Option<Timestamp> {
        self.further.as_ref()?.protected_until
    }

    /// The containers of a guaranteed pod that waits, with their requests.
    pub(crate) fn cpus(&self) -> Option<&Requested> {
        self.further.as_ref()?.cpus.as_deref()
    }

    /// Its name without the namespace.
    pub(crate) fn name(&self) -> &str {
        self.key
            .split_once('/')
            .map_or(&*self.key, |(_, name)| name)
    }

    /// Whether it counts as there for its gang: it holds room, has succeeded, or waits and asks for nothing.
    pub(crate) fn is_there(&self) -> bool {
        self.status.is_allocated()
            || self.status == Status::Succeeded
            || (self.status == Status::Pending && self.best_effort)
    }

    /// Its status and node, or those of the last failed attempt.
    pub(crate) fn context(&self) -> Context {
        self.last.unwrap_or(Context {
            status: self.status,
            node: self.node,
            evicts: self.evicts,
        })
    }
}

/// The last part of a pod's name that has at least three, if it is a number.
pub(crate) fn index_of(name: &str) -> Option<i64> {
    let mut parts = name.rsplit('-');
    let last = parts.next()?;
    parts.nth(1)?;
    last.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_090_which_statuses_hold_room_and_which_are_final() {
        let allocated: Vec<&str> = Status::ALL
            .into_iter()
            .filter(|status| status.is_allocated())
            .map(Status::as_str)
            .collect();
        assert_eq!(allocated, ["Allocated", "Binding", "Bound", "Running"]);
        assert!(Status::Failed.is_done() && !Status::Failed.is_valid());
        assert!(Status::Succeeded.is_done() && Status::Succeeded.is_valid());
    }

    #[test]
    fn s6_097_only_names_of_three_parts_have_an_index() {
        assert_eq!(index_of("job-work-12"), Some(12));
        assert_eq!(index_of("job-12"), None);
        assert_eq!(index_of("job-work-x"), None);
        assert_eq!(index_of("a-b-c-7"), Some(7));
    }
}
