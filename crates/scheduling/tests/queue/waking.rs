//! Which changes are events, and for whom.

use super::{
    add, check, delete, last, node, placed, pod, pop, rejected, requests, run, update, with,
};
use evictd_pod::wire;
use evictd_scheduling::{
    Change, Delta, Failure, PluginName, PluginSet, Pool, SchedulingQueue, Settings,
};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;

/// The events of a change, as a pod in flight would be told of them.
fn events(old: &Value, new: &Value) -> Vec<&'static str> {
    let change = if new.is_null() {
        delete(old)
    } else {
        update(new)
    };
    let steps = [add(old), add(&pod("flying", json!({}))), pop(), change];
    last(&steps).in_flight_events
}

#[test]
fn s5_013_a_deleted_pod_wakes_only_pods_whose_rejectors_registered_the_event() {
    let waiting_pod = pod("p", requests("2"));
    let gone = [(placed("x", requests("2")), Value::Null, true)];
    check("NodeResourcesFit", &waiting_pod, &gone);
    let gone = [(placed("x", requests("2")), Value::Null, false)];
    check("NodeAffinity", &waiting_pod, &gone);
}

#[test]
fn s5_019_s5_021_hints_decide_about_a_new_node() {
    let (small, large) = (pod("p", requests("3")), pod("p", requests("5")));
    check(
        "NodeResourcesFit",
        &small,
        &[(Value::Null, node("one"), true)],
    );
    check(
        "NodeResourcesFit",
        &large,
        &[(Value::Null, node("one"), false)],
    );
}

#[test]
fn s5_022_each_change_of_a_node_is_an_event() {
    let old = with(&node("one"), "spec", json!({ "unschedulable": true }));
    let new = with(
        &old,
        "spec",
        json!({ "taints": [{ "key": "t", "effect": "NoSchedule" }] }),
    );
    let new = with(&new, "status.allocatable.cpu", json!("8"));
    let new = with(&new, "metadata.labels.zone", json!("b"));
    let wanted = [
        "NodeUpdateNodeTaint",
        "NodeUpdateNodeAllocatable",
        "NodeUpdateNodeLabel",
        "NodeUpdateNodeTaint",
    ];
    assert_eq!(events(&old, &new), wanted);
    // The same amount in other words is no change.
    let same = with(&old, "status.allocatable.cpu", json!("4000m"));
    assert_eq!(events(&old, &same), Vec::<&str>::new());
}

#[test]
fn s5_023_cordons_and_heartbeats_are_no_events() {
    let cordoned = with(&node("one"), "spec.unschedulable", json!(true));
    assert_eq!(events(&node("one"), &cordoned), Vec::<&str>::new());
    assert_eq!(events(&cordoned, &node("one")), ["NodeUpdateNodeTaint"]);
    let condition = |status: &str, time: &str| {
        let condition = json!({ "type": "Ready", "status": status, "lastHeartbeatTime": time });
        with(&node("one"), "status.conditions", json!([condition]))
    };
    let ready = condition("True", "2026-01-01T00:00:00Z");
    let later = condition("True", "2026-01-01T00:01:00Z");
    assert_eq!(events(&ready, &later), Vec::<&str>::new());
}

#[test]
fn s5_024_a_deleted_node_is_an_event() {
    assert_eq!(events(&node("one"), &Value::Null), ["NodeDelete"]);
}

#[test]
fn s5_025_s5_027_assigned_pods_that_are_added_or_deleted_are_events() {
    let steps = [
        add(&pod("flying", json!({}))),
        pop(),
        add(&placed("x", json!({}))),
        delete(&placed("x", json!({}))),
    ];
    let wanted = ["AssignedPodAdd", "AssignedPodDelete"];
    assert_eq!(last(&steps).in_flight_events, wanted);
}

