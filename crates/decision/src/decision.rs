//! The evidence of a decision.

mod passed_over;

pub use passed_over::PassedOver;

use crate::Owner;
use evictd_pod::{Critical, QosClass, Quantity, requests::ResizeState};
use evictd_signals::{Observation, Signal, StarvedResource, Threshold};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// The cause of an eviction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// A threshold without a grace period.
    Hard,
    /// A threshold after its grace period.
    Soft,
    /// A local storage limit of the pod itself.
    LocalStorage,
}

impl Cause {
    /// The word for this cause in metrics and in the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::LocalStorage => "localStorage",
        }
    }
}

/// A kind of local storage limit of a pod, under the name that metrics use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum LocalStorageLimit {
    /// Limit of an `emptyDir` volume (S1-069).
    #[serde(rename = "emptydirfs.limit")]
    EmptyDir,
    /// Limit of the whole pod (S1-070).
    #[serde(rename = "ephemeralpodfs.limit")]
    Pod,
    /// Limit of one container (S1-071).
    #[serde(rename = "ephemeralcontainerfs.limit")]
    Container,
}

impl LocalStorageLimit {
    /// The name under which metrics and the history show this limit, in place of a signal's.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EmptyDir => "emptydirfs.limit",
            Self::Pod => "ephemeralpodfs.limit",
            Self::Container => "ephemeralcontainerfs.limit",
        }
    }
}

/// Why the ranking passes over a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Spared {
    /// Critical (S1-045).
    Critical(Critical),
    /// In a protected namespace, or matched by a protecting selector.
    Protected,
    /// Its annotation `evictd.dev/eviction: never`.
    Never,
    /// It was chosen before and is terminating.
    Dying,
    /// The daemon cannot terminate it at present.
    Unreachable(Unreachable),
}

/// Why the daemon cannot terminate a pod at present.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unreachable {
    /// The pod has no cgroup of its own that the daemon may write to.
    NoCgroup,
    /// A PodDisruptionBudget does not allow its eviction; only soft thresholds respect budgets.
    Budget,
    /// A termination of this pod failed a moment ago.
    Failed,
}

/// Usage compared with request, the first key of the ranking.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Excess {
    /// Usage is not known; the kubelet ranks such a pod first.
    UnknownFirst,
    /// Usage is above the request (for process ids: above an even share).
    Exceeds,
    /// Usage is not above the request.
    Within,
    /// Usage is not known; evictd's rules rank such a pod after those of known usage.
    UnknownLast,
    /// Its end gives nothing back for the signal.
    NoGain,
}

impl Excess {
    /// As the API shows it: `None` where usage is not known.
    pub const fn as_option(self) -> Option<bool> {
        match self {
            Self::Exceeds => Some(true),
            Self::Within | Self::NoGain => Some(false),
            Self::UnknownFirst | Self::UnknownLast => None,
        }
    }
}

/// The preference in the pod's annotation, if its namespace may use the annotation.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Preference {
    /// Evict before equals.
    Prefer,
    /// No annotation.
    #[default]
    None,
    /// Evict after equals.
    Avoid,
}

/// Why the request that decided is not the one in the pod's spec.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RequestNote {
    /// The pod waits for a resize in place, for which the node has not reserved the amount.
    Resize {
        /// How far it has come.
        state: ResizeState,
        /// The request that the spec asks for.
        desired: Quantity,
    },
    /// The kubelet counts none of this amount, which the scheduler has reserved (S1-068).
    Uncounted(Quantity),
}

/// One pod's place in the ranking, with every key that decided it.
#[derive(Debug, Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a key of the ranking or a fact of its own"
)]
pub struct RankedPod {
    /// Index into the pods that were ranked.
    pub index: usize,
    /// `namespace/name`.
    pub pod: Arc<str>,
    /// Sorts before all other keys: the pod was deleted, its kubelet has not ended it within its grace period, and
    /// it still runs.
    pub overdue: bool,
    /// First key: usage above request.
    pub excess: Excess,
    /// Second key: the preference in the pod's annotation.
    pub preference: Preference,
    /// Third key: the pod's priority; lower is evicted first.
    pub priority: i32,
    /// Fourth key: its controller would start it on this node again.
    pub returns: bool,
    /// Fifth key: it is terminating already.
    pub terminating: bool,
    /// Sixth key: usage above request; `None` where usage is not known.
    pub overage: Option<Quantity>,
    /// Seventh key: how fast it fills disks, in bytes per second; `None` where that is not known or does not count.
    pub growth: Option<i64>,
    /// Its usage of the starved resource. For memory this includes swap if the rules count swap.
    pub usage: Option<Quantity>,
    /// The amount of the signal that its end frees. `None` where that is unknown, and for pressure signals, whose gain
    /// cannot be predicted.
    pub gain: Option<Quantity>,
    /// Whether its usage is larger than `usage`, because counting was cut short.
    pub at_least: bool,
    /// Whether a part of it is not known yet, such as the writable layer of a container that has just begun.
    pub partly_unknown: bool,
    /// The part of `usage` that is in swap.
    pub swap: Quantity,
    /// The pod's request (for process ids: the even share).
    pub request: Quantity,
    /// Why that is not the request in its spec, if it is not.
    pub request_note: Option<Box<RequestNote>>,
    /// Why the ranking passes over this pod, if it does.
    pub spared: Option<Spared>,
    /// QoS class. It is shown only; the ranking does not use it (S1-063).
    pub qos: QosClass,
}

