//! The claims that come into being with a pod, or with a group of pods (S7-100): of ephemeral volumes, and from templates of claims
//! on devices.

use super::Admitted;
use crate::manifest::{ClaimTemplate, EphemeralVolume};
use crate::object::Object;
use crate::wire::ResourceClaimTemplate;
use evictd_pod::wire::{
    self, GROUPS_API, Metadata, OwnerReference, PodGroup, PodResourceClaim, ResourceClaimStatus,
    Time,
};
use std::collections::BTreeMap;

/// A storage class that is marked as the default.
#[derive(Debug, Clone)]
struct DefaultClass {
    name: String,
    created: Option<Time>,
}

const IS_DEFAULT: [&str; 2] = [
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
];
/// The annotation that named a claim's class before the field did.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

impl DefaultClass {
    fn of(class: &wire::StorageClass) -> Option<Self> {
        let annotations = &class.metadata.annotations;
        let is_default = IS_DEFAULT
            .iter()
            .any(|key| annotations.get(key) == Some("true"));
        is_default.then(|| Self {
            name: class.metadata.name.clone(),
            created: class.metadata.creation_timestamp,
        })
    }
}

/// The objects of a cluster that claims are made from.
#[derive(Debug, Clone, Default)]
pub(super) struct ClaimSources {
    /// By namespace and name.
    templates: BTreeMap<(String, String), ResourceClaimTemplate>,
    default_classes: Vec<DefaultClass>,
    /// The groups with claims, by namespace and name.
    groups: BTreeMap<(String, String), PodGroup>,
}

impl ClaimSources {
    pub(super) fn add_template(&mut self, template: ResourceClaimTemplate) {
        let metadata = &template.metadata;
        let namespace = metadata.namespace_or_default().to_owned();
        self.templates
            .insert((namespace, metadata.name.clone()), template);
    }

    pub(super) fn add_group(&mut self, group: &PodGroup) {
        if !group.spec.resource_claims.is_empty() {
            let metadata = &group.metadata;
            let namespace = metadata.namespace_or_default().to_owned();
            self.groups
                .insert((namespace, metadata.name.clone()), group.clone());
        }
    }

    pub(super) fn add_storage_class(&mut self, class: &wire::StorageClass) {
        self.default_classes.extend(DefaultClass::of(class));
    }

    /// Sets the class of a claim that names none, as the plugin `DefaultStorageClass` does: of several defaults the newest,
    /// then the first by name. A stored claim, and one that asks for no class, stays as it is.
    pub(super) fn complete(&self, claim: &mut wire::PersistentVolumeClaim) {
        let metadata = &claim.metadata;
        let is_free = metadata.uid.is_empty()
            && claim.spec.storage_class_name.is_none()
            && claim.spec.volume_name.is_empty()
            && !metadata.annotations.contains_key(CLASS_ANNOTATION);
        if !is_free {
            return;
        }
        let newest = self.default_classes.iter().reduce(|best, class| {
            let is_better = class.created > best.created
                || class.created == best.created && class.name < best.name;
            if is_better { class } else { best }
        });
        claim.spec.storage_class_name = newest.map(|class| class.name.clone());
    }

    /// The claim of a template, under its final name.
    pub(super) fn volume_claim(
        &self,
        template: &ClaimTemplate,
        namespace: &str,
        name: String,
        owner: Option<OwnerReference>,
    ) -> wire::PersistentVolumeClaim {
        let mut claim = wire::PersistentVolumeClaim {
            metadata: Metadata {
                name,
                namespace: namespace.to_owned().into(),
                owner_references: owner.into_iter().collect::<Vec<_>>().into(),
                ..template.metadata.clone()
            },
            spec: template.spec.clone(),
            ..wire::PersistentVolumeClaim::default()
        };
        self.complete(&mut claim);
        claim
    }

