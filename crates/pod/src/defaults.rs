//! The defaults that an API server sets when it stores a pod. A kubelet sets the same defaults for static pods.
//!
//! Every program that reads manifests calls this, so that a pod from a file counts as it would in a cluster.

use crate::{
    Quantity,
    requests::{containers_request, has_pod_level},
    resources::{CPU, MEMORY},
    wire::{Pod, PodSpec, ResourceList, ResourceRequirements},
};

/// The grace period of a pod that names none, in seconds.
pub const GRACE_PERIOD_SECONDS: i64 = 30;

/// Fills in a pod that no API server has stored: one without a UID. A stored pod stays as it is.
pub fn complete(pod: &mut Pod) {
    if pod.metadata.uid.is_empty() {
        apply(&mut pod.spec);
    }
}

/// Sets the defaults of a spec. Applying them again changes nothing.
pub fn apply(spec: &mut PodSpec) {
    let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
    for container in containers {
        requests_from_limits(&mut container.resources, |_| true);
    }
    ports_of_host_network(spec);
    pod_level_requests(spec);
    spec.termination_grace_period_seconds
        .get_or_insert(GRACE_PERIOD_SECONDS);
}

/// Sets each missing request to the limit of its resource.
fn requests_from_limits(resources: &mut ResourceRequirements, counts: impl Fn(&str) -> bool) {
    let ResourceRequirements { requests, limits } = resources;
    for (name, limit) in limits.iter().filter(|(name, _)| counts(name)) {
        if !requests.contains_key(name) {
            requests.insert(name, *limit);
        }
    }
}

/// If the pod has pod-level limits, a missing pod-level request is the sum of its containers' requests. If none of them
/// has one, it is the limit (KEP-2837).
fn pod_level_requests(spec: &mut PodSpec) {
    let limited = |resources: &ResourceRequirements| !resources.limits.is_empty();
    if !spec.resources.as_ref().is_some_and(limited) {
        return;
    }
    // Huge pages cannot be overcommitted, so theirs is never a sum.
    let sums = [CPU, MEMORY].map(|name| {
        let containers = spec.containers.iter().chain(&spec.init_containers);
        let mut lists = containers.map(|container| &container.resources.requests);
        let any = lists.any(|list: &ResourceList| list.contains_key(name));
        any.then(|| (name, containers_request(spec, name, Quantity::default())))
    });
    let Some(resources) = &mut spec.resources else {
        return;
    };
    for (name, sum) in sums.into_iter().flatten() {
        if !resources.requests.contains_key(name) {
            resources.requests.insert(name, sum);
        }
    }
    requests_from_limits(resources, has_pod_level);
}

/// In the network of the node each port of a container is one of the node. An API server stores no other pod, so that this changes
/// nothing in one that it has stored.
pub fn ports_of_host_network(spec: &mut PodSpec) {
    if !spec.host_network {
        return;
    }
    let containers = spec.containers.iter_mut().chain(&mut spec.init_containers);
    for port in containers.flat_map(|container| &mut container.ports) {
        if port.host_port == 0 {
            port.host_port = port.container_port;
        }
    }
}
