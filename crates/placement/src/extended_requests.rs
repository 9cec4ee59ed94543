//! A pod's requests for extended resources, by container.

use evictd_pod::resources::{is_sidecar, units};
use evictd_pod::wire;

/// The requests of a container for extended resources.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ExtendedRequests {
    pub(crate) name: Box<str>,
    /// The place among the init containers and then the containers.
    pub(crate) place: usize,
    /// Whether it ends before the containers start.
    pub(crate) ends: bool,
    /// The place among all of its resources by name, the resource, and the amount.
    pub(crate) resources: Box<[(usize, Box<str>, u64)]>,
}

/// The extended resources that the containers of a pod request.
pub(crate) fn requests_of(spec: &wire::PodSpec) -> Box<[ExtendedRequests]> {
    let first = spec.init_containers.iter();
    let first = first.map(|container| (container, !is_sidecar(container)));
    let all = first.chain(spec.containers.iter().map(|container| (container, false)));
    let requests = all.enumerate().filter_map(|(place, (container, ends))| {
        let requested = container.resources.requests.iter().enumerate();
        let extended = requested.filter(|(_, (name, _))| is_extended(name));
        let extended = extended.filter_map(|(place, (name, quantity))| {
            let amount = u64::try_from(units(name, *quantity)).ok()?;
            (amount > 0).then(|| (place, name.into(), amount))
        });
        let resources: Box<[_]> = extended.collect();
        (!resources.is_empty()).then(|| ExtendedRequests {
            name: container.name.as_str().into(),
            place,
            ends,
            resources,
        })
    });
    requests.collect()
}

/// Whether claims may be reserved for a pod. Those of a pod that cannot be read are unknown.
pub(crate) fn may_use_devices(spec: &wire::PodSpec) -> bool {
    !spec.resource_claims.is_empty() || spec.unreadable.is_some() || !requests_of(spec).is_empty()
}

/// Whether a device plugin or devices may serve the resource.
pub(crate) fn is_extended(name: &str) -> bool {
    name.starts_with("deviceclass.resource.kubernetes.io/")
        || (name.contains('/')
            && !name.contains("kubernetes.io/")
            && !name.starts_with("requests."))
}
