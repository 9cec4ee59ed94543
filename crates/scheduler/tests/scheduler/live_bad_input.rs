//! `evictd-scheduler run` and objects that make no sense, or more sense than it knows of: a clear message, and nobody else is
//! held up.

use crate::live_extenders::{extender, live_at};
use crate::live_scheduling::{Live, condition, node, node_of, pod};
use evictd_testkit::ApiServer;
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// What the pod is told, once its condition has this reason.
fn told(live: &Live, name: &str, reason: &str) -> String {
    let found = live.until(&format!("default/{name}"), "told", |pod| {
        condition(pod)["reason"] == reason
    });
    condition(&found)["message"].as_str().unwrap().to_owned()
}

/// Creates pods of this size until one is told something that begins so: the scheduler has heard of what came before.
fn until_told(live: &Live, cpu: &str, words: &str) {
    for index in 0..1000 {
        let name = format!("probe-{cpu}-{index}");
        live.admin.create(pod(&name, cpu, 0)).unwrap();
        if told(live, &name, "Unschedulable").starts_with(words) {
            return;
        }
    }
    panic!("nobody is told {words:?}");
}

#[test]
fn pods_with_selectors_that_no_node_can_satisfy_are_told_why() {
    let live = Live::new(&[("one", "8")]);
    let required = |expression: Value| {
        let term = json!({ "matchExpressions": [expression] });
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [term] } } })
    };
    let anti = |selector: Value| {
        let term = json!({ "labelSelector": selector, "topologyKey": "kubernetes.io/hostname" });
        json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } })
    };
    let unknown = json!({ "key": "app", "operator": "Like", "values": ["x"] });
    let (none, error) = ("Unschedulable", "SchedulerError");
    let table = [
        // Nobody has both.
        (
            "both",
            json!({ "nodeSelector": { "kubernetes.io/hostname": "two" } }),
            none,
            "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector.",
        ),
        (
            "empty",
            json!({ "affinity": required(json!({ "key": "a", "operator": "In", "values": [] })) }),
            error,
            "spec.affinity",
        ),
        (
            "words",
            json!({ "affinity": required(json!({ "key": "a", "operator": "Gt", "values": ["many"] })) }),
            error,
            "spec.affinity",
        ),
        (
            "unknown",
            json!({ "affinity": required(unknown.clone()) }),
            error,
            "operator \"Like\"",
        ),
        (
            "others",
            json!({ "affinity": anti(json!({ "matchExpressions": [unknown] })) }),
            error,
            "operator \"Like\"",
        ),
        (
            "nobody",
            json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [] } } } }),
            none,
            "didn't match Pod's node affinity/selector",
        ),
    ];
    for (name, spec, ..) in &table {
        let mut new = pod(name, "1", 1000);
        for (key, value) in spec.as_object().unwrap() {
            new["spec"][key] = value.clone();
        }
        live.admin
            .create(new)
            .unwrap_or_else(|refused| panic!("{name}: {refused:?}"));
    }
    live.admin.create(pod("other", "1", 0)).unwrap();
    live.bound("default/other");
    for (name, _, reason, words) in table {
        let message = told(&live, name, reason);
        assert!(message.contains(words), "{name}: {words}: {message}");
        assert!(node_of(&live, name).is_null());
    }
    wait_until("there is an event of each", || {
        live.events("FailedScheduling").len() >= 6
    });
}

/// An extender binds, and has the node vanish before. `binds` tells whether it binds the pod all the same.
fn with_vanishing_node(binds: bool) -> (Live, NamedTempFile) {
    let api = ApiServer::start().unwrap();
    let actor = api.actor("extender");
    let (url, _asked) = extender(move |_, question| {
        let node = question["Node"].as_str().unwrap();
        if node == "one" {
            let _ = actor.delete("nodes", "one", json!({}));
            if !binds {
                return ("200 OK", json!({ "Error": "there is no node \"one\"" }));
            }
        }
        let pod = question["PodName"].as_str().unwrap();
        let bound = json!({ "spec": { "nodeName": node } });
        actor
            .merge("pods", &format!("default/{pod}"), bound)
            .unwrap();
        ("200 OK", json!({ "Error": "" }))
    });
    let own = json!([{ "urlPrefix": url, "bindVerb": "bind" }]);
    live_at(api, &[("one", "4"), ("two", "2")], &own)
}

