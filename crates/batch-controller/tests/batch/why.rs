//! `evictd-batch why`, from files and against an API server.

use crate::batch;
use crate::cluster::{Cluster, file};
use evictd_testkit::objects;
use evictd_testkit::program::{self, answer, page, refusal, stderr};
use serde_json::{Value, json};
use std::process::Output;

fn pod(name: &str, group: &str, cpu: &str, node: Option<&str>) -> Value {
    let pod = objects::volcano_pod(name, group).cpu(cpu).runs_on(node);
    pod.set("/spec/containers/0/image", "i").json()
}

fn group(name: &str, min: i32, phase: &str) -> Value {
    let group = objects::volcano_group(name, min).phase(phase);
    group.set("/spec/queue", "gold").json()
}

fn node(name: &str, cordoned: bool) -> Value {
    let node = objects::node(name).cpu("8").memory("16Gi");
    node.set("/spec/unschedulable", cordoned).json()
}

/// Two nodes, one of them cordoned, and a gang that fits only with both.
fn objects() -> Vec<Value> {
    let queue = objects::queue("gold").open().json();
    vec![
        node("a", false),
        node("b", true),
        queue,
        group("other", 1, "Running"),
        pod("other-0", "other", "6", Some("a")),
        group("train", 2, "Inqueue"),
        pod("train-0", "train", "2", None),
        pod("train-1", "train", "4", None),
    ]
}

fn list(items: Vec<Value>) -> Value {
    json!({"apiVersion": "v1", "kind": "List", "items": items})
}

fn of_file(input: &Value, arguments: &[&str]) -> Output {
    let mut command = batch();
    command.env("COLUMNS", "80");
    command
        .args(["why", "train", "--cluster", "-"])
        .args(arguments);
    program::run(&mut command, input.to_string())
}

const HEADLINE: &str =
    "train waits: 1 of its 2 pods fits on no node (too little cpu on 1 of 2 nodes)";

/// `simulate` and events have the names of jobs with their namespaces, and kubectl has `-f` for files.
#[test]
fn a_job_is_also_named_with_its_namespace() {
    let asked = |arguments: &[&str]| {
        let mut command = batch();
        command.arg("why").args(arguments);
        program::run(&mut command, list(objects()).to_string())
    };
    assert!(page(&asked(&["default/train", "-f", "-"])).starts_with(HEADLINE));
    let same = ["default/train", "-n", "default", "--cluster", "-"];
    assert!(page(&asked(&same)).starts_with(HEADLINE));
    let refused = refusal(&asked(&["default/train", "-n", "gold", "-f", "-"]), 2);
    assert!(
        refused.contains("default/train is not in the namespace gold: leave -n gold out"),
        "{refused}"
    );
}

#[test]
fn the_first_line_is_the_answer_and_the_page_fits_eighty_columns() {
    let whole = page(&of_file(&list(objects()), &[]));
    let lines: Vec<&str> = whole.lines().collect();
    assert_eq!(lines[0], format!("{HEADLINE}."));
    for line in [
        "  - default/other ends (1 pod)",
        "  - node b is uncordoned",
        "    1  Insufficient cpu",
        "    1  node(s) were unschedulable",
        "The built-in configuration was used; --conf FILE sets that of the scheduler.",
    ] {
        assert!(lines.contains(&line), "{line}\n{whole}");
    }
    let longest = lines.iter().map(|line| line.chars().count()).max();
    assert!(longest <= Some(80), "{whole}");
}

/// Of 12 cores each queue deserves 4. The gang of 5 in queue `bronze` cannot use its part.
#[test]
fn a_lent_share_is_named_with_its_limits() {
    let queues = ["gold", "silver", "bronze"].map(|name| objects::queue(name).open().json());
    let node = objects::node("a").cpu("12").memory("16Gi").json();
    let mut all: Vec<Value> = queues.into_iter().chain([node]).collect();
    let jobs = [
        ("other", "gold", 8, Some("a")),
        ("first", "silver", 4, Some("a")),
        ("train", "silver", 1, None),
        ("large", "bronze", 5, None),
    ];
    for (name, queue, pods, on) in jobs {
        let phase = if on.is_some() { "Running" } else { "Inqueue" };
        let min = if name == "large" { pods } else { 1 };
        let group = objects::volcano_group(name, min).phase(phase);
        all.push(group.set("/spec/queue", queue).json());
        all.extend((0..pods).map(|index| pod(&format!("{name}-{index}"), name, "1", on)));
    }
    let answer = page(&of_file(&list(all), &[]));
    let words: Vec<&str> = answer.split_whitespace().collect();
    let lent = "Of its share other queues lend cpu 1: it is used where it is free, and no pod is evicted for it.";
    assert!(words.join(" ").contains(lent), "{answer}");
}

