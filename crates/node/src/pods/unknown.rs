//! Pods that are known only by their cgroup (`unknownPods: rank`): the placeholders that represent them in a ranking.

use super::{BoundCgroup, LocalPod};
use evictd_kernel::cgroup::{Controller, Hierarchies, OwnCgroups, PodCgroup, Version};
use evictd_pod::{Pod, QosClass, Quantity, wire};
use std::{fs, path::Path};

/// No namespace can have this name.
const NAMESPACE: &str = "(unknown)";
/// The highest priority of a user's pod: pods that are known to be less important are evicted first.
const PRIORITY: i32 = 1_000_000_000;
/// On cgroup v1 "no limit" is a number that depends on the page size. It is larger than this, which exceeds the memory
/// of any machine.
const UNLIMITED: i64 = 1 << 60;

/// The placeholder for a pod. `None` for pods that are never chosen: evictd's own, static pods, and pods whose
/// request cannot be determined.
pub(super) fn placeholder(
    group: &PodCgroup,
    daemon: &OwnCgroups,
    hierarchies: &Hierarchies,
) -> Option<LocalPod> {
    // The UID of a static pod is a hash; other UIDs contain dashes.
    if daemon.are_within(&group.relative) || !group.uid.contains('-') {
        return None;
    }
    let qos = qos(&group.relative);
    let request = match qos {
        QosClass::Guaranteed => limit(hierarchies, &group.relative)?,
        QosClass::Burstable | QosClass::BestEffort => Quantity::ZERO,
    };
    let mut pod = wire::Pod::default();
    NAMESPACE.clone_into(&mut pod.metadata.namespace);
    pod.metadata.name.clone_from(&group.uid);
    pod.metadata.uid = group.uid.as_str().into();
    pod.spec.priority = Some(PRIORITY);
    let mut pod = Pod::from_wire(pod);
    pod.qos = qos;
    pod.set_memory_request(request);
    let cgroup = BoundCgroup {
        relative: group.relative.clone(),
        by_annotation: false,
    };
    Some(LocalPod::new(pod, Some(cgroup)))
}

/// The kubelet puts pods of the classes Burstable and BestEffort into a cgroup of the class.
fn qos(relative: &Path) -> QosClass {
    let class = relative
        .parent()
        .and_then(Path::file_name)
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let class = class.strip_suffix(".slice").unwrap_or(class);
    if class.ends_with("besteffort") {
        QosClass::BestEffort
    } else if class.ends_with("burstable") {
        QosClass::Burstable
    } else {
        QosClass::Guaranteed
    }
}

/// For a Guaranteed pod the limit equals the request.
fn limit(hierarchies: &Hierarchies, relative: &Path) -> Option<Quantity> {
    let file = match hierarchies.version() {
        Version::V2 => "memory.max",
        Version::V1 | Version::Hybrid => "memory.limit_in_bytes",
    };
    let directory = hierarchies.dir(Controller::Memory, relative)?;
    let text = fs::read_to_string(directory.join(file)).ok()?;
    let bytes = text.trim().parse().ok().filter(|bytes| *bytes < UNLIMITED);
    bytes.map(Quantity::bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_qos_class_is_read_from_the_path() {
        for (path, class) in [
            ("kubepods/podu", QosClass::Guaranteed),
            ("kubepods/burstable/podu", QosClass::Burstable),
            ("kubepods/besteffort/podu", QosClass::BestEffort),
            ("kubepods.slice/kubepods-podu.slice", QosClass::Guaranteed),
            (
                "a.slice/a-kubepods-burstable.slice/a-kubepods-burstable-podu.slice",
                QosClass::Burstable,
            ),
            (
                "kubepods.slice/kubepods-besteffort.slice/kubepods-besteffort-podu.slice",
                QosClass::BestEffort,
            ),
        ] {
            assert_eq!(qos(Path::new(path)), class, "{path}");
        }
    }
}
