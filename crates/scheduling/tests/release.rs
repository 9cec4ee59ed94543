//! What Kubernetes 1.37 decides or says differently.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::Cluster;
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_scheduling::{Change, Framework, PreemptionInput};
use scenario::{Scenario, added, node, pod};
use serde_json::{from_value, json};

mod scenario;

#[test]
fn s7_083_a_preemption_that_was_found_is_in_the_message() {
    let nodes = "0/1 nodes are available: 1 Insufficient cpu.";
    let found = " preemption: found a potential placement for pod on node b, preempting 1 victims";
    for (release, rest) in [(Release::V1_36, ""), (Release::V1_37, found)] {
        let mut cluster = Cluster::of(Compatibility::of(release));
        let node = json!({"metadata": {"name": "b"}, "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "9"}}});
        assert!(cluster.add_node(&from_value(node).unwrap()));
        let pod = |name: &str, node: &str, priority: i32| {
            let container = json!({"name": "main", "resources": {"requests": {"cpu": "1500m"}}});
            let spec = json!({"nodeName": node, "priority": priority, "containers": [container]});
            from_value(json!({"metadata": {"name": name, "uid": name}, "spec": spec})).unwrap()
        };
        cluster.add_pod(pod("batch", "b", 0)).unwrap();
        let framework = Framework::of_default(&mut cluster);
        let web = cluster.pod(pod("web", "", 1000)).unwrap();
        let filtered = framework.filter(&cluster, &web);
        let result = framework.post_filter(&cluster, &web, &filtered, PreemptionInput::default());
        let result = result.unwrap();
        assert_eq!(result.message, None);
        assert_eq!(result.fit_error, format!("{nodes}{rest}"));
    }
}

/// The pod `gated` is nominated to the only node, on which `low` would fit, too.
#[test]
fn s7_227_from_1_37_on_the_nomination_of_a_gated_pod_holds_its_place() {
    for (release, placed, label) in [
        (Release::V1_36, true, "UnschedulablePodAdd"),
        (Release::V1_37, false, "UnscheduledPodAdd"),
    ] {
        let mut scenario = Scenario::new();
        let compatibility = Compatibility::of(release);
        scenario.scheduler.set_compatibility(compatibility);
        scenario.node(node("one").cpu("2"));
        let gated = pod("gated").cpu("1500m").set("/spec/priority", 10);
        let gated = gated.set("/spec/schedulingGates", json!([{ "name": "wait" }]));
        scenario.pod(gated.set("/status/nominatedNodeName", "one"));
        scenario.pod(pod("low").cpu("1"));
        assert_eq!(!scenario.placed().is_empty(), placed, "{release:?}");
        let mut incoming = scenario.scheduler.take_incoming_pods();
        assert!(incoming.any(|(_, event, _)| event == label), "S7-250");
    }
}

/// A pod of which one container grows from 1 to 4 cores and the other one shrinks from 4 to 1. 1.36 counts 8 of them.
#[test]
fn s7_225_from_1_37_on_the_largest_of_three_sums_counts_for_a_pod_in_resize() {
    for (release, requested) in [(Release::V1_36, 8000), (Release::V1_37, 5000)] {
        let mut scenario = Scenario::new();
        scenario
            .scheduler
            .set_compatibility(Compatibility::of(release));
        scenario.node(node("one").cpu("8"));
        let cpu = |amount: &str| json!({ "requests": { "cpu": amount } });
        let report = |name: &str, amount: &str| json!({ "name": name, "allocatedResources": { "cpu": amount }, "resources": cpu(amount) });
        let containers =
            json!([{ "name": "a", "resources": cpu("4") }, { "name": "b", "resources": cpu("1") }]);
        let resized = pod("resized").on("one").set("/spec/containers", containers);
        let reports = json!([report("a", "1"), report("b", "4")]);
        scenario.pod(resized.set("/status/containerStatuses", reports));
        assert_eq!(scenario.requested("one"), requested, "{release:?}");
        scenario.pod(pod("new").cpu("3"));
        let fits = release == Release::V1_37;
        assert_eq!(!scenario.placed().is_empty(), fits, "{release:?}");
    }
}

/// The nomination is emptied by another client. Then the node is free for pods of lower priority.
#[test]
fn s7_229_an_emptied_nomination_leaves_nothing_behind() {
    for release in Release::ALL {
        let mut scenario = Scenario::new();
        scenario
            .scheduler
            .set_compatibility(Compatibility::of(release));
        scenario.node(node("one").cpu("2"));
        let nominated = |node: &str| {
            let pod = pod("large").cpu("9").set("/spec/priority", 10);
            pod.set("/spec/schedulingGates", json!([{ "name": "wait" }]))
                .set("/status/nominatedNodeName", node)
        };
        let (before, after) = (nominated("one").read(), nominated("").read());
        scenario.change_pod(None, Some(&before));
        scenario.change_pod(Some(&before), Some(&after));
        let queue = scenario.scheduler.queue();
        assert_eq!(queue.nominated_node("large"), None);
        scenario.pod(pod("low").cpu("1"));
        assert_eq!(scenario.placed().len(), 1, "{release:?}");
    }
}

#[test]
fn s7_224_from_1_37_on_an_image_volume_counts_like_a_container() {
    for (release, raw) in [
        (Release::V1_36, 100),
        (Release::V1_37, 100 * (1000 - 23) / (2000 - 23)),
    ] {
        let mut cluster = Cluster::of(Compatibility::of(release));
        for name in ["a", "b"] {
            let node = json!({"metadata": {"name": name}, "status": {
                "allocatable": {"cpu": "2", "memory": "4Gi", "pods": "9"},
                "images": [{"names": ["model:latest"], "sizeBytes": 1000 * 1024 * 1024_i64}] }});
            assert!(cluster.add_node(&from_value(node).unwrap()));
        }
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "containers": [{"name": "main", "image": "small:1"}],
            "volumes": [{"name": "v", "image": {"reference": "model"}}]}});
        let pod = cluster.pod(from_value(pod).unwrap()).unwrap();
        let framework = Framework::of_default(&mut cluster);
        let nodes: Vec<_> = cluster.node_ids().collect();
        let scores = framework.score(&cluster, &pod, &nodes).unwrap_or_default();
        let images = scores
            .plugins
            .iter()
            .find(|plugin| plugin.name == "ImageLocality");
        assert_eq!(images.unwrap().raw, [raw, raw], "{release:?}");
    }
}

