//! Claims of the group itself: the group is their user, and all its pods share them (S7-100 to S7-104).

use super::super::{Scene, group, pod};
use super::{allocation, card};
use evictd_scheduling::Outcome;
use serde_json::{Value, json};

/// A group with one claim.
fn sharing(min_count: i32, entry: &Value) -> Value {
    let mut group = group("train", min_count);
    group["metadata"]["uid"] = json!("uid-of-train");
    group["spec"]["resourceClaims"] = json!([entry]);
    group
}

fn named() -> Value {
    json!({ "name": "shared", "resourceClaimName": "shared" })
}

/// The users of a claim that is allocated.
fn reserved_for_the_group() -> Value {
    json!([{ "apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "train", "uid": "uid-of-train" }])
}

#[test]
fn s7_101_a_claim_of_the_group_is_reserved_for_the_group() {
    let mut scene = Scene::with_cards();
    scene.node("one", "8", "a");
    scene.cards("one", 2);
    scene.claim("shared", &Value::Null);
    scene.group(sharing(2, &named()));
    scene.user("train-0", "train", "1", &["shared"]);
    scene.user("train-1", "train", "1", &["shared"]);
    let placed = scene.prepared();
    assert_eq!(placed.len(), 2);
    for (_, pre_bind) in placed.values() {
        let [choice] = pre_bind.devices.as_slice() else {
            panic!("{:?}", pre_bind.devices);
        };
        assert_eq!(json!([choice.group]), reserved_for_the_group());
    }
    // Once the API server shows it, nothing is left to be written for later pods.
    scene.claim(
        "shared",
        &json!({ "allocation": allocation("one"), "reservedFor": reserved_for_the_group() }),
    );
    scene.user("train-2", "train", "1", &["shared"]);
    assert!(scene.prepared()["train-2"].1.devices.is_empty());
}

/// S7-100: the entry of the pod must be equal to that of its group.
#[test]
fn s7_100_an_entry_with_another_name_is_a_claim_of_the_pod() {
    let mut scene = Scene::with_cards();
    scene.node("one", "8", "a");
    scene.cards("one", 1);
    scene.claim("shared", &Value::Null);
    let mut entry = named();
    entry["name"] = json!("card");
    scene.group(sharing(1, &entry));
    scene.user("train-0", "train", "1", &["shared"]);
    let placed = scene.prepared();
    assert_eq!(placed["train-0"].1.devices[0].group, None);
}

/// S7-100: of a template one claim is made for the group, which its pods name in their status.
#[test]
fn s7_100_pods_use_the_claim_that_was_made_for_their_group() {
    let mut scene = Scene::with_cards();
    scene.node("one", "8", "a");
    scene.cards("one", 1);
    let entry = json!({ "name": "card", "resourceClaimTemplateName": "cards" });
    scene.group(sharing(2, &entry));
    scene.group(group("other", 1));
    let owned = |owner: &str| {
        json!([{ "apiVersion": "scheduling.k8s.io/v1beta1", "kind": "PodGroup", "name": owner,
            "uid": format!("uid-of-{owner}"), "controller": true }])
    };
    scene.claim_of("train-card", &Value::Null, &owned("train"));
    let with_claim = |name: &str, group: &str| {
        let mut user = pod(name, group, "1");
        user["spec"]["resourceClaims"] = json!([entry]);
        user["status"]["resourceClaimStatuses"] =
            json!([{ "name": "card", "resourceClaimName": "train-card" }]);
        user
    };
    scene.pod("other-0", Some(with_claim("other-0", "other")));
    assert!(
        scene.prepared().is_empty(),
        "it is the claim of another group"
    );
    for name in ["train-0", "train-1"] {
        scene.pod(name, Some(with_claim(name, "train")));
    }
    let placed = scene.prepared();
    assert_eq!(placed.len(), 2);
    assert_eq!(
        card(&placed, "train-0", "train-card"),
        card(&placed, "train-1", "train-card")
    );
    let choice = &placed["train-1"].1.devices[0];
    assert_eq!(json!([choice.group]), reserved_for_the_group());
}

#[test]
fn s7_102_pods_of_the_group_share_what_is_only_assumed_yet_and_others_wait() {
    let mut scene = Scene::with_cards();
    scene.node("one", "8", "a");
    scene.cards("one", 2);
    scene.claim("shared", &Value::Null);
    scene.group(sharing(1, &named()));
    scene.user("train-0", "train", "1", &["shared"]);
    let first = card(&scene.prepared(), "train-0", "shared");
    scene.user("other", "", "1", &["shared"]);
    assert!(
        scene
            .message()
            .contains("resource claim default/shared is in the process of being allocated")
    );
    scene.user("train-1", "train", "1", &["shared"]);
    assert_eq!(card(&scene.prepared(), "train-1", "shared"), first);
    scene.bind_failed("train-0");
    assert!(scene.is_promised("shared"));
    scene.bind_failed("train-1");
    assert!(!scene.is_promised("shared"));
}

/// The group has reserved a card of a node without room, and so has its pod if `twice`. Returns the deallocated claim and the
/// message.
fn attempt_beside(running: bool, twice: bool) -> (Option<String>, String) {
    let mut scene = Scene::with_cards();
    for node in ["one", "two"] {
        scene.node(node, "2", "a");
        scene.cards(node, 1);
    }
    let mut old = pod("old", if running { "train" } else { "" }, "2");
    old["spec"]["nodeName"] = json!("one");
    scene.pod("old", Some(old));
    let mut users = reserved_for_the_group();
    if twice {
        let uid = &pod("train-0", "train", "1")["metadata"]["uid"];
        let user = json!({ "resource": "pods", "name": "train-0", "uid": uid });
        users.as_array_mut().unwrap().push(user);
    }
    scene.claim(
        "shared",
        &json!({ "allocation": allocation("one"), "reservedFor": users }),
    );
    scene.group(sharing(1, &named()));
    scene.user("train-0", "train", "1", &["shared"]);
    let attempts = scene.attempts();
    let Outcome::Unschedulable(rejected) = &attempts[0].outcome else {
        panic!("{attempts:?}");
    };
    let claim = rejected.deallocates.as_ref();
    (
        claim.map(|claim| claim.name.clone()),
        rejected.message.clone(),
    )
}

#[test]
fn s7_076_s7_103_the_claim_of_a_group_without_placed_pods_is_taken_from_it_where_it_is_in_the_way()
{
    let (deallocated, message) = attempt_beside(false, false);
    assert_eq!(deallocated.as_deref(), Some("shared"));
    assert!(
        message.ends_with("ResourceClaim unreserved for PodGroup"),
        "{message}"
    );
    // With two users, one could be a pod that runs.
    for (running, twice) in [(true, false), (false, true)] {
        let (deallocated, message) = attempt_beside(running, twice);
        assert_eq!(deallocated, None);
        assert!(!message.contains("unreserved"), "{message}");
    }
}

/// S7-104: all pods of a group go where its claim is available.
#[test]
fn s7_104_a_group_gets_the_node_whose_card_all_its_pods_can_use() {
    let mut scene = Scene::with_cards();
    scene.node("narrow", "5", "a");
    scene.node("wide", "10", "a");
    scene.running("old", "wide", "4", 0);
    scene.cards("narrow", 1);
    scene.cards("wide", 1);
    scene.claim("shared", &Value::Null);
    scene.group(sharing(2, &named()));
    scene.user("train-0", "train", "3", &["shared"]);
    scene.user("train-1", "train", "3", &["shared"]);
    let placed = scene.prepared();
    assert_eq!(placed.len(), 2);
    assert!(
        placed.values().all(|(node, _)| node == "wide"),
        "{placed:?}"
    );
}
