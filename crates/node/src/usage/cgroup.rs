//! Memory, swap and processes from the pods' cgroups.

use super::{UsageSource, UsageWarning};
use crate::pods::{BoundCgroup, PodSet};
use evictd_kernel::{
    cgroup::{Controller, Hierarchies, Version},
    kernel_file::{Buffer, KernelFile, ReadError, number_or_max},
};
use evictd_pod::Pod;
use evictd_signals::StarvedResource;
use evictd_usage::{
    ContainerUsage, PodUsage, Usage,
    figure::{Bytes, Figure, Source},
};
use jiff::Timestamp;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::{
    collections::HashMap,
    mem,
    path::{Path, PathBuf},
};

/// File descriptors that are left to everything else.
const RESERVED_FILES: u64 = 256;
/// The most files per pod: usage, stat, swap, processes.
const FILES_OF_A_POD: u64 = 4;

/// Raises this process's limit of open files to the system's maximum, once at start; returns the new limit. If that
/// fails, files over the limit are opened for every read.
pub fn raise_open_files() -> u64 {
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: maximum,
        maximum,
    };
    let limit = setrlimit(Resource::Nofile, raised).map_or(current, |()| maximum);
    limit.unwrap_or(u64::MAX)
}

/// Reads the cgroups of pods, and keeps their files open between reads.
#[derive(Debug)]
pub struct CgroupUsage {
    hierarchies: Hierarchies,
    /// The number of pods whose files stay open.
    kept_open: usize,
    /// The generation of the set that `files` belongs to.
    generation: Option<u64>,
    /// Parallel to the pods of that set.
    files: Vec<Option<PodFiles>>,
    buffer: Box<Buffer>,
}

impl CgroupUsage {
    /// `open_files` is how many files this process may open (see [`raise_open_files`]).
    pub fn new(hierarchies: Hierarchies, open_files: u64) -> Self {
        let kept_open = open_files.saturating_sub(RESERVED_FILES) / FILES_OF_A_POD;
        Self {
            hierarchies,
            kept_open: usize::try_from(kept_open).unwrap_or(usize::MAX),
            generation: None,
            files: Vec::new(),
            buffer: Box::new([0; size_of::<Buffer>()]),
        }
    }

    /// The hierarchies to read from and the buffer to read into.
    pub(super) fn reader(&mut self) -> (&Hierarchies, &mut Buffer) {
        (&self.hierarchies, &mut self.buffer)
    }

    /// Keeps the open files of pods that are still in the set, at their new indices.
    fn follow(&mut self, set: &PodSet) {
        if self.generation == Some(set.generation) {
            return;
        }
        // Files stay open across sets: opening them again for every change would cost most on a busy node.
        let mut known: HashMap<PathBuf, PodFiles> = mem::take(&mut self.files)
            .into_iter()
            .flatten()
            .map(|files| (files.relative.clone(), files))
            .collect();
        let hierarchies = &self.hierarchies;
        let files = set.pods.iter().map(|pod| {
            let relative = &pod.cgroup.as_ref()?.relative;
            let known = known.remove(relative);
            Some(known.unwrap_or_else(|| PodFiles::new(hierarchies, relative)))
        });
        self.files = files.collect();
        self.generation = Some(set.generation);
    }

    /// Opens the files of the pods that are new in the set. Without memory, when they are needed, that could take long.
    pub fn open(&mut self, set: &PodSet) {
        self.follow(set);
        let kept_open = self.files.iter_mut().take(self.kept_open).flatten();
        for files in kept_open.filter(|files| !files.is_open()) {
            files.read(&self.hierarchies, &mut self.buffer, |_, _| {});
        }
    }

    /// Memory, swap and processes of every pod; `None` for a pod whose cgroup is unknown or removed.
    pub fn read_pods(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        usage: &mut Usage,
    ) -> Vec<UsageWarning> {
        self.read_these(now, set, 0..set.pods.len(), usage)
    }

