//! The QoS class of a pod that no API server has stored.

use evictd_testkit::program;
use serde_json::{Value, json};
use std::fs;

/// The class follows from the release of the node's kubelet.
#[test]
fn s7_226_empty_resources_of_a_pod_make_it_best_effort_in_1_36_only() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, value: &Value| {
        let path = directory.path().join(name);
        fs::write(&path, value.to_string()).unwrap();
        path
    };
    let requests = json!({"requests": {"memory": "1Mi"}});
    let pod = json!({"kind": "Pod", "metadata": {"name": "web"}, "spec": {
        "resources": {}, "containers": [{"name": "c", "image": "x", "resources": requests}]}});
    let pod = file("pod.json", &pod);
    for (version, allowed) in [("v1.36.2", false), ("v1.37.0", true)] {
        let node = json!({"kind": "Node", "metadata": {"name": "node-1"}, "status": {
            "allocatable": {"cpu": "2", "memory": "8Gi", "pods": "110"},
            "nodeInfo": {"kubeletVersion": version},
            "conditions": [{"type": "Ready", "status": "True"}, {"type": "MemoryPressure", "status": "True"}]}});
        let mut admit = crate::evictd(&["admit", "-o", "json", "--pod"]);
        admit.arg(&pod).arg("--node").arg(file("node.json", &node));
        let found = program::answer(&program::run(&mut admit, ""));
        assert_eq!(found["allowed"], allowed, "{version}: {found}");
    }
}
