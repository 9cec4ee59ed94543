//! The tree, the counts and the discovery, row by row (S6-171, S6-172, S6-242 to S6-244).
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use evictd_hyper_nodes::{
    Change, Discovery, HyperNode, HyperNodeCase, LONGEST_PATTERN, LabelConfig, MOST_HYPER_NODES,
    Order, SOURCE_LABEL, Tree, TreeMistake, changes, node_count,
};
use evictd_pod::wire::Metadata;
use proptest::prelude::*;
use serde_json::{Value, json};

fn hyper_node(name: &str, tier: i32, members: &[(&str, Value)]) -> HyperNode {
    let members = members
        .iter()
        .map(|(kind, selector)| json!({"type": kind, "selector": selector}));
    let members: Vec<Value> = members.collect();
    serde_json::from_value(
        json!({"metadata": {"name": name}, "spec": {"tier": tier, "members": members}}),
    )
    .unwrap()
}

fn exact(name: &str) -> Value {
    json!({"exactMatch": {"name": name}})
}

fn nodes(all: &[&str]) -> Vec<Metadata> {
    let metadata = all.iter().map(|name| {
        let rack = &name[..1];
        serde_json::from_value(json!({"name": name, "labels": {"rack": rack}}))
    });
    metadata.collect::<Result<_, _>>().unwrap()
}

fn tree(hyper_nodes: &[HyperNode], nodes: &[Metadata], order: Order) -> Tree {
    let hyper_nodes: Vec<&HyperNode> = hyper_nodes.iter().collect();
    let nodes: Vec<&Metadata> = nodes.iter().collect();
    Tree::build(&hyper_nodes, &nodes, order)
}

fn nodes_of(tree: &Tree, name: &str) -> String {
    let entry = tree.at(tree.find(name).unwrap());
    entry.nodes.iter().cloned().collect::<Vec<_>>().join(" ")
}

#[test]
fn s6_171_members_are_found_by_name_expression_and_labels() {
    let nodes = nodes(&["a1", "a2", "b1"]);
    let all = [
        hyper_node(
            "exact",
            1,
            &[("Node", exact("a1")), ("Node", exact("gone"))],
        ),
        hyper_node(
            "regex",
            1,
            &[("Node", json!({"regexMatch": {"pattern": "1$"}}))],
        ),
        hyper_node(
            "invalid",
            1,
            &[("Node", json!({"regexMatch": {"pattern": "("}}))],
        ),
        hyper_node(
            "labels",
            1,
            &[(
                "Node",
                json!({"labelMatch": {"matchLabels": {"rack": "a"}}}),
            )],
        ),
        hyper_node("nothing", 1, &[("Node", json!({"labelMatch": {}}))]),
        // HyperNodes are members by name only.
        hyper_node(
            "top",
            2,
            &[
                ("HyperNode", exact("exact")),
                ("HyperNode", json!({"regexMatch": {"pattern": "labels"}})),
            ],
        ),
    ];
    let tree = tree(&all, &nodes, Order::ByName);
    assert!(tree.is_ready());
    for (name, wanted) in [
        ("exact", "a1 gone"),
        ("regex", "a1 b1"),
        ("invalid", ""),
        ("labels", "a1 a2"),
        ("nothing", ""),
        ("top", "a1 gone"),
    ] {
        assert_eq!(nodes_of(&tree, name), wanted, "{name}");
    }
}

#[test]
fn s6_172_a_second_parent_makes_the_tree_not_ready_and_says_who() {
    let nodes = nodes(&["a1"]);
    let all = [
        hyper_node("one", 2, &[("HyperNode", exact("rack"))]),
        hyper_node("rack", 1, &[("Node", exact("a1"))]),
        hyper_node("two", 2, &[("HyperNode", exact("rack"))]),
    ];
    let built = tree(&all, &nodes, Order::ByName);
    assert!(!built.is_ready());
    let words = built.mistakes()[0].to_string();
    assert_eq!(
        words,
        "HyperNode rack already has a parent one, and cannot set another parent two"
    );
    // In Volcano the last one decides.
    let later = [&all[..], &[hyper_node("zero", 1, &[("Node", exact("b"))])]].concat();
    assert!(tree(&later, &nodes, Order::AsTheyCame).is_ready());
    assert!(!tree(&later, &nodes, Order::ByName).is_ready());
}

