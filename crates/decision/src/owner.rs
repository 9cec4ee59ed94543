//! The controller that would make an evicted pod again.

use evictd_pod::Pod;
use serde::{Deserialize, Serialize};
use std::fmt;

/// The controller of a pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Owner {
    /// `apps/v1`, ...
    pub api_version: String,
    /// `ReplicaSet`, ...
    pub kind: String,
    /// Its pods' namespace.
    pub namespace: String,
    /// Name of the controller.
    pub name: String,
    /// UID of the controller; one that was created again has another.
    pub uid: String,
}

impl Owner {
    /// The owner of this pod; `None` if no controller would make the pod again. The kubelet starts a static pod again,
    /// and no condition keeps it away; its mirror names the node as its owner.
    pub fn of(pod: &Pod) -> Option<Self> {
        let owner = pod.controller.as_ref().filter(|_| !pod.is_from_file())?;
        Some(Self {
            api_version: owner.api_version.clone(),
            kind: owner.kind.clone(),
            namespace: pod.namespace.clone(),
            name: owner.name.clone(),
            uid: owner.uid.clone(),
        })
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}
