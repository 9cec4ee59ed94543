//! Tests of the obstacle of missing devices.

use super::super::Here;
use super::{cluster, node};
use crate::Checks;
use crate::score::resources::{Strategy, fit};
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

/// Whoever names a resource in the strategy wants the devices that serve it to count.
#[test]
fn s7_177_devices_of_an_extended_resource_count_in_scores_that_name_it() {
    let mut cluster = cluster(&[
        node("half", json!({})),
        node("free", json!({})),
        node("none", json!({})),
    ]);
    let class = json!({"metadata": {"name": "gpu"}, "spec": {"extendedResourceName": "example.com/gpu",
        "selectors": [{"cel": {"expression": "device.attributes['d'].model == 'a'"}}]}});
    cluster.put_device_class(from_value(class).unwrap());
    let card =
        |name: &str, model: &str| json!({"name": name, "attributes": {"model": {"string": model}}});
    for name in ["half", "free"] {
        let spec = json!({"driver": "d", "nodeName": name,
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "devices": [card("0", "a"), card("1", "a"), card("2", "a"), card("3", "a"), card("4", "b")]});
        let slice = json!({"metadata": {"name": name}, "spec": spec});
        cluster.devices_mut().put_slice(from_value(slice).unwrap());
    }
    let results = ["0", "1"]
        .map(|device| json!({"request": "r", "driver": "d", "pool": "half", "device": device}));
    let held = json!({"metadata": {"name": "held", "namespace": "default", "uid": "held"},
        "status": {"allocation": {"devices": {"results": results}}}});
    cluster.devices_mut().put_claim(from_value(held).unwrap());
    let amounts = json!({"example.com/gpu": "1"});
    let pod = json!({"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": [
        {"name": "c", "resources": {"requests": amounts, "limits": amounts}}]}});
    let pod = cluster.pod(from_value(pod).unwrap()).unwrap();
    let resources = [("example.com/gpu".to_owned(), 1)];
    let mut raw = |strategy: &Strategy| -> (Vec<i64>, bool) {
        cluster.interrupt_mut().begin(0, true);
        let fit = fit(&cluster, &pod, strategy, &resources);
        let nodes = cluster.node_ids();
        let raw = nodes.map(|id| fit.raw(Here::new(&cluster, id))).collect();
        let ended = cluster.interrupt_mut().end();
        assert!(!ended.interrupted);
        (raw, ended.cost > 0)
    };
    // Selectors have a cost until their results are cached.
    assert_eq!(raw(&Strategy::LeastAllocated), (vec![25, 75, 0], true));
    assert_eq!(raw(&Strategy::MostAllocated), (vec![75, 25, 0], false));
}
