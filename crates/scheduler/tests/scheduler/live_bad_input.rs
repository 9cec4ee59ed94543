//! `evictd-scheduler run` with invalid objects and with objects of newer versions: a clear message, and no other pod is delayed.

use crate::live_extenders::{extender, live_at};
use crate::live_scheduling::{Live, condition, node, node_of, pod};
use evictd_testkit::ApiServer;
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use tempfile::NamedTempFile;

/// The message of the pod's condition, once it has this reason.
fn reported_message(live: &Live, name: &str, reason: &str) -> String {
    let found = live.until(&format!("default/{name}"), "reported", |pod| {
        condition(pod)["reason"] == reason
    });
    condition(&found)["message"].as_str().unwrap().to_owned()
}

/// Creates pods of this size until the message of one begins like this. Then the scheduler knows everything created before.
fn until_reported(live: &Live, cpu: &str, words: &str) {
    for index in 0..1000 {
        let name = format!("probe-{cpu}-{index}");
        live.admin.create(pod(&name, cpu, 0)).unwrap();
        if reported_message(live, &name, "Unschedulable").starts_with(words) {
            return;
        }
    }
    panic!("no pod has the message {words:?}");
}

#[test]
fn pods_with_unsatisfiable_selectors_get_a_condition_with_the_reason() {
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
        // No node has both.
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
        let message = reported_message(&live, name, reason);
        assert!(message.contains(words), "{name}: {words}: {message}");
        assert!(node_of(&live, name).is_null());
    }
    wait_until("there is an event of each", || {
        live.events("FailedScheduling").len() >= 6
    });
}

/// An extender that deletes the node before it binds. `binds`: whether it binds the pod nevertheless.
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
    let extenders = json!([{ "urlPrefix": url, "bindVerb": "bind" }]);
    live_at(api, &[("one", "4"), ("two", "2")], &extenders)
}

#[test]
fn a_pod_is_rescheduled_if_its_node_is_deleted_before_the_binding() {
    let (live, _config) = with_vanishing_node(false);
    live.admin.create(pod("first", "1", 0)).unwrap();
    assert_eq!(live.bound("default/first"), "two");
    let failed = live.events("FailedScheduling");
    assert!(failed[0].contains("there is no node \"one\""), "{failed:?}");
}

#[test]
fn a_pod_bound_to_a_deleted_node_takes_no_room_from_others() {
    let (live, _config) = with_vanishing_node(true);
    live.admin.create(pod("first", "2", 0)).unwrap();
    assert_eq!(live.bound("default/first"), "one");
    // The scheduler knows it once one node is left.
    until_reported(&live, "100", "0/1 nodes are available: 1 Insufficient cpu.");
    live.admin.create(pod("second", "2", 0)).unwrap();
    assert_eq!(live.bound("default/second"), "two");
    // The pod is still on the node when the node is created again.
    node(&live.admin, "one", "3");
    until_reported(&live, "2", "0/2 nodes are available: 2 Insufficient cpu.");
}

#[test]
fn unknown_fields_of_newer_versions_are_ignored() {
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
    // Unknown fields are unchanged.
    let found = live.admin.get("pods", "default/future").unwrap();
    assert_eq!(
        found["spec"]["entanglement"],
        future["spec"]["entanglement"]
    );
    // Even if a status was written.
    let mut large = pod("large", "100", 0);
    large["status"] = json!({ "phase": "Pending", "telepathy": { "heard": 3 } });
    live.admin.create(large).unwrap();
    reported_message(&live, "large", "Unschedulable");
    let found = live.admin.get("pods", "default/large").unwrap();
    assert_eq!(found["status"]["telepathy"]["heard"], 3);
}

/// Another scheduler may have this name, so that the pod gets no event.
#[test]
fn a_pod_of_an_unknown_scheduler_name_is_left_alone() {
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
    // It takes room on the node to which another client has bound it.
    let bound = json!({ "spec": { "nodeName": "one" } });
    live.admin.merge("pods", "default/foreign", bound).unwrap();
    live.admin.create(pod("more", "1", 0)).unwrap();
    let message = reported_message(&live, "more", "Unschedulable");
    assert!(message.contains("Insufficient cpu"), "{message}");
}
