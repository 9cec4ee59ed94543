//! The rules that a housekeeper follows: exactly the kubelet's, or evictd's, which differ where the kubelet's harm
//! users.

use crate::returning::Backoff;
use evictd_decision::{Preference, Spared};
use evictd_pod::{Pod, Quantity, pod::CRITICAL_PRIORITY, selector::Operator, wire::TextMap};
use evictd_signals::{Observations, Signal, SignalMap, Threshold};
use evictd_usage::Summary;
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap};

/// Annotation by which a pod asks to be evicted early, late or never.
pub const PREFERENCE_ANNOTATION: &str = "evictd.dev/eviction";

/// Which of the node's directories share a filesystem (S1-025).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilesystemLayout {
    /// Images are on another filesystem than the kubelet's root directory.
    pub dedicated_image_fs: bool,
    /// Writable layers are on another filesystem than the images.
    pub split_container_fs: bool,
}

/// The signals on whose filesystems the container runtime keeps its files, as it reports. Only there their removal
/// frees anything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuntimeFiles {
    /// Images.
    pub images: SignalMap<bool>,
    /// Writable layers of containers.
    pub layers: SignalMap<bool>,
}

/// Where a pod of unknown usage is placed in the ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownStats {
    /// The kubelet's way: before all others.
    First,
    /// After all others, because it is not known whether its eviction would help.
    Last,
}

/// How figures of usage are read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figures {
    /// The kubelet's way: a missing figure is zero (S1-060), and a request in bytes is subtracted from a count of inodes
    /// (S1-062). A hostPath counts as far as the summary has an entry for it (S1-067).
    Kubelet,
    /// A missing figure is unknown, units do not mix, and only the amount that the pod's end frees counts.
    Evictd,
}

/// The first kubelet that enforces limits of sidecars on local storage (S7-282).
const LIMITS_SIDECARS_SINCE: (u32, u32) = (1, 37);

/// Usage that counts for limits of pods and containers on local storage, beside the usage that the kubelet of 1.36
/// counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageLimits {
    /// Whether init containers that run on beside the others have limits (S7-282).
    pub sidecars: bool,
    /// Whether the writable layer always counts for its container's limit. The kubelet leaves it out where images have a filesystem of their own (S1-071).
    pub layers: bool,
    /// Whether the kubelet's files of the containers count for the pod's limit: a container fills its termination log.
    pub kubelet_files: bool,
}

impl StorageLimits {
    /// All that any rules count.
    pub const ALL: Self = Self {
        sidecars: true,
        layers: true,
        kubelet_files: true,
    };
}

/// The key that the ranking compares first when process ids are short.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PidRank {
    /// The kubelet's way: low priority first, then many processes (S1-061).
    Kubelet,
    /// Pods above an even share of the node's process ids first, then as the kubelet.
    FairShare,
}

/// The requests of memory and node-local disk that count for a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PodRequests {
    /// The kubelet's way: the containers of a pod with resources at pod level do not count at all (S1-068).
    Kubelet,
    /// The amount that the scheduler has reserved on the node: a value at pod level replaces those of the containers
    /// for its own resource only (S4-041).
    Reserved,
}

/// Whether thresholds on memory and on swap act separately.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryAndSwap {
    /// Each threshold acts on its own.
    Either,
    /// The hard thresholds on memory and on swap act only if both are met, and likewise the soft ones. Without swap
    /// the thresholds on memory act alone.
    Both,
}

/// Pods named by namespace or label. An empty selection has no pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodSelection {
    /// Namespaces whose pods are all selected.
    pub namespaces: Vec<String>,
    /// Label selectors; a pod that matches any of them is selected.
    pub selectors: Vec<LabelSelector>,
}

/// A v1 `LabelSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// The labels that a pod must have, all of them.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// The requirements that a pod must meet, all of them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One requirement on labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRequirement {
    /// Key of the label that is compared.
    pub key: String,
    /// How the label is compared with the values.
    pub operator: Operator,
    /// The values, for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Whether these labels match; an empty selector matches everything.
    pub fn matches(&self, labels: &TextMap) -> bool {
        let all_labels = self
            .match_labels
            .iter()
            .all(|(key, value)| labels.get(key) == Some(value));
        all_labels
            && self
                .match_expressions
                .iter()
                .all(|demand| demand.matches(labels))
    }
}

