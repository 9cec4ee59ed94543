//! Groups of pods that kube-scheduler does not read, because they are of another scheduler or of a plugin that it lacks, and
//! workloads whose pods only their controllers know.

use super::assumptions::Assumptions;
use super::items::Found;
use evictd_manifests::{Kind, group_of};
use evictd_pod::wire::{self, Metadata};
use serde::Deserialize;
use serde_json::Value;

/// A kind of groups by the API that defines it.
pub(super) struct OtherGroup {
    api_group: &'static str,
    /// The program that reads it.
    reader: &'static str,
    /// The label or annotation of its pods.
    mark: &'static str,
}

/// How deep in a workload a pod template is looked for.
const DEEPEST_TEMPLATE: usize = 8;

/// Notes a workload that has pod templates in a place of its own, so that its pods are not known.
pub(super) fn note_workload(found: &Found<'_>, assumptions: &mut Assumptions) {
    let Ok(value) = serde_json::from_slice::<Value>(found.text) else {
        return;
    };
    if !has_template(&value["spec"], DEEPEST_TEMPLATE) {
        return;
    }
    let group = group_of(found.api_version).unwrap_or_default();
    let assumption = if group.ends_with(".volcano.sh") {
        "batch sessions place the pods of Volcano's jobs, and no command here does: see evictd-batch why"
    } else {
        "workloads are left out whose pods only their controllers know: give the pods themselves"
    };
    assumptions.add(assumption, || {
        let metadata = Metadata::deserialize(&value["metadata"]).unwrap_or_default();
        let title = Kind::title_of_other(found.kind, found.api_version);
        format!("{title} {}", metadata.full_name())
    });
}

/// Whether a part of a workload is the spec of a pod, or contains one.
fn has_template(value: &Value, depth: usize) -> bool {
    let within = |value: &Value| depth > 0 && has_template(value, depth - 1);
    match value {
        Value::Object(fields) => {
            let containers = fields.get("containers").and_then(Value::as_array);
            let is_pod = containers.is_some_and(|containers| {
                containers
                    .iter()
                    .any(|container| container["name"].is_string())
            });
            is_pod || fields.values().any(within)
        }
        Value::Array(items) => items.iter().any(within),
        _ => false,
    }
}

/// The metadata of an object of any kind.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Named {
    metadata: Metadata,
}

impl OtherGroup {
    const ALL: [Self; 2] = [
        Self {
            api_group: "scheduling.x-k8s.io",
            reader: "the plugin Coscheduling",
            mark: "scheduling.x-k8s.io/pod-group",
        },
        Self {
            api_group: "scheduling.volcano.sh",
            reader: "batch sessions",
            mark: "scheduling.k8s.io/group-name",
        },
    ];

    /// Notes an object of such a kind.
    pub(super) fn note_object(found: &Found<'_>, assumptions: &mut Assumptions) {
        let is_kind = |group: &&Self| {
            found.kind == "PodGroup" && group_of(found.api_version) == Some(group.api_group)
        };
        let Some(group) = Self::ALL.iter().find(is_kind) else {
            return;
        };
        let value = serde_json::from_slice::<Named>(found.text);
        let name = value.unwrap_or_default().metadata.full_name();
        let (api, reader) = (group.api_group, group.reader);
        let assumption = format!(
            "groups of {api} are those of {reader}, and no pod is a member of them here; kube-scheduler's own are of scheduling.k8s.io"
        );
        assumptions.add(assumption, || format!("PodGroup {name}"));
    }

    /// Notes the group of a pod that waits.
    pub(super) fn note(pod: &wire::Pod, assumptions: &mut Assumptions) {
        let metadata = &pod.metadata;
        for Self { mark, reader, .. } in Self::ALL {
            let value = metadata.labels.get(mark);
            let Some(group) = value.or_else(|| metadata.annotations.get(mark)) else {
                continue;
            };
            let name = || format!("Pod {} of group {group}", metadata.full_name());
            let assumption = format!(
                "pods with {mark} are scheduled one by one, because only {reader} would place their group as a whole"
            );
            assumptions.add(assumption, name);
        }
    }
}
