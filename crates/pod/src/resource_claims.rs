//! The resource claims of a pod, and why it cannot use one of them (kube-scheduler 1.36, `DynamicResources`).

use crate::wire::{GROUPS_API, Metadata, Pod, PodResourceClaim};

/// A resource claim of a pod, by its name in the namespace of the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PodClaim<'a> {
    /// An existing claim, which pods may share.
    Shared(&'a str),
    /// A claim that was created for the pod, or for its group (S7-100).
    Own(&'a str),
    /// A claim that is still to be created.
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
    /// The name of the `PodGroup` that it was created for.
    pub group: Option<&'a str>,
}

/// The pod that uses a claim.
#[derive(Debug, Clone, Copy)]
pub struct ClaimUser<'a> {
    /// Its namespace.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its UID.
    pub uid: &'a str,
    /// The name of its `PodGroup`, if it has one.
    pub group: Option<&'a str>,
}

impl<'a> ClaimUser<'a> {
    /// This pod.
    pub fn of(pod: &'a Pod) -> Self {
        Self {
            namespace: pod.metadata.namespace_or_default(),
            name: &pod.metadata.name,
            uid: &pod.metadata.uid,
            group: pod.spec.pod_group(),
        }
    }
}

impl<'a> StoredClaim<'a> {
    /// The claim with this metadata.
    pub fn of(metadata: &'a Metadata) -> Self {
        let mut owners = metadata.owner_references.iter();
        let controller = owners.find(|owner| owner.controller);
        let group = controller.filter(|owner| {
            let (api, _) = owner.api_version.split_once('/').unwrap_or_default();
            owner.kind == "PodGroup" && api == GROUPS_API
        });
        Self {
            is_deleted: metadata.deletion_timestamp.is_some(),
            controller: controller.map(|owner| &*owner.uid),
            group: group.map(|owner| &*owner.name),
        }
    }
}

/// The resource claims of a pod in their order, without claims that turned out to be unnecessary.
pub fn claims_of(pod: &Pod) -> impl Iterator<Item = PodClaim<'_>> {
    entries_of(pod).map(|(_, claim)| claim)
}

/// As [`claims_of`], with the entries of the pod's spec.
pub fn entries_of(pod: &Pod) -> impl Iterator<Item = (&PodResourceClaim, PodClaim<'_>)> {
    pod.spec
        .resource_claims
        .iter()
        .filter_map(|entry| Some((entry, claim_of(pod, entry)?)))
}

/// `None` if the pod needs no claim for the entry.
fn claim_of<'a>(pod: &'a Pod, entry: &'a PodResourceClaim) -> Option<PodClaim<'a>> {
    if let Some(name) = &entry.resource_claim_name {
        return Some(PodClaim::Shared(name));
    }
    if entry.resource_claim_template_name.is_none() {
        return Some(PodClaim::Unknown(&entry.name));
    }
    let mut made = pod.status.resource_claim_statuses.iter();
    let Some(made) = made.find(|made| made.name == entry.name) else {
        return Some(PodClaim::NotMade);
    };
    made.resource_claim_name.as_deref().map(PodClaim::Own)
}

impl<'a> PodClaim<'a> {
    /// Its name, if there is one.
    pub const fn name(self) -> Option<&'a str> {
        match self {
            Self::Shared(name) | Self::Own(name) => Some(name),
            Self::NotMade | Self::Unknown(_) => None,
        }
    }

    /// Why this pod cannot use the claim, in kube-scheduler's words. `stored` is the claim of that name.
    pub fn problem(self, user: ClaimUser<'_>, stored: Option<StoredClaim<'_>>) -> Option<String> {
        let ClaimUser { namespace, uid, .. } = user;
        let pod = format!("{namespace}/{}", user.name);
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
        let is_of_group = user.group.is_some() && stored.group == user.group;
        (is_own && stored.controller != Some(uid) && !is_of_group).then(|| {
            let owner = match user.group {
                None => "Pod is not owner".to_owned(),
                Some(group) => format!("neither Pod nor PodGroup {group} is the owner"),
            };
            format!("ResourceClaim {full_name} was not created for Pod {pod} ({owner})")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A claim of a template belongs to the pod or to its group, and to the group by its name.
    #[test]
    fn s7_100_a_claim_that_was_made_for_the_group_is_for_its_pods() {
        let problem = |group: &str, owner: &str, api: &str| {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": { "name": "p", "namespace": "shop", "uid": "1" },
                "spec": { "schedulingGroup": { "podGroupName": group } },
            }))
            .unwrap();
            let owners = json!([{ "apiVersion": api, "kind": "PodGroup", "name": owner, "uid": "2", "controller": true }]);
            let claim: Metadata =
                serde_json::from_value(json!({ "name": "c", "ownerReferences": owners })).unwrap();
            PodClaim::Own("c").problem(ClaimUser::of(&pod), Some(StoredClaim::of(&claim)))
        };
        let api = "scheduling.k8s.io/v1alpha3";
        assert_eq!(problem("train", "train", api), None);
        let of_other = problem("train", "other", api);
        assert_eq!(
            of_other.as_deref(),
            Some(
                "ResourceClaim shop/c was not created for Pod shop/p (neither Pod nor PodGroup train is the owner)"
            )
        );
        assert_eq!(problem("train", "train", "batch.example.com/v1"), of_other);
        assert_eq!(
            problem("", "train", api).as_deref(),
            Some("ResourceClaim shop/c was not created for Pod shop/p (Pod is not owner)")
        );
    }
}
