//! The queue with 100 000 waiting pods: adding and popping all, and moving all by one event, on one thread.
#![allow(
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::print_stdout,
    reason = "a bench"
)]

use divan::{Bencher, black_box};
use evictd_pod::{Node, wire};
use evictd_scheduling::{Change, Delta, Failure, PluginName, Pool, SchedulingQueue, Settings};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;
use std::sync::Arc;

/// Without optimisation it is only seen that they run.
const PODS: usize = if cfg!(debug_assertions) {
    1000
} else {
    100_000
};

/// The most that the queue may take of memory for a waiting pod, the pod itself apart.
const MOST_BYTES: usize = 600;

fn main() {
    divan::main();
}

fn pods() -> Vec<Arc<wire::Pod>> {
    let pod = |i: usize| {
        let pod = json!({
            "metadata": { "name": format!("pod-{i:06}"), "uid": format!("00000000-0000-0000-0000-{i:012}") },
            "spec": { "priority": i % 10, "containers": [{ "name": "main",
                "resources": { "requests": { "cpu": "1", "memory": "1Gi" } } }] } });
        Arc::new(serde_json::from_value(pod).expect("a pod"))
    };
    (0..PODS).map(pod).collect()
}

fn filled(pods: &[Arc<wire::Pod>]) -> SchedulingQueue {
    let names = ["default-scheduler".to_owned()];
    let mut queue = SchedulingQueue::new(Settings::default(), names, false);
    for (i, pod) in (0..).zip(pods) {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_micros(i);
        let change = Change::Pod(Delta {
            old: None,
            new: Some(Arc::clone(pod)),
        });
        queue.on(now, &change);
    }
    assert_eq!(queue.len(), PODS);
    queue
}

/// Every pod was tried once and rejected for want of room.
fn rejected(pods: &[Arc<wire::Pod>]) -> SchedulingQueue {
    let mut queue = filled(pods);
    let failure = Failure {
        rejectors: [PluginName::NodeResourcesFit].into_iter().collect(),
        ..Failure::default()
    };
    for _ in 0..PODS {
        let popped = queue.pop().expect("one waits");
        let failed = queue.failed(Timestamp::UNIX_EPOCH, &popped.pod, &failure);
        failed.expect("it was in flight");
    }
    queue
}

fn node(cpu: &str) -> Change {
    let node = json!({ "metadata": { "name": "node" },
        "status": { "allocatable": { "cpu": cpu, "memory": "64Gi", "pods": "110" } } });
    let node: Node = serde_json::from_value(node).expect("a node");
    Change::Node(Delta {
        old: None,
        new: Some(Arc::new(node)),
    })
}

/// Bytes of this process in memory; 0 where the system does not say.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").ok();
    let pages = pages.and_then(|line| line.split(' ').nth(1)?.parse::<usize>().ok());
    4096 * pages.unwrap_or(0)
}

/// It runs first, in memory that nobody has used.
#[divan::bench(sample_count = 1, sample_size = 1)]
fn a_bytes_of_a_waiting_pod() {
    let pods = pods();
    let before = resident();
    let queue = rejected(&pods);
    let bytes = resident().saturating_sub(before) / PODS;
    println!("{bytes} bytes a waiting pod, the pod itself apart");
    assert!(bytes <= MOST_BYTES || cfg!(debug_assertions));
    drop(black_box(queue));
}

#[divan::bench(sample_count = 10)]
fn add_all(bencher: Bencher<'_, '_>) {
    let pods = pods();
    bencher.bench_local(|| filled(black_box(&pods)));
}

#[divan::bench(sample_count = 10)]
fn pop_all(bencher: Bencher<'_, '_>) {
    let pods = pods();
    bencher
        .with_inputs(|| filled(&pods))
        .bench_local_values(|mut queue| {
            while let Some(popped) = queue.pop() {
                queue.done(Timestamp::UNIX_EPOCH, &popped.pod);
            }
            queue
        });
}

/// A node for which every hint says that it is worth another attempt.
#[divan::bench(sample_count = 10)]
fn move_all(bencher: Bencher<'_, '_>) {
    let pods = pods();
    bencher
        .with_inputs(|| rejected(&pods))
        .bench_local_values(|mut queue| {
            queue.on(Timestamp::UNIX_EPOCH, black_box(&node("32")));
            assert_eq!(queue.pods_in(Pool::Backoff).len(), PODS);
            queue
        });
}

/// A node for which every hint says no.
#[divan::bench(sample_count = 10)]
fn move_none(bencher: Bencher<'_, '_>) {
    let pods = pods();
    let mut queue = rejected(&pods);
    bencher.bench_local(|| queue.on(Timestamp::UNIX_EPOCH, black_box(&node("500m"))));
}

/// An event that the rejectors of no pod registered.
#[divan::bench(sample_count = 10)]
fn move_nobody(bencher: Bencher<'_, '_>) {
    let pods = pods();
    let mut queue = rejected(&pods);
    let key = pods[0].metadata.key();
    bencher.bench_local(|| {
        let moved = queue.on(
            Timestamp::UNIX_EPOCH,
            black_box(&Change::PersistentVolume(Delta {
                old: None,
                new: Some(Arc::new(wire::PersistentVolume::default())),
            })),
        );
        assert!(moved.is_empty() && queue.queued_pod(&key).is_some());
    });
}
