//! The devices that a pod gets with its node.

use evictd_devices::SpecialRequests;
use evictd_pod::wire::Allocation;

/// The allocation and reservation to write into a claim before its pod can be bound.
#[derive(Debug, Clone)]
pub struct DeviceChoice {
    /// The claim's name in the pod's namespace.
    pub claim: String,
    /// Its UID.
    pub uid: String,
    /// The devices to allocate; `None` for a claim that is allocated already. The claim is reserved for the pod in both
    /// cases.
    pub allocation: Option<Allocation>,
    /// Whether drivers must bind the devices before the pod.
    pub needs_binding: bool,
    /// The requests of a special claim that does not exist yet.
    pub special: Option<SpecialRequests>,
}
