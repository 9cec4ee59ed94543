//! Chooses the sources of the signals, and reports the figures that they lack on this machine.

use super::pod_roots;
use crate::config::{self, Effective, Kind, UsageSource};
use evictd_kernel::{
    cgroup::{Controller, Hierarchies},
    signals::{
        FilesystemPaths, GroupPressure, MemoryAvailable, Sampler, SignalSources, SourceError,
    },
    wake::{MemcgNotification, WakeListeners, WakeSources},
};
use evictd_signals::{Signal, human_bytes};
use std::path::Path;

/// Notifications from the kernel, by the kind of configuration: for evictd's own, pressure and memory events; for a
/// kubelet's, cgroup v1 memory thresholds.
pub(super) fn wake_listeners(config: &Effective, hierarchies: &Hierarchies) -> WakeListeners {
    let sources = signal_sources(config, hierarchies);
    if config.kind == Kind::Kubelet {
        let memcg = config.kernel_memcg_notification.then(|| {
            let node = sources.node_cgroup.as_ref();
            MemcgNotification::new(hierarchies, node, &sources.pods_cgroups)
        });
        return WakeListeners::new(WakeSources::default(), memcg.flatten());
    }
    let mut thresholds = config.configured_thresholds.iter();
    let io = thresholds.any(|threshold| threshold.signal == Signal::IoPsi);
    let pods = sources.pods_cgroups.iter();
    let wake = WakeSources {
        memory: Some(sources.pressure("memory")),
        io: io.then(|| sources.pressure("io")),
        pods: pods
            .filter_map(|group| hierarchies.unified(group))
            .collect(),
    };
    WakeListeners::new(wake, None)
}

pub(super) fn sampler(
    config: &Effective,
    hierarchies: &Hierarchies,
    filesystems: FilesystemPaths,
) -> Result<Sampler, SourceError> {
    Sampler::new(&SignalSources {
        filesystems,
        ..signal_sources(config, hierarchies)
    })
}

fn signal_sources(config: &Effective, hierarchies: &Hierarchies) -> SignalSources {
    // The cgroup that acts as the node is watched as the node, not as the pods' cgroup.
    let mut pods_cgroups = pod_roots(config);
    pods_cgroups.retain(|root| {
        let node = config.node_cgroup.as_ref();
        node.is_none_or(|node| node.as_path() != root)
    });
    SignalSources {
        proc_root: config.roots.proc.clone(),
        hierarchies: Some(hierarchies.clone()),
        node_cgroup: config
            .node_cgroup
            .as_ref()
            .map(|path| path.as_path().to_owned()),
        pods_cgroups,
        memory_available: match config.memory_available {
            config::MemoryAvailable::MemAvailable => MemoryAvailable::MemAvailable,
            config::MemoryAvailable::WorkingSet => MemoryAvailable::WorkingSet,
        },
        filesystems: FilesystemPaths::default(),
    }
}

/// Under the kubelet's rules huge pages count as available until the kubelet's version is known (S7-280). Returns a
/// warning about that.
pub(super) fn huge_pages(config: &Effective, sampler: &mut Sampler) -> Option<String> {
    if config.kind == Kind::Evictd
        || config.memory_available == config::MemoryAvailable::MemAvailable
    {
        return None;
    }
    let reserved = sampler.huge_pages().filter(|bytes| *bytes > 0);
    sampler.subtract_huge_pages(false);
    let reserved = human_bytes(i64::try_from(reserved?).unwrap_or(i64::MAX));
    Some(format!(
        "memory.available counts {reserved} of huge pages as available, unless the node's kubelet is 1.37 or later, \
         because a kubelet before that does"
    ))
}

/// A warning about pods' memory where it comes from cgroups and no hierarchy has it. The kernel can be built without the
/// controller of cgroup v1.
pub(super) fn without_pod_memory(source: UsageSource, hierarchies: &Hierarchies) -> Option<String> {
    // The root stands for all cgroups: a hierarchy has a controller everywhere or nowhere.
    let is_there = hierarchies.dir(Controller::Memory, Path::new("")).is_some();
    (source == UsageSource::Cgroup && !is_there).then(|| {
        "memory.available: no memory controller is mounted, so that the memory of pods is unknown and victims cannot be chosen by it; boot with cgroup v2, or with a kernel that has the controller (CONFIG_MEMCG_V1)"
            .to_owned()
    })
}

/// A warning about pressure signals where no pod's own pressure can be read.
pub(super) fn without_own_pressure(
    config: &Effective,
    hierarchies: &Hierarchies,
) -> Option<String> {
    let thresholds = config.configured_thresholds.iter();
    let signals: Vec<&str> = Signal::ALL
        .into_iter()
        .filter(|signal| signal.is_pressure())
        .filter(|signal| thresholds.clone().any(|one| one.signal == *signal))
        .map(Signal::as_str)
        .collect();
    let groups = GroupPressure::new(hierarchies.clone());
    let mut roots = config.cgroup_roots.iter();
    if signals.is_empty() || roots.any(|root| groups.may_be_known(root.as_path())) {
        return None;
    }
    let acts = if config.evict_without_relief {
        "pods are evicted all the same (evictWithoutRelief)"
    } else {
        "no pod is evicted for it (evictWithoutRelief: true evicts without that)"
    };
    Some(format!(
        "{}: the kernel reports the pressure of no single pod here, which needs cgroup v2; {acts}",
        signals.join(", ")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Debian 13 with cgroup v1: its kernel is built without that memory controller.
    #[test]
    fn pods_whose_memory_no_controller_counts_are_warned_of() {
        let root = tempfile::tempdir().unwrap();
        let warned = |source| {
            let hierarchies = Hierarchies::detect(root.path()).unwrap();
            without_pod_memory(source, &hierarchies).is_some()
        };
        std::fs::create_dir(root.path().join("pids")).unwrap();
        assert!(warned(UsageSource::Cgroup) && !warned(UsageSource::Summary));
        std::fs::create_dir(root.path().join("memory")).unwrap();
        assert!(!warned(UsageSource::Cgroup));
    }
}
