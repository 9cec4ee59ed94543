//! What becomes of a pod whose attempt failed.

use super::{
    add, assume, delete, last, node, placed, pod, pop, rejected, requests, run, step, update, with,
};
use evictd_pod::wire;
use evictd_scheduling::{Change, Delta, Failure, Pool, SchedulingQueue, Settings};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

fn at(time: i64, mut step: Value) -> Value {
    step["at"] = json!(time);
    step
}

fn flush(time: i64) -> Value {
    json!({ "do": "flushBackoff", "at": time })
}

/// A pod that ends in an error at each of these times.
fn errors(times: &[i64]) -> Vec<Value> {
    let mut steps = vec![add(&pod("p", json!({})))];
    for time in times {
        steps.extend([
            flush(*time),
            at(*time, pop()),
            at(*time, step("error", "p")),
        ]);
    }
    steps
}

#[test]
fn s5_006_s5_007_backoff_doubles_up_to_the_maximum() {
    let times = [1_000, 3_000, 6_000, 11_000, 20_000, 31_000, 42_000];
    let ends = [2_000, 5_000, 10_000, 19_000, 30_000, 41_000, 52_000];
    for (count, end) in ends.into_iter().enumerate() {
        let outcome = run(&errors(&times[..=count]));
        assert_eq!(outcome.pods["default/p"].backoff_until_ms, Some(end));
    }
}

#[test]
fn s5_007_a_rejection_resets_the_count_of_consecutive_errors() {
    let mut steps = errors(&[1_000, 3_000]);
    steps.extend([flush(9_000), pop(), rejected("p", &["NodeName"])]);
    let pod = &run(&steps).pods["default/p"];
    let counts = (
        pod.attempts,
        pod.consecutive_errors,
        pod.unschedulable_count,
    );
    assert_eq!(counts, (3, 0, 1));
}

#[test]
fn s5_008_a_pod_backs_off_through_the_second_in_which_its_backoff_ends() {
    let steps = [errors(&[1_500]), vec![flush(2_999)]].concat();
    assert_eq!(last(&steps).error_backoff, ["default/p"]);
    let steps = [errors(&[1_500]), vec![flush(3_000)]].concat();
    assert_eq!(last(&steps).active, ["default/p"]);
}

#[test]
fn s5_009_the_end_of_a_backoff_is_reported() {
    let outcome = run(&[errors(&[1_000]), vec![flush(3_000)]].concat());
    assert_eq!(outcome.incoming["active/BackoffComplete"], 1);
}

#[test]
fn s5_011_a_woken_pod_backs_off_if_its_backoff_lasts() {
    let start = [
        add(&pod("p", json!({}))),
        pop(),
        rejected("p", &["NodeName"]),
    ];
    let woken = |time| last(&[&start[..], &[at(time, add(&node("one")))]].concat());
    assert_eq!(woken(1_000).backoff, ["default/p"]);
    assert_eq!(woken(2_000).active, ["default/p"]);
}

#[test]
fn s5_018_the_pool_of_a_failed_pod_is_reported() {
    let start = [add(&pod("p", json!({}))), pop()];
    let incoming = |step: Value| run(&[&start[..], &[step]].concat()).incoming;
    let rejected = incoming(rejected("p", &["NodeName"]));
    assert_eq!(rejected["unschedulable/ScheduleAttemptFailure"], 1);
    let error = incoming(step("error", "p"));
    assert_eq!(error["backoff/ScheduleAttemptFailure"], 1);
}

#[test]
fn s5_052_the_rejectors_of_a_pod_are_kept_until_its_next_failure() {
    let mut first = rejected("p", &["NodeName"]);
    first["pending"] = json!(["DynamicResources"]);
    let steps = [add(&pod("p", json!({}))), pop(), first];
    let both = ["DynamicResources", "NodeName"];
    assert_eq!(run(&steps).pods["default/p"].plugins, both);
    let again = [
        add(&node("one")),
        json!({ "do": "activate", "pods": ["default/p"] }),
    ];
    let steps = [&steps[..], &again].concat();
    assert_eq!(run(&steps).pods["default/p"].plugins, both);
    let steps = [&steps[..], &[pop(), rejected("p", &["NodePorts"])]].concat();
    assert_eq!(run(&steps).pods["default/p"].plugins, ["NodePorts"]);
}

/// A pod that fits nowhere because another has been assumed.
fn beside_an_assumed_pod() -> Vec<Value> {
    vec![
        add(&pod("big", requests("3"))),
        pop(),
        assume("big"),
        add(&pod("p", requests("2"))),
        pop(),
        rejected("p", &["NodeResourcesFit"]),
        add(&pod("q", requests("2"))),
        pop(),
    ]
}

#[test]
fn s5_065_a_failed_binding_frees_the_node() {
    let steps = [beside_an_assumed_pod(), vec![step("bindingError", "big")]].concat();
    let end = last(&steps);
    assert_eq!(
        (end.backoff, end.error_backoff),
        (vec!["default/p".to_owned()], vec!["default/big".to_owned()])
    );
    assert_eq!(end.in_flight_events, ["AssignedPodDelete"]);
}

