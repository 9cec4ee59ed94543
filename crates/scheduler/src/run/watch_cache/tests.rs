//! The fields that are kept of an object, and how equal objects share them.

use super::*;
use serde_json::json;

fn pod(node: &str) -> Arc<wire::Pod> {
    let pod = json!({
        "metadata": { "name": "web-1", "namespace": "shop", "uid": "u-1", "resourceVersion": "17",
            "labels": { "app": "web", "empty": "", "pod-name": "web-1" }, "annotations": { "long": "text" },
            "deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30 },
        "spec": { "nodeName": node, "priority": 7, "schedulerName": "mine", "nodeSelector": { "disk": "" },
            "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1500m", "memory": "1Gi" } },
                "ports": [{ "hostPort": 80, "protocol": "TCP" }] }],
            "volumes": [{ "name": "a", "ephemeral": {} }, { "name": "b", "emptyDir": {} }, { "name": "c",
                "persistentVolumeClaim": { "claimName": "disk" } }],
            "tolerations": [{ "operator": "Exists" }],
            "affinity": { "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
                { "topologyKey": "zone", "labelSelector": {}, "namespaceSelector": {} }, { "topologyKey": "host" }] } },
            "topologySpreadConstraints": [{ "maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": { "matchExpressions": [{ "key": "app", "operator": "Exists", "values": [] }] } }] },
        "status": { "phase": "Running", "reason": "none", "startTime": "2026-01-01T00:00:00Z" },
    });
    Arc::new(serde_json::from_value(pod).unwrap())
}

#[test]
fn a_compact_pod_is_restored_with_every_field_that_scheduling_needs() {
    let mut interner = Interner::default();
    let pod = pod("one");
    let kept = wire::Pod::compact(&pod, &mut interner);
    assert!(wire::Pod::has_version(&kept, "17") && !wire::Pod::has_version(&kept, "7"));
    assert!(wire::Pod::has_uid(&kept, "u-1") && !wire::Pod::has_uid(&kept, "u-2"));
    let restored = wire::Pod::restore(&kept);
    let CachedPod::Assigned(placed) = &kept else {
        panic!("it has a node");
    };
    assert_eq!(placed.key(), ["shop", "web-1"]);
    let mut expected = (*pod).clone();
    trim(&mut expected);
    assert_eq!(restored.metadata.resource_version, "17".into());
    assert_eq!(
        serde_json::to_value(&*restored).unwrap(),
        serde_json::to_value(expected).unwrap()
    );
}

#[test]
fn a_version_and_a_phase_of_no_known_form_are_restored_and_cost_other_pods_nothing() {
    for (version, phase) in [
        ("v7", "Odd"),
        ("007", "Failed"),
        ("17", ""),
        ("", "Pending"),
    ] {
        let mut odd = (*pod("one")).clone();
        odd.metadata.resource_version = version.into();
        odd.status.phase = wire::PodPhase::of(phase);
        let kept = wire::Pod::compact(&Arc::new(odd), &mut Interner::default());
        let restored = wire::Pod::restore(&kept);
        assert_eq!(&*restored.metadata.resource_version, version);
        assert_eq!(restored.status.phase.as_str(), phase);
        assert!(wire::Pod::has_version(&kept, version) && !wire::Pod::has_version(&kept, "7"));
    }
    // The next size of an allocation is 112 bytes.
    assert!(size_of::<CompactPod>() <= 96);
}

/// Otherwise the end of the resize would not show that room is free, and would wake no pod.
#[test]
fn s4_040_a_pod_that_shrinks_is_kept_with_what_it_still_holds() {
    let report = json!({ "name": "c", "allocatedResources": { "memory": "1Gi" },
        "resources": { "requests": { "memory": "4Gi" } } });
    let wanted = json!({ "requests": { "memory": "1Gi" } });
    let at_pod_level = json!({ "metadata": { "uid": "1" }, "status": report,
        "spec": { "nodeName": "one", "containers": [{ "name": "c" }], "resources": wanted } });
    let at_container_level = json!({ "metadata": { "uid": "1" }, "status": { "containerStatuses": [report] },
        "spec": { "nodeName": "one", "containers": [{ "name": "c", "resources": wanted }] } });
    for pod in [at_pod_level, at_container_level] {
        let pod: Arc<wire::Pod> = Arc::new(serde_json::from_value(pod).unwrap());
        let kept = wire::Pod::compact(&pod, &mut Interner::default());
        let kept = wire::Pod::restore(&kept);
        let request = |pod| requests::Requests::of(pod, Counted::Scheduled).get("memory");
        assert_eq!(request(&kept).to_string(), "4Gi");
        assert_eq!(request(&kept), request(&pod));
    }
}

