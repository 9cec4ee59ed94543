//! `evictd-scheduler run` beside drivers of devices that bind them, fail to bind them, and change what they publish while pods
//! wait and run.

use crate::live_devices::{
    claim, create, device, expect_message, extended, found, special, user, users, with_cards,
    with_served_cards,
};
use crate::live_scheduling::Live;
use evictd_testkit::ApiServer;
use evictd_testkit::testing::wait_until;
use serde_json::{Value, json};
use std::io::Write;
use tempfile::NamedTempFile;

const DRIVER: &str = "gpu.example.com";

/// A driver with one pool for all nodes.
struct Driver<'l> {
    live: &'l Live,
    generation: i64,
}

impl<'l> Driver<'l> {
    /// The driver and its class `gpu`.
    fn new(live: &'l Live) -> Self {
        with_cards(live, &[]);
        Self::of_known_class(live)
    }

    const fn of_known_class(live: &'l Live) -> Self {
        Self {
            live,
            generation: 1,
        }
    }

    fn spec(&self, slices: usize, devices: &Value) -> Value {
        json!({ "driver": DRIVER, "allNodes": true, "devices": devices, "pool": { "name": "far",
            "generation": self.generation, "resourceSliceCount": slices } })
    }

    /// Publishes one more slice of a pool that has so many.
    fn publish(&self, name: &str, slices: usize, devices: &Value) {
        create(
            &self.live.admin,
            "ResourceSlice",
            name,
            &self.spec(slices, devices),
        );
    }

    /// Replaces a slice.
    fn update(&self, name: &str, slices: usize, devices: &Value) {
        let spec = json!({ "spec": self.spec(slices, devices) });
        self.live.admin.merge("resourceslices", name, spec).unwrap();
    }

    fn withdraw(&self, name: &str) {
        self.live
            .admin
            .delete("resourceslices", name, json!({}))
            .unwrap();
    }

    /// Says a condition of the device that a claim has.
    fn say(&self, claim: &str, kind: &str) {
        let (pool, device) = device(&found(self.live, claim)).unwrap();
        let condition = json!({ "type": kind, "status": "True", "reason": "Said",
            "message": "so", "lastTransitionTime": "2026-01-01T00:00:00Z" });
        let status = json!({ "status": { "devices": [{ "driver": DRIVER, "pool": pool,
            "device": device, "conditions": [condition] }] } });
        let at = format!("default/{claim}");
        self.live
            .admin
            .merge("resourceclaims/status", &at, status)
            .unwrap();
    }
}

fn plain(names: &[&str]) -> Value {
    names.iter().map(|name| json!({ "name": name })).collect()
}

/// Devices that must be bound first.
fn conditional(names: &[&str]) -> Value {
    let devices = names.iter().map(|name| {
        json!({ "name": name, "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"] })
    });
    devices.collect()
}

fn device_of(live: &Live, claim: &str) -> Option<String> {
    device(&found(live, claim)).map(|(_, device)| device)
}

fn expect_reserved(live: &Live, claim: &str) {
    wait_until("the device is reserved", || {
        !users(&found(live, claim)).is_empty()
    });
}

fn taint_rule(live: &Live, name: &str, spec: &Value) {
    create(&live.admin, "DeviceTaintRule", name, spec);
}

fn of_version(minor: u32) -> Live {
    let api = ApiServer::start().unwrap();
    api.set(|settings| settings.minor_version = minor);
    Live::with(api, &[("one", "8")], &[])
}

/// S7-192
#[test]
fn s7_192_a_taint_rule_keeps_pods_off_devices_until_it_is_deleted() {
    let live = of_version(37);
    let driver = Driver::new(&live);
    let taint = json!({ "key": "broken", "effect": "NoSchedule" });
    taint_rule(
        &live,
        "cooling",
        &json!({ "deviceSelector": { "device": "a" }, "taint": taint }),
    );
    driver.publish("far", 1, &plain(&["a", "b"]));
    claim(&live, "first");
    user(&live, "first", "first", "1");
    live.bound("default/first");
    assert_eq!(device_of(&live, "first").as_deref(), Some("b"));
    claim(&live, "second");
    user(&live, "second", "second", "1");
    expect_message(&live, "second", "1 cannot allocate all claims");
    live.admin
        .delete("devicetaintrules", "cooling", json!({}))
        .unwrap();
    live.bound("default/second");
    assert_eq!(device_of(&live, "second").as_deref(), Some("a"));
}

