//! Reduces a pod from a server to the fields that evictd uses, and limits its size. The author of a pod decides how
//! large it is, and evictd has a limit of 64 MiB for everything.

use super::snapshot::kept;
use evictd_decision::record;
use evictd_eviction::rules::PREFERENCE_ANNOTATION;
use evictd_pod::{
    Pod,
    pod::{CONFIG_MIRROR, CONFIG_SOURCE},
    resources::{EPHEMERAL_STORAGE, MEMORY},
    wire,
};
use serde_json::json;
use std::{collections::BTreeSet, sync::Arc};

/// A pod with more bytes of labels than this keeps only those that selectors use.
const LABELS: usize = 4 << 10;
/// The conditions that count: evictions of the pod, and the progress of a resize of its requests.
const CONDITIONS: [&str; 2] = ["DisruptionTarget", "PodResizePending"];
/// Longer annotations are dropped; none that evictd uses is longer.
const ANNOTATION: usize = 256;
/// The most directories of the node that a reduced pod keeps.
const HOST_PATHS: usize = 16;
/// The longest path of such a directory, in bytes.
const HOST_PATH: usize = 256;
/// The most bytes of one pod.
const POD: usize = 32 << 10;

/// Removes every field of the pod that evictd does not use; `named` are the label keys that selectors use. Returns the
/// rest as JSON. A pod that has ended keeps name, owner, priority, requests and the places of its volumes. It may still
/// run and its files may still be there.
pub(crate) fn trim(pod: &mut wire::Pod, named: &BTreeSet<String>) -> Arc<str> {
    let has_ended = pod.status.phase.has_ended();
    let metadata = &mut pod.metadata;
    trim_annotations(metadata);
    let labels = metadata.labels.iter();
    let size: usize = labels.map(|(key, value)| key.len() + value.len()).sum();
    if has_ended || size > LABELS {
        metadata.labels.retain(|key, _| named.contains(key));
    }
    metadata.owner_references.retain(|owner| owner.controller);
    metadata.owner_references.truncate(1);
    let conditions = &mut pod.status.conditions;
    conditions.retain(|condition| CONDITIONS.contains(&&*condition.kind));
    conditions.truncate(CONDITIONS.len());
    for condition in conditions {
        condition.message.clear();
    }
    // Admission only checks the required node affinity.
    let affinity = pod.spec.affinity.take();
    pod.spec.affinity = affinity.and_then(|affinity| affinity.required_of_node());
    pod.spec.topology_spread_constraints = Vec::new();
    if has_ended {
        reduce(pod);
    }
    let text = kept(pod);
    if text.len() <= POD {
        return text;
    }
    let spec = &mut *pod.spec;
    spec.affinity = None;
    spec.tolerations = Vec::new();
    spec.node_selector.clear();
    let containers = &mut spec.containers;
    for container in containers.iter_mut().chain(&mut spec.init_containers) {
        container.ports = Vec::new();
    }
    let text = kept(pod);
    if text.len() <= POD {
        return text;
    }
    reduce(pod);
    kept(pod)
}

fn trim_annotations(metadata: &mut wire::Metadata) {
    let stored = !metadata.resource_version.is_empty();
    let annotations = &mut metadata.annotations;
    if let Some(mark) = annotations.get(record::ANNOTATION) {
        let mark = match record::time(mark) {
            Some(time) => json!({ "time": time }).to_string(),
            None => "{}".to_owned(),
        };
        annotations.insert(record::ANNOTATION, mark);
    }
    annotations.retain(|key, value| {
        let counts = match key {
            PREFERENCE_ANNOTATION | CONFIG_MIRROR | record::ANNOTATION => true,
            // Every pod stored by an API server has this source, whatever the annotation says.
            CONFIG_SOURCE => !stored,
            _ => false,
        };
        counts && value.len() <= ANNOTATION
    });
}

/// Reduces the pod's containers to their requests and limits. Of its volumes it keeps the first directories of the
/// node, and one volume for the others of each kind. That one has no name, so its directory is that of the kind, with
/// all volumes of the kind in it.
fn reduce(pod: &mut wire::Pod) {
    let whole = Pod::from_wire(pod.clone());
    let mut asked = wire::ResourceRequirements::default();
    let mut overhead = wire::ResourceList::default();
    for name in [MEMORY, EPHEMERAL_STORAGE] {
        // The kubelet counts either the reserved amount or nothing, and never overhead alone.
        let (request, reserved) = (whole.request(name), whole.reserved(name));
        if !request.is_zero() {
            asked.requests.insert(name, request);
        } else if !reserved.is_zero() {
            overhead.insert(name, reserved);
        }
    }
    let spec = std::mem::take(&mut pod.spec);
    pod.spec = wire::PodSpec {
        node_name: spec.node_name.clone(),
        priority: spec.priority,
        termination_grace_period_seconds: spec.termination_grace_period_seconds,
        resources: (!asked.requests.is_empty()).then_some(asked),
        overhead,
        volumes: volumes_by_kind(&spec.volumes),
        ..wire::PodSpec::default()
    }
    .into();
    let status = std::mem::take(&mut *pod.status);
    *pod.status = wire::PodStatus {
        phase: status.phase,
        reason: status.reason,
        start_time: status.start_time,
        conditions: status.conditions,
        qos_class: whole.qos.as_str().to_owned(),
        ..wire::PodStatus::default()
    };
}

