//! `evictd simulate` as a user starts it.

use crate::comparison;
use evictd_testkit::program::{self, stderr, stdout};
use serde_json::{Value, json};
use std::{path::Path, process::Output};

/// Runs `evictd simulate - ARGUMENTS` on `file`.
fn simulate(file: &str, arguments: &[&str]) -> Output {
    let mut command = crate::evictd(&["simulate", "-"]);
    program::run(command.args(arguments), file)
}

/// A pod above its request on a node below its threshold.
fn timeline() -> Value {
    json!({
        "now": "2026-01-01T00:00:00Z",
        "config": { "evictionHard": { "memory.available": "1Gi" } },
        "pods": [
            { "metadata": { "name": "hog", "namespace": "team", "uid": "1" },
              "spec": { "containers": [{ "name": "c", "resources": { "requests": { "memory": "50Mi" } } }] } },
            { "metadata": { "name": "calm", "namespace": "team", "uid": "2" },
              "spec": { "containers": [{ "name": "c", "resources": { "requests": { "memory": "50Mi" } } }] } },
        ],
        "steps": [
            { "offsetSeconds": 0, "summary": summary(2 << 30) },
            { "offsetSeconds": 10, "summary": summary(500 << 20) },
        ],
    })
}

fn summary(available: u64) -> Value {
    json!({
        "node": { "memory": { "availableBytes": available, "workingSetBytes": 1 << 30 } },
        "pods": [
            { "podRef": { "uid": "1" }, "memory": { "workingSetBytes": 300 << 20 } },
            { "podRef": { "uid": "2" }, "memory": { "workingSetBytes": 30 << 20 } },
        ],
    })
}

#[test]
fn all_cases_of_the_real_kubelet() {
    let folder =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("crates/eviction/tests/oracle/eviction");
    let cases = comparison::cases(&folder);
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|(name, case)| {
            let output = simulate(&case["input"].to_string(), &["-o", "json"]);
            let answer = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
            let refused = case["expected"].get("parseError").is_some();
            let expected_code = if refused { 2 } else { 0 };
            let difference = match output.status.code() {
                Some(code) if code == expected_code => {
                    comparison::difference(&case["expected"], &answer)?
                }
                code => format!("exit code {code:?}: {}", stderr(&output)),
            };
            Some(format!("{name}: {difference}"))
        })
        .collect();
    let (wrong_ones, all) = (wrong.len(), cases.len());
    assert!(
        wrong.is_empty(),
        "{wrong_ones} of {all} wrong:\n{}",
        wrong.join("\n\n")
    );
}

#[test]
fn json_and_yaml_say_the_same() {
    let case = timeline().to_string();
    let json: Value = serde_json::from_slice(&simulate(&case, &["-o", "json"]).stdout).unwrap();
    let yaml = stdout(&simulate(&case, &["-o", "yaml"]));
    assert_eq!(serde_saphyr::from_str::<Value>(&yaml).unwrap(), json);
    assert_eq!(json["steps"][1]["evicted"][0]["pod"], "team/hog");
    // What was printed as YAML can be read as YAML, too.
    let again = simulate(
        &serde_saphyr::to_string(&timeline()).unwrap(),
        &["-o", "json"],
    );
    assert_eq!(
        serde_json::from_slice::<Value>(&again.stdout).unwrap(),
        json
    );
}

#[test]
fn the_simulation_is_shown_with_reasons() {
    let output = simulate(&timeline().to_string(), &["-o", "table"]);
    let page = stdout(&output);
    for line in [
        "memory.available < 1Gi",
        "Step 1, at 0 s: no condition; no pod is evicted",
        "team/hog is evicted with a grace period of 1 s",
        "met      memory.available 500Mi < 1Gi since 10 s",
        "team/hog uses 300Mi, 250Mi above its request of 50Mi, while team/calm, next, uses 30Mi",
        "The node was low on resource: memory.",
    ] {
        assert!(page.contains(line), "{line:?} is not in\n{page}");
    }
    assert!(output.stderr.is_empty(), "{}", stderr(&output));
}

#[test]
fn a_refused_configuration_is_reported_on_both_streams() {
    let mut case = timeline();
    case["config"]["evictionSoft"] = json!({ "nodefs.available": "10%", "memory.free": "1" });
    let output = simulate(&case.to_string(), &["-o", "json"]);
    assert_eq!(output.status.code(), Some(2));
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        answer,
        json!({ "parseError": "unsupported eviction signal memory.free" })
    );
    let told = stderr(&output);
    assert!(told.contains("memory.free"), "{told}");
    assert!(told.contains("grace period must be specified"), "{told}");
}

