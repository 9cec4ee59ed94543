//! The admission plugins of an API server, for pods that none has stored.

mod claims;
mod limit_range;
mod priority;
mod runtime_class;
mod tolerations;

pub use claims::ResourceClaimTemplate;
pub use limit_range::LimitRange;
pub use runtime_class::RuntimeClass;

use crate::manifest::PodManifest;
use evictd_pod::{ResourceList, defaults, wire};
use std::collections::BTreeMap;

/// The objects of a cluster that admission reads.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    priority_classes: Vec<wire::PriorityClass>,
    runtime_classes: BTreeMap<String, RuntimeClass>,
    /// By namespace.
    limit_ranges: BTreeMap<String, Vec<LimitRange>>,
    /// By namespace and name.
    claim_templates: BTreeMap<(String, String), ResourceClaimTemplate>,
    storage_classes: Vec<claims::DefaultClass>,
}

/// A pod as the API server would have stored it, with the objects that come into being with it.
#[derive(Debug, Clone, Default)]
pub struct Admitted {
    /// The pod.
    pub pod: wire::Pod,
    /// Claims of its ephemeral volumes.
    pub volume_claims: Vec<wire::PersistentVolumeClaim>,
    /// Claims made from its `ResourceClaimTemplates`.
    pub resource_claims: Vec<wire::ResourceClaim>,
    /// What was filled in and may decide about its node, one line each, without the pod's name.
    pub notes: Vec<String>,
}

/// Why an API server would not store a pod.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{pod}: {field}: {message}")]
pub struct Refusal {
    /// `namespace/name`
    pub pod: String,
    /// The field that is refused, such as `spec.priorityClassName`.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl Admission {
    /// Adds a class of priorities.
    pub fn add_priority_class(&mut self, class: wire::PriorityClass) {
        self.priority_classes.push(class);
    }

    /// Adds a class of container runtimes.
    pub fn add_runtime_class(&mut self, class: RuntimeClass) {
        self.runtime_classes
            .insert(class.metadata.name.clone(), class);
    }

    /// Adds the limits of a namespace.
    pub fn add_limit_range(&mut self, mut range: LimitRange) {
        range.complete();
        let namespace = range.metadata.namespace_or_default().to_owned();
        self.limit_ranges.entry(namespace).or_default().push(range);
    }

    /// Adds a template of claims on devices.
    pub fn add_claim_template(&mut self, template: ResourceClaimTemplate) {
        let metadata = &template.metadata;
        let key = (
            metadata.namespace_or_default().to_owned(),
            metadata.name.clone(),
        );
        self.claim_templates.insert(key, template);
    }

    /// Looks whether a storage class is the default of claims that name none.
    pub fn add_storage_class(&mut self, class: &wire::StorageClass) {
        self.storage_classes.extend(claims::DefaultClass::of(class));
    }

    /// Does what the API server does before it stores the pod. A pod with a UID is stored already and stays as it is.
    ///
    /// # Errors
    /// If an admission plugin would refuse the pod.
    pub fn admit(&self, manifest: PodManifest) -> Result<Admitted, Refusal> {
        let mut admitted = Admitted {
            pod: manifest.pod,
            ..Admitted::default()
        };
        if !admitted.pod.metadata.uid.is_empty() {
            return Ok(admitted);
        }
        defaults::complete(&mut admitted.pod);
        // The order is that of the API server: a plugin sees what those before it have set.
        self.set_default_resources(&mut admitted);
        self.set_priority(&mut admitted)?;
        tolerations::tolerate_lost_nodes(&mut admitted.pod.spec.tolerations);
        self.apply_runtime_class(&mut admitted, &manifest.runtime_class_name)?;
        self.check_limits(&admitted.pod)?;
        self.generate_claims(&mut admitted, &manifest.ephemeral_volumes);
        Ok(admitted)
    }
}

impl Admitted {
    fn refusal(&self, field: &'static str, message: String) -> Refusal {
        Refusal {
            pod: self.pod.metadata.full_name(),
            field,
            message,
        }
    }
}

/// `cpu=1, memory=120Mi`
fn amounts(list: &ResourceList) -> String {
    let amounts: Vec<String> = list
        .iter()
        .map(|(name, quantity)| format!("{name}={quantity}"))
        .collect();
    amounts.join(", ")
}

#[cfg(test)]
mod tests;