#[test]
fn s7_192_taint_rules_do_not_count_before_1_37() {
    let live = of_version(36);
    let driver = Driver::new(&live);
    let taint = json!({ "key": "broken", "effect": "NoSchedule" });
    taint_rule(
        &live,
        "all",
        &json!({ "deviceSelector": {}, "taint": taint }),
    );
    driver.publish("far", 1, &plain(&["a"]));
    claim(&live, "c");
    user(&live, "p", "c", "1");
    live.bound("default/p");
    assert_eq!(device_of(&live, "c").as_deref(), Some("a"));
}

/// S7-132, S7-134: nothing is given away of a pool that is being published.
#[test]
fn s7_132_a_pod_waits_until_the_new_generation_of_a_pool_is_complete() {
    let live = Live::new(&[("one", "8")]);
    let mut driver = Driver::new(&live);
    driver.publish("old", 1, &plain(&["a"]));
    claim(&live, "first");
    user(&live, "first", "first", "1");
    live.bound("default/first");
    driver.generation = 2;
    driver.publish("new-1", 2, &plain(&["a", "b"]));
    claim(&live, "second");
    user(&live, "second", "second", "1");
    expect_message(&live, "second", "1 cannot allocate all claims");
    driver.publish("new-2", 2, &plain(&["c"]));
    live.bound("default/second");
    // The first pod still has its device.
    assert_eq!(device_of(&live, "second").as_deref(), Some("b"));
    driver.withdraw("old");
    claim(&live, "third");
    user(&live, "third", "third", "1");
    live.bound("default/third");
    assert_eq!(device_of(&live, "third").as_deref(), Some("c"));
}

#[test]
fn a_device_that_is_withdrawn_and_comes_back_belongs_to_its_pod() {
    let live = Live::new(&[("one", "8")]);
    let driver = Driver::new(&live);
    driver.publish("far", 1, &plain(&["a"]));
    claim(&live, "first");
    user(&live, "first", "first", "1");
    live.bound("default/first");
    driver.withdraw("far");
    // A second pod shares the claim, whose devices the driver no longer publishes.
    user(&live, "beside", "first", "1");
    live.bound("default/beside");
    claim(&live, "second");
    user(&live, "second", "second", "1");
    expect_message(&live, "second", "1 cannot allocate all claims");
    driver.publish("far", 1, &plain(&["a"]));
    driver.update("far", 1, &plain(&["a", "b"]));
    live.bound("default/second");
    assert_eq!(device_of(&live, "first").as_deref(), Some("a"));
    assert_eq!(device_of(&live, "second").as_deref(), Some("b"));
}

/// S7-161 to S7-163
#[test]
fn s7_162_a_pod_waits_for_its_device_and_gets_another_one_if_that_fails() {
    let live = Live::new(&[("one", "8")]);
    let driver = Driver::new(&live);
    driver.publish("far", 1, &conditional(&["a", "b"]));
    claim(&live, "c");
    user(&live, "p", "c", "1");
    expect_reserved(&live, "c");
    driver.say("c", "Broken");
    wait_until("the device is reserved again", || {
        let claim = found(&live, "c");
        !users(&claim).is_empty() && claim["status"]["devices"].is_null()
    });
    driver.say("c", "Ready");
    assert_eq!(live.bound("default/p"), "one");
}

