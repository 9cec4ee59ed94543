//! What was decided about a pod that is new here: views of it are the log, the history, events, metrics and the status page.

use crate::delivery::Notice;
use evictd_eviction::{
    NodeCondition,
    departures::{Departure, Purpose, Telling},
    record::{self, Kind, Outcome, Record},
};
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::{path::PathBuf, time::Duration};

/// What was decided about a new pod that is not simply let in, or about one that leaves for it.
#[derive(Debug, Clone)]
pub struct AdmissionDecision {
    /// Names it.
    pub id: String,
    /// When.
    pub time: Timestamp,
    /// The pod.
    pub pod: Pod,
    /// What is done.
    pub act: AdmissionAction,
    /// Why, in the one word that the pod's status shows (S1-088, S2-017, S2-022).
    pub reason: String,
    /// The same in a sentence.
    pub message: String,
    /// Who goes for it, `namespace/name`, in kill order.
    pub preempt: Vec<String>,
    /// The conditions that it was refused for.
    pub(crate) conditions: Vec<NodeCondition>,
    /// UIDs of those who go for it.
    pub(crate) victims: Vec<String>,
    /// The first resource of which there is too little (S2-020); empty where there is enough.
    pub(crate) lacks: String,
    /// Between SIGTERM and SIGKILL.
    pub(crate) grace: Duration,
    /// What the API server is told.
    pub(crate) notice: Option<Notice>,
    /// Whether processes of the pod are being ended.
    pub(crate) ends: bool,
    /// The kernel's name for the time since the machine was started.
    pub(crate) boot_id: String,
}

/// What is done about a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AdmissionAction {
    /// Nothing; it is only said.
    Report,
    /// It is not let in.
    Reject,
    /// It is let in, and others go for it.
    Preempt,
    /// It leaves for a critical one.
    Leave {
        /// `namespace/name` of the critical one.
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

    /// What brought it about: the first resource of which there is too little, else the conditions that hold.
    pub fn signal(&self) -> String {
        if self.conditions.is_empty() {
            return self.lacks.clone();
        }
        let conditions = self.conditions.iter().map(|held| held.as_str());
        conditions.collect::<Vec<_>>().join(",")
    }

    /// The pod on its way out; `cgroup` where it has one.
    pub(crate) fn departure(&self, purpose: Purpose, cgroup: Option<PathBuf>) -> Departure {
        let pod = &self.pod;
        let name = (self.id.clone(), pod.full_name(), pod.uid.clone());
        let grace = SignedDuration::try_from(self.grace).unwrap_or(SignedDuration::MAX);
        let mut departure = Departure::new(name, purpose, self.time, grace);
        departure.cgroup = cgroup;
        if self.notice.is_some() {
            departure.telling = Telling::Owed;
        }
        departure
    }

    /// As it is kept, where a pod has to leave or is kept out.
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
