//! A `DaemonSet` as its controller expands it: a pod for each node that may run one.

use super::{Expansion, Maker};
use evictd_pod::wire::{
    Affinity, NodeSelector, NodeSelectorTerm, PodSpec, Requirement, Toleration,
};
use evictd_pod::{Node, Pod, predicates};
use std::collections::HashSet;

/// The taints that never keep daemons away, with their effects.
const TOLERATED: [(&str, &str); 6] = [
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
];
/// Pods in the network of the node need no other one.
const TOLERATED_IN_HOST_NETWORK: (&str, &str) =
    ("node.kubernetes.io/network-unavailable", "NoSchedule");

impl Maker<'_> {
    pub(super) fn one_each_node(&self, expansion: &mut Expansion) {
        let metadata = &self.workload.metadata;
        let namespace = metadata.namespace_or_default();
        let running = self
            .existing
            .running(namespace, &self.workload.kind, &metadata.name);
        let covered: HashSet<&str> = running.iter().map(|pod| pod.node.as_str()).collect();
        let mut template = self.pod(String::new());
        let written = Pod::from_wire(template.pod.clone());
        tolerate(&mut template.pod.spec);
        let compiled = Pod::from_wire(template.pod.clone());
        let (mut unfit, mut tolerated) = (0, 0);
        for node in &self.existing.nodes {
            let name = node.metadata.name.as_str();
            if covered.contains(name) {
                continue;
            }
            // The controller does not look at resources: such a pod waits for them.
            if !may_run(&compiled, node) {
                unfit += 1;
                continue;
            }
            tolerated += usize::from(!may_run(&written, node));
            let mut pod = template.clone();
            pod.pod.metadata.name = format!("{}-{name}", metadata.name);
            bind_to(&mut pod.pod.spec, name);
            expansion.pods.push(pod);
        }
        let nodes = |count: usize| if count == 1 { "node" } else { "nodes" };
        if tolerated > 0 {
            let (title, nodes) = (self.title(), nodes(tolerated));
            let note = format!(
                "{title}: its controller lets it tolerate the state of {tolerated} {nodes}"
            );
            expansion.notes.push(note);
        }
        if unfit > 0 {
            let nodes = nodes(unfit);
            let note = format!(
                "{}: {unfit} {nodes} left out by its node selector, affinity or tolerations",
                self.title()
            );
            expansion.notes.push(note);
        }
    }
}

fn may_run(pod: &Pod, node: &Node) -> bool {
    let effects = ["NoSchedule", "NoExecute"];
    predicates::matches_affinity(pod, node)
        && predicates::untolerated_taint(pod, node, &effects).is_none()
}

pub(super) fn tolerate(spec: &mut PodSpec) {
    let in_host_network = spec.host_network.then_some(TOLERATED_IN_HOST_NETWORK);
    for (key, effect) in TOLERATED.into_iter().chain(in_host_network) {
        let toleration = Toleration {
            key: key.to_owned(),
            operator: "Exists".to_owned(),
            effect: effect.to_owned(),
            ..Toleration::default()
        };
        if !spec.tolerations.contains(&toleration) {
            spec.tolerations.push(toleration);
        }
    }
}

/// The required node affinity has been decided about; in its place comes the node's name.
fn bind_to(spec: &mut PodSpec, node: &str) {
    let term = NodeSelectorTerm {
        match_fields: vec![Requirement {
            key: "metadata.name".to_owned(),
            operator: "In".to_owned(),
            values: vec![node.to_owned()],
        }],
        ..NodeSelectorTerm::default()
    };
    let affinity: &mut Affinity = spec.affinity.get_or_insert_default();
    affinity.node_affinity.required = Some(NodeSelector {
        node_selector_terms: vec![term],
    });
}
