//! The limits of a pod as a whole.

use super::{amounts, sums};
use crate::Quantity;
use crate::wire::PodSpec;

/// The limits of all resources, sorted by name. They add up as requests do, but the overhead is added only to a limit above
/// zero, because a resource without a limit stays without one.
pub fn limits(spec: &PodSpec) -> Vec<(&str, Quantity)> {
    let limits = amounts(spec, |resources| &resources.limits, true);
    sums(limits, |sum| {
        let limit = sum.pod_level.unwrap_or_else(|| sum.of_containers());
        (!limit.is_zero()).then(|| limit + sum.overhead)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn limits_add_up_and_the_overhead_makes_no_limit() {
        let limits_of = |spec: serde_json::Value| {
            let spec: PodSpec = serde_json::from_value(spec).unwrap();
            let limits = limits(&spec);
            let limits = limits.iter().map(|(name, limit)| format!("{name}={limit}"));
            limits.collect::<Vec<_>>().join(" ")
        };
        let limit = |cpu: &str| json!({ "resources": { "limits": { "cpu": cpu } } });
        let containers = json!([limit("1"), limit("500m"), {}]);
        let overhead = json!({ "cpu": "100m", "memory": "1Gi" });
        let spec = json!({ "containers": containers, "overhead": overhead });
        assert_eq!(limits_of(spec), "cpu=1600m");
        let mut starter = limit("3");
        let spec = json!({ "containers": containers, "initContainers": [starter] });
        assert_eq!(limits_of(spec), "cpu=3");
        starter["restartPolicy"] = json!("Always");
        let spec = json!({ "containers": containers, "initContainers": [starter] });
        assert_eq!(limits_of(spec), "cpu=4500m");
        let of_pod = json!({ "limits": { "cpu": "2", "memory": "4Gi" } });
        let spec = json!({ "containers": containers, "resources": of_pod });
        assert_eq!(limits_of(spec), "cpu=2 memory=4Gi");
    }
}
