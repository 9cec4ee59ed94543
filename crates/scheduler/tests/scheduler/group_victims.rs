//! A single pod preempts pods of groups, in every command and against an API server (S7-066, S7-080).

use crate::live_groups::{condition, group, member};
use crate::live_scheduling::{Live, pod};
use crate::scheduler;
use evictd_testkit::ApiServer;
use evictd_testkit::program::{self, answer};
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use tempfile::NamedTempFile;

fn atomic(mut group: Value) -> Value {
    group["spec"]["disruptionMode"] = json!({ "all": {} });
    group
}

fn file(objects: &[Value]) -> NamedTempFile {
    let file = NamedTempFile::new().unwrap();
    let list = json!({ "apiVersion": "v1", "kind": "List", "items": objects });
    fs::write(file.path(), list.to_string()).unwrap();
    file
}

/// The victims by `plan`, `explain` and `simulate`, sorted.
fn victims(objects: &[Value], release: &str) -> [BTreeSet<String>; 3] {
    let mut web = pod("web", "2", 1000);
    web["kind"] = json!("Pod");
    web["apiVersion"] = json!("v1");
    let (cluster, pods) = (file(objects), file(&[web]));
    let asked = |command: &str, flag: &str| {
        let mut program = scheduler();
        program.args([command, "-o", "json", "--emulated-version", release]);
        program.arg("--cluster").arg(cluster.path());
        program.arg(flag).arg(pods.path());
        answer(&program::run(&mut program, ""))
    };
    let names = |list: &Value| -> BTreeSet<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    let planned = asked("plan", "--pod");
    let simulated = asked("simulate", "--pods");
    [
        names(&planned["chosen"]["victims"]),
        names(&asked("explain", "--pod")["victims"]),
        names(&simulated["attempts"][0]["victims"]),
    ]
}

#[test]
fn s7_080_plan_explain_and_simulate_preempt_a_group_as_a_whole_from_1_37_on() {
    let mut objects: Vec<Value> = ["a", "b"]
        .iter()
        .map(|name| {
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name },
                "status": { "allocatable": { "cpu": "2", "memory": "16Gi", "pods": "20" } } })
        })
        .collect();
    for (name, node) in [("train-0", "a"), ("train-1", "b")] {
        let mut pod = member(name, "train", "2", 10);
        pod["kind"] = json!("Pod");
        pod["apiVersion"] = json!("v1");
        pod["spec"]["nodeName"] = json!(node);
        pod["status"] = json!({ "phase": "Running" });
        objects.push(pod);
    }
    let one = BTreeSet::from(["default/train-0".to_owned()]);
    let both = BTreeSet::from(["default/train-0", "default/train-1"].map(str::to_owned));
    let with = |group: Value| [objects.clone(), vec![group]].concat();
    for (group, release, expected) in [
        (atomic(group("train", 2, 10)), "1.37", &both),
        (atomic(group("train", 2, 10)), "1.36", &one),
        (group("train", 2, 10), "1.37", &one),
        (atomic(group("train", 2, 1000)), "1.37", &BTreeSet::new()),
        (atomic(group("other", 2, 1000)), "1.37", &one),
    ] {
        for found in victims(&with(group.clone()), release) {
            assert_eq!(found, *expected, "{release} {group}");
        }
    }
}

#[test]
fn s7_080_run_preempts_a_group_as_a_whole_and_says_so_on_the_group() {
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.minor_version = 37);
    let live = Live::with(api, &[("one", "2"), ("two", "2")], &[]);
    live.admin.create(atomic(group("train", 2, 10))).unwrap();
    for index in 0..2 {
        let name = format!("train-{index}");
        live.admin
            .create(member(&name, "train", "1500m", 10))
            .unwrap();
    }
    for index in 0..2 {
        live.bound(&format!("default/train-{index}"));
    }
    live.admin.create(pod("web", "1500m", 1000)).unwrap();
    wait_until("both pods of the group are being deleted", || {
        let pods = live.admin.list("pods");
        let terminating = |pod: &&Value| !pod["metadata"]["deletionTimestamp"].is_null();
        pods.iter().filter(terminating).count() == 2
    });
    let message = condition(&live, "default/train", "DisruptionTarget", "True");
    assert_eq!(message, "preempting to accommodate a higher priority pod");
}
