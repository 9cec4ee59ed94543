//! Pods of a group with claims on devices: what one is promised the others share, and what comes to nothing is undone.

mod freeing;
mod group_claims;

use crate::{Scene, group, pod, read};
use evictd_scheduling::{Change, Delta, Event, Outcome, PreBindPlan};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn new<T: serde::de::DeserializeOwned>(value: Value) -> Delta<T> {
    Delta {
        old: None,
        new: Some(read(value)),
    }
}

/// A pod of a gang that is placed: its node, and what its claims get.
type Placed = BTreeMap<String, (String, PreBindPlan)>;

impl Scene {
    /// With a class of cards.
    fn with_cards() -> Self {
        let mut scene = Self::new();
        let class = json!({ "metadata": { "name": "gpu" } });
        scene.tell(&Event::Change(Change::DeviceClass(new(class))));
        scene
    }

    /// A node has so many cards.
    fn cards(&mut self, node: &str, count: usize) {
        let cards = (0..count).map(|index| json!({ "name": format!("{node}-{index}") }));
        let cards: Vec<Value> = cards.collect();
        let spec = json!({ "driver": "gpu.example.com", "nodeName": node, "devices": cards,
            "pool": { "name": node, "generation": 1, "resourceSliceCount": 1 } });
        let slice = json!({ "metadata": { "name": node }, "spec": spec });
        self.tell(&Event::Change(Change::ResourceSlice(new(slice))));
    }

    fn claim(&mut self, name: &str, status: &Value) {
        self.claim_of(name, status, &Value::Null);
    }

    /// Adds a claim that was made for an owner.
    fn claim_of(&mut self, name: &str, status: &Value, owners: &Value) {
        let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "gpu" } }]);
        let claim = json!({ "metadata": { "name": name, "namespace": "default", "uid": format!("uid-of-{name}"),
            "ownerReferences": owners }, "spec": { "devices": { "requests": requests } }, "status": status });
        self.tell(&Event::Change(Change::ResourceClaim(new(claim))));
    }

    /// A pod of a group that uses these claims.
    fn user(&mut self, name: &str, group: &str, cpu: &str, claims: &[&str]) {
        let mut user = pod(name, group, cpu);
        let claims = claims.iter();
        let claims = claims.map(|claim| json!({ "name": claim, "resourceClaimName": claim }));
        user["spec"]["resourceClaims"] = claims.collect();
        self.pod(name, Some(user));
    }

    fn prepared(&mut self) -> Placed {
        let placed = self
            .attempts()
            .into_iter()
            .filter_map(|attempt| match attempt.outcome {
                Outcome::Placed { node, pre_bind, .. } => {
                    Some((attempt.key.to_string(), (node.to_string(), pre_bind)))
                }
                _ => None,
            });
        placed.collect()
    }

    fn is_promised(&self, claim: &str) -> bool {
        let devices = self.scheduler.cluster().devices();
        devices.is_assumed(&format!("uid-of-{claim}"))
    }

    fn bind_failed(&mut self, pod: &str) {
        let now = self.now;
        self.scheduler.bind_failed(now, pod);
    }
}

/// The first card of this node.
fn allocation(node: &str) -> Value {
    json!({ "devices": { "results": [{ "request": "r", "driver": "gpu.example.com", "pool": node,
        "device": format!("{node}-0") }] }, "nodeSelector": { "nodeSelectorTerms": [
        { "matchFields": [{ "key": "metadata.name", "operator": "In", "values": [node] }] }] } })
}

/// The card that a claim of a pod gets.
fn card(placed: &Placed, pod: &str, claim: &str) -> String {
    let (_, pre_bind) = &placed[pod];
    let choice = pre_bind.devices.iter().find(|choice| choice.claim == claim);
    let allocation = choice.unwrap().allocation.as_ref().unwrap();
    allocation.devices.results[0].device.clone()
}

