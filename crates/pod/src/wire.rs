//! API objects as dumps, watches and manifests contain them, with only the fields that are used. Unknown fields are
//! skipped and `null` counts as absent, as for the API server.

mod claim_status;
mod cluster;
mod condition;
mod constraints;
mod devices;
mod group;
mod known;
mod volume;

pub use claim_status::*;
pub use cluster::*;
pub use condition::Condition;
pub use constraints::*;
pub use devices::*;
pub use group::*;
pub use known::{ConditionStatus, PodPhase};
pub use volume::*;

use jiff::Timestamp;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::num::NonZeroU32;
use std::sync::Arc;

pub use crate::resource_list::ResourceList;
pub use crate::shared::Shared;
pub use crate::text_map::TextMap;
pub use crate::time::Time;

/// For `#[serde(deserialize_with)]`: `null` becomes the default value.
pub fn null_is_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// For `#[serde(deserialize_with)]`: a text that several owners share. `null` becomes the empty text.
fn null_is_empty<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Arc<str>, D::Error> {
    null_is_default::<_, String>(deserializer).map(Arc::from)
}

/// For `#[serde(serialize_with)]`: a text that several owners share.
fn as_text<S: Serializer>(text: &str, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(text)
}

/// For `#[serde(deserialize_with)]`: a number of seconds, at most so many as there is room for (68 years).
fn seconds<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i32>, D::Error> {
    let seconds = Option::<i64>::deserialize(deserializer)?;
    Ok(seconds.map(|seconds| i32::try_from(seconds).unwrap_or(i32::MAX)))
}

/// `metadata.generation`; `None` where none is known.
pub type Generation = Option<NonZeroU32>;

/// For `#[serde(deserialize_with)]`: a generation. No spec is written four billion times.
fn generation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Generation, D::Error> {
    let generation = Option::<i64>::deserialize(deserializer)?;
    Ok(generation
        .and_then(|generation| u32::try_from(generation).ok())
        .and_then(NonZeroU32::new))
}

/// A v1 Pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Pod {
    /// Identity, labels, annotations, owners.
    #[serde(deserialize_with = "null_is_default")]
    pub metadata: Metadata,
    /// The desired state, which pods of one template can share.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: Shared<PodSpec>,
    /// The observed state, which pods that wait for the same can share.
    #[serde(deserialize_with = "null_is_default")]
    pub status: Shared<PodStatus>,
}

/// A v1 Pod with `apiVersion` and `kind`, as in a manifest.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "struct Pod")]
pub struct TypedPod {
    /// `v1`, where given.
    #[serde(deserialize_with = "null_is_default")]
    api_version: String,
    /// `Pod`, where given (items of a list omit it).
    #[serde(deserialize_with = "null_is_default")]
    kind: String,
    #[serde(deserialize_with = "null_is_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: Shared<PodSpec>,
    #[serde(deserialize_with = "null_is_default")]
    status: Shared<PodStatus>,
}

impl TypedPod {
    /// `apiVersion` and `kind`, and the pod.
    pub fn split(self) -> ([String; 2], Pod) {
        let pod = Pod {
            metadata: self.metadata,
            spec: self.spec,
            status: self.status,
        };
        ([self.api_version, self.kind], pod)
    }
}

impl Pod {
    /// Whether a scheduler has tried it in vain: its condition `PodScheduled` is `False`.
    pub fn was_tried(&self) -> bool {
        let mut conditions = self.status.conditions.iter();
        conditions.any(|condition| condition.fails("PodScheduled"))
    }

    /// A pod of which only the identity is known. On a node its requests are unknown, not zero. Without a node no
    /// scheduler can place it.
    pub fn of_unknown_spec(
        metadata: Metadata,
        spec: PodSpec,
        phase: PodPhase,
        problem: &str,
    ) -> Self {
        let waits = spec.node_name.is_empty();
        let spec = PodSpec {
            scheduling_gates: if waits {
                vec![SchedulingGate::default()]
            } else {
                Vec::new()
            },
            // No pod is more important than one of unknown priority.
            priority: Some(i32::MAX),
            unreadable: Some(problem.into()),
            ..spec
        };
        let status = PodStatus {
            phase,
            ..PodStatus::default()
        };
        Self {
            metadata,
            spec: spec.into(),
            status: status.into(),
        }
    }

