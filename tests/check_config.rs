//! `evictd check-config` as a person and a program see it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use serde_json::{Value, json};
use std::{
    io::Write,
    process::{Command, Output, Stdio},
};

const KUBELET: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/kubelet-configz.json"
);
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/evictd.yaml");

fn check_config(arguments: &[&str], stdin: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_evictd"))
        .arg("check-config")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(stdin.as_bytes())
        .unwrap();
    child.wait_with_output().unwrap()
}

fn stdout(arguments: &[&str], stdin: &str) -> String {
    let output = check_config(arguments, stdin);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

fn json(arguments: &[&str], stdin: &str) -> Value {
    let arguments = [arguments, &["-o", "json"]].concat();
    serde_json::from_str(&stdout(&arguments, stdin)).unwrap()
}

#[test]
fn the_shipped_file_holds_the_built_in_defaults() {
    let shipped = std::fs::read_to_string(SAMPLE).unwrap();
    let built_in = stdout(&["--defaults"], "");
    assert_eq!(
        shipped, built_in,
        "write it anew: cargo run -- check-config --defaults > config/evictd.yaml"
    );
    let of_the_file = json(&[SAMPLE], "");
    let of_nothing = json(&["-"], "");
    assert_eq!(of_the_file["effective"], of_nothing["effective"]);
    assert_eq!(of_the_file["warnings"], json!([]));
}

#[test]
fn nothing_written_is_all_defaults_with_a_note() {
    let report = json(&["-"], "");
    assert_eq!(report["valid"], true);
    assert_eq!(report["kind"], "EvictionConfiguration");
    let note = &report["warnings"][0]["message"];
    assert_eq!(note, "the file is empty: every setting is at its default");
    assert_eq!(report["origins"]["socket"], "default");
    let signals: Vec<&str> = report["thresholds"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|threshold| threshold["signal"].as_str())
        .collect();
    assert!(signals.contains(&"pid.available"));
}

#[test]
fn the_configuration_of_a_real_kubelet() {
    let report = json(&[KUBELET], "");
    assert_eq!(report["kind"], "KubeletConfiguration");
    assert_eq!(report["thresholds"], json!([]));
    let warning = report["warnings"][0]["message"].as_str().unwrap();
    assert!(
        warning.starts_with("this kubelet's own eviction is off"),
        "{warning}"
    );
    let effective = &report["effective"];
    assert_eq!(effective["evictionMaxPodGracePeriod"], 0);
    assert_eq!(effective["evictionHardGracePeriod"], "1s");
    assert_eq!(effective["unknownStats"], "first");
    assert_eq!(
        report["origins"]["evictionMaxPodGracePeriod"],
        "kubelet default"
    );
    let line = report["origins"]["evictionPressureTransitionPeriod"]
        .as_str()
        .unwrap();
    assert!(line.ends_with("kubelet-configz.json:82"), "{line}");

    let table = stdout(&[KUBELET], "");
    assert!(
        table.contains("this kubelet's own eviction is off"),
        "{table}"
    );
    assert!(table.contains("No thresholds"), "{table}");
}

#[test]
fn s1_012_derived_thresholds_are_marked() {
    let body = "kind: EvictionConfiguration\nevictionHard: {memory.available: 4.1%}\n\
                evictionMinimumReclaim: {memory.available: 50Mi}\n";
    let report = json(&["-"], body);
    let of_signal = |signal: &str| {
        let thresholds = report["thresholds"].as_array().unwrap();
        thresholds
            .iter()
            .find(|threshold| threshold["signal"] == signal)
            .unwrap()
            .clone()
    };
    let origin = "standard input:2";
    assert_eq!(
        of_signal("memory.available"),
        json!({"signal": "memory.available", "value": "0.040999997", "gracePeriodSeconds": 0,
               "minReclaim": "50Mi", "origin": origin})
    );
    assert_eq!(
        of_signal("allocatableMemory.available"),
        json!({"signal": "allocatableMemory.available", "value": "0.040999997", "gracePeriodSeconds": 0,
               "minReclaim": "50Mi", "origin": origin, "derivedFrom": "memory.available"})
    );
    let table = stdout(&["-"], body);
    let line = table
        .lines()
        .find(|line| line.starts_with("allocatableMemory"))
        .unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let expected = "allocatableMemory.available 4.1% at once 50Mi follows from memory.available";
    assert_eq!(words.join(" "), expected);
    assert!(table.contains("line 2"), "{table}");
}

#[test]
fn yaml_is_itself_a_valid_configuration() {
    let body = "kind: EvictionConfiguration\npods: {source: manifests}\nevictionSoft: {memory.available: 10%}\n\
                evictionSoftGracePeriod: {memory.available: 1m30s}\nnodeName: \"yes\"\n";
    for (arguments, stdin) in [(vec!["-"], body), (vec![KUBELET], "")] {
        let yaml = stdout(&[arguments.as_slice(), &["-o", "yaml"]].concat(), stdin);
        let first = json(&arguments, stdin);
        let again = json(&["-"], &yaml);
        assert_eq!(again["effective"], first["effective"], "{yaml}");
        assert_eq!(again["kind"], first["kind"]);
    }
    let yaml = stdout(&["-", "-o", "yaml"], body);
    assert!(
        yaml.contains("source: manifests # standard input:2\n"),
        "{yaml}"
    );
    assert!(yaml.contains("dryRun: false # default\n"), "{yaml}");
}

#[test]
fn several_files_make_one_document() {
    let reports = json(&[SAMPLE, KUBELET], "");
    let kinds: Vec<&Value> = reports
        .as_array()
        .unwrap()
        .iter()
        .map(|report| &report["kind"])
        .collect();
    assert_eq!(kinds, ["EvictionConfiguration", "KubeletConfiguration"]);
    let output = check_config(&[SAMPLE, "/nonexistent.yaml", "-o", "json"], "");
    assert_eq!(output.status.code(), Some(2));
    let reports: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(reports[0]["valid"], true);
    assert_eq!(reports[1]["valid"], false);
}

#[test]
fn a_file_or_defaults_must_be_asked_for() {
    assert_eq!(check_config(&[], "").status.code(), Some(2));
    let both = check_config(&["--defaults", SAMPLE], "");
    assert_eq!(both.status.code(), Some(2));
}