#[test]
fn s6_172_a_circle_makes_the_tree_not_ready_and_ends() {
    let circle = [
        hyper_node("a", 1, &[("HyperNode", exact("b"))]),
        hyper_node("b", 2, &[("HyperNode", exact("a"))]),
    ];
    let built = tree(&circle, &[], Order::ByName);
    assert!(matches!(built.mistakes(), [TreeMistake::Circle { .. }]));
    assert!(!built.is_ready());
}

#[test]
fn a_tree_that_is_too_deep_is_not_ready() {
    let chain: Vec<HyperNode> = (0..100)
        .map(|at| {
            let below = format!("h{:03}", at + 1);
            hyper_node(
                &format!("h{at:03}"),
                200 - at,
                &[("HyperNode", exact(&below))],
            )
        })
        .collect();
    let built = tree(&chain, &[], Order::ByName);
    assert!(!built.is_ready());
    assert!(matches!(built.mistakes()[0], TreeMistake::TooDeep { .. }));
}

#[test]
fn an_expression_that_is_too_long_or_too_large_matches_nothing() {
    let nodes = nodes(&["a1"]);
    let nodes: Vec<&Metadata> = nodes.iter().collect();
    let large = "(((a{500}){500}){500})*".to_owned();
    for pattern in [".".repeat(LONGEST_PATTERN + 1), large] {
        let one = hyper_node(
            "h",
            1,
            &[("Node", json!({"regexMatch": {"pattern": pattern}}))],
        );
        assert_eq!(node_count(&one, &nodes), 0);
    }
}

#[test]
fn s6_242_a_count_has_each_name_once_and_does_not_ask_whether_it_exists() {
    let nodes = nodes(&["a1", "a2", "b1"]);
    let nodes: Vec<&Metadata> = nodes.iter().collect();
    let all = hyper_node(
        "h",
        1,
        &[
            ("Node", exact("gone")),
            ("Node", exact("a1")),
            (
                "HyperNode",
                json!({"labelMatch": {"matchLabels": {"rack": "a"}}}),
            ),
        ],
    );
    assert_eq!(node_count(&all, &nodes), 3);
}

/// A HyperNode of source `label`.
fn found(name: &str, tier: i32) -> HyperNode {
    let mut found = hyper_node(name, tier, &[("Node", exact("a1"))]);
    found.metadata.labels.insert(SOURCE_LABEL, "label");
    found.status.node_count = 7;
    found
}

#[test]
fn s6_243_only_what_differs_is_written_and_nothing_of_other_sources() {
    let mut by_hand = found("hand", 1);
    by_hand.metadata.labels.remove(SOURCE_LABEL);
    let known = [
        found("same", 1),
        found("changed", 1),
        found("gone", 1),
        by_hand,
    ];
    let known: Vec<&HyperNode> = known.iter().collect();
    let wanted = [found("same", 1), found("changed", 2), found("new", 1)];
    let words = |all: bool| {
        let calls = changes("label", &known, &wanted, all).into_iter();
        let calls = calls.map(|call| match call {
            Change::Create(object) => format!("create {}", object.metadata.name),
            Change::Update(object) => {
                format!(
                    "update {} {}",
                    object.metadata.name, object.status.node_count
                )
            }
            Change::Delete(name) => format!("delete {name}"),
        });
        calls.collect::<Vec<_>>().join(", ")
    };
    assert_eq!(words(false), "update changed 7, delete gone, create new");
    assert_eq!(
        words(true),
        "update changed 0, delete gone, create new, update same 0"
    );
}

#[test]
fn s6_244_ours_says_which_types_of_networks_are_left_out() {
    let labels = json!([{"nodeLabel": "a"}, {"nodeLabel": "a"}]);
    let config: LabelConfig = serde_json::from_value(
        json!({"networkTopologyTypes": {"twice": labels, "a-name-of-too-many-bytes": []}}),
    )
    .unwrap();
    let discovery = Discovery::new(&config);
    assert_eq!(
        discovery.ignored(),
        [
            "a-name-of-too-many-bytes: the name is longer than 20 bytes",
            "twice: a label stands twice",
        ]
    );
}

