//! Devices are promised with the choice of a node, and free again when nothing comes of it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod scenario;

use evictd_pod::compatibility::{Compatibility, Release};
use evictd_pod::wire;
use evictd_scheduling::config::Configuration;
use evictd_scheduling::{
    Attempt, Change, Delta, Event, Framework, Outcome, PreBindPlan, Scheduler, Settings,
};
use jiff::{SignedDuration, Timestamp};
use scenario::{Scenario, added, node, pod, pod_group};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

struct Scene(Scenario);

impl Scene {
    /// One node without devices.
    fn start() -> Self {
        let mut scenario = Scenario::new();
        scenario.node(node("one").cpu("8").memory("8Gi"));
        let class = json!({ "metadata": { "name": "gpu" } });
        scenario.change(Change::DeviceClass(added(class)));
        Self(scenario)
    }

    fn tell(&mut self, event: &Event) {
        self.0.pass(SignedDuration::from_secs(20));
        self.0.on(event);
        self.0.pass(SignedDuration::ZERO);
    }

    /// A pool of the node with one card.
    fn card(&mut self, name: &str) {
        let spec = json!({ "driver": "gpu.example.com", "nodeName": "one", "devices": [{ "name": "card" }],
            "pool": { "name": name, "generation": 1, "resourceSliceCount": 1 } });
        let slice = json!({ "metadata": { "name": name }, "spec": spec });
        self.tell(&Event::Change(Change::ResourceSlice(added(slice))));
    }

    /// A pod with a claim of its name, perhaps of a group.
    fn pod(&mut self, name: &str, group: &str) -> Arc<wire::Pod> {
        self.claim(name);
        self.pod_without_claim(name, group)
    }

    fn claim(&mut self, name: &str) {
        let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "gpu" } }]);
        let claim = json!({ "metadata": { "name": name, "uid": format!("claim-{name}") },
            "spec": { "devices": { "requests": requests } } });
        self.tell(&Event::Change(Change::ResourceClaim(added(claim))));
    }

    fn pod_without_claim(&mut self, name: &str, group: &str) -> Arc<wire::Pod> {
        let claims = json!([{ "name": "c", "resourceClaimName": name }]);
        let pod = pod(name)
            .member_of(group)
            .set("/spec/resourceClaims", claims);
        self.tell(&Event::Change(Change::Pod(added(pod.clone()))));
        pod.read()
    }

    /// The pods that are placed now, each with the pool of its card.
    fn placed(&mut self) -> BTreeMap<String, String> {
        let mut placed = BTreeMap::new();
        while let Some(Attempt { key, outcome, .. }) = self.0.scheduler.attempt(self.0.now) {
            if let Outcome::Placed { pre_bind, .. } = outcome {
                let PreBindPlan { devices, .. } = pre_bind;
                let allocation = devices[0].allocation.as_ref().unwrap();
                let pool = allocation.devices.results[0].pool.clone();
                placed.insert(key.to_string(), pool);
            }
        }
        placed
    }

    fn is_promised(&self, claim: &str) -> bool {
        let devices = self.0.scheduler.cluster().devices();
        devices.is_assumed(&format!("claim-{claim}"))
    }
}

fn pairs(all: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = all.iter();
    all.map(|(pod, pool)| ((*pod).to_owned(), (*pool).to_owned()))
        .collect()
}

#[test]
fn a_device_is_reserved_once_and_freed_when_its_pod_is_not_bound_or_deleted() {
    let mut scene = Scene::start();
    scene.card("x");
    let first = scene.pod("first", "");
    scene.pod("second", "");
    assert_eq!(scene.placed(), pairs(&[("first", "x")]));
    assert!(scene.is_promised("first") && !scene.is_promised("second"));
    scene.0.scheduler.bind_failed(scene.0.now, "first");
    assert!(!scene.is_promised("first"));
    scene.card("y");
    assert_eq!(scene.placed(), pairs(&[("first", "x"), ("second", "y")]));
    scene.tell(&Event::Change(Change::Pod(Delta {
        old: Some(first),
        new: None,
    })));
    assert!(!scene.is_promised("first") && scene.is_promised("second"));
}