/// The scheduler before has created the claim and ended while it waited. As by kube-scheduler it is deleted, although it has a
/// device.
#[test]
fn s7_175_a_special_claim_of_an_earlier_process_is_replaced() {
    let live = Live::new(&[("one", "8")]);
    with_served_cards(&live, &[]);
    let driver = Driver::of_known_class(&live);
    driver.publish("far", 1, &conditional(&["a"]));
    let mut pod = extended("p", "1");
    pod["spec"]["schedulingGates"] = json!([{ "name": "wait" }]);
    let uid = live.admin.create(pod).unwrap()["metadata"]["uid"].clone();
    let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "served" } }]);
    let owner =
        json!({ "apiVersion": "v1", "kind": "Pod", "controller": true, "name": "p", "uid": uid });
    let left = json!({ "apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim",
        "metadata": { "name": "special", "namespace": "default", "ownerReferences": [owner],
            "annotations": { "resource.kubernetes.io/extended-resource-claim": "true" } },
        "spec": { "devices": { "requests": requests } } });
    live.admin.create(left).unwrap();
    let result = json!({ "request": "r", "driver": DRIVER, "pool": "far", "device": "a",
        "bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"] });
    let status = json!({ "allocation": { "devices": { "results": [result] } },
        "reservedFor": [{ "resource": "pods", "name": "p", "uid": uid }] });
    let patch = |plural: &str, at: &str, patch: Value| live.admin.merge(plural, at, patch).unwrap();
    patch(
        "resourceclaims/status",
        "default/special",
        json!({ "status": status }),
    );
    patch(
        "pods",
        "default/p",
        json!({ "spec": { "schedulingGates": null } }),
    );
    wait_until("the pod waits for its device", || {
        !live.events("BindingConditionsPending").is_empty()
    });
    let claims = special(&live);
    assert_eq!(claims.len(), 1);
    let name = claims[0]["metadata"]["name"].as_str().unwrap();
    assert_ne!(name, "special");
    driver.say(name, "Ready");
    assert_eq!(live.bound("default/p"), "one");
}

/// S7-162: the binding follows the conditions in the claim, although its driver has published other slices meanwhile.
#[test]
fn s7_162_a_driver_that_changes_its_slices_while_a_pod_waits_can_still_bind_the_device() {
    let live = Live::new(&[("one", "8")]);
    let mut driver = Driver::new(&live);
    driver.publish("far", 1, &conditional(&["a", "b"]));
    claim(&live, "c");
    user(&live, "p", "c", "1");
    expect_reserved(&live, "c");
    driver.generation = 2;
    driver.update("far", 1, &conditional(&["b"]));
    driver.say("c", "Ready");
    live.bound("default/p");
    assert_eq!(device_of(&live, "c").as_deref(), Some("a"));
}

/// S7-162, S7-163
#[test]
fn s7_163_a_pod_whose_device_is_not_bound_in_time_is_tried_again_from_nothing() {
    let mut config = NamedTempFile::new().unwrap();
    let profile = json!({ "schedulerName": "default-scheduler", "pluginConfig": [
        { "name": "DynamicResources", "args": { "bindingTimeout": "1s" } }] });
    let text = json!({ "apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration",
        "leaderElection": { "leaderElect": false }, "profiles": [profile] });
    write!(config, "{text}").unwrap();
    let path = config.path().display().to_string();
    let live = Live::with(
        ApiServer::start().unwrap(),
        &[("one", "8")],
        &["--config", &path],
    );
    let driver = Driver::new(&live);
    driver.publish("far", 1, &conditional(&["a"]));
    claim(&live, "c");
    user(&live, "p", "c", "1");
    let message = "device binding timeout: context deadline exceeded";
    wait_until("the pod has waited in vain", || {
        live.events("FailedScheduling")
            .iter()
            .any(|event| event.contains(message))
    });
    // A device that needs no binding comes first in the next attempt.
    create(
        &live.admin,
        "ResourceSlice",
        "near",
        &json!({ "driver": DRIVER, "allNodes": true,
        "devices": plain(&["b"]), "pool": { "name": "near", "generation": 1, "resourceSliceCount": 1 } }),
    );
    live.bound("default/p");
    assert_eq!(device_of(&live, "c").as_deref(), Some("b"));
    assert_eq!(users(&found(&live, "c")), ["p"]);
}
