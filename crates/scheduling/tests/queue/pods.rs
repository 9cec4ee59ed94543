//! How pods come, wait, are tried and go.

use super::{
    add, assume, delete, last, node, placed, pod, pop, rejected, requests, run, step, update, with,
};
use serde_json::{Value, json};

fn gated(name: &str) -> Value {
    pod(
        name,
        json!({ "schedulingGates": [{ "name": "a" }, { "name": "b" }] }),
    )
}

#[test]
fn s5_001_pods_of_other_schedulers_and_pods_that_have_ended_do_not_wait() {
    let other = with(&pod("p", json!({})), "spec.schedulerName", json!("other"));
    assert!(last(&[add(&other)]).active.is_empty());
    let running = pod("p", json!({}));
    let ended = with(&running, "status", json!({ "phase": "Failed" }));
    assert!(last(&[add(&ended)]).active.is_empty());
    assert!(last(&[add(&running), update(&ended)]).active.is_empty());
}

#[test]
fn s5_002_a_pod_added_with_a_node_does_not_wait() {
    let outcome = run(&[add(&placed("p", json!({})))]);
    assert!(outcome.pods.is_empty() && outcome.incoming.is_empty());
}

#[test]
fn s5_003_a_new_pod_is_active() {
    let outcome = run(&[add(&pod("p", json!({})))]);
    assert_eq!(outcome.steps[0].active, ["default/p"]);
    assert_eq!(outcome.incoming["active/UnschedulablePodAdd"], 1);
}

#[test]
fn s5_004_errors_and_rejections_back_off_in_different_pools() {
    let start = [add(&pod("p", json!({}))), pop()];
    let error = last(&[&start[..], &[step("error", "p")]].concat());
    assert_eq!(error.error_backoff, ["default/p"]);
    let woken = [rejected("p", &["NodeName"]), add(&node("one"))];
    assert_eq!(last(&[&start[..], &woken].concat()).backoff, ["default/p"]);
}

#[test]
fn s5_028_a_waiting_pod_is_updated_in_place() {
    let low = pod("p", json!({ "priority": 1 }));
    let other = pod("q", json!({ "priority": 5 }));
    let high = with(&low, "spec.priority", json!(9));
    let moved = last(&[add(&low), add(&other), update(&high)]);
    assert_eq!(moved.active, ["default/p", "default/q"]);
    // The same version is no update.
    let low = with(&low, "metadata.resourceVersion", json!("7"));
    let high = with(&low, "spec.priority", json!(9));
    let moved = last(&[add(&low), add(&other), update(&high)]);
    assert_eq!(moved.active, ["default/q", "default/p"]);
}

#[test]
fn s5_028_an_update_of_a_pod_in_flight_counts_when_the_attempt_fails() {
    let old = pod("p", json!({ "nodeSelector": { "zone": "b" } }));
    let new = with(&old, "spec.tolerations", json!([{ "operator": "Exists" }]));
    let start = [add(&old), pop(), update(&new)];
    let label = "UnschedulablePodUpdatePodToleration";
    assert_eq!(last(&start).in_flight_events, [label]);
    let failed = |plugin| last(&[&start[..], &[rejected("p", &[plugin])]].concat());
    assert_eq!(failed("TaintToleration").backoff, ["default/p"]);
    assert_eq!(failed("NodeAffinity").unschedulable, ["default/p"]);
}

#[test]
fn s5_028_an_assumed_pod_is_not_updated() {
    let old = pod("p", json!({}));
    let new = with(&old, "metadata.labels", json!({ "a": "b" }));
    let start = [
        add(&old),
        pop(),
        assume("p"),
        step("done", "p"),
        update(&new),
    ];
    assert!(last(&start).active.is_empty());
}

#[test]
fn s5_029_a_deleted_pod_leaves_every_pool_but_stays_in_flight() {
    let waiting_pod = pod("p", json!({}));
    let flying = last(&[add(&waiting_pod), pop(), delete(&waiting_pod)]);
    assert_eq!(flying.in_flight, ["default/p"]);
    let failed = [
        add(&waiting_pod),
        pop(),
        delete(&waiting_pod),
        rejected("p", &["NodeName"]),
    ];
    assert!(run(&failed).pods.is_empty());
    assert!(
        run(&[add(&waiting_pod), delete(&waiting_pod)])
            .pods
            .is_empty()
    );
}

