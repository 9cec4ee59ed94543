//! Mistakes in the input are reported with object and key, or with the assumption about them. Nothing panics.

use crate::cluster::{cluster, list, node, pending, pod};
use crate::{plan, run, scheduler};
use evictd_testkit::program::{self, answer, stderr};
use serde_json::{Value, json};

/// Adds `extra` to the cluster and plans.
fn with(extra: &[Value]) -> std::process::Output {
    let items = [cluster(), extra.to_vec()].concat();
    plan(list(&items), &pending(10), &["-o", "json"])
}

/// The cluster with `extra` is refused with this on stderr.
#[track_caller]
fn refused(extra: &[Value], message: &str) {
    let output = with(extra);
    let text = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert!(text.contains(message), "{message:?} is not in\n{text}");
}

/// The plan of the cluster with `extra` is the same as without it, with this warning.
#[track_caller]
fn assumed(extra: &[Value], message: &str) {
    let output = with(extra);
    let answer = answer(&output);
    assert_eq!(answer["chosen"]["victims"], json!(["shop/cheap"]));
    let text = stderr(&output);
    assert!(text.contains(message), "{message:?} is not in\n{text}");
    let warnings = answer["warnings"].to_string();
    assert!(
        warnings.contains(message),
        "{message:?} is not in {warnings}"
    );
}

fn budget(name: &str, change: impl FnOnce(&mut Value)) -> Value {
    let mut budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget",
        "metadata": { "name": name, "namespace": "shop" },
        "spec": { "selector": { "matchLabels": { "app": "nobody" } }, "minAvailable": 1 },
        "status": { "disruptionsAllowed": 0 },
    });
    change(&mut budget);
    budget
}

#[test]
fn pods_on_unknown_nodes_are_left_out() {
    assumed(
        &[pod("stray", "two", 0)],
        "pods on nodes that are not in the input are left out: Pod shop/stray (spec.nodeName two)",
    );
}

#[test]
fn s4_002_nominations_without_a_pod_scheduled_condition_reserve_nothing_in_a_plan_of_a_file() {
    let mut coming = pod("coming", "", 1_000_000);
    coming["status"]["nominatedNodeName"] = json!("one");
    assumed(
        &[coming],
        "nominations without PodScheduled=False are not the scheduler's, and reserve nothing: Pod shop/coming",
    );
}

#[test]
fn an_assumption_is_reported_once_for_all_objects() {
    let strays: Vec<Value> = (0..9)
        .map(|index| pod(&format!("stray-{index}"), "two", 0))
        .collect();
    let output = with(&strays);
    let text = stderr(&output);
    assert_eq!(text.lines().count(), 1, "{text}");
    assert!(text.ends_with("and 6 more\n"), "{text}");
}

#[test]
fn negative_amounts_are_mistakes() {
    let mut negative = pod("negative", "one", 0);
    negative["spec"]["containers"][0]["resources"]["requests"]["cpu"] = json!("-2");
    refused(
        &[negative],
        "Pod shop/negative: spec.containers[0].resources.requests.cpu: -2 is negative",
    );
    let mut small = node("small");
    small["status"]["allocatable"]["memory"] = json!("-1Gi");
    refused(
        &[small],
        "Node small: status.allocatable.memory: -1Gi is negative",
    );
}

#[test]
fn amounts_beyond_2_to_the_53_are_reported_as_an_assumption() {
    let mut vast = node("vast");
    vast["status"]["allocatable"] = json!({ "cpu": "1", "memory": "9E", "pods": "1" });
    assumed(
        &[vast],
        "amounts beyond 2^53 are used exactly as written: Node vast status.allocatable.memory 9E",
    );
}

#[test]
fn the_first_of_objects_with_the_same_name_counts_and_a_repeated_uid_is_a_mistake() {
    let mut twin = pod("twin", "one", 0);
    twin["metadata"]["uid"] = json!("uid-of-dear");
    refused(
        &[twin],
        "Pod shop/twin: metadata.uid: \"uid-of-dear\" is also the UID of another object",
    );
    let mut twin = pod("dear", "one", 0);
    twin["metadata"]["uid"] = json!("another");
    assumed(
        &[twin],
        "of objects with the same name only the first is used: Pod shop/dear",
    );
    let mut twin = node("one");
    twin["metadata"]["uid"] = json!("another");
    assumed(
        &[twin],
        "of objects with the same name only the first is used: Node one",
    );
}

