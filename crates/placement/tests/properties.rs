//! Properties of every cluster: incremental counts match a scan of all pods, and a trial restores its node.
#![allow(clippy::unwrap_used, reason = "tests")]

mod reference;

use evictd_placement::{Checks, Cluster};
use proptest::prelude::*;
use proptest::sample::select;
use reference::{Incoming, Node, Pod, Scene, Selector, Spread, Term};
use serde_json::from_value;

const KEYS: [&str; 2] = ["zone", "rack"];
const APPS: [&str; 2] = ["web", "db"];
/// The input does not hold the last namespace.
const NAMESPACES: [&str; 3] = ["blue", "red", "lost"];

fn selector() -> impl Strategy<Value = Selector> {
    prop_oneof![
        1 => Just(Selector::Absent),
        1 => Just(Selector::Everything),
        4 => select(&APPS[..]).prop_map(Selector::Is),
        1 => select(&APPS[..]).prop_map(Selector::IsNot),
        1 => select(vec![["web", "db"], ["db", "none"]]).prop_map(Selector::OneOf),
        1 => select(vec![Selector::Present, Selector::Missing]),
    ]
}

fn term() -> impl Strategy<Value = Term> {
    let namespaces = prop::collection::vec(select(&NAMESPACES[..]), 0..2);
    let chosen = prop_oneof![
        5 => Just(Selector::Absent),
        1 => Just(Selector::Everything),
        2 => select(&NAMESPACES[..]).prop_map(Selector::Is),
        1 => select(vec![["blue", "red"], ["lost", "none"]]).prop_map(Selector::OneOf),
        1 => select(vec![Selector::Present, Selector::Missing]),
    ];
    (selector(), namespaces, chosen, select(&KEYS[..])).prop_map(
        |(selector, namespaces, namespace_selector, key)| Term {
            selector,
            namespaces,
            namespace_selector,
            key,
        },
    )
}

fn spread() -> impl Strategy<Value = Spread> {
    let policies = (any::<bool>(), any::<bool>());
    (
        1_i64..3,
        select(&KEYS[..]),
        selector(),
        1_usize..4,
        policies,
    )
        .prop_map(
            |(max_skew, key, selector, min_domains, (honors_affinity, honors_taints))| Spread {
                max_skew,
                key,
                selector,
                min_domains,
                honors_affinity,
                honors_taints,
            },
        )
}

fn node() -> impl Strategy<Value = Node> {
    let value = || prop_oneof![1 => Just(None), 5 => select(vec!["a", "b", "c"]).prop_map(Some)];
    let flags = (prop::bool::weighted(0.8), prop::bool::weighted(0.2));
    ([value(), value()], flags).prop_map(|(labels, (ssd, tainted))| Node {
        labels: KEYS.into_iter().zip(labels).collect(),
        ssd,
        tainted,
    })
}

fn pod() -> impl Strategy<Value = Pod> {
    let anti_affinity = prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(term(), 1..3),
    ];
    let place = (any::<prop::sample::Index>(), select(&NAMESPACES[..]));
    let state = select(vec!["", "", "", "", "terminating", "coming"]);
    (place, select(&APPS[..]), state, anti_affinity).prop_map(
        |((node, namespace), app, state, anti_affinity)| Pod {
            node,
            namespace,
            app,
            terminating: state == "terminating",
            coming: state == "coming",
            anti_affinity,
        },
    )
}

fn incoming() -> impl Strategy<Value = Incoming> {
    let terms = || prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(term(), 1..3)];
    let spreads = prop_oneof![2 => Just(Vec::new()), 3 => prop::collection::vec(spread(), 1..3)];
    let who = (select(&NAMESPACES[..]), select(&APPS[..]), any::<bool>());
    (who, terms(), terms(), spreads).prop_map(
        |((namespace, app, wants_ssd), affinity, anti_affinity, spreads)| Incoming {
            namespace,
            app,
            wants_ssd,
            affinity,
            anti_affinity,
            spreads,
        },
    )
}

fn scene() -> impl Strategy<Value = Scene> {
    let nodes = prop::collection::vec(node(), 1..6);
    let pods = prop::collection::vec(pod(), 0..12);
    (nodes, pods, incoming()).prop_map(|(nodes, pods, incoming)| Scene {
        nodes,
        pods,
        incoming,
    })
}

