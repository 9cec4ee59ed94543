//! Gangs in a cluster of 5000 nodes with 150 000 pods: placed, placed with nominations, tried in vain and undone, and with
//! room made for them. And whether the 100 000th pod takes longer than the 1000th, alone and in one large group.
//!
//! With the argument `plain` or `nominated` only such a gang is placed, so that its instructions can be counted:
//! `valgrind --tool=callgrind --collect-atstart=no --toggle-collect='gangs::attempts' PROGRAM nominated`.
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench"
)]

#[allow(dead_code, reason = "the bench of preemption needs more of it")]
#[path = "../../preemption/benches/recipe/mod.rs"]
mod recipe;

use evictd_pod::wire;
use evictd_scheduling::{Change, Delta, Event, Framework, Outcome, Scheduler, Settings};
use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Without optimisation it is only seen that the choices are right.
const NODES: u64 = if cfg!(debug_assertions) { 50 } else { 5000 };
const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn new<T: DeserializeOwned>(value: Value) -> Delta<T> {
    let new = serde_json::from_value(value).expect("well formed");
    Delta {
        old: None,
        new: Some(Arc::new(new)),
    }
}

fn empty(nodes: u64) -> Scheduler {
    let mut scheduler = Scheduler::new(Settings::default(), false, |cluster| {
        Ok::<_, String>(vec![Framework::of_default(cluster)])
    })
    .expect("the default profile");
    for i in 0..nodes {
        let event = Event::Change(Change::Node(new(recipe::node(i))));
        scheduler.on(NOW, &event);
    }
    scheduler
}

fn full() -> Scheduler {
    let mut scheduler = empty(NODES);
    for i in 0..NODES {
        for j in 0..recipe::PODS {
            let mut pod = recipe::pod(i, j);
            pod["metadata"]["uid"] = pod["metadata"]["name"].clone();
            let event = Event::Change(Change::Pod(new(pod)));
            scheduler.on(NOW, &event);
        }
    }
    scheduler
}

/// How the pods of a gang differ.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Equal,
    /// Each has a template of its own.
    Distinct,
    /// Each is nominated for another node, as after a preemption.
    Nominated,
}

/// Tries all that waits.
#[inline(never)]
fn attempts(scheduler: &mut Scheduler) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    while let Some(attempt) = scheduler.attempt(NOW) {
        outcomes.push(attempt.outcome);
    }
    outcomes
}

/// Tells of a gang and tries it; the attempts and how long it took.
fn gang(
    scheduler: &mut Scheduler,
    (name, count, cpu): (&str, usize, &str),
    priority: i32,
    kind: Kind,
) -> (Vec<Outcome>, Duration) {
    let group = json!({ "metadata": { "name": name, "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": count } }, "priority": priority } });
    scheduler.on(NOW, &Event::PodGroup(new(group)));
    for index in 0..count {
        let uid = format!("{name}-{index}");
        let mut labels = json!({ "app": name });
        if kind == Kind::Distinct {
            labels["batch.kubernetes.io/job-completion-index"] = json!(index.to_string());
        }
        let mut pod = json!({ "metadata": { "name": uid, "namespace": "default", "uid": uid, "labels": labels },
            "spec": { "priority": priority, "schedulingGroup": { "podGroupName": name }, "containers": [
                { "name": "c", "resources": { "requests": { "cpu": cpu, "memory": "64Mi" } } }] } });
        if kind == Kind::Nominated {
            let node = format!("node-{:05}", index as u64 % NODES);
            pod["status"] = json!({ "nominatedNodeName": node });
        }
        let event = Event::Change(Change::Pod(new(pod)));
        scheduler.on(NOW, &event);
    }
    let start = Instant::now();
    let outcomes = attempts(scheduler);
    let took = start.elapsed();
    for index in 0..count {
        let uid = format!("{name}-{index}");
        let pod = json!({ "metadata": { "name": uid, "namespace": "default", "uid": uid } });
        let Delta { new: old, .. } = new::<wire::Pod>(pod);
        let gone = Delta { old, new: None };
        scheduler.bound(NOW, &uid);
        scheduler.on(NOW, &Event::Change(Change::Pod(gone)));
    }
    (outcomes, took)
}