impl LabelRequirement {
    fn matches(&self, labels: &TextMap) -> bool {
        self.operator.admits(&self.values, labels.get(&self.key))
    }
}

impl PodSelection {
    /// Whether this pod is selected.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.namespaces.contains(&pod.namespace)
            || self
                .selectors
                .iter()
                .any(|selector| selector.matches(&pod.labels))
    }
}

/// When to stop evicting for a signal because evictions do not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Futility {
    /// Stop for a signal after this many consecutive evictions that gained too little.
    pub evictions: u32,
    /// Start again after this time, or when the available amount has changed.
    pub pause: SignedDuration,
}

#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one documented switch"
)]
/// Everything that decisions depend on, except the observations.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Thresholds as configured, allocatable ones included, generated ones not.
    pub thresholds: Vec<Threshold>,
    /// How long a condition lasts after its cause is over (S1-031).
    pub pressure_transition_period: SignedDuration,
    /// Keep a condition at least while it is observed, even if that period is zero; the kubelet clears it at once.
    pub condition_holds_while_met: bool,
    /// Whether limits of emptyDirs, pods and containers on local storage are enforced (S1-073).
    pub local_storage_capacity_isolation: bool,
    /// Which of the node's directories share a filesystem (S1-025).
    pub layout: FilesystemLayout,
    /// Where the runtime keeps its files; `None` if it has not reported that: then the layout decides.
    pub runtime_files: Option<RuntimeFiles>,
    /// An eviction waits for a node-level reclaim only if that frees enough, and in time; the kubelet always waits.
    pub waits_for_enough_only: bool,
    /// No pod is evicted for a filesystem that is read-only, because nothing on it can be removed; the kubelet evicts
    /// one after the other.
    pub spares_pods_of_read_only: bool,
    /// Generated containerfs thresholds wait for the second cycle (S1-014).
    pub generated_thresholds_wait: bool,
    /// Grace period in seconds for a hard threshold or a local storage limit (S1-047).
    pub hard_grace_period_seconds: i64,
    /// The longest grace period in seconds for a soft threshold; `None` means the pod's own grace period (S1-048).
    pub max_pod_grace_period_seconds: Option<i64>,
    /// How figures of usage are read.
    pub figures: Figures,
    /// Where pods of unknown usage rank.
    pub unknown_stats: UnknownStats,
    /// The first key of the ranking when process ids are short.
    pub pid_rank: PidRank,
    /// Which requests of a pod count.
    pub pod_requests: PodRequests,
    /// Whether thresholds on memory and on swap act separately.
    pub memory_and_swap: MemoryAndSwap,
    /// Add a pod's swap to its memory usage when memory is short; the kubelet does not.
    pub swap_counts: bool,
    /// Handle hard thresholds before soft ones whatever their signal, and I/O after all others; the kubelet handles
    /// memory first, then hard before soft (S1-035).
    pub hard_thresholds_first: bool,
    /// Rank a pod that its controller would start on this node again after its equals.
    pub returning_pods_last: bool,
    /// For the bytes of a disk, rank the pod that writes fastest before its equals.
    pub fastest_writer_first: bool,
    /// Rank a pod that is terminating already before its equals.
    pub terminating_pods_first: bool,
    /// Namespaces whose pods may ask for `evictd.dev/eviction: prefer|avoid|never`.
    pub pod_preference_namespaces: Vec<String>,
    /// Pods that are never chosen.
    pub protect: PodSelection,
    /// Static pods that may be evicted like others, unless their priority is critical; the kubelet evicts none (S1-046).
    pub evictable_static_pods: PodSelection,
    /// When to stop evictions that do not help; `None` means never, as the kubelet.
    pub futility: Option<Futility>,
    /// The longest time that a condition is held because pods of one owner come back and are evicted again; `None`
    /// means that it is not held for this reason, as the kubelet.
    pub longest_owner_backoff: Option<SignedDuration>,
    /// Count the remaining usage of terminating pods as nearly free.
    pub credit_terminating_pods: bool,
    /// Evict only if evicting all eligible pods would lift the signal to its target, and if that lasts.
    pub requires_relief: bool,
    /// Pass over pods whose end gains less than a hundredth of the missing amount, while others can lift the signal.
    pub small_gains_last: bool,
    /// For a pressure signal, evict a pod that alone waits, at a limit of its own.
    pub evict_at_own_limit: bool,
    /// A kubelet manages the pods, and restarts containers that end without its doing.
    pub kubelet_is_here: bool,
    /// Count a sample as new only if it was taken after the last pod was chosen; the kubelet only demands that it
    /// is newer than the previous one (S1-033).
    pub samples_follow_actions: bool,
    /// Say in the message of an eviction which amounts the decision compared: the pod's usage with its largest parts.
    /// The kubelet names only containers (S1-055).
    pub messages_name_what_counted: bool,
    /// Enforce limits on local storage of init containers that run on beside the others. Kubelets do from 1.37 on (S7-282).
    pub limits_sidecars: bool,
    /// A signal with a capacity of 0 counts as observed, as in the kubelet.
    pub zero_capacity_counts: bool,
    /// Why no pod may be evicted for a disk signal with a node-level reclaim, if nothing on this node can do that
    /// reclaim.
    pub withhold_disk_evictions: Option<Cow<'static, str>>,
}

