//! What is decided about devices for a pod that gets a node.

use evictd_pod::wire::Allocation;

/// What a claim gets before its pod can be bound.
#[derive(Debug, Clone)]
pub struct DeviceChoice {
    /// The claim's name in the pod's namespace.
    pub claim: String,
    /// Its UID.
    pub uid: String,
    /// Its devices; `None` for one that has them already. Either way it is reserved for the pod.
    pub allocation: Option<Allocation>,
}
