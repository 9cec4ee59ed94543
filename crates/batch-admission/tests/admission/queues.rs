//! Queues.

use crate::{ask, denial};
use serde_json::{Value, json};

/// Queues with resources, below and above each other, and with pods.
fn known() -> Value {
    let queue = |name: &str, parent: &str, spec: Value, pods: u32| {
        let mut queue = json!({"metadata": {"name": name}, "spec": spec,
            "status": {"state": "Open", "allocated": {"pods": pods}}});
        queue["spec"]["parent"] = parent.into();
        queue
    };
    let mut queues = vec![
        queue("root", "", json!({}), 0),
        queue("default", "root", json!({}), 0),
        queue(
            "par",
            "root",
            json!({"capability": {"cpu": "10", "memory": "20Gi"}, "deserved": {"cpu": "6", "memory": "12Gi"},
            "guarantee": {"resource": {"cpu": "4", "memory": "8Gi"}}}),
            0,
        ),
        queue(
            "kid",
            "par",
            json!({"capability": {"cpu": "5"}, "deserved": {"cpu": "3", "memory": "6Gi"},
            "guarantee": {"resource": {"cpu": "2"}}}),
            0,
        ),
        queue("busy", "root", json!({}), 3),
        queue("busy-parent", "root", json!({}), 2),
        queue("busy-kid", "busy-parent", json!({}), 0),
        queue("left", "right", json!({}), 0),
        queue("right", "left", json!({}), 0),
    ];
    for depth in 1..=5 {
        let parent = match depth {
            1 => "root".to_owned(),
            _ => format!("l{}", depth - 1),
        };
        queues.push(queue(&format!("l{depth}"), &parent, json!({}), 0));
    }
    let mut leaf = queue("leaf", "root", json!({}), 0);
    leaf["metadata"]["annotations"] =
        json!({"volcano.sh/hierarchy": "root/sci/dev", "volcano.sh/hierarchy-weights": "1/1/1"});
    queues.push(leaf);
    queues.into()
}

fn queue(name: &str, spec: Value) -> Value {
    json!({"metadata": {"name": name}, "spec": spec})
}

fn of_new(object: Value) -> String {
    let fields = json!({"object": object, "queues": known()});
    denial(ask("/queues/validate", "CREATE", fields))
}

fn of_change(old: Value, new: Value) -> String {
    let fields = json!({"object": new, "oldObject": old, "queues": known()});
    denial(ask("/queues/validate", "UPDATE", fields))
}

fn of_deletion(name: &str, flags: Value) -> String {
    let fields = json!({"name": name, "object": null, "queues": known(), "flags": flags});
    denial(ask("/queues/validate", "DELETE", fields))
}