#[test]
fn s5_026_each_change_of_an_assigned_pod_is_an_event() {
    let old = placed("x", requests("2"));
    let new = with(
        &placed("x", requests("1")),
        "metadata.labels",
        json!({ "a": "b" }),
    );
    let new = with(&new, "spec.tolerations", json!([{ "operator": "Exists" }]));
    let claim = json!({ "resourceClaimStatuses": [{ "name": "c", "resourceClaimName": "x-c" }] });
    let new = with(&new, "status", claim);
    let wanted = [
        "AssignedPodUpdatePodLabel",
        "AssignedPodUpdatePodScaleDown",
        "AssignedPodUpdatePodToleration",
        "AssignedPodUpdatePodGeneratedResourceClaim",
    ];
    assert_eq!(events(&old, &new), wanted);
    let gated = with(&old, "spec.schedulingGates", json!([{ "name": "a" }]));
    let wanted = ["AssignedPodUpdatePodSchedulingGatesEliminated"];
    assert_eq!(events(&gated, &old), wanted);
    // Nothing of these is an event of its own; a request that grows is nothing of these.
    let larger = placed("x", requests("3"));
    assert_eq!(events(&old, &larger), ["AssignedPodUpdate"]);
    let gone = with(&old, "spec", json!({ "nodeName": "one", "containers": [] }));
    assert_eq!(events(&old, &gone), ["AssignedPodUpdatePodScaleDown"]);
}

#[test]
fn s5_030_a_removed_nomination_wakes_pods_of_at_most_that_priority() {
    let nominee = with(
        &pod("nominee", json!({ "priority": 5 })),
        "status",
        json!({ "nominatedNodeName": "one" }),
    );
    let elsewhere = with(&nominee, "status.nominatedNodeName", json!("two"));
    for end in [update(&elsewhere), delete(&nominee)] {
        let mut steps = Vec::new();
        for (name, priority) in [("higher", 6), ("equal", 5), ("lower", 4)] {
            steps.extend([add(&pod(name, json!({ "priority": priority }))), pop()]);
            steps.push(rejected(name, &["NodeResourcesFit"]));
        }
        steps.extend([add(&nominee), end]);
        let state = last(&steps);
        assert_eq!(state.unschedulable, ["default/higher"]);
        assert_eq!(state.backoff, ["default/equal", "default/lower"]);
    }
}

#[test]
fn s5_031_only_registered_actions_on_storage_are_events() {
    let object = |kind: &str| json!({ "kind": kind, "metadata": { "name": "o" } });
    let of = |kind: &str| {
        let object = object(kind);
        let flying = [add(&pod("flying", json!({}))), pop()];
        let steps = [add(&object), update(&object), delete(&object)];
        last(&[&flying[..], &steps].concat()).in_flight_events
    };
    let storage = "storage.k8s.io/";
    let both = |name: &str| vec![format!("{name}Add"), format!("{name}Update")];
    assert_eq!(of("PersistentVolumeClaim"), both("PersistentVolumeClaim"));
    assert_eq!(of("PersistentVolume"), both("PersistentVolume"));
    for kind in ["StorageClass", "CSINode", "CSIStorageCapacity"] {
        assert_eq!(of(kind), both(&format!("{storage}{kind}")));
    }
    assert_eq!(of("CSIDriver"), [format!("{storage}CSIDriverUpdate")]);
    let deleted = format!("{storage}VolumeAttachmentDelete");
    assert_eq!(of("VolumeAttachment"), [deleted]);
}

#[test]
fn s5_032_a_hint_that_fails_wakes() {
    let term = json!({ "topologyKey": "zone", "labelSelector": {
        "matchExpressions": [{ "key": "a", "operator": "Like", "values": ["b"] }] } });
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": [term] });
    let waiting_pod = pod("p", json!({ "affinity": { "podAffinity": required } }));
    let new = placed("x", json!({}));
    check(
        "InterPodAffinity",
        &waiting_pod,
        &[(Value::Null, new, true)],
    );
}

#[test]
fn s5_110_a_gated_pod_makes_a_flush_an_event_for_pods_in_flight() {
    let gated = pod("p", json!({ "schedulingGates": [{ "name": "a" }] }));
    let flush = json!({ "do": "flushUnschedulable", "at": 400_000 });
    let state = last(&[add(&gated), add(&pod("q", json!({}))), pop(), flush]);
    assert_eq!(state.gated, ["default/p"]);
    assert_eq!(state.in_flight_events, ["UnschedulableTimeout"]);
}

