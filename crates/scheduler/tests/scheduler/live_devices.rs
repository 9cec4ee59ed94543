//! `evictd-scheduler run` with devices: claims are allocated before their pods are bound, each device belongs to one claim, and a
//! pod that is not bound is removed from its claims.

use crate::live_scheduling::{Live, pod};
use evictd_testkit::testing::wait_until;
use evictd_testkit::{Actor, ApiServer, Fault};
use serde_json::{Value, json};
use std::collections::BTreeSet;

const API: &str = "resource.k8s.io/v1";

pub(crate) fn create(admin: &Actor, kind: &str, name: &str, spec: &Value) {
    let object =
        json!({ "apiVersion": API, "kind": kind, "metadata": { "name": name }, "spec": spec });
    admin.create(object).unwrap();
}

/// Nodes with this many cards each, of a class `gpu`.
pub(crate) fn with_cards(live: &Live, cards: &[(&str, usize)]) {
    let selectors = json!([{ "cel": { "expression": "device.driver == 'gpu.example.com'" } }]);
    create(
        &live.admin,
        "DeviceClass",
        "gpu",
        &json!({ "selectors": selectors }),
    );
    for (node, count) in cards {
        let devices: Vec<Value> = (0..*count)
            .map(|index| json!({ "name": format!("card-{index}") }))
            .collect();
        let spec = json!({ "driver": "gpu.example.com", "nodeName": node, "devices": devices,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 } });
        create(&live.admin, "ResourceSlice", node, &spec);
    }
}

pub(crate) fn claim(live: &Live, name: &str) {
    let requests = json!([{ "name": "card", "exactly": { "deviceClassName": "gpu" } }]);
    let claim = json!({ "apiVersion": API, "kind": "ResourceClaim",
        "metadata": { "name": name, "namespace": "default" }, "spec": { "devices": { "requests": requests } } });
    live.admin.create(claim).unwrap();
}

/// A pod with this claim.
pub(crate) fn user(live: &Live, name: &str, claim: &str, cpu: &str) {
    let mut user = pod(name, cpu, 0);
    user["spec"]["resourceClaims"] = json!([{ "name": "card", "resourceClaimName": claim }]);
    live.admin.create(user).unwrap();
}

pub(crate) fn found(live: &Live, claim: &str) -> Value {
    live.admin
        .get("resourceclaims", &format!("default/{claim}"))
        .unwrap()
}

/// The pool and the device that a claim has.
pub(crate) fn device(claim: &Value) -> Option<(String, String)> {
    let results = &claim["status"]["allocation"]["devices"]["results"];
    let text = |field: &str| results[0][field].as_str().map(str::to_owned);
    Some((text("pool")?, text("device")?))
}

pub(crate) fn users(claim: &Value) -> Vec<String> {
    let reserved = claim["status"]["reservedFor"].as_array().cloned();
    let names = reserved.unwrap_or_default().into_iter();
    names
        .map(|consumer| consumer["name"].as_str().unwrap().to_owned())
        .collect()
}

pub(crate) fn expect_message(live: &Live, pod: &str, words: &str) {
    live.until(&format!("default/{pod}"), words, |pod| {
        let conditions = pod["status"]["conditions"].as_array();
        let mut conditions = conditions.into_iter().flatten();
        conditions.any(|condition| {
            condition["message"]
                .as_str()
                .is_some_and(|message| message.contains(words))
        })
    });
}

/// A pod that is created after this one is bound, and this one has neither a condition nor an event.
fn expect_not_tried(live: &Live, name: &str) {
    let later = format!("later-{}", live.api.log().len());
    live.admin.create(pod(&later, "1m", 0)).unwrap();
    live.bound(&format!("default/{later}"));
    let found = live.admin.get("pods", &format!("default/{name}")).unwrap();
    assert!(found["status"]["conditions"].is_null(), "{found:#}");
    let events = live.admin.list("events");
    let events = events.iter().map(|event| &event["involvedObject"]["name"]);
    assert!(events.into_iter().all(|of| of != name));
}

/// As the controller of claims: deallocates a claim without users.
fn deallocate(live: &Live, claim: &str) {
    let status = json!({ "status": { "allocation": null, "reservedFor": null } });
    let at = format!("default/{claim}");
    live.admin
        .merge("resourceclaims/status", &at, status)
        .unwrap();
}

