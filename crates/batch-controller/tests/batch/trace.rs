//! `evictd-batch simulate --trace` and `--generate`.

use crate::batch;
use evictd_testkit::program::{self, answer, page, refusal, stderr};
use serde_json::{Value, json};
use std::path::Path;
use std::process::Output;

/// The repository's own configurations.
const CONFS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/batch");

fn simulate(arguments: &[&str], trace: impl AsRef<[u8]>) -> Output {
    let mut command = batch();
    command
        .args(["simulate"])
        .args(arguments)
        .env("COLUMNS", "80");
    program::run(&mut command, trace)
}

fn play(arguments: &[&str], trace: impl AsRef<[u8]>) -> Output {
    simulate(&[&["--trace", "-"], arguments].concat(), trace)
}

fn conf(name: &str) -> String {
    format!("{CONFS}/{name}.conf")
}

/// Queue `a` has filled two nodes when a gang comes to `b`.
const TRACE: &str = "\
nodes:
- {name: node, count: 2, allocatable: {cpu: 4}}
queues:
- name: a
- name: b
jobs:
- name: greedy
  queue: a
  duration: 100
  tasks:
  - {replicas: 8, minAvailable: 1, requests: {cpu: 1}}
- name: gang
  queue: b
  owner: ada
  arrival: 40
  duration: 20
  tasks:
  - {name: master, requests: {cpu: 1}}
  - {name: worker, replicas: 3, requests: {cpu: 1}}
";

#[test]
fn two_configurations_are_compared_side_by_side() {
    let (fifo, proportion) = (conf("fifo"), conf("proportion"));
    let arguments = ["--conf", &fifo, "--compare", &proportion];
    let shown = page(&play(&arguments, TRACE));
    for line in shown.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let row = |name: &str| {
        let line = shown.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..]
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ")
    };
    assert_eq!(row("FIGURE"), "A B B-A");
    assert_eq!(row("jobs that ended"), "2 2 0");
    assert_eq!(row("pods reclaimed"), "0 4 +4");
    // It waits for the end of the other queue's pods, or for that of four that have to go.
    assert_eq!(row("wait, longest"), "1m00s 5s -55s");
    let both = answer(&play(
        &[arguments.as_slice(), &["-o", "json"]].concat(),
        TRACE,
    ));
    let runs = both["runs"].as_array().unwrap();
    assert_eq!(runs[1]["conf"], json!(proportion));
    assert_eq!(runs[1]["reclaimedPods"], json!(4));
    assert_eq!(runs[1]["queues"]["b"]["waitSeconds"]["p99"], json!(5.0));
    assert_eq!(runs[1]["lostWorkSeconds"]["cpu"], json!(160.0));
    let series = &runs[0]["series"];
    let count = series["seconds"].as_array().unwrap().len();
    assert_eq!(series["fairness"].as_array().unwrap().len(), count);
    assert_eq!(
        series["queues"]["a"]["cpu"].as_array().unwrap().len(),
        count
    );
}

#[test]
fn a_trace_in_json_and_in_yaml_has_the_same_result() {
    let value: Value = serde_saphyr::from_str(TRACE).unwrap();
    let json = answer(&play(&["-o", "json"], value.to_string()));
    assert_eq!(json, answer(&play(&["-o", "json"], TRACE)));
    assert_eq!(json["runs"][0]["conf"], json!("built-in"));
    answer(&play(&["-o", "json", "--form", "volcano"], TRACE));
}

#[test]
fn a_picture_shows_every_configuration_and_queue() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("trace.svg");
    let (fifo, drf) = (conf("fifo"), conf("drf"));
    let shown = file.display().to_string();
    page(&play(
        &["--conf", &fifo, "--compare", &drf, "--svg", &shown],
        TRACE,
    ));
    let picture = std::fs::read_to_string(&file).unwrap();
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"));
    for wanted in [
        "fifo.conf: cpu held by each queue",
        "drf.conf: cpu",
        "Jain",
        ">a</text>",
        ">b</text>",
        "polygon",
    ] {
        assert!(picture.contains(wanted), "{wanted}");
    }
    assert_eq!(
        picture.matches("<text").count(),
        picture.matches("</text>").count()
    );
    assert!(!picture.contains("NaN") && !picture.contains("inf"));
    let message = refusal(&play(&["--svg", "/nowhere/a.svg"], TRACE), 1);
    assert!(
        message.contains("--svg /nowhere/a.svg: No such file"),
        "{message}"
    );
}

#[test]
fn a_generated_trace_can_be_simulated_and_has_statistics() {
    let trace = page(&simulate(
        &["--generate", "--jobs", "60", "--seed", "7"],
        "",
    ));
    assert!(
        trace.contains("\n  drawnFrom: {") && trace.contains("\njobs:\n- {\"name\":\"job-00000\""),
        "{trace}"
    );
    assert_eq!(
        trace,
        page(&simulate(
            &["--generate", "--jobs", "60", "--seed", "7"],
            ""
        ))
    );
    let played = answer(&play(&["-o", "json"], &trace));
    assert_eq!(played["runs"][0]["finished"], json!(60));
    // As JSON it is the same.
    let json = page(&simulate(
        &["--generate", "--jobs", "60", "--seed", "7", "-o", "json"],
        "",
    ));
    assert_eq!(answer(&play(&["-o", "json"], json)), played);
}

