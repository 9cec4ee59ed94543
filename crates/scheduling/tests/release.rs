//! What Kubernetes 1.37 decides or says differently.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::Cluster;
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_scheduling::{Framework, PreemptionInput};
use scenario::{Scenario, node, pod};
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
