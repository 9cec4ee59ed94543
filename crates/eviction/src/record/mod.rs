//! The record of a decision: what it was decided on, what became of it, and what the cluster is still to be told.
//!
//! Log, history, events, metrics, the status page and the command line are views of it. As JSON it is a line of the
//! history. Of a line that another version wrote only what is needed to finish the decision must be there; what is not
//! known is passed over, and evidence in other words is left out.

mod annotation;
mod outcome;
mod publication;
mod row;
#[cfg(test)]
mod tests;

pub use annotation::{ANNOTATION, Mark, brief, mark, record, time, told_again};
pub use outcome::{Ended, Method, Outcome, Survivor};
pub use publication::{Notice, Publication, Way};
pub use row::RankingRow;

use crate::{
    Cause, Decision, NodeCondition, Signal, StarvedResource,
    decision::{ActingThreshold, OwnerCount, Shares, Withheld},
};
use evictd_pod::Quantity;
use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, de::DeserializeOwned};
use serde_json::Value;
use std::{borrow::Cow, collections::BTreeMap};

/// What a pod has to leave for, or is kept out for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A threshold without grace period.
    Hard,
    /// A threshold whose grace period has passed.
    Soft,
    /// A limit of the pod itself on local storage.
    LocalStorage,
    /// It was not let in.
    Admission,
    /// A critical pod needs its place.
    Preemption,
}

impl Kind {
    /// The word in the journal and in the history.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
            Self::LocalStorage => "localStorage",
            Self::Admission => "admission",
            Self::Preemption => "preemption",
        }
    }

    /// What brought the eviction about; `None` where it is none.
    pub const fn cause(self) -> Option<Cause> {
        match self {
            Self::Hard => Some(Cause::Hard),
            Self::Soft => Some(Cause::Soft),
            Self::LocalStorage => Some(Cause::LocalStorage),
            Self::Admission | Self::Preemption => None,
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

/// A pause that held when something was decided.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Paused {
    /// Since when.
    pub since: Timestamp,
    /// Until when; `None` until it is taken back.
    #[serde(default)]
    pub until: Option<Timestamp>,
    /// Why, where somebody said so.
    #[serde(default)]
    pub reason: String,
    /// Who paused: `command` or `annotation`.
    #[serde(default)]
    pub by: Cow<'static, str>,
}

/// One decision: an eviction, a rejection or a preemption, or that nobody may go.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Record {
    /// Names the decision.
    pub id: String,
    /// When it was made.
    pub time: Timestamp,
    /// What for.
    pub kind: Kind,
    /// The acting signal or local-storage limit; of a rejection the conditions, of a preemption the resource.
    #[serde(default)]
    pub signal: Cow<'static, str>,
    /// What is starved.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub resource: Option<StarvedResource>,
    /// The acting threshold.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub threshold: Option<ActingThreshold>,
    /// `namespace/name` of who goes; absent where nobody does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<String>,
    /// The unique id of who goes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// Seconds between SIGTERM and SIGKILL.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<i64>,
    /// Status reason.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<Cow<'static, str>>,
    /// Status and event message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Annotations of the event.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<Cow<'static, str>, String>,
    /// Whether the pod gets the `DisruptionTarget` condition; absent where nothing was short.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disruption_target: Option<bool>,
    /// For whom it leaves, `namespace/name`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub preemptor: Option<String>,
    /// Who would make it again, where such owners are counted.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub owner: Option<OwnerCount>,
    /// Why nobody goes.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub withheld: Option<Withheld>,
    /// Every pod in ranked order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<RankingRow>,
    /// The first pod after the victim that could have gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub runner_up: Option<String>,
    /// What the eviction should give back, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_gain: Option<Quantity>,
    /// Who holds what is short; absent where that is no sum.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub shares: Option<Shares>,
    /// One sentence: why this pod and not the next.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// Whether nothing follows from it.
    #[serde(default)]
    pub dry_run: bool,
    /// Why nothing does, where that is a pause.
    #[serde(
        default,
        deserialize_with = "known",
        skip_serializing_if = "Option::is_none"
    )]
    pub paused: Option<Paused>,
    /// Why the loop looked when it decided.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub woken_by: Option<Cow<'static, str>>,
    /// The kernel's name for the time since the machine was started; empty where it has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// What became of it; absent while that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<Outcome>,
    /// What the cluster is told of it; absent where nobody tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub publication: Option<Publication>,
}

/// For `deserialize_with`: `None` where another version has other words for it.
pub fn known<'de, D: Deserializer<'de>, T: DeserializeOwned>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    Ok(T::deserialize(value).ok())
}

impl Record {
    /// The length that a message keeps in [`Record::brief`], in bytes.
    const BRIEF: usize = 512;

    /// A decision on nobody yet, of which nothing has become.
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
            ranking: Vec::new(),
            runner_up: None,
            expected_gain: None,
            shares: None,
            why: None,
            dry_run: false,
            paused: None,
            woken_by: None,
            boot_id: None,
            outcome: None,
            publication: None,
        }
    }

    /// With the whole evidence of this decision.
    pub fn of_decision(id: String, decision: &Decision) -> Self {
        let mut record = Self {
            resource: Some(decision.resource),
            threshold: decision.threshold.clone(),
            uid: decision.uid.clone(),
            owner: decision.owner.clone(),
            withheld: decision.withheld.clone(),
            ranking: decision.ranked.iter().map(RankingRow::of).collect(),
            runner_up: decision.runner_up.clone(),
            expected_gain: decision.expected_gain,
            shares: decision.shares,
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

    /// The acting signal; `None` for a limit of the pod itself, a rejection and a preemption.
    pub fn acting_signal(&self) -> Option<Signal> {
        Signal::parse(&self.signal)
    }

    /// The condition that whoever went for this signal went for.
    pub fn condition(&self) -> Option<NodeCondition> {
        self.acting_signal()?.condition()
    }

    /// Whether a pod leaves by it, or is kept out.
    pub fn is_departure(&self) -> bool {
        self.uid.is_some() && !self.dry_run
    }

    /// Whether somebody was chosen because something was short.
    pub fn is_eviction(&self) -> bool {
        self.uid.is_some() && self.kind.cause().is_some()
    }

    /// Whether not everything is known of a pod that leaves: whoever starts next takes it up.
    pub fn is_open(&self) -> bool {
        self.is_departure() && (self.is_waiting() || self.outcome.is_none())
    }

    /// Whether nobody knows yet whether the cluster was told.
    pub fn is_waiting(&self) -> bool {
        matches!(self.publication, Some(Publication::Waiting { .. }))
    }

    /// Whether it is known what became of telling the cluster.
    pub fn is_told(&self) -> bool {
        self.publication.is_some() && !self.is_waiting()
    }

    /// It is known what became of the pod.
    pub fn conclude(&mut self, outcome: Outcome) {
        self.outcome = Some(outcome);
    }

    /// This is known of telling the cluster.
    pub fn published(&mut self, publication: Publication) {
        self.publication = Some(publication);
    }

    /// Takes over what another record of the same decision knows and this one does not. What is known of a decision only
    /// grows, so that nobody has to know which of the two is the later.
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

    /// Everything but the ranking, which is by far the longest part and not needed to finish the decision.
    #[must_use]
    pub fn essential(mut self) -> Self {
        self.ranking.clear();
        self
    }

    /// What is needed to finish the decision, in a bounded length however long a tenant's words are.
    #[must_use]
    pub fn brief(self) -> Self {
        let mut record = self.essential();
        record.annotations.clear();
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
