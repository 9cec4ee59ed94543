//! A decision with its whole evidence; logs, events, history, metrics and `explain` are views of this value.

use crate::{Observation, Owner, Signal, StarvedResource, Threshold};
use evictd_pod::{Critical, QosClass, Quantity};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

/// What brought an eviction about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Cause {
    /// A threshold without grace period.
    Hard,
    /// A threshold whose grace period has passed.
    Soft,
    /// A limit of the pod itself on local storage.
    LocalStorage,
}

impl Cause {
    /// The word used in metrics and the journal.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::LocalStorage => "localStorage",
        }
    }
}

/// One limit of a pod on local storage, under the name that metrics give it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub enum LocalStorageLimit {
    /// S1-069
    #[serde(rename = "emptydirfs.limit")]
    EmptyDir,
    /// S1-070
    #[serde(rename = "ephemeralpodfs.limit")]
    Pod,
    /// S1-071
    #[serde(rename = "ephemeralcontainerfs.limit")]
    Container,
}

impl LocalStorageLimit {
    /// The pseudo-signal's name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::EmptyDir => "emptydirfs.limit",
            Self::Pod => "ephemeralpodfs.limit",
            Self::Container => "ephemeralcontainerfs.limit",
        }
    }
}

/// Why a pod is never chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Spared {
    /// Critical (S1-045).
    Critical(Critical),
    /// In a protected namespace, or matched by a protecting selector.
    Protected,
    /// Its own `evictd.dev/eviction: never`.
    Never,
    /// It was chosen before and is on its way out.
    Dying,
    /// The shell could not end it now.
    Unreachable(Unreachable),
}

/// Why the shell could not end a pod now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Unreachable {
    /// It has no cgroup of its own that may be touched.
    NoCgroup,
    /// Its disruption budget does not let it go; for soft thresholds only.
    Budget,
    /// To end it has failed a moment ago.
    Failed,
}

/// Usage against request, as the ranking compares them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Excess {
    /// Nothing is known; the kubelet puts it first.
    UnknownFirst,
    /// Uses more than it asked for (for process ids: more than an even share).
    Exceeds,
    /// Uses no more than that.
    Within,
    /// Nothing is known; ours puts it last.
    UnknownLast,
}

impl Excess {
    /// As the API shows it: unknown is absent.
    pub const fn as_option(self) -> Option<bool> {
        match self {
            Self::Exceeds => Some(true),
            Self::Within => Some(false),
            Self::UnknownFirst | Self::UnknownLast => None,
        }
    }
}

/// What the pod asked of us by annotation, where its namespace may.
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize,
)]
#[serde(rename_all = "camelCase")]
pub enum Preference {
    /// Goes before its equals.
    Prefer,
    /// Said nothing.
    #[default]
    None,
    /// Goes after its equals.
    Avoid,
}

/// One pod's place in the ranking with every key that put it there.
#[derive(Debug, Clone)]
pub struct RankedPod {
    /// Index into the pods that were ranked.
    pub index: usize,
    /// `namespace/name`.
    pub pod: Arc<str>,
    /// Before all keys: it was deleted, its kubelet has not ended it in its time, and it runs on.
    pub overdue: bool,
    /// First key.
    pub excess: Excess,
    /// Second key.
    pub preference: Preference,
    /// Third key: lower goes first.
    pub priority: i32,
    /// Fourth key: a controller would start it right here again.
    pub returns: bool,
    /// Fifth key: it is ending anyway.
    pub terminating: bool,
    /// Sixth key: what it uses above its request; `None` where unknown.
    pub overage: Option<Quantity>,
    /// What it uses of the starved resource; of memory, what it has in swap included where that counts.
    pub usage: Option<Quantity>,
    /// What of its usage is in swap.
    pub swap: Quantity,
    /// What it asked for (for process ids: the even share).
    pub request: Quantity,
    /// Why it is passed over, if it is.
    pub spared: Option<Spared>,
    /// QoS class, for the reader only (S1-063).
    pub qos: QosClass,
}

