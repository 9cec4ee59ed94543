//! Attempts that are ended from outside: the pod is tried again after its back-off, the others go on, and nothing that was found
//! until then counts.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod scenario;

use evictd_placement::{Cluster, Filter, Here, Plugin, Pod, Rejection};
use evictd_scheduling::{GroupOutcome, Outcome, Pool};
use jiff::SignedDuration;
use scenario::{Scenario, node, pod, pod_group};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const ENDED: &str = "the attempt took too long and was ended";
/// Each node of them is asked about.
const NODES: usize = 100;

/// Counts how often nodes are asked about pods whose names begin with `slow`. That many answers later the time is over.
#[derive(Clone, Default)]
struct Slow {
    asked: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Plugin for Slow {
    fn name(&self) -> &'static str {
        "Slow"
    }

    fn filter(&self, _: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
        let filter = self.clone();
        pod.name()
            .starts_with("slow")
            .then(|| Box::new(filter) as _)
    }
}

impl Filter for Slow {
    fn is_local(&self) -> bool {
        true
    }

    fn check(&self, _: Here<'_>) -> Result<(), Rejection> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

struct Scene {
    scenario: Scenario,
    slow: Slow,
}

impl Scene {
    fn new() -> Self {
        let slow = Slow::default();
        slow.most.store(usize::MAX, Ordering::Relaxed);
        let filter = slow.clone();
        let mut scenario =
            Scenario::with(|framework| framework.filters.insert(0, Arc::new(filter)));
        let Slow { asked, most } = slow.clone();
        let is_over = move || asked.load(Ordering::Relaxed) >= most.load(Ordering::Relaxed);
        scenario.scheduler.interrupt_where(is_over);
        for index in 0..NODES {
            let node = node(&format!("node-{index:03}")).cpu("2").memory("4Gi");
            scenario.node(node.set("/status/allocatable/pods", "10"));
        }
        Self { scenario, slow }
    }

    fn pod(&mut self, name: &str, cpu: &str, more: Value) {
        self.scenario.pod(pod(name).cpu(cpu).spec(more));
    }

    /// Tries every active pod, each with the whole time. Returns the outcomes by pod.
    fn attempts(&mut self) -> BTreeMap<String, String> {
        let mut ends = BTreeMap::new();
        loop {
            self.slow.asked.store(0, Ordering::Relaxed);
            let Some(attempt) = self.scenario.scheduler.attempt(self.scenario.now) else {
                return ends;
            };
            let end = match attempt.outcome {
                Outcome::Placed { .. } => "placed".to_owned(),
                Outcome::Error(message) => message,
                Outcome::Unschedulable(rejected) => {
                    let victims = rejected.victims.len();
                    format!("unschedulable, {victims} victims")
                }
                other => format!("{other:?}"),
            };
            assert_eq!(ends.insert(attempt.key.to_string(), end), None);
        }
    }

    /// From now on that many answers take all the time of an attempt.
    fn most(&mut self, most: usize) {
        self.slow.most.store(most, Ordering::Relaxed);
        self.scenario.pass(SignedDuration::from_mins(1));
    }
}

fn ends<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    let pairs = pairs.map(|(name, end)| (name.to_owned(), end.to_owned()));
    BTreeMap::from(pairs)
}

#[test]
fn an_attempt_that_takes_too_long_is_an_error_of_its_pod_alone() {
    let mut scene = Scene::new();
    scene.most(NODES / 2);
    scene.pod("slow", "1", json!({ "priority": 10 }));
    scene.pod("web", "1", json!({}));
    assert_eq!(scene.attempts(), ends([("slow", ENDED), ("web", "placed")]));
    assert_eq!(
        scene.scenario.scheduler.queue().count(Pool::ErrorBackoff),
        1
    );
    let asked = scene.slow.asked.load(Ordering::Relaxed);
    assert!(asked < NODES, "it has ended after {asked} answers");
    // With more time the same attempt succeeds: nothing is left of the answers that were none.
    scene.most(usize::MAX);
    assert_eq!(scene.attempts(), ends([("slow", "placed")]));
}

#[test]
fn an_interrupted_search_for_victims_evicts_no_pod() {
    let mut scene = Scene::new();
    for index in 0..NODES {
        let on = json!({ "nodeName": format!("node-{index:03}") });
        scene.pod(&format!("low-{index:03}"), "2", on);
    }
    scene.pod("slow", "2", json!({ "priority": 10 }));
    // All nodes are asked once, and then some of them without their pods.
    scene.most(NODES + NODES / 4);
    assert_eq!(scene.attempts(), ends([("slow", ENDED)]));
    scene.most(usize::MAX);
    let freed = ends([("slow", "unschedulable, 1 victims")]);
    assert_eq!(scene.attempts(), freed);
}

#[test]
fn a_gang_that_takes_too_long_is_placed_later_or_not_at_all() {
    let mut scene = Scene::new();
    scene.scenario.group(pod_group("gang", 3));
    for name in ["slow-0", "slow-1", "slow-2"] {
        // Each has another size, so that each node is asked about each of them.
        let cpu = format!("1{}00m", &name[5..]);
        let member = json!({ "schedulingGroup": { "podGroupName": "gang" } });
        scene.pod(name, &cpu, member);
    }
    scene.most(NODES + NODES / 2);
    let ended = ends([("slow-0", ENDED), ("slow-1", ENDED), ("slow-2", ENDED)]);
    assert_eq!(scene.attempts(), ended);
    let news = scene.scenario.scheduler.take_group_results();
    let preempted = |outcome: &GroupOutcome| matches!(outcome, GroupOutcome::Preempted { .. });
    assert!(!news.iter().any(|result| preempted(&result.outcome)));
    let cluster = scene.scenario.scheduler.cluster();
    let requested = cluster.nodes().iter().map(|node| node.requested.cpu);
    assert_eq!(requested.sum::<i64>(), 0, "no member has a place");
    scene.most(usize::MAX);
    let placed = ["slow-0", "slow-1", "slow-2"].map(|name| (name, "placed"));
    assert_eq!(scene.attempts(), ends(placed));
}
