//! The PodGroup of a bare pod, and its deletion.

use evictd_batch_objects::{
    BUDGET_MAX_UNAVAILABLE, BUDGET_MIN_AVAILABLE, GROUP_NAME, PodGroup, QUEUE_NAME, pod_usage,
};
use evictd_pod::Quantity;
use evictd_pod::wire::{Metadata, OwnerReference, Pod, ResourceList, TextMap};
use serde_json::{Map, Value, json};

const TOPOLOGY_MODE: &str = "volcano.sh/network-topology-mode";
const TOPOLOGY_TIER: &str = "volcano.sh/network-topology-highest-tier";
/// Annotations of an owner with this beginning go over to the group.
const INHERITED: &str = "volcano.sh/";
/// Annotations of the pod that go over to the group.
const ANNOTATIONS: [&str; 3] = [
    "volcano.sh/preemptable",
    "volcano.sh/cooldown-time",
    "volcano.sh/revocable-zone",
];
/// The same, of which only the first counts.
const BUDGETS: [&str; 2] = [BUDGET_MIN_AVAILABLE, BUDGET_MAX_UNAVAILABLE];
/// Labels of the pod that go over to the group.
const LABELS: [&str; 2] = ["volcano.sh/preemptable", "volcano.sh/cooldown-time"];

/// One call.
#[derive(Debug, Clone, PartialEq)]
pub enum Call {
    /// Creates a PodGroup; one that is there already is as good.
    CreateGroup {
        /// Namespace.
        namespace: String,
        /// The whole object.
        group: Value,
    },
    /// Names the pod's group in an annotation.
    AnnotatePod {
        /// Namespace.
        namespace: String,
        /// The pod.
        name: String,
        /// A merge patch.
        patch: Value,
    },
    /// Deletes a PodGroup; one that does not exist counts as deleted.
    DeleteGroup {
        /// Namespace.
        namespace: String,
        /// Its name.
        name: String,
    },
}

/// The objects around a bare pod.
#[derive(Debug, Clone, Copy)]
pub struct Plain<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The annotations of its owners, in their order; of one that is not found, none.
    pub owners: &'a [TextMap],
    /// Its group, if there is one.
    pub group: Option<&'a PodGroup>,
}

/// The name of the pod's group: by the UID of its controller, so that the pods of one owner share it (S6-062), else by its
/// own.
pub fn group_name(metadata: &Metadata) -> String {
    let controller = metadata
        .owner_references
        .iter()
        .find(|owner| owner.controller);
    let uid = controller.map_or(&*metadata.uid, |owner| &owner.uid);
    format!("podgroup-{uid}")
}

/// Whether a pod is of one of these schedulers, and of no group yet, be it one of `scheduling.k8s.io`.
pub fn is_plain(pod: &Pod, schedulers: &[String]) -> bool {
    let grouped = pod.metadata.annotations.get(GROUP_NAME);
    let grouped = grouped.is_some_and(|group| !group.is_empty());
    schedulers.contains(&pod.spec.scheduler_name) && !grouped && pod.spec.scheduling_group.is_none()
}

/// The calls for a new pod: create its group, then annotate the pod. The annotation need not wait for the group,
/// because the scheduler waits for it. Empty for a pod with a group.
pub fn plain_pod(plain: Plain<'_>, schedulers: &[String]) -> Vec<Call> {
    let metadata = &plain.pod.metadata;
    if !is_plain(plain.pod, schedulers) {
        return Vec::new();
    }
    let (namespace, name) = (metadata.namespace_or_default(), group_name(metadata));
    let mut calls = Vec::new();
    if plain.group.is_none() {
        calls.push(Call::CreateGroup {
            namespace: namespace.to_owned(),
            group: group(plain, &name),
        });
    }
    calls.push(Call::AnnotatePod {
        namespace: namespace.to_owned(),
        name: metadata.name.clone(),
        patch: json!({"metadata": {"annotations": {GROUP_NAME: name}}}),
    });
    calls
}

/// The fields of a `ReplicaSet` or a `StatefulSet` that the controller reads.
#[derive(Debug, Clone, Copy)]
pub struct Scaled<'a> {
    /// Namespace and UID.
    pub metadata: &'a Metadata,
    /// `spec.replicas`; absent means one.
    pub replicas: Option<i32>,
}