    /// Gives back the room that its lists keep for more items, which is more than a pod itself takes.
    pub fn shrink_to_fit(&mut self) {
        let Self {
            metadata,
            spec,
            status,
        } = self;
        let (spec, status) = (&mut **spec, &mut **status);
        metadata.owner_references.shrink_to_fit();
        spec.containers.shrink_to_fit();
        spec.init_containers.shrink_to_fit();
        spec.volumes.shrink_to_fit();
        spec.tolerations.shrink_to_fit();
        for container in spec.containers.iter_mut().chain(&mut spec.init_containers) {
            container.ports.shrink_to_fit();
        }
        status.conditions.shrink_to_fit();
        status.container_statuses.shrink_to_fit();
        status.init_container_statuses.shrink_to_fit();
    }
}

/// `metadata` of any object.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Metadata {
    /// Name within the namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Namespace; empty means `default`. Objects of one namespace can share it.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: Shared<String>,
    /// UID; a later object of the same name has another one.
    #[serde(serialize_with = "as_text", deserialize_with = "null_is_empty")]
    pub uid: Arc<str>,
    /// Labels, by which selectors find the object.
    #[serde(deserialize_with = "null_is_default")]
    pub labels: TextMap,
    /// Annotations, which no selector sees.
    #[serde(deserialize_with = "null_is_default")]
    pub annotations: TextMap,
    /// The objects that it belongs to; one of them may be its controller. Objects of one owner can share them.
    #[serde(deserialize_with = "null_is_default")]
    pub owner_references: Shared<Vec<OwnerReference>>,
    /// When it was made. Only an API server sets it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub creation_timestamp: Option<Time>,
    /// Set while the object is being deleted.
    pub deletion_timestamp: Option<Time>,
    /// The grace period of the deletion, in seconds.
    #[serde(deserialize_with = "seconds")]
    pub deletion_grace_period_seconds: Option<i32>,
    /// The version of the stored object. Only an API server sets it.
    #[serde(deserialize_with = "null_is_default", skip_serializing)]
    pub resource_version: Box<str>,
    /// How often the spec was written. Only an API server sets it, for pods since Kubernetes 1.33.
    #[serde(deserialize_with = "generation", skip_serializing)]
    pub generation: Generation,
}

impl Metadata {
    /// The namespace; absent means `default`.
    pub fn namespace_or_default(&self) -> &str {
        match self.namespace.as_str() {
            "" => "default",
            namespace => namespace,
        }
    }

    /// `namespace/name`, with `default` for an absent namespace.
    pub fn full_name(&self) -> String {
        full_name(self.namespace_or_default(), &self.name)
    }

    /// The key by which an object is known: its UID, or `namespace/name` in a file without UIDs. No UID contains a slash, so
    /// the two never collide.
    pub fn key(&self) -> Arc<str> {
        if self.uid.is_empty() {
            self.full_name().into()
        } else {
            Arc::clone(&self.uid)
        }
    }

    /// Whether this is the key of the object. Unlike [`Self::key`] it allocates nothing for an object with a UID.
    pub fn has_key(&self, key: &str) -> bool {
        if self.uid.is_empty() {
            self.full_name() == key
        } else {
            *self.uid == *key
        }
    }
}

/// One owner of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct OwnerReference {
    /// `apps/v1`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub api_version: String,
    /// `ReplicaSet`, `DaemonSet`, ...
    #[serde(deserialize_with = "null_is_default")]
    pub kind: String,
    /// Name of the owner, in the namespace of the object.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The owner's unique id.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
    /// Whether it is the one that manages the object.
    #[serde(deserialize_with = "null_is_default")]
    pub controller: bool,
}