#[test]
fn malformed_input_is_reported_with_its_key() {
    type Spoil = fn(&mut Value);
    let table: [(Spoil, &[&str]); 8] = [
        (
            |case| case["steps"][1]["summary"]["node"]["memory"]["availableBytes"] = json!("much"),
            &["steps[1].summary.node.memory.availableBytes: invalid type"],
        ),
        (|case| case["now"] = json!("yesterday"), &["now: "]),
        (
            |case| drop(case.as_object_mut().unwrap().remove("now")),
            &["now"],
        ),
        (
            |case| case["steps"][0]["offsetSeconds"] = json!(20),
            &["steps[1].offsetSeconds: 10 is before the previous step's, 20"],
        ),
        (
            |case| case["steps"][1]["offsetSeconds"] = json!(1e300),
            &["steps[1].offsetSeconds: 1"],
        ),
        (
            |case| case["config"]["evictionHard"] = json!({ "memory.available": 5 }),
            &["config.evictionHard"],
        ),
        (
            |case| {
                case["pods"][0]["spec"]["containers"][0]["resources"]["requests"]["memory"] =
                    json!("lots");
            },
            &["pods[0].spec.containers[0].resources.requests.memory: "],
        ),
        (
            |case| {
                case["steps"][0]["offsetSeconds"] = json!([]);
                case["pods"][1]["metadata"]["uid"] = json!(7);
            },
            &["steps[0].offsetSeconds: ", "pods[1].metadata.uid: "],
        ),
    ];
    for (spoil, mistakes) in table {
        let mut case = timeline();
        spoil(&mut case);
        let output = simulate(&case.to_string(), &["-o", "json"]);
        assert_eq!(output.status.code(), Some(2), "{case}");
        for mistake in mistakes {
            let told = stderr(&output);
            assert!(told.contains(mistake), "{mistake:?} is not in\n{told}");
        }
    }
    for text in ["", "{", "[]", "7", "steps: [", "{\"now\": null}"] {
        let output = simulate(text, &[]);
        assert_eq!(
            output.status.code(),
            Some(2),
            "{text:?}: {}",
            stdout(&output)
        );
    }
}

#[test]
fn of_two_that_hold_equally_much_the_one_that_has_grown_goes_where_that_is_asked_for() {
    let holds = |uid: &str, mebibytes: u64| {
        let volume = json!({ "name": "data", "usedBytes": mebibytes << 20, "inodesUsed": 1 });
        json!({ "podRef": { "uid": uid }, "volume": [volume], "ephemeral-storage": { "usedBytes": mebibytes << 20 } })
    };
    let summary = |available: u64, pods: [(&str, u64); 2]| {
        let disk = json!({ "capacityBytes": 10_u64 << 30, "availableBytes": available << 20 });
        json!({ "node": { "fs": disk }, "pods": pods.map(|(uid, mebibytes)| holds(uid, mebibytes)) })
    };
    let pod = |name: &str, uid: &str| {
        json!({
            "metadata": { "name": name, "namespace": "team", "uid": uid },
            "spec": { "containers": [{ "name": "c" }], "volumes": [{ "name": "data", "emptyDir": {} }] },
        })
    };
    let first = |fastest: bool| {
        let case = json!({
            "now": "2026-01-01T00:00:00Z",
            "config": {
                "kind": "EvictionConfiguration",
                "evictionHard": { "nodefs.available": "1Gi" }, "fastestWriterFirst": fastest,
            },
            "pods": [pod("full", "1"), pod("writer", "2")],
            "steps": [
                { "offsetSeconds": 0, "summary": summary(2048, [("1", 300), ("2", 100)]) },
                { "offsetSeconds": 10, "summary": summary(512, [("1", 300), ("2", 300)]) },
            ],
        });
        let output = simulate(&case.to_string(), &["-o", "json"]);
        let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
        answer["steps"][1]["evicted"][0]["pod"].clone()
    };
    assert_eq!(first(false), "team/full");
    assert_eq!(first(true), "team/writer");
}

