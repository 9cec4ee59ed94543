//! The kubelet's `/stats/summary` document: the node's signals and every pod's usage.

use crate::{
    ContainerUsage, FsUsage, GroupStall, PodUsage, Stalls, Usage, VolumeUsage,
    figure::{Bytes, Figure, Source},
};
use evictd_pod::{Pod, wire::null_is_default};
use evictd_signals::{Observation, Observations, Signal, pressure::Stall};
use jiff::Timestamp;
use serde::{Deserialize, Deserializer};
use std::borrow::Borrow;
use std::collections::HashMap;

/// The kubelet's response at `/stats/summary`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct Summary {
    /// Figures of the node as a whole.
    #[serde(deserialize_with = "null_is_default")]
    pub node: NodeStats,
    /// Figures of each pod that the kubelet runs.
    #[serde(deserialize_with = "null_is_default")]
    pub pods: Vec<PodStats>,
}

/// Figures of the node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeStats {
    /// Name of the node.
    #[serde(deserialize_with = "null_is_default")]
    pub node_name: String,
    /// Memory of the whole node, in bytes.
    pub memory: Option<MemoryStats>,
    /// The filesystem with the kubelet's root directory.
    pub fs: Option<FsStats>,
    /// Filesystems of the container runtime.
    pub runtime: Option<RuntimeStats>,
    /// Process ids in use, and the most there can be.
    pub rlimit: Option<RlimitStats>,
    /// Pressure on devices.
    pub io: Option<IoStats>,
    /// Swap of the whole node, in bytes.
    pub swap: Option<SwapStats>,
    /// Cgroups such as `pods`.
    #[serde(deserialize_with = "null_is_default")]
    pub system_containers: Vec<ContainerStats>,
}

/// Memory figures in bytes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct MemoryStats {
    #[serde(deserialize_with = "time")]
    time: Option<Timestamp>,
    available_bytes: Option<u64>,
    working_set_bytes: Option<u64>,
    rss_bytes: Option<u64>,
    psi: Option<PsiStats>,
    /// Memory set aside as huge pages, if it is to be subtracted.
    #[serde(skip)]
    huge_pages: u64,
}

/// Filesystem figures in bytes and inodes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct FsStats {
    #[serde(deserialize_with = "time")]
    time: Option<Timestamp>,
    available_bytes: Option<u64>,
    capacity_bytes: Option<u64>,
    used_bytes: Option<u64>,
    inodes_free: Option<u64>,
    inodes: Option<u64>,
    inodes_used: Option<u64>,
}

/// Filesystems of the container runtime.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct RuntimeStats {
    image_fs: Option<FsStats>,
    container_fs: Option<FsStats>,
}

/// Process ids of the node.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct RlimitStats {
    #[serde(deserialize_with = "time")]
    time: Option<Timestamp>,
    maxpid: Option<i64>,
    curproc: Option<i64>,
}

/// Figures of a container or a system cgroup.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ContainerStats {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    memory: Option<MemoryStats>,
    io: Option<IoStats>,
    rootfs: Option<FsStats>,
    logs: Option<FsStats>,
}

/// Figures of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodStats {
    /// The pod that the figures are of.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_ref: PodReference,
    memory: Option<MemoryStats>,
    #[serde(deserialize_with = "null_is_default")]
    containers: Vec<ContainerStats>,
    #[serde(rename = "volume", deserialize_with = "null_is_default")]
    volumes: Vec<VolumeStats>,
    #[serde(rename = "ephemeral-storage")]
    ephemeral_storage: Option<FsStats>,
    #[serde(rename = "process_stats")]
    process_stats: Option<ProcessStats>,
    swap: Option<SwapStats>,
    io: Option<IoStats>,
}

/// Identity of a pod.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct PodReference {
    /// The pod's namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// The pod's name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The pod's UID, by which figures and pods are matched.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct VolumeStats {
    #[serde(deserialize_with = "null_is_default")]
    name: String,
    #[serde(flatten)]
    usage: FsStats,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct ProcessStats {
    process_count: Option<u64>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PsiStats {
    full: PsiData,
    some: PsiData,
}

/// Averages in percent.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
struct PsiData {
    avg10: f64,
    avg60: f64,
    avg300: f64,
}

/// Pressure on devices (kubelet 1.33 and later).
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub struct IoStats {
    #[serde(deserialize_with = "time")]
    time: Option<Timestamp>,
    psi: Option<PsiStats>,
}

/// Swap in bytes.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SwapStats {
    #[serde(deserialize_with = "time")]
    time: Option<Timestamp>,
    swap_available_bytes: Option<u64>,
    swap_usage_bytes: Option<u64>,
}