fn volumes_by_kind(volumes: &[wire::Volume]) -> Vec<wire::Volume> {
    let on_disk = |dir: &wire::EmptyDir| dir.medium.is_empty();
    let empty_dirs = wire::Volume {
        empty_dir: Some(wire::EmptyDir::default()),
        ..wire::Volume::default()
    };
    let config_maps = wire::Volume {
        config_map: Some(wire::Present {}),
        ..wire::Volume::default()
    };
    let repositories = wire::Volume {
        git_repo: Some(wire::Present {}),
        ..wire::Volume::default()
    };
    let any = |is: &dyn Fn(&wire::Volume) -> bool| volumes.iter().any(is);
    let has_empty_dirs = any(&|one| one.empty_dir.as_ref().is_some_and(on_disk));
    let kinds = [
        (has_empty_dirs, empty_dirs),
        (any(&|one| one.config_map.is_some()), config_maps),
        (any(&|one| one.git_repo.is_some()), repositories),
    ];
    let kinds = kinds.into_iter();
    let kinds = kinds.filter_map(|(has, volume)| has.then_some(volume));
    let of_node = volumes.iter().filter_map(|volume| {
        let host_path = volume.host_path.as_ref();
        let host_path = host_path.filter(|host| host.path.len() <= HOST_PATH)?;
        Some(wire::Volume {
            name: volume.name.clone(),
            host_path: Some(host_path.clone()),
            ..wire::Volume::default()
        })
    });
    kinds.chain(of_node.take(HOST_PATHS)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn trimmed(pod: &Value, named: &[&str]) -> (wire::Pod, String) {
        let mut pod: wire::Pod = serde_json::from_value(pod.clone()).unwrap();
        let named = named.iter().map(|key| (*key).to_owned()).collect();
        let text = trim(&mut pod, &named);
        (pod, text.to_string())
    }

    fn pod() -> Value {
        json!({
            "metadata": {"name": "a", "namespace": "shop", "uid": "1", "resourceVersion": "7"},
            "spec": {"priority": 7, "terminationGracePeriodSeconds": 9, "containers": [
                {"name": "main", "resources": {"requests": {"memory": "64Mi", "cpu": "1"}}},
                {"name": "side", "resources": {"requests": {"memory": "1Mi"}}},
            ]},
            "status": {"phase": "Running", "containerStatuses": [{"name": "main", "containerID": "containerd://ab"}]},
        })
    }

    #[test]
    fn only_annotations_that_count_are_kept_and_none_at_length() {
        let long = "x".repeat(250 << 10);
        let mut pod = pod();
        pod["metadata"]["annotations"] = json!({
            "theirs": long, "evictd.dev/theirs": "x", CONFIG_SOURCE: "file", CONFIG_MIRROR: "cafe",
            PREFERENCE_ANNOTATION: "avoid",
            record::ANNOTATION: json!({"time": "2026-11-21T12:00:00Z", "message": long}).to_string(),
        });
        let (kept, text) = trimmed(&pod, &[]);
        let expected = json!({
            CONFIG_MIRROR: "cafe", PREFERENCE_ANNOTATION: "avoid", record::ANNOTATION: r#"{"time":"2026-11-21T12:00:00Z"}"#,
        });
        assert_eq!(json!(kept.metadata)["annotations"], expected);
        assert!(text.len() < 1000, "{text}");
        for key in [CONFIG_MIRROR, PREFERENCE_ANNOTATION] {
            pod["metadata"]["annotations"] = json!({ key: long });
            assert_eq!(trimmed(&pod, &[]).0.metadata.annotations.len(), 0);
        }
        // The annotation of a pod that no API server has stored was written by the kubelet itself.
        pod["metadata"]["annotations"] = json!({ CONFIG_SOURCE: "file" });
        pod["metadata"]["resourceVersion"] = json!("");
        assert_eq!(
            trimmed(&pod, &[]).0.metadata.annotations.get(CONFIG_SOURCE),
            Some("file")
        );
    }

    #[test]
    fn labels_are_kept_up_to_a_bound_and_those_that_selectors_name_in_any_case() {
        let mut pod = pod();
        pod["metadata"]["labels"] = json!({"app": "db", "x": "y"});
        assert_eq!(trimmed(&pod, &[]).0.metadata.labels.len(), 2);
        for number in 0..1000 {
            pod["metadata"]["labels"][format!("label-{number}")] = json!("value");
        }
        let (kept, _) = trimmed(&pod, &["app", "other"]);
        assert_eq!(json!(kept.metadata)["labels"], json!({"app": "db"}));
        pod["metadata"]["labels"] = json!({"app": "db", "x": "y"});
        pod["status"]["phase"] = json!("Failed");
        let (kept, _) = trimmed(&pod, &["app"]);
        assert_eq!(json!(kept.metadata)["labels"], json!({"app": "db"}));
    }

    #[test]
    fn s1_068_the_request_that_counts_is_the_same_however_small_the_pod_is_kept() {
        let pending = json!({"type": "PodResizePending", "status": "True", "reason": "Infeasible",
            "message": "Node didn't have enough capacity: memory"});
        let mut pod = pod();
        pod["spec"]["resources"] = json!({"requests": {"memory": "64Gi", "cpu": "1"}});
        pod["spec"]["containers"][0]["resources"]["requests"]["ephemeral-storage"] = json!("9Gi");
        pod["status"]["allocatedResources"] = json!({"memory": "1Gi", "cpu": "1"});
        pod["status"]["resources"] = json!({"requests": {"memory": "2Gi", "cpu": "1"}});
        pod["status"]["conditions"] = json!([{"type": "Ready"}, pending]);
        let mut crowded = pod.clone();
        crowded["spec"]["volumes"] = json!(vec![json!({"name": "v", "emptyDir": {}}); 10_000]);
        let requests = |pod: &Pod| {
            let [memory, disk] = [MEMORY, EPHEMERAL_STORAGE];
            let [kubelet, reserved] =
                [Pod::request, Pod::reserved].map(|of| [of(pod, memory), of(pod, disk)]);
            (kubelet, reserved, pod.pod_level_memory_request)
        };
        let expected = Pod::from_wire(serde_json::from_value(pod.clone()).unwrap());
        assert_eq!(expected.memory_request.to_string(), "1Gi");
        for pod in [&pod, &crowded] {
            let (_, text) = trimmed(pod, &[]);
            let kept = Pod::from_wire(serde_json::from_str(&text).unwrap());
            assert_eq!(requests(&kept), requests(&expected), "{text}");
        }
        let kept = Pod::from_wire(trimmed(&pod, &[]).0);
        assert_eq!(kept.pending_resize(MEMORY), expected.pending_resize(MEMORY));
        assert_eq!(kept.fit_request(MEMORY), expected.fit_request(MEMORY));
        assert!(kept.pending_resize(MEMORY).is_some());
    }

    #[test]
    fn no_pod_is_kept_large_and_each_keeps_what_ranks_it() {
        let whole = pod();
        let mut tolerant = pod();
        let toleration = json!({"key": "k".repeat(300), "operator": "Exists"});
        tolerant["spec"]["tolerations"] = json!(vec![toleration; 3000]);
        let mut crowded = pod();
        crowded["spec"]["volumes"] = json!(vec![json!({"name": "v", "emptyDir": {}}); 10_000]);
        let mut ended = pod();
        ended["status"]["phase"] = json!("Failed");
        let expected = Pod::from_wire(serde_json::from_value(whole.clone()).unwrap());
        ended["spec"]["volumes"] = json!([
            {"name": "a", "emptyDir": {"sizeLimit": "1Gi"}}, {"name": "b", "configMap": {"name": "c"}},
            {"name": "d", "emptyDir": {"medium": "Memory"}}, {"name": "e", "hostPath": {"path": "/data"}},
        ]);
        let directories_of = |pod: &Pod| {
            let volumes = pod.volumes.iter();
            let directories = volumes.map(|one| one.plugin_directory.or(one.host_path.as_deref()));
            let directories = directories.map(|directory| directory.unwrap().to_owned());
            directories.collect::<Vec<_>>()
        };
        let (empty_dir, config_map) = ("kubernetes.io~empty-dir", "kubernetes.io~configmap");
        for (pod, containers, directories) in [
            (whole, 2, vec![]),
            (tolerant, 2, vec![]),
            (crowded, 0, vec![empty_dir]),
            (ended, 0, vec![empty_dir, config_map, "/data"]),
        ] {
            let (kept, text) = trimmed(&pod, &[]);
            assert!(text.len() <= POD);
            let kept = Pod::from_wire(kept);
            assert_eq!(kept.memory_request, expected.memory_request);
            assert_eq!((kept.qos, kept.priority()), (expected.qos, 7));
            assert_eq!(kept.termination_grace_period_seconds, Some(9));
            assert_eq!(kept.containers.len(), containers);
            assert_eq!(directories_of(&kept), directories);
            // Reducing the result again, as after a restart, changes nothing.
            let again: Value = serde_json::from_str(&text).unwrap();
            assert_eq!(trimmed(&again, &[]).1, text);
        }
    }
}
