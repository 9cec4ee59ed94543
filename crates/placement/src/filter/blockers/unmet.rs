//! Wishes of a pod that no node of the cluster can meet, whatever runs there.

use super::NAMED;
use crate::cluster::Cluster;
use crate::extended_requests::is_extended;
use crate::extended_resources::is_served;
use crate::node::Node;
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::PodTerm;
use evictd_pod::Quantity;
use evictd_pod::quantity::Format;
use std::collections::{BTreeMap, BTreeSet};

/// One line for each wish.
pub(super) fn of(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let mut lines = Vec::new();
    node_name(cluster, pod, &mut lines);
    node_selector(cluster, pod, &mut lines);
    node_affinity(cluster, pod, &mut lines);
    amounts(cluster, pod, &mut lines);
    let terms = cluster.template(pod).affinity.iter();
    lines.extend(terms.filter_map(|term| peers(cluster, pod, term)));
    lines
}

fn node_name(cluster: &Cluster, pod: &Pod, lines: &mut Vec<String>) {
    let Some(name) = cluster.template(pod).node_name else {
        return;
    };
    let name = cluster.symbols().text(name);
    lines.push(match cluster.find_node(name) {
        Some(_) => format!("spec.nodeName is {name}, so that no scheduler tries the pod"),
        None => format!(
            "spec.nodeName is {name}, which is no node of the cluster, and no scheduler tries the pod"
        ),
    });
}

fn node_selector(cluster: &Cluster, pod: &Pod, lines: &mut Vec<String>) {
    let text = |symbol| cluster.symbols().text(symbol);
    for (key, value) in cluster.template(pod).node_selector.iter() {
        let mut nodes = cluster.nodes().iter();
        if nodes.any(|node| node.labels.get(key) == Some(value)) {
            continue;
        }
        let values = cluster.nodes().iter();
        let values = values.filter_map(|node| Some(text(node.labels.get(key)?)));
        let values: BTreeSet<&str> = values.collect();
        let hint = if values.is_empty() {
            nearest_key(cluster, text(key))
                .map(|nearest| format!("; the nearest label is {nearest}"))
        } else {
            let named: Vec<&str> = values.iter().take(NAMED).copied().collect();
            let more = if values.len() > NAMED { ", .." } else { "" };
            Some(format!("; its values are {}{more}", named.join(", ")))
        };
        lines.push(format!(
            "no node has the label {}={} of the pod's nodeSelector{}",
            text(key),
            text(value),
            hint.unwrap_or_default()
        ));
    }
}

/// The label of a node whose key is spelled almost like this one.
fn nearest_key<'c>(cluster: &'c Cluster, wanted: &str) -> Option<&'c str> {
    let nodes = cluster.nodes().iter();
    let keys = nodes.flat_map(|node| node.labels.iter().map(|(key, _)| key));
    let keys: BTreeSet<Symbol> = keys.collect();
    let keys = keys.into_iter().map(|key| cluster.symbols().text(key));
    let near = keys.filter_map(|key| {
        let distance = strsim::osa_distance(key, wanted);
        (distance <= 2).then_some((distance, key))
    });
    near.min().map(|(_, key)| key)
}

fn node_affinity(cluster: &Cluster, pod: &Pod, lines: &mut Vec<String>) {
    let template = cluster.template(pod);
    if template.node_affinity.is_none() || !template.node_selector.is_empty() {
        return;
    }
    let matches = |id| super::super::allows(super::super::Here::new(cluster, id), pod.template);
    if !cluster.node_ids().any(matches) {
        lines.push("no node matches the required node affinity of the pod".to_owned());
    }
}