#[test]
fn a_node_that_vanishes_between_decision_and_binding_loses_no_pod() {
    let (live, _config) = with_vanishing_node(false);
    live.admin.create(pod("first", "1", 0)).unwrap();
    assert_eq!(live.bound("default/first"), "two");
    let failed = live.events("FailedScheduling");
    assert!(failed[0].contains("there is no node \"one\""), "{failed:?}");
}

#[test]
fn a_pod_that_was_bound_to_a_node_which_has_vanished_takes_no_room_from_others() {
    let (live, _config) = with_vanishing_node(true);
    live.admin.create(pod("first", "2", 0)).unwrap();
    assert_eq!(live.bound("default/first"), "one");
    // The scheduler has heard of it when there is one node left.
    until_told(&live, "100", "0/1 nodes are available: 1 Insufficient cpu.");
    live.admin.create(pod("second", "2", 0)).unwrap();
    assert_eq!(live.bound("default/second"), "two");
    // When the node is back its pod is on it.
    node(&live.admin, "one", "3");
    until_told(&live, "2", "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn objects_of_newer_versions_are_understood_as_far_as_they_are_known() {
    let live = Live::new(&[]);
    node(&live.admin, "one", "4");
    let newer = json!({ "metadata": { "labels": { "future": "yes" } }, "spec": { "quantumLinks": [{ "to": "two", "qubits": 7 }] } });
    live.admin.merge("nodes", "one", newer).unwrap();
    let status = json!({ "status": { "features": { "teleports": true }, "allocatable": { "example.com/qubit": "7" } } });
    live.admin.merge("nodes/status", "one", status).unwrap();
    let mut future = pod("future", "1", 0);
    future["spec"]["nodeSelector"] = json!({ "future": "yes" });
    future["spec"]["entanglement"] = json!({ "mode": "Spooky", "with": ["other"] });
    future["spec"]["containers"][0]["resources"]["requests"]["example.com/qubit"] = json!("7");
    future["spec"]["containers"][0]["resources"]["teleports"] = json!([1, 2]);
    future["spec"]["topologySpreadConstraints"] = json!([{ "maxSkew": 1, "topologyKey": "future",
        "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}, "minimumDistance": "1ly" }]);
    live.admin.create(future.clone()).unwrap();
    assert_eq!(live.bound("default/future"), "one");
    // What it does not know of is still there.
    let found = live.admin.get("pods", "default/future").unwrap();
    assert_eq!(
        found["spec"]["entanglement"],
        future["spec"]["entanglement"]
    );
    // Also where a status was written.
    let mut large = pod("large", "100", 0);
    large["status"] = json!({ "phase": "Pending", "telepathy": { "heard": 3 } });
    live.admin.create(large).unwrap();
    told(&live, "large", "Unschedulable");
    let found = live.admin.get("pods", "default/large").unwrap();
    assert_eq!(found["status"]["telepathy"]["heard"], 3);
}

/// Somebody else may serve it: it is left alone, without an event.
#[test]
fn a_pod_of_a_scheduler_that_nobody_is_here_is_left_alone() {
    let live = Live::new(&[("one", "2")]);
    let mut foreign = pod("foreign", "1", 1000);
    foreign["spec"]["schedulerName"] = json!("nobody");
    live.admin.create(foreign.clone()).unwrap();
    live.admin.create(pod("own", "1", 0)).unwrap();
    live.bound("default/own");
    let found = live.admin.get("pods", "default/foreign").unwrap();
    assert!(
        found["spec"]["nodeName"].is_null() && found["status"]["conditions"].is_null(),
        "{found}"
    );
    let about = |event: &Value| event.to_string().contains("foreign");
    assert!(!live.admin.list("events").iter().any(about));
    // It takes room where somebody else has bound it.
    let bound = json!({ "spec": { "nodeName": "one" } });
    live.admin.merge("pods", "default/foreign", bound).unwrap();
    live.admin.create(pod("more", "1", 0)).unwrap();
    let message = told(&live, "more", "Unschedulable");
    assert!(message.contains("Insufficient cpu"), "{message}");
}
