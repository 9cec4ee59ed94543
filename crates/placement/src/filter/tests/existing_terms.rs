//! Terms of existing pods: an attempt finds those that select its pod, and looks at no others.

use super::{cluster, node, visited_terms};
use crate::filter::inter_pod_affinity::selects;
use crate::filter::terms_selecting;
use crate::pod_terms::Use;
use crate::template::PodTerm;
use crate::{Checks, Cluster};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, from_value, json};
use std::collections::HashMap;

/// A pod with these terms: required anti-affinity, required affinity, preferred.
fn neighbour(
    (namespace, name): (&str, &str),
    labels: &Value,
    node: &str,
    [apart, near, preferred]: [&[Value]; 3],
) -> Value {
    let preferred = preferred.iter().zip(1..);
    let preferred =
        preferred.map(|(term, weight)| json!({"weight": weight, "podAffinityTerm": term}));
    json!({
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {"nodeName": node, "affinity": {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": apart},
            "podAffinity": {
                "requiredDuringSchedulingIgnoredDuringExecution": near,
                "preferredDuringSchedulingIgnoredDuringExecution": preferred.collect::<Vec<_>>(),
            },
        }},
    })
}

fn is(key: &str, value: &str) -> Value {
    json!({"matchLabels": {key: value}})
}

fn one_of(key: &str, operator: &str, values: &[&str]) -> Value {
    json!({"matchExpressions": [{"key": key, "operator": operator, "values": values}]})
}

fn term(selector: Value, namespaces: &[&str], namespace_selector: Value) -> Value {
    json!({
        "labelSelector": selector, "namespaces": namespaces, "namespaceSelector": namespace_selector,
        "topologyKey": "kubernetes.io/hostname",
    })
}

/// How many terms the filter and the score of a pod look at.
fn visited(cluster: &mut Cluster, pod: Value) -> usize {
    let pod = cluster.pod(from_value(pod).unwrap()).unwrap();
    let before = visited_terms();
    let mut checks = Checks::new(cluster, &pod);
    for id in cluster.node_ids() {
        let _ = checks.fits(id);
    }
    let of_filter = visited_terms() - before;
    let score = crate::score::inter_pod_affinity::new(cluster, &pod, 1, false);
    drop(score);
    assert_eq!(visited_terms() - before, 2 * of_filter);
    of_filter
}