/// A class whose devices serve the extended resource `example.com/gpu`.
pub(crate) fn with_served_cards(live: &Live, cards: &[(&str, usize)]) {
    with_cards(live, cards);
    create(
        &live.admin,
        "DeviceClass",
        "served",
        &json!({ "extendedResourceName": "example.com/gpu" }),
    );
}

/// A pod that requests cards as an extended resource.
pub(crate) fn extended(name: &str, cards: &str) -> Value {
    let mut extended = pod(name, "1", 0);
    let amounts = json!({ "cpu": "1", "example.com/gpu": cards });
    extended["spec"]["containers"][0]["resources"] =
        json!({ "requests": amounts, "limits": { "example.com/gpu": cards } });
    extended
}

/// The special claims.
pub(crate) fn special(live: &Live) -> Vec<Value> {
    let mut claims = live.admin.list("resourceclaims");
    let annotation = "resource.kubernetes.io/extended-resource-claim";
    claims.retain(|claim| claim["metadata"]["annotations"][annotation] == "true");
    claims
}

/// S7-171 to S7-175
#[test]
fn s7_174_an_extended_resource_gets_a_claim_of_its_own() {
    let live = Live::new(&[("one", "8")]);
    with_served_cards(&live, &[("one", 2)]);
    live.admin.create(extended("pair", "2")).unwrap();
    assert_eq!(live.bound("default/pair"), "one");
    let claims = special(&live);
    assert_eq!(claims.len(), 1, "{claims:?}");
    assert_eq!(users(&claims[0]), ["pair"]);
    let results = &claims[0]["status"]["allocation"]["devices"]["results"];
    let results = results.as_array().unwrap().iter();
    let results: Vec<_> = results
        .map(|result| (result["device"].as_str(), result["request"].as_str()))
        .collect();
    let request = Some("container-0-request-1");
    assert_eq!(
        results,
        [(Some("card-0"), request), (Some("card-1"), request)]
    );
    let pair = live.admin.get("pods", "default/pair").unwrap();
    let status = &pair["status"]["extendedResourceClaimStatus"];
    assert_eq!(status["resourceClaimName"], claims[0]["metadata"]["name"]);
    assert_eq!(
        status["requestMappings"][0]["requestName"],
        "container-0-request-1"
    );
    live.admin.create(extended("late", "1")).unwrap();
    expect_message(&live, "late", "cannot allocate all claims");
}

/// S7-175
#[test]
fn s7_175_the_claim_of_a_pod_that_is_not_bound_is_deleted() {
    let live = Live::new(&[("one", "8")]);
    with_served_cards(&live, &[("one", 1)]);
    live.api
        .fault(Fault::answer(403).on("create", "pods/binding"));
    live.admin.create(extended("p", "1")).unwrap();
    wait_until("the claim exists", || !special(&live).is_empty());
    wait_until("the claim is deleted", || special(&live).is_empty());
    live.api.clear_faults();
    assert_eq!(live.bound("default/p"), "one");
    assert_eq!(special(&live).len(), 1);
}

#[test]
fn a_claim_gets_a_device_before_its_pod_is_bound_and_is_shared() {
    let live = Live::new(&[("one", "8"), ("two", "4")]);
    with_cards(&live, &[("two", 1)]);
    user(&live, "first", "shared", "1");
    expect_not_tried(&live, "first");
    claim(&live, "shared");
    assert_eq!(live.bound("default/first"), "two");
    let shared = found(&live, "shared");
    assert_eq!(
        device(&shared),
        Some(("two".to_owned(), "card-0".to_owned()))
    );
    assert_eq!(
        shared["metadata"]["finalizers"],
        json!(["resource.kubernetes.io/delete-protection"])
    );
    let only =
        &shared["status"]["allocation"]["nodeSelector"]["nodeSelectorTerms"][0]["matchFields"];
    assert_eq!(only[0]["values"], json!(["two"]));
    // Other pods can use it on the same node.
    user(&live, "second", "shared", "1");
    assert_eq!(live.bound("default/second"), "two");
    assert_eq!(users(&found(&live, "shared")), ["first", "second"]);
    // Another claim finds no device until the first one is deallocated.
    claim(&live, "other");
    user(&live, "third", "other", "1");
    expect_message(&live, "third", "2 cannot allocate all claims");
    deallocate(&live, "shared");
    assert_eq!(live.bound("default/third"), "two");
}