impl Rules {
    /// Exactly the kubelet's rules, without thresholds.
    pub fn kubelet() -> Self {
        Self {
            thresholds: Vec::new(),
            pressure_transition_period: SignedDuration::ZERO,
            condition_holds_while_met: false,
            local_storage_capacity_isolation: false,
            layout: FilesystemLayout::default(),
            runtime_files: None,
            waits_for_enough_only: false,
            spares_pods_of_read_only: false,
            generated_thresholds_wait: true,
            hard_grace_period_seconds: 1,
            max_pod_grace_period_seconds: Some(0),
            figures: Figures::Kubelet,
            unknown_stats: UnknownStats::First,
            pid_rank: PidRank::Kubelet,
            pod_requests: PodRequests::Kubelet,
            memory_and_swap: MemoryAndSwap::Either,
            swap_counts: false,
            hard_thresholds_first: false,
            returning_pods_last: false,
            fastest_writer_first: false,
            terminating_pods_first: false,
            pod_preference_namespaces: Vec::new(),
            protect: PodSelection::default(),
            evictable_static_pods: PodSelection::default(),
            futility: None,
            longest_owner_backoff: None,
            credit_terminating_pods: false,
            requires_relief: false,
            small_gains_last: false,
            evict_at_own_limit: false,
            kubelet_is_here: false,
            samples_follow_actions: false,
            messages_name_what_counted: false,
            limits_sidecars: false,
            zero_capacity_counts: true,
            withhold_disk_evictions: None,
        }
    }

    /// evictd's rules, without thresholds.
    pub fn evictd() -> Self {
        Self {
            pressure_transition_period: SignedDuration::from_mins(5),
            condition_holds_while_met: true,
            local_storage_capacity_isolation: true,
            waits_for_enough_only: true,
            spares_pods_of_read_only: true,
            generated_thresholds_wait: false,
            hard_grace_period_seconds: 0,
            max_pod_grace_period_seconds: None,
            figures: Figures::Evictd,
            unknown_stats: UnknownStats::Last,
            pid_rank: PidRank::FairShare,
            pod_requests: PodRequests::Reserved,
            swap_counts: true,
            hard_thresholds_first: true,
            returning_pods_last: true,
            terminating_pods_first: true,
            futility: Some(Futility {
                evictions: 3,
                pause: SignedDuration::from_mins(5),
            }),
            longest_owner_backoff: Some(SignedDuration::from_hours(1)),
            credit_terminating_pods: true,
            requires_relief: true,
            small_gains_last: true,
            samples_follow_actions: true,
            messages_name_what_counted: true,
            limits_sidecars: true,
            zero_capacity_counts: false,
            ..Self::kubelet()
        }
    }

    /// Follows the kubelet of this version, major and minor.
    pub fn follow_kubelet(&mut self, version: (u32, u32)) {
        self.limits_sidecars |= version >= LIMITS_SIDECARS_SINCE;
    }