#[test]
fn json_and_yaml_have_the_whole_answer() {
    for form in ["evictd", "volcano"] {
        let all = answer(&of_file(&list(objects()), &["-o", "json", "--form", form]));
        assert_eq!(
            (&all["state"], &all["headline"]),
            (&json!("waits"), &json!(HEADLINE))
        );
        assert_eq!(
            all["soonest"][0]["changes"][0],
            json!({"kind": "jobsEnd", "jobs": ["default/other"], "pods": ["default/other-0"]})
        );
        let places = &all["closeup"]["places"];
        assert_eq!(
            (&places["nodes"], &places["now"], &places["waiting"]),
            (&json!(2), &json!(1), &json!(2))
        );
        assert_eq!(
            places["nearest"][0]["one"],
            json!([{"resource": "cpu", "amount": "4"}])
        );
        assert_eq!(
            all["closeup"]["queue"]["resources"][0]["request"],
            json!("12")
        );
    }
    let yaml = page(&of_file(&list(objects()), &["-o", "yaml"]));
    assert!(yaml.contains("state: waits\n"), "{yaml}");
}

#[test]
fn a_document_for_a_browser_has_the_answer_and_its_reasons() {
    let input = list(objects());
    let page = page(&of_file(&input, &[]));
    let verdict = page.lines().next().unwrap().to_owned();
    let output = of_file(&input, &["-o", "html"]);
    let document = String::from_utf8(output.stdout).unwrap();
    assert!(document.starts_with("<!DOCTYPE html>"), "{document}");
    // A terminal breaks the sentence into lines.
    let begin: String = verdict.chars().take(30).collect();
    for part in [&*begin, "<h2>The nodes</h2>", "node(s) were unschedulable"] {
        assert!(document.contains(part), "{part} in {document}");
    }
}

#[test]
fn a_session_file_is_a_cluster_with_its_configuration() {
    let of = |kind: &str| {
        objects()
            .into_iter()
            .filter(|change| change["kind"] == kind)
            .collect::<Vec<Value>>()
    };
    let session = json!({
        "conf": "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n",
        "nodes": of("Node"), "queues": of("Queue"), "podGroups": of("PodGroup"), "pods": of("Pod"),
    });
    let whole = page(&of_file(&session, &[]));
    assert!(whole.starts_with(HEADLINE), "{whole}");
    assert!(!whole.contains("built-in"), "{whole}");
    assert!(whole.contains("shared by no plugin"), "{whole}");
    let conf = file("actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gagn\n");
    let message = of_file(&session, &["--conf", &conf.path().display().to_string()]);
    assert!(stderr(&message).contains("gagn"), "{}", stderr(&message));
}

#[test]
fn a1_a_dump_is_read_in_every_form_that_the_schedulers_commands_read() {
    let (nodes, others): (Vec<Value>, Vec<Value>) = objects()
        .into_iter()
        .partition(|object| object["kind"] == "Node");
    // A kind of the same name of another group, one that decides nothing, and a list in a list.
    let custom = json!({"apiVersion": "longhorn.io/v1beta2", "kind": "Node", "metadata": {"name": "a"}, "status": "other"});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "map"}});
    let first = file(&list(vec![custom, map, list(nodes)]).to_string());
    let documents: Vec<String> = others.iter().map(Value::to_string).collect();
    let second = file(&documents.join("\n"));
    let mut command = batch();
    command
        .args(["why", "train", "--cluster"])
        .arg(first.path());
    command.arg("--cluster").arg(second.path());
    let output = program::run(&mut command, "");
    let ignored =
        "objects of kinds that no decision needs are ignored: 1 ConfigMap, 1 Node of longhorn.io";
    assert!(stderr(&output).contains(ignored), "{}", stderr(&output));
    assert!(page(&output).starts_with(HEADLINE), "{}", page(&output));
}