#[test]
fn a_job_larger_than_the_cluster_is_named_with_the_reason() {
    let trace = TRACE.replace("replicas: 3", "replicas: 30");
    let shown = page(&play(&["--conf", &conf("fifo")], &trace));
    assert!(
        shown.contains("ada/gang  b      resource in cluster is overused"),
        "{shown}"
    );
    let message = answer(&play(&["-o", "json", "--conf", &conf("fifo")], &trace));
    let left = &message["runs"][0]["unfinished"][0];
    assert_eq!(left["job"], json!("ada/gang"));
    assert!(
        left["reason"].as_str().unwrap().contains("overused cpu"),
        "{left}"
    );
}

#[test]
fn mistakes_in_a_trace_are_errors_with_line_and_nearest_key() {
    for (from, to, wanted) in [
        (
            "arrival: 40",
            "arival: 40",
            "standard input:15:11: jobs[1].arival: unknown field `arival`; the nearest is `arrival`",
        ),
        (
            "arrival: 40",
            "arrival: -40",
            "standard input:15:12: jobs[1].arrival: invalid value: floating point `-40.0`, expected seconds from 0 to 1000000000",
        ),
        (
            "arrival: 40",
            "arrival: 1e300",
            "expected seconds from 0 to 1000000000",
        ),
        (
            "arrival: 40",
            "arrival: soon",
            "standard input:15:12: jobs[1].arrival: invalid type: string \"soon\", expected f64",
        ),
        (
            "replicas: 8",
            "replicas: -8",
            "standard input:11:16: jobs[0].tasks[0].replicas: invalid value: integer `-8`, expected u32",
        ),
        (
            "replicas: 8",
            "replicas: 99999999999999",
            "jobs[0].tasks[0].replicas: invalid value",
        ),
        (
            "replicas: 8",
            "replicas: 4000000000",
            "jobs: 4000000004 pods in all; at most 10000000 can be played",
        ),
        (
            "requests: {cpu: 1}}\n- name: gang",
            "requests: {cpu: -1}}\n- name: gang",
            "jobs[0].tasks[0].requests.cpu: -1 is negative",
        ),
        (
            "queue: b\n  owner",
            "queue: bb\n  owner",
            "standard input:13:10: jobs[1].queue: there is no queue bb; the nearest is b",
        ),
        ("  duration: 20\n", "", "jobs[1]: missing field `duration`"),
        (
            "owner: ada",
            "owner: a/b",
            "standard input:14:10: jobs[1].owner: a lowercase RFC 1123 subdomain",
        ),
        (
            "- name: b\n",
            "- {name: b, weight: 0}\n",
            "queues[1].weight: must be 1 or more",
        ),
        (
            "- name: b\n",
            "- name: a\n",
            "standard input:5:9: queues[1].name: a is there already",
        ),
    ] {
        let trace = TRACE.replacen(from, to, 1);
        assert_ne!(trace, TRACE, "{from}");
        let message = refusal(&play(&[], &trace), 2);
        assert!(message.contains(wanted), "{to}: {message}");
    }
}

#[test]
fn invalid_options_are_refused() {
    let wrong = Path::new(CONFS).join("nowhere.conf").display().to_string();
    for (arguments, wanted) in [
        (vec!["--trace", "-", "file.json"], "cannot be used with"),
        (vec!["--generate", "--trace", "-"], "cannot be used with"),
        (vec![], "required arguments were not provided"),
        (
            vec!["file.json", "--compare", "a.conf"],
            "cannot be used with",
        ),
        (vec!["file.json", "--jobs", "5"], "cannot be used with"),
        (vec!["--generate", "--svg", "a.svg"], "cannot be used with"),
        (vec!["--trace", "-", "--seed", "1"], "cannot be used with"),
        (vec!["--generate", "--jobs", "0"], "0 is not in 1..=1000000"),
        (
            vec!["--generate", "--load", "0"],
            "must be a number from 0.01 to 100",
        ),
        (
            vec!["--generate", "--load", "NaN"],
            "must be a number from 0.01 to 100",
        ),
        (
            vec!["--trace", "-", "--schedule-period", "0s"],
            "must be a duration from 1ms to 1h",
        ),
        (
            vec!["--trace", "-", "--conf", &wrong],
            "nowhere.conf: No such file",
        ),
        (
            vec![
                "--trace",
                "-",
                "--compare",
                "a",
                "--compare",
                "a",
                "--compare",
                "a",
                "--compare",
                "a",
                "--compare",
                "a",
            ],
            "at most 4 configurations",
        ),
    ] {
        let message = refusal(&simulate(&arguments, TRACE), 2);
        assert!(message.contains(wanted), "{arguments:?}: {message}");
    }
}

#[test]
fn an_invalid_configuration_is_an_error_with_its_file() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("own.conf");
    let shown = file.display().to_string();
    std::fs::write(&file, "actions: \"allocate, dance\"\n").unwrap();
    let message = refusal(&play(&["--conf", &shown], TRACE), 2);
    assert!(
        message.contains("own.conf:1:10: actions: failed to find Action  dance"),
        "{message}"
    );
    std::fs::write(
        &file,
        "actions: allocate\ntiers:\n- plugins:\n  - name: gagn\n",
    )
    .unwrap();
    let output = play(&["--conf", &shown, "-o", "json"], TRACE);
    answer(&output);
    let message = stderr(&output);
    assert!(
        message.contains(
            "own.conf:4:11: tiers[0].plugins[0].name: gagn: unknown plugin; it is skipped; the nearest is gang"
        ),
        "{message}"
    );
}
