//! The record of a decision: its evidence, its outcome, and its pending publication to the cluster.
//!
//! Log, history, events, metrics, the status page and the command line are views of it. As JSON it is one line of
//! the history. In a line written by another version only the fields that are needed to finish the decision must be
//! present; unknown fields are ignored, and evidence that cannot be parsed is left out.

mod annotation;
mod contents;
mod hook;
mod outcome;
mod publication;
mod row;
#[cfg(test)]
mod tests;

pub use annotation::{ANNOTATION, Mark, brief, mark, record, repeated, time};
pub use contents::{Contents, Holder, MemoryKinds};
pub use hook::{Hook, HookOutcome};
pub use outcome::{Ended, Method, Outcome, Survivor};
pub use publication::{Notice, Publication, Way};
pub use row::RankingRow;

use crate::{
    ActingThreshold, Cause, Decision, OwnerCount, PassedOver, Shares, UsagePart, Withheld,
};
use evictd_pod::Quantity;
use evictd_reclaim::Reclaimed;
use evictd_signals::{NodeCondition, Signal, StarvedResource};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

/// Why a pod has to leave or is not admitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A threshold without a grace period.
    Hard,
    /// A threshold after its grace period.
    Soft,
    /// A local storage limit of the pod itself.
    LocalStorage,
    /// The pod was not admitted.
    Admission,
    /// A critical pod needs its resources.
    Preemption,
    /// Dead containers and unused images were removed, and no pod.
    Reclaim,
}

impl Kind {
    /// The word for this kind in the journal and in the history.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::LocalStorage => "localStorage",
            Self::Admission => "admission",
            Self::Preemption => "preemption",
            Self::Reclaim => "reclaim",
        }
    }

    /// The cause of the eviction; `None` for a rejection, a preemption or a reclaim.
    pub const fn cause(self) -> Option<Cause> {
        match self {
            Self::Hard => Some(Cause::Hard),
            Self::Soft => Some(Cause::Soft),
            Self::LocalStorage => Some(Cause::LocalStorage),
            Self::Admission | Self::Preemption | Self::Reclaim => None,
        }
    }
}

impl From<Cause> for Kind {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Hard => Self::Hard,
            Cause::Soft => Self::Soft,
            Cause::LocalStorage => Self::LocalStorage,
        }
    }
}

/// A pause that was in force at the time of a decision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// When the pause began.
    pub since: Timestamp,
    /// Until when; `None` for a pause without an end.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// The reason that was given, if any.
    #[serde(default)]
    pub reason: String,
    /// Who paused: `command` or `annotation`.
    #[serde(default)]
    pub by: Cow<'static, str>,
}

/// One decision: to evict, reject or preempt a pod, or that no pod may be evicted; or one reclaim.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Id of the decision.
    pub id: String,
    /// When it was made.
    pub time: Timestamp,
    /// Whether it is an eviction, a rejection or a preemption, and for an eviction its cause.
    pub kind: Kind,
    /// The acting signal or local storage limit; for a rejection the conditions, for a preemption the resource.
    #[serde(default)]
    pub signal: Cow<'static, str>,
    /// The resource that the signal measures.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub resource: Option<StarvedResource>,
    /// The threshold that acted, with the figures at that time; absent for a local storage limit.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub threshold: Option<ActingThreshold>,
    /// `namespace/name` of the victim; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// UID of the victim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Seconds between SIGTERM and SIGKILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// The word that became `status.reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// Status and event message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Annotations of the event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<Cow<'static, str>, String>,
    /// Whether the pod gets the `DisruptionTarget` condition; absent for a rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption_target: Option<bool>,
    /// `namespace/name` of the critical pod that the victim is preempted for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptor: Option<String>,
    /// The victim's owner, where the rules count the evictions of owners.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub owner: Option<OwnerCount>,
    /// Why no pod is evicted.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub withheld: Option<Withheld>,
    /// The pod that holds most, if it is never evicted; for a limit of a pod, the pod that exceeds it.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub passed_over: Option<PassedOver>,
    /// Every pod in ranked order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<RankingRow>,
    /// The first pod after the victim that could have been evicted instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// The amount that the eviction should free, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_gain: Option<Quantity>,
    /// The users of the resource; absent for pressure signals, which are not sums of the pods' usage.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub shares: Option<Shares>,
    /// The largest parts of the victim's usage: containers for memory; layers, logs and volumes for disks. At most ten.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<UsagePart>,
    /// The result of a reclaim; absent for every other kind.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub reclaimed: Option<Reclaimed>,
    /// One sentence: why this pod and not the next one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether the decision is not carried out (dry run or pause).
    #[serde(default)]
    pub dry_run: bool,
    /// The pause that keeps it from being carried out; absent for a dry run.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub paused: Option<Paused>,
    /// The event that woke the main loop for the cycle of this decision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<Cow<'static, str>>,
    /// The kernel's boot id; empty where the kernel has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// Outcome for the pod; absent while it is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// Whether the cluster is informed; absent where nothing has to be published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<Publication>,
}

/// For `deserialize_with`: `None` for a value that only another version knows.
pub fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}

impl Record {
    /// The length that a message keeps in [`Record::brief`], in bytes.
    const BRIEF: usize = 512;