#[test]
fn an_unknown_job_or_file_is_an_error() {
    let message = |input: &Value, arguments: &[&str]| refusal(&of_file(input, arguments), 2);
    let mut command = batch();
    command.args(["why", "trian", "--cluster", "-"]);
    let misspelt = program::run(&mut command, list(objects()).to_string());
    assert_eq!(
        refusal(&misspelt, 2),
        "evictd-batch: no job, pod group, pod or owner of pods is named trian in the namespace default; the nearest name is train\n"
    );
    let broken = message(
        &list(vec![
            json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": 3}),
        ]),
        &[],
    );
    assert!(
        broken.contains(":1:") && broken.contains("x: spec: invalid type: integer `3`"),
        "{broken}"
    );
    let conf = file("actions: \"dance\"\n");
    let wrong = message(
        &list(objects()),
        &["--conf", &conf.path().display().to_string()],
    );
    assert!(wrong.contains("failed to find Action dance"), "{wrong}");
    let both = message(&list(objects()), &["--context", "prod"]);
    assert!(both.contains("cannot be used with"), "{both}");
}

/// The same objects in an API server.
fn cluster() -> Cluster {
    let cluster = Cluster::start();
    for object in objects() {
        let made = cluster.admin.create(object.clone()).unwrap();
        if object["kind"] == "Pod" {
            let at = format!("default/{}", made["metadata"]["name"].as_str().unwrap());
            let status = json!({"status": object["status"]});
            cluster.admin.merge("pods/status", &at, status).unwrap();
        }
    }
    cluster
}

#[test]
fn a_live_cluster_is_only_read_and_answers_as_its_dump_does() {
    let cluster = cluster();
    let before = cluster.api.log().len();
    let live = answer(&cluster.run("why train -o json"));
    assert_eq!(live["headline"], json!(HEADLINE));
    let dumped = answer(&of_file(&list(objects()), &["-o", "json"]));
    assert_eq!(live["soonest"], dumped["soonest"]);
    let asked = cluster.api.log().split_off(before);
    let mut verbs: Vec<(String, &str)> = asked
        .iter()
        .map(|entry| (entry.what.clone(), entry.verb))
        .collect();
    verbs.sort();
    verbs.dedup();
    let kinds = [
        "events",
        "jobs",
        "nodes",
        "podgroups",
        "pods",
        "priorityclasses",
        "queues",
    ];
    let expected: Vec<(String, &str)> = kinds
        .iter()
        .map(|kind| ((*kind).to_owned(), "list"))
        .collect();
    assert_eq!(verbs, expected);
}

#[test]
fn hyper_nodes_are_read_for_jobs_whose_groups_do_not_exist_yet() {
    let asks = |more: Value| {
        let cluster = cluster();
        cluster.job("default", "new", json!({ "spec": more }));
        page(&cluster.run("why new"));
        let mut log = cluster.api.log().into_iter();
        log.any(|entry| entry.what == "hypernodes" && entry.verb == "list")
    };
    assert!(!asks(json!({})));
    assert!(asks(
        json!({"networkTopology": {"mode": "hard", "highestTierAllowed": 1}})
    ));
    assert!(asks(json!({"tasks": [{"replicas": 2,
        "partitionPolicy": {"totalPartitions": 2, "partitionSize": 1,
            "networkTopology": {"mode": "hard", "highestTierAllowed": 1}}}]})));
}

#[test]
fn past_evictions_are_shown_and_volumes_are_read_only_for_pods_that_need_them() {
    let cluster = cluster();
    let event = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e1", "namespace": "default"},
        "involvedObject": {"kind": "PodGroup", "namespace": "default", "name": "train"},
        "type": "Normal", "reason": "Evict", "message": "reclaim", "lastTimestamp": "2026-01-01T00:00:00Z",
    });
    cluster.admin.create(event).unwrap();
    let mut claiming = pod("train-2", "train", "1", None);
    claiming["spec"]["volumes"] =
        json!([{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]);
    cluster.admin.create(claiming).unwrap();
    cluster
        .admin
        .merge(
            "pods/status",
            "default/train-2",
            json!({"status": {"phase": "Pending"}}),
        )
        .unwrap();
    let whole = page(&cluster.run("why train"));
    assert!(
        whole.contains("Evicted for other jobs:\n  2026-01-01T00:00:00Z pod group train: reclaim"),
        "{whole}"
    );
    assert!(
        cluster
            .api
            .log()
            .iter()
            .any(|entry| entry.what == "persistentvolumeclaims" && entry.verb == "list")
    );
}