/// A queue in which `p` has been rejected by this plugin.
fn rejected_by(plugin: PluginName, has_extenders: bool) -> SchedulingQueue {
    let names = ["default-scheduler".to_owned()];
    let mut queue = SchedulingQueue::new(Settings::default(), names, has_extenders);
    let waiting_pod = serde_json::from_value(pod("p", requests("1"))).unwrap();
    let change = Change::Pod(Delta {
        old: None,
        new: Some(Arc::new(waiting_pod)),
    });
    queue.on(Timestamp::UNIX_EPOCH, &change);
    queue.pop().unwrap();
    fail(&mut queue, plugin);
    queue
}

fn fail(queue: &mut SchedulingQueue, plugin: PluginName) {
    let failure = Failure {
        rejectors: PluginSet::from_iter([plugin]),
        ..Failure::default()
    };
    queue.failed(Timestamp::UNIX_EPOCH, "p", &failure).unwrap();
}

fn on_node(queue: &mut SchedulingQueue, old: Option<Value>, new: Option<Value>) {
    let read = |value: Value| Arc::new(serde_json::from_value(value).unwrap());
    let change = Change::Node(Delta {
        old: old.map(read),
        new: new.map(read),
    });
    queue.on(Timestamp::UNIX_EPOCH, &change);
}

/// Of pods that share their spec only one is compared with the node, unless its status counts, too.
#[test]
fn pods_of_one_template_wake_together_and_no_others() {
    let names = ["default-scheduler".to_owned()];
    let mut queue = SchedulingQueue::new(Settings::default(), names, false);
    let read = |cpu: &str| serde_json::from_value::<wire::Pod>(pod("p", requests(cpu))).unwrap();
    let (small, large) = (read("1"), read("6"));
    let mut resized = small.clone();
    let allocated = json!({ "containerStatuses": [{ "name": "c", "allocatedResources": { "cpu": "6" },
        "resources": { "requests": { "cpu": "6" } } }] });
    resized.status = serde_json::from_value(allocated).unwrap();
    let waiting = [
        ("a", &small),
        ("b", &large),
        ("c", &small),
        ("d", &resized),
        ("e", &large),
    ];
    for (name, template) in waiting {
        let mut pod = template.clone();
        pod.metadata.name = name.to_owned();
        pod.metadata.uid = name.into();
        let (old, new) = (None, Some(Arc::new(pod)));
        queue.on(Timestamp::UNIX_EPOCH, &Change::Pod(Delta { old, new }));
        queue.pop().unwrap();
        let failure = Failure {
            rejectors: PluginSet::from_iter([PluginName::NodeResourcesFit]),
            ..Failure::default()
        };
        queue.failed(Timestamp::UNIX_EPOCH, name, &failure).unwrap();
    }
    let grown = with(&node("one"), "status.allocatable.cpu", json!("5"));
    on_node(&mut queue, Some(node("one")), Some(grown));
    let woken = waiting.iter().filter(|(name, _)| {
        let queued = queue.queued_pod(name).unwrap();
        queued.pool != Pool::Unschedulable
    });
    let woken: Vec<&str> = woken.map(|(name, _)| *name).collect();
    assert_eq!(woken, ["a", "c"]);
}

#[test]
fn s5_111_any_event_wakes_a_pod_that_an_extender_rejected() {
    for (has_extenders, pool) in [(true, Pool::Backoff), (false, Pool::Unschedulable)] {
        let mut queue = rejected_by(PluginName::Extender, has_extenders);
        on_node(&mut queue, Some(node("one")), None);
        assert_eq!(queue.queued_pod("p").unwrap().pool, pool);
    }
}

#[test]
fn s4_027_s5_112_a_pod_is_gated_while_its_victims_are_being_deleted() {
    let mut queue = rejected_by(PluginName::NodeResourcesFit, false);
    let now = Timestamp::UNIX_EPOCH;
    assert!(queue.begin_preemption(now, "p", "one"));
    queue.last_victim(now, "p", "victim", false);
    let pool = |queue: &SchedulingQueue| queue.queued_pod("p").unwrap().pool;
    on_node(&mut queue, None, Some(node("one")));
    assert_eq!(pool(&queue), Pool::Gated);
    // Only the deletion of a pod looks at it again, and only if the plugins that rejected it say so.
    on_node(&mut queue, None, Some(node("two")));
    assert_eq!(pool(&queue), Pool::Gated);
    queue.victim_terminates(now, "victim");
    let victim = serde_json::from_value(placed("victim", requests("1"))).unwrap();
    let gone = Change::Pod(Delta {
        old: Some(Arc::new(victim)),
        new: None,
    });
    queue.on(Timestamp::UNIX_EPOCH, &gone);
    assert_eq!(pool(&queue), Pool::Backoff);
}

