//! Memory of the whole machine, from `/proc/meminfo` and the root of the memory controller.

use super::cgroup_memory::stat_fields;
use super::reading::Reading;
use super::swap::Swap;
use crate::cgroup::{Controller, Hierarchies, Version};
use crate::kernel_file::{Buffer, KernelFile, ReadError, number_or_max};
use std::path::Path;

/// The figures of `/proc/meminfo`, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Meminfo {
    pub(super) total: u64,
    /// The kernel's estimate of how much memory a new workload could take without swapping.
    pub(super) available: u64,
    /// `None` on a kernel without swap.
    pub(super) swap: Option<Swap>,
}

impl Meminfo {
    pub(super) fn file(proc_root: &Path) -> KernelFile {
        KernelFile::new(proc_root.join("meminfo"))
    }

    pub(super) fn read(file: &mut KernelFile, buffer: &mut Buffer) -> Result<Self, ReadError> {
        file.read(buffer, "MemTotal and MemAvailable in kB", Self::parse)
    }

    fn parse(text: &str) -> Option<Self> {
        let (mut total, mut available) = (None, None);
        let (mut swap_total, mut swap_free) = (None, None);
        for line in text.lines() {
            let (name, value) = line.split_once(':')?;
            match name {
                "MemTotal" => total = Some(kibibytes(value)?),
                "MemAvailable" => available = Some(kibibytes(value)?),
                "SwapTotal" => swap_total = Some(kibibytes(value)?),
                "SwapFree" => {
                    swap_free = Some(kibibytes(value)?);
                    // This was the last needed line; thirty more follow.
                    break;
                }
                _ => {}
            }
        }
        Some(Self {
            total: total?,
            available: available?,
            swap: swap_total
                .zip(swap_free)
                .map(|(total, free)| Swap { total, free }),
        })
    }
}

/// Memory that is set aside as huge pages, of all sizes, in bytes: no other memory can be taken from it. Zero on a kernel
/// without huge pages.
pub(super) fn huge_pages(meminfo: &str) -> Option<u64> {
    let (mut pages, mut size) = (None, None);
    for line in meminfo.lines() {
        let (name, value) = line.split_once(':')?;
        match name {
            "Hugetlb" => return kibibytes(value),
            "HugePages_Total" => pages = Some(value.trim_ascii().parse::<u64>().ok()?),
            "Hugepagesize" => size = Some(kibibytes(value)?),
            _ => {}
        }
    }
    // Kernels before 4.17 report only the pages of the usual size.
    pages.unwrap_or(0).checked_mul(size.unwrap_or(0))
}

fn kibibytes(value: &str) -> Option<u64> {
    let number = value.trim_ascii().strip_suffix("kB")?.trim_ascii_end();
    number.parse::<u64>().ok()?.checked_mul(1024)
}

/// The machine's working set, counted as the kubelet counts it: everything charged to the root of the memory
/// controller, without file cache that has not been used for a while. It is never less than the usage of the pods. Page
/// cache in active use counts as used, although the kernel could reclaim it.
#[derive(Debug)]
pub(super) enum RootWorkingSet {
    V1 {
        usage: KernelFile,
        stat: KernelFile,
    },
    /// The root of a v2 tree has no usage file; the sum of anonymous and file memory is used instead.
    V2 {
        stat: KernelFile,
    },
}

impl RootWorkingSet {
    /// `None` if no memory controller is mounted.
    pub(super) fn find(hierarchies: &Hierarchies) -> Option<Self> {
        let root = hierarchies.dir(Controller::Memory, Path::new(""))?;
        let stat = KernelFile::new(root.join("memory.stat"));
        Some(match hierarchies.version() {
            Version::V2 => Self::V2 { stat },
            Version::V1 | Version::Hybrid => Self::V1 {
                usage: KernelFile::new(root.join("memory.usage_in_bytes")),
                stat,
            },
        })
    }

    /// The rest of `total` bytes, of which so many are set aside as huge pages.
    pub(super) fn read(
        &mut self,
        total: u64,
        huge_pages: u64,
        buffer: &mut Buffer,
    ) -> Result<Reading, ReadError> {
        let (usage, inactive_file) = match self {
            Self::V1 { usage, stat } => {
                let usage = usage.read(buffer, "a number of bytes", number_or_max)?;
                let [inactive_file] = stat.read(buffer, "total_inactive_file", |text| {
                    stat_fields(text, ["total_inactive_file"])
                })?;
                (usage, inactive_file)
            }
            // The root of v2 has no `memory.current`.
            Self::V2 { stat } => {
                let [anon, file, inactive_file] =
                    stat.read(buffer, "anon, file and inactive_file", |text| {
                        stat_fields(text, ["anon", "file", "inactive_file"])
                    })?;
                (anon.saturating_add(file), inactive_file)
            }
        };
        let working_set = usage.saturating_sub(inactive_file);
        Ok(Reading::unused(total, working_set, total).less(huge_pages))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn meminfo_of_a_real_machine() {
        let text = include_str!("../../tests/fixtures/signals/v1/proc/meminfo");
        let meminfo = Meminfo::parse(text).unwrap();
        assert_eq!(meminfo.total, 24_684_084 * 1024);
        assert_eq!(meminfo.available, 20_971_520 * 1024);
        let swap = meminfo.swap.unwrap();
        assert_eq!(
            (swap.total, swap.free),
            (2_097_148 * 1024, 1_048_576 * 1024)
        );
    }

    #[test]
    fn huge_pages_of_every_kernel() {
        let table = [
            (
                "MemTotal: 9 kB\nHugePages_Total: 16\nHugepagesize: 2048 kB\nHugetlb: 1081344 kB\n",
                Some(1_081_344 << 10),
            ),
            (
                "MemTotal: 9 kB\nHugePages_Total: 16\nHugepagesize: 2048 kB\n",
                Some(32 << 20),
            ),
            ("MemTotal: 9 kB\n", Some(0)),
            ("MemTotal: 9 kB\nHugetlb: many\n", None),
            (
                "MemTotal: 9 kB\nHugePages_Total: -1\nHugepagesize: 2048 kB\n",
                None,
            ),
        ];
        for (text, expected) in table {
            assert_eq!(huge_pages(text), expected, "{text:?}");
        }
    }

    #[test]
    fn malformed_meminfo() {
        let huge = "MemTotal: 99999999999999999999 kB\nMemAvailable: 1 kB\n";
        let overflowing = "MemTotal: 18446744073709551615 kB\nMemAvailable: 1 kB\n";
        let table = [
            "",
            "\n",
            "MemTotal: 1 kB\n",
            "MemAvailable: 1 kB\n",
            "MemTotal: 1\nMemAvailable: 1 kB\n",
            "MemTotal: 1 MB\nMemAvailable: 1 kB\n",
            "MemTotal: -1 kB\nMemAvailable: 1 kB\n",
            "MemTotal: one kB\nMemAvailable: 1 kB\n",
            "MemTotal 1 kB\nMemAvailable: 1 kB\n",
            huge,
            overflowing,
        ];
        for text in table {
            assert_eq!(Meminfo::parse(text), None, "{text:?}");
        }
        let without_swap = Meminfo::parse("MemTotal: 2 kB\nMemAvailable:1 kB").unwrap();
        assert_eq!((without_swap.total, without_swap.available), (2048, 1024));
        assert_eq!(without_swap.swap, None);
    }
}
