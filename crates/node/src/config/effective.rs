//! The configuration that takes effect: every setting filled in, and where each came from.

use super::{
    address::Address,
    values::CgroupPath,
    word,
    words::{
        Admission, ConditionTypes, Enforcement, EvictMethod, MemoryAvailable, PodsSource,
        SoftTierFallback, Tell, UnknownPods, UsageSource,
    },
};
use evictd_cluster_client::{Credentials, KubeletSettings};
use evictd_eviction::{
    Rules, Threshold, ThresholdMaps,
    retention::Retention,
    rules::{Futility, MemoryAndSwap, PidRank, Protect, UnknownStats},
    threshold::{self, ParsedThresholds, ThresholdError},
};
use jiff::SignedDuration;
use serde::{Serialize, Serializer};
use std::{collections::BTreeMap, fmt, path::PathBuf};

/// Whose rules a configuration chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `EvictionConfiguration`: ours.
    Evictd,
    /// `KubeletConfiguration`: the kubelet's, quirks included.
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

/// Where a setting came from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    /// Built in.
    Default,
    /// What the kubelet takes where its configuration is silent.
    KubeletDefault,
    /// No key of a kubelet's; what it always does.
    KubeletRule,
    /// Written in this file, at this line where it has lines.
    File {
        /// The file, as its user named it.
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

/// Every setting; `keys.rs` says what each is for and what it is by default.
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one documented switch of the configuration"
)]
#[derive(Debug, Clone, PartialEq)]
pub struct Effective {
    /// Whose rules hold.
    pub kind: Kind,
    /// Empty: the environment's `NODE_NAME`, else the host name.
    pub node_name: String,
    /// Decide and tell, but end nothing.
    pub dry_run: bool,
    /// The longest sleep between two looks.
    pub housekeeping_interval: SignedDuration,
    /// Which figure counts.
    pub memory_available: MemoryAvailable,
    /// A bounding cgroup that acts as the node.
    pub node_cgroup: Option<CgroupPath>,
    /// The threshold maps, merged, as written.
    pub maps: ThresholdMaps,
    /// What those maps say, in the order hard, soft; without derived ones.
    pub configured_thresholds: Vec<Threshold>,
    /// Seconds; `None`: the pod's own grace. A negative one means the same, but not to the kubelet.
    pub max_pod_grace_period: Option<i32>,
    /// Grace under a hard threshold, in whole seconds.
    pub hard_grace_period: SignedDuration,
    /// How long a condition outlives its cause.
    pub pressure_transition_period: SignedDuration,
    /// What is held to its share of the node.
    pub enforce_node_allocatable: Vec<Enforcement>,
    /// Whether a kubelet fills its hard thresholds up with its defaults.
    pub merge_default_eviction_settings: bool,
    /// Whether a kubelet asks cgroup v1 to tell it of crossed memory thresholds.
    pub kernel_memcg_notification: bool,
    /// Whether limits on local storage are enforced.
    pub local_storage_capacity_isolation: bool,
    /// Where the pods come from.
    pub pods: Pods,
    /// The way to the API server.
    pub kubernetes: Credentials,
    /// The way to the kubelet.
    pub kubelet: Kubelet,
    /// Where their usage comes from.
    pub usage: Usage,
    /// How one leaves.
    pub evict: Evict,
    /// What is done about pods that should not be here.
    pub admission: Admission,
    /// Which node conditions are set.
    pub conditions: Conditions,
    /// What a soft threshold does where the polite way is refused.
    pub soft_tier_fallback: SoftTierFallback,
    /// What stays of pods that were evicted.
    pub evicted_pods: Retention,
    /// Cgroups that pods live in.
    pub cgroup_roots: Vec<CgroupPath>,
    /// Priorities by name, for manifests that name a class only.
    pub priority_classes: BTreeMap<String, i32>,
    /// Pods that are never chosen.
    pub protect: Protect,
    /// Evictions in a row that may fail to help; 0: any number.
    pub futile_evictions: u32,
    /// Whether pods go that cannot lift the signal together.
    pub evict_without_relief: bool,
    /// Whether pods that nobody lists may be chosen.
    pub unknown_pods: UnknownPods,
    /// The longest back-off of owners whose pods come back; zero: none.
    pub returning_owner_back_off: SignedDuration,
    /// Where pods without figures rank.
    pub unknown_stats: UnknownStats,
    /// What ranks first when process ids run out.
    pub pid_rank: PidRank,
    /// Whether memory may be low by itself while there is swap.
    pub memory_and_swap: MemoryAndSwap,
    /// Whether pods that would come straight back go after their equals.
    pub returning_pods_last: bool,
    /// Who may ask for a place in the ranking.
    pub pod_preference: PodPreference,
    /// The metrics endpoint.
    pub metrics: Metrics,
    /// The endpoint of probes alone.
    pub probes: Probes,
    /// Our socket.
    pub socket: PathBuf,
    /// Where decisions are kept.
    pub state_directory: PathBuf,
    /// Where the pods last known are kept.
    pub runtime_directory: PathBuf,
    /// Where the kernel's files are.
    pub roots: Roots,
    /// Where the filesystems are.
    pub filesystems: Filesystems,
    /// By key; a map's entries each on their own, `evictionHard.memory.available`.
    pub(super) origins: BTreeMap<String, Origin>,
}

