//! `evictd-scheduler simulate` with a timeline of events for the queue.

use crate::scheduler;
use evictd_testkit::program::{self, answer, stderr};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;
use std::process::Output;

pub(crate) fn simulate(timeline: &Value, arguments: &[&str]) -> Output {
    let mut command = scheduler();
    command.args(["simulate", "-"]).args(arguments);
    program::run(&mut command, timeline.to_string())
}

fn oracle() -> impl Iterator<Item = Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scheduling/tests/oracle/queue");
    fs::read_dir(folder).unwrap().map(|entry| {
        let text = fs::read(entry.unwrap().path()).unwrap();
        serde_json::from_slice(&text).unwrap()
    })
}

#[test]
fn timelines_equal_those_of_kube_scheduler() {
    let mut count = 0;
    for case in oracle() {
        let output = simulate(&case["input"], &["-o", "json"]);
        assert_eq!(
            answer(&output),
            case["expected"],
            "{}",
            case["input"]["name"]
        );
        assert_eq!(stderr(&output), "", "{}", case["input"]["name"]);
        count += 1;
    }
    assert!(count >= 37, "only {count} cases found");
}

#[test]
fn a_page_shows_every_step_in_80_columns() {
    let case = oracle().next().unwrap();
    let mut command = scheduler();
    command.args(["simulate", "-"]).env("COLUMNS", "80");
    let output = program::run(&mut command, case["input"].to_string());
    let page = String::from_utf8(output.stdout).unwrap();
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
    let steps = case["input"]["steps"].as_array().unwrap().len();
    let table = page.lines().take_while(|line| !line.is_empty());
    assert_eq!(table.count(), steps + 1, "{page}");
}

/// The timeline of these steps is refused with all these lines on stderr.
#[track_caller]
fn refused(timeline: &Value, lines: &[&str]) {
    let output = simulate(timeline, &[]);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    for line in lines {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
}

#[test]
fn every_mistake_of_a_timeline_is_reported_with_its_place() {
    let pod = json!({ "kind": "Pod", "metadata": { "name": "a" }, "spec": { "priority": "high" } });
    let wrong = json!({ "now": "2026-01-01T00:00:00Z", "steps": [
        { "at": 1, "do": "add", "object": pod },
        { "at": "soon", "do": "leap" },
    ]});
    let lines = [
        ":1:",
        "steps[0].object.spec.priority: invalid type: string \"high\", expected i32",
        "steps[1].at: invalid type: string \"soon\"",
        "steps[1].do: unknown variant `leap`",
    ];
    refused(&wrong, &lines);
    let backoff = json!({ "podInitialBackoffSeconds": 5, "podMaxBackoffSeconds": 1 });
    let incomplete = json!({ "now": "2026-01-01T00:00:00Z", "config": backoff, "steps": [
        { "at": 5, "do": "assume", "pod": "shop/web" },
        { "at": 3, "do": "unschedulable", "plugins": ["Fit"] },
        {},
    ]});
    let lines = [
        "config.podMaxBackoffSeconds: 1: must be at least podInitialBackoffSeconds, 5",
        "steps[0]: needs the key \"node\"",
        "steps[1]: needs the key \"pod\"",
        "steps[1]: no plugin that rejects pods is named \"Fit\"",
        "steps[1]: at is before that of the step before",
        "steps[2]: needs the key \"do\"",
        "steps[2]: needs the key \"at\"",
    ];
    refused(&incomplete, &lines);
}

/// An absent list or map and an empty one are the same answer.
fn without_empty(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let some = map
                .iter()
                .map(|(key, value)| (key.clone(), without_empty(value)));
            let some: serde_json::Map<_, _> = some.filter(|(_, value)| !value.is_null()).collect();
            if some.is_empty() {
                Value::Null
            } else {
                Value::Object(some)
            }
        }
        Value::Array(list) if list.is_empty() => Value::Null,
        Value::Array(list) => list.iter().map(without_empty).collect(),
        other => other.clone(),
    }
}

#[test]
fn sequences_equal_those_of_kube_scheduler() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../scheduling/tests/oracle/sequence");
    let mut count = 0;
    for entry in fs::read_dir(folder).unwrap() {
        let case: Value =
            serde_json::from_slice(&fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let result = answer(&simulate(&case["input"], &["-o", "json"]));
        let name = &case["input"]["name"];
        assert_eq!(
            without_empty(&result),
            without_empty(&case["expected"]),
            "{name}"
        );
        count += 1;
    }
    assert!(count >= 22, "only {count} cases found");
}

