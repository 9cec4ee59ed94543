//! `evictd-scheduler run` with extenders: they filter, score, agree to victims and bind, and some hang or lie.

use crate::live_scheduling::{Live, node_of, pod};
use evictd_testkit::ApiServer;
use evictd_testkit::http::serve_all;
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};
use tempfile::NamedTempFile;

/// The requests to an extender by verb.
pub(crate) type Asked = Arc<Mutex<Vec<(String, Value)>>>;

/// An extender that answers by the last part of the path.
pub(crate) fn extender(
    reply: impl Fn(&str, &Value) -> (&'static str, Value) + Send + Sync + 'static,
) -> (String, Asked) {
    let asked = Asked::default();
    let noted = Arc::clone(&asked);
    let address = serve_all(move |line, body| {
        let path = line.split_whitespace().nth(1).unwrap();
        let verb = path.rsplit('/').next().unwrap().to_owned();
        let body: Value = serde_json::from_slice(body).unwrap();
        noted.lock().unwrap().push((verb.clone(), body.clone()));
        let (code, answer) = reply(&verb, &body);
        (code, answer.to_string())
    });
    (format!("http://{address}/scheduler"), asked)
}

pub(crate) fn live(nodes: &[(&str, &str)], extenders: &Value) -> (Live, NamedTempFile) {
    live_at(ApiServer::start().unwrap(), nodes, extenders)
}

pub(crate) fn live_at(
    api: ApiServer,
    nodes: &[(&str, &str)],
    extenders: &Value,
) -> (Live, NamedTempFile) {
    let mut config = NamedTempFile::new().unwrap();
    let text = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "extenders": extenders });
    write!(config, "{text}").unwrap();
    let path = config.path().to_str().unwrap();
    let live = Live::with(api, nodes, &["--config", path]);
    (live, config)
}

fn names(question: &Value) -> Vec<String> {
    let nodes = question["Nodes"]["items"].as_array().unwrap().iter();
    nodes
        .map(|node| node["metadata"]["name"].as_str().unwrap().to_owned())
        .collect()
}

/// The message of the condition `PodScheduled`.
fn reported_message(live: &Live, name: &str) -> String {
    let message = |pod: &Value| {
        let conditions = pod["status"]["conditions"].as_array()?;
        let condition = conditions
            .iter()
            .find(|condition| condition["type"] == "PodScheduled")?;
        Some(condition["message"].as_str()?.to_owned())
    };
    let found = live.until(&format!("default/{name}"), "reported", |pod| {
        message(pod).is_some()
    });
    message(&found).unwrap()
}

#[test]
fn s5_050_extenders_filter_nodes_and_s5_056_score_the_rest() {
    let (url, asked) = extender(|verb, question| {
        let nodes = question["NodeNames"].as_array().unwrap();
        match verb {
            "filter" => {
                let left: Vec<&Value> = nodes.iter().filter(|node| **node != "one").collect();
                let failed = json!({ "one": "is full of cats" });
                (
                    "200 OK",
                    json!({ "NodeNames": left, "FailedNodes": failed, "Error": "" }),
                )
            }
            _ => (
                "200 OK",
                json!([{ "Host": "two", "Score": 1 }, { "Host": "three", "Score": 10 }]),
            ),
        }
    });
    let config = json!({ "urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 5,
        "nodeCacheCapable": true });
    let (live, _config) = live(
        &[("one", "64"), ("two", "8"), ("three", "8")],
        &json!([config]),
    );
    live.admin.create(pod("first", "1", 0)).unwrap();
    assert_eq!(
        live.bound("default/first"),
        "three",
        "though \"one\" has most room"
    );
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0].0, "filter");
    assert_eq!(asked[0].1["Pod"]["metadata"]["name"], "first");
    assert_eq!(
        asked[0].1["Pod"]["spec"]["containers"][0]["image"], "none",
        "the whole pod"
    );
    assert_eq!(asked[0].1["Nodes"], Value::Null);
}

