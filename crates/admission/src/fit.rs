//! Whether a pod fits on a node beside the pods there, by the checks of the kubelet: resources, affinity, name,
//! ports, taints (S2-021, S2-022).

use crate::{Failure, Insufficient};
use evictd_pod::{
    Node, Pod,
    predicates::{self, Shortage},
    resources,
};
use std::borrow::Borrow;

/// Every check that `pod` fails on `node` beside those of `pods` that run there, in the order of the kubelet, which
/// reports only the first.
pub fn failures(pod: &Pod, pods: &[impl Borrow<Pod>], node: &Node) -> Vec<Failure> {
    let mut failures = shortages(pod, pods, node);
    if !predicates::matches_affinity(pod, node) {
        failures.push(predicate(
            "NodeAffinity",
            "node(s) didn't match Pod's node affinity/selector",
        ));
    }
    if !predicates::matches_name(pod, node) {
        failures.push(predicate(
            "NodeName",
            "node(s) didn't match the requested node name",
        ));
    }
    if !predicates::ports_are_free(pod, others(pod, pods, node)) {
        failures.push(predicate(
            "NodePorts",
            "node(s) didn't have free ports for the requested pod ports",
        ));
    }
    // Only `NoExecute` counts once a pod is bound to its node, and never for a static pod (S2-021).
    let forbids = predicates::untolerated_taint(pod, node, &["NoExecute"]);
    if forbids.is_some() && !pod.is_static() {
        failures.push(predicate(
            "TaintToleration",
            "node(s) had taints that the pod didn't tolerate",
        ));
    }
    failures
}

/// The resources that `pod` requests beyond the free ones of `node`, beside the `pods` that run there.
pub fn shortages(pod: &Pod, pods: &[impl Borrow<Pod>], node: &Node) -> Vec<Failure> {
    let others: Vec<&Pod> = others(pod, pods, node).collect();
    let insufficient = |resource: &str, shortage: Shortage| {
        Failure::Insufficient(Insufficient {
            resource: resource.to_owned(),
            requested: shortage.requested,
            used: shortage.used,
            capacity: shortage.capacity,
        })
    };
    let many = predicates::too_many_pods(others.len(), node)
        .map(|shortage| insufficient(resources::PODS, shortage));
    let short = wanted(pod, node).into_iter().filter_map(|resource| {
        let shortage = predicates::shortage(pod, &others, node, resource)?;
        Some(insufficient(resource, shortage))
    });

    many.into_iter().chain(short).collect()
}

/// Those of `pods` that run on the node beside `pod`.
fn others<'p>(
    pod: &'p Pod,
    pods: &'p [impl Borrow<Pod>],
    node: &'p Node,
) -> impl Iterator<Item = &'p Pod> {
    pods.iter()
        .map(Borrow::borrow)
        .filter(move |other| is_here(other, node) && !is_same(other, pod))
}

/// Whether `pod` counts on `node`: it has not ended and is not bound to another node.
pub fn is_here(pod: &Pod, node: &Node) -> bool {
    !pod.terminal && predicates::matches_name(pod, node)
}

/// Whether both have the same namespace and name, whatever their UIDs.
pub fn is_same(one: &Pod, other: &Pod) -> bool {
    one.name == other.name && one.namespace == other.namespace
}

fn predicate(name: &str, why: &str) -> Failure {
    Failure::Predicate {
        name: name.to_owned(),
        why: why.to_owned(),
    }
}