#[test]
fn budgets_with_contradicting_or_missing_fields_are_reported() {
    let both = budget("both", |budget| {
        budget["spec"]["maxUnavailable"] = json!("10%");
    });
    assumed(
        &[both],
        "status.disruptionsAllowed is used as it is: PodDisruptionBudget shop/both",
    );
    let silent = budget("silent", |budget| budget["status"] = json!(null));
    assumed(
        &[silent],
        "budgets without status.disruptionsAllowed allow no disruption: PodDisruptionBudget shop/silent",
    );
    let empty = budget("empty", |budget| budget["spec"]["selector"] = json!({}));
    assumed(
        &[empty],
        "budgets with an empty spec.selector cover no pod where preemption asks: PodDisruptionBudget shop/empty",
    );
}

#[test]
fn invalid_selectors_are_mistakes() {
    let odd =
        json!({ "matchExpressions": [{ "key": "app", "operator": "Like", "values": ["x"] }] });
    let budget = budget("odd", |budget| budget["spec"]["selector"] = odd.clone());
    refused(
        &[budget],
        "PodDisruptionBudget shop/odd: spec.selector: \"app\": operator \"Like\" is not known here",
    );
    let mut choosy = pod("choosy", "one", 0);
    let term = json!({ "labelSelector": odd, "topologyKey": "zone" });
    choosy["spec"]["affinity"] =
        json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [term] } });
    refused(
        &[choosy],
        "Pod shop/choosy: spec.affinity.podAntiAffinity[0]: \"app\": operator \"Like\"",
    );
}

#[test]
fn missing_status_is_assumed() {
    let mut bare = node("bare");
    bare["status"] = json!(null);
    assumed(
        &[bare],
        "nodes without status.allocatable have room for no pod: Node bare",
    );
    let mut silent = pod("silent", "one", 20);
    silent["status"] = json!(null);
    silent["spec"]["containers"] = json!([]);
    assumed(
        &[silent],
        "pods without status.phase count as running: Pod shop/silent",
    );
}

#[test]
fn unknown_kinds_are_ignored_with_one_warning() {
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a" }, "data": 5 });
    let other =
        json!({ "apiVersion": "longhorn.io/v1", "kind": "Node", "metadata": { "name": "one" } });
    assumed(
        &[secret.clone(), secret, other],
        "objects of kinds that no decision needs are ignored: 1 Node of longhorn.io, 2 Secret",
    );
}

#[test]
fn lists_of_all_forms_are_read() {
    let items = cluster();
    let typed = |kind: &str, items: &[Value]| {
        let items: Vec<Value> = items
            .iter()
            .map(|item| {
                let mut item = item.clone();
                item.as_object_mut().unwrap().remove("kind");
                item
            })
            .collect();
        json!({ "kind": kind, "items": items })
    };
    let (nodes, pods) = (
        typed("NodeList", &items[..1]),
        typed("PodList", &items[1..]),
    );
    // If keys are sorted, the kind of a list follows its items.
    let late = |list: &Value| format!("{{\"items\":{},\"kind\":{}}}", list["items"], list["kind"]);
    let lines: Vec<String> = items.iter().map(Value::to_string).collect();
    let documents: Vec<String> = items
        .iter()
        .map(|item| serde_saphyr::to_string(item).unwrap())
        .collect();
    let nested = json!({ "kind": "List", "items": [nodes, { "items": [pods], "kind": "List" }] });
    let forms = [
        list(&items),
        serde_json::to_string_pretty(&json!({ "kind": "List", "items": items })).unwrap(),
        format!("\u{feff}{nested}"),
        format!("{nodes}{pods}"),
        format!("{}\n{}", late(&nodes), late(&pods)),
        lines.join("\n"),
        lines.concat(),
        json!(items).to_string(),
        serde_saphyr::to_string(&json!({ "kind": "List", "items": items })).unwrap(),
        documents.join(
            "---
",
        ),
    ];
    for form in forms {
        let output = plan(&form, &pending(10), &["-o", "json"]);
        let answer = answer(&output);
        assert_eq!(answer["chosen"]["victims"], json!(["shop/cheap"]), "{form}");
        assert_eq!(stderr(&output), "", "{form}");
    }
}

