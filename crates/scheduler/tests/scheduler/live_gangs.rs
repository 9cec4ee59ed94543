//! `evictd-scheduler run` and gangs whose pods have resource claims or extenders: all pods are bound, or none.

use crate::live_devices::{claim, device, found, users, with_cards};
use crate::live_extenders::{extender, live};
use crate::live_groups::{condition, group, member};
use crate::live_scheduling::{Live, node_of, pod};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{ApiServer, Fault};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A pod of the gang `train` that uses these claims.
fn user(live: &Live, name: &str, claims: &[&str]) {
    let mut pod = member(name, "train", "1", 0);
    let claims = claims.iter();
    let claims = claims.map(|claim| json!({ "name": claim, "resourceClaimName": claim }));
    pod["spec"]["resourceClaims"] = claims.collect();
    live.admin.create(pod).unwrap();
}

fn is_bound(live: &Live, pod: &str) -> bool {
    node_of(live, pod).is_string()
}

/// The places in the server's log of successful requests with this verb and resource.
fn done(live: &Live, verb: &str, what: &str) -> Vec<usize> {
    let log = live.api.log().into_iter().enumerate();
    let entries = log.filter(|(_, entry)| {
        (200..300).contains(&entry.status) && entry.verb == verb && entry.what == what
    });
    entries.map(|(index, _)| index).collect()
}

#[test]
fn the_claims_of_a_gang_are_allocated_before_its_first_pod_is_bound() {
    let live = Live::new(&[("one", "8"), ("two", "4")]);
    with_cards(&live, &[("two", 3)]);
    live.admin.create(group("train", 3, 0)).unwrap();
    for name in ["shared", "own"] {
        claim(&live, name);
    }
    user(&live, "train-0", &["shared"]);
    user(&live, "train-1", &["shared", "own"]);
    user(&live, "train-2", &["shared"]);
    for index in 0..3 {
        assert_eq!(live.bound(&format!("default/train-{index}")), "two");
    }
    let shared = found(&live, "shared");
    let consumers: BTreeSet<String> = users(&shared).into_iter().collect();
    assert_eq!(
        consumers,
        ["train-0", "train-1", "train-2"].map(String::from).into()
    );
    let second = found(&live, "own");
    assert_eq!(users(&second), ["train-1"]);
    assert_ne!(device(&second), device(&shared));
    let written = done(&live, "patch", "resourceclaims/status");
    let bindings = || done(&live, "create", "pods/binding");
    // A request is logged when it has been answered.
    wait_until("all bindings are answered", || bindings().len() == 3);
    let bound = bindings();
    assert!(written.last() < bound.first(), "{written:?} {bound:?}");
    condition(&live, "default/train", "PodGroupInitiallyScheduled", "True");
}

#[test]
fn no_pod_of_a_gang_is_bound_if_one_claim_cannot_be_written_and_the_gang_is_retried() {
    let live = Live::new(&[("one", "8")]);
    with_cards(&live, &[("one", 2)]);
    for name in ["first", "second"] {
        claim(&live, name);
    }
    let once = Fault::answer(403).on("patch", "resourceclaims/status");
    live.api.fault(once.times(1));
    live.admin.create(group("train", 2, 0)).unwrap();
    user(&live, "train-0", &["first"]);
    user(&live, "train-1", &["second"]);
    for (claim, pod) in [("first", "train-0"), ("second", "train-1")] {
        live.bound(&format!("default/{pod}"));
        assert_eq!(users(&found(&live, claim)), [pod]);
    }
    // The first claim was allocated and deallocated, and then both were allocated.
    let written = done(&live, "patch", "resourceclaims/status");
    let bound = done(&live, "create", "pods/binding");
    let before = written.iter().filter(|index| **index < bound[0]);
    assert!(before.count() >= 4, "{written:?} {bound:?}");
}

/// Otherwise the devices of a gang that is not bound would be lost for other pods.
#[test]
fn a_gang_without_a_bound_pod_keeps_no_device() {
    let api = ApiServer::start().unwrap();
    // Writes to the second claim are refused.
    let groups = [
        "",
        "apps",
        "coordination.k8s.io",
        "events.k8s.io",
        "policy",
        "scheduling.k8s.io",
        "storage.k8s.io",
    ];
    let rules = json!([
        { "apiGroups": groups, "resources": ["*"], "verbs": ["*"] },
        { "apiGroups": ["resource.k8s.io"], "resources": ["*"], "verbs": ["get", "list", "watch"] },
        { "apiGroups": ["resource.k8s.io"], "resources": ["resourceclaims", "resourceclaims/status"],
            "resourceNames": ["first", "other"], "verbs": ["patch"] },
    ]);
    api.grant("token", "scheduler", Some(rules));
    let live = Live::by(&api.kubeconfig_of("token"), api, &[("one", "8")], &[]);
    with_cards(&live, &[("one", 2)]);
    for name in ["first", "second", "other"] {
        claim(&live, name);
    }
    live.admin.create(group("train", 2, 0)).unwrap();
    user(&live, "train-0", &["first"]);
    user(&live, "train-1", &["second"]);
    wait_until("the first was written and given back", || {
        let written = done(&live, "patch", "resourceclaims/status");
        written.len() >= 2
    });
    let mut alone = pod("alone", "1", 0);
    alone["spec"]["resourceClaims"] = json!([{ "name": "other", "resourceClaimName": "other" }]);
    live.admin.create(alone).unwrap();
    live.bound("default/alone");
    wait_until("the gang holds nothing", || {
        ["first", "second"].iter().all(|claim| {
            let found = found(&live, claim);
            device(&found).is_none() && users(&found).is_empty()
        })
    });
    assert!(!is_bound(&live, "train-0") && !is_bound(&live, "train-1"));
    assert_eq!(done(&live, "create", "pods/binding").len(), 1);
}

