//! Nodes that join and are lost, and jobs that are deleted, in the middle of a trace.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_batch::conf::Conf;
use evictd_batch_objects::Compat;
use evictd_batch_trace::{Report, Seconds, SimulatorOptions, Trace, play};
use serde_json::{Value, json};

fn played(trace: Value) -> Report {
    let trace: Trace = serde_json::from_value(trace).unwrap();
    assert_eq!(trace.mistakes(), []);
    let options = SimulatorOptions {
        conf: Conf::read(include_str!("../../../config/batch/fifo.conf")).unwrap(),
        compat: Compat::EVICTD,
        period: Seconds::from_millis(1000),
    };
    play(&trace, &options, &mut |_, _| ())
}

fn job(name: &str, arrival: u32, duration: u32) -> Value {
    json!({"name": name, "arrival": arrival, "duration": duration, "tasks": [{"requests": {"cpu": 4}}]})
}

fn longest(report: &Report) -> f64 {
    report.wait_seconds.as_ref().unwrap().max
}

fn is_about(figure: f64, expected: f64) -> bool {
    (figure - expected).abs() < 1e-9
}

#[test]
fn pods_of_a_lost_node_start_over_on_another() {
    let report = played(json!({
        "nodes": [
            {"name": "a", "allocatable": {"cpu": 4}, "leaves": 30},
            {"name": "b", "allocatable": {"cpu": 4}, "joins": 50, "leaves": 10_000},
        ],
        "jobs": [job("train", 0, 100)],
    }));
    assert_eq!((report.finished, report.deleted), (1, 0));
    // The node that is lost after the last job has ended takes no time.
    assert!(is_about(report.makespan_seconds, 150.0), "{report:?}");
    assert!(
        is_about(report.lost_work_seconds["cpu"], 120.0),
        "{report:?}"
    );
    // Of the nodes that are there at each time: all for 130 of 150 seconds.
    assert!(
        is_about(report.utilization["cpu"], 130.0 / 150.0),
        "{report:?}"
    );
    assert_eq!(report.preempted_pods + report.reclaimed_pods, 0);
}

#[test]
fn a_job_waits_for_a_node_that_joins() {
    let report = played(json!({
        "nodes": [{"name": "a", "allocatable": {"cpu": 2}}, {"name": "b", "joins": 40, "allocatable": {"cpu": 4}}],
        "jobs": [job("train", 10, 20)],
    }));
    assert_eq!(report.finished, 1);
    assert!(is_about(longest(&report), 30.0), "{report:?}");
}

#[test]
fn a_deleted_job_gives_its_room_back_once_its_pods_have_terminated() {
    let mut first = job("first", 0, 1000);
    first["deleted"] = json!(60);
    let mut never = job("never", 5, 1000);
    never["deleted"] = json!(20);
    let report = played(json!({
        "terminationSeconds": 7,
        "nodes": [{"name": "a", "allocatable": {"cpu": 4}}],
        "jobs": [first, never, job("second", 10, 20)],
    }));
    assert_eq!((report.jobs, report.finished, report.deleted), (3, 1, 2));
    assert_eq!(report.unfinished, []);
    assert!(is_about(longest(&report), 57.0), "{report:?}");
}

#[test]
fn a_trace_in_which_no_job_starts_has_no_waits() {
    let report = played(json!({
        "nodes": [{"name": "a", "allocatable": {"cpu": 2}}], "jobs": [job("large", 0, 20)],
    }));
    assert_eq!(report.wait_seconds, None);
    let written = serde_json::to_value(&report).unwrap();
    assert_eq!(written["queues"]["default"]["waitSeconds"], Value::Null);
    assert!(written.as_object().unwrap().contains_key("waitSeconds"));
}

#[test]
fn times_that_cannot_be_are_refused_with_their_field() {
    let mut early = job("early", 50, 10);
    early["deleted"] = json!(20);
    let trace = json!({
        "nodes": [{"name": "a", "joins": 9, "leaves": 9, "allocatable": {"cpu": 4}}], "jobs": [early],
    });
    let trace: Trace = serde_json::from_value(trace).unwrap();
    let fields: Vec<String> = trace
        .mistakes()
        .into_iter()
        .map(|(field, _)| field)
        .collect();
    assert_eq!(fields, ["nodes[0].leaves", "jobs[0].deleted"]);
}