#[test]
fn s5_065_a_pod_rejected_in_permit_does_not_wake_itself() {
    let mut refused = step("permitRejected", "big");
    refused["plugins"] = json!(["NodeResourcesFit"]);
    let end = last(&[beside_an_assumed_pod(), vec![refused]].concat());
    assert_eq!(end.unschedulable, ["default/big"]);
    assert_eq!(end.backoff, ["default/p"]);
}

#[test]
fn s5_066_a_failed_binding_backs_off_also_after_the_attempt_was_done() {
    let waiting_pod = add(&pod("p", json!({})));
    let steps = [
        waiting_pod,
        pop(),
        assume("p"),
        step("done", "p"),
        step("bindingError", "p"),
    ];
    let outcome = run(&steps);
    assert_eq!(outcome.steps[4].error_backoff, ["default/p"]);
    let pod = &outcome.pods["default/p"];
    assert_eq!((pod.attempts, pod.consecutive_errors), (1, 1));
}

#[test]
fn s5_070_a_pod_that_was_deleted_bound_or_recreated_is_not_requeued() {
    let waiting_pod = pod("p", json!({}));
    let start = [add(&waiting_pod), pop()];
    let anew = with(&waiting_pod, "metadata.uid", json!("other"));
    let ends = [
        (vec![delete(&waiting_pod)], 0),
        (vec![update(&placed("p", json!({})))], 0),
        (vec![delete(&waiting_pod), add(&anew)], 1),
    ];
    for (end, waiting) in ends {
        let steps = [&start[..], &end, &[rejected("p", &["NodeName"])]].concat();
        let state = last(&steps);
        assert!(state.unschedulable.is_empty() && state.in_flight.is_empty());
        assert_eq!(state.active.len(), waiting);
    }
}

#[test]
fn s5_071_a_failure_sets_the_nomination() {
    let mut failed = rejected("p", &["NodeResourcesFit"]);
    failed["nominate"] = json!("one");
    let steps = [add(&pod("p", json!({}))), pop(), failed];
    assert_eq!(last(&steps).nominated["one"], ["default/p"]);
    let again = [
        json!({ "do": "activate", "pods": ["default/p"] }),
        pop(),
        step("error", "p"),
    ];
    assert!(last(&[&steps[..], &again].concat()).nominated.is_empty());
}

#[test]
fn s5_107_the_end_of_a_backoff_is_fixed() {
    let start = [
        add(&pod("p", json!({}))),
        pop(),
        rejected("p", &["NodeName"]),
    ];
    let woken = [&start[..], &[at(500, add(&node("one")))]].concat();
    let labelled = with(&pod("p", json!({})), "metadata.labels", json!({ "a": "b" }));
    let updated = [&woken[..], &[at(900, update(&labelled))]].concat();
    for steps in [woken, updated] {
        assert_eq!(run(&steps).pods["default/p"].backoff_until_ms, Some(1_000));
    }
}

#[test]
fn recreated_pods_leave_no_state_behind() {
    let mut steps = Vec::new();
    for round in 0..300 {
        let waiting_pod = with(
            &pod("p", json!({})),
            "metadata.uid",
            json!(format!("{round}")),
        );
        steps.extend([
            add(&waiting_pod),
            pop(),
            add(&node("one")),
            delete(&waiting_pod),
        ]);
        steps.push(rejected("p", &["NodeName"]));
    }
    let end = last(&steps);
    assert!(end.in_flight.is_empty() && end.in_flight_events.is_empty());
    assert!(run(&steps).pods.is_empty());
}

#[test]
fn s5_099_the_time_of_arrival_is_kept_until_the_pod_is_bound_and_excludes_the_time_with_gates() {
    let at = |seconds| Timestamp::from_second(seconds).unwrap();
    let names = ["default-scheduler".to_owned()];
    let mut queue = SchedulingQueue::new(Settings::default(), names, false);
    let read = |spec| -> Option<Arc<wire::Pod>> {
        Some(Arc::new(serde_json::from_value(pod("p", spec)).unwrap()))
    };
    let gated = read(json!({ "schedulingGates": [{ "name": "quota" }] }));
    let old = None;
    let new = gated.clone();
    queue.on(at(1), &Change::Pod(Delta { old, new }));
    assert_eq!(queue.pods_in(Pool::Gated).len(), 1);
    assert_eq!(queue.arrived("p"), None);
    let new = read(json!({}));
    queue.on(at(5), &Change::Pod(Delta { old: gated, new }));
    assert_eq!(queue.arrived("p"), Some(at(5)));
    for second in [7, 20] {
        queue.flush_backoff(at(second));
        assert!(queue.pop().is_some());
        let failed = queue.failed(at(second), "p", &Failure::default());
        assert!(failed.unwrap().is_some());
        assert_eq!(queue.arrived("p"), Some(at(5)));
    }
    queue.flush_backoff(at(40));
    assert!(queue.pop().is_some());
    queue.assume(at(40), "p", "one");
    queue.done(at(40), "p");
    assert_eq!(queue.arrived("p"), Some(at(5)));
}