/// A threshold at work.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ActingThreshold {
    /// As configured.
    #[serde(flatten)]
    pub threshold: Threshold,
    /// Its value at the observed capacity.
    pub quantity: Quantity,
    /// What was left.
    pub observed: Observation,
    /// Since when it is met without a break.
    pub first_observed_at: Timestamp,
}

/// The pod that goes, and in which words.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Eviction {
    /// Index into the pods that were handed in.
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

/// An owner, and which of its pods this one is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OwnerCount {
    /// The owner.
    #[serde(flatten)]
    pub owner: Owner,
    /// How many of its pods were evicted here lately, with this one.
    pub evictions: u32,
}

/// Who holds what of a signal, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shares {
    /// What is missing to the threshold, minimum reclaim left out.
    pub short: Quantity,
    /// What all pods hold.
    pub pods: Quantity,
    /// What those of them hold that may go.
    pub may_go: Quantity,
    /// What is on its way back from those who go already.
    pub on_the_way: Quantity,
    /// What is taken and no pod holds: the host's own programs, the kernel, pods that nobody lists.
    pub in_no_pod: Quantity,
    /// All that there is.
    pub capacity: Quantity,
}

/// Why nobody goes although a threshold acts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", tag = "because")]
pub enum Withheld {
    /// There are no pods (S1-042).
    NoPods,
    /// Every pod is critical or protected (S1-045).
    AllSpared,
    /// What dying pods still hold will be enough.
    DyingPodsRelease {
        /// `namespace/name` of each.
        pods: Vec<String>,
        /// What they hold.
        release: Quantity,
    },
    /// Devices are under pressure, and no pod is known to read or write.
    NoIo,
    /// The last evictions gained too little to go on.
    Futile {
        /// How many in a row.
        evictions: u32,
    },
    /// All that may go together cannot lift the signal to its threshold.
    NoRelief {
        /// Who holds what is short.
        #[serde(flatten)]
        shares: Shares,
    },
    /// Disk evictions are off; says why.
    DiskEvictionsOff {
        /// The reason.
        reason: Cow<'static, str>,
    },
}

/// What was decided in one cycle, and everything it was decided on.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// When.
    pub time: Timestamp,
    /// Hard, soft or a limit of the pod itself.
    pub kind: Cause,
    /// The acting signal or local-storage limit.
    pub signal: &'static str,
    /// What is starved.
    pub resource: StarvedResource,
    /// The acting threshold; absent for a local-storage limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub threshold: Option<ActingThreshold>,
    /// Who goes; absent where somebody should but nobody may.
    #[serde(flatten)]
    pub eviction: Option<Eviction>,
    /// The unique id of who goes; a pod of the same name with another id is another pod.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Who would make it again, where such owners are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub owner: Option<OwnerCount>,
    /// Why nobody goes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub withheld: Option<Withheld>,
    /// Every pod in ranked order.
    #[serde(rename = "ranking", skip_serializing_if = "Vec::is_empty")]
    pub ranked: Vec<RankedPod>,
    /// The first pod after the victim that could have gone.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// What the eviction should give back, where it is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expected_gain: Option<Quantity>,
    /// Who holds what is short; absent for pressures, which are no sums.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shares: Option<Shares>,
    /// One sentence: why this pod and not the next.
    pub why: String,
}

impl RankedPod {
    /// What of this signal its end gives back; nobody knows for a pressure.
    pub fn gives_back(&self, signal: Signal) -> Option<Quantity> {
        let usage = self.usage?;
        match signal {
            Signal::MemoryPsi | Signal::IoPsi => None,
            Signal::SwapAvailable => Some(self.swap),
            _ => Some(usage - self.swap),
        }
    }
}

impl Decision {
    /// The signal as a type; `None` for a local-storage limit.
    pub fn acting_signal(&self) -> Option<Signal> {
        self.threshold
            .as_ref()
            .map(|acting| acting.threshold.signal)
    }
}
