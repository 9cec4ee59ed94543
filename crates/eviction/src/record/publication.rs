//! What the cluster is told of a decision, and what became of telling it.

use super::annotation;
use crate::{Decision, Eviction};
use evictd_pod::Pod;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// What became of telling the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state")]
pub enum Publication {
    /// Nobody knows yet.
    #[serde(rename = "waiting")]
    Waiting {
        /// What is owed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<Box<Notice>>,
    },
    /// The pod's status says it.
    #[serde(rename = "published")]
    Published,
    /// There is no such pod any more: nobody is left to be told.
    #[serde(rename = "recorded")]
    Recorded {
        /// Why not.
        #[serde(default)]
        why: String,
    },
    /// It will not be said.
    #[serde(rename = "not published")]
    NotPublished {
        /// Why not.
        #[serde(default)]
        why: String,
    },
    /// Something that another version knows.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl Publication {
    /// This is owed.
    pub fn waiting(notice: Notice) -> Self {
        Self::Waiting {
            notice: Some(Box::new(notice)),
        }
    }

    /// The word in the history.
    pub const fn state(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Published => "published",
            Self::Recorded { .. } => "recorded",
            Self::NotPublished { .. } => "not published",
            Self::Unknown => "unknown",
        }
    }

    /// Why the pod's status does not say it.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Recorded { why } | Self::NotPublished { why } => Some(why),
            Self::Waiting { .. } | Self::Published | Self::Unknown => None,
        }
    }
}

/// That one pod had to leave, or is not let in: what becomes its status. The history keeps it until it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Id of the decision.
    pub id: String,
    /// Of the pod.
    pub namespace: String,
    /// Of the pod.
    pub name: String,
    /// Of the pod; no other may be touched.
    pub uid: String,
    /// Status reason.
    pub reason: String,
    /// Status message.
    pub message: String,
    /// Message of the condition `DisruptionTarget`, where the pod gets it (S1-053, S2-018).
    pub disruption_target: Option<String>,
    /// How it is told.
    pub way: Way,
    /// Value of the annotation.
    pub record: String,
    /// When it was decided.
    pub time: Timestamp,
}

/// How the API server is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// The pod's status says it, and the pod stays.
    Status,
    /// The pod is deleted with this grace in seconds.
    Delete(u64),
}

impl Notice {
    /// Of this decision on this pod.
    pub fn new(id: &str, decision: &Decision, pod: &Pod, way: Way) -> Self {
        let eviction = decision.eviction.as_ref();
        let message = |eviction: &Eviction| eviction.message.clone();
        Self {
            id: id.to_owned(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            reason: eviction.map_or("", |eviction| eviction.reason).to_owned(),
            message: eviction.map(message).unwrap_or_default(),
            disruption_target: eviction
                .filter(|eviction| eviction.disruption_target)
                .map(message),
            way,
            record: annotation::record(id, decision),
            time: decision.time,
        }
    }

    /// `namespace/name`
    pub fn pod(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}