/// The resources to check: cpu, memory and disk first, then the others by name. Extended resources that the node
/// does not list are left out, because other components may provide them (S2-021).
fn wanted<'a>(pod: &'a Pod, node: &Node) -> Vec<&'a str> {
    let first = [
        resources::CPU,
        resources::MEMORY,
        resources::EPHEMERAL_STORAGE,
    ];
    let checked = |name: &&str| {
        !first.contains(name)
            && *name != resources::PODS
            && (name.starts_with("hugepages-") || node.status.allocatable.contains_key(name))
    };
    let others = pod.requested_resources().into_iter().filter(checked);
    first.into_iter().chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_PODS: &[Pod] = &[];

    const NODE: &str = r#"{"metadata":{"name":"n","labels":{"disk":"ssd"}},"spec":{"taints":[{"key":"k","effect":"TAINT"}]},
        "status":{"allocatable":{"cpu":"4","memory":"8Gi","pods":"3","example.com/gpu":"1"}}}"#;

    fn node() -> Node {
        serde_json::from_str(NODE).unwrap()
    }

    fn pod(json: &str) -> Pod {
        Pod::from_wire(serde_json::from_str(json).unwrap())
    }

    fn asking(name: &str, requests: &str) -> Pod {
        pod(&format!(
            r#"{{"metadata":{{"name":"{name}"}},"spec":{{"containers":[{{"resources":{{"requests":{{{requests}}}}}}}]}}}}"#
        ))
    }

    fn messages(pod: &Pod, pods: &[Pod]) -> Vec<String> {
        let failures = failures(pod, pods, &node());
        failures.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn s2_022_a_shortage_names_all_its_figures() {
        let new = asking(
            "new",
            r#""cpu":"1500m","memory":"5Gi","hugepages-2Mi":"2Mi""#,
        );
        let old = asking("old", r#""cpu":"2600m","memory":"1Gi""#);
        assert!(
            failures(
                &asking("new", r#""cpu":"1400m""#),
                std::slice::from_ref(&old),
                &node()
            )
            .is_empty()
        );
        assert_eq!(
            messages(&new, &[old]),
            [
                "Node didn't have enough resource: cpu, requested: 1500, used: 2600, capacity: 4000",
                "Node didn't have enough resource: hugepages-2Mi, requested: 2097152, used: 0, capacity: 0",
            ]
        );
    }

    #[test]
    fn s2_022_one_pod_too_many() {
        let pods = ["a", "b", "c"].map(|name| asking(name, ""));
        assert_eq!(
            messages(&asking("new", ""), &pods),
            ["Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"]
        );
        assert_eq!(failures(&pods[0], &pods, &node()), [], "it is one of them");
    }

    #[test]
    fn pods_that_ended_or_run_elsewhere_take_no_room() {
        let all = r#""spec":{"nodeName":"NODE","containers":[{"resources":{"requests":{"cpu":"4"}}}]},"status":{"phase":"PHASE"}"#;
        let table = [("n", "Running", 1), ("m", "Running", 0), ("n", "Failed", 0)];
        for (node, phase, short) in table {
            let other = all.replace("NODE", node).replace("PHASE", phase);
            let other = pod(&format!(r#"{{"metadata":{{"name":"o"}},{other}}}"#));
            let found = messages(&asking("new", r#""cpu":"1""#), &[other]);
            assert_eq!(found.len(), short, "{node} {phase} {found:?}");
        }
    }

    #[test]
    fn s2_021_extended_resources_unknown_to_the_node_are_dropped() {
        assert!(
            failures(
                &asking("new", r#""example.com/fpga":"1""#),
                NO_PODS,
                &node()
            )
            .is_empty()
        );
        assert_eq!(
            messages(&asking("new", r#""example.com/gpu":"2""#), &[]),
            [
                "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1"
            ]
        );
    }

    #[test]
    fn s2_022_selector_name_and_taints_by_their_predicates() {
        let reasons = |json: &str, taint: &str| {
            let node = serde_json::from_str(&NODE.replace("TAINT", taint)).unwrap();
            let failures = failures(&pod(json), NO_PODS, &node);
            failures.iter().map(Failure::reason).collect::<Vec<_>>()
        };
        let nothing = "NoSchedule";
        assert!(reasons(r#"{"spec":{"nodeSelector":{"disk":"ssd"}}}"#, nothing).is_empty());
        assert_eq!(
            reasons(r#"{"spec":{"nodeSelector":{"disk":"hdd"}}}"#, nothing),
            ["NodeAffinity"]
        );
        assert_eq!(
            reasons(r#"{"spec":{"nodeName":"m"}}"#, nothing),
            ["NodeName"]
        );
        assert_eq!(reasons("{}", "NoExecute"), ["TaintToleration"]);
        let static_pod = r#"{"metadata":{"annotations":{"kubernetes.io/config.source":"file"}}}"#;
        assert!(reasons(static_pod, "NoExecute").is_empty());
    }

    #[test]
    fn s2_022_required_affinity_and_host_ports_count_on_the_node_too() {
        let reasons = |spec: &str, pods: &[Pod]| {
            let new = pod(&format!(r#"{{"metadata":{{"name":"new"}},"spec":{spec}}}"#));
            let failures = failures(&new, pods, &node());
            failures.iter().map(Failure::reason).collect::<Vec<_>>()
        };
        let affinity = |name: &str| {
            let field = r#"{"key":"metadata.name","operator":"In","values":["NAME"]}"#;
            let terms = r#"{"nodeSelectorTerms":[{"matchFields":[FIELD]}]}"#;
            let required = r#"{"requiredDuringSchedulingIgnoredDuringExecution":TERMS}"#;
            let affinity =
                r#"{"affinity":{"nodeAffinity":REQUIRED}}"#.replace("REQUIRED", required);
            affinity
                .replace("TERMS", terms)
                .replace("FIELD", field)
                .replace("NAME", name)
        };
        assert!(reasons(&affinity("n"), &[]).is_empty());
        assert_eq!(reasons(&affinity("m"), &[]), ["NodeAffinity"]);

        let takes = |place: &str| {
            format!(r#"{{"nodeName":"{place}","containers":[{{"ports":[{{"hostPort":80}}]}}]}}"#)
        };
        let other = |place: &str| {
            pod(&format!(
                r#"{{"metadata":{{"name":"old"}},"spec":{}}}"#,
                takes(place)
            ))
        };
        assert_eq!(reasons(&takes("n"), &[other("n")]), ["NodePorts"]);
        assert!(reasons(&takes("n"), &[other("m")]).is_empty());
    }
}