#[test]
fn a_claim_that_pods_of_a_gang_share_gets_its_device_once() {
    let mut scene = Scene::with_cards();
    scene.node("one", "8", "a");
    scene.node("two", "4", "a");
    scene.cards("two", 1);
    scene.claim("shared", &Value::Null);
    scene.group(group("train", 2));
    for index in 0..2 {
        scene.user(&format!("train-{index}"), "train", "1", &["shared"]);
    }
    let placed = scene.prepared();
    assert_eq!(placed.len(), 2);
    assert!(placed.values().all(|(node, _)| node == "two"));
    for pod in ["train-0", "train-1"] {
        assert_eq!(card(&placed, pod, "shared"), "two-0");
    }
    let together = scene.scheduler.take_gang_bindings();
    assert_eq!(together, [["train-0", "train-1"].map(Arc::from)]);
    // It is free again when the last of them is not bound.
    scene.bind_failed("train-0");
    assert!(scene.is_promised("shared"));
    scene.bind_failed("train-1");
    assert!(!scene.is_promised("shared"));
}

#[test]
fn later_pods_wait_until_the_shared_claim_is_allocated() {
    let mut scene = Scene::with_cards();
    scene.node("one", "8", "a");
    scene.cards("one", 2);
    scene.claim("shared", &Value::Null);
    scene.group(group("train", 1));
    scene.user("train-0", "train", "1", &["shared"]);
    let placed = scene.prepared();
    scene.user("other", "", "1", &["shared"]);
    assert_eq!(scene.prepared().len(), 0);
    let allocation = placed["train-0"].1.devices[0].allocation.clone();
    scene.claim("shared", &json!({ "allocation": allocation }));
    let placed = scene.prepared();
    let device = &placed["other"].1.devices[0];
    assert!(
        device.allocation.is_none(),
        "it has it, and is only reserved"
    );
}

#[test]
fn a_shared_claim_gets_a_device_that_all_its_pods_can_use() {
    let mut scene = Scene::with_cards();
    // The first is preferred, but has room for one of them only.
    scene.node("narrow", "5", "a");
    scene.node("wide", "10", "a");
    scene.running("old", "wide", "4", 0);
    scene.cards("narrow", 1);
    scene.cards("wide", 1);
    scene.claim("shared", &Value::Null);
    scene.group(group("train", 2));
    scene.user("train-0", "train", "3", &["shared"]);
    scene.user("train-1", "train", "3", &["shared"]);
    let placed = scene.prepared();
    assert_eq!(placed.len(), 2);
    assert!(
        placed.values().all(|(node, _)| node == "wide"),
        "{placed:?}"
    );
}

#[test]
fn if_not_all_pods_can_share_a_device_as_many_as_possible_do() {
    let mut scene = Scene::with_cards();
    for (node, cpu) in [("a", "3"), ("b", "9"), ("c", "6")] {
        scene.node(node, cpu, "a");
        scene.cards(node, 1);
    }
    scene.running("old", "b", "3", 0);
    scene.claim("shared", &Value::Null);
    scene.group(group("train", 2));
    for index in 0..4 {
        let mut user = pod(&format!("train-{index}"), "", "2");
        user["spec"]["schedulingGates"] = json!([{ "name": "all" }]);
        user["spec"]["schedulingGroup"] = json!({ "podGroupName": "train" });
        user["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": "shared" }]);
        scene.pod(&format!("train-{index}"), Some(user));
    }
    for index in (0..4).rev() {
        let name = format!("train-{index}");
        let mut open = scene.pods[&name].clone();
        open["spec"]["schedulingGates"] = json!([]);
        scene.pod(&name, Some(open));
    }
    let placed = scene.prepared();
    assert_eq!(placed.len(), 3, "{placed:?}");
    assert!(placed.values().all(|(node, _)| node == "b" || node == "c"));
}

#[test]
fn the_reservations_of_a_gang_that_does_not_fit_are_undone_exactly() {
    let mut scene = Scene::with_cards();
    scene.node("one", "4", "a");
    scene.cards("one", 2);
    for claim in ["shared", "own", "other"] {
        scene.claim(claim, &Value::Null);
    }
    scene.group(group("train", 3));
    scene.user("train-0", "train", "1", &["shared"]);
    scene.user("train-1", "train", "1", &["shared", "own"]);
    scene.user("train-2", "train", "4", &["shared"]);
    let message = scene.message();
    assert!(
        message.starts_with("minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"),
        "{message}"
    );
    assert!(!scene.is_promised("shared") && !scene.is_promised("own"));
    assert_eq!(scene.requested("one"), 0);
    // Both cards can be had, by who shares nothing with anybody.
    scene.claim("second", &Value::Null);
    scene.user("alone", "", "1", &["other", "second"]);
    let placed = scene.prepared();
    let both = [
        card(&placed, "alone", "other"),
        card(&placed, "alone", "second"),
    ];
    assert_eq!(both, ["one-0", "one-1"]);
}

