//! Groups of pods that kube-scheduler does not read, because they are of another scheduler or of a plugin that it lacks.

use super::assumptions::Assumptions;
use super::items::Found;
use evictd_manifests::group_of;
use evictd_pod::wire::{self, Metadata};
use serde::Deserialize;

/// A kind of groups by the API that defines it.
pub(super) struct OtherGroup {
    api_group: &'static str,
    /// The program that reads it.
    reader: &'static str,
    /// The label or annotation of its pods.
    mark: &'static str,
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
