//! `plan` with an extender that gives recorded answers.

use crate::cluster::{cluster, list, node, pending, pod};
use crate::plan;
use evictd_testkit::http::serve;
use evictd_testkit::program::{answer, stderr};
use serde_json::{Value, json};
use std::net::TcpListener;
use std::process::Output;

/// Plans for a cluster with two candidates and an extender with this answer. Also returns the extender's request.
fn ask(code: &'static str, reply: &str, arguments: &[&str]) -> (Output, String, Value) {
    let reply = reply.to_owned();
    let (address, exchanges) = serve(1, move |_| (code, reply.clone()));
    let url = format!("http://{address}/scheduler/preempt");
    let more = vec![node("two"), pod("first", "two", 3), pod("second", "two", 4)];
    let items = list(&[cluster(), more].concat());
    let arguments = [&["-o", "json", "--extender", &url], arguments].concat();
    let output = plan(items, &pending(10), &arguments);
    let (head, body) = exchanges().remove(0);
    (output, head, serde_json::from_slice(&body).unwrap())
}

#[test]
fn s4_020_an_extender_removes_a_candidate() {
    let reply = r#"{"NodeNameToMetaVictims":{"two":{"Pods":[{"UID":"uid-of-first"}],"NumPDBViolations":0}}}"#;
    let (output, head, question) = ask("200 OK", reply, &[]);
    let answer = answer(&output);
    assert_eq!(
        answer["chosen"],
        json!({ "node": "two", "victims": ["shop/first"], "numPDBViolations": 0 })
    );
    assert_eq!(answer["candidates"].as_array().unwrap().len(), 1);
    assert!(
        head.starts_with("POST /scheduler/preempt HTTP/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.to_lowercase()
            .contains("content-type: application/json"),
        "{head}"
    );
    // As kube-scheduler encodes its Go types: every field by its Go name.
    assert_eq!(question["NodeNameToMetaVictims"], Value::Null);
    assert_eq!(question["Pod"]["metadata"]["name"], "pending");
    let victims = &question["NodeNameToVictims"]["one"];
    assert_eq!(victims["NumPDBViolations"], 0);
    assert_eq!(
        victims["Pods"],
        json!([{
            "metadata": { "namespace": "shop", "name": "cheap", "uid": "uid-of-cheap", "labels": { "app": "cheap" } },
            "spec": {
                "priority": 1, "nodeName": "one", "schedulerName": "default-scheduler",
                "containers": [{ "name": "all", "resources": { "requests":
                    { "cpu": "2000m", "memory": "1073741824", "ephemeral-storage": "0" } } }],
            },
        }])
    );
}

#[test]
fn s4_020_an_extender_that_caches_nodes_gets_uids() {
    let reply = r#"{"nodeNameToMetaVictims":{"one":{"pods":[{"uid":"uid-of-cheap"}]}}}"#;
    let (output, _, question) = ask("200 OK", reply, &["--node-cache-capable"]);
    assert_eq!(answer(&output)["chosen"]["node"], "one");
    assert_eq!(question["NodeNameToVictims"], Value::Null);
    let expected = json!({
        "one": { "Pods": [{ "UID": "uid-of-cheap" }], "NumPDBViolations": 0 },
        "two": { "Pods": [{ "UID": "uid-of-first" }], "NumPDBViolations": 0 },
    });
    assert_eq!(question["NodeNameToMetaVictims"], expected);
}

#[test]
fn s4_020_an_extender_may_remove_all_candidates() {
    for reply in ["{}", r#"{"NodeNameToMetaVictims":null}"#] {
        let (output, _, _) = ask("200 OK", reply, &[]);
        let answer = answer(&output);
        assert_eq!(answer["chosen"], Value::Null);
        let message = answer["message"].as_str().unwrap();
        let end = ", preemption: no candidate node for preemption";
        assert!(message.ends_with(end), "{message}");
    }
}

#[test]
fn s4_020_an_extender_that_fails_stops_the_plan() {
    let unknown = |uid: &str| {
        json!({ "NodeNameToMetaVictims": { "one": { "Pods": [{ "UID": uid }] } } }).to_string()
    };
    let table = [
        ("500 Internal Server Error", String::new(), "500"),
        (
            "200 OK",
            "rubbish".to_owned(),
            "expected value at line 1 column 1",
        ),
        (
            "200 OK",
            unknown("unknown"),
            "there is no pod with the UID \"unknown\" on node \"one\"",
        ),
        (
            "200 OK",
            unknown("uid-of-dear"),
            "shop/dear on node \"one\" was not offered as a victim",
        ),
        (
            "200 OK",
            r#"{"NodeNameToMetaVictims":{"six":{}}}"#.to_owned(),
            "node \"six\" was not offered",
        ),
        (
            "200 OK",
            r#"{"NodeNameToMetaVictims":{"one":null}}"#.to_owned(),
            "expected at least one victim pod on node \"one\"",
        ),
    ];
    for (code, reply, expected) in table {
        let (output, _, _) = ask(code, &reply, &[]);
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        assert!(
            text.contains("extender http://127.0.0.1:") && text.contains(expected),
            "{text}"
        );
    }
}

#[test]
fn an_extender_must_be_reachable() {
    let run = |url: &str| plan(list(&cluster()), &pending(10), &["--extender", url]);
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let output = run(&format!("http://{closed}/"));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        stderr(&output).contains("Connection refused"),
        "{}",
        stderr(&output)
    );
    for url in [
        "https://localhost/preempt",
        "localhost:80",
        "http://",
        "http://[::1",
    ] {
        assert_eq!(run(url).status.code(), Some(2), "{url}");
    }
}
