//! Names and units of resources, limits, and QoS classes.

use crate::{
    Quantity,
    compatibility::Release,
    wire::{Container, PodSpec, ResourceList},
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

/// The amount of a resource that is so many [`units`], as it is written.
pub fn quantity(resource: &str, units: i64) -> Quantity {
    match resource {
        CPU => Quantity::milli(units),
        MEMORY | EPHEMERAL_STORAGE => Quantity::bytes(units),
        name if name.starts_with("hugepages-") => Quantity::bytes(units),
        _ => Quantity::count(units),
    }
}

/// Whether more of a resource is requested than is left. Differences wrap around, as in Kubernetes.
pub fn is_short(requested: i64, capacity: i64, used: i64) -> bool {
    requested > 0 && requested > capacity.wrapping_sub(used)
}

/// Whether an init container is a sidecar, which keeps running beside the containers.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy == "Always"
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
        let limit = limit_of(container);
        let at_start = if is_sidecar(container) {
            total = limit.map_or(total, |quantity| add(total, quantity));
            sidecars = limit.map_or(sidecars, |quantity| add(sidecars, quantity));
            sidecars
        } else {
            limit.map_or(sidecars, |quantity| add(sidecars, quantity))
        };
        // Init containers start one after the other, each beside the earlier sidecars.
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

    /// The class of a pod: the one in its status, or the one that follows from its spec.
    pub fn of_pod(pod: &crate::wire::Pod, release: Release) -> Self {
        Self::parse(&pod.status.qos_class).unwrap_or_else(|| Self::of(&pod.spec, release))
    }

    /// The class that follows from requests and limits: from the pod-level resources alone if that field is present, or
    /// from containers and init containers. An empty field decides in 1.36 (S2-025), and not in 1.37 (S7-226).
    pub fn of(spec: &PodSpec, release: Release) -> Self {
        let (mut requests, mut limits) = ([None; 2], [None; 2]);
        let mut all_limited = true;
        let of_pod = spec.resources.as_ref().filter(|resources| {
            let is_empty = resources.requests.is_empty() && resources.limits.is_empty();
            !is_empty || release < Release::V1_37
        });
        if let Some(resources) = of_pod {
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
            // T121 of S7.
            (r#"{"resources":{},"containers":[{}]}"#, "BestEffort"),
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
            let found = QosClass::of(&spec(json), Release::V1_36);
            assert_eq!(found.as_str(), class, "{json}");
        }
    }

    #[test]
    fn s7_226_empty_resources_of_a_pod_decide_its_class_in_1_36_only() {
        let limited = r#"{"cpu":"1","memory":"1"}"#;
        let container = format!(r#"{{"resources":{{"requests":{limited},"limits":{limited}}}}}"#);
        for (resources, old, new) in [
            ("{}", "BestEffort", "Guaranteed"),
            (r#"{"requests":{}}"#, "BestEffort", "Guaranteed"),
            (r#"{"limits":{}}"#, "BestEffort", "Guaranteed"),
            (r#"{"requests":{"cpu":"0"}}"#, "BestEffort", "BestEffort"),
            (r#"{"limits":{"cpu":"0"}}"#, "BestEffort", "BestEffort"),
            (r#"{"requests":{"cpu":"1"}}"#, "Burstable", "Burstable"),
        ] {
            let json = format!(r#"{{"resources":{resources},"containers":[{container}]}}"#);
            let of = |release| QosClass::of(&spec(&json), release).as_str();
            assert_eq!(
                [of(Release::V1_36), of(Release::V1_37)],
                [old, new],
                "{resources}"
            );
        }
        // The class in the status counts in each release.
        let json = r#"{"spec":{"resources":{},"containers":[{"resources":{"requests":{"cpu":"1"}}}]},"status":{"qosClass":"Guaranteed"}}"#;
        let pod: crate::wire::Pod = serde_json::from_str(json).unwrap();
        for release in Release::ALL {
            assert_eq!(QosClass::of_pod(&pod, release), QosClass::Guaranteed);
        }
    }
}
