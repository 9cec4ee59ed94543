//! The rules a housekeeper follows: the kubelet's to the letter, or ours where the kubelet's hurt its users.

use crate::{
    Threshold,
    decision::{Preference, Spared},
    returning::Backoff,
};
use evictd_pod::{Pod, selector::Operator};
use jiff::SignedDuration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Annotation by which a pod asks to go early, late or never.
pub const PREFERENCE_ANNOTATION: &str = "evictd.dev/eviction";

/// Which of the node's filesystems are one (S1-025).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct FilesystemLayout {
    /// Images are on another filesystem than the kubelet's root directory.
    pub dedicated_image_fs: bool,
    /// Writable layers are on another filesystem than the images.
    pub split_container_fs: bool,
}

/// Where a pod of which nothing is known stands in the ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum UnknownStats {
    /// The kubelet's way: it goes before all others.
    First,
    /// It goes after all others, since nobody knows that it would help.
    Last,
}

/// What ranks first when process ids run out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum PidRank {
    /// The kubelet's way: low priority first, then many processes (S1-061).
    Kubelet,
    /// Pods above an even share of the node's ids first, then as the kubelet.
    FairShare,
}

/// Whether memory and swap count each on its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum MemoryAndSwap {
    /// Each threshold acts by itself.
    Either,
    /// A hard threshold on memory and the hard one on swap act only together, and so do the soft ones; memory acts alone
    /// where there is no swap.
    Both,
}

/// Namespaces and labels of pods that are never chosen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Protect {
    /// Namespaces.
    pub namespaces: Vec<String>,
    /// Label selectors; one match protects.
    pub selectors: Vec<LabelSelector>,
}

/// A v1 `LabelSelector`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelSelector {
    /// Every one of these labels.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub match_labels: BTreeMap<String, String>,
    /// And every one of these demands.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub match_expressions: Vec<LabelRequirement>,
}

/// One demand on labels.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// How it compares.
    pub operator: Operator,
    /// With what, for `In` and `NotIn`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<String>,
}

impl LabelSelector {
    /// Whether these labels match; an empty selector matches everything.
    pub fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
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
    fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.operator.admits(&self.values, labels.get(&self.key))
    }
}

impl Protect {
    /// Whether this pod is never chosen.
    pub fn covers(&self, pod: &Pod) -> bool {
        self.namespaces.contains(&pod.namespace)
            || self
                .selectors
                .iter()
                .any(|selector| selector.matches(&pod.labels))
    }
}

/// What stops a row of evictions that do not help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Futility {
    /// After this many evictions in a row that gained too little, stop for that signal.
    pub evictions: u32,
    /// And start again after this long, or when what is available has moved.
    pub pause: SignedDuration,
}

#[allow(
    clippy::struct_excessive_bools,
    reason = "each is one documented switch"
)]
/// Everything that decides, but for the observations themselves.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Thresholds as configured, allocatable ones included, generated ones not.
    pub thresholds: Vec<Threshold>,
    /// How long a condition outlives its cause (S1-031).
    pub pressure_transition_period: SignedDuration,
    /// A condition observed right now holds even where that period is zero; the kubelet drops it at once.
    pub condition_holds_while_met: bool,
    /// Whether limits of emptyDirs, pods and containers on local storage are enforced (S1-073).
    pub local_storage_capacity_isolation: bool,
    /// Filesystem layout (S1-025).
    pub layout: FilesystemLayout,
    /// Generated containerfs thresholds wait for the second cycle (S1-014).
    pub generated_thresholds_wait: bool,
    /// Seconds that a pod gets under a hard threshold or a local-storage limit (S1-047).
    pub hard_grace_period_seconds: i64,
    /// The most seconds that a pod gets under a soft threshold; `None`: as many as it asks for itself (S1-048).
    pub max_pod_grace_period_seconds: Option<i64>,
    /// Where pods without figures rank.
    pub unknown_stats: UnknownStats,
    /// What ranks first when process ids run out.
    pub pid_rank: PidRank,
    /// Whether memory may be low by itself while there is swap.
    pub memory_and_swap: MemoryAndSwap,
    /// Where memory is short, what a pod has in swap counts like what it has in memory; not to the kubelet.
    pub swap_counts: bool,
    /// Hard thresholds come before soft ones whatever they are on, and those on I/O after all others; the kubelet has memory
    /// first, then hard before soft (S1-035).
    pub hard_thresholds_first: bool,
    /// A pod that its controller would start right here again goes after its equals.
    pub returning_pods_last: bool,
    /// A pod that is ending anyway goes before its equals.
    pub terminating_pods_first: bool,
    /// Namespaces whose pods may ask for `evictd.dev/eviction: prefer|avoid|never`.
    pub pod_preference_namespaces: Vec<String>,
    /// Pods that are never chosen.
    pub protect: Protect,
    /// When to give up; `None`: never, as the kubelet.
    pub futility: Option<Futility>,
    /// The longest that a condition is held where pods of one owner come back and are evicted again; `None`: never longer
    /// than else, as the kubelet.
    pub longest_owner_backoff: Option<SignedDuration>,
    /// What a dying pod still holds counts as nearly free.
    pub credit_dying_pods: bool,
    /// Nobody goes unless those who may go can lift the signal to its threshold.
    pub requires_relief: bool,
    /// A kubelet looks after the pods, and starts again what ends without its knowing.
    pub kubelet_is_here: bool,
    /// A sample counts as new only when it was taken after the last pod was chosen; the kubelet asks only that it
    /// is newer than the one before (S1-033).
    pub samples_follow_actions: bool,
    /// Why no pod may go for a disk signal that has a node-level reclaim, where nothing can do that reclaim.
    pub withhold_disk_evictions: Option<&'static str>,
}

