//! The queue through its public face, row by row, and its properties.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(
    clippy::needless_pass_by_value,
    reason = "objects are written where they are used"
)]

mod claims;
mod failures;
mod fits;
mod hints;
mod overlooked;
mod pods;
mod volume_hints;
mod waking;

use evictd_scheduling::simulation::{self, Outcome, StepOutcome};
use evictd_test_objects as objects;
use serde::Deserialize;
use serde_json::{Value, json};

/// Runs steps, which are 10 ms apart where they do not say when they are.
fn run(steps: &[Value]) -> Outcome {
    let mut last = 0;
    let steps = steps.iter().map(|step| {
        let mut step = step.clone();
        last = step["at"].as_i64().unwrap_or(last + 10);
        step["at"] = json!(last);
        step
    });
    let timeline = json!({ "now": "2026-01-01T00:00:00Z", "steps": steps.collect::<Vec<_>>() });
    simulation::run(simulation::Timeline::deserialize(&timeline).unwrap()).unwrap()
}

/// Where everything is after the last step.
fn last(steps: &[Value]) -> StepOutcome {
    run(steps).steps.pop().unwrap()
}

fn add(object: &Value) -> Value {
    json!({ "do": "add", "object": object })
}

fn update(object: &Value) -> Value {
    json!({ "do": "update", "object": object })
}

fn delete(object: &Value) -> Value {
    json!({ "do": "delete", "object": object })
}

fn pop() -> Value {
    json!({ "do": "pop" })
}

fn rejected(pod: &str, plugins: &[&str]) -> Value {
    json!({ "do": "unschedulable", "pod": format!("default/{pod}"), "plugins": plugins })
}

fn step(action: &str, pod: &str) -> Value {
    json!({ "do": action, "pod": format!("default/{pod}") })
}

fn assume(pod: &str) -> Value {
    json!({ "do": "assume", "pod": format!("default/{pod}"), "node": "one" })
}

/// A pod whose spec has these keys more.
fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({ "kind": "Pod", "metadata": { "name": name, "uid": name }, "spec": spec });
    pod["spec"]["schedulerName"] = json!("default-scheduler");
    pod
}

/// The same on a node.
fn placed(name: &str, spec: Value) -> Value {
    let mut pod = pod(name, spec);
    pod["spec"]["nodeName"] = json!("one");
    pod
}

fn with(object: &Value, path: &str, value: Value) -> Value {
    let mut object = object.clone();
    let mut place = &mut object;
    for key in path.split('.') {
        place = &mut place[key];
    }
    *place = value;
    object
}

fn requests(cpu: &str) -> Value {
    json!({ "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] })
}

fn node(name: &str) -> Value {
    let node = objects::node(name).label("zone", "a").spec(json!({}));
    node.cpu("4").resource("pods", "10").json()
}

/// Whether the change from one object to the other wakes a pod that this plugin rejected. It must not matter whether it
/// comes while the pod waits or while it is in flight.
fn wakes(plugin: &str, pod: &Value, old: &Value, new: &Value) -> bool {
    let before = (!old.is_null()).then(|| add(old));
    let change = match (old, new) {
        (Value::Null, new) => add(new),
        (old, Value::Null) => delete(old),
        (_, new) => update(new),
    };
    let (there, tried) = ([add(pod), pop()], rejected("p", &[plugin]));
    let woken = |steps: [Value; 2]| {
        let steps: Vec<_> = before.iter().chain(&there).chain(&steps).cloned().collect();
        last(&steps).unschedulable != ["default/p"]
    };
    let waiting = woken([tried.clone(), change.clone()]);
    assert_eq!(
        woken([change, tried]),
        waiting,
        "in flight and waiting differ: {plugin}, {old} to {new}"
    );
    waiting
}

/// Checks [`wakes`] for each change: from, to, whether it wakes.
#[track_caller]
fn check(plugin: &str, pod: &Value, changes: &[(Value, Value, bool)]) {
    for (old, new, expected) in changes {
        let found = wakes(plugin, pod, old, new);
        assert_eq!(found, *expected, "{plugin}: {old} to {new}");
    }
}
