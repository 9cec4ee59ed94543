//! Which signal is ranked and why, and clear words for what cannot be used.

use super::{Files, SHORT, assert_has};
use evictd_testkit::program::{self, refusal, stderr};
use serde_json::{Value, json};
use std::process::Command;

#[test]
fn it_is_said_which_signal_the_pods_are_ranked_for_and_why() {
    let files = Files::real();
    files.write("short.yaml", SHORT);
    files.write(
        "soft.yaml",
        "kind: KubeletConfiguration
evictionSoft: { memory.available: 20Gi }
evictionSoftGracePeriod: { memory.available: 1m30s }
",
    );
    for (arguments, said) in [
        (
            &[][..],
            "for memory.available, because no threshold is crossed (--signal SIGNAL ranks for another):",
        ),
        (
            &["--config", "short.yaml"],
            "for memory.available, whose threshold acts now:",
        ),
        (
            &["--config", "soft.yaml"],
            "for memory.available, whose threshold is crossed:",
        ),
        (
            &["--signal", "pid.available"],
            "for pid.available, as --signal asks:",
        ),
    ] {
        assert_has(
            &files.page(arguments),
            &[&format!("Pods in the order of eviction {said}")],
        );
    }
}

#[test]
fn a_time_in_other_words_is_told_what_form_it_takes() {
    let files = Files::real();
    let output = files.explain(&["--now", "yesterday"]);
    assert_eq!(output.status.code(), Some(2));
    let arguments = [
        "explain",
        "--pods",
        "p",
        "--summary",
        "s",
        "--now",
        "yesterday",
    ];
    let output = program::run(&mut crate::evictd(&arguments), "");
    assert_has(
        &refusal(&output, 2),
        &["'yesterday'", "2026-11-21T00:12:20Z"],
    );
}

#[test]
fn impossible_figures_in_a_file_are_a_clear_error() {
    let files = Files::real();
    files.change("pods.json", |pods| {
        pods["items"][1]["metadata"]["uid"] = pods["items"][0]["metadata"]["uid"].clone();
        pods["items"][2]["spec"]["containers"][0]["resources"]["requests"] =
            json!({ "memory": "-5Mi" });
    });
    let output = files.explain(&[]);
    assert_eq!(output.status.code(), Some(2));
    assert_has(
        &stderr(&output),
        &[
            "metadata.uid: ",
            "is also the UID of another object",
            "requests.memory: -5Mi is negative",
            "pods.json:1:",
        ],
    );
    let files = Files::real();
    files.write("null.yaml", "# nothing\nnull\n");
    for option in ["--pods", "--summary", "--config", "--node"] {
        for file in ["null.yaml", "/dev/null", "/dev/zero"] {
            // So much and no more, where a file without an end was read until memory ran out.
            let mut bounded = Command::new("prlimit");
            bounded
                .arg("--as=1073741824")
                .arg(env!("CARGO_BIN_EXE_evictd"));
            bounded.arg("explain").current_dir(files.folder.path());
            for (known, usual) in [("--pods", "pods.json"), ("--summary", "summary.json")] {
                bounded.args([known, if known == option { file } else { usual }]);
            }
            if option == "--config" || option == "--node" {
                bounded.args([option, file]);
            }
            let output = program::run(&mut bounded, "");
            assert_eq!(
                output.status.code(),
                Some(2),
                "{option} {file}: {}",
                stderr(&output)
            );
            let said = if file == "/dev/zero" {
                "is not UTF-8 text"
            } else {
                "empty"
            };
            assert_has(&stderr(&output), &[file, said]);
        }
    }
}

/// T120 with larger amounts: 64Gi, of which 32Gi are huge pages and 31Gi are used. 1Gi is left, and a kubelet before 1.37 counts 33Gi.
#[test]
fn s7_280_t120_huge_pages_of_the_node_are_not_available() {
    const GI: u64 = 1 << 30;
    let memory = json!({ "availableBytes": 33 * GI, "workingSetBytes": 31 * GI });
    let used = json!({ "workingSetBytes": 20 * GI });
    let summary = json!({
        "node": { "nodeName": "n1", "memory": memory },
        "pods": [{ "podRef": { "name": "cache", "namespace": "shop", "uid": "u" }, "memory": used }],
    });
    let pod = json!({ "metadata": { "name": "cache", "namespace": "shop", "uid": "u" } });
    let files = Files::of(&json!({ "kind": "PodList", "items": [pod] }), &summary);
    let status = json!({
        "capacity": { "memory": "64Gi", "hugepages-1Gi": "32Gi" },
        "nodeInfo": { "kubeletVersion": "v1.36.2" },
    });
    let node = json!({ "kind": "Node", "metadata": { "name": "n1" }, "status": status });
    files.write("node.json", &node.to_string());
    let hard = "evictionHard: {memory.available: 2Gi}\n";
    files.write("own.yaml", &format!("kind: EvictionConfiguration\n{hard}"));
    files.write("kub.yaml", &format!("kind: KubeletConfiguration\n{hard}"));
    let assumed = |report: &Value| {
        report["assumed"]
            .as_array()
            .unwrap()
            .last()
            .cloned()
            .unwrap()
    };
    let own = files.json(&["--node", "node.json", "--config", "own.yaml"]);
    assert_eq!(own["next"], "shop/cache");
    let memory = |report: &Value| {
        let signals = report["signals"].as_array().unwrap();
        let memory = signals
            .iter()
            .find(|one| one["signal"] == "memory.available");
        memory.unwrap()["available"].clone()
    };
    assert_eq!(memory(&own), GI);
    let less = "memory.available is the summary's figure less 32Gi of huge pages (hugepages-* of the Node)";
    assert_eq!(assumed(&own), less);
    let arguments = ["--node", "node.json", "--config", "kub.yaml"];
    let kubelets = files.json(&arguments);
    let counts = "memory.available is the kubelet's figure, which counts 32Gi of huge pages as available before 1.37; \
                  without them 1Gi is left";
    assert_eq!(assumed(&kubelets), counts);
    assert_eq!(memory(&kubelets), 33 * GI);
    assert!(files.page(&arguments).contains("Nothing is under pressure"));
    let warned = stderr(&files.explain(&arguments));
    assert!(
        warned.contains("counts 32Gi of huge pages as available before 1.37"),
        "{warned}"
    );
}
