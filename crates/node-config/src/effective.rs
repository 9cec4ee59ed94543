//! The configuration in force: every setting with its value and origin.

use super::{
    address::Address,
    values::CgroupPath,
    words::{
        Admission, ConditionTypes, Enforcement, EvictMethod, ImageGcMode, MemoryAvailable,
        MemoryReclaim, PodsSource, PriorityUnknown, SoftTierFallback, Tell, UnknownPods,
        UsageSource,
    },
};
use evictd_cluster_client::{Credentials, KubeletSettings};
use evictd_eviction::{
    Rules,
    retention::Retention,
    rules::{Futility, MemoryAndSwap, PidRank, PodRequests, PodSelection, UnknownStats},
};
use evictd_signals::{
    Signal, Threshold, ThresholdMaps,
    threshold::{self, ParsedThresholds, ThresholdError},
};
use jiff::SignedDuration;
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt, path::PathBuf};

/// Which rules a configuration chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `EvictionConfiguration`: evictd's rules.
    Evictd,
    /// `KubeletConfiguration`: the kubelet's rules, including its quirks.
    Kubelet,
}

impl Kind {
    /// The word after `kind:`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Evictd => "EvictionConfiguration",
            Self::Kubelet => "KubeletConfiguration",
        }
    }

    /// The word after `apiVersion:`.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::Evictd => "evictd.dev/v1alpha1",
            Self::Kubelet => "kubelet.config.k8s.io/v1beta1",
        }
    }
}

