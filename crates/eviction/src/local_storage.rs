//! Limits of a pod on local storage: per emptyDir volume, per pod, per container (S1-069 to S1-072).

use crate::{
    decision::LocalStorageLimit,
    usage::{FsUsage, PodUsage},
};
use evictd_pod::{Pod, Quantity};

/// The first limit that the pod exceeds, and the message for it; at most one per pod (S1-072).
pub fn exceeded(
    pod: &Pod,
    usage: &PodUsage,
    dedicated_image_fs: bool,
) -> Option<(LocalStorageLimit, String)> {
    empty_dir(pod, usage)
        .map(|message| (LocalStorageLimit::EmptyDir, message))
        .or_else(|| whole_pod(pod, usage).map(|message| (LocalStorageLimit::Pod, message)))
        .or_else(|| {
            container(pod, usage, dedicated_image_fs)
                .map(|message| (LocalStorageLimit::Container, message))
        })
}

/// Whether the pod has any such limit, so that its usage needs to be known.
pub fn limited(pod: &Pod) -> bool {
    pod.ephemeral_storage_limit.is_some()
        || pod
            .volumes
            .iter()
            .any(|volume| volume.empty_dir_limit.is_some())
}

/// The kubelet crashes on a volume without a usage figure; here such a volume counts as empty.
fn empty_dir(pod: &Pod, usage: &PodUsage) -> Option<String> {
    pod.volumes.iter().find_map(|volume| {
        let limit = volume.empty_dir_limit?;
        // If a volume is listed twice, the last figure counts.
        let used = usage
            .volumes
            .iter()
            .rfind(|used| used.name == volume.name)?;
        let used = Quantity::bytes(used.usage.bytes.unwrap_or(0));
        (used > limit).then(|| {
            format!(
                "Usage of EmptyDir volume {:?} exceeds the limit {:?}. ",
                volume.name,
                limit.to_string()
            )
        })
    })
}

fn whole_pod(pod: &Pod, usage: &PodUsage) -> Option<String> {
    let limit = pod.ephemeral_storage_limit?;
    let used = Quantity::bytes(usage.ephemeral_storage.unwrap_or(0));
    (used > limit).then(|| {
        format!("Pod ephemeral local storage usage exceeds the total limit of containers {limit}. ")
    })
}

fn container(pod: &Pod, usage: &PodUsage, dedicated_image_fs: bool) -> Option<String> {
    let bytes = |used: FsUsage| used.bytes.unwrap_or(0);
    usage.containers.iter().find_map(|figures| {
        let mut regular = pod.containers.iter().filter(|container| !container.init);
        let container = regular.find(|container| container.name == figures.name)?;
        let limit = container.ephemeral_storage_limit?;
        let layer = if dedicated_image_fs {
            0
        } else {
            bytes(figures.rootfs)
        };
        let used = Quantity::bytes(bytes(figures.logs).saturating_add(layer));
        (used > limit).then(|| {
            format!(
                "Container {} exceeded its local ephemeral storage limit {:?}. ",
                figures.name,
                limit.to_string()
            )
        })
    })
}
