//! The names in a configuration.

/// An action of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Lets jobs in.
    Enqueue,
    /// Gives room to the tasks of jobs that are in.
    Allocate,
    /// Places tasks that ask for nothing.
    Backfill,
    /// Takes room from jobs of the same queue.
    Preempt,
    /// Takes room back from other queues.
    Reclaim,
    /// Takes room of the same queue for whole gangs.
    GangPreempt,
    /// Takes room back from other queues for whole gangs.
    GangReclaim,
    /// Evicts tasks that plugins want elsewhere.
    Shuffle,
}

impl Action {
    pub(crate) const ALL: [Self; 8] = [
        Self::Enqueue,
        Self::Allocate,
        Self::Backfill,
        Self::Preempt,
        Self::Reclaim,
        Self::GangPreempt,
        Self::GangReclaim,
        Self::Shuffle,
    ];

    /// Whether it evicts pods to make room for others.
    pub(crate) const fn takes_room(self) -> bool {
        matches!(
            self,
            Self::Preempt | Self::Reclaim | Self::GangPreempt | Self::GangReclaim
        )
    }

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Enqueue => "enqueue",
            Self::Allocate => "allocate",
            Self::Backfill => "backfill",
            Self::Preempt => "preempt",
            Self::Reclaim => "reclaim",
            Self::GangPreempt => "gangpreempt",
            Self::GangReclaim => "gangreclaim",
            Self::Shuffle => "shuffle",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|action| action.as_str() == name)
    }
}

/// A plugin that is built.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PluginName {
    /// All of a job's pods or none.
    Gang,
    /// By priority.
    Priority,
    /// Protects pods that are critical for the cluster.
    Conformance,
    /// Dominant resource fairness.
    Drf,
    /// Queues share by weight.
    Proportion,
    /// Queues share by their deserved amounts.
    Capacity,
    /// Lets in a little more than there is room for.
    Overcommit,
    /// Where a pod may be.
    Predicates,
    /// Where it is best.
    NodeOrder,
    /// Full nodes first.
    Binpack,
    /// Queues have groups of nodes.
    NodeGroup,
    /// Least or most allocated nodes first, by resource.
    ResourceStrategyFit,
    /// Quotas of namespaces decide which jobs are enqueued.
    ResourceQuota,
    /// Evictions keep within disruption budgets.
    Pdb,
    /// Jobs that have waited long are enqueued.
    Sla,
    /// Pods are protected from eviction for some time after their start.
    Cdp,
    /// Nodes of revocable zones, by the time of the day.
    Tdm,
    /// Tasks that work together get one node.
    TaskTopology,
    /// Pods of a job near to each other, by groups of nodes.
    NetworkTopologyAware,
    /// Nodes by their measured use.
    Usage,
    /// Shuffle moves pods from nodes that are used much.
    Rescheduling,
    /// Pods get processors that are near to each other.
    NumaAware,
    /// A server of the operator takes part over HTTP.
    Extender,
}

impl PluginName {
    pub(crate) const ALL: [Self; 23] = [
        Self::Gang,
        Self::Priority,
        Self::Conformance,
        Self::Drf,
        Self::Proportion,
        Self::Capacity,
        Self::Overcommit,
        Self::Predicates,
        Self::NodeOrder,
        Self::Binpack,
        Self::NodeGroup,
        Self::ResourceStrategyFit,
        Self::ResourceQuota,
        Self::Pdb,
        Self::Sla,
        Self::Cdp,
        Self::Tdm,
        Self::TaskTopology,
        Self::NetworkTopologyAware,
        Self::Usage,
        Self::Rescheduling,
        Self::NumaAware,
        Self::Extender,
    ];

    /// Its name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gang => "gang",
            Self::Priority => "priority",
            Self::Conformance => "conformance",
            Self::Drf => "drf",
            Self::Proportion => "proportion",
            Self::Capacity => "capacity",
            Self::Overcommit => "overcommit",
            Self::Predicates => "predicates",
            Self::NodeOrder => "nodeorder",
            Self::Binpack => "binpack",
            Self::NodeGroup => "nodegroup",
            Self::ResourceStrategyFit => "resource-strategy-fit",
            Self::ResourceQuota => "resourcequota",
            Self::Pdb => "pdb",
            Self::Sla => "sla",
            Self::Cdp => "cdp",
            Self::Tdm => "tdm",
            Self::TaskTopology => "task-topology",
            Self::NetworkTopologyAware => "network-topology-aware",
            Self::Usage => "usage",
            Self::Rescheduling => "rescheduling",
            Self::NumaAware => "numa-aware",
            Self::Extender => "extender",
        }
    }

    pub(crate) fn find(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.as_str() == name)
    }
}

/// Plugins of Volcano that stay out, each with the reason and the way to do without.
pub(crate) const REFUSED: [(&str, &str); 2] = [
    (
        "deviceshare",
        "parts of devices are allocated by Kubernetes' dynamic resource allocation (DRA): give the pods resourceClaims, which plugin predicates allocates",
    ),
    ("numaaware", "did you mean numa-aware?"),
];