#[test]
fn a_file_of_another_kind_says_which_there_are() {
    let case: HyperNodeCase = serde_json::from_value(json!({"kind": "hypernode-no"})).unwrap();
    let words = case.answer(false).unwrap_err().to_string();
    assert!(words.contains("hypernode-discover"), "{words}");
}

proptest! {
    /// Whatever is written, a tree ends, has no circle where it is ready, and its nodes are those of its members.
    #[test]
    fn a_ready_tree_has_one_parent_each_and_all_nodes_of_its_members(
        all in prop::collection::vec((0..6_usize, 0..4_i32, prop::collection::vec((any::<bool>(), 0..6_usize), 0..4)), 0..7)
    ) {
        let name = |at: usize| format!("h{at}");
        let all = all.into_iter().map(|(at, tier, members)| {
            let members: Vec<(&str, Value)> = members.into_iter().map(|(is_node, member)| {
                if is_node { ("Node", exact(&format!("n{member}"))) } else { ("HyperNode", exact(&name(member))) }
            }).collect();
            hyper_node(&name(at), tier, &members)
        });
        let all: Vec<HyperNode> = all.collect();
        for order in [Order::ByName, Order::AsTheyCame] {
            let tree = tree(&all, &nodes(&["n0", "n1"]), order);
            prop_assert!(order == Order::AsTheyCame || tree.is_ready() == tree.mistakes().is_empty());
            if order == Order::AsTheyCame || !tree.is_ready() {
                continue;
            }
            for id in tree.ids() {
                for child in &tree.at(id).children {
                    prop_assert_eq!(tree.at(*child).parent, Some(id));
                    prop_assert!(tree.at(*child).nodes.is_subset(&tree.at(id).nodes));
                }
                let mut at = Some(id);
                for _ in tree.ids() {
                    at = at.and_then(|at| tree.at(at).parent);
                }
                prop_assert_eq!(at, None);
            }
        }
    }
}

#[test]
fn s6_244_a_hyper_node_of_two_types_has_nodes_and_hyper_nodes_as_members() {
    let labels = |keys: &[&str]| {
        let keys: Vec<Value> = keys.iter().map(|key| json!({"nodeLabel": key})).collect();
        json!(keys)
    };
    // The zone is above racks by the first type, and above nodes by the second.
    let config: LabelConfig = serde_json::from_value(json!({"networkTopologyTypes": {
        "a": labels(&["zone", "rack", "host"]), "b": labels(&["zone", "host"]),
    }}))
    .unwrap();
    let node: Metadata =
        serde_json::from_value(json!({"name": "n", "labels": {"zone": "z", "rack": "r"}})).unwrap();
    let found = Discovery::new(&config).discover(&[&node], &[]);
    let zone = found.iter().find(|found| found.label.0 == "zone").unwrap();
    let object = zone.object(&|label| format!("group-{}", label.1));
    let members = object.spec.members.iter().map(|member| {
        let name = &member.selector.exact_match.as_ref().unwrap().name;
        format!("{:?} {name}", member.kind)
    });
    let members: Vec<String> = members.collect();
    assert_eq!(members, ["HyperNode group-r", "Node n"]);
}

#[test]
fn a_tree_of_too_many_hyper_nodes_is_wrong_and_bounded() {
    let all = |count: usize| -> Vec<HyperNode> {
        (0..count)
            .map(|at| hyper_node(&format!("h{at}"), 1, &[]))
            .collect()
    };
    for order in [Order::ByName, Order::AsTheyCame] {
        assert!(tree(&all(MOST_HYPER_NODES), &[], order).is_ready());
        let built = tree(&all(MOST_HYPER_NODES + 1), &[], order);
        assert!(!built.is_ready());
        assert_eq!(built.ids().count(), MOST_HYPER_NODES);
        let mistake = built.mistakes()[0].to_string();
        assert_eq!(
            mistake,
            "there are 10001 HyperNodes, and at most 10000 are read"
        );
    }
}