/// The gang of one of Kubernetes' own groups whose pods have to be in one of two racks, each with room for one.
fn in_one_rack() -> Vec<Value> {
    let version = "scheduling.k8s.io/v1beta1";
    let mut all = objects();
    all.truncate(3);
    for (node, rack) in all.iter_mut().zip(["x", "y"]) {
        node["metadata"]["labels"] = json!({"rack": rack});
        node["spec"] = json!({});
    }
    all.push(json!({"apiVersion": version, "kind": "Workload", "spec": {},
        "metadata": {"name": "train", "namespace": "default", "labels": {"scheduling.volcano.sh/queue-name": "gold"}}}));
    all.push(json!({"apiVersion": version, "kind": "PodGroup", "metadata": {"name": "train", "namespace": "default"},
        "spec": {"workloadRef": {"workloadName": "train"}, "schedulingPolicy": {"gang": {"minCount": 2}},
            "schedulingConstraints": {"topology": [{"key": "rack"}]}}}));
    for index in 0..2 {
        let mut member = pod(&format!("train-{index}"), "", "5", None);
        member["metadata"]["annotations"] = json!({});
        member["spec"]["schedulingGroup"] = json!({"podGroupName": "train"});
        all.push(member);
    }
    all
}

#[test]
fn upstream_pod_groups_are_read_only_if_pods_name_them() {
    let conf =
        file("actions: \"allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n");
    let conf = conf.path().display().to_string();
    let whole = page(&of_file(&list(in_one_rack()), &["--conf", &conf]));
    let headline = "train waits: 1 of its 2 pods fits on no node with rack=x (too little cpu on the\nonly node).";
    assert!(whole.starts_with(headline), "{whole}");
    let one_line = whole.replace('\n', " ");
    for part in [
        "The reason of the only node with rack=x against",
        "Queue gold:",
    ] {
        assert!(one_line.contains(part), "{whole}");
    }
    let cluster = Cluster::start();
    for object in in_one_rack() {
        let made = cluster.admin.create(object.clone()).unwrap();
        if object["kind"] == "Pod" {
            let at = format!("default/{}", made["metadata"]["name"].as_str().unwrap());
            let status = json!({"status": object["status"]});
            cluster.admin.merge("pods/status", &at, status).unwrap();
        }
    }
    let live = page(&cluster.run(&format!("why train --conf {conf}")));
    assert_eq!(live.replace('\n', " "), whole.replace('\n', " "));
}

#[test]
fn without_the_right_to_events_the_answer_is_the_same() {
    let cluster = cluster();
    let rule = |groups: &[&str], resources: &[&str]| json!({"apiGroups": groups, "resources": resources, "verbs": ["list"]});
    let rules = json!([
        rule(&["batch.volcano.sh"], &["jobs"]),
        rule(&["scheduling.volcano.sh"], &["queues", "podgroups"]),
        rule(&["scheduling.k8s.io"], &["priorityclasses"]),
        rule(&[""], &["nodes", "pods"]),
    ]);
    cluster.api.grant("token", "guest", Some(rules));
    let kubeconfig = file(&cluster.api.kubeconfig_of("token"));
    let mut command = batch();
    command.args(["why", "train", "-k"]).arg(kubeconfig.path());
    let output = program::run(&mut command, "");
    assert!(page(&output).starts_with(HEADLINE));
    assert!(
        stderr(&output).contains("past evictions are not shown"),
        "{}",
        stderr(&output)
    );
}

/// The conf of the scheduler with one more plugin.
fn conf_with(plugin: &str) -> tempfile::NamedTempFile {
    file(&format!(
        "actions: \"enqueue, allocate\"\ntiers:\n- plugins:\n  - name: gang\n  - name: predicates\n  - name: {plugin}\n"
    ))
}

