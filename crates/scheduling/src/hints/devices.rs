//! Hints of `DynamicResources`: devices have become free, or something came that a claim of the pod waits for.

use crate::change::Delta;
use evictd_pod::wire::{Pod, ResourceClaim};

/// A claim appeared or changed. One that went without having given its devices back was not seen doing that.
pub(super) fn on_claim(pod: &Pod, delta: &Delta<ResourceClaim>) -> bool {
    let has = |claim: &ResourceClaim| claim.status.allocation.is_some();
    let (old, new) = (delta.old.as_deref(), delta.new.as_deref());
    if old.is_some_and(has) && !new.is_some_and(has) {
        return true;
    }
    let Some(new) = new.filter(|new| uses(pod, new)) else {
        return false;
    };
    // What a driver adds besides is nothing that a pod waits for.
    old.is_none_or(|old| has(old) != has(new) || old.status.reserved_for != new.status.reserved_for)
}

/// Whether the claim is one of the pod's.
pub(super) fn uses(pod: &Pod, claim: &ResourceClaim) -> bool {
    let name = Some(&claim.metadata.name);
    let mut own = pod.spec.resource_claims.iter();
    let mut made = pod.status.resource_claim_statuses.iter();
    pod.metadata.namespace_or_default() == claim.metadata.namespace_or_default()
        && (own.any(|own| own.resource_claim_name.as_ref() == name)
            || made.any(|made| made.resource_claim_name.as_ref() == name))
}
