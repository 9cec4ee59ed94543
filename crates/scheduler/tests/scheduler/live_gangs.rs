//! `evictd-scheduler run` and gangs whose pods have claims on devices, concern extenders, or wait for permits: all or none.

use crate::engine::Running;
use crate::live_devices::{claim, device, found, users, with_cards};
use crate::live_extenders::{extender, live};
use crate::live_groups::{condition, group, member};
use crate::live_scheduling::{Live, node_of, node_of_pod, pod};
use evictd_placement::{Chosen, Permit, Plugin};
use evictd_testkit::Fault;
use evictd_testkit::testing::wait_until;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A pod of the gang `train` that uses these claims.
fn user(live: &Live, name: &str, claims: &[&str]) {
    let mut pod = member(name, "train", "1", 0);
    let claims = claims.iter();
    let claims = claims.map(|own| json!({ "name": own, "resourceClaimName": own }));
    pod["spec"]["resourceClaims"] = claims.collect();
    live.admin.create(pod).unwrap();
}

fn is_bound(live: &Live, pod: &str) -> bool {
    node_of(live, pod).is_string()
}

/// What was asked of the server that it has done, in order: the resources with their verbs.
fn done(live: &Live, verb: &str, what: &str) -> Vec<usize> {
    let log = live.api.log().into_iter().enumerate();
    let own = log.filter(|(_, entry)| {
        (200..300).contains(&entry.status) && entry.verb == verb && entry.what == what
    });
    own.map(|(index, _)| index).collect()
}

#[test]
fn claims_of_a_gang_have_their_devices_before_the_first_of_it_is_bound() {
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
    let own = found(&live, "own");
    assert_eq!(users(&own), ["train-1"]);
    assert_ne!(device(&own), device(&shared));
    let written = done(&live, "patch", "resourceclaims/status");
    let bindings = || done(&live, "create", "pods/binding");
    // A request is logged when it has been answered.
    wait_until("all bindings are answered", || bindings().len() == 3);
    let bound = bindings();
    assert!(written.last() < bound.first(), "{written:?} {bound:?}");
    condition(&live, "default/train", "PodGroupScheduled", "True");
}

#[test]
fn if_one_claim_of_a_gang_cannot_be_written_nobody_is_bound_and_all_is_tried_again() {
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
    // One was written and given back, then both were.
    let written = done(&live, "patch", "resourceclaims/status");
    let bound = done(&live, "create", "pods/binding");
    let before = written.iter().filter(|own| **own < bound[0]);
    assert!(before.count() >= 4, "{written:?} {bound:?}");
}

/// Devices that a gang has got without being bound would be kept from others.
#[test]
fn a_gang_that_is_not_bound_holds_no_device() {
    let live = Live::new(&[("one", "8")]);
    with_cards(&live, &[("one", 2)]);
    for name in ["first", "second", "other"] {
        claim(&live, name);
    }
    // Of the second claim no more can be written than of one that lacks this.
    let finalizers =
        json!({ "metadata": { "finalizers": ["resource.kubernetes.io/delete-protection"] } });
    for name in ["first", "other"] {
        let at = format!("default/{name}");
        live.admin
            .merge("resourceclaims", &at, finalizers.clone())
            .unwrap();
    }
    live.api
        .fault(Fault::answer(403).on("patch", "resourceclaims"));
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
            let own = found(&live, claim);
            device(&own).is_none() && users(&own).is_empty()
        })
    });
    assert!(!is_bound(&live, "train-0") && !is_bound(&live, "train-1"));
    assert_eq!(done(&live, "create", "pods/binding").len(), 1);
}