/// Go's zero time means that there is no time.
fn time<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Timestamp>, D::Error> {
    let zero = Timestamp::from_second(-62_135_596_800).ok();
    Ok(Option::deserialize(deserializer)?.filter(|time| Some(*time) != zero))
}

/// Go converts unsigned figures to signed ones this way.
fn signed(value: u64) -> i64 {
    value.cast_signed()
}

impl Summary {
    /// The node's signals (S1-018 to S1-021) and evictd's own.
    pub fn observations(&self) -> Observations {
        let node = &self.node;
        let mut all = Observations::default();
        // The cgroup above all pods, which is what the allocatable amount limits.
        let system_pods = node
            .system_containers
            .iter()
            .find(|container| container.name == "pods");
        let pods_memory = system_pods.and_then(|container| container.memory.as_ref());
        all.set(
            Signal::MemoryAvailable,
            node.memory.as_ref().and_then(MemoryStats::observation),
        );
        all.set(
            Signal::AllocatableMemoryAvailable,
            pods_memory.and_then(MemoryStats::observation),
        );
        let runtime = node.runtime.as_ref();
        let filesystems = [
            (
                node.fs.as_ref(),
                Signal::NodefsAvailable,
                Signal::NodefsInodesFree,
            ),
            (
                runtime.and_then(|runtime| runtime.image_fs.as_ref()),
                Signal::ImagefsAvailable,
                Signal::ImagefsInodesFree,
            ),
            (
                runtime.and_then(|runtime| runtime.container_fs.as_ref()),
                Signal::ContainerfsAvailable,
                Signal::ContainerfsInodesFree,
            ),
        ];
        for (filesystem, bytes, inodes) in filesystems {
            all.set(bytes, filesystem.and_then(FsStats::bytes));
            all.set(inodes, filesystem.and_then(FsStats::inodes));
        }
        all.set(
            Signal::PidAvailable,
            node.rlimit.as_ref().and_then(RlimitStats::observation),
        );
        all.set(
            Signal::SwapAvailable,
            node.swap.as_ref().and_then(SwapStats::observation),
        );
        let psi = |psi: Option<&PsiStats>| psi.map(PsiStats::stall);
        let memory = node.memory.as_ref();
        all.set_stall(
            Signal::MemoryPsi,
            psi(memory.and_then(|memory| memory.psi.as_ref())),
            memory.and_then(|memory| memory.time),
        );
        let io = node.io.as_ref();
        all.set_stall(
            Signal::IoPsi,
            psi(io.and_then(|io| io.psi.as_ref())),
            io.and_then(|io| io.time),
        );
        all
    }

    /// Subtracts memory set aside as huge pages from the node's available memory. A kubelet before 1.37 computes that
    /// as the capacity less the working set (S7-280). The capacity stays.
    pub fn subtract_huge_pages(&mut self, bytes: i64) {
        let bytes = u64::try_from(bytes).unwrap_or(0);
        let capacity = |memory: &MemoryStats| memory.observation().map(|seen| seen.capacity);
        let all = self.node.memory.as_ref().and_then(capacity);
        // A limit below the node's capacity leaves them out already.
        let others = self.node.system_containers.iter_mut();
        let of_others = others.filter_map(|container| container.memory.as_mut());
        let unlimited = of_others.filter(|memory| capacity(memory) == all);
        for memory in self.node.memory.iter_mut().chain(unlimited) {
            memory.huge_pages = bytes;
        }
    }