#[test]
fn files_without_kubernetes_objects_are_refused() {
    let whole = list(&cluster());
    let table = [
        (String::new(), "standard input: is empty"),
        (" \n".to_owned(), "standard input: is empty"),
        (
            whole[..whole.len() - 40].to_owned(),
            "the text ends here unexpectedly; it may be truncated",
        ),
        (
            whole[..60].to_owned(),
            "the text ends here unexpectedly; it may be truncated",
        ),
        (
            r#"{"a":[1,2]}"#.to_owned(),
            "standard input:1:1: is not a Kubernetes object, because it has no kind",
        ),
        (
            r#"{"kind":"List","items":[7]}"#.to_owned(),
            "standard input:1:25: items[0]: is no object",
        ),
        (
            r#"{"kind":"List","items":[{}]}"#.to_owned(),
            "items[0]: is not a Kubernetes object",
        ),
        (
            r#"{"kind":"List","items":[]}"#.to_owned(),
            "standard input: holds no Node; needed is the output of",
        ),
        (
            r#"{"kind":"PodList","items":[{"spec":{}}]}"#.to_owned(),
            "Pod items[0]: metadata.name: is missing",
        ),
        (
            r#"{"kind":"Secret","metadata":{"name":"a"}}"#.to_owned(),
            "holds no Node; needed is the output of `evictd-scheduler dump`; it holds 1 Secret",
        ),
        (
            "{\"kind\":\"List\",\n  items}".to_owned(),
            "standard input:2:3: expected a key",
        ),
        (
            r#"{"kind":"List","items":[{"kind":"Pod"} {"kind":"Pod"}]}"#.to_owned(),
            "expected a comma",
        ),
        ("[".repeat(100), "items[0]: the text ends here"),
        (r#"{"items":["#.repeat(100), "Lists inside Lists, too deep"),
        (
            "just words".to_owned(),
            "standard input:1:1: is no object; a Kubernetes object or a list of them is needed",
        ),
        ("a: [1".to_owned(), "standard input:1:"),
        ("\u{1}\u{2}".to_owned(), "standard input:1:"),
    ];
    for (text, expected) in table {
        let output = plan(&text, &pending(10), &[]);
        let found = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{text}\n{found}");
        assert!(
            found.contains(expected),
            "{text}: {expected:?} is not in\n{found}"
        );
    }
    let output = plan(b"a: \xff", &pending(10), &[]);
    assert!(stderr(&output).contains("standard input:1: is not UTF-8 text"));
}

#[test]
fn every_mistake_is_reported_with_its_place_object_and_key() {
    let text = r#"{"kind": "List", "items": [
  {"kind": "Pod", "metadata": {"name": "bad", "namespace": "shop"},
   "spec": {"priority": "high", "containers": [
     {"name": "c", "resources": {"requests": {"cpu": "many"}}}]}},
  {"kind": "Node", "metadata": {"name": 7}}
]}"#;
    let output = plan(text, &pending(10), &[]);
    let found = stderr(&output);
    let places: Vec<&str> = found
        .lines()
        .map(|line| line.split("\": ").next().unwrap())
        .collect();
    assert_eq!(
        places[0],
        "evictd-scheduler: standard input:3:25: Pod shop/bad: spec.priority: invalid type: string \"high\", expected i32"
    );
    assert_eq!(
        places[1],
        "standard input:4:54: Pod shop/bad: spec.containers[0].resources.requests.cpu: \"many"
    );
    assert_eq!(
        places[2],
        "standard input:5:41: Node items[1]: metadata.name: invalid type: integer `7`, expected a string"
    );
    assert_eq!(places.len(), 3);
}

#[test]
fn the_search_for_mistakes_ends_at_a_hundred() {
    let bad = json!({ "kind": "Pod", "metadata": { "name": 5 } });
    let output = plan(list(&vec![bad; 150]), &pending(10), &[]);
    let found = stderr(&output);
    assert_eq!(found.lines().count(), 101);
    assert!(found.ends_with("standard input: there may be more mistakes\n"));
}

#[test]
fn endless_input_is_not_read_to_its_end() {
    let blank = vec![b' '; 65 << 20];
    let output = run(blank, &["--pod", "shop/pending"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
    let zeros: Vec<u8> = vec![0; 4 << 20];
    let output = run(zeros, &["--pod", "shop/pending"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("standard input:1: is not UTF-8 text"));
    // Otherwise the mistakes would fill the memory, or the command would never end.
    let output = run("{}".repeat(1 << 20), &["--pod", "shop/pending"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).ends_with("there may be more mistakes\n"));
    for file in ["/dev/zero", "/dev/null"] {
        let mut command = scheduler();
        command.args(["plan", "--cluster", file, "--pod", file]);
        let output = program::run(&mut command, "");
        assert_eq!(output.status.code(), Some(2), "{file}");
        assert!(stderr(&output).contains(file), "{}", stderr(&output));
    }
    let output = run("null", &["--pod", "shop/pending"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is empty"), "{}", stderr(&output));
}

#[test]
fn a_profile_cannot_have_the_scheduler_name_of_batch_sessions() {
    let mut command = scheduler();
    command.args(["run", "--batch-conf", "/dev/null"]);
    command.args(["--batch-scheduler-name", "default-scheduler"]);
    let output = program::run(&mut command, "");
    assert_eq!(output.status.code(), Some(2));
    let text = stderr(&output);
    assert!(
        text.contains("--batch-scheduler-name default-scheduler: a profile"),
        "{text}"
    );
}
