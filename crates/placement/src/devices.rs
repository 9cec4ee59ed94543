//! The devices that a pod gets with its node.

use evictd_devices::SpecialRequests;
use evictd_pod::wire::{Allocation, Consumer};

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
    /// The group of the pod, if the claim is one of the group: it is reserved for the group then (S7-101).
    pub group: Option<Consumer>,
    /// Whether drivers must bind the devices before the pod.
    pub needs_binding: bool,
    /// The requests of a special claim that does not exist yet.
    pub special: Option<SpecialRequests>,
}