/// Actions that Volcano had once, each with its replacement.
pub(crate) const REMOVED: [(&str, &str); 2] = [("elect", RESERVATION), ("reserve", RESERVATION)];

const RESERVATION: &str =
    "it is gone from Volcano: leave it out, since allocate reserves nodes for jobs that wait long";

/// Arguments that need a part of Volcano that stays out.
pub(crate) const REFUSED_ARGUMENTS: [(&str, &str); 2] = [
    (
        "capacity.DynamicResourceAllocationEnable",
        "queues have no quotas of devices: bound them by ResourceQuotas of deviceclasses",
    ),
    (
        "capacity.DRAConsumableCapacityEnable",
        "queues have no quotas of devices: bound them by ResourceQuotas of deviceclasses",
    ),
];

/// A point where a plugin may take part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Switch {
    /// Which job comes first.
    JobOrder,
    /// Whether a job has enough to start.
    JobReady,
    /// Whether it will have enough after pending evictions.
    JobPipelined,
    /// Whether it lacks something.
    JobStarving,
    /// Whether it may be let in.
    JobEnqueued,
    /// Which task comes first.
    TaskOrder,
    /// Who may be a victim within a queue.
    Preemptable,
    /// Who may be a victim of other queues.
    Reclaimable,
    /// Whether a queue may take room from others.
    Preemptive,
    /// Which queue comes first.
    QueueOrder,
    /// Whether a queue has had its share.
    Overused,
    /// Whether a queue may have more.
    Allocatable,
    /// Where a pod may be.
    Predicate,
    /// Where it is best.
    NodeOrder,
    /// Along the paths of queues; off unless asked for.
    Hierarchy,
    /// Which running tasks shuffle evicts.
    Victim,
    /// Fairness among namespaces before that among jobs, as in Volcano 1.0; off unless asked for.
    NamespaceOrder,
    /// Which part of a job comes first.
    SubJobOrder,
    /// Whether a part of a job has enough.
    SubJobReady,
    /// Whether it will have enough after pending evictions.
    SubJobPipelined,
    /// Which group of nodes is best for a part of a job.
    HyperNodeOrder,
    /// In which groups of nodes a job is tried.
    HyperNodeGradient,
}

impl Switch {
    /// Each key with its switch, or with none where nothing is built that it could switch.
    pub(crate) const KEYS: [(&'static str, Option<Self>); 26] = [
        ("enableJobOrder", Some(Self::JobOrder)),
        ("enableSubJobOrder", Some(Self::SubJobOrder)),
        ("enableNamespaceOrder", Some(Self::NamespaceOrder)),
        ("enableHierarchy", Some(Self::Hierarchy)),
        ("enableJobReady", Some(Self::JobReady)),
        ("enableSubJobReady", Some(Self::SubJobReady)),
        ("enableJobPipelined", Some(Self::JobPipelined)),
        ("enableSubJobPipelined", Some(Self::SubJobPipelined)),
        ("enableTaskOrder", Some(Self::TaskOrder)),
        ("enablePreemptable", Some(Self::Preemptable)),
        ("enableReclaimable", Some(Self::Reclaimable)),
        ("enablePreemptive", Some(Self::Preemptive)),
        ("enableQueueOrder", Some(Self::QueueOrder)),
        ("enabledClusterOrder", None),
        ("enablePredicate", Some(Self::Predicate)),
        ("enableBestNode", None),
        ("enableNodeOrder", Some(Self::NodeOrder)),
        ("enableTargetJob", None),
        ("enableReservedNodes", None),
        ("enableJobEnqueued", Some(Self::JobEnqueued)),
        ("enabledVictim", Some(Self::Victim)),
        ("enableJobStarving", Some(Self::JobStarving)),
        ("enabledOverused", Some(Self::Overused)),
        ("enabledAllocatable", Some(Self::Allocatable)),
        ("enabledHyperNodeOrder", Some(Self::HyperNodeOrder)),
        ("enabledHyperNodeGradient", Some(Self::HyperNodeGradient)),
    ];

    const fn bit(self) -> u32 {
        1 << self as u8
    }
}

/// Where a plugin takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Switches(u32);

impl Default for Switches {
    /// Everywhere, but neither along hierarchies nor among namespaces (S6-095).
    fn default() -> Self {
        Self(!Switch::Hierarchy.bit() & !Switch::NamespaceOrder.bit())
    }
}

impl Switches {
    /// Whether it takes part at a point.
    pub const fn at(self, switch: Switch) -> bool {
        self.0 & switch.bit() != 0
    }

    pub(crate) const fn set(&mut self, switch: Switch, on: bool) {
        if on {
            self.0 |= switch.bit();
        } else {
            self.0 &= !switch.bit();
        }
    }
}
