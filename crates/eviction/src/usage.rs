//! What each pod uses, as far as it is known.

use crate::{Signal, stalls::Stalls};
use serde::Serialize;

/// Usage of every pod, parallel to the slice of pods it was measured for. `None`: the pod's usage is not known.
#[derive(Debug, Clone, Default)]
pub struct Usage {
    /// One entry per pod.
    pub pods: Vec<Option<PodUsage>>,
    /// Who waits for memory; measured for `memory.psi` only.
    pub memory_stalls: Stalls,
    /// Who waits for I/O; measured for `io.psi` only.
    pub io_stalls: Stalls,
}

impl Usage {
    /// The usage of the pod at that index.
    pub fn of(&self, index: usize) -> Option<&PodUsage> {
        self.pods.get(index)?.as_ref()
    }

    /// Who waits for the resource of this pressure signal.
    pub const fn stalls(&self, signal: Signal) -> &Stalls {
        match signal {
            Signal::IoPsi => &self.io_stalls,
            _ => &self.memory_stalls,
        }
    }

    /// Sets who waits for the resource of this pressure signal.
    pub fn set_stalls(&mut self, signal: Signal, stalls: Stalls) {
        match signal {
            Signal::IoPsi => self.io_stalls = stalls,
            _ => self.memory_stalls = stalls,
        }
    }
}

impl FromIterator<Option<PodUsage>> for Usage {
    fn from_iter<I: IntoIterator<Item = Option<PodUsage>>>(pods: I) -> Self {
        Self {
            pods: pods.into_iter().collect(),
            ..Self::default()
        }
    }
}

/// What one pod uses. `None`: that figure is not known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodUsage {
    /// Memory that the kernel cannot easily reclaim, in bytes.
    pub working_set: Option<i64>,
    /// Anonymous memory in bytes.
    pub anon: Option<i64>,
    /// Swap in bytes.
    pub swap: Option<i64>,
    /// Bytes read from and written to devices during the measured interval.
    pub io: Option<i64>,
    /// Processes or threads.
    pub processes: Option<u64>,
    /// Everything on node-local disk, in bytes.
    pub ephemeral_storage: Option<i64>,
    /// Whether it holds more on disk than could be counted: that was cut short.
    pub disk_at_least: bool,
    /// By how much that grows, in bytes per second; negative while it shrinks.
    pub disk_growth: Option<i64>,
    /// Containers, in the order of the source.
    pub containers: Vec<ContainerUsage>,
    /// Volumes, in the order of the source.
    pub volumes: Vec<VolumeUsage>,
    /// Files that are deleted but still open.
    pub deleted: DeletedUsage,
    /// When the oldest of the figures was measured.
    pub time: Option<jiff::Timestamp>,
}

/// What one container uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Name within the pod.
    pub name: String,
    /// Memory that the kernel cannot easily reclaim, in bytes.
    pub working_set: Option<i64>,
    /// Usage of its writable layer.
    pub rootfs: FsUsage,
    /// Usage of its log files.
    pub logs: FsUsage,
}

/// Usage of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Name within the pod.
    pub name: String,
    /// Bytes and inodes that it holds.
    pub usage: FsUsage,
}

/// Bytes and inodes on a filesystem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct FsUsage {
    /// Bytes, allocated on disk.
    pub bytes: Option<i64>,
    /// Files and directories.
    pub inodes: Option<i64>,
}

/// What a pod's processes hold open of files that are deleted. A ranking counts it, as it returns when the pod ends; no
/// limit of the pod does, as the kubelet never sees it. `None`: nothing was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletedUsage {
    /// In the writable layers of its containers.
    pub in_layers: FsUsage,
    /// Beside its volumes and logs.
    pub on_disk: FsUsage,
}
