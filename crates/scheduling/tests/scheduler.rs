//! The scheduler as a value: what attempts do to cluster and queue.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_pod::wire;
use evictd_scheduling::{
    Attempt, Change, Delta, Event, Framework, Outcome, Phase, Pool, Scheduler, Settings,
};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use std::sync::Arc;

struct Scene {
    scheduler: Scheduler,
    now: Timestamp,
}

fn read<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn pod(name: &str, cpu: &str, node: &str) -> Arc<wire::Pod> {
    read(
        json!({ "metadata": { "name": name, "namespace": "default", "uid": name, "resourceVersion": node },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "resources": { "requests": { "cpu": cpu } } }] } }),
    )
}

impl Scene {
    fn new() -> Self {
        let scheduler = Scheduler::new(Settings::default(), false, |cluster| {
            Ok::<_, String>(vec![Framework::of_default(cluster)])
        });
        Self {
            scheduler: scheduler.unwrap(),
            now: Timestamp::UNIX_EPOCH,
        }
    }

    fn with_node(mut self, name: &str) -> Self {
        let node = read(json!({ "metadata": { "name": name },
            "status": { "allocatable": { "cpu": "2", "memory": "4Gi", "pods": "10" } } }));
        let change = Change::Node(Delta {
            old: None,
            new: Some(node),
        });
        self.scheduler.on(self.now, &Event::Change(change));
        self
    }

    fn change(&mut self, old: Option<&Arc<wire::Pod>>, new: Option<&Arc<wire::Pod>>) {
        let delta = Delta {
            old: old.cloned(),
            new: new.cloned(),
        };
        self.scheduler
            .on(self.now, &Event::Change(Change::Pod(delta)));
    }

    fn attempt(&mut self) -> Option<Attempt> {
        self.now = self
            .now
            .checked_add(SignedDuration::from_millis(10))
            .unwrap();
        self.scheduler.attempt(self.now)
    }

    fn placed(&mut self) -> String {
        match self.attempt().unwrap().outcome {
            Outcome::Placed { node, .. } => node.to_string(),
            other => panic!("{other:?}"),
        }
    }

    fn requested(&self, node: &str) -> i64 {
        let cluster = self.scheduler.cluster();
        cluster.node(cluster.find_node(node).unwrap()).requested.cpu
    }
}

#[test]
fn s5_040_a_terminating_pod_is_skipped() {
    let mut scene = Scene::new().with_node("one");
    let mut going = (*pod("going", "1", "")).clone();
    going.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH.into());
    scene.change(None, Some(&Arc::new(going)));
    assert!(matches!(
        scene.attempt().unwrap().outcome,
        Outcome::Deleting
    ));
    assert!(scene.attempt().is_none());
}

#[test]
fn s5_041_a_pod_of_another_scheduler_never_enters_the_queue() {
    let mut scene = Scene::new().with_node("one");
    let mut other = (*pod("other", "1", "")).clone();
    other.spec.scheduler_name = "other".to_owned();
    scene.change(None, Some(&Arc::new(other)));
    assert!(scene.attempt().is_none());
}

#[test]
fn s5_042_without_nodes_an_attempt_is_an_error_that_is_tried_again_by_itself() {
    let mut scene = Scene::new();
    scene.change(None, Some(&pod("first", "1", "")));
    let Outcome::Error(told) = scene.attempt().unwrap().outcome else {
        panic!("it cannot be placed");
    };
    assert_eq!(told, "no nodes available to schedule pods");
    assert_eq!(scene.scheduler.queue().count(Pool::ErrorBackoff), 1);
}

#[test]
fn s5_057_an_assumed_pod_counts_on_its_node_at_once() {
    let mut scene = Scene::new().with_node("one").with_node("two");
    for name in ["a", "b", "c"] {
        scene.change(None, Some(&pod(name, "1500m", "")));
    }
    assert_eq!([scene.placed(), scene.placed()], ["one", "two"]);
    assert!(matches!(
        scene.attempt().unwrap().outcome,
        Outcome::Unschedulable(_)
    ));
    assert_eq!(scene.requested("one"), 1500);
}

#[test]
fn s5_067_an_assumed_pod_counts_on_its_node_until_its_binding_fails() {
    let mut scene = Scene::new().with_node("one");
    let first = pod("first", "2", "");
    scene.change(None, Some(&first));
    assert_eq!(scene.placed(), "one");
    scene.now = scene
        .now
        .checked_add(SignedDuration::from_hours(1))
        .unwrap();
    assert_eq!(scene.requested("one"), 2000);
    scene
        .scheduler
        .bind_failed(scene.now, &first.metadata.key());
    assert_eq!(scene.requested("one"), 0);
    assert_eq!(scene.scheduler.queue().count(Pool::ErrorBackoff), 1);
}

#[test]
fn a_binding_that_fails_frees_no_room_once_a_watch_shows_the_pod_on_its_node() {
    let mut scene = Scene::new().with_node("one");
    let first = pod("first", "2", "");
    scene.change(None, Some(&first));
    assert_eq!(scene.placed(), "one");
    // The API server has bound the pod, and its answer was lost.
    scene.change(Some(&first), Some(&pod("first", "2", "one")));
    let key = first.metadata.key();
    assert!(scene.scheduler.bind_failed(scene.now, &key).is_some());
    assert_eq!(scene.requested("one"), 2000);
    assert!(scene.scheduler.queue().is_empty());
    assert_eq!(scene.scheduler.queue().phase(&key), None);
}