impl PodSpec {
    /// The name of its `PodGroup`, in the namespace of the pod.
    pub fn pod_group(&self) -> Option<&str> {
        let group = self.scheduling_group.as_ref()?;
        Some(&*group.pod_group_name).filter(|name| !name.is_empty())
    }

    /// The scheduler; absent means `default-scheduler`.
    pub fn scheduler_name_or_default(&self) -> &str {
        match self.scheduler_name.as_str() {
            "" => "default-scheduler",
            name => name,
        }
    }
}

/// `spec` of a pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// The node that it is bound to; empty while it is pending.
    #[serde(deserialize_with = "null_is_default")]
    pub node_name: String,
    /// The priority as a number, which the API server sets from the class.
    pub priority: Option<i32>,
    /// Name of the class that gives the priority.
    #[serde(deserialize_with = "null_is_default")]
    pub priority_class_name: String,
    /// Grace period between SIGTERM and SIGKILL, in seconds.
    pub termination_grace_period_seconds: Option<i64>,
    /// Containers that run side by side.
    #[serde(deserialize_with = "null_is_default")]
    pub containers: Vec<Container>,
    /// Containers that run before the others. One with restartPolicy Always is a sidecar.
    #[serde(deserialize_with = "null_is_default")]
    pub init_containers: Vec<Container>,
    /// Resources of the pod as a whole.
    pub resources: Option<ResourceRequirements>,
    /// The usage of the sandbox in addition to the containers.
    #[serde(deserialize_with = "null_is_default")]
    pub overhead: ResourceList,
    /// Volumes that its containers may mount.
    #[serde(deserialize_with = "null_is_default")]
    pub volumes: Vec<Volume>,
    /// Taints that it tolerates.
    #[serde(deserialize_with = "null_is_default")]
    pub tolerations: Vec<Toleration>,
    /// Labels that the node must have, all of them.
    #[serde(deserialize_with = "null_is_default")]
    pub node_selector: TextMap,
    /// The nodes that it requires, and the pods near which it must or must not run.
    pub affinity: Option<Box<Affinity>>,
    /// How evenly pods with its labels must be spread over the nodes.
    #[serde(deserialize_with = "null_is_default")]
    pub topology_spread_constraints: Vec<TopologySpreadConstraint>,
    /// `PreemptLowerPriority` (default) or `Never`.
    #[serde(deserialize_with = "null_is_default")]
    pub preemption_policy: String,
    /// The scheduling gates.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub scheduling_gates: Vec<SchedulingGate>,
    /// Claims on devices.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_claims: Vec<PodResourceClaim>,
    /// Whether it has the node's network.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "std::ops::Not::not"
    )]
    pub host_network: bool,
    /// `false` gives it users of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host_users: Option<bool>,
    /// Name of the scheduler that places it; empty means `default-scheduler`.
    #[serde(deserialize_with = "null_is_default")]
    pub scheduler_name: String,
    /// The group that it is scheduled with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduling_group: Option<Box<SchedulingGroup>>,
    /// Why everything else is unknown: the pod could not be read. No author of a pod can set it.
    #[serde(skip)]
    pub unreadable: Option<Box<str>>,
}

/// A claim on devices, as a pod names it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodResourceClaim {
    /// Its name within the pod.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The `ResourceClaim`, which others may use, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_name: Option<String>,
    /// One is made for the pod from this template; its name is in the pod's status.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_claim_template_name: Option<String>,
}

/// The group that a pod is scheduled with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingGroup {
    /// Name of its `PodGroup`, in the namespace of the pod.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_group_name: String,
}

/// A gate that keeps a pod from being scheduled.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct SchedulingGate {
    /// Name of the gate.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
}