/// Places a gang that fits.
fn place(scheduler: &mut Scheduler, count: usize, kind: Kind) {
    let (outcomes, took) = gang(scheduler, ("fits", count, "100m"), 0, kind);
    let is_placed = |outcome: &Outcome| matches!(outcome, Outcome::Placed { .. });
    assert!(all_after_their_turn(&outcomes, is_placed));
    println!("a gang of {count} placed, {}: {took:?}", kind.text());
}

/// Whether all have an outcome, perhaps after they were put off because a large gang costs much.
fn all_after_their_turn(outcomes: &[Outcome], is: impl Fn(&Outcome) -> bool) -> bool {
    let put_off = |outcome: &Outcome| matches!(outcome, Outcome::PutOff(_));
    outcomes.iter().any(&is)
        && outcomes
            .iter()
            .all(|outcome| is(outcome) || put_off(outcome))
}

impl Kind {
    const fn text(self) -> &'static str {
        match self {
            Self::Equal => "equal templates",
            Self::Distinct => "a template a pod",
            Self::Nominated => "each pod nominated",
        }
    }
}

fn main() {
    let mut scheduler = full();
    let count = if cfg!(debug_assertions) { 20 } else { 1000 };
    for (argument, kind) in [("plain", Kind::Equal), ("nominated", Kind::Nominated)] {
        if std::env::args().any(|given| given == argument) {
            return place(&mut scheduler, count, kind);
        }
    }
    place(&mut scheduler, count, Kind::Nominated);
    for kind in [Kind::Equal, Kind::Distinct] {
        place(&mut scheduler, count, kind);
        // The fullest node has no 12 cores left, so that only some fit.
        let (outcomes, took) = gang(&mut scheduler, ("waits", count, "12"), 0, kind);
        let waits = |outcome: &Outcome| matches!(outcome, Outcome::Unschedulable(_));
        assert!(all_after_their_turn(&outcomes, waits));
        println!("a gang of {count} tried in vain, {}: {took:?}", kind.text());
    }
    let count = count / 10;
    let (outcomes, took) = gang(
        &mut scheduler,
        ("preempts", count, "12"),
        10_000,
        Kind::Equal,
    );
    let victims = outcomes.iter().map(|outcome| match outcome {
        Outcome::Unschedulable(rejected) => rejected.victims.len(),
        _ => 0,
    });
    let victims: usize = victims.sum();
    assert!(victims >= count, "{victims}");
    println!("a gang of {count} that preempts {victims} pods: {took:?}");
    steady();
    for min_count in [1, 1_000_000] {
        large_group(min_count);
    }
    for cpu in ["1000", "1"] {
        in_vain(cpu);
    }
}

