//! Deferred in-place resizes preempt on their node (table F8 of the specification).
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_pod::compatibility::{Compatibility, Release};
use evictd_pod::{Node, wire};
use evictd_preemption::Action;
use evictd_scheduling::{Change, Delta, Event, Framework, Outcome, Pool};
use jiff::SignedDuration;
use scenario::Scenario;
use serde_json::{Value, from_value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

mod scenario;

const FITS: &str = "pod resize fits, waiting for Kubelet actuation";

struct Scene {
    scenario: Scenario,
    pods: BTreeMap<String, Arc<wire::Pod>>,
    nodes: BTreeMap<String, Arc<Node>>,
}

impl Scene {
    /// Two nodes of 300 millicores each.
    fn new(gate: bool) -> Self {
        Self::with(gate, |_| {})
    }

    /// With a changed profile.
    fn with(gate: bool, change: impl FnOnce(&mut Framework)) -> Self {
        let mut scenario = Scenario::with_extenders(false, change);
        let gates = [("InPlacePodVerticalScalingSchedulerPreemption", gate)];
        let compatibility = Compatibility::with_gates(Release::V1_37, gates);
        scenario.scheduler.set_compatibility(compatibility.unwrap());
        let (pods, nodes) = (BTreeMap::new(), BTreeMap::new());
        let mut scene = Self {
            scenario,
            pods,
            nodes,
        };
        for name in ["one", "two"] {
            scene.node(name, Some(node(name, 300)));
        }
        scene
    }

    fn node(&mut self, name: &str, new: Option<Value>) {
        let new: Option<Arc<Node>> = new.map(|new| Arc::new(from_value(new).unwrap()));
        let old = self.nodes.remove(name);
        if let Some(new) = &new {
            self.nodes.insert(name.to_owned(), Arc::clone(new));
        }
        self.scenario.change(Change::Node(Delta { old, new }));
    }

    fn pod(&mut self, name: &str, new: Option<Value>) {
        let new: Option<Arc<wire::Pod>> = new.map(|new| Arc::new(from_value(new).unwrap()));
        let old = self.pods.remove(name);
        if let Some(new) = &new {
            self.pods.insert(name.to_owned(), Arc::clone(new));
        }
        self.scenario.change_pod(old.as_ref(), new.as_ref());
    }

    /// The message and the victims of the next attempt; `None` if every resize is parked.
    fn attempt(&mut self) -> Option<(String, Vec<String>)> {
        let now = self.scenario.now;
        let attempt = self.scenario.scheduler.attempt_resize(now)?;
        let Outcome::Unschedulable(rejected) = attempt.outcome else {
            panic!("{:?}", attempt.outcome);
        };
        let nominates = |action: &Action| matches!(action, Action::Nominate { .. });
        assert!(!rejected.actions.iter().any(nominates));
        let deleted = rejected.actions.iter().filter_map(|action| match action {
            Action::Delete { pod, .. } => Some(pod.trim_start_matches("default/").to_owned()),
            _ => None,
        });
        Some((rejected.message.clone(), deleted.collect()))
    }

    fn message(&mut self) -> String {
        let (message, victims) = self.attempt().unwrap();
        assert!(victims.is_empty(), "{message}: {victims:?}");
        message
    }
}

fn node(name: &str, millicores: u32) -> Value {
    json!({ "metadata": { "name": name, "uid": name },
        "status": { "allocatable": { "cpu": format!("{millicores}m"), "memory": "1Gi", "pods": "20" } } })
}

fn closed(mut node: Value) -> Value {
    node["spec"]["podPreemptionPolicy"] = json!({ "disableResizePreemption": ["x"] });
    node
}

fn running(name: &str, node: &str, millicores: u32, priority: i32) -> Value {
    json!({ "metadata": { "name": name, "namespace": "default", "uid": name },
        "spec": { "nodeName": node, "priority": priority, "schedulerName": "default-scheduler",
            "containers": [{ "name": "c", "resources": { "requests": { "cpu": format!("{millicores}m") } } }] },
        "status": { "phase": "Running" } })
}

/// A pod that runs with 100 millicores and asks for more, which its node has deferred.
fn resizing(millicores: u32) -> Value {
    let mut pod = running("app", "one", millicores, 100);
    let amounts = json!({ "requests": { "cpu": "100m" } });
    pod["status"] = json!({ "phase": "Running",
        "containerStatuses": [{ "name": "c", "allocatedResources": { "cpu": "100m" }, "resources": amounts }],
        "conditions": [{ "type": "PodResizePending", "status": "True", "reason": "Deferred" },
            { "type": "PodScheduled", "status": "True" }] });
    pod
}

#[test]
fn s7_244_t76_pods_of_lower_priority_on_its_node_are_preempted_and_nothing_is_nominated() {
    let mut scene = Scene::new(true);
    scene.pod("a", Some(running("a", "one", 100, 0)));
    scene.pod("b", Some(running("b", "one", 100, 0)));
    scene.pod("c", Some(running("c", "two", 300, 0)));
    scene.pod("app", Some(resizing(300)));
    let (message, victims) = scene.attempt().unwrap();
    assert_eq!(victims, ["a", "b"]);
    assert_eq!(
        message,
        "waiting for preempted pods to end: default/a, default/b"
    );
    assert_eq!(scene.attempt(), None);
    assert!(
        scene.scenario.attempts().is_empty(),
        "it is in no queue of pods"
    );
    assert_eq!(
        scene.scenario.scheduler.queue().count(Pool::Unschedulable),
        0
    );
    assert!(scene.scenario.scheduler.cluster().nominated().is_empty());
    // What it waits for is shown.
    let parked: Vec<_> = scene.scenario.scheduler.deferred_resizes().collect();
    assert_eq!((parked.len(), parked[0].attempts), (1, 1));
    assert_eq!(parked[0].message, message);
}

#[test]
fn s7_241_s7_242_t77_t78_t79_a_resize_that_preempts_nothing_is_parked_with_its_reason() {
    let mut never = resizing(300);
    never["spec"]["preemptionPolicy"] = json!("Never");
    let more_important = running("a", "one", 200, 100);
    let low = running("a", "one", 200, 0);
    for (node, other, app, message) in [
        (
            node("one", 300),
            Some(low.clone()),
            never,
            "not eligible due to preemptionPolicy=Never.",
        ),
        (node("one", 300), None, resizing(300), FITS),
        (
            closed(node("one", 300)),
            Some(low),
            resizing(300),
            "node had resize preemption disabled",
        ),
        (
            node("one", 300),
            Some(more_important),
            resizing(300),
            "No preemption victims found for incoming pod",
        ),
        (
            node("one", 300),
            Some(running("a", "one", 100, 0)),
            resizing(400),
            "Insufficient cpu (insufficient cpu by 100m without all pods of lower priority)",
        ),
    ] {
        let mut scene = Scene::new(true);
        scene.node("one", Some(node));
        if let Some(other) = other {
            scene.pod("a", Some(other));
        }
        scene.pod("app", Some(app));
        assert_eq!(scene.message(), message);
        assert_eq!(scene.attempt(), None);
    }
}

#[test]
fn s7_240_s7_246_conditions_decide_whether_a_resize_is_deferred() {
    let mut scene = Scene::new(true);
    let low = running("a", "one", 200, 0);
    scene.pod("a", Some(low));
    for condition in [
        json!({ "type": "PodResizePending", "status": "True", "reason": "Infeasible" }),
        json!({ "type": "PodResizePending", "status": "False", "reason": "Deferred" }),
    ] {
        let mut pod = resizing(300);
        pod["status"]["conditions"] = json!([condition]);
        scene.pod("app", Some(pod));
        assert_eq!(scene.attempt(), None);
    }
    let mut disabled = resizing(300);
    disabled["status"]["conditions"].as_array_mut().unwrap().push(
        json!({ "type": "PodResizePreemptionDisabled", "status": "True", "reason": "PreemptionDisabledByNodePolicy" }),
    );
    scene.pod("app", Some(disabled));
    assert_eq!(scene.attempt(), None);
    scene.pod("app", Some(resizing(300)));
    assert_eq!(scene.attempt().unwrap().1, ["a"]);
    // The kubelet has granted it.
    let mut done = resizing(300);
    done["status"]["conditions"] = json!([]);
    scene.pod("app", Some(done));
    assert_eq!(scene.scenario.scheduler.deferred_resizes().count(), 0);
    let mut other = resizing(300);
    other["spec"]["schedulerName"] = json!("other");
    scene.pod("app", Some(other));
    assert_eq!(scene.attempt(), None);
}

#[test]
fn s7_245_t80_t81_t82_events_on_its_own_node_wake_it() {
    let mut scene = Scene::new(true);
    scene.pod("a", Some(running("a", "one", 150, 200)));
    scene.pod("b", Some(running("b", "two", 200, 200)));
    scene.pod("app", Some(resizing(300)));
    scene.message();
    for millicores in [Some(100), Some(250), None] {
        scene.pod("b", millicores.map(|cpu| running("b", "two", cpu, 200)));
        assert_eq!(scene.attempt(), None, "T80");
    }
    for cpu in [100, 150] {
        scene.pod("a", Some(running("a", "one", cpu, 200)));
        assert!(scene.message().contains("No preemption victims"), "T81");
    }
    scene.pod("a", None);
    assert_eq!(scene.message(), FITS, "T81");
    // A pod that comes is no event, one that grows is.
    scene.pod("c", Some(running("c", "one", 0, 0)));
    assert_eq!(scene.attempt(), None);
    scene.pod("c", Some(running("c", "one", 100, 0)));
    assert_eq!(scene.attempt().unwrap().1, ["c"], "T82");
    // It asks for something else.
    scene.pod("app", Some(resizing(200)));
    assert_eq!(scene.message(), FITS);
    scene.pod("app", Some(resizing(200)));
    assert_eq!(scene.attempt(), None);
}

#[test]
fn s7_245_t83_t84_changes_of_its_node_wake_it() {
    let mut scene = Scene::new(true);
    scene.node("one", Some(closed(node("one", 300))));
    scene.pod("app", Some(resizing(400)));
    scene.message();
    let mut labelled = closed(node("one", 300));
    labelled["metadata"]["labels"] = json!({ "a": "b" });
    scene.node("one", Some(labelled));
    assert_eq!(scene.attempt(), None);
    scene.node("one", Some(node("one", 300)));
    assert!(scene.message().contains("No preemption victims"), "T83");
    scene.node("one", Some(closed(node("one", 300))));
    assert_eq!(scene.attempt(), None);
    scene.node("one", Some(node("one", 300)));
    scene.message();
    scene.node("three", Some(node("three", 300)));
    assert_eq!(scene.attempt(), None, "T84");
    scene.node("one", Some(node("one", 500)));
    assert_eq!(scene.message(), FITS);
    scene.node("one", Some(node("one", 400)));
    assert_eq!(scene.attempt(), None);
    scene.node("one", None);
    scene.node("one", Some(closed(node("one", 500))));
    assert_eq!(scene.attempt(), None, "T84");
    scene.node("one", None);
    scene.node("one", Some(node("one", 500)));
    assert_eq!(scene.message(), FITS, "T84");
}

/// Its node is cordoned and has a taint, and a port of it is in use there.
#[test]
fn s7_243_only_resources_count_for_a_resize() {
    let mut scene = Scene::new(true);
    let mut cordoned = node("one", 300);
    cordoned["spec"] = json!({ "unschedulable": true,
        "taints": [{ "key": "k", "effect": "NoSchedule" }] });
    scene.node("one", Some(cordoned));
    let with_port = |mut pod: Value| {
        pod["spec"]["containers"][0]["ports"] = json!([{ "containerPort": 1, "hostPort": 1 }]);
        pod
    };
    scene.pod("a", Some(with_port(running("a", "one", 100, 0))));
    // Its former 100 millicores and the other pod leave no room for 200 more.
    scene.pod("app", Some(with_port(resizing(200))));
    assert_eq!(scene.message(), FITS);
}

/// The priority of a group may be lower than that of its pod, which must not be its own victim then.
#[test]
fn s7_240_a_resize_of_a_pod_in_a_group_evicts_neither_itself_nor_its_group() {
    for (whole, other) in [(false, 0), (false, 200), (true, 0), (true, 200)] {
        let mut scene = Scene::new(true);
        let mut group = json!({ "metadata": { "name": "g", "namespace": "default" },
            "spec": { "schedulingPolicy": { "basic": {} }, "priority": 0 } });
        if whole {
            group["spec"]["disruptionMode"] = json!({ "all": {} });
        }
        let group = Delta {
            old: None,
            new: Some(Arc::new(from_value(group).unwrap())),
        };
        scene.scenario.on(&Event::PodGroup(group));
        let in_group = |mut pod: Value| {
            pod["spec"]["schedulingGroup"] = json!({ "podGroupName": "g" });
            pod
        };
        scene.pod("app", Some(in_group(resizing(300))));
        scene.pod("mate", Some(in_group(running("mate", "two", 100, 0))));
        scene.pod("a", Some(running("a", "one", 200, other)));
        let (message, victims) = scene.attempt().unwrap();
        if other == 0 {
            assert_eq!(victims, ["a"], "{whole}");
        } else {
            assert!(message.contains("No preemption victims"), "{message}");
        }
    }
}

#[test]
fn a_profile_without_default_preemption_evicts_nothing_for_a_resize() {
    let mut scene = Scene::with(true, |profile| profile.post_filters.clear());
    scene.pod("a", Some(running("a", "one", 200, 0)));
    scene.pod("app", Some(resizing(300)));
    assert_eq!(
        scene.message(),
        "its profile does not enable DefaultPreemption"
    );
    scene.pod("a", None);
    assert_eq!(scene.message(), FITS);
}

#[test]
fn a_resize_whose_victims_could_not_be_deleted_is_tried_again_by_the_next_flush() {
    let mut scene = Scene::new(true);
    scene.pod("a", Some(running("a", "one", 200, 0)));
    scene.pod("app", Some(resizing(300)));
    assert_eq!(scene.attempt().unwrap().1, ["a"]);
    scene.scenario.scheduler.resize_failed("app", "forbidden");
    // Not at once, because it may fail again and again.
    assert_eq!(scene.attempt(), None);
    let parked = scene.scenario.scheduler.deferred_resizes().next();
    assert_eq!(
        parked.unwrap().message,
        "its victims could not be deleted: forbidden"
    );
    let now = scene.scenario.now;
    scene.scenario.scheduler.flush_unschedulable(now);
    assert_eq!(scene.attempt().unwrap().1, ["a"]);
    assert_eq!(scene.attempt(), None);
    scene.scenario.scheduler.flush_unschedulable(now);
    assert_eq!(scene.attempt(), None);
}

#[test]
fn s7_240_t85_without_the_gate_nothing_is_tried() {
    let mut scene = Scene::new(false);
    scene.pod("a", Some(running("a", "one", 200, 0)));
    scene.pod("app", Some(resizing(300)));
    assert_eq!(scene.attempt(), None);
    assert_eq!(scene.scenario.scheduler.deferred_resizes().count(), 0);
}

#[test]
fn a_parked_resize_is_tried_again_after_the_longest_wait_and_the_most_important_is_first() {
    let mut scene = Scene::new(true);
    scene.pod("a", Some(running("a", "one", 200, 200)));
    scene.pod("app", Some(resizing(300)));
    let mut second = resizing(300);
    second["metadata"] = json!({ "name": "second", "namespace": "default", "uid": "second" });
    second["spec"]["priority"] = json!(150);
    scene.pod("second", Some(second));
    let now = scene.scenario.now;
    let first = scene.scenario.scheduler.attempt_resize(now).unwrap();
    assert_eq!(first.pod.metadata.name, "second");
    scene.message();
    assert_eq!(scene.attempt(), None);
    scene.scenario.pass(SignedDuration::from_mins(6));
    let now = scene.scenario.now;
    scene.scenario.scheduler.flush_unschedulable(now);
    assert!(scene.attempt().is_some());
}

#[test]
fn resizes_of_equal_priority_are_tried_in_turn() {
    let mut scene = Scene::new(true);
    scene.pod("a", Some(running("a", "one", 200, 200)));
    let names = ["z", "y", "x"];
    for name in names {
        let mut pod = resizing(300);
        pod["metadata"] = json!({ "name": name, "namespace": "default", "uid": name });
        scene.pod(name, Some(pod));
        scene.scenario.pass(SignedDuration::from_secs(1));
    }
    let mut tried = || {
        let now = scene.scenario.now;
        let attempt = scene.scenario.scheduler.attempt_resize(now)?;
        scene.scenario.pass(SignedDuration::from_secs(1));
        Some(attempt.pod.metadata.name.clone())
    };
    for name in names {
        assert_eq!(tried().as_deref(), Some(name));
    }
    assert_eq!(tried(), None);
    // So they are after an event that wakes all of them.
    scene.node("one", Some(node("one", 299)));
    scene.node("one", Some(node("one", 300)));
    let mut order = Vec::new();
    while let Some(attempt) = scene.scenario.scheduler.attempt_resize(scene.scenario.now) {
        order.push(attempt.pod.metadata.name.clone());
    }
    assert_eq!(order, names);
}
