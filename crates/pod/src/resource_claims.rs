//! The resource claims of a pod, and why it cannot use one of them (kube-scheduler 1.36, `DynamicResources`).

use crate::wire::{Metadata, Pod};

/// A resource claim of a pod, by its name in the namespace of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodClaim<'a> {
    /// An existing claim, which pods may share.
    Shared(&'a str),
    /// A claim that was created for the pod.
    Own(&'a str),
    /// A claim that is still to be created for the pod.
    NotMade,
    /// An entry without a claim or a template, by its name in the pod.
    Unknown(&'a str),
}

/// A stored claim, as far as a pod needs to know it before it is tried.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StoredClaim<'a> {
    /// Whether it is being deleted.
    pub is_deleted: bool,
    /// The UID of the pod that it was created for.
    pub controller: Option<&'a str>,
}

impl<'a> StoredClaim<'a> {
    /// The claim with this metadata.
    pub fn of(metadata: &'a Metadata) -> Self {
        let mut owners = metadata.owner_references.iter();
        let controller = owners.find(|owner| owner.controller);
        Self {
            is_deleted: metadata.deletion_timestamp.is_some(),
            controller: controller.map(|owner| &*owner.uid),
        }
    }
}

/// The resource claims of a pod in their order, without claims that turned out to be unnecessary.
pub fn claims_of(pod: &Pod) -> impl Iterator<Item = PodClaim<'_>> {
    pod.spec.resource_claims.iter().filter_map(|claim| {
        if let Some(name) = &claim.resource_claim_name {
            return Some(PodClaim::Shared(name));
        }
        if claim.resource_claim_template_name.is_none() {
            return Some(PodClaim::Unknown(&claim.name));
        }
        let mut made = pod.status.resource_claim_statuses.iter();
        let Some(made) = made.find(|made| made.name == claim.name) else {
            return Some(PodClaim::NotMade);
        };
        // A status without a name means that the pod needs no claim.
        made.resource_claim_name.as_deref().map(PodClaim::Own)
    })
}

impl<'a> PodClaim<'a> {
    /// Its name, if there is one.
    pub const fn name(self) -> Option<&'a str> {
        match self {
            Self::Shared(name) | Self::Own(name) => Some(name),
            Self::NotMade | Self::Unknown(_) => None,
        }
    }

    /// Why the pod of this namespace, name and UID cannot use the claim, in kube-scheduler's words. `stored` is the claim of
    /// that name.
    pub fn problem(
        self,
        (namespace, pod, uid): (&str, &str, &str),
        stored: Option<StoredClaim<'_>>,
    ) -> Option<String> {
        let pod = format!("{namespace}/{pod}");
        let (name, is_own) = match self {
            Self::Shared(name) => (name, false),
            Self::Own(name) => (name, true),
            Self::NotMade => {
                return Some(format!("pod {pod:?}: ResourceClaim not created yet"));
            }
            Self::Unknown(name) => {
                let unset = "none of the supported fields are set";
                return Some(format!("pod {pod:?}, spec.resourceClaim {name:?}: {unset}"));
            }
        };
        let full_name = format!("{namespace}/{name}");
        let Some(stored) = stored else {
            return Some(format!("could not find ResourceClaim {full_name:?}"));
        };
        if stored.is_deleted {
            return Some(format!("resourceclaim {name:?} is being deleted"));
        }
        // The claim of an earlier pod of this name is deleted with that pod.
        (is_own && stored.controller != Some(uid)).then(|| {
            format!("ResourceClaim {full_name} was not created for Pod {pod} (Pod is not owner)")
        })
    }
}
