//! The requests and limits of a pod, by the kubelet's rules (S1-068).

use crate::{
    Quantity,
    quantity::Format,
    wire::{Container, Pod, PodSpec, ResourceList, ResourceRequirements},
};

/// Resource name of memory.
pub const MEMORY: &str = "memory";
/// Resource name of processor time.
pub const CPU: &str = "cpu";
/// Resource name of node-local disk.
pub const EPHEMERAL_STORAGE: &str = "ephemeral-storage";
/// Resource name of the number of pods.
pub const PODS: &str = "pods";

/// An amount of a resource as an integer: millicores of cpu, whole units of anything else (S2-015).
pub fn units(resource: &str, quantity: Quantity) -> i64 {
    if resource == CPU {
        quantity.milli_value()
    } else {
        quantity.value()
    }
}

/// Whether more of a resource is requested than is left. Differences wrap around, as in Kubernetes.
pub fn is_short(requested: i64, capacity: i64, used: i64) -> bool {
    requested > 0 && requested > capacity.wrapping_sub(used)
}

/// Whether an init container is a sidecar, which keeps running beside the containers.
pub(crate) fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == "Always"
}

/// The pod-level resources, if they contain any request or limit; then those of the containers do not count.
fn pod_level(spec: &PodSpec) -> Option<&ResourceRequirements> {
    spec.resources
        .as_ref()
        .filter(|resources| !(resources.requests.is_empty() && resources.limits.is_empty()))
}

/// The request of the containers: the larger of two amounts. One is the sum of all that run side by side; the other is the
/// most that is needed while the pod starts, by an init container and the sidecars that were started before it.
///
/// A container that says nothing about the resource counts as `missing`.
fn containers_request(spec: &PodSpec, resource: &str, missing: Quantity) -> Quantity {
    let wanted = |container: &Container| {
        let requests = &container.resources.requests;
        requests.get(resource).copied().unwrap_or(missing)
    };
    let mut running = Quantity::default();
    for container in &spec.containers {
        running += wanted(container);
    }
    let (mut sidecars, mut at_start) = (Quantity::default(), Quantity::default());
    for container in &spec.init_containers {
        let own = wanted(container);
        let beside = sidecars + own;
        if is_sidecar(container) {
            running += own;
            sidecars = beside;
        }
        at_start = beside.max(at_start);
    }
    at_start.max(running)
}

/// The pod's request of one resource as the kubelet counts it for ranking and for choosing victims (S1-068):
/// the pod-level resources alone if there are any, else those of the containers. Overhead is added only to a request above
/// zero.
pub(crate) fn kubelet_request(spec: &PodSpec, resource: &str) -> Quantity {
    let mut request = if let Some(resources) = pod_level(spec) {
        let requests = &resources.requests;
        requests.get(resource).copied().unwrap_or_default()
    } else {
        containers_request(spec, resource, Quantity::default())
    };
    if let Some(overhead) = spec.overhead.get(resource)
        && !request.is_zero()
    {
        request += *overhead;
    }
    request
}

/// The pod's request of one resource as the scheduler counts it, and the kubelet when it checks whether the pod fits
/// (S1-068): a pod-level value replaces those of the containers for that resource only, and overhead is always added.
pub fn scheduler_request(spec: &PodSpec, resource: &str) -> Quantity {
    request_or(spec, resource, Quantity::default())
}

fn request_or(spec: &PodSpec, resource: &str, missing: Quantity) -> Quantity {
    let pod_level = spec.resources.as_ref();
    let request = pod_level
        .and_then(|resources| resources.requests.get(resource).copied())
        .unwrap_or_else(|| containers_request(spec, resource, missing));
    request + spec.overhead.get(resource).copied().unwrap_or_default()
}