#[test]
fn s1_026_a_step_without_summary_changes_nothing() {
    let mut case = timeline();
    case["steps"][1]["summary"] = Value::Null;
    let output = simulate(&case.to_string(), &["-o", "json"]);
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["steps"][1]["evicted"], json!([]));
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn odd_but_possible_input_is_answered_with_a_warning() {
    let mut case = timeline();
    case["pods"][1]["metadata"]
        .as_object_mut()
        .unwrap()
        .remove("uid");
    case["config"]["mergeDefaultEvictionSettings"] = json!(true);
    let output = simulate(&case.to_string(), &["-o", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let told = stderr(&output);
    assert!(
        told.contains("pods[1] (calm): has no metadata.uid"),
        "{told}"
    );
    assert!(
        told.contains("config.mergeDefaultEvictionSettings"),
        "{told}"
    );
    // Its figures cannot be found, so the kubelet puts it before the hog.
    let answer: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(answer["steps"][1]["evicted"][0]["pod"], "team/calm");
}

#[test]
fn a_kind_in_the_configuration_brings_its_defaults_and_rules() {
    let mut case = timeline();
    case["steps"][1]["summary"]["node"]["memory"]["availableBytes"] = json!(50 << 20);
    case["config"] = json!({ "kind": "KubeletConfiguration" });
    let answer = |case: &Value| -> Value {
        let output = simulate(&case.to_string(), &["-o", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        serde_json::from_slice(&output.stdout).unwrap()
    };
    let kubelet = answer(&case);
    let step = &kubelet["steps"][1];
    // 100Mi is the kubelet's default, one second its grace, and the condition holds for 5 minutes.
    assert_eq!(step["evicted"][0]["gracePeriodSeconds"], 1);
    assert_eq!(step["nodeConditions"], json!(["MemoryPressure"]));
    case["config"] = json!({ "kind": "EvictionConfiguration" });
    let ours = answer(&case);
    assert_eq!(ours["steps"][1]["evicted"][0]["gracePeriodSeconds"], 0);
    case["config"] = json!({ "kind": "EvictionConfiguration", "evictionHrad": {} });
    let output = simulate(&case.to_string(), &["-o", "json"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(
        stderr(&output).contains("evictionHrad"),
        "{}",
        stderr(&output)
    );
}

/// The part of `--help` that shows a file, as far as its config.
fn config_of_the_help() -> Value {
    let help = stdout(&program::run(
        &mut crate::evictd(&["simulate", "--help"]),
        "",
    ));
    let (_, config) = help.split_once("\"config\":").unwrap();
    let (config, _) = config.split_once(",\n    \"pods\"").unwrap();
    serde_json::from_str(config).unwrap()
}

#[test]
fn the_example_of_the_help_shows_conditions() {
    let mut case = timeline();
    case["config"] = config_of_the_help();
    case["steps"][1]["summary"] = summary(400 << 20);
    let page = stdout(&simulate(&case.to_string(), &[]));
    assert!(
        page.contains("Step 2, at 10 s: MemoryPressure; team/hog is evicted"),
        "{page}"
    );
    assert!(!page.contains("No condition is held"), "{page}");
    // Nothing is defaulted without a kind, and that is said.
    case["config"].as_object_mut().unwrap().remove("kind");
    let page = stdout(&simulate(&case.to_string(), &[]));
    assert!(
        page.contains("No condition is held, because evictionPressureTransitionPeriod is 0 s"),
        "{page}"
    );
}

#[test]
fn impossible_figures_in_a_timeline_are_bad_input() {
    let mut case = timeline();
    case["pods"][1]["metadata"]["uid"] = json!("1");
    case["steps"][1]["pods"] = case["pods"].clone();
    case["steps"][1]["pods"][1]["metadata"]["uid"] = json!("2");
    case["steps"][1]["pods"][0]["spec"]["containers"][0]["resources"]["requests"]["memory"] =
        json!("-1Gi");
    let output = simulate(&case.to_string(), &[]);
    assert_eq!(output.status.code(), Some(2));
    let told = stderr(&output);
    for said in [
        "pods[1] (calm): metadata.uid: \"1\" is also the UID of another pod",
        "steps[1].pods[0] (hog): spec.containers[0].resources.requests.memory: -1Gi is negative",
    ] {
        assert!(told.contains(said), "{told}");
    }
    for nothing in ["null", "# nothing"] {
        let output = simulate(nothing, &[]);
        assert_eq!(output.status.code(), Some(2));
        assert!(stderr(&output).contains("standard input: is empty"));
    }
}
