//! The usage of each pod, as far as it is known.

use crate::{
    Stalls,
    figure::{Bytes, Figure, Inodes, Processes},
};
use evictd_signals::{Signal, StarvedResource};
use jiff::Timestamp;

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

/// The usage of one pod. `None`: that figure is unknown.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodUsage {
    /// Memory that the kernel cannot easily reclaim.
    pub working_set: Option<Figure<Bytes>>,
    /// Anonymous memory.
    pub anon: Option<Figure<Bytes>>,
    /// Memory that is in swap.
    pub swap: Option<Figure<Bytes>>,
    /// Bytes read from and written to devices during the measured interval.
    pub io: Option<Figure<Bytes>>,
    /// Processes or threads.
    pub processes: Option<Figure<Processes>>,
    /// All that the pod has written to node-local disk, as its limit counts it.
    pub ephemeral_storage: Option<Figure<Bytes>>,
    /// By how much that grows, in bytes per second; negative while it shrinks.
    pub disk_growth: Option<i64>,
    /// Containers, in the order of the source.
    pub containers: Vec<ContainerUsage>,
    /// Volumes, in the order of the source.
    pub volumes: Vec<VolumeUsage>,
    /// Files that the kubelet keeps for its containers, such as termination logs.
    pub kubelet_files: FsUsage,
    /// Files that are deleted but still open.
    pub deleted: DeletedUsage,
}

/// The usage of one container.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ContainerUsage {
    /// Name within the pod.
    pub name: String,
    /// Memory that the kernel cannot easily reclaim.
    pub working_set: Option<Figure<Bytes>>,
    /// Usage of its writable layer.
    pub rootfs: FsUsage,
    /// Usage of its log files.
    pub logs: FsUsage,
    /// Of its writable layer, if that was walked.
    pub directories: Option<Box<LargestDirectories>>,
}

/// Usage of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeUsage {
    /// Name within the pod.
    pub name: String,
    /// Bytes and inodes that it holds.
    pub usage: FsUsage,
    /// Its own, if it was walked.
    pub directories: Option<Box<LargestDirectories>>,
}

/// The deepest directory that holds more than half of a part of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LargestDirectory {
    /// Relative to the part. The pod chooses it.
    pub path: String,
    /// Bytes or inodes, with all that is below it.
    pub amount: i64,
}

/// `None` where no directory holds more than half.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LargestDirectories {
    /// By bytes.
    pub by_bytes: Option<LargestDirectory>,
    /// By inodes.
    pub by_inodes: Option<LargestDirectory>,
}

impl PodUsage {
    /// Of a pod whose files exist and could not be counted.
    pub fn not_walked() -> Self {
        Self {
            kubelet_files: FsUsage {
                extent: Extent::Unknown,
                ..FsUsage::default()
            },
            ..Self::default()
        }
    }

    /// Replaces the time of each figure.
    pub fn date(&mut self, time: impl Fn(Option<Timestamp>) -> Option<Timestamp>) {
        fn one<U>(
            figure: Option<&mut Figure<U>>,
            time: impl Fn(Option<Timestamp>) -> Option<Timestamp>,
        ) {
            if let Some(figure) = figure {
                figure.time = time(figure.time);
            }
        }
        let of_pod = [
            &mut self.working_set,
            &mut self.anon,
            &mut self.swap,
            &mut self.io,
            &mut self.ephemeral_storage,
        ];
        let of_containers = self.containers.iter_mut().flat_map(|container| {
            one(container.working_set.as_mut(), &time);
            [&mut container.rootfs, &mut container.logs]
        });
        let of_volumes = self.volumes.iter_mut().map(|volume| &mut volume.usage);
        for part in of_containers.chain(of_volumes) {
            one(part.bytes.as_mut(), &time);
            one(part.inodes.as_mut(), &time);
        }
        for figure in of_pod {
            one(figure.as_mut(), &time);
        }
        one(self.processes.as_mut(), &time);
    }

    /// When the oldest figure of this resource was measured; `None` where that is not known.
    pub fn measured(&self, resource: StarvedResource) -> Option<Timestamp> {
        match resource {
            StarvedResource::Memory => self.working_set?.time,
            StarvedResource::Io => self.io?.time,
            StarvedResource::Pids => self.processes?.time,
            StarvedResource::EphemeralStorage | StarvedResource::Inodes => {
                let of_containers = self
                    .containers
                    .iter()
                    .flat_map(|one| [one.rootfs, one.logs]);
                let of_volumes = self.volumes.iter().map(|one| one.usage);
                let bytes = of_containers.chain(of_volumes).filter_map(|one| one.bytes);
                // A sum is as old as its oldest part.
                bytes.filter_map(|bytes| bytes.time).min()
            }
        }
    }
}

/// How much of a part of the pod is known, and whether the pod's end gives it back.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Extent {
    /// Known figures count. A part without figures does not exist.
    #[default]
    Counted,
    /// It exists, and how much it holds is not known yet.
    Unknown,
    /// It is on another filesystem than those that signals watch, so that its end gives nothing back to them.
    Elsewhere,
}

/// Bytes and inodes on a filesystem.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FsUsage {
    /// Bytes, allocated on disk.
    pub bytes: Option<Figure<Bytes>>,
    /// Files and directories.
    pub inodes: Option<Figure<Inodes>>,
    /// Whether it counts as a gain.
    pub extent: Extent,
}

/// Deleted files that a pod's processes hold open. A ranking counts them, because their space is freed when the pod
/// ends. No limit of the pod does, because the kubelet never sees them. `None`: nothing was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletedUsage {
    /// In the writable layers of its containers.
    pub in_layers: FsUsage,
    /// Beside its volumes and logs.
    pub on_disk: FsUsage,
}