#[test]
fn a_gang_with_too_few_devices_keeps_none() {
    let mut scene = Scene::start();
    scene.card("x");
    scene.0.group(pod_group("g", 2));
    scene.pod("a", "g");
    scene.pod("b", "g");
    assert_eq!(scene.placed(), pairs(&[]));
    assert!(!scene.is_promised("a") && !scene.is_promised("b"));
    scene.card("y");
    assert_eq!(scene.placed(), pairs(&[("a", "x"), ("b", "y")]));
    assert!(scene.is_promised("a") && scene.is_promised("b"));
}

#[test]
fn a_pod_is_tried_at_once_when_its_claim_comes_and_a_gang_when_that_of_its_last_pod_does() {
    let mut scene = Scene::start();
    for card in ["x", "y", "z"] {
        scene.card(card);
    }
    scene.pod_without_claim("single", "");
    assert_eq!(scene.placed(), pairs(&[]));
    scene.claim("single");
    assert_eq!(scene.placed(), pairs(&[("single", "x")]));
    scene.0.group(pod_group("g", 2));
    scene.pod("a", "g");
    scene.pod_without_claim("b", "g");
    assert_eq!(scene.placed(), pairs(&[]));
    assert!(!scene.is_promised("a"));
    scene.claim("b");
    assert_eq!(scene.placed(), pairs(&[("a", "y"), ("b", "z")]));
}

/// A pod whose selector costs more than one attempt may.
fn costly() -> Scene {
    let mut scene = Scene::start();
    let device = |number: usize| json!({ "name": format!("d{number}"), "attributes": { "n": { "int": number } } });
    let devices: Vec<Value> = (1..=20).map(device).collect();
    let spec = json!({ "driver": "gpu.example.com", "nodeName": "one", "devices": devices,
        "pool": { "name": "x", "generation": 1, "resourceSliceCount": 1 } });
    let slice = json!({ "metadata": { "name": "x" }, "spec": spec });
    scene.tell(&Event::Change(Change::ResourceSlice(added(slice))));
    // Eighteen answers cost more than one attempt may ask for, and twenty less than a search on a node may cost.
    let costly = "lists.range(1000).all(x, lists.range(23).all(y, x + y >= 0))";
    let expression = format!("{costly} && device.attributes['gpu.example.com'].n == 20");
    let selectors = json!([{ "cel": { "expression": expression } }]);
    let requests =
        json!([{ "name": "r", "exactly": { "deviceClassName": "gpu", "selectors": selectors } }]);
    let claim = json!({ "metadata": { "name": "c", "uid": "claim-c" },
        "spec": { "devices": { "requests": requests } } });
    scene.tell(&Event::Change(Change::ResourceClaim(added(claim))));
    let claims = json!([{ "name": "c", "resourceClaimName": "c" }]);
    let pod = pod("p").set("/spec/resourceClaims", claims);
    scene.tell(&Event::Change(Change::Pod(added(pod))));
    scene
}

#[test]
fn what_the_limit_of_cost_hides_is_said() {
    let mut scene = costly();
    let found = scene.0.scheduler.suggest("default", "p", 5).unwrap();
    assert!(
        found.is_incomplete && found.feasible == 0 && found.nodes.is_empty(),
        "{found:?}"
    );
}

#[test]
fn an_attempt_with_costly_selectors_is_interrupted_and_the_next_one_continues() {
    let mut scene = costly();
    let first = scene.0.scheduler.attempt(scene.0.now).unwrap();
    assert!(matches!(first.outcome, Outcome::PutOff(_)));
    let first = scene.0.scheduler.attempt(scene.0.now).unwrap();
    let Outcome::Error(error) = first.outcome else {
        panic!("{:?}", first.outcome);
    };
    let told = "running \"DynamicResources\" filter plugin: the search for devices goes on with the next attempt";
    assert_eq!(error, told);
    scene.0.pass(SignedDuration::from_secs(20));
    assert_eq!(scene.placed(), pairs(&[("p", "x")]));
}