/// A container of a pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Name within the pod.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The image that it runs.
    #[serde(deserialize_with = "null_is_default")]
    pub image: String,
    /// Requests and limits.
    #[serde(deserialize_with = "null_is_default")]
    pub resources: ResourceRequirements,
    /// `Always` makes an init container a sidecar.
    #[serde(deserialize_with = "null_is_default")]
    pub restart_policy: String,
    /// The rules for its exit codes.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub restart_policy_rules: Vec<RestartRule>,
    /// Ports. Only those on the host can be taken by another pod.
    #[serde(deserialize_with = "null_is_default")]
    pub ports: Vec<ContainerPort>,
}

/// The action after a container exits.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct RestartRule {
    /// `Restart`, `RestartAllContainers`.
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
}

/// Requests and limits.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceRequirements {
    /// The amounts that are reserved for it.
    #[serde(deserialize_with = "null_is_default")]
    pub requests: ResourceList,
    /// The amounts that it may not exceed.
    #[serde(deserialize_with = "null_is_default")]
    pub limits: ResourceList,
}

/// A taint that the pod tolerates.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Toleration {
    /// The taint's key; empty with operator Exists matches every taint.
    #[serde(deserialize_with = "null_is_default")]
    pub key: String,
    /// `Equal` (default), `Exists`, `Lt`, `Gt`.
    #[serde(deserialize_with = "null_is_default")]
    pub operator: String,
    /// The value that the taint must have with operator `Equal`.
    #[serde(deserialize_with = "null_is_default")]
    pub value: String,
    /// Empty matches every effect.
    #[serde(deserialize_with = "null_is_default")]
    pub effect: String,
    /// How long a NoExecute taint is tolerated.
    pub toleration_seconds: Option<i64>,
}

/// `status` of a pod.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStatus {
    /// How far it is.
    #[serde(deserialize_with = "null_is_default")]
    pub phase: PodPhase,
    /// Why it has this phase, one word, such as `Evicted`.
    #[serde(deserialize_with = "null_is_default")]
    pub reason: String,
    /// When the node accepted it.
    pub start_time: Option<Timestamp>,
    /// The node that is being freed for it.
    #[serde(deserialize_with = "null_is_default")]
    pub nominated_node_name: String,
    /// `Ready`, `PodScheduled` and the others.
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<Condition>,
    /// `Guaranteed`, `Burstable`, `BestEffort`; empty before the API server or the kubelet has set it.
    #[serde(deserialize_with = "null_is_default")]
    pub qos_class: String,
    /// Status of each container that has been created.
    #[serde(deserialize_with = "null_is_default")]
    pub container_statuses: Vec<ContainerStatus>,
    /// Status of each init container that has been created.
    #[serde(deserialize_with = "null_is_default")]
    pub init_container_statuses: Vec<ContainerStatus>,
    /// The claims on devices that were made for it.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub resource_claim_statuses: Vec<ResourceClaimStatus>,
    /// The requests that the node has reserved for the pod as a whole, its overhead included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub allocated_resources: Option<Box<ResourceList>>,
    /// The actual resources of the whole pod, including its overhead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Box<ResourceRequirements>>,
}

/// A claim on devices that was made for a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ResourceClaimStatus {
    /// Its name within the pod.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// Name of the object; absent if none is needed.
    pub resource_claim_name: Option<String>,
}

/// Status of one container.
#[derive(Debug, Clone, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Name within the pod.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// `containerd://<64 hex digits>`.
    #[serde(rename = "containerID", deserialize_with = "null_is_default")]
    pub container_id: String,
    /// The allocated amounts after an in-place resize.
    pub allocated_resources: Option<ResourceList>,
    /// The actual resources of the container, which may still exceed the allocated ones.
    pub resources: Option<ResourceRequirements>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hundred_thousand_pods_may_wait() {
        // With the counts of an Arc 256 bytes, for which allocators have a class of their own.
        assert!(size_of::<Pod>() <= 240, "{}", size_of::<Pod>());
    }
}