/// A threshold that is met, with the figures at the time of the decision.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActingThreshold {
    /// As configured.
    #[serde(flatten)]
    pub threshold: Threshold,
    /// Its value at the observed capacity.
    pub quantity: Quantity,
    /// The available amount and the capacity.
    pub observed: Observation,
    /// Since when the threshold is met without interruption.
    pub first_observed_at: Timestamp,
}

/// The victim, and the texts that its status and event get.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// Index into the slice of pods that was ranked.
    #[serde(skip)]
    pub index: usize,
    /// `namespace/name`.
    pub pod: String,
    /// Seconds between SIGTERM and SIGKILL (S1-047, S1-048).
    pub grace_period_seconds: i64,
    /// Status reason, always `Evicted` (S1-051).
    pub reason: &'static str,
    /// Status and event message (S1-054 to S1-056).
    pub message: String,
    /// Annotations of the event (S1-057).
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<&'static str, String>,
    /// Whether the pod gets the `DisruptionTarget` condition (S1-053).
    pub disruption_target: bool,
}

/// A part of a victim's usage of the starved resource.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UsagePart {
    /// A container, writable layer, log or volume, in words.
    pub name: String,
    /// How much it held.
    pub usage: Quantity,
    /// Where most of that was, if the part was walked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub directory: Option<PartDirectory>,
}

/// The deepest directory that holds more than half of a part.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PartDirectory {
    /// Relative to the part, at most 80 characters. The pod chooses it.
    pub path: String,
    /// How much it held, with all that was below it.
    pub usage: Quantity,
}

/// A victim's owner, with the number of its recent evictions.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerCount {
    /// The controller whose pod the victim is.
    #[serde(flatten)]
    pub owner: Owner,
    /// How many of the owner's pods were evicted on this node recently, including this one.
    pub evictions: u32,
}

/// Who uses the resource of a signal, as far as known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shares {
    /// The resource, which gives the amounts their unit. Records of earlier versions lack it.
    #[serde(default)]
    pub resource: StarvedResource,
    /// How far the signal is below its target: the threshold with the minimum reclaim. Below the threshold, the target
    /// is the threshold alone if the evictable pods cannot free more.
    pub short: Quantity,
    /// The usage of all pods.
    pub pods: Quantity,
    /// The part used by pods that may be evicted.
    pub may_go: Quantity,
    /// How many of those have an unknown usage, which is no part of the amounts.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub unknown: usize,
    /// The usage of pods that are terminating already, which will be freed.
    pub on_the_way: Quantity,
    /// Used, but by no known pod: programs of the host, the kernel, pods that are not listed.
    pub in_no_pod: Quantity,
    /// The capacity of the signal.
    pub capacity: Quantity,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature of serde")]
const fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// A usage that grows and cannot be evicted.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct UnevictableGrowth {
    /// The pod that grows most, `namespace/name`; `None` if that is in no pod: programs of the host.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// Why that pod may not be evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub because: Option<String>,
    /// By how much all that may not be evicted grows in a second.
    pub per_second: Quantity,
    /// How many seconds the relief has to last.
    pub seconds: i64,
}