#[test]
fn s5_050_s5_062_extenders_filter_the_nodes_of_a_gang_and_bind_it() {
    let (url, asked) = extender(|verb, question| match verb {
        "filter" => {
            let nodes = question["NodeNames"].as_array().unwrap();
            let left: Vec<&Value> = nodes.iter().filter(|node| **node != "one").collect();
            let failed = json!({ "one": "is full of cats" });
            let answer = json!({ "NodeNames": left, "FailedNodes": failed, "Error": "" });
            ("200 OK", answer)
        }
        "prioritize" => ("200 OK", json!([{ "Host": "three", "Score": 10 }])),
        _ => ("200 OK", json!({ "Error": "" })),
    });
    let config = json!({ "urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5,
        "bindVerb": "bind", "nodeCacheCapable": true });
    let nodes = [("one", "64"), ("two", "8"), ("three", "2")];
    let (live, _config) = live(&nodes, &json!([config]));
    live.admin.create(group("train", 3, 0)).unwrap();
    for index in 0..3 {
        let name = format!("train-{index}");
        live.admin.create(member(&name, "train", "1", 0)).unwrap();
    }
    let bound = || {
        let asked = asked.lock().unwrap();
        let binds = asked.iter().filter(|(verb, _)| verb == "bind");
        let mut nodes: Vec<String> = binds
            .map(|(_, request)| request["Node"].as_str().unwrap().to_owned())
            .collect();
        nodes.sort();
        nodes
    };
    wait_until("the extender is asked to bind all", || bound().len() >= 3);
    assert_eq!(
        bound()[..3],
        ["three", "three", "two"],
        "as far as there is room"
    );
    let log = live.api.log().into_iter();
    assert_eq!(log.filter(|entry| entry.what == "pods/binding").count(), 0);
}

#[test]
fn an_extender_that_rejects_one_pod_keeps_its_gang_pending() {
    let (url, _asked) = extender(|_, question| {
        let wanted = question["Pod"]["metadata"]["name"] != "train-1";
        let nodes = question["NodeNames"].clone();
        let left = if wanted { nodes } else { json!([]) };
        (
            "200 OK",
            json!({ "NodeNames": left, "FailedNodes": {}, "Error": "" }),
        )
    });
    let config = json!({ "urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": true });
    let (live, _config) = live(&[("one", "8")], &json!([config]));
    live.admin.create(group("train", 2, 0)).unwrap();
    for index in 0..2 {
        let name = format!("train-{index}");
        live.admin.create(member(&name, "train", "1", 0)).unwrap();
    }
    let message = condition(
        &live,
        "default/train",
        "PodGroupInitiallyScheduled",
        "False",
    );
    assert!(
        message.starts_with("minCount (2) cannot be satisfied: "),
        "{message}"
    );
    assert!(!is_bound(&live, "train-0") && !is_bound(&live, "train-1"));
}

#[test]
fn an_extender_that_hangs_delays_only_its_gang() {
    let (url, _asked) = extender(|_, _| {
        // Longer than any test; the thread ends with the program.
        std::thread::park();
        ("200 OK", Value::Null)
    });
    let config = json!({ "urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": true, "httpTimeout": "1s",
        "managedResources": [{ "name": "example.com/licence", "ignoredByScheduler": true }] });
    let (live, _config) = live(&[("one", "8")], &json!([config]));
    live.admin.create(group("train", 2, 0)).unwrap();
    live.admin.create(group("free", 2, 0)).unwrap();
    for index in 0..2 {
        let mut wants = member(&format!("train-{index}"), "train", "1", 0);
        wants["spec"]["containers"][0]["resources"]["requests"]["example.com/licence"] = json!("1");
        live.admin.create(wants).unwrap();
    }
    for index in 0..2 {
        let name = format!("free-{index}");
        live.admin.create(member(&name, "free", "1", 0)).unwrap();
    }
    for index in 0..2 {
        live.bound(&format!("default/free-{index}"));
    }
    let is_reported = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions.any(|condition| {
            let message = condition["message"].as_str().unwrap_or_default();
            condition["reason"] == "SchedulerError" && message.contains("no answer within 1 s")
        })
    };
    for index in 0..2 {
        live.until(&format!("default/train-{index}"), "reported", is_reported);
        assert!(!is_bound(&live, &format!("train-{index}")));
    }
}
