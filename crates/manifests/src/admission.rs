//! The admission plugins of an API server, for pods that none has stored.

mod claims;
mod limit_range;
mod priority;
mod runtime_class;
mod tolerations;

use crate::manifest::{ClaimTemplate, PodManifest};
use crate::object::Object;
use crate::stored::complete_node;
use claims::ClaimSources;
use evictd_pod::{ResourceList, defaults, wire};
use limit_range::LimitRanges;
use priority::PriorityClasses;
use runtime_class::RuntimeClasses;

/// The objects of a cluster that admission reads.
#[derive(Debug, Clone, Default)]
pub struct Admission {
    priority_classes: PriorityClasses,
    runtime_classes: RuntimeClasses,
    limit_ranges: LimitRanges,
    claims: ClaimSources,
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
    /// The filled-in fields that may decide about its node, one line each, without the pod's name.
    pub notes: Vec<String>,
}

/// An object as the API server would have stored it.
#[derive(Debug, Clone, Default)]
pub struct Completed {
    /// Objects that come into being with it, then the object itself.
    pub objects: Vec<Object>,
    /// The filled-in fields that may decide where a pod runs, one line each, without the object's name.
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
    /// The mistake in it.
    pub message: String,
}

impl Admission {
    /// Remembers an object that decides about pods that come later.
    pub fn learn(&mut self, object: &Object) {
        match object {
            Object::PriorityClass(class) => self.priority_classes.add((**class).clone()),
            Object::StorageClass(class) => self.claims.add_storage_class(class),
            Object::RuntimeClass(class) => self.runtime_classes.add((**class).clone()),
            Object::LimitRange(range) => self.limit_ranges.add((**range).clone()),
            Object::ResourceClaimTemplate(template) => {
                self.claims.add_template((**template).clone());
            }
            Object::PodGroup(group) => self.claims.add_group(group),
            _ => {}
        }
    }

    /// Completes an object of any kind, as far as no API server has stored it.
    ///
    /// # Errors
    /// If it is a pod that an admission plugin would refuse.
    pub fn complete(&self, object: Object) -> Result<Completed, Refusal> {
        let mut completed = Completed::default();
        match object {
            Object::Pod(manifest) => {
                let mut admitted = self.admit(*manifest)?;
                completed.objects = admitted.take_claims();
                let pod = Object::Pod(Box::new(admitted.pod.into()));
                completed.objects.push(pod);
                completed.notes = admitted.notes;
            }
            Object::Node(mut node) => {
                completed.notes.extend(complete_node(&mut node));
                completed.objects.push(Object::Node(node));
            }
            Object::PersistentVolumeClaim(mut claim) => {
                self.claims.complete(&mut claim);
                completed.objects.push(Object::PersistentVolumeClaim(claim));
            }
            Object::PodGroup(mut group) => {
                let spec = &mut group.spec;
                let fields = (&mut spec.priority, &mut spec.priority_class_name);
                let classes = &self.priority_classes;
                classes.set_group_priority(&group.metadata, fields)?;
                completed.objects = self.claims.claims_of_group(&mut group);
                completed.objects.push(Object::PodGroup(group));
            }
            Object::CompositePodGroup(mut group) => {
                let spec = &mut group.spec;
                let fields = (&mut spec.priority, &mut spec.priority_class_name);
                let classes = &self.priority_classes;
                classes.set_group_priority(&group.metadata, fields)?;
                completed.objects.push(Object::CompositePodGroup(group));
            }
            object => completed.objects.push(object),
        }
        for object in &mut completed.objects {
            if let Object::ResourceClaim(claim) = object {
                identify(&mut claim.metadata);
            }
        }
        Ok(completed)
    }

    /// Completes and checks a pod as the API server does before it stores it. A pod with a UID is stored already and stays
    /// as it is.
    ///
    /// # Errors
    /// If an admission plugin would refuse the pod.
    pub fn admit(&self, manifest: PodManifest) -> Result<Admitted, Refusal> {
        let mut admitted = Admitted {
            pod: manifest.pod,
            ..Admitted::default()
        };
        if !admitted.pod.metadata.uid.is_empty() {
            // Only where it is needed, because the spec may be shared.
            if admitted.pod.spec.host_network {
                defaults::ports_of_host_network(&mut admitted.pod.spec);
            }
            return Ok(admitted);
        }
        admitted.notes.extend(notes_of_defaults(&admitted.pod.spec));
        defaults::complete(&mut admitted.pod);
        // The order is that of the API server, because a plugin sees the fields that others have set before it.
        self.limit_ranges.set_defaults(&mut admitted);
        self.priority_classes.set_priority(&mut admitted)?;
        tolerations::tolerate_lost_nodes(&mut admitted.pod.spec.tolerations);
        let runtime_class = &manifest.runtime_class_name;
        self.runtime_classes.apply(&mut admitted, runtime_class)?;
        self.limit_ranges.check(&admitted.pod)?;
        identify(&mut admitted.pod.metadata);
        self.claims
            .generate(&mut admitted, &manifest.ephemeral_volumes);
        Ok(admitted)
    }

    /// The claim of a template, under its final name.
    pub(crate) fn volume_claim(
        &self,
        template: &ClaimTemplate,
        namespace: &str,
        name: String,
    ) -> wire::PersistentVolumeClaim {
        self.claims.volume_claim(template, namespace, name, None)
    }
}

impl Admitted {
    /// Takes out its claims.
    pub fn take_claims(&mut self) -> Vec<Object> {
        let volumes = self.volume_claims.drain(..).map(Box::new);
        let devices = self.resource_claims.drain(..).map(Box::new);
        volumes
            .map(Object::PersistentVolumeClaim)
            .chain(devices.map(Object::ResourceClaim))
            .collect()
    }

    fn refusal(&self, field: &'static str, message: String) -> Refusal {
        Refusal {
            pod: self.pod.metadata.full_name(),
            field,
            message,
        }
    }
}

/// The defaults that the spec of a pod will get, as far as they may decide about its node.
fn notes_of_defaults(spec: &wire::PodSpec) -> impl Iterator<Item = String> {
    let containers = || spec.containers.iter().chain(&spec.init_containers);
    let lacks_requests = |resources: &wire::ResourceRequirements| {
        let mut limits = resources.limits.iter();
        limits.any(|(name, _)| !resources.requests.contains_key(name))
    };
    let of_pod = spec.resources.as_ref().is_some_and(lacks_requests);
    let limits = of_pod || containers().any(|container| lacks_requests(&container.resources));
    let mut ports = containers().flat_map(|container| &container.ports);
    let ports = spec.host_network && ports.any(|port| port.host_port == 0);
    let notes = [
        (limits, "missing requests are set to the limits"),
        (
            ports,
            "in the network of the node, ports of containers are host ports",
        ),
    ];
    let set = notes.into_iter().filter(|(is_set, _)| *is_set);
    set.map(|(_, note)| note.to_owned())
}

/// Gives an object without a UID one. Allocations know claims and their pods by UID, so that two without one would count as the same.
fn identify(metadata: &mut wire::Metadata) {
    if metadata.uid.is_empty() {
        metadata.uid = metadata.full_name().into();
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