/// S4-034: who leaves wakes the pod by the word of the other plugins that rejected it.
#[test]
fn s4_034_a_deleted_pod_wakes_no_pod_for_the_preemption_plugin_itself() {
    let waiting_pod = pod("p", requests("2"));
    let gone = [(placed("x", requests("2")), Value::Null, false)];
    check("DefaultPreemption", &waiting_pod, &gone);
}

/// S5-039: since it was rejected until it is tried again.
#[test]
fn s5_039_rejected_pods_are_counted_by_plugin_until_they_are_tried_again() {
    let mut queue = rejected_by(PluginName::NodeResourcesFit, false);
    let counts = |queue: &SchedulingQueue| -> Vec<(&'static str, String, usize)> {
        let counts = queue.rejected_counts();
        let counts = counts.map(|(plugin, profile, count)| (plugin, profile.to_owned(), count));
        counts.collect()
    };
    let default = "default-scheduler".to_owned();
    assert_eq!(counts(&queue), [("NodeResourcesFit", default.clone(), 1)]);
    on_node(&mut queue, None, Some(node("one")));
    assert_eq!(counts(&queue)[0].2, 1, "it backs off");
    assert!(queue.pop().is_some());
    assert_eq!(counts(&queue), [("NodeResourcesFit", default, 0)]);
}

#[test]
fn s5_112_a_failed_deletion_activates_the_pod() {
    let mut queue = rejected_by(PluginName::NodeResourcesFit, false);
    let now = Timestamp::UNIX_EPOCH;
    assert!(queue.begin_preemption(now, "p", "one"));
    assert!(queue.activate(now, ["p"]).is_empty());
    assert_eq!(queue.end_preemption(now, "p", true)[0].pool, Pool::Active);
}

#[test]
fn s5_112_no_second_preemption_begins_before_the_first_has_ended() {
    let mut queue = rejected_by(PluginName::NodeResourcesFit, false);
    let now = Timestamp::UNIX_EPOCH;
    assert!(!queue.begin_preemption(now, "unknown", "one"));
    assert!(queue.begin_preemption(now, "p", "one"));
    queue.last_victim(now, "p", "victim", true);
    assert!(!queue.begin_preemption(now, "p", "two"));
    queue.end_preemption(now, "p", false);
    assert!(queue.begin_preemption(now, "p", "two"));
}

#[test]
fn s5_112_a_pod_stays_gated_after_its_preemption_until_the_last_victim_terminates() {
    let mut queue = rejected_by(PluginName::NodeResourcesFit, false);
    let now = Timestamp::UNIX_EPOCH;
    queue.begin_preemption(now, "p", "one");
    queue.last_victim(now, "p", "victim", false);
    queue.end_preemption(now, "p", false);
    assert!(queue.activate(now, ["p"]).is_empty());
    queue.victim_terminates(now, "another");
    assert!(queue.activate(now, ["p"]).is_empty());
    queue.victim_terminates(now, "victim");
    assert_eq!(queue.activate(now, ["p"])[0].pool, Pool::Active);
    assert!(queue.preemption("p").is_none());
}

#[test]
fn s5_112_a_victim_that_terminates_already_activates_the_pod() {
    let mut queue = rejected_by(PluginName::NodeResourcesFit, false);
    let now = Timestamp::UNIX_EPOCH;
    queue.begin_preemption(now, "p", "one");
    let moved = queue.last_victim(now, "p", "victim", true);
    assert_eq!(moved[0].pool, Pool::Active);
}

#[test]
fn a_pod_that_appears_twice_is_one_pod() {
    let waiting_pod = pod("p", json!({}));
    assert_eq!(run(&[add(&waiting_pod), add(&waiting_pod)]).pods.len(), 1);
}