/// A profile that preempts pods for their devices, and one node without any.
fn freeing() -> Scene {
    let mut configuration = Configuration::default();
    configuration.profiles[0].args.frees_devices = true;
    let scheduler = Scheduler::new(Settings::default(), false, |cluster| {
        Framework::new(cluster, &configuration.profiles[0], &[]).map(|framework| vec![framework])
    });
    let mut scene = Scene(Scenario {
        scheduler: scheduler.unwrap(),
        now: Timestamp::UNIX_EPOCH,
    });
    scene.0.node(node("one").cpu("8").memory("8Gi"));
    let class = json!({ "metadata": { "name": "gpu" } });
    scene.tell(&Event::Change(Change::DeviceClass(added(class))));
    scene
}

/// A claim of the card in this pool, which the pod of the pool's name has reserved.
fn held(pool: &str) -> Value {
    let result =
        json!({ "request": "r", "driver": "gpu.example.com", "pool": pool, "device": "card" });
    let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "gpu" } }]);
    json!({ "metadata": { "name": pool, "uid": format!("claim-{pool}") },
        "spec": { "devices": { "requests": requests } },
        "status": { "allocation": { "devices": { "results": [result] } },
            "reservedFor": [{ "resource": "pods", "name": pool, "uid": format!("uid-{pool}") }] } })
}

/// A pod of low priority with the claim of this name.
fn holder(name: &str) -> scenario::Object {
    let claims = json!([{ "name": "c", "resourceClaimName": name }]);
    let pod = pod(name).uid(&format!("uid-{name}")).priority(0);
    pod.set("/spec/resourceClaims", claims)
}

/// A claim of a pod that another scheduler is about to bind, or whose binding has failed, is in use.
#[test]
fn devices_of_pods_that_wait_are_not_about_to_be_freed() {
    let mut scene = freeing();
    for pool in ["x", "y"] {
        scene.card(pool);
        scene.tell(&Event::Change(Change::ResourceClaim(added(held(pool)))));
    }
    let waiting = holder("x").set("/spec/schedulerName", json!("other"));
    scene.0.pod(waiting.clone());
    scene.0.pod(holder("y").on("one"));
    scene.claim("new");
    let claims = json!([{ "name": "c", "resourceClaimName": "new" }]);
    let new = pod("new").priority(10).set("/spec/resourceClaims", claims);
    scene.0.pod(new);
    let nominated = |scene: &mut Scene| match scene.0.attempt().unwrap().outcome {
        Outcome::Unschedulable(rejected) => rejected.nominated,
        other => panic!("{other:?}"),
    };
    assert_eq!(nominated(&mut scene).as_deref(), Some("one"));
    // Once it is deleted, its device is awaited.
    let deleted = Delta {
        old: Some(waiting.read()),
        new: None,
    };
    scene.tell(&Event::Change(Change::Pod(deleted)));
    scene.0.pass(SignedDuration::from_secs(400));
    scene.0.scheduler.flush_unschedulable(scene.0.now);
    scene.0.pass(SignedDuration::from_secs(20));
    assert_eq!(nominated(&mut scene), None);
}

/// The preemptor backs off when the controller deallocates the claim of its victim. An equally important pod that comes at this
/// moment must not take the device.
#[test]
fn a_freed_device_is_kept_for_the_pod_that_preempted_for_it() {
    let mut scene = freeing();
    scene.card("x");
    scene.tell(&Event::Change(Change::ResourceClaim(added(held("x")))));
    let victim = holder("x").on("one");
    scene.0.pod(victim.clone());
    scene.claim("new");
    scene.claim("other");
    scene.0.pod(holder("new").priority(10));
    let rejected = |scene: &mut Scene| match scene.0.attempt().unwrap().outcome {
        Outcome::Unschedulable(rejected) => rejected,
        other => panic!("{other:?}"),
    };
    assert_eq!(rejected(&mut scene).nominated.as_deref(), Some("one"));
    let (before, after) = (
        holder("new").priority(10),
        holder("new")
            .priority(10)
            .set("/status/nominatedNodeName", "one"),
    );
    scene
        .0
        .change_pod(Some(&before.read()), Some(&after.read()));
    let ended = Delta {
        old: Some(victim.read()),
        new: None,
    };
    scene.tell(&Event::Change(Change::Pod(ended)));
    scene.0.pass(SignedDuration::from_secs(400));
    scene.0.scheduler.flush_unschedulable(scene.0.now);
    scene.0.pass(SignedDuration::from_secs(20));
    // The controller has not deallocated the claim yet.
    let waits = rejected(&mut scene);
    assert!(waits.nominated.is_none() && !waits.clears_nomination);
    let mut free = held("x");
    free["status"] = json!({});
    let of = |claim: Value| Some(Arc::new(serde_json::from_value(claim).unwrap()));
    let deallocated = Delta {
        old: of(held("x")),
        new: of(free),
    };
    scene.0.change(Change::ResourceClaim(deallocated));
    scene.0.pod(holder("other").priority(10));
    assert_eq!(scene.placed(), pairs(&[("uid-new", "x")]));
    // There is enough for both with one more.
    scene.card("y");
    assert_eq!(scene.placed(), pairs(&[("uid-other", "y")]));
}