#[test]
fn an_attempt_visits_only_terms_of_other_pods_that_can_select_its_pod_and_each_once() {
    let namespace = |name: &str| json!({"kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}});
    let mut objects = vec![
        node("one", json!({"kubernetes.io/hostname": "one"})),
        namespace("shop"),
        namespace("mallory"),
    ];
    for number in 0..300 {
        let app = format!("own-{number}");
        let terms = [
            // In their own namespace only.
            term(json!({}), &[], Value::Null),
            // In all namespaces, with labels that no other pod has.
            term(is("app", &app), &[], json!({})),
            term(
                one_of("app", "In", &[&app, "other"]),
                &["shop", "mallory"],
                Value::Null,
            ),
            term(one_of(&app, "Exists", &[]), &[], json!({})),
            // All pods of namespaces that there are not.
            term(json!({}), &[], is("team", &app)),
            term(json!({}), &[&app], one_of("team", "In", &[&app, "nobody"])),
        ];
        let name = ("mallory", &*format!("m-{number}"));
        objects.push(neighbour(
            name,
            &json!({"app": app}),
            "one",
            [&terms, &[], &[]],
        ));
        // The same term in pods of many groups.
        let same = [term(is("app", "web"), &["shop"], Value::Null)];
        let name = ("shop", &*format!("s-{number}"));
        objects.push(neighbour(
            name,
            &json!({"app": app}),
            "one",
            [&same, &same, &same],
        ));
    }
    let mut cluster = cluster(&objects);
    let mut incoming = |labels: Value| {
        let pod = neighbour(("shop", "incoming"), &labels, "", [&[], &[], &[]]);
        visited(&mut cluster, pod)
    };
    assert_eq!(incoming(json!({})), 0);
    assert_eq!(incoming(json!({"app": "db", "tier": "back"})), 0);
    assert_eq!(incoming(json!({"app": "web"})), 1);
    assert_eq!(incoming(json!({"app": "own-7"})), 2);
    assert_eq!(incoming(json!({"own-7": "x"})), 1);
}

#[test]
fn terms_of_pods_that_are_gone_are_forgotten() {
    let mut cluster = cluster(&[node("one", json!({}))]);
    let terms = [
        term(is("app", "web"), &[], json!({})),
        term(json!({}), &["a", "b"], Value::Null),
        term(Value::Null, &["a"], Value::Null),
    ];
    for round in 0..3 {
        for number in 0..10 {
            let labels = json!({"app": format!("{number}")});
            let name = format!("p-{number}");
            let pod = neighbour(("a", &name), &labels, "one", [&terms, &terms, &terms]);
            cluster.add_pod(from_value(pod).unwrap()).unwrap();
        }
        let incoming = neighbour(
            ("a", "incoming"),
            &json!({"app": "web"}),
            "",
            [&[], &[], &[]],
        );
        assert_eq!(visited(&mut cluster, incoming.clone()), 2, "round {round}");
        for number in 0..10 {
            let name = format!("p-{number}");
            let metadata = json!({"name": name, "namespace": "a"});
            assert!(cluster.remove_pod(&from_value(metadata).unwrap()));
        }
        assert_eq!(visited(&mut cluster, incoming), 0);
    }
}

const VALUES: [&str; 3] = ["x", "y", "z"];
const NAMESPACES: [&str; 3] = ["x", "y", "lost"];

fn any_selector(key: &'static str) -> impl Strategy<Value = Value> {
    let value = || select(&VALUES[..]);
    prop_oneof![
        1 => Just(Value::Null),
        1 => Just(json!({})),
        4 => value().prop_map(move |value| is(key, value)),
        1 => value().prop_map(move |value| one_of(key, "NotIn", &[value])),
        2 => (value(), value()).prop_map(move |(one, other)| one_of(key, "In", &[one, other])),
        1 => select(vec!["Exists", "DoesNotExist"]).prop_map(move |operator| one_of(key, operator, &[])),
        1 => (value(), value()).prop_map(move |(one, other)| json!({
            "matchLabels": {key: one},
            "matchExpressions": [{"key": "tier", "operator": "In", "values": [other]}],
        })),
    ]
}

fn any_term() -> impl Strategy<Value = Value> {
    let namespaces = prop::collection::vec(select(&NAMESPACES[..]), 0..3);
    let of_namespace = prop_oneof![2 => Just(Value::Null), 1 => any_selector("team")];
    (any_selector("app"), namespaces, of_namespace)
        .prop_map(|(selector, namespaces, of_namespace)| term(selector, &namespaces, of_namespace))
}

fn any_labels() -> impl Strategy<Value = Value> {
    let value = || prop::option::of(select(&VALUES[..]));
    (value(), value()).prop_map(|(app, tier)| {
        let labels = [("app", app), ("tier", tier)].into_iter();
        let labels = labels.filter_map(|(key, value)| Some((key.to_owned(), json!(value?))));
        Value::Object(labels.collect())
    })
}

/// A pod that is added under its number, or removed.
fn any_change() -> impl Strategy<Value = (usize, Option<Value>)> {
    let terms = || prop::collection::vec(any_term(), 0..3);
    let pod = (
        select(&NAMESPACES[..]),
        any_labels(),
        [terms(), terms(), terms()],
    );
    (0_usize..6, prop::option::weighted(0.8, pod)).prop_map(|(number, what)| {
        let pod = what.map(|(namespace, labels, [apart, near, preferred])| {
            let name = format!("p-{number}");
            let mut pod = neighbour(
                (namespace, &name),
                &labels,
                "one",
                [&apart, &near, &preferred],
            );
            pod["metadata"]["uid"] = json!(name);
            pod
        });
        (number, pod)
    })
}

type Found = HashMap<(usize, PodTerm), Use>;

/// The matching terms by a scan of all groups.
fn scanned(cluster: &Cluster, pod: &crate::Pod) -> Found {
    let namespace = cluster.template(pod).namespace;
    let mut found = Found::new();
    for (group, other) in cluster.groups().iter().enumerate() {
        let required = other.affinity.iter().map(|term| (None, None, term));
        let apart = other.anti_affinity.iter().enumerate();
        let apart = apart.map(|(position, term)| (Some(position), None, term));
        let preferred = other.preferred.iter();
        let preferred = preferred.map(|(weight, term)| (None, Some(*weight), term));
        for (position, weight, term) in required.chain(apart).chain(preferred) {
            if !selects(cluster, term, namespace, pod.labels()) {
                continue;
            }
            let uses = found.entry((group, term.clone())).or_default();
            match (position, weight) {
                (Some(position), _) => {
                    uses.anti_affinity.get_or_insert(position);
                }
                (None, Some(weight)) => {
                    uses.preferred += 1;
                    uses.weight += weight;
                }
                (None, None) => uses.affinity += 1,
            }
        }
    }
    found
}

proptest! {
    #[test]
    fn the_terms_that_are_found_are_those_of_a_scan_of_all_groups(
        changes in prop::collection::vec(any_change(), 0..12),
        incoming in prop::collection::vec((select(&NAMESPACES[..]), any_labels()), 1..4),
    ) {
        let mut objects = vec![node("one", json!({}))];
        objects.extend(NAMESPACES[..2].iter().map(|name| {
            json!({"kind": "Namespace", "metadata": {"name": name, "labels": {"team": name}}})
        }));
        let mut cluster = cluster(&objects);
        for (number, pod) in changes {
            if let Some(pod) = pod {
                cluster.add_pod(from_value(pod).unwrap()).unwrap();
            } else {
                let metadata = json!({"uid": format!("p-{number}")});
                cluster.remove_pod(&from_value(metadata).unwrap());
            }
            for (namespace, labels) in &incoming {
                let pod = neighbour((namespace, "incoming"), labels, "", [&[], &[], &[]]);
                let pod = cluster.pod(from_value(pod).unwrap()).unwrap();
                let mut found = Found::new();
                for known in terms_selecting(&cluster, &pod) {
                    for (group, uses) in &known.uses {
                        found.insert((*group as usize, (*known.term).clone()), *uses);
                    }
                }
                prop_assert_eq!(found, scanned(&cluster, &pod));
                cluster.release(pod);
            }
        }
    }
}