#[test]
fn s5_050_s5_062_extenders_are_asked_about_a_gang_and_bind_it() {
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
    let own = json!({ "urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5,
        "bindVerb": "bind", "nodeCacheCapable": true });
    let nodes = [("one", "64"), ("two", "8"), ("three", "2")];
    let (live, _config) = live(&nodes, &json!([own]));
    live.admin.create(group("train", 3, 0)).unwrap();
    for index in 0..3 {
        let name = format!("train-{index}");
        live.admin.create(member(&name, "train", "1", 0)).unwrap();
    }
    let bound = || {
        let asked = asked.lock().unwrap();
        let binds = asked.iter().filter(|(verb, _)| verb == "bind");
        let mut nodes: Vec<String> = binds
            .map(|(_, own)| own["Node"].as_str().unwrap().to_owned())
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
fn an_extender_that_does_not_want_one_pod_keeps_its_gang_from_all_nodes() {
    let (url, _asked) = extender(|_, question| {
        let wanted = question["Pod"]["metadata"]["name"] != "train-1";
        let nodes = question["NodeNames"].clone();
        let left = if wanted { nodes } else { json!([]) };
        (
            "200 OK",
            json!({ "NodeNames": left, "FailedNodes": {}, "Error": "" }),
        )
    });
    let own = json!({ "urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": true });
    let (live, _config) = live(&[("one", "8")], &json!([own]));
    live.admin.create(group("train", 2, 0)).unwrap();
    for index in 0..2 {
        let name = format!("train-{index}");
        live.admin.create(member(&name, "train", "1", 0)).unwrap();
    }
    let message = condition(&live, "default/train", "PodGroupScheduled", "False");
    assert!(
        message.contains("of the 2 pods that it needs at once 1 fit"),
        "{message}"
    );
    assert!(!is_bound(&live, "train-0") && !is_bound(&live, "train-1"));
}

#[test]
fn an_extender_that_hangs_holds_up_only_the_gang_that_it_is_asked_about() {
    let (url, _asked) = extender(|_, _| {
        // Longer than any test; the thread ends with the program.
        std::thread::park();
        ("200 OK", Value::Null)
    });
    let own = json!({ "urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": true, "httpTimeout": "1s",
        "managedResources": [{ "name": "example.com/licence", "ignoredByScheduler": true }] });
    let (live, _config) = live(&[("one", "8")], &json!([own]));
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
    let told = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array().cloned();
        let mut conditions = conditions.unwrap_or_default().into_iter();
        conditions.any(|own| {
            let message = own["message"].as_str().unwrap_or_default();
            own["reason"] == "SchedulerError" && message.contains("no answer within 1 s")
        })
    };
    for index in 0..2 {
        live.until(&format!("default/train-{index}"), "told", told);
        assert!(!is_bound(&live, &format!("train-{index}")));
    }
}

/// Has pods wait until any node has the label `feeder=on`.
struct FeederOn(SignedDuration);

impl Plugin for FeederOn {
    fn name(&self) -> &'static str {
        "FeederOn"
    }

    fn permit(&self, chosen: Chosen<'_>) -> Permit {
        let symbols = chosen.cluster.symbols();
        let on = symbols.get("feeder").zip(symbols.get("on"));
        let is_on = |(key, value)| {
            let mut nodes = chosen.cluster.nodes().iter();
            nodes.any(|node| node.labels.get(key) == Some(value))
        };
        // The first pod of a gang waits for none.
        if chosen.pod.metadata.name == "train-0" || on.is_some_and(is_on) {
            return Permit::Allow;
        }
        Permit::Wait(self.0)
    }
}

async fn gang_that_waits(timeout: SignedDuration) -> Running {
    let plugin: Arc<dyn Plugin> = Arc::new(FeederOn(timeout));
    let nodes = [("one", "4")];
    let running = Running::with(&nodes, |own| own.permits.push(Arc::clone(&plugin))).await;
    running.admin.create(group("train", 2, 0)).unwrap();
    for index in 0..2 {
        let name = format!("train-{index}");
        running
            .admin
            .create(member(&name, "train", "1", 0))
            .unwrap();
    }
    running
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_059_a_plugin_that_has_one_pod_wait_holds_its_gang() {
    let running = gang_that_waits(SignedDuration::from_mins(10)).await;
    wait_until("both are told where they are to be", || {
        let pods = ["train-0", "train-1"];
        pods.iter().all(|pod| {
            let pod = running
                .admin
                .get("pods", &format!("default/{pod}"))
                .unwrap();
            pod["status"]["nominatedNodeName"] == "one"
        })
    });
    assert!(node_of_pod(&running.admin, "train-0").is_null());
    let on = json!({ "metadata": { "labels": { "feeder": "on" } } });
    running.admin.merge("nodes", "one", on).unwrap();
    for pod in ["train-0", "train-1"] {
        running.until_bound(pod);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn s5_060_a_gang_that_waits_too_long_is_rejected_whole() {
    let running = gang_that_waits(SignedDuration::from_secs(1)).await;
    for pod in ["train-0", "train-1"] {
        wait_until("it is told", || {
            let pod = running
                .admin
                .get("pods", &format!("default/{pod}"))
                .unwrap();
            let conditions = pod["status"]["conditions"].as_array().cloned();
            let mut conditions = conditions.unwrap_or_default().into_iter();
            let told = conditions.any(|own| {
                let message = own["message"].as_str().unwrap_or_default();
                message.contains("rejected due to timeout after waiting 1s at plugin FeederOn")
            });
            assert!(pod["spec"]["nodeName"].is_null());
            told
        });
    }
}
