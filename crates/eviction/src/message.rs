//! The message of an eviction: as the kubelet writes it (S1-054 to S1-057), and with the grounds of the decision.

mod weighed;

use evictd_decision::ActingThreshold;
use evictd_pod::{Pod, Quantity};
use evictd_signals::{StarvedResource, pressure::percent};
use evictd_usage::PodUsage;
use std::{collections::BTreeMap, fmt::Write};

pub use weighed::LONGEST;
pub(crate) use weighed::{local_storage_message, parts_of_limit, parts_of_signal, weighed_message};

/// The status message and the annotations of the event, exactly as the kubelet writes them. If the usage of the pod is not
/// known there are no annotations.
pub fn eviction_message(
    acting: &ActingThreshold,
    pod: &Pod,
    usage: Option<&PodUsage>,
) -> (String, BTreeMap<&'static str, String>) {
    let resource = acting.threshold.signal.resource();
    let mut message = shortage(acting);

    let mut annotations = BTreeMap::new();
    let Some(usage) = usage else {
        return (message, annotations);
    };
    if resource == StarvedResource::Memory
        && let (Some(request), Some(used)) = (pod.pod_level_memory_request, usage.working_set)
    {
        let used = Quantity::bytes(used.value).to_string();
        push_larger(&mut message, "Pod", &pod.name, &used, request, resource);
        annotations.insert("offending_pod", pod.name.clone());
        annotations.insert("offending_pod_usage", used);
    }
    let (mut names, mut usages) = (Vec::new(), Vec::new());
    for (name, used, request) in larger_containers(resource, pod, usage) {
        let used = used.to_string();
        push_larger(&mut message, "Container", name, &used, request, resource);
        names.push(name);
        usages.push(used);
    }
    annotations.insert("offending_containers", names.join(","));
    annotations.insert("offending_containers_usage", usages.join(","));
    annotations.insert("starved_resource", resource.as_str().to_owned());
    (message, annotations)
}

/// The first sentence, which others parse (S1-054).
fn shortage(acting: &ActingThreshold) -> String {
    let signal = acting.threshold.signal;
    let resource = signal.resource();
    if signal.is_pressure() {
        return format!(
            "The node was under pressure on resource: {resource}. Threshold: {signal} {}, observed: {}. ",
            acting.threshold.value,
            percent(acting.observed.taken())
        );
    }
    let available = if signal.counts_bytes() {
        Quantity::bytes(acting.observed.available)
    } else {
        Quantity::count(acting.observed.available)
    };
    format!(
        "The node was low on resource: {resource}. Threshold quantity: {}, available: {available}. ",
        acting.quantity
    )
}

fn push_larger(
    message: &mut String,
    what: &str,
    name: &str,
    used: &str,
    request: Quantity,
    resource: StarvedResource,
) {
    let _ = write!(
        message,
        "{what} {name} was using {used}, request is {request}, has larger consumption of {resource}. "
    );
}

/// Containers that use more than their request, in the order of the usage figures (S1-055).
fn larger_containers<'a>(
    resource: StarvedResource,
    pod: &'a Pod,
    usage: &'a PodUsage,
) -> impl Iterator<Item = (&'a str, Quantity, Quantity)> {
    usage.containers.iter().filter_map(move |figures| {
        let container = pod
            .containers
            .iter()
            .find(|container| container.name == figures.name)?;
        let (used, request) = match resource {
            StarvedResource::Memory => (figures.working_set?.value, container.memory_request),
            StarvedResource::EphemeralStorage => (
                (figures.rootfs.bytes?.value).wrapping_add(figures.logs.bytes?.value),
                container.ephemeral_storage_request,
            ),
            StarvedResource::Inodes | StarvedResource::Pids | StarvedResource::Io => return None,
        };
        let used = Quantity::bytes(used);
        (used > request).then_some((container.name.as_str(), used, request))
    })
}