#[test]
fn s6_083_a_new_queue_gets_reclaimable_weight_and_the_root_of_its_path() {
    let patch =
        |object: Value| json!(ask("/queues/mutate", "CREATE", json!({"object": object})).patch);
    let add = |path: &str, value: Value| json!({"op": "add", "path": path, "value": value});
    let both = [
        add("/spec/reclaimable", json!(true)),
        add("/spec/weight", json!(1)),
    ];
    assert_eq!(patch(queue("q", json!({}))), json!(both));
    assert_eq!(
        patch(queue("q", json!({"reclaimable": false, "weight": 2}))),
        json!([])
    );
    let annotated = |path: &str, weights: &str| {
        let mut queue = queue("q", json!({"reclaimable": true, "weight": 1}));
        queue["metadata"]["annotations"] =
            json!({"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights});
        patch(queue)
    };
    let expected = json!([
        add(
            "/metadata/annotations/volcano.sh~1hierarchy",
            json!("root/a/b")
        ),
        add(
            "/metadata/annotations/volcano.sh~1hierarchy-weights",
            json!("1/1/2")
        ),
    ]);
    assert_eq!(annotated("a/b", "1/2"), expected);
    for (path, weights) in [("root/a", "1/1"), ("rooted", "1"), ("a", ""), ("", "1")] {
        assert_eq!(annotated(path, weights), json!([]), "{path}");
    }
}

#[test]
fn s6_084_state_and_annotations() {
    for (state, expected) in [
        ("", ""),
        ("Open", ""),
        ("Closed", ""),
        (
            "Closing",
            "requestBody.spec.state: Invalid value: \"Closing\": queue state must be in [Open Closed]",
        ),
    ] {
        let mut queue = queue("q", json!({}));
        queue["status"] = json!({"state": state});
        assert_eq!(of_new(queue), expected);
    }
    let of = "requestBody.metadata.annotations: Invalid value:";
    for (name, path, weights, expected) in [
        ("q", "root/a", "1/2.5", String::new()),
        (
            "q",
            "root/a",
            "1",
            format!(
                "{of} \"root/a\": volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights"
            ),
        ),
        (
            "q",
            "root/a",
            "",
            format!(
                "{of} \"root/a\": volcano.sh/hierarchy must have the same length with volcano.sh/hierarchy-weights"
            ),
        ),
        (
            "q",
            "root/a",
            "1/x",
            format!(
                "{of} \"1/x\": x in the 1/x is invalid number: strconv.ParseFloat: parsing \"x\": invalid syntax"
            ),
        ),
        (
            "q",
            "root/a",
            "1/1e999",
            format!(
                "{of} \"1/1e999\": 1e999 in the 1/1e999 is invalid number: strconv.ParseFloat: parsing \"1e999\": value out of range"
            ),
        ),
        (
            "q",
            "root/a",
            "0/1",
            format!("{of} \"0/1\": 0 in the 0/1 must be larger than 0"),
        ),
        (
            "q",
            "root/a",
            "1/-1",
            format!("{of} \"1/-1\": -1 in the 1/-1 must be larger than 0"),
        ),
        (
            "q",
            "root/sci",
            "1/1",
            format!(
                "{of} \"root/sci\": root/sci is not allowed to be in the sub path of root/sci/dev of queue leaf"
            ),
        ),
        ("q", "root/sc", "1/1", String::new()),
        ("q", "root/sci/dev", "1/1/1", String::new()),
        ("leaf", "root/sci", "1/1", String::new()),
    ] {
        let mut queue = queue(name, json!({}));
        queue["metadata"]["annotations"] =
            json!({"volcano.sh/hierarchy": path, "volcano.sh/hierarchy-weights": weights});
        assert_eq!(of_new(queue), expected, "{path} {weights}");
    }
}

#[test]
fn s6_084_guarantee_deserved_and_capability_of_a_queue() {
    let of = "requestBody.spec";
    for (spec, expected) in [
        (
            json!({"capability": {"cpu": "4"}, "deserved": {"cpu": "2", "memory": "4Gi"}, "guarantee": {"resource": {"cpu": "2000m"}}}),
            String::new(),
        ),
        (
            json!({"capability": {"cpu": "-1"}}),
            format!(
                "{of}.capability.cpu: Invalid value: \"-1\": must be greater than or equal to 0"
            ),
        ),
        (
            json!({"deserved": {"nvidia.com/gpu": "0.5"}}),
            format!("{of}.deserved.nvidia.com/gpu: Invalid value: \"500m\": must be an integer"),
        ),
        (
            json!({"guarantee": {"resource": {"cpu": "1"}}}),
            format!(
                "{of}.deserved.cpu: Invalid value: \"<nil>\": deserved[cpu] must be >= guarantee[cpu]=1"
            ),
        ),
        (
            json!({"deserved": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "2"}}}),
            format!(
                "{of}.deserved.cpu: Invalid value: \"1\": deserved[cpu]=1 must be >= guarantee[cpu]=2"
            ),
        ),
        (
            json!({"capability": {"cpu": "1"}, "deserved": {"cpu": "2"}}),
            format!(
                "{of}.deserved.cpu: Invalid value: \"2\": deserved[cpu]=2 must be <= capability[cpu]=1"
            ),
        ),
        (
            json!({"capability": {"cpu": "-1"}, "deserved": {"cpu": "1"}}),
            format!(
                "[{of}.capability.cpu: Invalid value: \"-1\": must be greater than or equal to 0, {of}.deserved.cpu: Invalid value: \"1\": deserved[cpu]=1 must be <= capability[cpu]=-1]"
            ),
        ),
    ] {
        assert_eq!(of_new(queue("q", spec.clone())), expected, "{spec}");
    }
}

#[test]
fn s6_084_the_parent_of_a_queue() {
    for (parent, expected) in [
        ("root", ""),
        ("", ""),
        ("l4", ""),
        ("q", "queue q cannot use itself as parent"),
        ("l5", "queue q exceeds the maximum allowed depth of 5"),
        // Whatever is its own ancestor is endlessly deep.
        ("left", "queue q exceeds the maximum allowed depth of 5"),
        (
            "nope",
            "failed to get parent queue nope of queue q: queue.scheduling.volcano.sh \"nope\" not found",
        ),
        (
            "busy",
            "queue busy cannot be the parent queue of queue q because it has allocated Pods: 3",
        ),
        ("busy-parent", ""),
    ] {
        assert_eq!(
            of_new(queue("q", json!({"parent": parent}))),
            expected,
            "{parent}"
        );
    }
    let moved = of_change(queue("q", json!({})), queue("q", json!({"parent": "busy"})));
    assert_eq!(
        moved,
        "queue busy cannot be the parent queue of queue q because it has allocated Pods: 3"
    );
    let stays = json!({"parent": "busy"});
    assert_eq!(of_change(queue("q", stays.clone()), queue("q", stays)), "");
}