/// A dump of nodes with 4 cpus each and a pod of 3 cpus on the first.
fn dump() -> tempfile::NamedTempFile {
    let amounts = json!({ "cpu": "4", "memory": "8Gi", "pods": "10" });
    let node = |name: &str| json!({ "kind": "Node", "metadata": { "name": name }, "status": { "allocatable": amounts } });
    let owner = json!([{ "kind": "ReplicaSet", "name": "there", "controller": true }]);
    let bare = json!({ "kind": "Pod", "metadata": { "name": "bare" },
        "spec": { "nodeName": "one", "containers": [{ "name": "c" }] } });
    let mirror = json!({ "kind": "Pod", "metadata": { "name": "mirror", "annotations": { "kubernetes.io/config.mirror": "1" } },
        "spec": { "nodeName": "one", "containers": [{ "name": "c" }] } });
    let pod = json!({ "kind": "Pod", "metadata": { "name": "there", "namespace": "shop", "ownerReferences": owner }, "spec": {
        "nodeName": "one", "containers": [{ "name": "c", "resources": { "requests": { "cpu": "3" } } }] },
        "status": { "phase": "Running" } });
    let agent = json!({ "kind": "Pod", "metadata": { "name": "agent", "ownerReferences": [{ "kind": "DaemonSet", "name": "agent", "controller": true }] },
        "spec": { "nodeName": "one", "containers": [{ "name": "c" }] } });
    file(&json!({ "kind": "List", "items": [node("one"), node("two"), pod, agent, bare, mirror] }))
}

fn file(value: &Value) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), value.to_string()).unwrap();
    file
}

fn asked(dump: &tempfile::NamedTempFile, arguments: &[&str]) -> Output {
    let mut command = scheduler();
    command
        .args(["simulate", "--cluster"])
        .arg(dump.path())
        .args(arguments);
    program::run(&mut command, "")
}

#[test]
fn replicas_are_scheduled_onto_a_dump_and_unschedulable_ones_are_shown_with_the_reason() {
    let replicas = file(
        &json!({ "kind": "Deployment", "metadata": { "name": "web" }, "spec": { "replicas": 3,
        "template": { "spec": { "containers": [{ "name": "c", "resources": { "limits": { "cpu": "2" } } }] } } } }),
    );
    let pods = replicas.path().to_str().unwrap();
    let result = answer(&asked(&dump(), &["--pods", pods, "-o", "json"]));
    assert_eq!(
        result["placed"],
        json!({ "default/web-0": "two", "default/web-1": "two" })
    );
    let message = result["unschedulable"]["default/web-2"].as_str().unwrap();
    assert!(
        message.starts_with("0/2 nodes are available: 2 Insufficient cpu."),
        "{message}"
    );
}

#[test]
fn the_pods_of_drained_nodes_are_rescheduled_except_those_of_daemon_sets() {
    let output = asked(&dump(), &["--without", "one", "-o", "json"]);
    assert_eq!(answer(&output)["placed"], json!({ "shop/there": "two" }));
    let cannot_move = json!({
        "default/agent": "its DaemonSet runs it on this node only",
        "default/bare": "no controller creates it again elsewhere",
        "default/mirror": "the kubelet of its node runs it",
    });
    assert_eq!(answer(&output)["cannotMove"], cannot_move);
    let output = asked(&dump(), &["--without", "nope"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("--without nope: there is no such node"));
}

#[test]
fn two_configurations_are_compared_side_by_side() {
    let most = file(
        &json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "profiles": [{ "pluginConfig": [{ "name": "NodeResourcesFit", "args": { "scoringStrategy": {
            "type": "MostAllocated" } } }], "plugins": { "score": { "disabled": [{ "name": "NodeResourcesBalancedAllocation" }] } } }] }),
    );
    let pod = file(
        &json!({ "kind": "Pod", "metadata": { "name": "new" }, "spec": { "containers": [{ "name": "c",
        "resources": { "requests": { "cpu": "500m" } } }] } }),
    );
    let (most, pod) = (most.path().to_str().unwrap(), pod.path().to_str().unwrap());
    let result = answer(&asked(
        &dump(),
        &["--pods", pod, "--compare", most, "-o", "json"],
    ));
    assert_eq!(result["own"]["placed"]["default/new"], "two");
    assert_eq!(result["other"]["placed"]["default/new"], "one");
    let page = asked(&dump(), &["--pods", pod, "--compare", most]);
    let page = String::from_utf8(page.stdout).unwrap();
    assert!(page.contains("1 pods get another node, or none"), "{page}");
}

