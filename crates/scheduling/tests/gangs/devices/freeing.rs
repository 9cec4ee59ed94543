//! Groups that preempt pods for their devices, as the profile allows.

use super::super::placing::important;
use super::super::{Scene, added, read};
use super::allocation;
use evictd_pod::wire;
use evictd_scheduling::config::Configuration;
use evictd_scheduling::{Change, Delta, Event, GroupOutcome, Outcome};
use jiff::SignedDuration;
use serde_json::{Value, json};

/// A profile that preempts for devices, or one that does not, and a class of cards.
fn scene(frees_devices: bool) -> Scene {
    let mut configuration = Configuration::default();
    configuration.profiles[0].args.frees_devices = frees_devices;
    let mut scene = Scene::configured(&configuration);
    let class = json!({ "metadata": { "name": "gpu" } });
    scene.tell(&Event::Change(Change::DeviceClass(added(class))));
    scene
}

/// The status of a claim on the only card of this node, which the pod of the claim's name uses.
fn card_of(name: &str, node: &str) -> Value {
    json!({
        "allocation": allocation(node),
        "reservedFor": [{ "resource": "pods", "name": name, "uid": format!("uid-of-pod-{name}") }],
    })
}

/// A node whose only card a pod of the node's name uses.
fn taken(scene: &mut Scene, node: &str, priority: i32) {
    scene.node(node, "4", "a");
    scene.cards(node, 1);
    scene.claim(node, &card_of(node, node));
    let mut holder = crate::pod(node, "", "1");
    holder["metadata"]["uid"] = json!(format!("uid-of-pod-{node}"));
    holder["spec"]["nodeName"] = json!(node);
    holder["spec"]["priority"] = json!(priority);
    holder["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": node }]);
    scene.pod(node, Some(holder));
}

/// A group of so many pods of priority 100 that each need a card.
fn group(scene: &mut Scene, pods: usize) {
    scene.group(important("train", i32::try_from(pods).unwrap()));
    for index in 0..pods {
        let name = format!("train-{index}");
        scene.claim(&name, &Value::Null);
        let mut user = crate::pod(&name, "train", "1");
        user["spec"]["priority"] = json!(100);
        user["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": name }]);
        scene.pod(&name, Some(user));
    }
}

#[test]
fn a_group_preempts_for_devices_only_in_a_profile_that_allows_it() {
    for frees_devices in [false, true] {
        let mut scene = scene(frees_devices);
        taken(&mut scene, "one", 0);
        taken(&mut scene, "two", 0);
        group(&mut scene, 2);
        let (victims, nodes) = scene.preempted();
        if frees_devices {
            assert_eq!(victims, ["default/one", "default/two"]);
            assert_eq!(nodes, ["one", "two"]);
        } else {
            assert_eq!((victims.len(), nodes.len()), (0, 0));
        }
        // The trial has left no card free.
        scene.claim("solo", &Value::Null);
        scene.user("solo", "", "1", &["solo"]);
        assert!(scene.prepared().is_empty());
    }
}

#[test]
fn only_as_many_pods_leave_as_the_group_needs_cards_the_least_important_first() {
    let mut scene = scene(true);
    for (node, priority) in [("a", 5), ("b", 1), ("c", 9)] {
        taken(&mut scene, node, priority);
    }
    // A pod without devices stays on its node, whatever its priority is.
    scene.running("plain", "b", "1", 0);
    scene.node("free", "4", "a");
    scene.cards("free", 1);
    group(&mut scene, 3);
    let (victims, nodes) = scene.preempted();
    assert_eq!(victims, ["default/a", "default/b"]);
    assert_eq!(nodes, ["a", "b", "free"]);
}

#[test]
fn no_pod_leaves_if_the_cards_of_all_victims_are_too_few() {
    let mut scene = scene(true);
    taken(&mut scene, "one", 0);
    // As important as the group.
    taken(&mut scene, "two", 100);
    group(&mut scene, 2);
    assert_eq!(scene.preempted(), (Vec::new(), Vec::new()));
    let results = scene.scheduler.take_group_results();
    let GroupOutcome::Unschedulable(message) = &results.last().unwrap().outcome else {
        panic!("{results:?}");
    };
    // S7-067: the reason is that of the attempt without the victims.
    let expected = "minCount (2) cannot be satisfied: 0 scheduled, 1 remaining, \
                    pod group preemption: minCount (2) cannot be satisfied";
    assert!(message.starts_with(expected), "{message}");
}

