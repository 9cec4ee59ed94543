//! A pod whose requests are not known keeps other pods off its node.
#![allow(clippy::unwrap_used, reason = "tests")]

use evictd_placement::{Checks, Cluster};
use evictd_pod::{Node, wire};
use serde_json::{from_value, json};

fn node(labels: &serde_json::Value) -> Node {
    let status = json!({"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}});
    from_value(json!({"metadata": {"name": "n1", "labels": labels}, "status": status})).unwrap()
}

#[test]
fn a_node_that_changes_goes_on_taking_no_pod_beside_one_of_unknown_requests() {
    let mut cluster = Cluster::new();
    cluster.update_node(&node(&json!({})));
    let placed = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n1"}});
    let mut unreadable: wire::Pod = from_value(placed).unwrap();
    unreadable.spec.unreadable = Some("is too long".into());
    cluster.add_pod(unreadable).unwrap();
    let waiting = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "c"}]}});
    let fits = |cluster: &mut Cluster| {
        let pod = cluster.pod(from_value(waiting.clone()).unwrap()).unwrap();
        let id = cluster.find_node("n1").unwrap();
        Checks::new(cluster, &pod).fits(id).is_ok()
    };
    assert!(!fits(&mut cluster));
    cluster.update_node(&node(&json!({"zone": "a"})));
    assert!(!fits(&mut cluster));
}
