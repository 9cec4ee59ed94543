//! Which figures of several sources make one usage, and which of them decide.

use evictd_signals::{Signal, StarvedResource};
use evictd_usage::{Extent, FsUsage, PodUsage, Usage};
use jiff::Timestamp;

/// Whether some files exist whose amount is unknown.
pub(super) fn lacks_files(usage: &Usage) -> bool {
    let is_unknown = |files: &FsUsage| files.extent == Extent::Unknown;
    usage.pods.iter().flatten().any(|pod| {
        let mut containers = pod.containers.iter();
        let mut volumes = pod.volumes.iter().map(|volume| &volume.usage);
        is_unknown(&pod.kubelet_files)
            || volumes.any(is_unknown)
            || containers.any(|one| is_unknown(&one.rootfs) || is_unknown(&one.logs))
    })
}

/// The usage without figures from before the crossing; `None` where directories are walked instead.
pub(super) fn measured_since(
    mut usage: Usage,
    signal: Signal,
    crossed: Timestamp,
) -> Option<Usage> {
    let resource = signal.resource();
    let before = |pod: &PodUsage| pod.measured(resource).is_some_and(|time| time < crossed);
    if is_walked_for(signal) {
        let all = usage.pods.iter().flatten().all(|pod| !before(pod));
        return all.then_some(usage);
    }
    for pod in usage.pods.iter_mut().flatten().filter(|pod| before(pod)) {
        (pod.working_set, pod.anon, pod.swap, pod.processes) = (None, None, None, None);
    }
    Some(usage)
}

/// Whether the usage for this signal comes from walking directories.
pub(super) fn is_walked_for(signal: Signal) -> bool {
    matches!(
        signal.resource(),
        StarvedResource::EphemeralStorage | StarvedResource::Inodes
    )
}

/// Memory and processes come from cgroups unless the kubelet reported them; all else comes from the kubelet or the
/// walk.
pub(super) fn merge(usage: &mut Usage, cgroups: Usage) {
    usage.pods.resize_with(cgroups.pods.len(), || None);
    for (whole, cgroup) in usage.pods.iter_mut().zip(cgroups.pods) {
        match (whole.as_mut(), cgroup) {
            (None, cgroup) => *whole = cgroup,
            (Some(_), None) => {}
            (Some(whole), Some(cgroup)) => {
                whole.working_set = whole.working_set.or(cgroup.working_set);
                whole.anon = whole.anon.or(cgroup.anon);
                whole.swap = whole.swap.or(cgroup.swap);
                whole.processes = whole.processes.or(cgroup.processes);
            }
        }
    }
}

/// The kubelet has no statistics of such pods, and ranks pods without statistics first (S1-060).
pub(super) fn forget_unwalked(usage: &mut Usage) {
    for pod in &mut usage.pods {
        *pod = pod.take().filter(|known| *known != PodUsage::not_walked());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_usage::{VolumeUsage, figure::Figure};

    #[test]
    fn files_whose_amount_is_unknown_are_noticed_wherever_they_are() {
        let unknown = FsUsage {
            extent: Extent::Unknown,
            ..FsUsage::default()
        };
        let volume = PodUsage {
            volumes: vec![VolumeUsage {
                usage: unknown,
                ..VolumeUsage::default()
            }],
            ..PodUsage::default()
        };
        let known = PodUsage {
            ephemeral_storage: Some(Figure::bytes(1)),
            ..PodUsage::default()
        };
        let lacks = |pod: Option<PodUsage>| lacks_files(&[pod].into_iter().collect());
        assert!(lacks(Some(PodUsage::not_walked())) && lacks(Some(volume)));
        assert!(!lacks(Some(known)) && !lacks(None));
    }
}
