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
    use evictd_test_objects::{self as objects, Object};
    use serde_json::json;

    const NO_PODS: &[Pod] = &[];

    /// A node with room for three pods.
    fn node(taint_effect: &str) -> Node {
        let made = objects::node("n")
            .cpu("4")
            .memory("8Gi")
            .resource("pods", "3");
        let made = made.resource("example.com/gpu", "1").label("disk", "ssd");
        made.taint("k", taint_effect).parse()
    }

    fn made(object: &Object) -> Pod {
        Pod::from_wire(object.parse())
    }

    /// A pod that requests these amounts.
    fn asking(name: &str, requests: &[(&str, &str)]) -> Pod {
        let add = |pod: Object, (resource, amount): &(&str, &str)| pod.resource(resource, amount);
        made(&requests.iter().fold(objects::pod(name), add))
    }

    fn messages(pod: &Pod, pods: &[Pod]) -> Vec<String> {
        let failures = failures(pod, pods, &node("TAINT"));
        failures.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn s2_022_a_shortage_names_all_its_figures() {
        let huge = ("hugepages-2Mi", "2Mi");
        let new = asking("new", &[("cpu", "1500m"), ("memory", "5Gi"), huge]);
        let old = asking("old", &[("cpu", "2600m"), ("memory", "1Gi")]);
        let small = asking("new", &[("cpu", "1400m")]);
        assert!(messages(&small, std::slice::from_ref(&old)).is_empty());
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
        let pods = ["a", "b", "c"].map(|name| asking(name, &[]));
        assert_eq!(
            messages(&asking("new", &[]), &pods),
            ["Node didn't have enough resource: pods, requested: 1, used: 3, capacity: 3"]
        );
        assert!(messages(&pods[0], &pods).is_empty(), "it is one of them");
    }

    #[test]
    fn pods_that_ended_or_run_elsewhere_take_no_room() {
        let table = [("n", "Running", 1), ("m", "Running", 0), ("n", "Failed", 0)];
        for (node, phase, short) in table {
            let other = made(&objects::pod("o").cpu("4").on(node).phase(phase));
            let found = messages(&asking("new", &[("cpu", "1")]), &[other]);
            assert_eq!(found.len(), short, "{node} {phase} {found:?}");
        }
    }

    #[test]
    fn s2_021_extended_resources_unknown_to_the_node_are_dropped() {
        let unknown = asking("new", &[("example.com/fpga", "1")]);
        assert!(messages(&unknown, &[]).is_empty());
        assert_eq!(
            messages(&asking("new", &[("example.com/gpu", "2")]), &[]),
            [
                "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1"
            ]
        );
    }

    #[test]
    fn s2_022_selector_name_and_taints_by_their_predicates() {
        let new = || objects::pod("new");
        let reasons = |pod: &Object, effect: &str| {
            let failures = failures(&made(pod), NO_PODS, &node(effect));
            failures.iter().map(Failure::reason).collect::<Vec<_>>()
        };
        let selecting = |disk: &str| new().set("/spec/nodeSelector/disk", disk);
        assert!(reasons(&selecting("ssd"), "NoSchedule").is_empty());
        assert_eq!(reasons(&selecting("hdd"), "NoSchedule"), ["NodeAffinity"]);
        assert_eq!(reasons(&new().on("m"), "NoSchedule"), ["NodeName"]);
        assert_eq!(reasons(&new(), "NoExecute"), ["TaintToleration"]);
        let of_file = new().annotation("kubernetes.io/config.source", "file");
        assert!(reasons(&of_file, "NoExecute").is_empty());
    }

    #[test]
    fn s2_022_required_affinity_and_host_ports_count_on_the_node_too() {
        let reasons = |new: &Object, pods: &[Pod]| {
            let failures = failures(&made(new), pods, &node("TAINT"));
            failures.iter().map(Failure::reason).collect::<Vec<_>>()
        };
        let affinity = |name: &str| {
            let field = json!({ "key": "metadata.name", "operator": "In", "values": [name] });
            let terms = json!({ "nodeSelectorTerms": [{ "matchFields": [field] }] });
            let path = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
            objects::pod("new").set(path, terms)
        };
        assert!(reasons(&affinity("n"), &[]).is_empty());
        assert_eq!(reasons(&affinity("m"), &[]), ["NodeAffinity"]);

        let takes = |name: &str, node: &str| {
            let ports = json!([{ "hostPort": 80 }]);
            objects::pod(name)
                .on(node)
                .set("/spec/containers/0/ports", ports)
        };
        let (new, old) = (takes("new", "n"), |node: &str| made(&takes("old", node)));
        assert_eq!(reasons(&new, &[old("n")]), ["NodePorts"]);
        assert!(reasons(&new, &[old("m")]).is_empty());
    }
}
