//! The message of a pod's condition since Kubernetes 1.37.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_placement::Cluster;
use evictd_pod::compatibility::{Compatibility, Release};
use evictd_scheduling::{Framework, PreemptionInput};
use serde_json::{from_value, json};

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