/// The origin of a setting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// evictd's default.
    Default,
    /// The kubelet's default.
    KubeletDefault,
    /// Not a key of the kubelet's configuration, but fixed behaviour of the kubelet.
    KubeletRule,
    /// Written in this file, at this line if lines are known.
    File {
        /// The file as the user named it.
        file: String,
        /// From 1.
        line: Option<u64>,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("default"),
            Self::KubeletDefault => f.write_str("kubelet default"),
            Self::KubeletRule => f.write_str("kubelet rule"),
            Self::File { file, line: None } => f.write_str(file),
            Self::File {
                file,
                line: Some(line),
            } => write!(f, "{file}:{line}"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// All settings; `keys.rs` has the purpose and the default of each.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one documented switch of the configuration"
)]
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// The rules in force.
    pub kind: Kind,
    /// Empty: the environment's `NODE_NAME`, else the host name.
    pub node_name: String,
    /// Decide and publish, but terminate no pod.
    pub dry_run: bool,
    /// The longest sleep between two looks.
    pub housekeeping_interval: SignedDuration,
    /// Which figure `memory.available` is.
    pub memory_available: MemoryAvailable,
    /// A cgroup that acts as the node, because it limits all pods.
    pub node_cgroup: Option<CgroupPath>,
    /// The threshold maps as written, after merging.
    pub maps: ThresholdMaps,
    /// The thresholds of those maps, hard ones first, without derived ones.
    pub configured_thresholds: Vec<Threshold>,
    /// Seconds; `None` means the pod's own grace period. So does a negative value, except under the kubelet's
    /// rules.
    pub max_pod_grace_period: Option<i32>,
    /// Grace period for a hard threshold, in whole seconds.
    pub hard_grace_period: SignedDuration,
    /// How long a condition lasts after its cause is over.
    pub pressure_transition_period: SignedDuration,
    /// Which cgroups are limited to their share of the node.
    pub enforce_node_allocatable: Vec<Enforcement>,
    /// Whether a kubelet adds its defaults to its hard thresholds.
    pub merge_default_eviction_settings: bool,
    /// Whether a kubelet uses cgroup v1 notifications of memory thresholds.
    pub kernel_memcg_notification: bool,
    /// Whether limits on local storage are enforced.
    pub local_storage_capacity_isolation: bool,
    /// The source of the pods.
    pub pods: Pods,
    /// Access to the API server.
    pub kubernetes: Credentials,
    /// Access to the kubelet.
    pub kubelet: Kubelet,
    /// The container runtime's CRI socket; empty for the first of the usual ones that exists.
    pub container_runtime_endpoint: String,
    /// When dead containers and unused images are removed.
    pub image_gc: ImageGc,
    /// The kinds of memory that are reclaimed before a soft memory threshold acts.
    pub memory_reclaim: MemoryReclaim,
    /// The source of usage figures.
    pub usage: Usage,
    /// How pods are evicted.
    pub evict: Evict,
    /// The hook before an eviction.
    pub pre_kill_hook: PreKillHook,
    /// The optional parts of the records of evictions.
    pub record: RecordSettings,
    /// The action on new pods that should not be on this node.
    pub admission: Admission,
    /// Which node conditions are set.
    pub conditions: Conditions,
    /// The action of a soft threshold if the eviction API refuses.
    pub soft_tier_fallback: SoftTierFallback,
    /// How many evicted pods are kept, and how long.
    pub evicted_pods: Retention,
    /// Cgroups that contain pods.
    pub cgroup_roots: Vec<CgroupPath>,
    /// Priorities by priority class, for manifests that only name a class.
    pub priority_classes: BTreeMap<String, i32>,
    /// Pods that are never chosen.
    pub protect: PodSelection,
    /// Static pods that may be chosen.
    pub evict_static_pods: PodSelection,
    /// How many consecutive evictions may fail to help; 0 means any number.
    pub futile_evictions: u32,
    /// Whether pods are evicted even if all eligible ones together cannot lift the signal.
    pub evict_without_relief: bool,
    /// Whether pods that gain next to nothing are passed over while the others can lift the signal.
    pub small_gains_last: bool,
    /// Whether a pod that alone waits, at a limit of its own, is evicted for a pressure signal.
    pub evict_at_own_limit: bool,
    /// Whether pods that no source lists may be chosen.
    pub unknown_pods: UnknownPods,
    /// The action if the source of the pods does not report their priorities.
    pub priority_unknown: PriorityUnknown,
    /// The longest back-off for owners whose pods come back; zero means none.
    pub returning_owner_back_off: SignedDuration,
    /// Where pods of unknown usage rank.
    pub unknown_stats: UnknownStats,
    /// The first key of the ranking when process ids are short.
    pub pid_rank: PidRank,
    /// Which requests of a pod count.
    pub pod_requests: PodRequests,
    /// Whether thresholds on memory and on swap act separately.
    pub memory_and_swap: MemoryAndSwap,
    /// Whether pods that would come back to this node rank after their equals.
    pub returning_pods_last: bool,
    /// Whether of pods that hold equally much of a disk the one that writes fastest ranks first.
    pub fastest_writer_first: bool,
    /// Which namespaces may use the annotation for the ranking.
    pub pod_preference: PodPreference,
    /// The metrics endpoint.
    pub metrics: Metrics,
    /// The separate endpoint for probes.
    pub probes: Probes,
    /// The Unix socket.
    pub socket: PathBuf,
    /// The directory of the history.
    pub state_directory: PathBuf,
    /// The directory of the last known pods.
    pub runtime_directory: PathBuf,
    /// The kernel's file systems.
    pub roots: Roots,
    /// The filesystems to watch.
    pub filesystems: Filesystems,
    /// By key; entries of a map each have their own, `evictionHard.memory.available`.
    pub(super) origins: BTreeMap<String, Origin>,
}

/// `pods`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pods {
    /// The source.
    pub source: PodsSource,
    /// The directory of manifests.
    pub manifests: PathBuf,
    /// The kubelet's static pod directory; pods from there are never chosen.
    pub static_pod_path: Option<PathBuf>,
}

/// `kubelet`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kubelet {
    /// How to reach it.
    pub access: KubeletSettings,
    /// Its root directory, which has a directory for each pod in `pods`; `None`: as the running kubelet was started.
    pub root_dir: Option<PathBuf>,
    /// The logs of pods; `None`: as the running kubelet's configuration says.
    pub pod_logs_dir: Option<PathBuf>,
}