#[test]
fn s5_050_an_extender_without_a_cache_gets_whole_nodes_and_may_reject_all() {
    let (url, asked) = extender(|_, question| {
        let failed: serde_json::Map<String, Value> = names(question)
            .into_iter()
            .map(|name| (name, json!("has no licence")))
            .collect();
        (
            "200 OK",
            json!({ "nodes": { "items": [] }, "failedNodes": failed }),
        )
    });
    let config = json!({ "urlPrefix": url, "filterVerb": "filter",
        "managedResources": [{ "name": "example.com/licence", "ignoredByScheduler": true }] });
    let (live, _config) = live(&[("one", "8"), ("two", "8")], &json!([config]));
    // It gets no pods without its managed resources.
    live.admin.create(pod("other", "1", 0)).unwrap();
    live.bound("default/other");
    let mut wants = pod("wants", "1", 0);
    wants["spec"]["containers"][0]["resources"]["requests"]["example.com/licence"] = json!("1");
    live.admin.create(wants).unwrap();
    let message = reported_message(&live, "wants");
    assert!(
        message.starts_with("0/2 nodes are available: 2 has no licence."),
        "{message}"
    );
    let asked = asked.lock().unwrap();
    let question = &asked[0].1;
    assert_eq!(question["Pod"]["metadata"]["name"], "wants");
    let capacity = &question["Nodes"]["items"][0]["status"]["capacity"];
    assert_eq!(capacity["pods"], "110", "the whole node");
    assert_eq!(question["NodeNames"], Value::Null);
}

#[test]
fn s5_062_an_extender_binds_in_place_of_the_scheduler() {
    let (url, asked) = extender(|_, _| ("200 OK", json!({ "Error": "" })));
    let config = json!({ "urlPrefix": url, "bindVerb": "bind" });
    let (live, _config) = live(&[("one", "8")], &json!([config]));
    live.admin.create(pod("first", "1", 0)).unwrap();
    wait_until("the extender is asked to bind", || {
        !asked.lock().unwrap().is_empty()
    });
    let question = asked.lock().unwrap()[0].1.clone();
    assert_eq!(question["PodName"], "first");
    assert_eq!(question["PodNamespace"], "default");
    assert_eq!(question["Node"], "one");
    let log = live.api.log().into_iter();
    let bindings = log.filter(|entry| entry.path.ends_with("/binding"));
    assert_eq!(bindings.count(), 0);
}

#[test]
fn extenders_that_fail_hang_or_lie_delay_only_their_pods() {
    let failing = [
        ("500 Internal Server Error", json!("no"), "500"),
        ("200 OK", json!({ "Error": "out of order" }), "out of order"),
        (
            "200 OK",
            json!({ "NodeNames": ["six"] }),
            "claims a filtered node \"six\"",
        ),
        ("200 OK", json!({ "Rubbish": 7 }), "0/1 nodes are available"),
        ("hangs", Value::Null, "no answer within 1 s"),
    ];
    for (code, answer, words) in failing {
        let hangs = code == "hangs";
        let (url, _asked) = extender(move |_, _| {
            if hangs {
                // Longer than any test; the thread ends with the program.
                std::thread::park();
            }
            (code, answer.clone())
        });
        let config = json!({ "urlPrefix": url, "filterVerb": "filter", "httpTimeout": "1s", "nodeCacheCapable": true,
            "managedResources": [{ "name": "example.com/licence", "ignoredByScheduler": true }] });
        let (live, _config) = live(&[("one", "8")], &json!([config]));
        let mut wants = pod("wants", "1", 1000);
        wants["spec"]["containers"][0]["resources"]["requests"]["example.com/licence"] = json!("1");
        live.admin.create(wants).unwrap();
        live.admin.create(pod("other", "1", 0)).unwrap();
        live.bound("default/other");
        let message = reported_message(&live, "wants");
        assert!(message.contains(words), "{words}: {message}");
        assert!(node_of(&live, "wants").is_null());
    }
}

/// Answers that are not JSON, or end early, or are too large.
#[test]
fn extenders_with_malformed_answers_are_reported_and_delay_only_their_pods() {
    let long = format!(
        "{{\"NodeNames\": [\"one\"], \"Error\": \"\", \"More\": \"{}\"}}",
        "x".repeat(10 << 20)
    );
    let answers = [
        ("200 OK", "<html>".to_owned(), "expected value"),
        (
            "200 OK",
            "{\"NodeNames\": [\"one\"".to_owned(),
            "EOF while parsing",
        ),
        ("200 OK", String::new(), "EOF while parsing"),
        ("200 OK", "[".repeat(1 << 16), "recursion limit"),
        ("200 OK", long, "an answer of more than 8 MiB"),
        // The head announces a longer body.
        (
            "200 OK\r\nContent-Length: 9999",
            "{}".to_owned(),
            "extender http",
        ),
        ("502 Bad Gateway", "x".repeat(1 << 20), "xxxxxxxx"),
    ];
    for (code, answer, words) in answers {
        let address = serve_all(move |_, _| (code, answer.clone()));
        let config = json!({ "urlPrefix": format!("http://{address}/scheduler"), "filterVerb": "filter",
            "nodeCacheCapable": true,
            "managedResources": [{ "name": "example.com/licence", "ignoredByScheduler": true }] });
        let (live, _config) = live(&[("one", "8")], &json!([config]));
        let mut wants = pod("wants", "1", 1000);
        wants["spec"]["containers"][0]["resources"]["requests"]["example.com/licence"] = json!("1");
        live.admin.create(wants).unwrap();
        live.admin.create(pod("other", "1", 0)).unwrap();
        live.bound("default/other");
        let message = reported_message(&live, "wants");
        assert!(message.contains(words), "{words}: {message}");
        assert!(message.len() < 2000, "{}", message.len());
        assert!(node_of(&live, "wants").is_null());
    }
}