fn cluster(scene: &Scene) -> (Cluster, evictd_placement::Pod) {
    let mut cluster = Cluster::new();
    for node in scene.wire_nodes() {
        assert!(cluster.add_node(&from_value(node).unwrap()));
    }
    for namespace in &NAMESPACES[..2] {
        cluster.add_namespace(&from_value(Scene::wire_namespace(namespace)).unwrap());
    }
    for pod in scene.wire_pods() {
        cluster.add_pod(from_value(pod).unwrap()).unwrap();
    }
    let pod = cluster.pod(from_value(scene.wire_incoming()).unwrap());
    (cluster, pod.unwrap())
}

/// The result of each node.
fn answers(checks: &mut Checks<'_>) -> Vec<Result<(), Vec<String>>> {
    let ids = checks.cluster().node_ids();
    let answer = |id| {
        let answer = checks.fits(id);
        answer.map_err(|rejection| checks.messages(rejection))
    };
    ids.map(answer).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn s5_088_s5_090_incremental_counts_match_a_scan_of_all_pods(
        scene in scene(),
        steps in prop::collection::vec(any::<prop::sample::Index>(), 0..12),
    ) {
        let (cluster, pod) = cluster(&scene);
        let mut checks = Checks::new(&cluster, &pod);
        let before = answers(&mut checks);
        for id in cluster.node_ids() {
            let node = id.index();
            // Pods are named in the order of the scene, which is their order on the node.
            let pods = scene.pods_of(node);
            let mut away = scene.away();
            let mut found = Vec::new();
            let mut still = Vec::new();
            let mut wanted = Vec::new();
            {
                let mut trial = checks.on(id);
                for step in std::iter::once(None).chain(steps.iter().map(Some)) {
                    if let Some(step) = step.filter(|_| !pods.is_empty()) {
                        let index = step.index(pods.len());
                        let place = pods[index];
                        if away[place] { trial.put_back(index) } else { trial.remove(index) }
                        away[place] = !away[place];
                    }
                    found.push(trial.fits());
                    still.push(trial.still_fits());
                    wanted.push(scene.verdict(node, &away));
                    if found.last().unwrap().is_err() {
                        prop_assert_ne!(trial.obstacle(), Some(String::new()));
                    }
                }
            }
            let found: Vec<_> = found.into_iter().map(|answer| answer.map_err(|rejection| {
                (rejection.code.as_str(), checks.messages(rejection).concat())
            })).collect();
            let wanted: Vec<_> = wanted.into_iter().map(|answer| answer.map_err(|(code, words)| {
                (code, words.to_owned())
            })).collect();
            prop_assert_eq!(&found, &wanted, "node {}", node);
            if scene.static_verdict(node).is_ok() {
                let fits: Vec<bool> = found.iter().map(Result::is_ok).collect();
                prop_assert_eq!(still, fits);
            }
        }
        prop_assert_eq!(answers(&mut checks), before, "a trial has left something behind");
    }

    #[test]
    fn pods_that_are_forgotten_do_not_count_elsewhere(
        scene in scene(),
        of in any::<prop::sample::Index>(),
        gone in any::<u16>(),
    ) {
        let (cluster, pod) = cluster(&scene);
        let mut checks = Checks::new(&cluster, &pod);
        let node = of.index(scene.nodes.len());
        let pods = scene.pods_of(node);
        let gone: Vec<usize> = (0..pods.len()).filter(|index| gone >> index & 1 == 1).collect();
        let mut away = scene.away();
        for index in &gone {
            away[pods[*index]] = true;
        }
        for id in cluster.node_ids().filter(|id| id.index() == node) {
            checks.assume_evicted(id, &gone);
        }
        for id in cluster.node_ids().filter(|id| id.index() != node) {
            let found = checks.fits(id);
            let found = found.map_err(|why| (why.code.as_str(), checks.messages(why).concat()));
            let wanted = scene.verdict(id.index(), &away);
            let wanted = wanted.map_err(|(code, words)| (code, words.to_owned()));
            prop_assert_eq!(found, wanted, "node {}", id.index());
        }
    }
}
