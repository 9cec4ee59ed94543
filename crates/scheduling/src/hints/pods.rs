//! Hints about the resources of other pods (S5-103).

use crate::change::is_assigned;
use crate::events::{counted, counted_both};
use evictd_pod::predicates::host_ports;
use evictd_pod::wire::Pod;

/// `NodePorts`: the deleted pod had a host port that this pod needs.
pub(super) fn frees_port(pod: &Pod, deleted: &Pod) -> bool {
    let wanted: Vec<_> = host_ports(&pod.spec, |text| text).collect();
    let mut freed = host_ports(&deleted.spec, |text| text);
    freed.any(|freed| wanted.iter().any(|port| port.conflicts(&freed)))
}

/// `NodeResourcesFit`: the other pod requests less of a resource that this one requests.
pub(super) fn frees_resource(pod: &Pod, old: &Pod, new: &Pod) -> bool {
    if !is_assigned(new) {
        return false;
    }
    let wanted = counted(pod);
    counted_both(old, new).any(|[old, new]| {
        wanted.iter().any(|(name, amount)| {
            let before = old.get(name).copied().unwrap_or(0);
            let after = new.get(name).copied().unwrap_or(0);
            *amount > 0 && after < before
        })
    })
}
