//! The scheduler as a value: what attempts do to cluster and queue.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod scenario;

use evictd_pod::wire;
use evictd_scheduling::{Attempt, Change, Delta, Outcome, Phase, Pool};
use jiff::{SignedDuration, Timestamp};
use scenario::{Scenario, node, pod};
use std::sync::Arc;

/// Nodes of two CPUs.
fn scenario(nodes: &[&str]) -> Scenario {
    let mut scenario = Scenario::new();
    for name in nodes {
        add_node(&mut scenario, name);
    }
    scenario
}

fn add_node(scenario: &mut Scenario, name: &str) {
    scenario.node(node(name).cpu("2").memory("4Gi"));
}

fn sized(name: &str, cpu: &str, node: &str) -> Arc<wire::Pod> {
    let pod = pod(name).cpu(cpu).on(node);
    pod.set("/metadata/resourceVersion", node).read()
}

#[test]
fn s5_040_a_terminating_pod_is_skipped() {
    let mut scene = scenario(&["one"]);
    let mut going = (*sized("going", "1", "")).clone();
    going.metadata.deletion_timestamp = Some(Timestamp::UNIX_EPOCH.into());
    scene.change_pod(None, Some(&Arc::new(going)));
    assert!(matches!(
        scene.attempt().unwrap().outcome,
        Outcome::Deleting
    ));
    assert!(scene.attempt().is_none());
}

#[test]
fn s5_041_a_pod_of_another_scheduler_never_enters_the_queue() {
    let mut scene = scenario(&["one"]);
    let mut other = (*sized("other", "1", "")).clone();
    other.spec.scheduler_name = "other".to_owned();
    scene.change_pod(None, Some(&Arc::new(other)));
    assert!(scene.attempt().is_none());
}

#[test]
fn s5_042_without_nodes_an_attempt_is_an_error_that_is_tried_again_by_itself() {
    let mut scene = scenario(&[]);
    scene.change_pod(None, Some(&sized("first", "1", "")));
    let Outcome::Error(told) = scene.attempt().unwrap().outcome else {
        panic!("it cannot be placed");
    };
    assert_eq!(told, "no nodes available to schedule pods");
    assert_eq!(scene.scheduler.queue().count(Pool::ErrorBackoff), 1);
}

#[test]
fn s5_057_an_assumed_pod_counts_on_its_node_at_once() {
    let mut scene = scenario(&["one", "two"]);
    for name in ["a", "b", "c"] {
        scene.change_pod(None, Some(&sized(name, "1500m", "")));
    }
    assert_eq!([scene.node_of_next(), scene.node_of_next()], ["one", "two"]);
    assert!(matches!(
        scene.attempt().unwrap().outcome,
        Outcome::Unschedulable(_)
    ));
    assert_eq!(scene.requested("one"), 1500);
}

#[test]
fn s5_067_an_assumed_pod_counts_on_its_node_until_its_binding_fails() {
    let mut scene = scenario(&["one"]);
    let first = sized("first", "2", "");
    scene.change_pod(None, Some(&first));
    assert_eq!(scene.node_of_next(), "one");
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
    let mut scene = scenario(&["one"]);
    let first = sized("first", "2", "");
    scene.change_pod(None, Some(&first));
    assert_eq!(scene.node_of_next(), "one");
    // The API server has bound the pod, and its answer was lost.
    scene.change_pod(Some(&first), Some(&sized("first", "2", "one")));
    let key = first.metadata.key();
    assert!(scene.scheduler.bind_failed(scene.now, &key).is_some());
    assert_eq!(scene.requested("one"), 2000);
    assert!(scene.scheduler.queue().is_empty());
    assert_eq!(scene.scheduler.queue().phase(&key), None);
}

#[test]
fn a_pod_that_comes_back_is_tried_only_after_its_earlier_binding_is_answered() {
    let mut scene = scenario(&["one"]);
    let first = sized("first", "2", "");
    let key = first.metadata.key();
    scene.change_pod(None, Some(&first));
    assert_eq!(scene.node_of_next(), "one");
    scene.change_pod(Some(&first), None);
    assert_eq!(scene.requested("one"), 0);
    scene.change_pod(None, Some(&first));
    let outcome = scene.attempt().unwrap().outcome;
    assert!(matches!(outcome, Outcome::Error(_)), "{outcome:?}");
    assert_eq!(scene.requested("one"), 0);
    assert!(scene.scheduler.bound(scene.now, &key).is_none());
    scene.scheduler.activate(scene.now, [&*key]);
    assert_eq!(scene.node_of_next(), "one");
    assert_eq!(scene.scheduler.bindings().count(), 1);
    assert!(scene.scheduler.bound(scene.now, &key).is_some());
    assert_eq!(scene.scheduler.queue().phase(&key), Some(Phase::Bound));
}