#[test]
fn a_claim_from_a_template_is_reserved_for_its_pod_only() {
    let live = Live::new(&[("one", "8")]);
    with_cards(&live, &[("one", 2)]);
    let mut templated = pod("own", "1", 0);
    templated["spec"]["resourceClaims"] =
        json!([{ "name": "card", "resourceClaimTemplateName": "any" }]);
    live.admin.create(templated).unwrap();
    expect_not_tried(&live, "own");
    claim(&live, "own-card");
    let made = json!({ "status": { "resourceClaimStatuses": [{ "name": "card", "resourceClaimName": "own-card" }] } });
    live.admin
        .merge("pods/status", "default/own", made)
        .unwrap();
    expect_not_tried(&live, "own");
    let uid = live.admin.get("pods", "default/own").unwrap()["metadata"]["uid"].clone();
    let owner = json!({ "metadata": { "ownerReferences": [
        { "apiVersion": "v1", "kind": "Pod", "name": "own", "uid": uid, "controller": true }] } });
    // No other event could wake the pod.
    live.admin
        .merge("resourceclaims", "default/own-card", owner)
        .unwrap();
    assert_eq!(live.bound("default/own"), "one");
}

#[test]
fn each_of_many_pods_gets_another_device_although_the_server_fails() {
    let live = Live::new(&[("one", "8"), ("two", "8")]);
    with_cards(&live, &[("one", 4), ("two", 4)]);
    let faults = [
        Fault::answer(409)
            .on("patch", "resourceclaims/status")
            .times(3),
        Fault::answer(503).on("patch", "resourceclaims").times(3),
        Fault::cut_after(0)
            .on("patch", "resourceclaims/status")
            .times(3),
        Fault::answer(409).on("create", "pods/binding").times(3),
        Fault::answer(500).on("get", "resourceclaims").times(5),
    ];
    for fault in faults {
        live.api.fault(fault);
    }
    let names: Vec<String> = (0..8).map(|index| format!("p{index}")).collect();
    for name in &names {
        claim(&live, name);
        user(&live, name, name, "100m");
    }
    let mut devices = BTreeSet::new();
    for name in &names {
        let node = live.bound(&format!("default/{name}"));
        let card = found(&live, name);
        let (pool, device) = device(&card).unwrap();
        assert_eq!(
            (pool.as_str(), users(&card)),
            (node.as_str(), vec![name.clone()])
        );
        assert!(
            devices.insert((pool, device)),
            "{name} has what another has"
        );
    }
}

#[test]
fn a_pod_that_cannot_be_bound_gives_its_claim_back_and_follows_its_devices() {
    let live = Live::new(&[("one", "8"), ("two", "8")]);
    with_cards(&live, &[("one", 1)]);
    claim(&live, "c");
    live.api
        .fault(Fault::answer(403).on("create", "pods/binding"));
    user(&live, "p", "c", "1");
    wait_until("the claim has its device", || {
        device(&found(&live, "c")).is_some()
    });
    wait_until("the claim has no user", || {
        users(&found(&live, "c")).is_empty()
    });
    live.api.clear_faults();
    assert_eq!(live.bound("default/p"), "one");
    assert_eq!(users(&found(&live, "c")), ["p"]);
}

#[test]
fn a_claim_with_a_device_on_an_unsuitable_node_is_deallocated() {
    let live = Live::new(&[("one", "2"), ("two", "2")]);
    with_cards(&live, &[("one", 1), ("two", 1)]);
    claim(&live, "c");
    user(&live, "early", "c", "1");
    let first = live.bound("default/early");
    live.admin
        .delete("pods", "default/early", json!({ "gracePeriodSeconds": 0 }))
        .unwrap();
    let nobody = json!({ "status": { "reservedFor": [] } });
    live.admin
        .merge("resourceclaims/status", "default/c", nobody)
        .unwrap();
    let mut full = pod("full", "2", 0);
    full["spec"]["nodeName"] = json!(first);
    live.admin.create(full).unwrap();
    user(&live, "late", "c", "1");
    let second = live.bound("default/late");
    assert_ne!(first, second);
    let card = found(&live, "c");
    assert_eq!(
        (device(&card).unwrap().0, users(&card)),
        (second, vec!["late".to_owned()])
    );
}