impl Rules {
    /// The kubelet's rules and nothing else, without thresholds.
    pub fn kubelet() -> Self {
        Self {
            thresholds: Vec::new(),
            pressure_transition_period: SignedDuration::ZERO,
            condition_holds_while_met: false,
            local_storage_capacity_isolation: false,
            layout: FilesystemLayout::default(),
            generated_thresholds_wait: true,
            hard_grace_period_seconds: 1,
            max_pod_grace_period_seconds: Some(0),
            unknown_stats: UnknownStats::First,
            pid_rank: PidRank::Kubelet,
            memory_and_swap: MemoryAndSwap::Either,
            swap_counts: false,
            hard_thresholds_first: false,
            returning_pods_last: false,
            terminating_pods_first: false,
            pod_preference_namespaces: Vec::new(),
            protect: Protect::default(),
            futility: None,
            longest_owner_backoff: None,
            credit_dying_pods: false,
            requires_relief: false,
            kubelet_is_here: false,
            samples_follow_actions: false,
            withhold_disk_evictions: None,
        }
    }

    /// Our rules, without thresholds.
    pub fn evictd() -> Self {
        Self {
            pressure_transition_period: SignedDuration::from_mins(5),
            condition_holds_while_met: true,
            local_storage_capacity_isolation: true,
            generated_thresholds_wait: false,
            hard_grace_period_seconds: 0,
            max_pod_grace_period_seconds: None,
            unknown_stats: UnknownStats::Last,
            pid_rank: PidRank::FairShare,
            swap_counts: true,
            hard_thresholds_first: true,
            returning_pods_last: true,
            terminating_pods_first: true,
            futility: Some(Futility {
                evictions: 3,
                pause: SignedDuration::from_mins(5),
            }),
            longest_owner_backoff: Some(SignedDuration::from_hours(1)),
            credit_dying_pods: true,
            requires_relief: true,
            samples_follow_actions: true,
            ..Self::kubelet()
        }
    }

    /// Seconds between SIGTERM and SIGKILL for this pod (S1-047, S1-048); the kubelet's can be negative.
    pub fn grace_period_seconds(&self, pod: &Pod, hard: bool) -> i64 {
        let own = pod.termination_grace_period_seconds;
        match self.max_pod_grace_period_seconds {
            _ if hard => self.hard_grace_period_seconds,
            Some(most) => own.map_or(most, |own| own.min(most)),
            None => own_grace_period_seconds(pod),
        }
    }

    /// What owners whose pods come back are met with, if with anything.
    pub fn owner_backoff(&self) -> Option<Backoff> {
        let period = self.pressure_transition_period;
        let longest = self.longest_owner_backoff?;
        Some(Backoff { period, longest })
    }

    /// Why this pod is never chosen, if so (S1-045).
    pub fn spares(&self, pod: &Pod) -> Option<Spared> {
        if let Some(critical) = pod.critical {
            Some(Spared::Critical(critical))
        } else if self.protect.covers(pod) {
            Some(Spared::Protected)
        } else {
            self.preference(pod).is_none().then_some(Spared::Never)
        }
    }

    /// What the pod asks for by [`PREFERENCE_ANNOTATION`], where its namespace may ask; `None` is never.
    pub(crate) fn preference(&self, pod: &Pod) -> Option<Preference> {
        if !self.pod_preference_namespaces.contains(&pod.namespace) {
            return Some(Preference::None);
        }
        let asked = pod.annotations.get(PREFERENCE_ANNOTATION);
        match asked.map(String::as_str) {
            Some("prefer") => Some(Preference::Prefer),
            Some("avoid") => Some(Preference::Avoid),
            Some("never") => None,
            _ => Some(Preference::None),
        }
    }
}

/// The grace that a pod asks for itself (S2-016).
pub fn own_grace_period_seconds(pod: &Pod) -> i64 {
    let own = pod.termination_grace_period_seconds;
    own.map_or(DEFAULT_GRACE_PERIOD_SECONDS, |own| own.max(0))
}

/// What the API server fills in for a pod that does not say.
pub const DEFAULT_GRACE_PERIOD_SECONDS: i64 = 30;