/// Why no pod is evicted although a threshold is met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "because")]
#[allow(
    clippy::large_enum_variant,
    reason = "a cycle makes at most one, and it is not kept"
)]
pub enum Withheld {
    /// There are no pods (S1-042).
    NoPods,
    /// Every pod is critical or protected (S1-045).
    AllSpared,
    /// Terminating pods will free enough.
    DyingPodsRelease {
        /// `namespace/name` of each.
        pods: Vec<String>,
        /// The sum that they still use.
        release: Quantity,
        /// The unit of that sum. Records of earlier versions lack it.
        #[serde(default)]
        resource: StarvedResource,
    },
    /// Devices are under pressure, but no pod is known to read or write.
    NoIo,
    /// The last evictions for this signal freed too little.
    Futile {
        /// How many in a row.
        evictions: u32,
    },
    /// Even evicting all eligible pods would not lift the signal to its target, or not for long.
    NoRelief {
        /// Who uses the resource.
        #[serde(flatten)]
        shares: Shares,
        /// The growth that would soon take all that evictions free.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        growth: Option<UnevictableGrowth>,
    },
    /// Only these pods wait, each at a limit of its own: no other pod is the worse for it.
    OwnLimits {
        /// `namespace/name` of each, the one that waits most first. Empty: programs beside the pods.
        pods: Vec<String>,
    },
    /// No pod waits because the node lacks memory: most of it is available.
    MemoryLeft {
        /// The available bytes.
        available: Quantity,
        /// All there is, in bytes.
        capacity: Quantity,
    },
    /// The kernel reports the pressure of no pod: it is not known which of them causes that of the node.
    OwnPressureUnknown,
    /// No pod that may be evicted holds a noticeable part of the node's memory.
    HoldsTooLittle {
        /// The smallest gain in bytes that would be noticeable.
        least: Quantity,
    },
    /// Evictions for disk signals are switched off.
    DiskEvictionsOff {
        /// Why they are switched off.
        reason: Cow<'static, str>,
    },
    /// The filesystem is read-only: whatever ends, nothing on it is removed.
    ReadOnlyFilesystem,
}

/// The result of one cycle with all the evidence it is based on.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When the decision was made.
    pub time: Timestamp,
    /// Hard, soft or a limit of the pod itself.
    pub kind: Cause,
    /// The acting signal or local-storage limit.
    pub signal: &'static str,
    /// The resource that the signal measures.
    pub resource: StarvedResource,
    /// The acting threshold; absent for a local-storage limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<ActingThreshold>,
    /// The victim; absent where a pod should be evicted but none may be.
    #[serde(flatten)]
    pub eviction: Option<Eviction>,
    /// UID of the victim. A later pod of the same name has another UID.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// The victim's owner, where the rules count the evictions of owners.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerCount>,
    /// Why no pod is evicted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Every pod in ranked order.
    #[serde(rename = "ranking", skip_serializing_if = "Vec::is_empty")]
    pub ranked: Vec<RankedPod>,
    /// The pod that holds most, if it is never evicted; for a limit of a pod, the pod that exceeds it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub passed_over: Option<PassedOver>,
    /// The first pod after the victim that could have been evicted instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// The amount that the eviction should free, where known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_gain: Option<Quantity>,
    /// The users of the resource; absent for pressure signals, which are not sums of the pods' usage.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// The largest parts of the victim's usage, as far as they are known.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<UsagePart>,
    /// One sentence: why this pod and not the next one.
    pub why: String,
}

impl Decision {
    /// Of a decision that evicts no pod: the signal, that its threshold acts, and why. For a limit of a pod: only why.
    pub fn no_eviction(&self) -> String {
        if self.kind == Cause::LocalStorage {
            return self.why.clone();
        }
        let acting = self.threshold.as_ref();
        let held = acting.and_then(|acting| acting.threshold.held_until(&acting.observed));
        let acts = match held {
            Some(_) => "is held by its minimum reclaim",
            None => "has crossed its threshold",
        };
        format!("{} {acts} and no pod is evicted: {}", self.signal, self.why)
    }

    /// Of a decision that evicts a pod: the pod, by how much the signal is past its threshold, and why this pod. Figures
    /// are rounded for people; the message of the pod's status has the kubelet's notation. `None` if no pod is evicted.
    pub fn eviction_in_words(&self) -> Option<String> {
        let (pod, why) = (&self.eviction.as_ref()?.pod, &self.why);
        let acting = self.threshold.as_ref();
        let crossed = acting.and_then(ActingThreshold::crossed_words);
        Some(match crossed {
            Some(crossed) => format!("{pod}: {crossed}; {why}"),
            None => format!("{pod}: {why}"),
        })
    }

    /// The signal as a type; `None` for a local-storage limit.
    pub fn acting_signal(&self) -> Option<Signal> {
        self.threshold
            .as_ref()
            .map(|acting| acting.threshold.signal)
    }
}