/// A controller writes the status of a rule whenever it evicts a pod. No device changes then.
#[test]
fn s7_192_a_rule_wakes_pods_when_it_changes_devices_and_not_when_its_status_does() {
    let rule = |device: &str, version: &str| {
        let rule = json!({ "metadata": { "name": "r", "resourceVersion": version }, "spec": {
            "deviceSelector": { "device": device }, "taint": { "key": "broken", "effect": "NoSchedule" } } });
        Some(Arc::new(
            serde_json::from_value::<wire::DeviceTaintRule>(rule).unwrap(),
        ))
    };
    let mut scene = Scene::start();
    scene
        .0
        .scheduler
        .set_compatibility(Compatibility::of(Release::V1_37));
    let change = |scene: &mut Scene, old, new| {
        scene.tell(&Event::Change(Change::DeviceTaintRule(Delta { old, new })));
    };
    change(&mut scene, None, rule("card", "1"));
    scene.card("x");
    scene.pod("p", "");
    let tries = |scene: &mut Scene| scene.0.scheduler.attempt(scene.0.now).is_some();
    assert!(tries(&mut scene) && !tries(&mut scene));
    change(&mut scene, rule("card", "1"), rule("card", "2"));
    assert!(!tries(&mut scene));
    change(&mut scene, rule("card", "2"), rule("other", "3"));
    assert_eq!(scene.placed(), pairs(&[("p", "x")]));
}

/// The status of the claim `held`: a device that must be bound, and the pods that have reserved it.
fn conditional(pods: &[&str]) -> Value {
    let result = json!({ "request": "r", "driver": "gpu.example.com", "pool": "x", "device": "card",
        "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"] });
    let reserved = pods
        .iter()
        .map(|pod| json!({ "resource": "pods", "name": pod, "uid": pod }));
    json!({ "allocation": { "devices": { "results": [result] } }, "reservedFor": reserved.collect::<Vec<_>>() })
}

/// `status` with this condition of its device.
fn with_condition(mut status: Value, kind: &str) -> Value {
    let condition = json!({ "type": kind, "status": "True" });
    status["devices"] = json!([{ "driver": "gpu.example.com", "pool": "x", "device": "card", "conditions": [condition] }]);
    status
}

fn read_claim(claim: Value) -> Arc<wire::ResourceClaim> {
    Arc::new(serde_json::from_value(claim).unwrap())
}

/// The claim has another pod, so that no attempt deallocates it.
#[test]
fn s7_163_a_driver_that_binds_devices_after_all_wakes_the_pods_of_their_claim() {
    let claim = |status: Value| {
        let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "gpu" } }]);
        read_claim(json!({ "metadata": { "name": "p", "uid": "claim-p" },
            "spec": { "devices": { "requests": requests } }, "status": status }))
    };
    let with_other = || conditional(&["other"]);
    for (before, after, wakes) in [
        (with_other(), with_condition(with_other(), "Ready"), true),
        (
            with_condition(with_other(), "Broken"),
            with_condition(with_other(), "Ready"),
            true,
        ),
        (with_other(), with_condition(with_other(), "Warm"), false),
        (with_other(), with_condition(with_other(), "Broken"), false),
    ] {
        let mut scene = Scene::start();
        let change = |scene: &mut Scene, old, new| {
            let new = Some(new);
            scene.tell(&Event::Change(Change::ResourceClaim(Delta { old, new })));
        };
        change(&mut scene, None, claim(before.clone()));
        let pod = scene.pod_without_claim("p", "");
        scene.0.scheduler.devices_are_late(&pod);
        let rejected = scene.0.scheduler.attempt(scene.0.now).unwrap().outcome;
        assert!(
            matches!(rejected, Outcome::Unschedulable(_)),
            "{rejected:?}"
        );
        let old = Some(claim(before.clone()));
        change(&mut scene, old, claim(after.clone()));
        let next = scene.0.scheduler.attempt(scene.0.now);
        let is_placed = next.map(|next| matches!(next.outcome, Outcome::Placed { .. }));
        assert_eq!(is_placed, wakes.then_some(true), "{before} {after}");
    }
}