#[test]
fn an_impossible_step_is_reported_and_the_others_are_run() {
    let timeline = json!({ "now": "2026-01-01T00:00:00Z", "steps": [
        { "at": 1, "do": "error", "pod": "shop/web" },
        { "at": 2, "do": "pop" },
    ]});
    let output = simulate(&timeline, &["-o", "json"]);
    assert!(stderr(&output).contains("steps[0]: pod shop/web is not in flight"));
    assert_eq!(answer(&output)["steps"], json!([{}, { "popped": null }]));
}

#[test]
fn a5_a_drain_says_which_pods_budgets_and_other_nodes_do_not_let_go() {
    let owner = json!([{ "kind": "ReplicaSet", "name": "r", "controller": true }]);
    let pod = |name: &str, cpu: &str| {
        json!({ "kind": "Pod", "metadata": { "name": name, "labels": { "app": name }, "ownerReferences": owner },
            "spec": { "nodeName": "one", "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] },
            "status": { "phase": "Running" } })
    };
    let node = |name: &str, cpu: &str| json!({ "kind": "Node", "metadata": { "name": name }, "status": { "allocatable": { "cpu": cpu, "pods": "9" } } });
    let budget = json!({ "kind": "PodDisruptionBudget", "metadata": { "name": "keep" },
        "spec": { "selector": { "matchLabels": { "app": "kept" } } }, "status": { "disruptionsAllowed": 0 } });
    let items = [
        node("one", "8"),
        node("two", "2"),
        budget,
        pod("kept", "1"),
        pod("large", "4"),
        pod("small", "1"),
    ];
    let dump = file(&json!({ "kind": "List", "items": items }));
    let output = asked(&dump, &["--without", "one", "-o", "json"]);
    let cannot_move = answer(&output)["cannotMove"].clone();
    assert_eq!(
        cannot_move["default/kept"],
        "PodDisruptionBudget default/keep does not allow its eviction now"
    );
    let large = cannot_move["default/large"].as_str().unwrap();
    assert!(
        large.starts_with("it fits on no other node: 0/1 nodes are available: 1 Insufficient cpu."),
        "{large}"
    );
    assert_eq!(cannot_move["default/small"], json!(null));
    let page = String::from_utf8(asked(&dump, &["--without", "one"]).stdout).unwrap();
    assert!(page.contains("CANNOT MOVE"), "{page}");
}

#[test]
fn a5_a_victim_that_ends_already_is_awaited_and_not_evicted_again() {
    let victim = json!({ "kind": "Pod", "metadata": { "name": "ending", "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "spec": { "nodeName": "one", "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }] },
        "status": { "phase": "Running" } });
    let vip = json!({ "kind": "Pod", "metadata": { "name": "vip" },
        "spec": { "priority": 10, "containers": [{ "name": "c", "resources": { "requests": { "cpu": "2" } } }] } });
    let node = json!({ "kind": "Node", "metadata": { "name": "one" }, "status": { "allocatable": { "cpu": "2", "pods": "9" } } });
    let dump = file(&json!({ "kind": "List", "items": [node, victim, vip] }));
    let page = String::from_utf8(asked(&dump, &[]).stdout).unwrap();
    assert!(
        page.starts_with("1 pod was scheduled, 0 are unschedulable."),
        "{page}"
    );
    assert!(page.contains("it ends already, which is awaited"), "{page}");
}

#[test]
fn a5_extenders_and_pods_of_other_schedulers_are_named() {
    let node = json!({ "kind": "Node", "metadata": { "name": "one" }, "status": { "allocatable": { "cpu": "2", "pods": "9" } } });
    let other = json!({ "kind": "Pod", "metadata": { "name": "other" }, "spec": { "schedulerName": "volcano", "containers": [{ "name": "c" }] } });
    let config = file(
        &json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "extenders": [{ "urlPrefix": "http://gpu.example/scheduler", "filterVerb": "filter" }] }),
    );
    let config = config.path().to_str().unwrap();
    let dump = file(&json!({ "kind": "List", "items": [node, other] }));
    let output = asked(&dump, &["--config", config, "-o", "json"]);
    let reason = answer(&output)["notTried"]["default/other"].clone();
    assert!(
        reason
            .as_str()
            .unwrap()
            .contains("no profile is named \"volcano\""),
        "{reason}"
    );
    let said = "the extender http://gpu.example/scheduler of --config is not asked";
    assert!(stderr(&output).contains(said), "{}", stderr(&output));
}