    /// A decision about no pod yet, without an outcome.
    pub fn new(
        id: String,
        time: Timestamp,
        kind: Kind,
        signal: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            id,
            time,
            kind,
            signal: signal.into(),
            resource: None,
            threshold: None,
            pod: None,
            uid: None,
            grace_period_seconds: None,
            reason: None,
            message: None,
            annotations: BTreeMap::new(),
            disruption_target: None,
            preemptor: None,
            owner: None,
            withheld: None,
            passed_over: None,
            ranking: Vec::new(),
            runner_up: None,
            expected_gain: None,
            shares: None,
            parts: Vec::new(),
            reclaimed: None,
            why: None,
            dry_run: false,
            paused: None,
            woken_by: None,
            boot_id: None,
            outcome: None,
            publication: None,
        }
    }

    /// A record of a reclaim that is over.
    pub fn of_reclaim(id: String, time: Timestamp, signal: Signal, reclaimed: Reclaimed) -> Self {
        Self {
            resource: Some(signal.resource()),
            message: Some(reclaimed.sentence()),
            dry_run: !reclaimed.would_remove.is_empty(),
            reclaimed: Some(reclaimed),
            ..Self::new(id, time, Kind::Reclaim, signal.as_str())
        }
    }

    /// A record with all the evidence of this decision.
    pub fn of_decision(id: String, decision: &Decision) -> Self {
        let mut record = Self {
            resource: Some(decision.resource),
            threshold: decision.threshold.clone(),
            // The UID of a record is that of a pod that leaves.
            uid: decision.uid.clone().filter(|_| decision.eviction.is_some()),
            owner: decision.owner.clone(),
            withheld: decision.withheld.clone(),
            passed_over: decision.passed_over.clone(),
            ranking: decision.ranked.iter().map(RankingRow::of).collect(),
            runner_up: decision.runner_up.clone(),
            expected_gain: decision.expected_gain,
            shares: decision.shares,
            parts: decision.parts.clone(),
            why: Some(decision.why.clone()),
            ..Self::new(id, decision.time, decision.kind.into(), decision.signal)
        };
        if let Some(eviction) = &decision.eviction {
            let annotations = eviction.annotations.iter();
            record.pod = Some(eviction.pod.clone());
            record.grace_period_seconds = Some(eviction.grace_period_seconds);
            record.reason = Some(eviction.reason.into());
            record.message = Some(eviction.message.clone());
            record.annotations = annotations
                .map(|(name, value)| ((*name).into(), value.clone()))
                .collect();
            record.disruption_target = Some(eviction.disruption_target);
        }
        record
    }

    /// The acting signal; `None` for a local storage limit, a rejection and a preemption.
    pub fn acting_signal(&self) -> Option<Signal> {
        Signal::parse(&self.signal)
    }

    /// The node condition of the acting signal.
    pub fn condition(&self) -> Option<NodeCondition> {
        self.acting_signal()?.condition()
    }

    /// Whether the decision makes a pod leave or keeps it from being admitted.
    pub fn is_departure(&self) -> bool {
        self.uid.is_some() && !self.dry_run
    }

    /// Whether a pod was chosen because a resource was short.
    pub fn is_eviction(&self) -> bool {
        self.uid.is_some() && self.kind.cause().is_some()
    }

    /// Whether the decision is not finished: the outcome or the publication is not known. The next run of the
    /// daemon takes it up.
    pub fn is_open(&self) -> bool {
        self.is_departure() && (self.is_waiting() || self.outcome.is_none())
    }

    /// Whether the cluster still has to be informed.
    pub(crate) fn is_waiting(&self) -> bool {
        matches!(self.publication, Some(Publication::Waiting { .. }))
    }

    /// Whether the publication is finished, successfully or not.
    pub fn is_told(&self) -> bool {
        self.publication.is_some() && !self.is_waiting()
    }

    /// Sets the outcome for the pod.
    pub fn conclude(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// Sets the state of the publication.
    pub fn published(&mut self, publication: Publication) {
        self.publication = Some(publication);
    }

    /// Adds the parts that another record of the same decision has and this one lacks. Knowledge of a decision only
    /// grows, so it does not matter which record is the later one.
    pub fn absorb(&mut self, other: Self) {
        if self.ranking.is_empty() {
            self.ranking = other.ranking;
        }
        if self.outcome.is_none() {
            self.outcome = other.outcome;
        }
        if !self.is_told() && other.publication.is_some() {
            self.publication = other.publication;
        }
    }

    /// A copy without the ranking, which is by far the longest part and is not needed to finish the decision.
    #[must_use]
    pub fn essential(mut self) -> Self {
        self.ranking.clear();
        self
    }

    /// A copy with only the parts that are needed to finish the decision. Its length is bounded, however long a
    /// tenant's texts are.
    #[must_use]
    pub fn brief(self) -> Self {
        let mut record = self.essential();
        record.annotations.clear();
        record.parts.clear();
        record.why = None;
        if let Some(message) = &mut record.message {
            shorten(message, Self::BRIEF);
        }
        if let Some(Outcome::Failed { error }) = &mut record.outcome {
            shorten(error, Self::BRIEF);
        }
        if let Some(Publication::Waiting {
            notice: Some(notice),
        }) = &mut record.publication
        {
            shorten(&mut notice.message, Self::BRIEF);
            if let Some(message) = &mut notice.disruption_target {
                shorten(message, Self::BRIEF);
            }
            let (kind, reason) = (record.kind.as_str(), &notice.reason);
            notice.record = brief(&notice.id, notice.time, kind, reason, &notice.message);
        }
        record
    }
}

fn shorten(text: &mut String, most: usize) {
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most));
        text.push_str("...");
    }
}