#[test]
fn pods_are_scheduled_on_a_server_without_the_resource_api() {
    let api = ApiServer::start().unwrap();
    let none = vec![
        "resourceclaims",
        "resourceslices",
        "deviceclasses",
        "devicetaintrules",
    ];
    api.set(|settings| settings.unknown_kinds = none);
    let live = Live::with(api, &[("one", "2")], &[]);
    live.admin.create(pod("web", "1", 0)).unwrap();
    assert_eq!(live.bound("default/web"), "one");
}

/// A pod whose claim `NAME-card` is made from a template.
fn templated(live: &Live, name: &str) {
    let mut templated = pod(name, "10m", 0);
    templated["spec"]["resourceClaims"] =
        json!([{ "name": "card", "resourceClaimTemplateName": "any" }]);
    live.admin.create(templated).unwrap();
}

/// As the controller of claims: makes the claim of a pod.
fn make_claim(live: &Live, name: &str) {
    let uid =
        live.admin.get("pods", &format!("default/{name}")).unwrap()["metadata"]["uid"].clone();
    let requests = json!([{ "name": "card", "exactly": { "deviceClassName": "gpu" } }]);
    let owner = json!([{ "apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid, "controller": true }]);
    let made = format!("{name}-card");
    let claim = json!({ "apiVersion": API, "kind": "ResourceClaim",
        "metadata": { "name": made, "namespace": "default", "ownerReferences": owner },
        "spec": { "devices": { "requests": requests } } });
    live.admin.create(claim).unwrap();
    let statuses = json!([{ "name": "card", "resourceClaimName": made }]);
    let status = json!({ "status": { "resourceClaimStatuses": statuses } });
    live.admin
        .merge("pods/status", &format!("default/{name}"), status)
        .unwrap();
}

/// The requests of the scheduler about the claim of a pod, by verb and resource.
fn requests_about(live: &Live, name: &str) -> Vec<(&'static str, String)> {
    let ends = [format!("/{name}-card"), format!("/{name}-card/status")];
    let log = live.api.log().into_iter();
    let about = log.filter(|entry| ends.iter().any(|end| entry.path.ends_with(end)));
    about.map(|entry| (entry.verb, entry.what)).collect()
}

#[test]
fn pods_whose_claims_come_later_are_never_called_unschedulable_and_need_two_requests_for_a_claim() {
    let live = Live::new(&[("one", "8")]);
    with_cards(&live, &[("one", 30)]);
    let names: Vec<String> = (0..30).map(|number| format!("p{number}")).collect();
    for name in &names {
        templated(&live, name);
    }
    expect_not_tried(&live, "p0");
    for name in &names {
        make_claim(&live, name);
    }
    for name in &names {
        live.bound(&format!("default/{name}"));
        let twice = [
            ("patch", "resourceclaims".to_owned()),
            ("patch", "resourceclaims/status".to_owned()),
        ];
        assert_eq!(requests_about(&live, name), twice, "{name}");
    }
    assert_eq!(live.events("FailedScheduling"), Vec::<String>::new());
}

#[test]
fn a_claim_that_is_written_slowly_delays_no_other_pod() {
    let live = Live::new(&[("one", "8")]);
    with_cards(&live, &[("one", 8)]);
    let hangs = Fault::delay(std::time::Duration::from_hours(1));
    live.api.fault(hangs.on("patch", "resourceclaims").times(1));
    let names: Vec<String> = (0..8).map(|number| format!("p{number}")).collect();
    for name in &names {
        templated(&live, name);
        make_claim(&live, name);
    }
    let is_bound = |name: &&String| {
        let found = live.admin.get("pods", &format!("default/{name}")).unwrap();
        found["spec"]["nodeName"].is_string()
    };
    // The write that hangs is repeated only after its time limit of five seconds.
    wait_until("seven of eight pods are bound", || {
        names.iter().filter(is_bound).count() == 7
    });
    let last = names.iter().find(|name| !is_bound(name)).unwrap();
    assert_eq!(device(&found(&live, &format!("{last}-card"))), None);
}