#[test]
fn s6_220_quotas_of_a_cluster_keep_a_job_out_and_without_the_right_that_is_said() {
    let cluster = cluster();
    let mut waits = group("late", 1, "Pending");
    waits["spec"]["minResources"] = json!({"cpu": "2"});
    cluster.admin.create(waits).unwrap();
    cluster
        .admin
        .create(pod("late-0", "late", "2", None))
        .unwrap();
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "team", "namespace": "default"},
        "spec": {"hard": {"cpu": "4"}}});
    cluster.admin.create(quota).unwrap();
    let status = json!({"status": {"hard": {"cpu": "4"}, "used": {"cpu": "3"}}});
    cluster
        .admin
        .merge("resourcequotas/status", "default/team", status)
        .unwrap();
    let conf = conf_with("resourcequota");
    let arguments = format!("why late --conf {} -o json", conf.path().display());
    let headline = answer(&cluster.run(&arguments))["headline"].to_string();
    assert!(
        headline.contains("resource quota insufficient, team: cpu: requested 2, used 3, limited 4"),
        "{headline}"
    );
    // A user who may list everything else.
    let rule = |group: &str, resources: &[&str]| json!({"apiGroups": [group], "resources": resources, "verbs": ["get", "list"]});
    let rules = json!([
        rule("", &["nodes", "pods", "events"]),
        rule("scheduling.k8s.io", &["priorityclasses"]),
        rule("batch.volcano.sh", &["jobs"]),
        rule("scheduling.volcano.sh", &["queues", "podgroups"]),
    ]);
    cluster.api.grant("token", "guest", Some(rules));
    let kubeconfig = file(&cluster.api.kubeconfig_of("token"));
    let mut command = batch();
    command
        .args(arguments.split(' '))
        .arg("--kubeconfig")
        .arg(kubeconfig.path());
    let output = program::run(&mut command, "");
    assert_eq!(answer(&output)["state"], "starts");
    let warning = stderr(&output);
    for part in [
        "resourcequotas cannot be listed, so that no quota seems to keep the job out",
        "list on resourcequotas is needed",
    ] {
        assert!(warning.contains(part), "{part}: {warning}");
    }
}

#[test]
fn s6_219_budgets_are_read_where_the_configuration_keeps_them() {
    let cluster = cluster();
    for (plugin, kinds) in [
        ("pdb", vec!["poddisruptionbudgets"]),
        ("numa-aware", vec!["numatopologies"]),
        ("priority", vec![]),
    ] {
        let conf = conf_with(plugin);
        let before = cluster.api.log().len();
        let output = cluster.run(&format!(
            "why train --conf {} -o json",
            conf.path().display()
        ));
        assert_eq!(answer(&output)["headline"], json!(HEADLINE), "{plugin}");
        let asked = cluster.api.log().split_off(before);
        let special = ["poddisruptionbudgets", "numatopologies", "resourcequotas"];
        let asked: Vec<&str> = asked.iter().map(|entry| entry.what.as_str()).collect();
        let asked: Vec<&str> = special
            .into_iter()
            .filter(|kind| asked.contains(kind))
            .collect();
        assert_eq!(asked, kinds);
    }
}

#[test]
fn s6_061_sets_of_bare_pods_say_how_many_start_together() {
    let mut all = vec![node("a", false), objects::queue("default").open().json()];
    let set = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "train", "namespace": "default", "annotations": {"scheduling.volcano.sh/group-min-member": "3"}},
        "spec": {"selector": {"matchLabels": {"app": "train"}}}});
    let of = |uid: Value| {
        let owner = json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "train", "uid": uid, "controller": true});
        (0..3).map(move |index| {
            let mut member = pod(&format!("train-{index}"), "", "3", None);
            member["metadata"]["annotations"] = json!({});
            member["metadata"]["ownerReferences"] = json!([owner]);
            member
        })
    };
    let cluster = Cluster::start();
    let stored = cluster.admin.create(set.clone()).unwrap();
    let uid = stored["metadata"]["uid"].clone();
    let headline = "train is not let in: there is no room now for 3 pods that ask for cpu 3 each";
    for object in all.iter().cloned().chain(of(uid.clone())) {
        cluster.admin.create(object).unwrap();
    }
    let live = page(&cluster.run("why train"));
    assert!(live.starts_with(headline), "{live}");
    all.push(stored);
    all.extend(of(uid));
    let whole = page(&of_file(&list(all), &[]));
    assert!(whole.starts_with(headline), "{whole}");
}
