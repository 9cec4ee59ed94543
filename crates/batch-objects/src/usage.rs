//! The usage of a pod as quotas count it.

use evictd_pod::wire::{PodSpec, ResourceList};
use evictd_pod::{Quantity, Requests};

/// The amounts that quotas count for one pod: cpu, memory and storage by both of their names, limits, huge pages,
/// extended resources, and the pod itself (S6-046, S6-061).
pub fn pod_usage(spec: &PodSpec) -> ResourceList {
    let mut usage = ResourceList::default();
    usage.insert("pods", Quantity::count(1));
    usage.insert("count/pods", Quantity::count(1));
    for (name, amount) in Requests::of_spec(spec).list().iter() {
        let both = matches!(name, "cpu" | "memory" | "ephemeral-storage");
        if both || name.starts_with("hugepages-") || is_extended(name) {
            usage.insert(format!("requests.{name}"), *amount);
            usage.insert(name, *amount);
        }
    }
    let mut limited = spec.clone();
    let containers = limited
        .containers
        .iter_mut()
        .chain(&mut limited.init_containers);
    let resources = containers.map(|container| &mut container.resources);
    for resources in resources.chain(&mut limited.resources) {
        resources.requests = resources.limits.clone();
    }
    for (name, amount) in Requests::of_spec(&limited).list().iter() {
        let known = matches!(name, "cpu" | "memory" | "ephemeral-storage");
        if known && !limit_is_overhead(spec, name, *amount) {
            usage.insert(format!("limits.{name}"), *amount);
        }
    }
    usage
}

/// So many times the amount, saturating. The count comes from users and may be huge.
pub fn times(amount: Quantity, count: i64) -> Quantity {
    let (mut sum, mut power, mut left) = (Quantity::default(), amount, count.max(0));
    while left > 0 {
        if left % 2 == 1 {
            sum += power;
        }
        power += power;
        left /= 2;
    }
    sum
}

/// Whether nothing but the sandbox's own use stands behind the limit: then there is none.
fn limit_is_overhead(spec: &PodSpec, name: &str, amount: Quantity) -> bool {
    spec.overhead.get(name) == Some(&amount)
}

/// Whether it is a resource of a vendor.
fn is_extended(name: &str) -> bool {
    name.contains('/') && !name.contains("kubernetes.io/") && !name.starts_with("requests.")
}