#[test]
fn a4_devices_that_no_pod_can_use_where_they_are_are_given_back() {
    let class = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass", "metadata": { "name": "gpu", "uid": "g" }, "spec": {} });
    let slice = |node: &str| {
        json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": { "name": node, "uid": node }, "spec": {
            "driver": "gpu.example", "nodeName": node, "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 },
            "devices": [{ "name": "gpu-0" }] } })
    };
    let claim = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": { "name": "c", "namespace": "default", "uid": "c" },
        "spec": { "devices": { "requests": [{ "name": "g", "exactly": { "deviceClassName": "gpu" } }] } },
        "status": { "allocation": { "devices": { "results": [{ "request": "g", "driver": "gpu.example", "pool": "one", "device": "gpu-0" }] },
            "nodeSelector": { "nodeSelectorTerms": [{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["one"] }] }] } } } });
    let node = |name: &str| json!({ "kind": "Node", "metadata": { "name": name }, "status": { "allocatable": { "cpu": "2", "pods": "9" } } });
    let mut cordoned = node("one");
    cordoned["spec"] = json!({ "unschedulable": true });
    let pod = json!({ "kind": "Pod", "metadata": { "name": "web", "namespace": "default" }, "spec": { "containers": [{ "name": "c" }],
        "resourceClaims": [{ "name": "c", "resourceClaimName": "c" }] } });
    let items = [
        cordoned,
        node("two"),
        class,
        slice("one"),
        slice("two"),
        claim,
        pod,
    ];
    let result = answer(&asked(
        &file(&json!({ "kind": "List", "items": items })),
        &["-o", "json"],
    ));
    let first = result["attempts"][0]["message"].as_str().unwrap();
    assert!(
        first.contains("deallocation of ResourceClaim completed"),
        "{first}"
    );
    assert_eq!(
        result["placed"],
        json!({ "default/web": "two" }),
        "{result}"
    );
}

#[test]
fn a1_a_timeline_reads_the_kinds_of_kubernetes_and_counts_the_others() {
    let node = |version: &str, name: &str| {
        json!({ "kind": "Node", "apiVersion": version, "metadata": { "name": name },
            "status": { "allocatable": { "cpu": "4", "pods": "9" } } })
    };
    let mut custom = node("longhorn.io/v1beta2", "n1");
    custom["status"] = json!("not that of a node");
    let pod = json!({ "kind": "Pod", "apiVersion": "v1", "metadata": { "name": "web", "uid": "w" }, "spec": { "containers": [{ "name": "c" }] } });
    let timeline = json!({ "now": "2026-01-01T00:00:00Z", "objects": [pod, custom, { "kind": "ConfigMap", "metadata": { "name": "c" } }], "steps": [
        { "at": 1, "do": "pop" },
        { "at": 2, "do": "unschedulable", "pod": "default/web", "plugins": ["NodeResourcesFit"] },
        { "at": 3, "do": "add", "object": custom },
        { "at": 4, "do": "add", "object": node("v1", "n1") },
    ]});
    let output = simulate(&timeline, &["-o", "json"]);
    let ignored =
        "objects of kinds that no decision needs are ignored: 1 ConfigMap, 2 Node of longhorn.io";
    assert!(stderr(&output).contains(ignored), "{}", stderr(&output));
    let steps = answer(&output)["steps"].clone();
    // Only the node of Kubernetes wakes the pod.
    assert_eq!(steps[2]["unschedulable"], json!(["default/web"]), "{steps}");
    assert_eq!(steps[3]["backoff"], json!(["default/web"]), "{steps}");
}

#[test]
fn a_timeline_is_a_document_for_a_browser_too() {
    let case = oracle().next().unwrap();
    let output = simulate(&case["input"], &["-o", "html"]);
    let document = String::from_utf8(output.stdout).unwrap();
    assert!(document.starts_with("<!DOCTYPE html>"), "{document}");
    assert!(document.contains("<h2>Steps</h2>"), "{document}");
}