/// The victim is deleted, and its claim is deallocated later. Until then the group waits for the card and chooses no other victim.
#[test]
fn a_group_waits_until_the_cards_of_its_victims_are_free() {
    let mut scene = scene(true);
    taken(&mut scene, "one", 0);
    group(&mut scene, 1);
    assert_eq!(scene.preempted().0, ["default/one"]);
    let mut nominated = scene.pods["train-0"].clone();
    nominated["status"]["nominatedNodeName"] = json!("one");
    scene.pod("train-0", Some(nominated));
    scene.pod("one", None);
    // Another pod that could be preempted comes.
    taken(&mut scene, "two", 0);
    scene.pass(SignedDuration::from_secs(400));
    let now = scene.now;
    scene.scheduler.flush_unschedulable(now);
    scene.pass(SignedDuration::from_secs(20));
    let attempts = scene.attempts();
    let Outcome::Unschedulable(rejected) = &attempts[0].outcome else {
        panic!("{attempts:?}");
    };
    assert!(rejected.victims.is_empty() && !rejected.clears_nomination);
    let claim = |status: Value| {
        let requests = json!([{ "name": "r", "exactly": { "deviceClassName": "gpu" } }]);
        let claim = json!({ "metadata": { "name": "one", "namespace": "default", "uid": "uid-of-one" },
            "spec": { "devices": { "requests": requests } }, "status": status });
        Some(read::<wire::ResourceClaim>(claim))
    };
    let deallocated = Delta {
        old: claim(card_of("one", "one")),
        new: claim(Value::Null),
    };
    scene.tell(&Event::Change(Change::ResourceClaim(deallocated)));
    assert_eq!(scene.prepared()["train-0"].0, "one");
}

/// A claim that is reserved for another group is not freed.
#[test]
fn the_claim_of_another_group_is_not_freed() {
    let mut scene = scene(true);
    taken(&mut scene, "one", 0);
    let mut status = card_of("one", "one");
    status["reservedFor"] = json!([{ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "old", "uid": "old" }]);
    scene.claim("one", &status);
    group(&mut scene, 1);
    assert_eq!(scene.preempted(), (Vec::new(), Vec::new()));
}

/// Cards that every node reaches. A card of a victim elsewhere is one that a pod of the group needs.
#[test]
fn both_pods_leave_that_use_what_the_group_needs_on_another_node() {
    let mut scene = scene(true);
    scene.node("a", "2", "a");
    scene.node("b", "4", "a");
    let cards = json!([{ "name": "net-0" }, { "name": "net-1" }]);
    let spec = json!({ "driver": "gpu.example.com", "allNodes": true, "devices": cards,
        "pool": { "name": "net", "generation": 1, "resourceSliceCount": 1 } });
    let slice = json!({ "metadata": { "name": "net" }, "spec": spec });
    scene.tell(&Event::Change(Change::ResourceSlice(added(slice))));
    for (name, priority) in [("net-0", 5), ("net-1", 1)] {
        let mut status = card_of(name, "net");
        let allocation = &mut status["allocation"];
        allocation["devices"]["results"][0]["device"] = json!(name);
        allocation["nodeSelector"] = Value::Null;
        scene.claim(name, &status);
        let mut holder = crate::pod(name, "", "1");
        holder["metadata"]["uid"] = json!(format!("uid-of-pod-{name}"));
        holder["spec"]["nodeName"] = json!("a");
        holder["spec"]["priority"] = json!(priority);
        holder["spec"]["resourceClaims"] = json!([{ "name": "c", "resourceClaimName": name }]);
        scene.pod(name, Some(holder));
    }
    group(&mut scene, 2);
    let (victims, nodes) = scene.preempted();
    assert_eq!(victims, ["default/net-0", "default/net-1"]);
    assert_eq!(nodes, ["b", "b"]);
}