/// `pods`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pods {
    /// Where from.
    pub source: PodsSource,
    /// The directory of manifests.
    pub manifests: PathBuf,
    /// The kubelet's own directory of manifests; pods from there are never chosen.
    pub static_pod_path: Option<PathBuf>,
}

/// `kubelet`
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kubelet {
    /// How it is asked.
    pub access: KubeletSettings,
    /// Its directory: each pod has one in `pods` there.
    pub root_dir: PathBuf,
}

/// `usage`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Usage {
    /// Where from.
    pub source: UsageSource,
}

/// `evict`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Evict {
    /// How.
    pub method: EvictMethod,
    /// When the API server is told.
    pub tell: Tell,
}

/// `conditions`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conditions {
    /// Which.
    pub types: ConditionTypes,
}

/// `podPreference`
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PodPreference {
    /// Namespaces whose pods are heard.
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
    /// The directory with the cgroup hierarchies.
    pub cgroup: PathBuf,
}

/// `filesystems`; `None`: found by itself.
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
    /// Every setting at nothing: the defaults, which the keys' table holds, come on top of it.
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
            usage: Usage {
                source: UsageSource::Auto,
            },
            evict: Evict {
                method: EvictMethod::Auto,
                tell: Tell::Together,
            },
            admission: Admission::Off,
            conditions: Conditions {
                types: ConditionTypes::Own,
            },
            soft_tier_fallback: SoftTierFallback::Wait,
            evicted_pods: Retention::default(),
            cgroup_roots: Vec::new(),
            priority_classes: BTreeMap::new(),
            protect: Protect::default(),
            futile_evictions: 0,
            evict_without_relief: false,
            unknown_pods: UnknownPods::Spare,
            returning_owner_back_off: SignedDuration::ZERO,
            unknown_stats: UnknownStats::Last,
            pid_rank: PidRank::FairShare,
            memory_and_swap: MemoryAndSwap::Either,
            returning_pods_last: false,
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

    /// Where the setting at this key came from; `None` where it was neither written nor defaulted.
    pub fn origin(&self, key: &str) -> Option<&Origin> {
        self.origins.get(key)
    }

    /// What the maps say; a kubelet's file knows a kubelet's signals only.
    pub(super) fn parse_maps(&self) -> Result<ParsedThresholds, Vec<ThresholdError>> {
        self.maps.parse_by_map(self.kind == Kind::Evictd)
    }

    /// The thresholds, with those that follow from them (S1-012).
    pub fn thresholds(&self) -> Vec<Threshold> {
        if self.enforce_node_allocatable.contains(&Enforcement::Pods) {
            threshold::with_allocatable(&self.configured_thresholds)
        } else {
            self.configured_thresholds.clone()
        }
    }

    /// The rules that the pure core goes by.
    pub fn rules(&self) -> Rules {
        let (rules, max_pod_grace_period) = match self.kind {
            Kind::Evictd => (
                Rules::evictd(),
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
            memory_and_swap: self.memory_and_swap,
            returning_pods_last: self.returning_pods_last,
            pod_preference_namespaces: self.pod_preference.namespaces.clone(),
            protect: self.protect.clone(),
            futility: rules
                .futility
                .filter(|_| self.futile_evictions > 0)
                .map(|futility| Futility {
                    evictions: self.futile_evictions,
                    ..futility
                }),
            requires_relief: rules.requires_relief && !self.evict_without_relief,
            longest_owner_backoff: Some(self.returning_owner_back_off)
                .filter(SignedDuration::is_positive),
            ..rules
        }
    }

    /// Settings whose word is known but whose code comes in a later version: the key, and what there is.
    pub fn not_built(&self) -> Vec<(&'static str, String)> {
        const LATER: &str = "cri";
        let told = |known: &[&str]| {
            let built: Vec<&str> = known
                .iter()
                .copied()
                .filter(|word| *word != LATER)
                .collect();
            let built = built.join(", ");
            format!("{LATER} is not built yet in this version; there is {built}")
        };
        let chosen = [
            (
                "pods.source",
                self.pods.source == PodsSource::Cri,
                word::known::<PodsSource>(),
            ),
            (
                "usage.source",
                self.usage.source == UsageSource::Cri,
                word::known::<UsageSource>(),
            ),
            (
                "evict.method",
                self.evict.method == EvictMethod::Cri,
                word::known::<EvictMethod>(),
            ),
        ];
        let later = chosen.into_iter().filter(|(_, later, _)| *later);
        later.map(|(key, _, known)| (key, told(known))).collect()
    }
}
