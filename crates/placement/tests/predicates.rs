//! The filters agree with the predicates of `evictd_pod`, which the node agent uses.
#![allow(clippy::unwrap_used, reason = "tests")]

use evictd_placement::{Checks, Cluster};
use evictd_pod::{Node, Pod, predicates, resources};
use proptest::prelude::*;
use proptest::sample::select;
use serde_json::{Value, from_value, json};

const KEYS: [&str; 3] = ["disk", "zone", "cores"];
const VALUES: [&str; 4] = ["ssd", "a", "4", "8"];

fn labels() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(select(&KEYS[..]), select(&VALUES[..]), 0..3)
        .prop_map(|labels| json!(labels))
}

fn requirement() -> impl Strategy<Value = Value> {
    let values = prop::collection::vec(select(&VALUES[..]), 1..3);
    let operators = ["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"];
    let number = select(&VALUES[2..]);
    (
        select(&KEYS[..]),
        select(operators.to_vec()),
        values,
        number,
    )
        .prop_map(|(key, operator, values, number)| {
            let values = match operator {
                "Exists" | "DoesNotExist" => json!([]),
                "Gt" | "Lt" => json!([number]),
                _ => json!(values),
            };
            json!({ "key": key, "operator": operator, "values": values })
        })
}

fn term() -> impl Strategy<Value = Value> {
    let field = (select(&["In", "NotIn"][..]), select(&["n", "m"][..]));
    let field = field.prop_map(|(operator, name)| {
        json!({ "key": "metadata.name", "operator": operator, "values": [name] })
    });
    let fields = prop::collection::vec(field, 0..2);
    let expressions = prop::collection::vec(requirement(), 0..3);
    (expressions, fields).prop_map(
        |(expressions, fields)| json!({ "matchExpressions": expressions, "matchFields": fields }),
    )
}

fn affinity() -> impl Strategy<Value = Value> {
    let terms = prop::collection::vec(term(), 0..3);
    prop::option::of(terms).prop_map(|terms| {
        let required = terms.map(|terms| json!({ "nodeSelectorTerms": terms }));
        json!({ "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": required } })
    })
}

fn taint() -> impl Strategy<Value = Value> {
    let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    let parts = (select(&["k", "l"][..]), select(&["", "v"][..]));
    (parts, select(effects.to_vec()))
        .prop_map(|((key, value), effect)| json!({ "key": key, "value": value, "effect": effect }))
}

fn toleration() -> impl Strategy<Value = Value> {
    let effects = ["", "NoSchedule", "NoExecute"];
    let operators = ["", "Equal", "Exists", "Lt"];
    let parts = (select(&["", "k", "l"][..]), select(&["", "v"][..]));
    (parts, select(operators.to_vec()), select(effects.to_vec())).prop_map(
        |((key, value), operator, effect)| {
            json!({ "key": key, "value": value, "operator": operator, "effect": effect })
        },
    )
}

fn ports() -> impl Strategy<Value = Value> {
    let parts = (
        0..3_i32,
        select(&["", "0.0.0.0", "10.0.0.1", "10.0.0.2"][..]),
        select(&["", "TCP", "UDP"][..]),
    );
    let port = parts.prop_map(
        |(port, address, protocol)| json!({ "hostPort": port, "hostIP": address, "protocol": protocol }),
    );
    prop::collection::vec(port, 0..2).prop_map(|ports| json!(ports))
}

fn container() -> impl Strategy<Value = Value> {
    let requests = (0..5_u32, 0..5_u32, 0..3_u32);
    (requests, ports(), select(&["", "Always"][..])).prop_map(
        |((cpu, memory, gpus), ports, restart)| {
            let mut requests = json!({ "cpu": cpu.to_string(), "memory": format!("{memory}Gi") });
            if gpus > 0 {
                requests["example.com/gpu"] = json!(gpus.to_string());
            }
            json!({ "ports": ports, "restartPolicy": restart, "resources": { "requests": requests } })
        },
    )
}