    /// The same for the pods with these indices only.
    pub(crate) fn read_these(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pods: impl Iterator<Item = usize>,
        usage: &mut Usage,
    ) -> Vec<UsageWarning> {
        self.follow(set);
        let mut warnings = Vec::new();
        usage.pods.resize_with(set.pods.len(), || None);
        for index in pods {
            let place = &mut usage.pods[index];
            let Some(files) = &mut self.files[index] else {
                *place = None;
                continue;
            };
            let warn = |resource, error| warnings.push(unreadable(set, index, resource, error));
            let figures = files.read(&self.hierarchies, &mut self.buffer, warn);
            // Descriptors must be left for kills, so on a node with very many pods the last ones are opened each
            // time.
            if index >= self.kept_open {
                files.close();
            }
            // A cgroup without any figure is gone; a pod with zeros would look like one that uses nothing.
            if figures == Figures::default() {
                *place = None;
            } else {
                figures.replace(place.get_or_insert_default(), now);
            }
        }
        warnings
    }

    /// Memory of the containers of one pod. The kubelet's containers are found by the id in the pod's status. In a
    /// cgroup that a manifest names, the cgroups below with the containers' names count. If there are none, the only
    /// container is the cgroup itself.
    fn read_containers(
        &mut self,
        cgroup: &BoundCgroup,
        (now, pod): (Timestamp, &Pod),
        usage: &mut PodUsage,
        mut warn: impl FnMut(ReadError),
    ) {
        // If the cgroup is removed there are no figures.
        let children = self
            .hierarchies
            .children(&cgroup.relative)
            .unwrap_or_default();
        for container in pod.containers.iter() {
            // Groups that a user has named hold one group for each container, called like it.
            let id = if cgroup.by_annotation {
                Some(&container.name)
            } else {
                container.id.as_ref()
            };
            let child = children.iter().find(|child| Some(&child.id) == id);
            let alone = cgroup.by_annotation && pod.containers.len() == 1;
            let relative = match child {
                Some(child) => &child.relative,
                None if alone => &cgroup.relative,
                None => continue,
            };
            let memory = MemoryFiles::new(&self.hierarchies, relative)
                .and_then(|mut files| present(files.read_twice(&mut self.buffer), &mut warn));
            if let Some(memory) = memory {
                container_usage(usage, &container.name).working_set =
                    Some(measured(memory.working_set, now));
            }
        }
    }
}

impl UsageSource for CgroupUsage {
    async fn every_pod(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        usage: &mut Usage,
    ) -> Vec<UsageWarning> {
        self.read_pods(now, set, usage)
    }

    async fn containers(
        &mut self,
        now: Timestamp,
        set: &PodSet,
        pods: &[usize],
        usage: &mut Usage,
    ) -> Vec<UsageWarning> {
        let mut warnings = Vec::new();
        usage.pods.resize_with(set.pods.len(), || None);
        for &index in pods {
            let Some(pod) = set.pods.get(index) else {
                continue;
            };
            let Some(cgroup) = &pod.cgroup else {
                continue;
            };
            let mut pod_usage = usage.pods[index].take().unwrap_or_default();
            let warn = |error| {
                warnings.push(unreadable(set, index, StarvedResource::Memory, error));
            };
            self.read_containers(cgroup, (now, pod), &mut pod_usage, warn);
            usage.pods[index] = Some(pod_usage);
        }
        warnings
    }
}

/// The entry of a container, which is added if it is missing.
pub(super) fn container_usage<'a>(usage: &'a mut PodUsage, name: &str) -> &'a mut ContainerUsage {
    let known = usage
        .containers
        .iter()
        .position(|container| container.name == name);
    let index = known.unwrap_or_else(|| {
        usage.containers.push(ContainerUsage {
            name: name.to_owned(),
            ..ContainerUsage::default()
        });
        usage.containers.len() - 1
    });
    &mut usage.containers[index]
}

/// The figures read of one pod.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Figures {
    memory: Option<Memory>,
    processes: Option<u64>,
}