    pub(super) fn generate(&self, admitted: &mut Admitted, volumes: &[EphemeralVolume]) {
        let metadata = admitted.pod.metadata.clone();
        let namespace = metadata.namespace_or_default();
        let owner = OwnerReference {
            api_version: "v1".to_owned(),
            kind: "Pod".to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.to_string(),
            controller: true,
        };
        for volume in volumes {
            let name = format!("{}-{}", metadata.name, volume.name);
            let claim = self.volume_claim(&volume.template, namespace, name, Some(owner.clone()));
            admitted.volume_claims.push(claim);
        }
        let mut statuses = admitted.pod.status.resource_claim_statuses.clone();
        for entry in admitted.pod.spec.resource_claims.clone() {
            let Some(template) = &entry.resource_claim_template_name else {
                continue;
            };
            if statuses.iter().any(|status| status.name == entry.name) {
                continue;
            }
            if let Some(group) = self.group_with(&admitted.pod, &entry) {
                statuses.extend(status_of_group(group, &entry));
                continue;
            }
            let Some((claim, status)) = self.claim(&metadata, &owner, &entry) else {
                continue;
            };
            admitted.resource_claims.push(claim);
            let note = format!("ResourceClaimTemplate {template} makes a claim of the pod");
            admitted.notes.push(note);
            statuses.push(status);
        }
        if !statuses.is_empty() {
            admitted.pod.status.resource_claim_statuses = statuses;
        }
    }

    /// The group of a pod, if it has an equal entry: the pod uses the claim of the group then.
    fn group_with(&self, pod: &wire::Pod, entry: &PodResourceClaim) -> Option<&PodGroup> {
        let namespace = pod.metadata.namespace_or_default().to_owned();
        let name = pod.spec.pod_group()?.to_owned();
        let group = self.groups.get(&(namespace, name))?;
        group.spec.resource_claims.contains(entry).then_some(group)
    }

    /// Makes the claims of a group from their templates, unless an API server has stored the group.
    pub(super) fn claims_of_group(&self, group: &mut PodGroup) -> Vec<Object> {
        let metadata = group.metadata.clone();
        if !metadata.uid.is_empty() {
            return Vec::new();
        }
        let owner = OwnerReference {
            api_version: format!("{GROUPS_API}/v1beta1"),
            kind: "PodGroup".to_owned(),
            name: metadata.name.clone(),
            uid: String::new(),
            controller: true,
        };
        let mut made = Vec::new();
        let statuses = &mut group.status.resource_claim_statuses;
        for entry in &group.spec.resource_claims {
            let is_made = statuses.iter().any(|status| status.name == entry.name);
            if let Some((claim, status)) = self.claim(&metadata, &owner, entry).filter(|_| !is_made)
            {
                made.push(Object::ResourceClaim(Box::new(claim)));
                statuses.push(status);
            }
        }
        made
    }

    /// The claim of an entry that names a template.
    fn claim(
        &self,
        metadata: &Metadata,
        owner: &OwnerReference,
        entry: &PodResourceClaim,
    ) -> Option<(wire::ResourceClaim, ResourceClaimStatus)> {
        let template = entry.resource_claim_template_name.clone()?;
        let key = (metadata.namespace_or_default().to_owned(), template);
        let template = self.templates.get(&key)?;
        let name = claim_name(metadata, entry);
        let claim = wire::ResourceClaim {
            metadata: Metadata {
                name: name.clone(),
                namespace: metadata.namespace.clone(),
                owner_references: vec![owner.clone()].into(),
                ..template.spec.metadata.clone()
            },
            spec: template.spec.spec.clone(),
            ..wire::ResourceClaim::default()
        };
        let status = ResourceClaimStatus {
            name: entry.name.clone(),
            resource_claim_name: Some(name),
        };
        Some((claim, status))
    }
}

/// An API server adds random letters, which would make each run different.
fn claim_name(owner: &Metadata, entry: &PodResourceClaim) -> String {
    format!("{}-{}", owner.name, entry.name)
}

/// The claim of a group as its pods name it; `None` if it is not made yet.
fn status_of_group(group: &PodGroup, entry: &PodResourceClaim) -> Option<ResourceClaimStatus> {
    let mut made = group.status.resource_claim_statuses.iter();
    let made = made.find(|status| status.name == entry.name).cloned();
    made.or_else(|| {
        let is_new = group.metadata.uid.is_empty();
        is_new.then(|| ResourceClaimStatus {
            name: entry.name.clone(),
            resource_claim_name: Some(claim_name(&group.metadata, entry)),
        })
    })
}