/// The request by which nodes are scored (S5-086): a container that says nothing about cpu counts as 100m, about memory
/// as 200Mi.
pub fn scoring_request(spec: &PodSpec, resource: &str) -> Quantity {
    let missing = match resource {
        CPU => Quantity::milli(100),
        MEMORY => Quantity::new(200 << 20, Format::BinarySi),
        _ => Quantity::default(),
    };
    request_or(spec, resource, missing)
}

/// Every resource that the scheduler may count for the pod, some more than once.
pub fn scheduler_resources(spec: &PodSpec) -> impl Iterator<Item = &str> {
    let containers = spec.containers.iter().chain(&spec.init_containers);
    let lists = containers.map(|container| &container.resources.requests);
    let pod_level = spec.resources.iter().map(|resources| &resources.requests);
    lists
        .chain(pod_level)
        .chain([&spec.overhead])
        .flat_map(ResourceList::keys)
}

/// Replaces each container's requests by what the scheduler counts during an in-place resize: for every resource the largest
/// of the desired amount, the allocated one and the one that the container runs with. The desired amount does not count once
/// the node has reported that it is infeasible (S4-040).
pub fn use_resized(pod: &mut Pod) {
    let status = &*pod.status;
    let containers = status.container_statuses.iter();
    let mut all = containers.chain(&status.init_container_statuses);
    if all.all(|status| status.resources.is_none()) {
        // Pods share their specs until they are changed.
        return;
    }
    let infeasible =
        pod.status.conditions.iter().any(|condition| {
            condition.kind == "PodResizePending" && condition.reason == "Infeasible"
        });
    let spec = &mut *pod.spec;
    let containers = spec.containers.iter_mut();
    let sidecars = spec
        .init_containers
        .iter_mut()
        .filter(|own| is_sidecar(own));
    for container in containers.chain(sidecars) {
        let status = &pod.status;
        let mut statuses = status
            .container_statuses
            .iter()
            .chain(&status.init_container_statuses);
        let Some((status, running)) = statuses
            .find(|status| status.name == container.name)
            .and_then(|status| Some((status, status.resources.as_ref()?)))
        else {
            continue;
        };
        let requests = &mut container.resources.requests;
        if infeasible {
            *requests = ResourceList::default();
        }
        for list in [Some(&running.requests), status.allocated_resources.as_ref()] {
            for (name, quantity) in list.into_iter().flat_map(ResourceList::iter) {
                let most = requests
                    .get(name)
                    .map_or(*quantity, |own| *own.max(quantity));
                requests.insert(name, most);
            }
        }
    }
}

/// The pod's limit on ephemeral storage; `None` if no container has one (S1-070). Pod-level resources have no ephemeral
/// storage, so only the containers count.
pub fn ephemeral_storage_limit(spec: &PodSpec) -> Option<Quantity> {
    let limit_of =
        |container: &Container| container.resources.limits.get(EPHEMERAL_STORAGE).copied();
    let add = |sum: Option<Quantity>, quantity: Quantity| Some(sum.unwrap_or_default() + quantity);

    let mut total = spec.containers.iter().filter_map(limit_of).fold(None, add);
    let mut sidecars = None;
    let mut largest_start = None;
    for container in &spec.init_containers {
        let own = limit_of(container);
        let at_start = if is_sidecar(container) {
            total = own.map_or(total, |quantity| add(total, quantity));
            sidecars = own.map_or(sidecars, |quantity| add(sidecars, quantity));
            sidecars
        } else {
            own.map_or(sidecars, |quantity| add(sidecars, quantity))
        };
        largest_start = largest_start.max(at_start);
    }
    let limit = total.max(largest_start)?;
    let overhead = spec.overhead.get(EPHEMERAL_STORAGE);
    Some(match overhead {
        Some(overhead) if !limit.is_zero() => limit + *overhead,
        _ => limit,
    })
}