/// `imageGC`
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageGc {
    /// When something is removed.
    pub mode: ImageGcMode,
    /// `full` begins to remove unused images at this use of their filesystem, in percent; 100: never.
    pub high_threshold_percent: u32,
    /// It ends at this use.
    pub low_threshold_percent: u32,
    /// An image that was first seen less than this long ago stays.
    pub minimum_age: SignedDuration,
    /// `full` removes an image that was not used for this long; zero: none for this reason.
    pub maximum_age: SignedDuration,
}

/// `usage`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// The source.
    pub source: UsageSource,
}

/// `evict`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evict {
    /// The method.
    pub method: EvictMethod,
    /// When the API server is informed.
    pub tell: Tell,
}

/// `preKillHook`
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreKillHook {
    /// Program and arguments; empty without a command.
    pub command: Vec<String>,
    /// The socket of a service.
    pub socket: Option<PathBuf>,
    /// How long it may take.
    pub budget: SignedDuration,
}

/// The optional parts of the records of evictions.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RecordSettings {
    /// The beginnings of the command lines of the largest processes.
    pub command_lines: bool,
}

/// `conditions`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// Which types.
    pub types: ConditionTypes,
}

/// `podPreference`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPreference {
    /// Namespaces whose pods may use the annotation.
    pub namespaces: Vec<String>,
}

/// `metrics`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metrics {
    /// `None`: no endpoint.
    pub address: Option<Address>,
}

/// `probes`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Probes {
    /// `None`: no endpoint.
    pub address: Option<Address>,
}

/// `roots`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Roots {
    /// procfs.
    pub proc: PathBuf,
    /// The mount point of the cgroup hierarchies.
    pub cgroup: PathBuf,
}

/// `filesystems`; `None`: the usual places are tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filesystems {
    /// The one with the kubelet's root directory.
    pub nodefs: Option<PathBuf>,
    /// The one with the images.
    pub imagefs: Option<PathBuf>,
    /// The one with the writable layers.
    pub containerfs: Option<PathBuf>,
}

impl Effective {
    /// All settings empty; the defaults from the table of keys are applied to it.
    pub(super) fn blank(kind: Kind) -> Self {
        Self {
            kind,
            node_name: String::new(),
            dry_run: false,
            housekeeping_interval: SignedDuration::ZERO,
            memory_available: MemoryAvailable::MemAvailable,
            node_cgroup: None,
            maps: ThresholdMaps::default(),
            configured_thresholds: Vec::new(),
            max_pod_grace_period: match kind {
                Kind::Evictd => None,
                Kind::Kubelet => Some(0),
            },
            hard_grace_period: SignedDuration::ZERO,
            pressure_transition_period: SignedDuration::ZERO,
            enforce_node_allocatable: Vec::new(),
            merge_default_eviction_settings: false,
            kernel_memcg_notification: false,
            local_storage_capacity_isolation: false,
            pods: Pods {
                source: PodsSource::Auto,
                manifests: PathBuf::new(),
                static_pod_path: None,
            },
            kubernetes: Credentials::default(),
            kubelet: Kubelet::default(),
            container_runtime_endpoint: String::new(),
            image_gc: ImageGc {
                mode: ImageGcMode::Auto,
                high_threshold_percent: 0,
                low_threshold_percent: 0,
                minimum_age: SignedDuration::ZERO,
                maximum_age: SignedDuration::ZERO,
            },
            memory_reclaim: MemoryReclaim::Off,
            usage: Usage {
                source: UsageSource::Auto,
            },
            evict: Evict {
                method: EvictMethod::Auto,
                tell: Tell::Together,
            },
            pre_kill_hook: PreKillHook::default(),
            record: RecordSettings::default(),
            admission: Admission::Off,
            conditions: Conditions {
                types: ConditionTypes::Own,
            },
            soft_tier_fallback: SoftTierFallback::Wait,
            evicted_pods: Retention::default(),
            cgroup_roots: Vec::new(),
            priority_classes: BTreeMap::new(),
            protect: PodSelection::default(),
            evict_static_pods: PodSelection::default(),
            futile_evictions: 0,
            evict_without_relief: false,
            small_gains_last: false,
            evict_at_own_limit: false,
            unknown_pods: UnknownPods::Spare,
            priority_unknown: PriorityUnknown::DryRun,
            returning_owner_back_off: SignedDuration::ZERO,
            unknown_stats: UnknownStats::Last,
            pid_rank: PidRank::FairShare,
            pod_requests: PodRequests::Reserved,
            memory_and_swap: MemoryAndSwap::Either,
            returning_pods_last: false,
            fastest_writer_first: false,
            pod_preference: PodPreference {
                namespaces: Vec::new(),
            },
            metrics: Metrics { address: None },
            probes: Probes { address: None },
            socket: PathBuf::new(),
            state_directory: PathBuf::new(),
            runtime_directory: PathBuf::new(),
            roots: Roots {
                proc: PathBuf::new(),
                cgroup: PathBuf::new(),
            },
            filesystems: Filesystems {
                nodefs: None,
                imagefs: None,
                containerfs: None,
            },
            origins: BTreeMap::new(),
        }
    }

