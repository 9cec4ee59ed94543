//! Binding conditions: reports of drivers about devices that must be bound before the pod.

use evictd_pod::wire::{
    AllocatedDevice, AllocatedDeviceStatus, Allocation, DeviceCondition, ResourceClaimState,
};

/// Whether the devices of an allocation are bound.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Binding {
    /// All conditions are true, or there are none.
    Ready,
    /// A condition is not true yet.
    Pending,
    /// A driver says that it failed, with its reason and message.
    Failed(String, String),
}

/// The state of an allocation's devices. As in kube-scheduler the first device decides that is not ready.
pub fn binding(allocation: &Allocation, status: &ResourceClaimState) -> Binding {
    let results = allocation.devices.results.iter();
    let waiting = results.filter(|result| !result.binding_conditions.is_empty());
    let mut bindings = waiting.map(|result| of_device(result, status));
    let decides = bindings.find(|binding| *binding != Binding::Ready);
    decides.unwrap_or(Binding::Ready)
}

/// Whether the devices of an allocation cannot be bound.
pub(crate) fn has_failed_binding(allocation: &Allocation, status: &ResourceClaimState) -> bool {
    matches!(binding(allocation, status), Binding::Failed(..))
}

/// Whether the allocation has devices with binding conditions.
pub fn needs_binding(allocation: &Allocation) -> bool {
    let mut results = allocation.devices.results.iter();
    results.any(|result| !result.binding_conditions.is_empty())
}

fn of_device(result: &AllocatedDevice, status: &ResourceClaimState) -> Binding {
    let is_same = |known: &&AllocatedDeviceStatus| {
        (&known.driver, &known.pool, &known.device)
            == (&result.driver, &result.pool, &result.device)
    };
    let Some(known) = status.devices.iter().find(is_same) else {
        return Binding::Pending;
    };
    let is_true = |kind: &String| -> Option<&DeviceCondition> {
        let mut conditions = known.conditions.iter();
        conditions.find(|condition| condition.kind == *kind && condition.status == "True")
    };
    if let Some(failed) = result.binding_failure_conditions.iter().find_map(is_true) {
        return Binding::Failed(failed.reason.clone(), failed.message.clone());
    }
    let mut needed = result.binding_conditions.iter();
    if needed.all(|kind| is_true(kind).is_some()) {
        Binding::Ready
    } else {
        Binding::Pending
    }
}
