//! Hints of `DynamicResources`: devices are deallocated, or a claim of the pod changes.

use crate::change::Delta;
use evictd_pod::wire::{Pod, ResourceClaim};

/// A claim was added, updated or deleted.
pub(super) fn on_claim(pod: &Pod, delta: &Delta<ResourceClaim>) -> bool {
    let is_allocated = |claim: &ResourceClaim| claim.status.allocation.is_some();
    let (old, new) = (delta.old.as_deref(), delta.new.as_deref());
    if old.is_some_and(is_allocated) && !new.is_some_and(is_allocated) {
        return true;
    }
    let Some(new) = new.filter(|new| uses(pod, new)) else {
        return false;
    };
    // Drivers write further fields, but no pod waits for them.
    old.is_none_or(|old| {
        is_allocated(old) != is_allocated(new) || old.status.reserved_for != new.status.reserved_for
    })
}

/// Whether the pod names the claim, or it was generated for the pod.
pub(super) fn uses(pod: &Pod, claim: &ResourceClaim) -> bool {
    let name = Some(&claim.metadata.name);
    let mut named = pod.spec.resource_claims.iter();
    let mut generated = pod.status.resource_claim_statuses.iter();
    pod.metadata.namespace_or_default() == claim.metadata.namespace_or_default()
        && (named.any(|claim| claim.resource_claim_name.as_ref() == name)
            || generated.any(|claim| claim.resource_claim_name.as_ref() == name))
}