/// After each change of a node, a large gang is tried again only if one of its pods fits on the node when it is empty.
fn in_vain(cpu: &str) {
    let nodes = if cfg!(debug_assertions) { 10 } else { 1000 };
    // A node has 32 cores, or 41 once it has changed: one core each is too much, too.
    let pods = 60 * nodes;
    let mut scheduler = empty(nodes);
    let group = json!({ "metadata": { "name": "vain", "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": pods } } } });
    scheduler.on(NOW, &Event::PodGroup(new(group)));
    let pod: wire::Pod = serde_json::from_value(
        json!({ "metadata": { "labels": { "app": "vain" }, "namespace": "default" },
        "spec": { "schedulingGroup": { "podGroupName": "vain" }, "containers": [
            { "name": "c", "resources": { "requests": { "cpu": cpu } } }] } }),
    )
    .expect("well formed");
    for index in 0..pods {
        // Equal pods share their spec, as in `run`.
        let mut pod = pod.clone();
        pod.metadata.name = format!("vain-{index}");
        pod.metadata.uid = pod.metadata.name.as_str().into();
        let (old, new) = (None, Some(Arc::new(pod)));
        scheduler.on(NOW, &Event::Change(Change::Pod(Delta { old, new })));
    }
    let mut now = NOW;
    let (mut tried, mut put_off) = (0, 0);
    let (mut events, mut attempts) = (Duration::ZERO, Duration::ZERO);
    let mut old = None;
    for round in 0..10 {
        let mut node = recipe::node(0);
        node["status"]["allocatable"]["cpu"] = json!(format!("{}", 32 + round));
        let Delta { new, .. } = new(node);
        let began = Instant::now();
        let delta = Delta {
            old: old.replace(new.clone()).flatten(),
            new,
        };
        scheduler.on(now, &Event::Change(Change::Node(delta)));
        now += jiff::SignedDuration::from_mins(1);
        scheduler.flush_backoff(now);
        events += began.elapsed();
        let began = Instant::now();
        while let Some(attempt) = scheduler.attempt(now) {
            match attempt.outcome {
                Outcome::Unschedulable(_) => tried += 1,
                Outcome::PutOff(_) => put_off += 1,
                outcome => panic!("{outcome:?}"),
            }
        }
        attempts += began.elapsed();
    }
    println!(
        "a gang of {pods} in vain, {cpu} cores each, ten times ({tried} attempts, {put_off} put off): {events:?} for the changes, {attempts:?} for the attempts"
    );
}

/// Places one pod after the other on nodes that were empty.
fn steady() {
    let (nodes, pods, window) = if cfg!(debug_assertions) {
        (50, 200, 100)
    } else {
        (5000, 100_000, 1000)
    };
    let mut scheduler = empty(nodes);
    let mut first = Duration::ZERO;
    let (mut start, mut last) = (Instant::now(), Duration::ZERO);
    for index in 0..pods {
        let uid = format!("pod-{index}");
        let pod = json!({ "metadata": { "name": uid, "namespace": "default", "uid": uid,
            "labels": { "app": format!("app-{}", index % 7) } },
            "spec": { "containers": [{ "name": "c", "resources": { "requests": { "cpu": "10m" } } }] } });
        let event = Event::Change(Change::Pod(new(pod)));
        if index % window == 0 {
            start = Instant::now();
        }
        scheduler.on(NOW, &event);
        let attempt = scheduler.attempt(NOW).expect("one waits");
        assert!(matches!(attempt.outcome, Outcome::Placed { .. }));
        if index % window == window - 1 {
            last = start.elapsed();
            if index < 2 * window {
                first = last;
            }
        }
    }
    println!(
        "{window} pods on {nodes} nodes: the second thousand in {first:?}, the last of {pods} in {last:?}"
    );
}

/// Adds pods to a group, one after the other: each costs the same, whether the group is complete or not.
fn large_group(min_count: usize) {
    let (pods, window) = if cfg!(debug_assertions) {
        (200, 100)
    } else {
        (100_000, 1000)
    };
    let mut scheduler = empty(1);
    let group = json!({ "metadata": { "name": "large", "namespace": "default" },
        "spec": { "schedulingPolicy": { "gang": { "minCount": min_count } } } });
    scheduler.on(NOW, &Event::PodGroup(new(group)));
    let (mut first, mut last) = (Duration::ZERO, Duration::ZERO);
    for start in (0..pods).step_by(window) {
        let events: Vec<Event> = (start..start + window)
            .map(|index| {
                let uid = format!("large-{index}");
                let pod = json!({ "metadata": { "name": uid, "namespace": "default", "uid": uid },
                    "spec": { "schedulingGroup": { "podGroupName": "large" }, "containers": [] } });
                Event::Change(Change::Pod(new(pod)))
            })
            .collect();
        let began = Instant::now();
        for event in &events {
            scheduler.on(NOW, event);
        }
        last = began.elapsed();
        if start == window {
            first = last;
        }
    }
    println!(
        "{window} pods of a group that needs {min_count}: the second thousand in {first:?}, the last of {pods} in {last:?}"
    );
}
