//! Nodes that fit the replacements of victims.

use crate::scenario::{Scenario, pod, with};
use evictd_preemption::{Replacement, replacements};
use serde_json::{Value, json};

fn owned(pod: Value, owner: &str) -> Value {
    let owner = json!([{ "kind": "ReplicaSet", "name": owner, "uid": "u", "controller": true }]);
    with(pod, "/metadata/ownerReferences", owner)
}

fn found(scenario: &Scenario) -> Vec<Replacement> {
    replacements(&scenario.cluster, &scenario.plan().plan)
}

#[test]
fn replacements_fit_on_other_nodes_and_never_on_the_chosen_one() {
    let nodes = [
        (
            "a",
            4,
            vec![owned(pod("one", 1, 3), "web"), pod("two", 1, 1)],
        ),
        ("b", 3, vec![pod("high", 2000, 1)]),
        ("c", 3, vec![pod("higher", 2000, 2)]),
    ];
    let scenario = Scenario::new(&nodes, &pod("new", 1000, 4));
    let found = found(&scenario);
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].owner.as_deref(), Some("ReplicaSet/web"));
    assert_eq!((found[0].nodes, found[0].first), (0, None));
    assert_eq!(found[1].owner, None);
    assert_eq!(
        (found[1].nodes, found[1].first),
        (2, scenario.cluster.find_node("b"))
    );
}

#[test]
fn a_victim_does_not_repel_its_own_replacement() {
    let alone = json!({ "podAntiAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": [
        { "topologyKey": "zone", "labelSelector": { "matchLabels": { "app": "one" } } }] } });
    let lonely = with(pod("one", 1, 4), "/spec/affinity", alone);
    let nodes = [("a", 5, vec![lonely]), ("b", 4, vec![])];
    let scenario = Scenario::new(&nodes, &pod("new", 1000, 5));
    let found = found(&scenario);
    assert_eq!(
        (found[0].nodes, found[0].first),
        (1, scenario.cluster.find_node("b"))
    );
}

#[test]
fn without_a_chosen_node_there_are_no_replacements() {
    let scenario = Scenario::new(&[("a", 4, vec![])], &pod("new", 1000, 4));
    assert!(found(&scenario).is_empty());
}