    /// The usage of these pods, matched by UID; if a UID occurs twice the last entry counts.
    pub fn usage(&self, pods: &[impl Borrow<Pod>]) -> Usage {
        let by_uid: HashMap<&str, &PodStats> = self
            .pods
            .iter()
            .map(|stats| (stats.pod_ref.uid.as_str(), stats))
            .collect();
        let stats_of = |pod: &Pod| by_uid.get(pod.uid.as_str()).copied();
        let stats: Vec<Option<&PodStats>> = pods.iter().map(Borrow::borrow).map(stats_of).collect();
        let stalls = |signal| {
            let of_pod = |stats: Option<&PodStats>| {
                let stats = stats?;
                group_stall(signal, stats.memory.as_ref(), stats.io.as_ref())
            };
            let others = self.node.system_containers.iter();
            // It contains the pods, whose pressure would count twice.
            let others = others.filter(|container| container.name != "pods");
            let of_other =
                |one: &ContainerStats| group_stall(signal, one.memory.as_ref(), one.io.as_ref());
            Stalls {
                pods: stats.iter().copied().map(of_pod).collect(),
                others: others.filter_map(of_other).collect(),
            }
        };
        Usage {
            memory_stalls: stalls(Signal::MemoryPsi),
            io_stalls: stalls(Signal::IoPsi),
            pods: stats.iter().map(|stats| Some((*stats)?.usage())).collect(),
        }
    }
}

/// The pressure of one cgroup. Whether it is at a limit of the cgroup's own the summary does not say.
fn group_stall(
    signal: Signal,
    memory: Option<&MemoryStats>,
    io: Option<&IoStats>,
) -> Option<GroupStall> {
    let psi = match signal {
        Signal::IoPsi => io?.psi.as_ref(),
        _ => memory?.psi.as_ref(),
    };
    let all = psi?.stall();
    Some(GroupStall {
        all,
        // Without any stall there is none at a limit either.
        at_own_limit: all.is_zero().then_some(all),
    })
}

impl MemoryStats {
    /// A working set of zero beside memory of its processes was not measured.
    fn working_set(&self) -> Option<Figure<Bytes>> {
        let bytes = self.working_set_bytes?;
        let impossible = bytes == 0 && self.rss_bytes.is_some_and(|rss| rss > 0);
        let figure = Figure::bytes(signed(bytes)).measured(Source::Kubelet, self.time);
        (!impossible).then_some(figure)
    }

    fn observation(&self) -> Option<Observation> {
        let (available, working_set) = (self.available_bytes?, self.working_set_bytes?);
        Some(Observation {
            available: signed(available.saturating_sub(self.huge_pages)),
            capacity: signed(available.wrapping_add(working_set)),
            time: self.time,
        })
    }
}

impl FsStats {
    fn bytes(&self) -> Option<Observation> {
        Some(Observation {
            available: signed(self.available_bytes?),
            capacity: signed(self.capacity_bytes?),
            time: self.time,
        })
    }

    fn inodes(&self) -> Option<Observation> {
        Some(Observation {
            available: signed(self.inodes_free?),
            capacity: signed(self.inodes?),
            time: self.time,
        })
    }

    fn usage(stats: Option<&Self>) -> FsUsage {
        FsUsage {
            bytes: stats.and_then(|stats| {
                let bytes = Figure::bytes(signed(stats.used_bytes?));
                Some(bytes.measured(Source::Kubelet, stats.time))
            }),
            inodes: stats.and_then(|stats| {
                let inodes = Figure::inodes(signed(stats.inodes_used?));
                Some(inodes.measured(Source::Kubelet, stats.time))
            }),
            ..FsUsage::default()
        }
    }
}

impl RlimitStats {
    fn observation(&self) -> Option<Observation> {
        let (most, running) = (self.maxpid?, self.curproc?);
        Some(Observation {
            available: most.wrapping_sub(running),
            capacity: most,
            time: self.time,
        })
    }
}

impl SwapStats {
    /// `None` on a node without swap.
    fn observation(&self) -> Option<Observation> {
        let (left, used) = (self.swap_available_bytes?, self.swap_usage_bytes?);
        let capacity = signed(left.checked_add(used)?);
        (capacity > 0).then_some(Observation {
            available: signed(left),
            capacity,
            time: self.time,
        })
    }
}

impl PsiStats {
    fn stall(&self) -> Stall {
        let averages = |data: &PsiData| [data.avg10, data.avg60, data.avg300].map(hundredths);
        Stall {
            some: averages(&self.some),
            full: averages(&self.full),
        }
    }
}

/// From percent; impossible values are clamped.
#[allow(clippy::cast_possible_truncation, reason = "it is within bounds")]
#[allow(clippy::cast_sign_loss, reason = "it is within bounds")]
fn hundredths(percent: f64) -> u16 {
    (percent.clamp(0.0, 100.0) * 100.0).round() as u16
}