/// The calls for a new or changed set: without replicas, its pods' group is deleted (S6-061).
pub fn scaled(set: Scaled<'_>) -> Option<Call> {
    (set.replicas == Some(0)).then(|| Call::DeleteGroup {
        namespace: set.metadata.namespace_or_default().to_owned(),
        name: format!("podgroup-{}", set.metadata.uid),
    })
}

fn group(plain: Plain<'_>, name: &str) -> Value {
    let pod = plain.pod;
    let metadata = &pod.metadata;
    let min_member = min_member(plain.owners);
    let mut spec = json!({
        "minMember": min_member,
        "priorityClassName": pod.spec.priority_class_name,
        "minResources": times(&pod_usage(&pod.spec), min_member),
    });
    // Without it the definition's default counts, which is `default` (S6-060).
    if let Some(queue) = metadata.annotations.get(QUEUE_NAME) {
        spec["queue"] = queue.into();
    }
    if let Some(topology) = topology(&metadata.annotations) {
        spec["networkTopology"] = topology;
    }
    let mut annotations = Map::new();
    for (key, text) in plain.owners.iter().flat_map(TextMap::iter) {
        if key.starts_with(INHERITED) && !annotations.contains_key(key) {
            annotations.insert(key.to_owned(), text.into());
        }
    }
    copy(&mut annotations, &metadata.annotations, &ANNOTATIONS);
    let budget = BUDGETS
        .into_iter()
        .find(|key| metadata.annotations.contains_key(key));
    copy(&mut annotations, &metadata.annotations, budget.as_slice());
    let mut labels = Map::new();
    copy(&mut labels, &metadata.labels, &LABELS);
    json!({
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {
            "name": name,
            "namespace": metadata.namespace_or_default(),
            "ownerReferences": owners(metadata),
            "annotations": annotations,
            "labels": labels,
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    })
}

fn copy(into: &mut Map<String, Value>, from: &TextMap, keys: &[&str]) {
    for key in keys {
        if let Some(text) = from.get(key) {
            into.insert((*key).to_owned(), text.into());
        }
    }
}

/// The pod's own owners if one of them controls it, else the pod.
fn owners(pod: &Metadata) -> Value {
    let reference = |owner: &OwnerReference| {
        json!({
            "apiVersion": owner.api_version,
            "kind": owner.kind,
            "name": owner.name,
            "uid": owner.uid,
            "controller": owner.controller,
        })
    };
    let owners = &pod.owner_references;
    if owners.iter().any(|owner| owner.controller) {
        return owners.iter().map(reference).collect();
    }
    json!([{
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod.name,
        "uid": *pod.uid,
        "controller": true,
        "blockOwnerDeletion": true,
    }])
}

/// The value of the first owner that has one; 1 if it is no number or negative (S6-061).
fn min_member(owners: &[TextMap]) -> i32 {
    let said = owners
        .iter()
        .find_map(|annotations| annotations.get(PodGroup::MIN_MEMBER));
    let said = said.and_then(|text| text.parse::<i32>().ok());
    said.filter(|min| *min >= 0).unwrap_or(1)
}

fn times(usage: &ResourceList, count: i32) -> ResourceList {
    let entries = usage.iter().filter(|_| count > 0);
    let multiple = |(name, amount): (&str, &Quantity)| {
        (
            name.to_owned(),
            evictd_batch_objects::times(*amount, i64::from(count)),
        )
    };
    entries.map(multiple).collect()
}

fn topology(annotations: &TextMap) -> Option<Value> {
    let (mode, tier) = (
        annotations.get(TOPOLOGY_MODE),
        annotations.get(TOPOLOGY_TIER),
    );
    if mode.is_none() && tier.is_none() {
        return None;
    }
    let soft = mode.is_some_and(|mode| mode.eq_ignore_ascii_case("soft"));
    let mut topology = json!({"mode": if soft { "soft" } else { "hard" }});
    if let Some(tier) = tier.and_then(|tier| tier.parse::<i32>().ok()) {
        topology["highestTierAllowed"] = tier.into();
    }
    Some(topology)
}
