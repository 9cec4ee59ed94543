//! The decision on a new pod. Log, history, events, metrics and the status page are views of it.

use crate::delivery::Notice;
use evictd_decision::record::{self, Kind, Outcome, Record};
use evictd_departures::{Departure, NoticeState, Purpose};
use evictd_pod::Pod;
use evictd_signals::NodeCondition;
use jiff::{SignedDuration, Timestamp};
use std::{path::PathBuf, time::Duration};

/// The decision on a new pod that is not simply admitted, or on a pod that is preempted for it.
#[derive(Debug, Clone)]
pub struct AdmissionDecision {
    /// Id of the decision.
    pub id: String,
    /// When it was made.
    pub time: Timestamp,
    /// The pod that was checked, or that is preempted.
    pub pod: Pod,
    /// The action on the pod.
    pub act: AdmissionAction,
    /// The reason in the pod's status (S1-088, S2-017, S2-022).
    pub reason: String,
    /// The message in the pod's status.
    pub message: String,
    /// The pods to preempt, `namespace/name`, in kill order.
    pub preempt: Vec<String>,
    /// The conditions because of which it was refused.
    pub(crate) conditions: Vec<NodeCondition>,
    /// UIDs of the pods to preempt.
    pub(crate) victims: Vec<String>,
    /// The first resource that is short (S2-020); empty if none is.
    pub(crate) lacks: String,
    /// Grace period between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
    /// The notice to the API server.
    pub(crate) notice: Option<Notice>,
    /// Whether processes of the pod are terminated.
    pub(crate) ends: bool,
    /// The kernel's boot id.
    pub(crate) boot_id: String,
}

/// The action on a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionAction {
    /// It is admitted and only reported.
    Report,
    /// It is rejected, and its processes are terminated.
    Reject,
    /// It is admitted, and other pods are preempted.
    Preempt,
    /// It is preempted for a critical pod.
    Leave {
        /// `namespace/name` of the critical pod.
        preemptor: String,
    },
}

impl AdmissionAction {
    /// The word in metrics.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Report => "report",
            Self::Reject => "reject",
            Self::Preempt => "preempt",
            Self::Leave { .. } => "leave",
        }
    }
}

impl AdmissionDecision {
    /// The word in the journal and in the history.
    pub const fn kind(&self) -> Kind {
        match self.act {
            AdmissionAction::Leave { .. } => Kind::Preemption,
            AdmissionAction::Report | AdmissionAction::Reject | AdmissionAction::Preempt => {
                Kind::Admission
            }
        }
    }

    /// The cause: the first resource that is short, else the conditions that hold.
    pub fn signal(&self) -> String {
        if self.conditions.is_empty() {
            return self.lacks.clone();
        }
        let conditions = self.conditions.iter().map(|held| held.as_str());
        conditions.collect::<Vec<_>>().join(",")
    }

    /// The departure of the pod; `cgroup` if it has one.
    pub(crate) fn departure(&self, purpose: Purpose, cgroup: Option<PathBuf>) -> Departure {
        let pod = &self.pod;
        let name = (self.id.clone(), pod.full_name(), pod.uid.clone());
        let grace = SignedDuration::try_from(self.grace).unwrap_or(SignedDuration::MAX);
        let mut departure = Departure::new(name, purpose, self.time, grace);
        departure.cgroup = cgroup;
        if self.notice.is_some() {
            departure.notice_state = NoticeState::Pending;
        }
        departure
    }

    /// The record for the history, if the pod leaves or is rejected.
    pub fn record(&self) -> Option<Record> {
        let preemptor = match &self.act {
            AdmissionAction::Report | AdmissionAction::Preempt => return None,
            AdmissionAction::Reject => None,
            AdmissionAction::Leave { preemptor } => Some(preemptor.clone()),
        };
        let notice = self.notice.clone();
        Some(Record {
            pod: Some(self.pod.full_name()),
            uid: Some(self.pod.uid.clone()),
            grace_period_seconds: Some(i64::try_from(self.grace.as_secs()).unwrap_or(i64::MAX)),
            reason: Some(self.reason.clone().into()),
            message: Some(self.message.clone()),
            preemptor,
            boot_id: Some(self.boot_id.clone()),
            outcome: (!self.ends).then(Outcome::not_started),
            publication: notice.map(record::Publication::waiting),
            ..Record::new(self.id.clone(), self.time, self.kind(), self.signal())
        })
    }
}