impl PodStats {
    fn usage(&self) -> PodUsage {
        let memory = self.memory.as_ref();
        let container = |stats: &ContainerStats| ContainerUsage {
            name: stats.name.clone(),
            working_set: stats.memory.as_ref().and_then(MemoryStats::working_set),
            rootfs: FsStats::usage(stats.rootfs.as_ref()),
            logs: FsStats::usage(stats.logs.as_ref()),
            directories: None,
        };
        let volume = |stats: &VolumeStats| VolumeUsage {
            name: stats.name.clone(),
            usage: FsStats::usage(Some(&stats.usage)),
            directories: None,
        };
        let swap = self.swap.as_ref().and_then(|swap| {
            let bytes = Figure::bytes(signed(swap.swap_usage_bytes?));
            Some(bytes.measured(Source::Kubelet, swap.time))
        });
        let time = memory.and_then(|memory| memory.time);
        let processes = self.process_stats.as_ref().and_then(|stats| {
            let processes =
                Figure::processes(i64::try_from(stats.process_count?).unwrap_or(i64::MAX));
            Some(processes.measured(Source::Kubelet, time))
        });
        PodUsage {
            working_set: memory.and_then(MemoryStats::working_set),
            swap,
            processes,
            ephemeral_storage: FsStats::usage(self.ephemeral_storage.as_ref()).bytes,
            containers: self.containers.iter().map(container).collect(),
            volumes: self.volumes.iter().map(volume).collect(),
            ..PodUsage::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn observed(json: &str, signal: Signal) -> Option<(i64, i64)> {
        let summary: Summary = serde_json::from_str(json).unwrap();
        let all = summary.observations();
        all.get(signal).map(|seen| (seen.available, seen.capacity))
    }

    #[test]
    fn s1_018_s1_019_memory() {
        let memory = r#"{"memory":{"availableBytes":70,"workingSetBytes":30}}"#;
        assert_eq!(
            observed(&format!(r#"{{"node":{memory}}}"#), Signal::MemoryAvailable),
            Some((70, 100))
        );
        let pods = r#"{"node":{"systemContainers":[{"name":"kubelet"},{"name":"pods","memory":{"availableBytes":7,"workingSetBytes":3}}]}}"#;
        assert_eq!(
            observed(pods, Signal::AllocatableMemoryAvailable),
            Some((7, 10))
        );
        assert_eq!(observed(pods, Signal::MemoryAvailable), None);
        assert_eq!(
            observed(
                r#"{"node":{"memory":{"availableBytes":70}}}"#,
                Signal::MemoryAvailable
            ),
            None
        );
    }

    #[test]
    fn s1_020_each_half_needs_both_its_values() {
        let fs = r#"{"node":{"fs":{"availableBytes":1,"capacityBytes":2,"inodesFree":3},"runtime":{"imageFs":{"inodesFree":5,"inodes":6},"containerFs":null}}}"#;
        assert_eq!(observed(fs, Signal::NodefsAvailable), Some((1, 2)));
        assert_eq!(observed(fs, Signal::NodefsInodesFree), None);
        assert_eq!(observed(fs, Signal::ImagefsInodesFree), Some((5, 6)));
        assert_eq!(observed(fs, Signal::ContainerfsAvailable), None);
    }

    #[test]
    fn s1_021_process_ids() {
        assert_eq!(
            observed(
                r#"{"node":{"rlimit":{"maxpid":100,"curproc":30}}}"#,
                Signal::PidAvailable
            ),
            Some((70, 100))
        );
        assert_eq!(
            observed(
                r#"{"node":{"rlimit":{"maxpid":100}}}"#,
                Signal::PidAvailable
            ),
            None
        );
    }

    #[test]
    fn gos_zero_time_is_no_time() {
        let summary: Summary = serde_json::from_str(
            r#"{"node":{"memory":{"time":"0001-01-01T00:00:00Z","availableBytes":1,"workingSetBytes":1},"startTime":null},"pods":null}"#,
        )
        .unwrap();
        assert_eq!(
            summary
                .observations()
                .get(Signal::MemoryAvailable)
                .unwrap()
                .time,
            None
        );
    }
}