/// S7-221: of two nodes that are equal otherwise, the one with more free storage is taken; before, the first by name.
#[test]
fn s7_221_from_1_37_on_the_node_with_more_free_storage_wins() {
    for (release, expected) in [(Release::V1_36, "a"), (Release::V1_37, "b")] {
        let mut scenario = Scenario::new();
        scenario
            .scheduler
            .set_compatibility(Compatibility::of(release));
        let class = json!({ "metadata": { "name": "late" }, "provisioner": "lvm", "volumeBindingMode": "WaitForFirstConsumer" });
        scenario.change(Change::StorageClass(added(class)));
        let driver = json!({ "metadata": { "name": "lvm" }, "spec": { "storageCapacity": true } });
        scenario.change(Change::CsiDriver(added(driver)));
        for (name, capacity) in [("a", "20Gi"), ("b", "100Gi")] {
            scenario.node(node(name).cpu("8").memory("8Gi").label("zone", name));
            let room = json!({ "metadata": { "name": name }, "storageClassName": "late", "capacity": capacity,
                "nodeTopology": { "matchLabels": { "zone": name } } });
            scenario.change(Change::CsiStorageCapacity(added(room)));
        }
        let claim = json!({ "metadata": { "name": "data" }, "spec": { "storageClassName": "late",
            "resources": { "requests": { "storage": "10Gi" } } }, "status": { "phase": "Pending" } });
        scenario.change(Change::PersistentVolumeClaim(added(claim)));
        let volumes = json!([{ "name": "data", "persistentVolumeClaim": { "claimName": "data" } }]);
        scenario.pod(pod("p").cpu("1").set("/spec/volumes", volumes));
        let nodes: Vec<String> = scenario.placed().into_values().collect();
        assert_eq!(nodes, [expected], "{release:?}");
    }
}
