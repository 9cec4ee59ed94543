//! Limits of a pod on local storage: per emptyDir volume, per pod, per container (S1-069 to S1-072).

use crate::rules::StorageLimits;
use evictd_decision::LocalStorageLimit;
use evictd_pod::{Container, Pod, Quantity};
use evictd_usage::{PodUsage, figure::sum};

/// A limit that a pod exceeds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exceeded {
    /// Which of its limits.
    pub limit: LocalStorageLimit,
    /// The kubelet's message about it.
    pub message: String,
    /// The amount that was compared with the limit, in bytes.
    pub used: Quantity,
}

/// The first limit that the pod exceeds; at most one per pod (S1-072).
pub fn exceeded(pod: &Pod, usage: &PodUsage, counts: StorageLimits) -> Option<Exceeded> {
    let of = |limit, found: Option<(String, Quantity)>| {
        let (message, used) = found?;
        Some(Exceeded {
            limit,
            message,
            used,
        })
    };
    of(LocalStorageLimit::EmptyDir, empty_dir(pod, usage))
        .or_else(|| of(LocalStorageLimit::Pod, whole_pod(pod, usage, counts)))
        .or_else(|| {
            let found = container(pod, usage, counts);
            of(LocalStorageLimit::Container, found)
        })
}

/// Whether the pod has any such limit, so that its usage needs to be known.
pub fn limited(pod: &Pod) -> bool {
    pod.ephemeral_storage_limit.is_some()
        || pod
            .volumes
            .iter()
            .any(|volume| volume.empty_dir_limit.is_some())
        || pod
            .containers
            .iter()
            .any(|container| container.ephemeral_storage_limit.is_some())
}

/// The kubelet crashes on a volume without a usage figure; here nothing shows that it exceeds its limit.
fn empty_dir(pod: &Pod, usage: &PodUsage) -> Option<(String, Quantity)> {
    pod.volumes.iter().find_map(|volume| {
        let limit = volume.empty_dir_limit?;
        // If a volume is listed twice, the last figure counts.
        let used = usage
            .volumes
            .iter()
            .rfind(|used| used.name == volume.name)?;
        let used = Quantity::bytes(used.usage.bytes?.value);
        (used > limit).then(|| {
            let message = format!(
                "Usage of EmptyDir volume {:?} exceeds the limit {:?}. ",
                volume.name,
                limit.to_string()
            );
            (message, used)
        })
    })
}

fn whole_pod(pod: &Pod, usage: &PodUsage, counts: StorageLimits) -> Option<(String, Quantity)> {
    let limit = pod.ephemeral_storage_limit?;
    let of_kubelet = usage.kubelet_files.bytes.filter(|_| counts.kubelet_files);
    let used = sum([usage.ephemeral_storage, of_kubelet].into_iter())?;
    let used = Quantity::bytes(used.value);
    (used > limit).then(|| {
        let message = format!(
            "Pod ephemeral local storage usage exceeds the total limit of containers {limit}. "
        );
        (message, used)
    })
}

fn container(pod: &Pod, usage: &PodUsage, counts: StorageLimits) -> Option<(String, Quantity)> {
    usage.containers.iter().find_map(|figures| {
        let limited = |one: &&Container| !one.init || (one.sidecar && counts.sidecars);
        let mut containers = pod.containers.iter().filter(limited);
        let container = containers.find(|container| container.name == figures.name)?;
        let limit = container.ephemeral_storage_limit?;
        let layer = figures.rootfs.bytes.filter(|_| counts.layers);
        let used = Quantity::bytes(sum([figures.logs.bytes, layer].into_iter())?.value);
        (used > limit).then(|| {
            let message = format!(
                "Container {} exceeded its local ephemeral storage limit {:?}. ",
                figures.name,
                limit.to_string()
            );
            (message, used)
        })
    })
}
