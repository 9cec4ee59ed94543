//! The calls that a round makes to the API server, and the answers.

use super::creation::Creation;
use evictd_batch_objects::{Job, TaskPod};
use evictd_reconcile::Refusal;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Deref;

/// A resource that plugins and volumes make objects of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Resource {
    /// v1.
    ConfigMap,
    /// v1.
    Secret,
    /// v1.
    Service,
    /// networking.k8s.io/v1.
    NetworkPolicy,
    /// v1.
    PersistentVolumeClaim,
}

impl Resource {
    /// Its `kind`.
    pub const fn kind(self) -> &'static str {
        match self {
            Self::ConfigMap => "ConfigMap",
            Self::Secret => "Secret",
            Self::Service => "Service",
            Self::NetworkPolicy => "NetworkPolicy",
            Self::PersistentVolumeClaim => "PersistentVolumeClaim",
        }
    }

    /// Its `apiVersion`.
    pub const fn api_version(self) -> &'static str {
        match self {
            Self::NetworkPolicy => "networking.k8s.io/v1",
            _ => "v1",
        }
    }
}

/// A whole object, perhaps a Secret: its text for logs has its name and no data.
#[derive(Clone, PartialEq)]
pub struct Object(Value);

impl From<Value> for Object {
    fn from(object: Value) -> Self {
        Self(object)
    }
}

impl From<Object> for Value {
    fn from(object: Object) -> Self {
        object.0
    }
}

impl Deref for Object {
    type Target = Value;

    fn deref(&self) -> &Value {
        &self.0
    }
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = &self.0["metadata"]["name"];
        write!(f, "{} {name}", self.0["kind"].as_str().unwrap_or_default())
    }
}

/// One call; all objects are in the job's namespace. The calls of one step may be made at once.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Marks a pod, so that its end is no event (S6-035). A merge patch of its metadata.
    MarkPod {
        /// The pod's name.
        name: String,
        /// The annotations to set.
        annotations: BTreeMap<&'static str, String>,
    },
    /// Deletes a pod.
    DeletePod {
        /// The pod's name.
        name: String,
        /// Its UID; another pod of the name must stay.
        uid: String,
    },
    /// Creates a pod.
    CreatePod {
        /// The pod, which is put together when it is sent.
        pod: Creation,
    },
    /// Writes the job's status. A merge patch of it, which holds only if the job still has this resource version.
    WriteStatus {
        /// `{"metadata": {"resourceVersion"}, "status"}`; empty if nothing changes.
        patch: Value,
    },
    /// Changes the job itself: the names of the claims that were made for it. A JSON patch.
    PatchJob {
        /// The operations.
        patch: Value,
    },
    /// Creates the job's PodGroup.
    CreatePodGroup {
        /// The whole object.
        group: Value,
    },
    /// Changes the job's PodGroup. A merge patch.
    UpdatePodGroup {
        /// Its name.
        name: String,
        /// The merge patch.
        patch: Value,
    },
    /// Deletes the job's PodGroup.
    DeletePodGroup {
        /// Its name.
        name: String,
    },
    /// Creates an object, if there is none of its name.
    CreateObject {
        /// Of which resource.
        resource: Resource,
        /// The whole object.
        object: Object,
    },
    /// Creates an object, or replaces the data of the one that is there.
    ApplyObject {
        /// Of which resource.
        resource: Resource,
        /// The whole object.
        object: Object,
    },
    /// Deletes an object.
    DeleteObject {
        /// Of which resource.
        resource: Resource,
        /// Its name.
        name: String,
    },
    /// Makes a pair of keys for ssh.
    MakeKeys,
}

/// The result of a successful call.
#[derive(Debug, Clone)]
pub enum Done {
    /// Nothing but that.
    Nothing,
    /// The pod that was created.
    Pod(Box<TaskPod>),
    /// The job as it is stored now.
    Job(Box<Job>),
    /// The pair of keys.
    Keys(KeyPair),
}

/// A pair of keys for ssh. The private key is in no log.
#[derive(Clone, PartialEq, Eq)]
pub struct KeyPair {
    /// The private key, as OpenSSH or PEM text.
    pub private: String,
    /// The public key, as a line of `authorized_keys`.
    pub public: String,
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KeyPair")
            .field("public", &self.public)
            .finish_non_exhaustive()
    }
}

/// The answer to one call.
pub type Answer = Result<Done, Refusal>;

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn no_text_for_a_log_holds_what_a_secret_does() {
        let secret = json!({"kind": "Secret", "metadata": {"name": "a-ssh"}, "stringData": {"id_rsa": "hidden"}});
        let create = Call::CreateObject {
            resource: Resource::Secret,
            object: secret.clone().into(),
        };
        let apply = Call::ApplyObject {
            resource: Resource::Secret,
            object: secret.into(),
        };
        let keys = Done::Keys(KeyPair {
            private: "hidden".to_owned(),
            public: "shown".to_owned(),
        });
        let text = format!("{:?} {keys:?}", [create, apply]);
        assert!(!text.contains("hidden"), "{text}");
        assert!(
            text.contains("Secret \"a-ssh\"") && text.contains("shown"),
            "{text}"
        );
    }
}
