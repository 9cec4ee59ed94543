//! A simulation waits for what the daemon waits for.

use crate::node::{GI, MI, evictd, hard, kubelet};
use evictd_eviction::{
    Rules,
    simulation::{self, Outcome},
};
use serde_json::{Value, json};

const APPS: [&str; 4] = ["app0", "app1", "app2", "app3"];

fn moment(second: i64) -> String {
    format!("2026-11-26T08:00:{second:02}Z")
}

/// What a summary says at that second: MiB of memory left, and whether it lists the hog of 9 GiB.
fn step(second: i64, available: i64, hog: bool) -> Value {
    let memory = |used: i64| json!({ "time": moment(second), "workingSetBytes": used });
    let pod = |name: &str, used: i64| json!({ "podRef": { "name": name, "namespace": "shop", "uid": name }, "memory": memory(used) });
    let mut pods: Vec<Value> = APPS.iter().map(|name| pod(name, 300 * MI)).collect();
    if hog {
        pods.push(pod("hog", 9 * GI));
    }
    let mut node = memory(16 * GI - available * MI);
    node["availableBytes"] = json!(available * MI);
    json!({ "offsetSeconds": second, "summary": { "node": { "nodeName": "n", "memory": node }, "pods": pods } })
}

fn run(rules: Rules, grace: i64, steps: &[Value]) -> Outcome {
    let pod = |name: &&str| {
        let spec =
            json!({ "terminationGracePeriodSeconds": grace, "containers": [{ "name": "c" }] });
        json!({ "metadata": { "name": name, "namespace": "shop", "uid": name }, "spec": spec })
    };
    let pods: Vec<Value> = APPS.iter().chain(&["hog"]).map(pod).collect();
    let timeline = json!({ "now": moment(0), "pods": pods, "steps": steps });
    simulation::run(rules, serde_json::from_value(timeline).unwrap())
}

fn victims(outcome: &Outcome) -> Vec<Vec<&str>> {
    let of = |step: &simulation::StepOutcome| step.evicted.len();
    assert!(outcome.steps.iter().all(|step| of(step) <= 1));
    let steps = outcome.steps.iter();
    let names = steps.map(|step| step.evicted.iter().map(|one| one.pod.as_str()).collect());
    names.collect()
}

fn slow_release(listed: bool) -> [Value; 5] {
    [
        step(0, 80, true),
        step(1, 80, listed),
        step(2, 85, listed),
        step(3, 90, listed),
        step(4, 9216, false),
    ]
}

#[test]
fn memory_that_comes_back_slowly_costs_one_pod_under_our_rules() {
    let low = || hard(&[("memory.available", "100Mi")]);
    for listed in [true, false] {
        let outcome = run(evictd(low()), 30, &slow_release(listed));
        let expected: [&[&str]; 5] = [&["shop/hog"], &[], &[], &[], &[]];
        assert_eq!(victims(&outcome), expected, "listed: {listed}");
        let waits = outcome.steps[1].decision.as_ref().unwrap();
        assert!(
            waits.why.contains("shop/hog will release 9Gi"),
            "{}",
            waits.why
        );
        let outcome = run(kubelet(low()), 30, &slow_release(listed));
        let all = outcome
            .steps
            .iter()
            .map(|step| step.evicted.len())
            .sum::<usize>();
        assert_eq!(all, 4, "the kubelet goes on");
    }
}

#[test]
fn the_next_pod_is_evicted_once_no_summary_lists_the_victim_and_no_memory_comes_back() {
    let low = hard(&[("memory.available", "100Mi")]);
    let steps = [step(0, 80, true), step(10, 80, false)];
    let outcome = run(evictd(low), 30, &steps);
    assert_eq!(victims(&outcome), [["shop/hog"], ["shop/app0"]]);
}

#[test]
fn a_victim_of_a_soft_threshold_has_its_grace_period_before_another_is_chosen() {
    let soft = crate::node::soft("memory.available", "100Mi", "0s", "0");
    let soft = evictd_signals::Threshold {
        grace_period: jiff::SignedDuration::from_secs(1),
        ..soft[0].clone()
    };
    let steps = [
        step(0, 80, true),
        step(2, 80, true),
        step(12, 80, true),
        step(31, 80, true),
        step(33, 80, false),
        step(35, 80, false),
    ];
    let outcome = run(evictd(vec![soft]), 30, &steps);
    let expected: [&[&str]; 6] = [&[], &["shop/hog"], &[], &[], &[], &["shop/app0"]];
    assert_eq!(victims(&outcome), expected);
}