    /// The origin of the setting at this key; `None` if it is neither written nor defaulted.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// The thresholds in the maps; a kubelet's file may only contain the kubelet's signals.
    pub(super) fn parse_maps(&self) -> Result<ParsedThresholds, Vec<ThresholdError>> {
        self.maps.parse_by_map(self.kind == Kind::Evictd)
    }

    /// The thresholds, including derived ones (S1-012). A kubelet derives none for process ids, nor does a
    /// configuration that has its own.
    pub fn thresholds(&self) -> Vec<Threshold> {
        if !self.enforce_node_allocatable.contains(&Enforcement::Pods) {
            return self.configured_thresholds.clone();
        }
        let all = threshold::with_allocatable(&self.configured_thresholds);
        let pids = Signal::AllocatablePidAvailable.as_str();
        if self.kind == Kind::Kubelet || self.maps.hard.contains_key(pids) {
            return all;
        }
        threshold::with_allocatable_pids(&all)
    }

    /// The rules for the pure core.
    pub fn rules(&self) -> Rules {
        let (rules, max_pod_grace_period) = match self.kind {
            Kind::Evictd => (
                Rules::evictd(),
                // A negative value leaves each pod its own grace period, as no value does.
                self.max_pod_grace_period.filter(|most| *most >= 0),
            ),
            Kind::Kubelet => (Rules::kubelet(), self.max_pod_grace_period),
        };
        Rules {
            thresholds: self.thresholds(),
            pressure_transition_period: self.pressure_transition_period,
            local_storage_capacity_isolation: self.local_storage_capacity_isolation,
            hard_grace_period_seconds: self.hard_grace_period.as_secs(),
            max_pod_grace_period_seconds: max_pod_grace_period.map(i64::from),
            unknown_stats: self.unknown_stats,
            pid_rank: self.pid_rank,
            pod_requests: self.pod_requests,
            memory_and_swap: self.memory_and_swap,
            returning_pods_last: self.returning_pods_last,
            fastest_writer_first: self.fastest_writer_first,
            pod_preference_namespaces: self.pod_preference.namespaces.clone(),
            protect: self.protect.clone(),
            evictable_static_pods: self.evict_static_pods.clone(),
            futility: rules
                .futility
                // Zero switches it off.
                .filter(|_| self.futile_evictions > 0)
                .map(|futility| Futility {
                    evictions: self.futile_evictions,
                    ..futility
                }),
            requires_relief: rules.requires_relief && !self.evict_without_relief,
            small_gains_last: rules.small_gains_last && self.small_gains_last,
            evict_at_own_limit: self.evict_at_own_limit,
            longest_owner_backoff: Some(self.returning_owner_back_off)
                .filter(SignedDuration::is_positive),
            ..rules
        }
    }

    /// Whether nothing is terminated: as configured, or because this source does not report the pods' priorities.
    pub fn is_dry(&self, pods: PodsSource) -> bool {
        self.dry_run
            || (pods == PodsSource::Cri && self.priority_unknown == PriorityUnknown::DryRun)
    }
}
