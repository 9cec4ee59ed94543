//! `evictd check-config` as a person and a program see it.

use evictd_testkit::program::{self, refusal};
use serde_json::{Value, json};
use std::process::Output;

const KUBELET: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/tests/fixtures/kubelet-configz.json"
);
const NOTHING: &str = "apiVersion: evictd.dev/v1alpha1\nkind: EvictionConfiguration\n";
const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/config/evictd.yaml");

fn check_config(arguments: &[&str], stdin: &str) -> Output {
    let mut command = crate::evictd(&["check-config"]);
    program::run(command.args(arguments), stdin)
}

fn stdout(arguments: &[&str], stdin: &str) -> String {
    program::page(&check_config(arguments, stdin))
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
    let of_nothing = json(&["-"], NOTHING);
    assert_eq!(of_the_file["effective"], of_nothing["effective"]);
    assert_eq!(of_the_file["warnings"], json!([]));
}

#[test]
fn nothing_but_the_kind_is_all_defaults_and_an_empty_file_is_a_mistake() {
    let empty = check_config(&["-"], "# everything is commented out\n");
    let told = refusal(&empty, 2);
    assert!(told.contains("the file is empty, which would set every key to its default"));
    let report = json(&["-"], NOTHING);
    assert_eq!(report["valid"], true);
    assert_eq!(report["kind"], "EvictionConfiguration");
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
    let expected = "allocatableMemory.available 4.1% at once 50Mi derived from memory.available";
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

/// A configuration with what is dropped in beside it.
struct Dropped(tempfile::TempDir);

impl Dropped {
    fn new(base: &str, drop_ins: &[(&str, &str)]) -> Self {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("evictd.yaml"), base).unwrap();
        let beside = directory.path().join("conf.d");
        std::fs::create_dir(&beside).unwrap();
        for (name, text) in drop_ins {
            std::fs::write(beside.join(name), text).unwrap();
        }
        Self(directory)
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }
}

#[test]
fn drop_ins_come_on_top_in_the_order_of_their_names() {
    let dropped = Dropped::new(
        "kind: EvictionConfiguration\nevictionHard: {memory.available: 1Gi, pid.available: 20%}\nfutileEvictions: 5\n",
        &[
            ("20-late.yaml", "evictionHard:\n  memory.available: 3Gi\n"),
            (
                "10-early.json",
                "{\"evictionHard\": {\"memory.available\": \"2Gi\"}, \"metrics\": {\"address\": \"\"}}",
            ),
            ("30-empty.yaml", ""),
            ("README", "not: [read"),
            (".hidden.yaml", "not: [read"),
        ],
    );
    let base = dropped.path("evictd.yaml");
    let report = json(&[&base], "");
    let effective = &report["effective"];
    assert_eq!(effective["evictionHard"]["memory.available"], "3Gi");
    assert_eq!(effective["evictionHard"]["pid.available"], "20%");
    assert_eq!(effective["evictionHard"]["nodefs.available"], "10%");
    assert_eq!(effective["metrics"]["address"], "");
    assert_eq!(effective["futileEvictions"], 5);
    let origins = &report["origins"];
    let late = dropped.path("conf.d/20-late.yaml");
    assert_eq!(
        origins["evictionHard.memory.available"],
        format!("{late}:2")
    );
    assert_eq!(origins["futileEvictions"], format!("{base}:3"));
    assert_eq!(report["warnings"], json!([]));
    // The same in words: only what stands elsewhere needs a name.
    let table = stdout(&[&base, "-o", "table"], "");
    assert!(table.contains(&format!("{late}:2")), "{table}");
    assert!(!table.contains(&format!("{base}:3")), "{table}");
}

#[test]
fn each_mistake_is_named_by_the_file_that_holds_it() {
    let dropped = Dropped::new(
        "kind: EvictionConfiguration\nevictionHard: {memory.available: 1Gi}\nfutile: 5\n",
        &[
            (
                "10-soft.yaml",
                "evictionSoft:\n  memory.available: 500Mi\nevictionSoftGracePeriod: {memory.available: 1m}\n",
            ),
            (
                "20-kind.yaml",
                "kind: KubeletConfiguration\nnodeName: 7\nnodeName: a\n",
            ),
            ("30-torn.yaml", "evictionHard: {\n"),
        ],
    );
    std::fs::create_dir(dropped.path("conf.d/40-directory.yaml")).unwrap();
    let output = check_config(&[&dropped.path("evictd.yaml"), "-o", "json"], "");
    assert_eq!(output.status.code(), Some(2));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let found: Vec<(String, u64, &str)> = report["errors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|mistake| {
            let file = mistake["file"]
                .as_str()
                .unwrap()
                .rsplit('/')
                .next()
                .unwrap();
            let line = mistake["line"].as_u64().unwrap_or_default();
            (
                file.to_owned(),
                line,
                mistake["key"].as_str().unwrap_or_default(),
            )
        })
        .collect();
    let found: Vec<(&str, u64, &str)> = found
        .iter()
        .map(|(file, line, key)| (file.as_str(), *line, *key))
        .collect();
    assert_eq!(
        found,
        [
            ("40-directory.yaml", 0, ""),
            ("evictd.yaml", 3, "futile"),
            // What two files come to is said where the later one says it.
            ("10-soft.yaml", 2, "evictionSoft.memory.available"),
            ("20-kind.yaml", 1, "kind"),
            ("20-kind.yaml", 3, "nodeName"),
            ("30-torn.yaml", 1, ""),
        ]
    );
}

#[test]
fn what_a_kubelets_map_replaces_is_its_defaults_and_no_file() {
    let dropped = Dropped::new(
        "kind: KubeletConfiguration\nevictionHard: {memory.available: 1Gi}\n",
        &[("10.yaml", "evictionHard: {nodefs.available: 5%}\n")],
    );
    let report = json(&[&dropped.path("evictd.yaml")], "");
    let expected = json!({"memory.available": "1Gi", "nodefs.available": "5%"});
    assert_eq!(report["effective"]["evictionHard"], expected);
}

#[test]
fn presets_are_good_drop_ins_and_parity_is_the_kubelets() {
    let presets = concat!(env!("CARGO_MANIFEST_DIR"), "/config/presets");
    for preset in std::fs::read_dir(presets).unwrap() {
        let preset = preset.unwrap();
        let text = std::fs::read_to_string(preset.path()).unwrap();
        let name = preset.file_name().into_string().unwrap();
        let dropped = Dropped::new("kind: EvictionConfiguration\n", &[(&name, &text)]);
        let report = json(&[&dropped.path("evictd.yaml")], "");
        let parity = name == "kubelet-parity.yaml";
        let warnings = report["warnings"].as_array().unwrap();
        assert_eq!(warnings.len(), usize::from(parity), "{name}: {warnings:?}");
        if parity {
            let kubelets = json(&["-"], "kind: KubeletConfiguration");
            assert_eq!(
                report["effective"]["evictionMaxPodGracePeriod"],
                kubelets["effective"]["evictionMaxPodGracePeriod"]
            );
            let watched = |report: &Value| -> Vec<String> {
                let thresholds = report["thresholds"].as_array().unwrap().iter();
                thresholds
                    .map(|threshold| format!("{} {}", threshold["signal"], threshold["value"]))
                    .collect()
            };
            assert_eq!(watched(&report), watched(&kubelets));
        }
    }
}