fn pod(name: &'static str) -> impl Strategy<Value = Value> {
    let containers = || prop::collection::vec(container(), 0..2);
    let selector = prop_oneof![2 => Just(json!({})), 1 => labels()];
    let tolerations = prop::collection::vec(toleration(), 0..3);
    let place = select(&["", "", "n", "m"][..]);
    let parts = (containers(), containers(), selector, tolerations);
    (parts, affinity(), place).prop_map(
        move |((containers, init, selector, tolerations), affinity, node)| {
            json!({ "metadata": { "name": name, "uid": name }, "spec": {
                "containers": containers, "initContainers": init, "nodeSelector": selector,
                "tolerations": tolerations, "affinity": affinity, "nodeName": node,
            } })
        },
    )
}

fn node() -> impl Strategy<Value = Value> {
    let taints = prop::collection::vec(taint(), 0..2);
    let allocatable = (2..9_u32, 2..9_u32, 0..4_u32, 0..4_u32);
    (labels(), taints, allocatable).prop_map(|(labels, taints, (cpu, memory, gpus, pods))| {
        let mut allocatable = json!({
            "cpu": cpu.to_string(), "memory": format!("{memory}Gi"), "pods": pods.to_string(),
        });
        if gpus > 0 {
            allocatable["example.com/gpu"] = json!(gpus.to_string());
        }
        json!({
            "metadata": { "name": "n", "labels": labels },
            "spec": { "taints": taints },
            "status": { "allocatable": allocatable },
        })
    })
}

/// The predicates' results with the filters' messages and order.
fn expected(pod: &Pod, others: &[&Pod], node: &Node) -> Result<(), Vec<String>> {
    let words = |words: &str| Err(vec![words.to_owned()]);
    if !predicates::matches_name(pod, node) {
        return words("node(s) didn't match the requested node name");
    }
    if predicates::untolerated_taint(pod, node, &["NoSchedule", "NoExecute"]).is_some() {
        return words("node(s) had untolerated taint(s)");
    }
    if !predicates::matches_affinity(pod, node) {
        return words("node(s) didn't match Pod's node affinity/selector");
    }
    if !predicates::ports_are_free(pod, others.iter().copied()) {
        return words("node(s) didn't have free ports for the requested pod ports");
    }
    let many = predicates::too_many_pods(others.len(), node);
    let many = many.map(|_| "Too many pods".to_owned());
    let wanted = [resources::CPU, resources::MEMORY, "example.com/gpu"].into_iter();
    let short = wanted.filter(|name| predicates::shortage(pod, others, node, name).is_some());
    let short = short.map(|name| format!("Insufficient {name}"));
    let mut missing: Vec<String> = many.into_iter().chain(short).collect();
    missing.sort_unstable();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(missing)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn filters_agree_with_the_predicates_for_one_pod_on_one_node(
        node in node(),
        incoming in pod("incoming"),
        mut others in prop::collection::vec(pod("other"), 0..3),
    ) {
        let mut cluster = Cluster::new();
        prop_assert!(cluster.add_node(&from_value(node.clone()).unwrap()));
        for (index, other) in others.iter_mut().enumerate() {
            other["metadata"]["name"] = json!(format!("other-{index}"));
            other["metadata"]["uid"] = json!(format!("other-{index}"));
            other["spec"]["nodeName"] = json!("n");
            cluster.add_pod(from_value(other.clone()).unwrap()).unwrap();
        }
        let pod = cluster.pod(from_value(incoming.clone()).unwrap()).unwrap();
        let mut checks = Checks::new(&cluster, &pod);
        let id = cluster.find_node("n").unwrap();
        let found = checks.fits(id).map_err(|rejection| checks.messages(rejection));

        let node: Node = from_value(node).unwrap();
        let others: Vec<Pod> = others
            .into_iter()
            .map(|other| Pod::from_wire(from_value(other).unwrap()))
            .collect();
        let others: Vec<&Pod> = others.iter().collect();
        let pod = Pod::from_wire(from_value(incoming).unwrap());
        prop_assert_eq!(found, expected(&pod, &others, &node));
    }
}