#[test]
fn s6_084_resources_beside_those_above_and_below() {
    let child = |spec: Value| {
        let mut spec = spec;
        spec["parent"] = "par".into();
        of_new(queue("q", spec))
    };
    assert_eq!(
        child(json!({"deserved": {"cpu": "3", "memory": "6Gi"}, "capability": {"cpu": 10}})),
        ""
    );
    assert_eq!(
        child(json!({"capability": {"cpu": "10500m"}})),
        "queue q capability[cpu]=10500m exceeds its ancestor's capability=10"
    );
    assert_eq!(
        child(json!({"capability": {"memory": "30Gi"}})),
        "queue q capability[memory]=30Gi exceeds its ancestor's capability=20Gi"
    );
    assert_eq!(
        child(json!({"deserved": {"cpu": "4"}})),
        "parent queue par validation failed: sum of children's deserved (cpu 7000.00, memory 6442450944.00) exceeds parent's deserved limit (cpu 6000.00, memory 12884901888.00)"
    );
    assert_eq!(
        child(json!({"deserved": {"cpu": "3"}, "guarantee": {"resource": {"cpu": "3"}}})),
        "parent queue par validation failed: sum of children's guarantee (cpu 5000.00, memory 0.00) exceeds parent's guarantee limit (cpu 4000.00, memory 8589934592.00)"
    );
    // What the parent does not name at all it has nothing of.
    assert_eq!(
        child(json!({"deserved": {"nvidia.com/gpu": "1"}})),
        "parent queue par validation failed: sum of children's deserved (cpu 3000.00, memory 6442450944.00, nvidia.com/gpu 1000.00) exceeds parent's deserved limit (cpu 6000.00, memory 12884901888.00)"
    );
    let parent = |spec: Value| {
        let before = queue("par", json!({"parent": "root"}));
        let mut spec = spec;
        spec["parent"] = "root".into();
        of_change(before, queue("par", spec))
    };
    let enough = json!({"cpu": "3", "memory": "6Gi"});
    assert_eq!(
        parent(json!({"capability": {"cpu": "4"}, "deserved": {"cpu": "4"}})),
        "queue par capability[cpu]=4 is smaller than its descendants' max capability=5"
    );
    assert_eq!(
        parent(json!({"deserved": enough, "guarantee": {"resource": {"cpu": "1"}}})),
        "queue par validation failed: sum of children's guarantee (cpu 2000.00, memory 0.00) exceeds parent's guarantee limit (cpu 1000.00, memory 0.00)"
    );
    assert_eq!(
        parent(json!({"deserved": {"cpu": "2"}, "guarantee": {"resource": {"cpu": "2"}}})),
        "queue par validation failed: sum of children's deserved (cpu 3000.00, memory 6442450944.00) exceeds parent's deserved limit (cpu 2000.00, memory 0.00)"
    );
    let enough = json!({"deserved": enough, "guarantee": {"resource": {"cpu": "2"}}});
    assert_eq!(parent(enough), "");
    // Queues that are each other's parents end the search.
    let circle = json!({"parent": "right", "capability": {"cpu": "1"}});
    assert_eq!(
        of_change(
            queue("left", json!({"parent": "right"})),
            queue("left", circle)
        ),
        ""
    );
}

#[test]
fn s6_084_the_root_keeps_its_resources_unless_a_flag_says_otherwise() {
    let fixed =
        "root queue's resource attributes (capability, deserved, guarantee) cannot be modified";
    let before = queue("root", json!({"capability": {"cpu": "1"}}));
    for (spec, expected) in [
        (json!({"weight": 3, "capability": {"cpu": "1000m"}}), ""),
        (json!({"capability": {"cpu": "2"}}), fixed),
        (json!({}), fixed),
        (
            json!({"capability": {"cpu": "1"}, "deserved": {"cpu": "1"}}),
            fixed,
        ),
    ] {
        assert_eq!(
            of_change(before.clone(), queue("root", spec.clone())),
            expected,
            "{spec}"
        );
    }
    let fields = json!({"object": queue("root", json!({})), "oldObject": before, "queues": known(),
        "flags": {"enable-root-queue-protection": false}});
    assert_eq!(denial(ask("/queues/validate", "UPDATE", fields)), "");
}

#[test]
fn s6_084_queues_that_cannot_be_deleted() {
    for (name, expected) in [
        ("busy", ""),
        ("default", "`default` queue can not be deleted"),
        ("root", "`root` queue can not be deleted"),
        ("nope", "queue.scheduling.volcano.sh \"nope\" not found"),
        (
            "par",
            "queue par can not be deleted because it has 1 child queues: kid",
        ),
    ] {
        assert_eq!(of_deletion(name, json!(null)), expected);
    }
    let check = json!({"enable-queue-allocated-pods-check": true});
    assert_eq!(
        of_deletion("busy", check.clone()),
        "queue busy cannot be deleted because it has allocated Pods: 3"
    );
    assert_eq!(of_deletion("kid", check), "");
}

#[test]
fn s6_170_quotas_of_device_classes_are_refused_with_the_way() {
    for (name, is_refused) in [
        ("deviceclass/gpu.example.com", true),
        ("memory.deviceclass/gpu.example.com", true),
        ("example.com/gpu", false),
    ] {
        let spec = json!({"capability": {"cpu": "4", name: "2"}});
        let found = of_new(queue("q", spec));
        let words = format!(
            "requestBody.spec.capability.{name}: Invalid value: \"2\": quotas of device classes are not supported: "
        );
        let told = found.contains(&words) && found.contains("deviceclass.resource.k8s.io/devices");
        assert_eq!(told, is_refused, "{found}");
        assert_eq!(found.is_empty(), !is_refused, "{found}");
    }
}