#[test]
fn s5_029_the_deletion_of_an_assumed_pod_frees_its_node() {
    let (big, waiting_pod) = (pod("big", requests("3")), pod("p", requests("2")));
    let dying = with(
        &big,
        "metadata.deletionTimestamp",
        json!("2026-01-01T00:00:01Z"),
    );
    let start = [
        add(&big),
        pop(),
        assume("big"),
        step("done", "big"),
        add(&waiting_pod),
        pop(),
        rejected("p", &["NodeResourcesFit"]),
    ];
    assert_eq!(last(&start).unschedulable, ["default/p"]);
    for end in [delete(&big), update(&dying)] {
        let woken = last(&[&start[..], &[end]].concat());
        assert_eq!(woken.backoff, ["default/p"]);
    }
}

#[test]
fn s5_037_a_pod_is_gated_until_all_its_scheduling_gates_are_removed() {
    let both = gated("p");
    let one = with(&both, "spec.schedulingGates", json!([{ "name": "b" }]));
    let none = with(&both, "spec.schedulingGates", json!([]));
    assert_eq!(last(&[add(&both), update(&one)]).gated, ["default/p"]);
    let outcome = run(&[add(&both), update(&none)]);
    assert_eq!(outcome.steps[1].active, ["default/p"]);
    let label = "UnschedulablePodUpdatePodSchedulingGatesEliminated";
    assert_eq!(outcome.incoming[&format!("active/{label}")], 1);
    assert_eq!(outcome.incoming["unschedulable/UnschedulablePodAdd"], 1);
}

#[test]
fn s5_106_a_pod_in_flight_is_not_popped_again() {
    let waiting_pod = pod("p", json!({}));
    let outcome = run(&[
        add(&waiting_pod),
        pop(),
        delete(&waiting_pod),
        add(&waiting_pod),
        pop(),
    ]);
    assert_eq!(outcome.steps[4].popped, Some(None));
}

#[test]
fn s5_106_events_since_the_oldest_pod_in_flight_are_kept() {
    let steps = [
        add(&pod("p", json!({}))),
        add(&pod("q", json!({}))),
        add(&node("one")),
        pop(),
        add(&node("two")),
        pop(),
        delete(&node("two")),
        step("done", "p"),
    ];
    let outcome = run(&steps);
    let events = |step: usize| outcome.steps[step].in_flight_events.clone();
    assert_eq!(events(3), Vec::<&str>::new());
    assert_eq!(events(6), ["NodeAdd", "NodeDelete"]);
    assert_eq!(events(7), ["NodeDelete"]);
}

fn nominated(name: &str, on: &str) -> Value {
    let pod = pod(name, json!({}));
    with(&pod, "status", json!({ "nominatedNodeName": on }))
}

#[test]
fn s5_109_a_nomination_is_kept_until_the_pod_is_assumed_or_deleted() {
    let waiting_pod = nominated("p", "one");
    let on = |steps: &[Value]| last(steps).nominated.contains_key("one");
    assert!(on(&[add(&waiting_pod)]));
    assert!(on(&[add(&waiting_pod), pop()]));
    assert!(!on(&[add(&waiting_pod), pop(), assume("p")]));
    assert!(!on(&[add(&waiting_pod), delete(&waiting_pod)]));
    // Not while it is gated; an update of a gated pod counts.
    let gated = with(&gated("p"), "status", json!({ "nominatedNodeName": "one" }));
    assert!(!on(&[add(&gated)]));
    assert!(on(&[add(&gated), update(&gated)]));
}

#[test]
fn s5_109_an_update_without_a_nomination_keeps_the_one_in_memory() {
    let old = pod("p", json!({}));
    let new = with(&old, "metadata.labels", json!({ "a": "b" }));
    let mut failed = rejected("p", &["NodeName"]);
    failed["nominate"] = json!("one");
    let start = [add(&old), pop(), failed, update(&new)];
    assert_eq!(last(&start).nominated["one"], ["default/p"]);
    let cleared = [nominated("p", "two"), old];
    let steps = [&start[..], &[update(&cleared[0])]].concat();
    assert_eq!(last(&steps).nominated["two"], ["default/p"]);
    let steps = [&steps[..], &[update(&cleared[1])]].concat();
    assert!(last(&steps).nominated.is_empty());
}