/// Scores that are too large, malformed, or of nodes that were not sent.
#[test]
fn absurd_scores_do_not_place_a_pod_where_it_does_not_fit() {
    let (url, _asked) = extender(|_, _| {
        let scores = json!([{ "Host": "small", "Score": i64::MAX }, { "Host": "six", "Score": 10 },
            { "Host": "one", "Score": i64::MIN }, { "Host": "one", "Score": "high" }, { "Host": 7 }, 5, null,
            { "Host": "two", "Score": 3 }]);
        ("200 OK", scores)
    });
    let config = json!({ "urlPrefix": url, "prioritizeVerb": "prioritize", "weight": i64::MAX, "nodeCacheCapable": true });
    let nodes = [("one", "8"), ("two", "8"), ("small", "1")];
    let (live, _config) = live(&nodes, &json!([config]));
    live.admin.create(pod("first", "2", 0)).unwrap();
    assert_eq!(live.bound("default/first"), "two");
}

#[test]
fn rejections_of_nodes_that_were_not_sent_to_the_extender_are_ignored() {
    let (url, _asked) = extender(|_, question| {
        let failed = json!({ "six": "is not here", "": "?", "one": 7 });
        let left = question["NodeNames"].clone();
        (
            "200 OK",
            json!({ "NodeNames": left, "FailedNodes": failed, "FailedAndUnresolvableNodes": [1] }),
        )
    });
    let config = json!({ "urlPrefix": url, "filterVerb": "filter", "nodeCacheCapable": true });
    let (live, _config) = live(&[("one", "8")], &json!([config]));
    live.admin.create(pod("first", "2", 0)).unwrap();
    assert_eq!(live.bound("default/first"), "one");
}

/// Otherwise the pod would wait for ever.
#[test]
fn a_binding_that_an_extender_only_pretends_is_detected() {
    let (url, asked) = extender(|_, _| ("200 OK", json!({ "Error": "" })));
    let config = json!({ "urlPrefix": url, "bindVerb": "bind" });
    let (live, _config) = live(&[("one", "8")], &json!([config]));
    live.admin.create(pod("first", "1", 0)).unwrap();
    let message = reported_message(&live, "first");
    assert_eq!(
        message,
        "the extender reports that it has bound the pod, which has no node"
    );
    wait_until("it is asked once more", || asked.lock().unwrap().len() >= 2);
}

#[test]
fn errors_of_an_ignorable_extender_are_ignored() {
    let (url, _asked) = extender(|_, _| ("500 Internal Server Error", json!("no")));
    let config = json!({ "urlPrefix": url, "filterVerb": "filter", "prioritizeVerb": "prioritize", "weight": 1,
        "ignorable": true, "nodeCacheCapable": true });
    let (live, _config) = live(&[("one", "8"), ("two", "8")], &json!([config]));
    live.admin.create(pod("first", "1", 0)).unwrap();
    live.bound("default/first");
}

#[test]
fn s4_020_victims_are_deleted_after_the_extender_has_agreed() {
    let (url, asked) = extender(|_, question| {
        let offered = question["NodeNameToMetaVictims"].as_object().unwrap();
        let two = offered.get("two").cloned().unwrap_or_default();
        ("200 OK", json!({ "NodeNameToMetaVictims": { "two": two } }))
    });
    let config = json!({ "urlPrefix": url, "preemptVerb": "preempt", "nodeCacheCapable": true });
    let (live, _config) = live(&[("one", "2"), ("two", "2")], &json!([config]));
    for name in ["a", "b"] {
        live.admin.create(pod(name, "2", 0)).unwrap();
        live.bound(&format!("default/{name}"));
    }
    live.admin.create(pod("high", "2", 1000)).unwrap();
    live.until("default/high", "nominated", |pod| {
        pod["status"]["nominatedNodeName"] == "two" || pod["spec"]["nodeName"] == "two"
    });
    let asked = asked.lock().unwrap();
    assert_eq!(asked[0].1["Pod"]["metadata"]["name"], "high");
    let offered = asked[0].1["NodeNameToMetaVictims"].as_object().unwrap();
    assert_eq!(offered.len(), 2);
}
