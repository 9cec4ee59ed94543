//! Tests of affinity and spread constraints: codes, messages and obstacles. `tests/properties.rs` tests the counts.

use super::{answers, cluster, node, obstacles, pod};
use serde_json::{Value, from_value, json};

const ZONE: &str = "topology.kubernetes.io/zone";

fn nodes() -> Vec<Value> {
    vec![
        node("a", json!({ZONE: "zone-a"})),
        node("b", json!({ZONE: "zone-b"})),
        node("c", json!({})),
    ]
}

/// A required term that selects pods with this `app` label.
fn term(kind: &str, app: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": ZONE});
    json!({"affinity": {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
}

fn important(mut pod: Value) -> Value {
    pod["spec"]["priority"] = json!(1000);
    pod
}

#[test]
fn s5_088_pod_affinity() {
    let message = "UnschedulableAndUnresolvable: node(s) didn't match pod affinity rules";
    let mut objects = nodes();
    objects.push(pod("db", "b", json!({})));
    let web = pod("web", "", term("podAffinity", "db"));
    assert_eq!(answers(&objects, &web), [message, "fits", message]);
    let missing = format!("the node has no label {ZONE}");
    let elsewhere = "no pod that it must be near in zone-a; there is default/db on b";
    assert_eq!(obstacles(&objects, &web), [elsewhere, "-", &missing]);
    // The first pod of its kind fits on every node with the topology key.
    let first = pod("first", "", term("podAffinity", "first"));
    assert_eq!(answers(&objects, &first), ["fits", "fits", message]);
}

#[test]
fn s5_088_pod_anti_affinity_in_both_directions() {
    let mut objects = nodes();
    objects.push(node("a2", json!({ZONE: "zone-a"})));
    objects.push(important(pod("db", "a", term("podAntiAffinity", "web"))));
    let (from_incoming, theirs) = (
        "Unschedulable: node(s) didn't match pod anti-affinity rules",
        "Unschedulable: node(s) didn't satisfy existing pods anti-affinity rules",
    );
    // The pod's own terms are checked first.
    let both = pod("web", "", term("podAntiAffinity", "db"));
    assert_eq!(
        answers(&objects, &both),
        [from_incoming, "fits", "fits", from_incoming]
    );
    let with = "required anti-affinity with default/db (priority 1000)";
    let elsewhere = format!("{with} on a");
    assert_eq!(obstacles(&objects, &both), [with, "-", "-", &elsewhere]);
    let plain = pod("web", "", json!({}));
    assert_eq!(answers(&objects, &plain), [theirs, "fits", "fits", theirs]);
    let of = "required anti-affinity of default/db (priority 1000)";
    assert_eq!(obstacles(&objects, &plain)[0], of);
    assert_eq!(answers(&objects, &pod("other", "", json!({}))), ["fits"; 4]);
}

#[test]
fn match_label_keys_and_mismatch_label_keys_narrow_the_selector() {
    let with = |field: &str| {
        let mut spec = term("podAntiAffinity", "web");
        let required = "requiredDuringSchedulingIgnoredDuringExecution";
        spec["affinity"]["podAntiAffinity"][required][0][field] = json!(["version", "unknown"]);
        let mut pod = pod("web", "", spec);
        pod["metadata"]["labels"]["version"] = json!("2");
        pod
    };
    let mut objects = nodes();
    for (node, version) in [("a", "1"), ("b", "2")] {
        let mut old = pod("web", node, json!({}));
        old["metadata"]["labels"]["version"] = json!(version);
        old["metadata"]["name"] = json!(version);
        objects.push(old);
    }
    let message = "Unschedulable: node(s) didn't match pod anti-affinity rules";
    assert_eq!(
        answers(&objects, &with("matchLabelKeys")),
        ["fits", message, "fits"]
    );
    assert_eq!(
        answers(&objects, &with("mismatchLabelKeys")),
        [message, "fits", "fits"]
    );
}

#[test]
fn s5_090_topology_spread() {
    let spread = |min_domains: Option<u8>, when: &str| {
        let constraint = json!({"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when,
            "minDomains": min_domains, "labelSelector": {"matchLabels": {"app": "web"}}});
        pod(
            "web",
            "",
            json!({"topologySpreadConstraints": [constraint]}),
        )
    };
    let mut objects = nodes();
    for name in ["one", "two"] {
        let mut pod = pod("web", "a", json!({}));
        pod["metadata"]["name"] = json!(name);
        objects.push(pod);
    }
    let message = "Unschedulable: node(s) didn't match pod topology spread constraints";
    let missing = "UnschedulableAndUnresolvable: node(s) didn't match pod topology spread \
                   constraints (missing required label)";
    let hard = spread(None, "DoNotSchedule");
    assert_eq!(answers(&objects, &hard), [message, "fits", missing]);
    let over = format!("would put zone-a 3 pods above the emptiest; 1 allowed ({ZONE})");
    let label = format!("the node has no label {ZONE}");
    assert_eq!(obstacles(&objects, &hard), [&over, "-", &label]);
    assert_eq!(
        answers(&objects, &spread(None, "ScheduleAnyway")),
        ["fits"; 3]
    );

    objects.push(pod("web", "b", json!({})));
    let wide = spread(Some(3), "DoNotSchedule");
    assert_eq!(answers(&objects, &wide), [message, message, missing]);
    let few = format!(
        "would put zone-b 2 pods above zero, for there are 2 places and not 3; 1 allowed ({ZONE})"
    );
    assert_eq!(obstacles(&objects, &wide)[1], few);
}

#[test]
fn an_invalid_selector_is_reported_with_its_field() {
    let mut spec = term("podAntiAffinity", "web");
    let required = "requiredDuringSchedulingIgnoredDuringExecution";
    spec["affinity"]["podAntiAffinity"][required][0]["labelSelector"] =
        json!({"matchExpressions": [{"key": "app", "operator": "In"}]});
    let error = cluster(&[]).pod(from_value(pod("web", "", spec)).unwrap());
    assert_eq!(
        error.unwrap_err().to_string(),
        "spec.affinity.podAntiAffinity[0]: \"app\": In needs values"
    );
}