/// Sums the positive cpu and memory amounts, the only ones that count for the QoS class (S2-025).
fn add_positive(sums: &mut [Option<Quantity>; 2], list: &ResourceList) -> bool {
    let mut found = [false; 2];
    for (index, name) in [CPU, MEMORY].into_iter().enumerate() {
        if let Some(quantity) = list.get(name).filter(|quantity| quantity.is_positive()) {
            sums[index] = Some(sums[index].unwrap_or_default() + *quantity);
            found[index] = true;
        }
    }
    found == [true; 2]
}

/// The quality of service of a pod, by its requests and limits of cpu and memory (S2-025).
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
pub enum QosClass {
    /// No container has a request or limit.
    BestEffort,
    /// Every other pod: it may use more than it requests.
    Burstable,
    /// Everything has a limit, and limits equal requests.
    Guaranteed,
}

impl QosClass {
    /// The class as the API names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::BestEffort => "BestEffort",
            Self::Burstable => "Burstable",
            Self::Guaranteed => "Guaranteed",
        }
    }

    /// The class of that name.
    pub fn parse(name: &str) -> Option<Self> {
        [Self::BestEffort, Self::Burstable, Self::Guaranteed]
            .into_iter()
            .find(|class| class.as_str() == name)
    }

    /// The class that follows from requests and limits (S2-025): from the pod-level resources alone if that field is present,
    /// even if it is empty; else from containers and init containers.
    pub fn of(spec: &PodSpec) -> Self {
        let (mut requests, mut limits) = ([None; 2], [None; 2]);
        let mut all_limited = true;
        if let Some(resources) = &spec.resources {
            add_positive(&mut requests, &resources.requests);
            let both = add_positive(&mut limits, &resources.limits);
            all_limited = both || resources.limits.is_empty();
        } else {
            for container in spec.containers.iter().chain(&spec.init_containers) {
                add_positive(&mut requests, &container.resources.requests);
                all_limited &= add_positive(&mut limits, &container.resources.limits);
            }
        }
        if requests == [None; 2] && limits == [None; 2] {
            return Self::BestEffort;
        }
        let requests_are_limits = requests == limits;
        if all_limited && requests_are_limits {
            Self::Guaranteed
        } else {
            Self::Burstable
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(json: &str) -> PodSpec {
        serde_json::from_str(json).unwrap()
    }

    const SIDECAR: &str = r#"{"containers":[{"resources":{"requests":{"memory":"100Mi"}}},{"resources":{"requests":{"memory":"50Mi"}}}],
        "initContainers":[{"restartPolicy":"Always","resources":{"requests":{"memory":"30Mi"}}},{"resources":{"requests":{"memory":"MAX"}}}],
        "overhead":{"memory":"5Mi","cpu":"10m"}}"#;

    #[test]
    fn s1_068_containers_and_sidecars_against_the_largest_init_container() {
        let memory =
            |max: &str| kubelet_request(&spec(&SIDECAR.replace("MAX", max)), MEMORY).to_string();
        assert_eq!(memory("10Mi"), "185Mi");
        assert_eq!(memory("500Mi"), "535Mi");
    }

    #[test]
    fn s1_068_overhead_never_makes_a_request_out_of_nothing() {
        assert!(kubelet_request(&spec(SIDECAR.replace("MAX", "1").as_str()), CPU).is_zero());
    }

    #[test]
    fn s1_068_pod_level_resources_hide_the_containers() {
        let pod = r#"{"containers":[{"resources":{"requests":{"memory":"1Gi","ephemeral-storage":"1Gi"}}}],"resources":{"limits":{"memory":"2Gi"},"requests":{"cpu":"1"}}}"#;
        assert!(kubelet_request(&spec(pod), MEMORY).is_zero());
        assert!(kubelet_request(&spec(pod), EPHEMERAL_STORAGE).is_zero());
        assert_eq!(kubelet_request(&spec(pod), CPU).to_string(), "1");
        let empty = pod.replace(r#""limits":{"memory":"2Gi"},"requests":{"cpu":"1"}"#, "");
        assert_eq!(kubelet_request(&spec(&empty), MEMORY).to_string(), "1Gi");
    }

    #[test]
    fn s1_068_an_init_container_starts_beside_earlier_sidecars_only() {
        let request = |json: &str| kubelet_request(&spec(json), MEMORY).to_string();
        let (sidecar, starter) = (
            r#"{"restartPolicy":"Always","resources":{"requests":{"memory":"10Mi"}}}"#,
            r#"{"resources":{"requests":{"memory":"128Mi"}}}"#,
        );
        let pod = |init: [&str; 2]| format!(r#"{{"initContainers":[{}]}}"#, init.join(","));
        assert_eq!(request(&pod([sidecar, starter])), "138Mi");
        assert_eq!(request(&pod([starter, sidecar])), "128Mi");
    }

    #[test]
    fn s1_068_the_scheduler_takes_pod_level_values_one_by_one_and_always_adds_overhead() {
        let pod = spec(
            r#"{"containers":[{"resources":{"requests":{"memory":"1Gi","cpu":"3"}}}],
            "resources":{"requests":{"cpu":"1"}},"overhead":{"memory":"1Mi","ephemeral-storage":"2Mi"}}"#,
        );
        let request = |resource| scheduler_request(&pod, resource).to_string();
        assert_eq!(request(CPU), "1");
        assert_eq!(request(MEMORY), "1025Mi");
        assert_eq!(request(EPHEMERAL_STORAGE), "2Mi");
    }

    #[test]
    fn s1_070_limits_of_containers_sidecars_and_starters() {
        let of = |json: &str| ephemeral_storage_limit(&spec(json)).map(|limit| limit.to_string());
        assert_eq!(of(r#"{"containers":[{"resources":{}}]}"#), None);
        let limit = |value: &str| {
            format!(r#"{{"resources":{{"limits":{{"ephemeral-storage":"{value}"}}}}}}"#)
        };
        assert_eq!(
            of(&format!(
                r#"{{"containers":[{},{}]}}"#,
                limit("1Gi"),
                limit("2Gi")
            ))
            .unwrap(),
            "3Gi"
        );
        let start = format!(
            r#"{{"containers":[{}],"initContainers":[{}]}}"#,
            limit("1Gi"),
            limit("2Gi")
        );
        assert_eq!(of(&start).unwrap(), "2Gi");
        let sidecar = start.replace(
            r#""initContainers":[{"#,
            r#""initContainers":[{"restartPolicy":"Always","#,
        );
        assert_eq!(of(&sidecar).unwrap(), "3Gi");
    }

    #[test]
    fn s2_025_qos_classes() {
        let table = [
            (r#"{"containers":[{}]}"#, "BestEffort"),
            (
                r#"{"containers":[{"resources":{"requests":{"cpu":"0","memory":"0"}}}]}"#,
                "BestEffort",
            ),
            (
                r#"{"containers":[{"resources":{"requests":{"nvidia.com/gpu":"1"}}}]}"#,
                "BestEffort",
            ),
            (
                r#"{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}"#,
                "Burstable",
            ),
            (
                r#"{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}}]}"#,
                "Guaranteed",
            ),
            (
                r#"{"containers":[{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}}},{}]}"#,
                "Burstable",
            ),
            (
                r#"{"containers":[{"resources":{"limits":{"cpu":"1","memory":"1"}}}]}"#,
                "Burstable",
            ),
            (
                r#"{"resources":{},"containers":[{"resources":{"requests":{"cpu":"1"}}}]}"#,
                "BestEffort",
            ),
            (
                r#"{"resources":{"requests":{"cpu":"1","memory":"1"},"limits":{"cpu":"1","memory":"1"}},"containers":[{}]}"#,
                "Guaranteed",
            ),
            (
                r#"{"resources":{"requests":{"cpu":"1"}},"containers":[{}]}"#,
                "Burstable",
            ),
        ];
        for (json, class) in table {
            assert_eq!(QosClass::of(&spec(json)).as_str(), class, "{json}");
        }
    }
}
