//! The pending news for the cluster, and whether it was published.

use super::annotation;
use crate::{Decision, Eviction};
use evictd_pod::Pod;
use evictd_pod::wire::Generation;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The state of informing the cluster.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "state")]
pub enum Publication {
    /// The cluster still has to be informed.
    #[serde(rename = "waiting")]
    Waiting {
        /// The notice to publish.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        notice: Option<Box<Notice>>,
    },
    /// The pod's status shows the decision.
    #[serde(rename = "published")]
    Published,
    /// The pod no longer exists, so there is no status to write to.
    #[serde(rename = "recorded")]
    Recorded {
        /// Why no status shows it.
        #[serde(default)]
        why: String,
    },
    /// It will not be published.
    #[serde(rename = "not published")]
    NotPublished {
        /// Why no status shows it.
        #[serde(default)]
        why: String,
    },
    /// A state that only another version knows.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl Publication {
    /// `notice` still has to be published.
    pub fn waiting(notice: Notice) -> Self {
        Self::Waiting {
            notice: Some(Box::new(notice)),
        }
    }

    /// The word for this state in the history.
    pub const fn state(&self) -> &'static str {
        match self {
            Self::Waiting { .. } => "waiting",
            Self::Published => "published",
            Self::Recorded { .. } => "recorded",
            Self::NotPublished { .. } => "not published",
            Self::Unknown => "unknown",
        }
    }

    /// Why the pod's status does not show the decision.
    pub fn why(&self) -> Option<&str> {
        match self {
            Self::Recorded { why } | Self::NotPublished { why } => Some(why),
            Self::Waiting { .. } | Self::Published | Self::Unknown => None,
        }
    }
}

/// A notice to the API server that a pod had to leave or is not admitted, which becomes the pod's status. The
/// history keeps it until it is published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Notice {
    /// Id of the decision.
    pub id: String,
    /// Namespace of the pod.
    pub namespace: String,
    /// Name of the pod.
    pub name: String,
    /// The pod's UID; a pod of the same name with another UID must not be changed.
    pub uid: String,
    /// The generation of the pod that the decision is about, where it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub generation: Generation,
    /// The word that becomes `status.reason`.
    pub reason: String,
    /// The sentence that becomes `status.message`.
    pub message: String,
    /// Message of the condition `DisruptionTarget`, where the pod gets it (S1-053, S2-018).
    pub disruption_target: Option<String>,
    /// How the API server is informed.
    pub way: Way,
    /// Value of the annotation `evictd.dev/evicted`.
    pub record: String,
    /// When the decision was made.
    pub time: Timestamp,
}

/// How the API server is informed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Way {
    /// By the pod's status; the pod object stays.
    Status,
    /// The pod is deleted with this grace period in seconds.
    Delete(u64),
}

impl Notice {
    /// The notice for this decision on this pod.
    pub fn new(id: &str, decision: &Decision, pod: &Pod, way: Way) -> Self {
        let eviction = decision.eviction.as_ref();
        let message = |eviction: &Eviction| eviction.message.clone();
        Self {
            id: id.to_owned(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            uid: pod.uid.clone(),
            generation: pod.generation,
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