#[test]
fn a_device_on_a_node_that_a_gang_cannot_use_is_deallocated() {
    let mut scene = Scene::with_cards();
    for node in ["one", "two"] {
        scene.node(node, "2", "a");
        scene.cards(node, 1);
    }
    scene.running("full", "one", "2", 0);
    scene.claim("c", &json!({ "allocation": allocation("one") }));
    scene.group(group("train", 1));
    scene.user("train-0", "train", "1", &["c"]);
    let attempts = scene.attempts();
    let Outcome::Unschedulable(rejected) = &attempts[0].outcome else {
        panic!("{attempts:?}");
    };
    assert_eq!(rejected.deallocates.as_ref().unwrap().name, "c");
    scene.claim("c", &Value::Null);
    assert_eq!(scene.prepared()["train-0"].0, "two");
}

#[test]
fn a_claim_of_256_pods_is_left_to_the_api_server() {
    let mut scene = Scene::with_cards();
    scene.node("one", "8", "a");
    scene.cards("one", 1);
    let users = (0..255).map(|index| {
        json!({ "resource": "pods", "name": format!("u-{index}"), "uid": format!("u-{index}") })
    });
    let users: Vec<Value> = users.collect();
    let results =
        json!([{ "request": "r", "driver": "gpu.example.com", "pool": "one", "device": "one-0" }]);
    let allocation = json!({ "devices": { "results": results } });
    scene.claim(
        "c",
        &json!({ "allocation": allocation, "reservedFor": users }),
    );
    scene.user("last", "", "1", &["c"]);
    assert_eq!(scene.prepared().len(), 1);
    let one_more = json!({ "resource": "pods", "name": "last", "uid": "last" });
    let all = [users, vec![one_more]].concat();
    scene.claim(
        "c",
        &json!({ "allocation": allocation, "reservedFor": all }),
    );
    scene.user("late", "", "1", &["c"]);
    // As by kube-scheduler 1.36, whose PreBind fails then (S7-137).
    assert_eq!(scene.prepared().len(), 1);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 150, ..ProptestConfig::default() })]

    /// Of a gang whose pods share claims all are placed or none, a claim has one card, a card one claim, and nobody is promised
    /// what comes to nothing.
    #[test]
    fn a_gang_gets_all_its_devices_or_none(
        nodes in prop::collection::vec((1..9_usize, 0..3_usize), 1..5),
        members in prop::collection::vec((1..4_usize, prop::collection::btree_set(0..3_usize, 0..3)), 1..6),
    ) {
        let mut scene = Scene::with_cards();
        for (index, (cpu, cards)) in nodes.iter().enumerate() {
            let name = format!("node-{index}");
            scene.node(&name, &cpu.to_string(), "a");
            scene.cards(&name, *cards);
        }
        let names = ["x", "y", "z"];
        for name in names {
            scene.claim(name, &Value::Null);
        }
        scene.group(group("g", i32::try_from(members.len()).unwrap()));
        for (index, (cpu, claims)) in members.iter().enumerate() {
            let claims: Vec<&str> = claims.iter().map(|claim| names[*claim]).collect();
            scene.user(&format!("g-{index}"), "g", &cpu.to_string(), &claims);
        }
        let placed = scene.prepared();
        prop_assert!(placed.is_empty() || placed.len() == members.len());
        let mut of_claim: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (pod, (node, pre_bind)) in &placed {
            for choice in &pre_bind.devices {
                let claim_name = names.iter().find(|name| **name == choice.claim).unwrap();
                let card = card(&placed, pod, claim_name);
                prop_assert!(card.starts_with(node.as_str()), "{card} on {node}");
                of_claim.entry(claim_name).or_default().insert(card);
            }
        }
        prop_assert!(of_claim.values().all(|cards| cards.len() == 1), "{of_claim:?}");
        let cards: BTreeSet<&String> = of_claim.values().flatten().collect();
        prop_assert_eq!(cards.len(), of_claim.len());
        for name in names {
            prop_assert_eq!(scene.is_promised(name), of_claim.contains_key(name));
        }
        for pod in placed.into_keys() {
            scene.bind_failed(&pod);
        }
        prop_assert!(names.iter().all(|name| !scene.is_promised(name)));
    }
}