/// T113: the devices could not be bound, so that no node will do. A claim that only this pod holds is deallocated.
#[test]
fn s7_163_t113_a_claim_whose_binding_failed_is_taken_back_from_its_only_pod() {
    for (users, is_taken) in [(&["p"][..], true), (&[], true), (&["other", "p"], false)] {
        let mut scene = Scene::start();
        scene.0.node(node("two").cpu("8").memory("8Gi"));
        let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "gpu" } }]);
        let claim = json!({ "metadata": { "name": "p", "uid": "claim-p" }, "spec": { "devices": { "requests": requests } },
            "status": with_condition(conditional(users), "Broken") });
        let new = Some(read_claim(claim));
        scene.tell(&Event::Change(Change::ResourceClaim(Delta {
            old: None,
            new,
        })));
        scene.pod_without_claim("p", "");
        let outcome = scene.0.scheduler.attempt(scene.0.now).unwrap().outcome;
        let Outcome::Unschedulable(rejected) = outcome else {
            panic!("{outcome:?}");
        };
        let message = &rejected.message;
        let unavailable = "0/2 nodes are available: 2 resourceclaim not available on the node.";
        assert!(message.starts_with(unavailable), "{message}");
        let end = "deallocation of ResourceClaim completed";
        assert_eq!(message.contains(end), is_taken, "{message}");
        assert_eq!(rejected.deallocates.is_some(), is_taken);
    }
}

/// A class that serves an extended resource.
fn serving(scene: &mut Scene) {
    let class = json!({ "metadata": { "name": "gpu" }, "spec": { "extendedResourceName": "example.com/gpu" } });
    scene.tell(&Event::Change(Change::DeviceClass(added(class))));
}

fn extended(name: &str) -> scenario::Object {
    let amounts = json!({ "example.com/gpu": "1" });
    pod(name).uid(name).set(
        "/spec/containers/0/resources",
        json!({ "requests": amounts, "limits": amounts }),
    )
}

/// The first scheduler has created the special claim of the pod. It is deleted with its device, reserved or not.
#[test]
fn s7_175_after_a_restart_the_special_claim_of_an_unbound_pod_is_deleted() {
    for status in [conditional(&["p"]), conditional(&[]), json!({})] {
        let mut scene = Scene::start();
        serving(&mut scene);
        let claim = json!({ "metadata": { "name": "special", "uid": "claim-special",
                "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" },
                "ownerReferences": [{ "kind": "Pod", "name": "p", "uid": "p", "controller": true }] },
            "status": status });
        scene.tell(&Event::Change(Change::ResourceClaim(Delta {
            old: None,
            new: Some(read_claim(claim)),
        })));
        scene.tell(&Event::Change(Change::Pod(added(extended("p")))));
        let Outcome::Unschedulable(rejected) = scene.0.attempt().unwrap().outcome else {
            panic!("{status}");
        };
        let deleted = rejected.deallocates.unwrap();
        assert!(
            deleted.is_special && deleted.name == "special",
            "{deleted:?}"
        );
    }
}

/// kube-scheduler disables signatures for this. Here a pod is never answered with the rejection of an equal one.
#[test]
fn s7_176_each_of_equal_pods_with_an_extended_resource_is_searched() {
    let mut scene = Scene::start();
    serving(&mut scene);
    for name in ["a", "b"] {
        scene.tell(&Event::Change(Change::Pod(added(extended(name)))));
    }
    let first = scene.0.scheduler.attempt(scene.0.now).unwrap();
    assert!(matches!(first.outcome, Outcome::Unschedulable(_)));
    // A slice changes no cached result.
    let spec = json!({ "driver": "gpu.example.com", "nodeName": "one", "devices": [{ "name": "card" }],
        "pool": { "name": "x", "generation": 1, "resourceSliceCount": 1 } });
    let slice = json!({ "metadata": { "name": "x" }, "spec": spec });
    let slice = Change::ResourceSlice(added(slice));
    scene.0.on(&Event::Change(slice));
    let second = scene.0.scheduler.attempt(scene.0.now).unwrap();
    assert_eq!(&*second.key, "b");
    assert!(
        matches!(second.outcome, Outcome::Placed { .. }),
        "{:?}",
        second.outcome
    );
}