#[test]
fn the_size_of_a_pod_with_many_containers_includes_their_memory() {
    assert!(size_of::<wire::Container>() <= PART);
    let containers = vec![json!({ "name": "c", "image": "i" }); 10_000];
    for node in ["", "one"] {
        let pod = json!({ "spec": { "nodeName": node, "containers": containers } });
        let pod: wire::Pod = serde_json::from_value(pod).unwrap();
        let size = Object::size(&pod, 300_000);
        assert!(size > 9_000 * size_of::<wire::Container>(), "{size}");
    }
    // A field that is dropped takes no memory.
    let pod = json!({ "spec": { "containers": [{ "env": "x".repeat(1 << 20) }] } });
    let pod: wire::Pod = serde_json::from_value(pod).unwrap();
    assert!(Object::size(&pod, 1 << 20) < 8 << 10);
}

#[test]
fn equal_compact_pods_share_their_fields_and_unused_values_are_dropped() {
    let mut interner = Interner::default();
    let kept: Vec<CachedPod> = ["one", "two", "three"]
        .map(|node| wire::Pod::compact(&pod(node), &mut interner))
        .into();
    assert_eq!(
        (interner.specs.values.len(), interner.labels.values.len()),
        (1, 1)
    );
    drop(kept);
    for number in 0..3000 {
        interner.names.shared(number.to_string());
    }
    let left = interner.names.values.len();
    assert!(left < 1100, "{left}");
}

#[test]
fn a_pending_pod_is_cached_without_a_copy() {
    let pod = pod("");
    let kept = wire::Pod::compact(&pod, &mut Interner::default());
    assert!(Arc::ptr_eq(&pod, &wire::Pod::restore(&kept)));
}

#[test]
fn a_pod_is_in_one_table_whether_it_is_pending_or_assigned() {
    let mut interner = Interner::default();
    let mut compact = |node: &str| wire::Pod::compact(&pod(node), &mut interner);
    let mut table = PodTable::default();
    assert!(table.insert(compact("")).is_none());
    let pending = table.insert(compact("one")).unwrap();
    assert!(matches!(pending, CachedPod::Pending(_)));
    let assigned = table.insert(compact("two")).unwrap();
    assert_eq!(wire::Pod::restore(&assigned).spec.node_name, "one");
    let assigned = table.insert(compact("")).unwrap();
    assert_eq!(wire::Pod::restore(&assigned).spec.node_name, "two");
    assert_eq!(table.len(), 1);
    assert!(table.remove(["shop", "web"]).is_none());
    assert!(table.remove(["shop", "web-1"]).is_some());
    assert!(table.remove(["shop", "web-1"]).is_none());
    assert!(table.insert(compact("one")).is_none());
    assert_eq!(table.into_objects().count(), 1);
}

#[test]
fn two_states_of_a_pod_share_its_uid() {
    let before = CachedPod::Pending(Whole(pod("")));
    let mut after = (*pod("")).clone();
    after.share_with(&before);
    let CachedPod::Pending(before) = before else {
        panic!("it waits");
    };
    assert!(Arc::ptr_eq(&before.0.metadata.uid, &after.metadata.uid));
}

#[test]
fn equal_pending_pods_share_spec_and_status_and_unused_values_are_dropped() {
    let mut interner = Interner::default();
    let pending = |interner: &mut Interner, name: &str, cpu: &str| {
        let volume = format!("kube-api-access-{name}");
        let pod = json!({ "metadata": { "name": name, "annotations": { "long": "text" } },
            "spec": { "volumes": [{ "name": volume, "projected": {} }, { "name": "disk", "ephemeral": {} }],
                "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] } });
        let mut pod: wire::Pod = serde_json::from_value(pod).unwrap();
        pod.prune(interner);
        pod
    };
    let [one, two, other] = [("one", "1"), ("two", "1"), ("other", "2")]
        .map(|(name, cpu)| pending(&mut interner, name, cpu));
    assert!(std::ptr::eq(&raw const *one.spec, &raw const *two.spec));
    assert!(std::ptr::eq(&raw const *one.status, &raw const *two.status));
    assert!(!std::ptr::eq(&raw const *one.spec, &raw const *other.spec));
    assert_eq!(
        (one.spec.volumes.len(), one.metadata.annotations.len()),
        (1, 0)
    );
    drop((one, two, other));
    for number in 0..3000 {
        pending(&mut interner, "many", &number.to_string());
    }
    let left = interner.specs.values.len();
    assert!(left < 1100, "{left}");
}
