//! Memory of one cgroup: the cgroup that limits the node, or the one that contains all pods.

use crate::cgroup::{Controller, Hierarchies, Version};
use crate::kernel_file::{Buffer, KernelFile, ReadError, number_or_max};
use std::path::Path;

/// Usage and limit of one cgroup, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct CgroupUsage {
    /// The lowest limit of the cgroup and of every cgroup above it; [`u64::MAX`] if none is set.
    pub(super) limit: u64,
    usage: u64,
    stat: Stat,
}

impl CgroupUsage {
    /// The kubelet's figure of used memory: everything except file cache that has not been used for a while.
    pub(super) fn working_set(&self) -> u64 {
        self.usage.saturating_sub(self.stat.inactive_file)
    }

    /// The memory that the kernel could not reclaim at once. Like the kernel's `MemAvailable`, this counts all clean
    /// file cache and reclaimable slab as free, but not pages that must be written to disk first.
    pub(super) fn unreclaimable(&self) -> u64 {
        let cache = self
            .stat
            .active_file
            .saturating_add(self.stat.inactive_file);
        let clean = cache.saturating_sub(self.stat.unwritten);
        self.usage
            .saturating_sub(clean)
            .saturating_sub(self.stat.reclaimable_slab)
    }
}

/// Reads the memory of one cgroup.
#[derive(Debug)]
pub(super) struct CgroupMemory {
    version: Version,
    usage: KernelFile,
    stat: KernelFile,
    /// On v2, the limit files of the cgroup and of each cgroup above it. On v1 `memory.stat` contains the lowest of
    /// them.
    limits: Vec<KernelFile>,
}

impl CgroupMemory {
    /// `None` if no memory controller is mounted; the cgroup itself need not exist yet.
    pub(super) fn find(hierarchies: &Hierarchies, group: &Path) -> Option<Self> {
        let directory = hierarchies.dir(Controller::Memory, group)?;
        let root = hierarchies.dir(Controller::Memory, Path::new(""))?;
        let version = hierarchies.version();
        let (usage, limits) = if version == Version::V2 {
            let bounded = directory.ancestors().take_while(|above| *above != root);
            let limits = bounded.map(|above| KernelFile::new(above.join("memory.max")));
            ("memory.current", limits.collect())
        } else {
            ("memory.usage_in_bytes", Vec::new())
        };
        Some(Self {
            version,
            usage: KernelFile::new(directory.join(usage)),
            stat: KernelFile::new(directory.join("memory.stat")),
            limits,
        })
    }

    pub(super) fn read(&mut self, buffer: &mut Buffer) -> Result<CgroupUsage, ReadError> {
        let bytes = "a number of bytes";
        let usage = self.usage.read(buffer, bytes, number_or_max)?;
        let stat = match self.version {
            Version::V2 => self.stat.read(buffer, V2_EXPECTED, Stat::parse_v2)?,
            Version::V1 | Version::Hybrid => self.stat.read(buffer, V1_EXPECTED, Stat::parse_v1)?,
        };
        let mut limit = stat.limit;
        for file in &mut self.limits {
            limit = limit.min(file.read(buffer, bytes, number_or_max)?);
        }
        Ok(CgroupUsage { limit, usage, stat })
    }
}

/// The lines of `memory.stat` that are needed, for the cgroup and all below it, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    /// v1 only.
    limit: u64,
    active_file: u64,
    inactive_file: u64,
    /// File pages that are dirty or being written.
    unwritten: u64,
    /// Always 0 on v1, which does not report it.
    reclaimable_slab: u64,
}

const V1_EXPECTED: &str = "hierarchical_memory_limit, total_active_file, total_inactive_file, \
                           total_dirty and total_writeback";
const V2_EXPECTED: &str =
    "active_file, inactive_file, file_dirty, file_writeback and slab_reclaimable";

impl Stat {
    fn parse_v1(text: &str) -> Option<Self> {
        let [limit, active_file, inactive_file, dirty, writeback] = stat_fields(
            text,
            [
                "hierarchical_memory_limit",
                "total_active_file",
                "total_inactive_file",
                "total_dirty",
                "total_writeback",
            ],
        )?;
        Some(Self {
            limit,
            active_file,
            inactive_file,
            unwritten: dirty.saturating_add(writeback),
            reclaimable_slab: 0,
        })
    }

    fn parse_v2(text: &str) -> Option<Self> {
        let [
            active_file,
            inactive_file,
            dirty,
            writeback,
            reclaimable_slab,
        ] = stat_fields(
            text,
            [
                "active_file",
                "inactive_file",
                "file_dirty",
                "file_writeback",
                "slab_reclaimable",
            ],
        )?;
        Some(Self {
            // The limits of v2 are in files of their own.
            limit: u64::MAX,
            active_file,
            inactive_file,
            unwritten: dirty.saturating_add(writeback),
            reclaimable_slab,
        })
    }
}

/// The values of these lines of a `memory.stat`, in the order asked; `None` if one is missing or not a number.
pub(super) fn stat_fields<const N: usize>(text: &str, names: [&str; N]) -> Option<[u64; N]> {
    let mut values = [None; N];
    for line in text.lines() {
        let (name, value) = line.split_once(' ')?;
        if let Some(place) = names.iter().position(|wanted| *wanted == name) {
            values[place] = Some(value.parse().ok()?);
        }
    }
    let mut found = [0; N];
    for (place, value) in found.iter_mut().zip(values) {
        *place = value?;
    }
    Some(found)
}