impl Figures {
    /// Replaces everything that is known of the pod's usage with these figures.
    fn replace(self, usage: &mut PodUsage, now: Timestamp) {
        // Cleared and taken back below, which keeps their allocations for the next reading.
        usage.containers.clear();
        usage.volumes.clear();
        let bytes = |value| measured(value, now);
        let processes = |count| {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            Figure::processes(count).measured(Source::Cgroup, Some(now))
        };
        *usage = PodUsage {
            working_set: self.memory.map(|memory| bytes(memory.working_set)),
            anon: self.memory.map(|memory| bytes(memory.anon)),
            swap: self.memory.and_then(|memory| memory.swap).map(bytes),
            processes: self.processes.map(processes),
            containers: mem::take(&mut usage.containers),
            volumes: mem::take(&mut usage.volumes),
            ..PodUsage::default()
        };
    }
}

/// The files of one pod's cgroup.
#[derive(Debug)]
struct PodFiles {
    relative: PathBuf,
    memory: Option<MemoryFiles>,
    pids: Option<KernelFile>,
}

impl PodFiles {
    fn new(hierarchies: &Hierarchies, relative: &Path) -> Self {
        let pids = hierarchies.dir(Controller::Pids, relative);
        Self {
            relative: relative.to_owned(),
            memory: MemoryFiles::new(hierarchies, relative),
            pids: pids.map(|directory| KernelFile::new(directory.join("pids.current"))),
        }
    }

    fn read(
        &mut self,
        hierarchies: &Hierarchies,
        buffer: &mut Buffer,
        mut warn: impl FnMut(StarvedResource, ReadError),
    ) -> Figures {
        let memory = self.memory.as_mut().and_then(|files| {
            let warn = |error| warn(StarvedResource::Memory, error);
            present(files.read_twice(buffer), warn)
        });
        let pids = self.pids.as_mut();
        let counted = pids.and_then(|file| {
            let warn = |error| warn(StarvedResource::Pids, error);
            present(processes(file, buffer), warn)
        });
        let listed = || {
            hierarchies
                .procs(&self.relative)
                .ok()
                .map(|pids| pids.len() as u64)
        };
        Figures {
            memory,
            // Without the pids controller the processes are counted from the lists, threads not included.
            processes: counted.or_else(listed),
        }
    }

    fn is_open(&self) -> bool {
        let memory = self.memory.as_ref().map(|memory| &memory.usage);
        let file = memory.or(self.pids.as_ref());
        file.is_some_and(KernelFile::is_open)
    }

    fn close(&mut self) {
        if let Some(memory) = &mut self.memory {
            memory.usage.close();
            memory.stat.close();
            memory.swap.iter_mut().for_each(KernelFile::close);
        }
        self.pids.iter_mut().for_each(KernelFile::close);
    }
}

/// Memory of one cgroup and all below it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Memory {
    /// Everything except file cache that has not been used for a while, as the kubelet counts it.
    pub(crate) working_set: u64,
    /// File cache that has not been used for a while.
    pub(crate) inactive_file: u64,
    anon: u64,
    /// Anonymous memory and files in memory: neither is cache, and the kernel cannot reclaim them.
    pub(super) unreclaimable: u64,
    /// `None` if the kernel does not account for it.
    pub(super) swap: Option<u64>,
}

#[derive(Debug)]
pub(crate) struct MemoryFiles {
    usage: KernelFile,
    stat: KernelFile,
    /// v2 only; on v1 the figure is in `stat`.
    swap: Option<KernelFile>,
    fields: &'static Fields,
}

/// The names of the figures in `memory.stat`.
#[derive(Debug)]
struct Fields {
    inactive_file: &'static str,
    anon: &'static str,
    shmem: &'static str,
    swap: &'static str,
    expected: &'static str,
}

const V1: Fields = Fields {
    inactive_file: "total_inactive_file",
    anon: "total_rss",
    shmem: "total_shmem",
    swap: "total_swap",
    expected: "total_inactive_file and total_rss",
};
const V2: Fields = Fields {
    inactive_file: "inactive_file",
    anon: "anon",
    shmem: "shmem",
    swap: "",
    expected: "inactive_file and anon",
};

