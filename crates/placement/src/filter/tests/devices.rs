//! Tests of the obstacle of missing devices.

use super::{cluster, node};
use crate::Checks;
use serde_json::{from_value, json};

/// What is in the way is looked for within the limits of the attempt, and counts for them.
#[test]
fn an_obstacle_has_a_cost_and_is_not_sought_after_an_interrupt() {
    let mut cluster = cluster(&[node("one", json!({}))]);
    let class = json!({"metadata": {"name": "gpu"}, "spec": {}});
    cluster.put_device_class(from_value(class).unwrap());
    let requests = json!([{"name": "r", "exactly": {"deviceClassName": "gpu", "count": 2}}]);
    let claim = json!({"metadata": {"name": "c", "namespace": "default", "uid": "c"},
        "spec": {"devices": {"requests": requests}}});
    cluster.devices_mut().put_claim(from_value(claim).unwrap());
    let pod = json!({"metadata": {"name": "p", "uid": "p"},
        "spec": {"resourceClaims": [{"name": "c", "resourceClaimName": "c"}]}});
    let pod = cluster.pod(from_value(pod).unwrap()).unwrap();
    let id = cluster.find_node("one").unwrap();
    // The result of the filter is cached from here on.
    assert!(Checks::new(&cluster, &pod).fits(id).is_err());
    cluster.interrupt_mut().begin(1000, true);
    let obstacle = Checks::new(&cluster, &pod).on(id).obstacle().unwrap();
    assert!(
        obstacle.contains("wants 2 of class gpu and can have 0"),
        "{obstacle}"
    );
    assert!(cluster.interrupt_mut().end().cost > 0);
    cluster.interrupt_mut().begin(0, true);
    cluster.interrupt().charge(1);
    assert_eq!(Checks::new(&cluster, &pod).on(id).obstacle(), None);
    cluster.interrupt_mut().end();
}