    /// Usage that counts for limits on local storage.
    pub fn storage_limits(&self) -> StorageLimits {
        match self.figures {
            Figures::Evictd => StorageLimits::ALL,
            Figures::Kubelet => StorageLimits {
                sidecars: self.limits_sidecars,
                layers: !self.layout.dedicated_image_fs,
                kubelet_files: false,
            },
        }
    }

    /// Seconds between SIGTERM and SIGKILL for this pod (S1-047, S1-048); under the kubelet's rules the result can
    /// be negative.
    pub fn grace_period_seconds(&self, pod: &Pod, hard: bool) -> i64 {
        let requested = pod.termination_grace_period_seconds;
        match self.max_pod_grace_period_seconds {
            _ if hard => self.hard_grace_period_seconds,
            Some(most) => requested.map_or(most, |requested| requested.min(most)),
            None => own_grace_period_seconds(pod),
        }
    }

    /// The signals that count as observed.
    pub fn observed(&self, summary: &Summary) -> Observations {
        let all = summary.observations();
        if self.zero_capacity_counts {
            all
        } else {
            all.measured()
        }
    }

    /// The pod's request of a resource, by which its usage is judged.
    pub fn request(&self, pod: &Pod, resource: &str) -> Quantity {
        match self.pod_requests {
            PodRequests::Kubelet => pod.request(resource),
            PodRequests::Reserved => pod.reserved(resource),
        }
    }

    /// Whether writable layers are on the filesystem of this signal, by the layout and the runtime's own word.
    pub fn layers_are_on(&self, signal: Signal) -> bool {
        use Signal::{ImagefsAvailable, ImagefsInodesFree, NodefsAvailable, NodefsInodesFree};
        let layout = self.layout;
        let by_layout = match signal {
            NodefsAvailable | NodefsInodesFree => {
                !layout.dedicated_image_fs || layout.split_container_fs
            }
            ImagefsAvailable | ImagefsInodesFree => !layout.split_container_fs,
            _ => true,
        };
        let files = self.runtime_files.as_ref();
        by_layout && files.is_none_or(|files| files.layers[signal])
    }

    /// The back-off for owners whose pods come back, if there is one.
    pub fn owner_backoff(&self) -> Option<Backoff> {
        let period = self.pressure_transition_period;
        let longest = self.longest_owner_backoff?;
        Some(Backoff { period, longest })
    }

    /// Why this pod is never chosen; `None` if it may be (S1-045).
    pub fn spares(&self, pod: &Pod) -> Option<Spared> {
        let critical = pod.critical.filter(|_| !self.may_evict_static(pod));
        if let Some(critical) = critical {
            Some(Spared::Critical(critical))
        } else if self.protect.covers(pod) {
            Some(Spared::Protected)
        } else {
            self.preference(pod).is_none().then_some(Spared::Never)
        }
    }

    /// Whether this is a static pod, or the mirror of one, that may be evicted like others.
    fn may_evict_static(&self, pod: &Pod) -> bool {
        pod.is_from_file()
            && pod.priority() < CRITICAL_PRIORITY
            && self.evictable_static_pods.covers(pod)
    }

    /// The pod's preference by [`PREFERENCE_ANNOTATION`], if its namespace may use it; `None` stands for `never`.
    pub(crate) fn preference(&self, pod: &Pod) -> Option<Preference> {
        if !self.pod_preference_namespaces.contains(&pod.namespace) {
            return Some(Preference::None);
        }
        let asked = pod.annotations.get(PREFERENCE_ANNOTATION);
        match asked {
            Some("prefer") => Some(Preference::Prefer),
            Some("avoid") => Some(Preference::Avoid),
            Some("never") => None,
            _ => Some(Preference::None),
        }
    }
}

/// The grace period that the pod itself asks for, in seconds (S2-016).
pub fn own_grace_period_seconds(pod: &Pod) -> i64 {
    let requested = pod.termination_grace_period_seconds;
    requested.map_or(DEFAULT_GRACE_PERIOD_SECONDS, |requested| requested.max(0))
}

/// The grace period that the API server sets for a pod without one, in seconds.
pub const DEFAULT_GRACE_PERIOD_SECONDS: i64 = evictd_pod::defaults::GRACE_PERIOD_SECONDS;