impl MemoryFiles {
    /// `None` if no memory controller is mounted; the cgroup itself need not exist.
    pub(crate) fn new(hierarchies: &Hierarchies, relative: &Path) -> Option<Self> {
        let directory = hierarchies.dir(Controller::Memory, relative)?;
        let file = |name: &str| KernelFile::new(directory.join(name));
        let v2 = hierarchies.version() == Version::V2;
        Some(Self {
            usage: file(if v2 {
                "memory.current"
            } else {
                "memory.usage_in_bytes"
            }),
            stat: file("memory.stat"),
            swap: v2.then(|| file("memory.swap.current")),
            fields: if v2 { &V2 } else { &V1 },
        })
    }

    /// After an error, opens the file again and retries at once.
    pub(crate) fn read_twice(&mut self, buffer: &mut Buffer) -> Result<Memory, ReadError> {
        twice(|| self.read(buffer))
    }

    fn read(&mut self, buffer: &mut Buffer) -> Result<Memory, ReadError> {
        let usage = self
            .usage
            .read(buffer, "a number of bytes", number_or_max)?;
        let fields = self.fields;
        let stat = self
            .stat
            .read(buffer, fields.expected, |text| Stat::parse(text, fields))?;
        let swap = self
            .swap
            .as_mut()
            .map(|file| file.read(buffer, "a number of bytes", number_or_max));
        let swap = match swap {
            // A kernel without swap accounting does not have the file.
            Some(Err(error)) if error.is_missing() => {
                self.swap = None;
                None
            }
            Some(swap) => Some(swap?),
            None => stat.swap,
        };
        Ok(Memory {
            working_set: usage.saturating_sub(stat.inactive_file),
            inactive_file: stat.inactive_file,
            anon: stat.anon,
            unreclaimable: stat.anon.saturating_add(stat.shmem),
            swap,
        })
    }
}

/// The lines of `memory.stat` that are needed, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    inactive_file: u64,
    anon: u64,
    /// Old kernels do not report it on cgroup v1.
    shmem: u64,
    swap: Option<u64>,
}

impl Stat {
    fn parse(text: &str, fields: &Fields) -> Option<Self> {
        let (mut inactive_file, mut anon, mut shmem, mut swap) = (None, None, None, None);
        for line in text.lines() {
            let (name, value) = line.split_once(' ')?;
            let place = match name {
                _ if name == fields.inactive_file => &mut inactive_file,
                _ if name == fields.anon => &mut anon,
                _ if name == fields.shmem => &mut shmem,
                _ if name == fields.swap => &mut swap,
                // A kernel has many more fields, and newer kernels add some.
                _ => continue,
            };
            *place = Some(value.parse().ok()?);
        }
        Some(Self {
            inactive_file: inactive_file?,
            anon: anon?,
            shmem: shmem.unwrap_or(0),
            swap,
        })
    }
}

pub(super) fn processes(file: &mut KernelFile, buffer: &mut Buffer) -> Result<u64, ReadError> {
    twice(|| file.read(buffer, "a number of processes", number_or_max))
}

/// Retries a failed read once: a lack of descriptors or memory may last only a moment. A missing file is not
/// retried.
pub(super) fn twice<T>(mut read: impl FnMut() -> Result<T, ReadError>) -> Result<T, ReadError> {
    match read() {
        Err(error) if !error.is_missing() => read(),
        found => found,
    }
}

/// The figure, if there is one. A cgroup that was removed, or whose controller is off, has none; that is not worth
/// a warning.
fn present<T>(read: Result<T, ReadError>, mut warn: impl FnMut(ReadError)) -> Option<T> {
    match read {
        Ok(figure) => Some(figure),
        Err(error) if error.is_missing() => None,
        Err(error) => {
            warn(error);
            None
        }
    }
}

pub(super) fn unreadable(
    set: &PodSet,
    index: usize,
    resource: StarvedResource,
    error: ReadError,
) -> UsageWarning {
    UsageWarning::Unreadable {
        pod: set.pods[index].full_name(),
        index,
        resource,
        error,
    }
}

pub(super) fn bytes(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

fn measured(value: u64, now: Timestamp) -> Figure<Bytes> {
    Figure::bytes(bytes(value)).measured(Source::Cgroup, Some(now))
}

#[cfg(test)]
mod tests;