#[test]
fn a_pod_that_comes_back_is_tried_only_after_its_earlier_binding_is_answered() {
    let mut scene = Scene::new().with_node("one");
    let first = pod("first", "2", "");
    let key = first.metadata.key();
    scene.change(None, Some(&first));
    assert_eq!(scene.placed(), "one");
    scene.change(Some(&first), None);
    assert_eq!(scene.requested("one"), 0);
    scene.change(None, Some(&first));
    let outcome = scene.attempt().unwrap().outcome;
    assert!(matches!(outcome, Outcome::Error(_)), "{outcome:?}");
    assert_eq!(scene.requested("one"), 0);
    assert!(scene.scheduler.bound(scene.now, &key).is_none());
    scene.scheduler.activate([&*key]);
    assert_eq!(scene.placed(), "one");
    assert_eq!(scene.scheduler.bindings().count(), 1);
    assert!(scene.scheduler.bound(scene.now, &key).is_some());
    assert_eq!(scene.scheduler.queue().phase(&key), Some(Phase::Bound));
}

#[test]
fn s5_068_a_pod_bound_to_another_node_counts_there() {
    let mut scene = Scene::new().with_node("one").with_node("two");
    let first = pod("first", "2", "");
    scene.change(None, Some(&first));
    assert_eq!(scene.placed(), "one");
    scene.change(Some(&first), Some(&pod("first", "2", "two")));
    assert_eq!((scene.requested("one"), scene.requested("two")), (0, 2000));
    assert!(scene.scheduler.queue().is_empty());
}

fn with_priority(pod: &Arc<wire::Pod>, priority: i32) -> Arc<wire::Pod> {
    let mut pod = (**pod).clone();
    pod.spec.priority = Some(priority);
    Arc::new(pod)
}

/// k/k#106780: a victim that does not end holds nobody up where another node can be freed.
#[test]
fn a_node_with_a_stuck_victim_is_abandoned() {
    let mut scene = Scene::new().with_node("one").with_node("two");
    let low = with_priority(&pod("low", "2", "one"), 1);
    let other = with_priority(&pod("other", "2", "two"), 5);
    scene.change(None, Some(&low));
    scene.change(None, Some(&other));
    let high = with_priority(&pod("high", "2", ""), 10);
    scene.change(None, Some(&high));
    let nominated = |attempt: Option<Attempt>| match attempt.unwrap().outcome {
        Outcome::Unschedulable(rejected) => rejected.nominated,
        other => panic!("{other:?}"),
    };
    assert_eq!(nominated(scene.attempt()).as_deref(), Some("one"));
    let mut ending = (*low).clone();
    ending.metadata.deletion_timestamp = Some(Timestamp::from_second(60).unwrap().into());
    let ending = Arc::new(ending);
    scene.change(Some(&low), Some(&ending));
    for (after, attempts) in [(30, 0), (85, 0), (95, 1)] {
        let now = Timestamp::from_second(after).unwrap();
        scene.now = now;
        scene.scheduler.leave_stuck_victims(now);
        assert_eq!(
            scene.scheduler.queue().count(Pool::Active),
            attempts,
            "after {after} s"
        );
    }
    assert_eq!(nominated(scene.attempt()).as_deref(), Some("two"));
    // The first one is free at last.
    scene.change(Some(&ending), None);
    scene.now = Timestamp::from_second(120).unwrap();
    let now = scene.now;
    scene.scheduler.flush_backoff(now);
    assert_eq!(scene.placed(), "one");
}

/// S3-010, S4-033: that a node is being freed for a pod is told like any other change, and the pod goes where it fits first.
#[test]
fn s3_010_s4_033_a_nominated_pod_is_placed_on_another_node_if_it_fits_there_first() {
    let mut scene = Scene::new().with_node("one");
    scene.change(None, Some(&with_priority(&pod("low", "2", "one"), 1)));
    let high = with_priority(&pod("high", "2", ""), 10);
    scene.change(None, Some(&high));
    assert!(matches!(
        scene.attempt().unwrap().outcome,
        Outcome::Unschedulable(_)
    ));
    let mut nominated = (*high).clone();
    nominated.metadata.resource_version = "2".to_owned().into();
    nominated.status.nominated_node_name = "one".to_owned();
    let nominated = Arc::new(nominated);
    scene.change(Some(&high), Some(&nominated));
    assert!(scene.attempt().is_none(), "the nomination alone is no room");
    let mut scene = scene.with_node("two");
    scene.now = Timestamp::from_second(20).unwrap();
    let now = scene.now;
    scene.scheduler.flush_backoff(now);
    assert_eq!(scene.placed(), "two", "the victim still takes its time");
}

/// What the first of many was told the others are told without looking again, as long as it is true for them.
#[test]
fn equal_unschedulable_pods_get_the_message_that_holds_for_each() {
    let mut scene = Scene::new().with_node("one");
    scene.change(None, Some(&with_priority(&pod("there", "1", "one"), 20)));
    for (name, policy) in [("a", ""), ("b", ""), ("c", "Never"), ("d", "")] {
        let mut pod = (*with_priority(&pod(name, "2", ""), 10)).clone();
        pod.spec.preemption_policy = policy.to_owned();
        scene.change(None, Some(&Arc::new(pod)));
    }
    let told = |scene: &mut Scene| match scene.attempt().unwrap().outcome {
        Outcome::Unschedulable(rejected) => (rejected.message, rejected.clears_nomination),
        other => panic!("{other:?}"),
    };
    let no =
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption:";
    let nobody =
        format!("{no} 0/1 nodes are available: 1 No preemption victims found for incoming pod.");
    let never = format!("{no} not eligible due to preemptionPolicy=Never.");
    assert_eq!(told(&mut scene), (nobody.clone(), true));
    assert_eq!(told(&mut scene), (nobody, true));
    assert_eq!(told(&mut scene), (never, false));
    let mut scene = scene.with_node("two");
    assert_eq!(scene.placed(), "two");
}