#[test]
fn s5_068_a_pod_bound_to_another_node_counts_there() {
    let mut scene = scenario(&["one", "two"]);
    let first = sized("first", "2", "");
    scene.change_pod(None, Some(&first));
    assert_eq!(scene.node_of_next(), "one");
    scene.change_pod(Some(&first), Some(&sized("first", "2", "two")));
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
    let mut scene = scenario(&["one", "two"]);
    let low = with_priority(&sized("low", "2", "one"), 1);
    let other = with_priority(&sized("other", "2", "two"), 5);
    scene.change_pod(None, Some(&low));
    scene.change_pod(None, Some(&other));
    let high = with_priority(&sized("high", "2", ""), 10);
    scene.change_pod(None, Some(&high));
    let nominated = |attempt: Option<Attempt>| match attempt.unwrap().outcome {
        Outcome::Unschedulable(rejected) => rejected.nominated,
        other => panic!("{other:?}"),
    };
    assert_eq!(nominated(scene.attempt()).as_deref(), Some("one"));
    let mut ending = (*low).clone();
    ending.metadata.deletion_timestamp = Some(Timestamp::from_second(60).unwrap().into());
    let ending = Arc::new(ending);
    scene.change_pod(Some(&low), Some(&ending));
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
    scene.change_pod(Some(&ending), None);
    scene.now = Timestamp::from_second(120).unwrap();
    let now = scene.now;
    scene.scheduler.flush_backoff(now);
    assert_eq!(scene.node_of_next(), "one");
}

/// S3-010, S4-033: that a node is being freed for a pod is told like any other change, and the pod goes where it fits first.
#[test]
fn s3_010_s4_033_a_nominated_pod_is_placed_on_another_node_if_it_fits_there_first() {
    let mut scene = scenario(&["one"]);
    scene.change_pod(None, Some(&with_priority(&sized("low", "2", "one"), 1)));
    let high = with_priority(&sized("high", "2", ""), 10);
    scene.change_pod(None, Some(&high));
    assert!(matches!(
        scene.attempt().unwrap().outcome,
        Outcome::Unschedulable(_)
    ));
    let mut nominated = (*high).clone();
    nominated.metadata.resource_version = "2".to_owned().into();
    nominated.status.nominated_node_name = "one".to_owned();
    let nominated = Arc::new(nominated);
    scene.change_pod(Some(&high), Some(&nominated));
    assert!(scene.attempt().is_none(), "the nomination alone is no room");
    add_node(&mut scene, "two");
    scene.now = Timestamp::from_second(20).unwrap();
    let now = scene.now;
    scene.scheduler.flush_backoff(now);
    assert_eq!(
        scene.node_of_next(),
        "two",
        "the victim still takes its time"
    );
}

/// What the first of many was told the others are told without looking again, as long as it is true for them.
#[test]
fn equal_unschedulable_pods_get_the_message_that_holds_for_each() {
    let mut scene = scenario(&["one"]);
    scene.change_pod(None, Some(&with_priority(&sized("there", "1", "one"), 20)));
    for (name, policy) in [("a", ""), ("b", ""), ("c", "Never"), ("d", "")] {
        let mut pod = (*with_priority(&sized(name, "2", ""), 10)).clone();
        pod.spec.preemption_policy = policy.to_owned();
        scene.change_pod(None, Some(&Arc::new(pod)));
    }
    let told = |scene: &mut Scenario| match scene.attempt().unwrap().outcome {
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
    add_node(&mut scene, "two");
    assert_eq!(scene.node_of_next(), "two");
}

#[test]
fn a_pod_waits_while_the_only_node_with_room_is_cordoned() {
    let mut scenario = Scenario::new();
    let cordoned = node("one").cpu("2").set("/spec/unschedulable", true);
    scenario.node(cordoned.clone());
    scenario.pod(pod("web").cpu("1"));
    assert!(scenario.placed().is_empty());
    let delta = Delta {
        old: Some(cordoned.read()),
        new: Some(node("one").cpu("2").read()),
    };
    scenario.change(Change::Node(delta));
    scenario.pass(SignedDuration::from_secs(20));
    assert_eq!(scenario.placed()["web"], "one");
}
