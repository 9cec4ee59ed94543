//! `evictd-scheduler dump` against an API server.

use crate::scheduler;
use evictd_testkit::ApiServer;
use evictd_testkit::program::{self, answer, stderr};
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// A cluster in which the kinds that only admission reads decide, too.
fn api() -> ApiServer {
    let api = ApiServer::start().unwrap();
    let admin = api.actor("admin");
    let node = |name: &str, labels: Value| {
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": labels },
            "status": { "allocatable": { "cpu": "4", "memory": "8Gi", "pods": "10" } } })
    };
    let running = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "hog", "namespace": "default" },
        "spec": { "nodeName": "n1", "containers": [{ "name": "c", "image": "i", "resources": { "requests": { "cpu": "1" } } }] },
        "status": { "phase": "Running" } });
    let objects = [
        node("n1", json!({ "kata": "yes" })),
        node("n2", json!({})),
        running,
        json!({ "apiVersion": "v1", "kind": "LimitRange", "metadata": { "name": "lr", "namespace": "default" },
            "spec": { "limits": [{ "type": "Container", "defaultRequest": { "cpu": "2" } }] } }),
        json!({ "apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": { "name": "kata" }, "handler": "kata",
            "overhead": { "podFixed": { "cpu": "2" } } }),
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "password", "namespace": "default" },
            "stringData": { "password": "hunter2" } }),
    ];
    for object in objects {
        admin.create(object).unwrap();
    }
    api
}

struct Files {
    folder: TempDir,
}

impl Files {
    fn path(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }

    fn write(&self, name: &str, text: &str) -> String {
        fs::write(self.path(name), text).unwrap();
        self.path(name)
    }
}

/// The files for a server: its kubeconfig, and a manifest that admission completes.
fn files(kubeconfig: &str) -> Files {
    let files = Files {
        folder: TempDir::new().unwrap(),
    };
    files.write("kubeconfig", kubeconfig);
    let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "web", "namespace": "default" },
        "spec": { "runtimeClassName": "kata", "containers": [{ "name": "c", "image": "i" }] } });
    files.write("pod.json", &pod.to_string());
    files
}

#[test]
fn a7_a_dump_has_the_answers_of_the_live_cluster() {
    let api = api();
    let files = files(&api.kubeconfig());
    let mut dump = scheduler();
    dump.args(["dump", "--context", "testkit", "--kubeconfig"]);
    let output = program::run(dump.arg(files.path("kubeconfig")), "");
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(
        !text.contains("hunter2") && !text.contains("managedFields"),
        "{text}"
    );
    // kubectl reads it, too.
    let list: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(list["kind"], "List");
    let items = list["items"].as_array().unwrap();
    let kinds: Vec<&str> = items
        .iter()
        .map(|item| item["kind"].as_str().unwrap())
        .collect();
    for kind in ["Node", "Namespace", "LimitRange", "RuntimeClass", "Pod"] {
        assert!(kinds.contains(&kind), "{kind} is not in {kinds:?}");
    }
    assert!(
        items
            .iter()
            .all(|item| item["apiVersion"].is_string() && item["metadata"]["uid"].is_string())
    );
    let cluster = files.write("cluster.json", &text);
    let ask = |command: &str, from: [&str; 2]| {
        let mut program = scheduler();
        program.args([command, "-o", "json"]).args(from);
        let flag = if command == "simulate" {
            "--pods"
        } else {
            "--pod"
        };
        program.args([flag, &files.path("pod.json")]);
        program.env("KUBECONFIG", files.path("kubeconfig"));
        let mut answer = answer(&program::run(&mut program, ""));
        answer["elapsedSeconds"] = json!(null);
        answer
    };
    for command in ["explain", "plan"] {
        let live = ask(command, ["--context", "testkit"]);
        assert_eq!(ask(command, ["--cluster", &cluster]), live, "{command}");
        let rejected = &live["filterStatus"];
        assert_eq!(
            rejected["n1"]["reasons"],
            json!(["Insufficient cpu"]),
            "{live}"
        );
        assert_eq!(rejected["n2"], json!(null), "{live}");
    }
    let live = ask("simulate", ["--context", "testkit"]);
    assert_eq!(ask("simulate", ["--cluster", &cluster]), live);
    assert_eq!(live["placed"], json!({ "default/web": "n2" }));
}

#[test]
fn a2_lists_that_only_admission_needs_may_be_forbidden_which_is_said() {
    let api = api();
    let rule = |group: &str, resources: &[&str]| json!({ "apiGroups": [group], "resources": resources, "verbs": ["list"] });
    let rules = json!([
        rule("", &["nodes", "namespaces", "pods"]),
        rule("scheduling.k8s.io", &["priorityclasses"]),
        rule("policy", &["poddisruptionbudgets"]),
    ]);
    api.grant("token", "reader", Some(rules));
    api.set(|settings| settings.unknown_kinds = vec!["podgroups"]);
    let files = files(&api.kubeconfig_of("token"));
    let mut program = scheduler();
    program.args(["dump", "--context", "testkit"]);
    let output = program::run(program.env("KUBECONFIG", files.path("kubeconfig")), "");
    let said = stderr(&output);
    assert!(output.status.success(), "{said}");
    for line in [
        "limitranges may not be listed (the RBAC verb list on limitranges is needed)",
        "the API server has no podgroups.scheduling.k8s.io",
    ] {
        assert!(said.contains(line), "{line:?} is not in\n{said}");
    }
    // Without pods there is no answer.
    let rules = json!([rule("", &["nodes", "namespaces"])]);
    api.grant("token", "reader", Some(rules));
    for command in ["dump", "simulate"] {
        let mut program = scheduler();
        program.args([command, "--context", "testkit"]);
        let output = program::run(program.env("KUBECONFIG", files.path("kubeconfig")), "");
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    }
}

#[test]
fn a7_the_command_of_the_docs_has_every_kind() {
    let docs = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/scheduler.md");
    let docs = fs::read_to_string(docs).unwrap();
    let line = docs
        .lines()
        .find(|line| line.starts_with("$ kubectl get nodes,"))
        .unwrap();
    let short = [
        ("namespaces", "ns"),
        ("poddisruptionbudgets", "pdb"),
        ("priorityclasses", "pc"),
        ("services", "svc"),
        ("replicationcontrollers", "rc"),
        ("replicasets", "rs"),
        ("statefulsets", "sts"),
        ("persistentvolumeclaims", "pvc"),
        ("persistentvolumes", "pv"),
        ("storageclasses", "sc"),
        ("podgroups", "podgroups.scheduling.k8s.io"),
    ];
    let kinds = line.split([' ', ',']).collect::<Vec<_>>();
    for kind in evictd_manifests::Kind::ALL {
        let resource = kind.resource();
        let name = short.iter().find(|(long, _)| *long == resource);
        let name = name.map_or(resource, |(_, short)| short);
        assert!(kinds.contains(&name), "{name} is not in {line}");
    }
}