/// T107, T108 and S7-171: devices serve an extended resource where the node has none of it by itself.
#[test]
fn s7_171_t107_t108_devices_serve_what_the_node_does_not_have() {
    for (allocatable, from_devices) in [(None, true), (Some("0"), true), (Some("4"), false)] {
        let mut scenario = Scenario::new();
        let mut one = node("one").cpu("8").memory("8Gi");
        if let Some(allocatable) = allocatable {
            one = one.resource("example.com/gpu", allocatable);
        }
        scenario.node(one);
        let mut scene = Scene(scenario);
        let class = json!({ "metadata": { "name": "gpu" }, "spec": { "extendedResourceName": "example.com/gpu" } });
        scene.tell(&Event::Change(Change::DeviceClass(added(class))));
        scene.card("x");
        scene.card("y");
        let asks =
            json!({ "requests": { "example.com/gpu": "2" }, "limits": { "example.com/gpu": "2" } });
        let containers = json!([{ "name": "c", "resources": asks }]);
        scene.0.pod(pod("p").set("/spec/containers", containers));
        let Outcome::Placed { pre_bind, .. } = scene.0.attempt().unwrap().outcome else {
            panic!("{allocatable:?}");
        };
        let special = pre_bind
            .devices
            .iter()
            .find_map(|choice| choice.special.as_ref());
        let requests = special.map(|special| special.requests.clone());
        let expected = vec![("container-0-request-0".to_owned(), "gpu".to_owned(), 2)];
        assert_eq!(
            requests,
            from_devices.then_some(expected),
            "{allocatable:?}"
        );
    }
}

/// S7-136: the search on one node ends at its limit of cost. Another node is searched all the same; kube-scheduler's attempt ends.
#[test]
fn s7_136_a_search_that_is_given_up_is_an_error_of_its_node() {
    let expected = "timed out trying to allocate devices";
    for has_other in [false, true] {
        let mut scene = Scene::start();
        if has_other {
            scene.0.node(node("two").cpu("8").memory("8Gi"));
        }
        let mut slice = |node: &str, count: usize, socket: fn(usize) -> usize| {
            let device = |index: usize| json!({ "name": format!("d{index:02}"), "attributes": { "socket": { "int": socket(index) } } });
            let devices: Vec<Value> = (0..count).map(device).collect();
            let spec = json!({ "driver": "gpu.example.com", "nodeName": node, "devices": devices,
                "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 } });
            let slice = json!({ "metadata": { "name": node }, "spec": spec });
            scene.tell(&Event::Change(Change::ResourceSlice(added(slice))));
        };
        // All differ, and two of sixteen must be equal.
        slice("one", 64, |index| index);
        slice("two", 16, |_| 0);
        let requests: Vec<Value> = (0..16)
            .map(|index| json!({ "name": format!("r{index}"), "exactly": { "deviceClassName": "gpu" } }))
            .collect();
        let constraints =
            json!([{ "requests": ["r14", "r15"], "matchAttribute": "gpu.example.com/socket" }]);
        let claim = json!({ "metadata": { "name": "p", "uid": "claim-p" },
            "spec": { "devices": { "requests": requests, "constraints": constraints } } });
        scene.tell(&Event::Change(Change::ResourceClaim(added(claim))));
        scene.pod_without_claim("p", "");
        match scene.0.attempt().unwrap().outcome {
            Outcome::Placed { node, .. } => assert!(has_other && &*node == "two"),
            Outcome::Unschedulable(rejected) => {
                assert!(
                    !has_other && rejected.message.contains(expected),
                    "{}",
                    rejected.message
                );
            }
            Outcome::Error(message) => {
                assert!(!has_other && message.contains(expected), "{message}");
            }
            other => panic!("{other:?}"),
        }
    }
}
