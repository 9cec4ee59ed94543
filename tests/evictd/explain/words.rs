//! Which signal is ranked and why, and clear words for what cannot be used.

use super::{Files, SHORT, assert_has};
use evictd_testkit::program::{self, refusal, stderr};
use serde_json::json;
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
fn what_no_file_may_hold_is_a_clear_error() {
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
            "every pod has its own",
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