/// Amounts that are larger than the allocatable amount of every node.
fn amounts(cluster: &Cluster, pod: &Pod, lines: &mut Vec<String>) {
    let bytes = |amount: i64| Quantity::new(amount, Format::BinarySi);
    let count = |amount: i64| Quantity::new(amount, Format::DecimalSi);
    let mut check = |name: &str,
                     wanted: i64,
                     there: &dyn Fn(&Node) -> i64,
                     shown: &dyn Fn(i64) -> Quantity| {
        let largest = cluster.nodes().iter().map(there).max().unwrap_or(0);
        if wanted <= largest || cluster.nodes().is_empty() {
            return;
        }
        let wanted = shown(wanted);
        lines.push(if largest <= 0 {
            let hint = hint_to_classes(cluster, name);
            format!("no node offers {name}, of which the pod asks for {wanted}{hint}")
        } else {
            format!(
                "no node is large enough: the pod asks for {wanted} of {name}, and the largest node has {}",
                shown(largest)
            )
        });
    };
    let wanted = &pod.amounts;
    check(
        "cpu",
        wanted.cpu,
        &|node| node.allocatable.cpu,
        &Quantity::milli,
    );
    check(
        "memory",
        wanted.memory,
        &|node| node.allocatable.memory,
        &bytes,
    );
    let storage = |node: &Node| node.allocatable.ephemeral_storage;
    check(
        "ephemeral-storage",
        wanted.ephemeral_storage,
        &storage,
        &bytes,
    );
    for (name, amount) in cluster.scalars(wanted.scalars) {
        // Devices may serve it where no node offers it.
        if is_served(cluster, *name) {
            continue;
        }
        let there = |node: &Node| {
            let mut list = cluster.scalars(node.allocatable.scalars).iter();
            list.find(|(known, _)| known == name)
                .map_or(0, |(_, amount)| *amount)
        };
        check(cluster.symbols().text(*name), *amount, &there, &count);
    }
}

/// The classes of devices that could serve a resource which no class names.
fn hint_to_classes(cluster: &Cluster, resource: &str) -> String {
    let classes = cluster.devices().class_names();
    if classes.is_empty() || !is_extended(resource) {
        return String::new();
    }
    let more = if classes.len() > NAMED { ", .." } else { "" };
    let named = classes[..classes.len().min(NAMED)].join(", ");
    format!(
        ", and no DeviceClass serves it by its spec.extendedResourceName; there is DeviceClass {named}{more}"
    )
}

/// That no running pod is one which a required affinity term asks for, though there may be some in other namespaces.
fn peers(cluster: &Cluster, pod: &Pod, term: &PodTerm) -> Option<String> {
    let text = |symbol| cluster.symbols().text(symbol);
    // The first pod of a group may be near itself.
    let selects = |other: &Pod| term.selector.matches(cluster.symbols(), other.labels());
    let selects_namespace = |namespace: Symbol| {
        term.namespaces.contains(&namespace)
            || cluster.namespace_matches(&term.namespace_selector, namespace)
    };
    let mut elsewhere: BTreeMap<&str, String> = BTreeMap::new();
    for other in cluster.nodes().iter().flat_map(|node| &node.pods) {
        if !selects(other) {
            continue;
        }
        let namespace = cluster.template(other).namespace;
        if selects_namespace(namespace) {
            return None;
        }
        let name = || cluster.full_name(other);
        elsewhere.entry(text(namespace)).or_insert_with(name);
    }
    let itself = selects_namespace(cluster.template(pod).namespace) && selects(pod);
    if itself {
        return None;
    }
    let namespaces: Vec<&str> = term.namespaces.iter().map(|one| text(*one)).collect();
    let within = if namespaces.is_empty() {
        "the namespaces that it selects".to_owned()
    } else {
        format!("namespace {}", namespaces.join(", "))
    };
    let hint = elsewhere
        .values()
        .next()
        .map(|name| format!("; {name} would match, but the term does not name its namespace"));
    let key = text(term.topology_key);
    let hint = hint.unwrap_or_default();
    Some(format!(
        "no running pod in {within} matches the required pod affinity ({key}){hint}"
    ))
}
