//! The pressure of single cgroups, and how much of it is at limits of their own (cgroup v2, also beside v1).

use super::pressure::PressureFile;
use crate::cgroup::{Controller, Hierarchies, Version, subdirectories};
use crate::kernel_file::{Buffer, KernelFile, ReadError, number_or_max};
use evictd_signals::{Signal, pressure::Stall};
use evictd_usage::GroupStall;
use std::path::{Path, PathBuf};

/// Usage this near below a limit, as a part of it, counts as usage at the limit: the kernel charges memory in batches,
/// and reclaims more than is needed at once.
const NEAR: u64 = 64;
/// Usage is this near at least.
const LEAST_NEAR: u64 = 2 << 20;
/// How many cgroups below one are searched, because the processes of a cgroup may make others below it.
const MOST_GROUPS: u32 = 64;
/// How many levels below a cgroup are searched: containers, and the cgroups that they make.
const LEVELS: u32 = 3;

/// Reads the pressure of cgroups.
#[derive(Debug, Clone)]
pub struct GroupPressure {
    hierarchies: Hierarchies,
}

/// A search for limits below one cgroup.
struct Search<'a> {
    signal: Signal,
    left: u32,
    buffer: &'a mut Buffer,
}

impl GroupPressure {
    /// For cgroups in these hierarchies.
    pub fn new(hierarchies: Hierarchies) -> Self {
        Self { hierarchies }
    }

    /// Whether the kernel may report the pressure of a cgroup of this name, once it exists.
    pub fn may_be_known(&self, group: &Path) -> bool {
        let directory = self.hierarchies.unified(group);
        let file = directory
            .as_ref()
            .map(|group| group.join("memory.pressure"));
        match self.hierarchies.version() {
            Version::V1 => false,
            Version::V2 => {
                directory.is_none_or(|group| !group.is_dir())
                    || file.is_some_and(|file| file.is_file())
            }
            Version::Hybrid => file.is_some_and(|file| file.is_file()),
        }
    }

    /// How long this cgroup and those below it waited for the resource of `memory.psi` or `io.psi`; `None` if the
    /// kernel does not report that, as on cgroup v1.
    pub fn read(
        &self,
        signal: Signal,
        group: &Path,
        buffer: &mut Buffer,
    ) -> Result<Option<GroupStall>, ReadError> {
        let Some(all) = self.stall(signal, group, buffer)? else {
            return Ok(None);
        };
        let mut search = Search {
            signal,
            left: MOST_GROUPS,
            buffer,
        };
        let at_own_limit = self.at_own_limit(group, all, LEVELS, &mut search)?;
        Ok(Some(GroupStall { all, at_own_limit }))
    }

    /// The cgroups below `base` that contain none of these and are in no other such cgroup. On a machine with systemd
    /// they are `system.slice`, `user.slice` and `init.scope`.
    pub fn beside(&self, base: &Path, pods: &[PathBuf]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        if !pods.iter().any(|pods| pods == base) {
            self.collect(base, pods, &mut found);
        }
        found
    }

    fn collect(&self, base: &Path, pods: &[PathBuf], found: &mut Vec<PathBuf>) {
        let Some(directory) = self.hierarchies.unified(base) else {
            return;
        };
        for name in subdirectories(&directory).unwrap_or_default() {
            let group = base.join(name);
            if !pods.iter().any(|pods| pods.starts_with(&group)) {
                found.push(group);
            } else if !pods.contains(&group) {
                self.collect(&group, pods, found);
            }
        }
    }

    /// All of a cgroup's pressure.
    fn stall(
        &self,
        signal: Signal,
        group: &Path,
        buffer: &mut Buffer,
    ) -> Result<Option<Stall>, ReadError> {
        let Some(directory) = self.hierarchies.unified(group) else {
            return Ok(None);
        };
        // Beside v1 the processes of a pod need not be in its cgroup of this tree: then nothing waits there.
        if self.hierarchies.version() == Version::Hybrid {
            let mut events = KernelFile::new(directory.join("cgroup.events"));
            let populated = events.read(buffer, "populated", populated);
            if !present(populated)?.unwrap_or(false) {
                return Ok(None);
            }
        }
        let resource = if signal == Signal::IoPsi {
            "io"
        } else {
            "memory"
        };
        let mut file = PressureFile::new(directory.join(format!("{resource}.pressure")));
        present(file.read(buffer))
    }

    /// The part of a cgroup's pressure at a limit of its own or of one below it; `None` if there are too many to tell.
    fn at_own_limit(
        &self,
        group: &Path,
        all: Stall,
        levels: u32,
        search: &mut Search<'_>,
    ) -> Result<Option<Stall>, ReadError> {
        if all.is_zero() {
            return Ok(Some(all));
        }
        if search.signal == Signal::IoPsi && self.has_io_limit(group, search.buffer)? {
            return Ok(Some(all));
        }
        if self.is_at_memory_limit(group, search.buffer)? {
            // Pages that it must read again, because its memory is limited, are waited for as memory and as I/O.
            let memory = self.stall(Signal::MemoryPsi, group, search.buffer)?;
            return Ok(Some(memory.map_or(all, |memory| memory.at_most(all))));
        }
        let below = self.hierarchies.unified(group).filter(|_| levels > 0);
        let names = below.map(|directory| subdirectories(&directory).unwrap_or_default());
        let mut sum = Stall::default();
        for name in names.into_iter().flatten() {
            let Some(left) = search.left.checked_sub(1) else {
                return Ok(None);
            };
            search.left = left;
            let child = group.join(name);
            let Some(of_child) = self.stall(search.signal, &child, search.buffer)? else {
                continue;
            };
            let Some(part) = self.at_own_limit(&child, of_child, levels - 1, search)? else {
                return Ok(None);
            };
            sum = sum.plus(part);
        }
        Ok(Some(sum.at_most(all)))
    }

    /// Whether the cgroup uses as much memory as it may.
    fn is_at_memory_limit(&self, group: &Path, buffer: &mut Buffer) -> Result<bool, ReadError> {
        let Some(directory) = self.hierarchies.dir(Controller::Memory, group) else {
            return Ok(false);
        };
        let (usage, limits) = match self.hierarchies.version() {
            Version::V2 => ("memory.current", &["memory.max", "memory.high"][..]),
            Version::V1 | Version::Hybrid => {
                ("memory.usage_in_bytes", &["memory.limit_in_bytes"][..])
            }
        };
        let mut read = |name: &str| {
            let mut file = KernelFile::new(directory.join(name));
            present(file.read(buffer, "a number of bytes or max", number_or_max))
        };
        let mut least = u64::MAX;
        for limit in limits {
            least = least.min(read(limit)?.unwrap_or(u64::MAX));
        }
        // The kernel charges memory in batches, so that the usage stops below the limit.
        let near = (least / NEAR).max(LEAST_NEAR).min(least / 8);
        let used = read(usage)?.unwrap_or(0);
        Ok(least < u64::MAX && used >= least - near)
    }

    /// Whether the cgroup's input or output is limited on some device.
    fn has_io_limit(&self, group: &Path, buffer: &mut Buffer) -> Result<bool, ReadError> {
        if let Some(directory) = self.hierarchies.dir(Controller::Io, group) {
            return any_limit(&directory, &["io.max"], buffer);
        }
        let names = [
            "blkio.throttle.read_bps_device",
            "blkio.throttle.write_bps_device",
            "blkio.throttle.read_iops_device",
            "blkio.throttle.write_iops_device",
        ];
        match self.hierarchies.dir(Controller::Blkio, group) {
            Some(directory) => any_limit(&directory, &names, buffer),
            None => Ok(false),
        }
    }
}

/// Whether one of these files of a cgroup has a limit.
fn any_limit(directory: &Path, names: &[&str], buffer: &mut Buffer) -> Result<bool, ReadError> {
    for name in names {
        let mut file = KernelFile::new(directory.join(name));
        let limited = file.read(buffer, "limits by device", |text| Some(is_limited(text)));
        if present(limited)?.unwrap_or(false) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// `8:16 rbps=1048576 wbps=max riops=max wiops=max` on v2, where a device without a limit has no line; `8:16 1048576`
/// on v1.
fn is_limited(text: &str) -> bool {
    let mut lines = text.lines();
    lines.any(|line| {
        let mut limits = line.split_ascii_whitespace().skip(1);
        limits.any(|limit| !limit.ends_with("=max"))
    })
}

fn populated(text: &str) -> Option<bool> {
    let mut lines = text.lines();
    Some(lines.find_map(|line| line.strip_prefix("populated "))? == "1")
}

/// `None` for a file that does not exist: its cgroup was removed, or its controller is off.
fn present<T>(read: Result<T, ReadError>) -> Result<Option<T>, ReadError> {
    match read {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_missing() => Ok(None),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_signals::pressure::{Average, Share};
    use std::fs;
    use tempfile::TempDir;

    /// A tree of cgroups; each file is written as it is.
    struct Tree {
        directory: TempDir,
    }

    impl Tree {
        fn v2() -> Self {
            let tree = Self {
                directory: tempfile::tempdir().unwrap(),
            };
            tree.write("cgroup.controllers", "io memory pids\n");
            tree.write("cgroup.procs", "");
            tree
        }

        fn hybrid() -> Self {
            let tree = Self {
                directory: tempfile::tempdir().unwrap(),
            };
            tree.write("unified/cgroup.procs", "");
            tree.write("memory/cgroup.procs", "");
            tree.write("blkio/cgroup.procs", "");
            tree
        }

        fn write(&self, file: &str, text: &str) {
            let path = self.directory.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        /// Stalled for so many hundredths of a percent on each resource.
        fn stalled(&self, group: &str, memory: u16, io: u16) {
            for (resource, figure) in [("memory", memory), ("io", io)] {
                let (whole, rest) = (figure / 100, figure % 100);
                let line = |share| {
                    format!("{share} avg10={whole}.{rest:02} avg60=0.00 avg300=0.00 total=1\n")
                };
                self.write(
                    &format!("{group}/{resource}.pressure"),
                    &(line("some") + &line("full")),
                );
            }
        }

        fn memory(&self, group: &str, current: u64, max: &str, high: &str) {
            self.write(&format!("{group}/memory.current"), &format!("{current}\n"));
            self.write(&format!("{group}/memory.max"), &format!("{max}\n"));
            self.write(&format!("{group}/memory.high"), &format!("{high}\n"));
        }

        fn groups(&self) -> GroupPressure {
            GroupPressure::new(Hierarchies::detect(self.directory.path()).unwrap())
        }

        /// All of it, and the part at own limits, in hundredths of a percent.
        fn read(&self, signal: Signal, group: &str) -> Option<(u16, Option<u16>)> {
            let mut buffer = Box::new([0; size_of::<Buffer>()]);
            let read = self.groups().read(signal, Path::new(group), &mut buffer);
            let some = |stall: Stall| stall.figure(Share::Some, Average::Avg10);
            let found = read.unwrap()?;
            Some((some(found.all), found.at_own_limit.map(some)))
        }
    }

    const MEMORY: Signal = Signal::MemoryPsi;
    const IO: Signal = Signal::IoPsi;
    const MI: u64 = 1 << 20;

    #[test]
    fn a_pod_that_waits_at_its_own_limit_or_at_that_of_a_container() {
        // Usage, limit, high; whether it is at its limit.
        let limit = (64 * MI).to_string();
        let table = [
            (64 * MI, limit.as_str(), "max", true),
            (63 * MI, &limit, "max", true),
            (60 * MI, &limit, "max", false),
            (64 * MI, "max", &limit, true),
            (70 * MI, "max", &limit, true),
            (64 * MI, "max", "max", false),
            (7 * MI, "8388608", "max", true),
            (6 * MI, "8388608", "max", false),
        ];
        for (current, max, high, at_limit) in table {
            for group in ["pod", "pod/container", "pod/container/nested"] {
                let tree = Tree::v2();
                for above in ["pod", "pod/container", "pod/container/nested"] {
                    tree.stalled(above, 729, 0);
                    tree.memory(above, current, "max", "max");
                }
                tree.memory(group, current, max, high);
                let own = if at_limit { 729 } else { 0 };
                let case = format!("{current} {max} {high} {group}");
                assert_eq!(tree.read(MEMORY, "pod"), Some((729, Some(own))), "{case}");
            }
        }
    }

    #[test]
    fn only_the_part_of_the_container_that_is_at_its_limit_counts() {
        let tree = Tree::v2();
        tree.stalled("pod", 4000, 0);
        tree.stalled("pod/limited", 1500, 0);
        tree.memory("pod/limited", 64 * MI, "67108864", "max");
        tree.stalled("pod/free", 3000, 0);
        tree.memory("pod/free", 64 * MI, "max", "max");
        assert_eq!(tree.read(MEMORY, "pod"), Some((4000, Some(1500))));
    }

    #[test]
    fn a_device_that_is_throttled_and_pages_that_are_read_again() {
        let tree = Tree::v2();
        tree.stalled("pod", 3000, 6000);
        assert_eq!(tree.read(IO, "pod"), Some((6000, Some(0))));
        // A limit that is none, and a limit.
        tree.write("pod/io.max", "8:0 rbps=max wbps=max riops=max wiops=max\n");
        assert_eq!(tree.read(IO, "pod"), Some((6000, Some(0))));
        tree.write(
            "pod/io.max",
            "8:0 rbps=1048576 wbps=max riops=max wiops=max\n",
        );
        assert_eq!(tree.read(IO, "pod"), Some((6000, Some(6000))));
        // What it reads again for its limit on memory is waited for as both.
        tree.write("pod/io.max", "");
        tree.memory("pod", 64 * MI, "67108864", "max");
        assert_eq!(tree.read(IO, "pod"), Some((6000, Some(3000))));
    }

    #[test]
    fn beside_v1_a_group_counts_if_the_processes_are_in_it() {
        let tree = Tree::hybrid();
        tree.stalled("unified/pod", 1250, 900);
        assert_eq!(tree.read(MEMORY, "pod"), None);
        tree.write("unified/pod/cgroup.events", "populated 0\nfrozen 0\n");
        assert_eq!(tree.read(MEMORY, "pod"), None);
        tree.write("unified/pod/cgroup.events", "populated 1\nfrozen 0\n");
        assert_eq!(tree.read(MEMORY, "pod"), Some((1250, Some(0))));
        tree.write("memory/pod/memory.usage_in_bytes", "16777216\n");
        tree.write("memory/pod/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(tree.read(MEMORY, "pod"), Some((1250, Some(0))));
        tree.write("memory/pod/memory.limit_in_bytes", "16777216\n");
        assert_eq!(tree.read(MEMORY, "pod"), Some((1250, Some(1250))));
        tree.write("blkio/pod/blkio.throttle.read_bps_device", "8:0 1048576\n");
        assert_eq!(tree.read(IO, "pod"), Some((900, Some(900))));
    }

    #[test]
    fn what_is_missing_is_unknown_and_what_is_malformed_is_an_error() {
        let tree = Tree::v2();
        assert_eq!(tree.read(MEMORY, "gone"), None);
        tree.write("pod/memory.current", "1\n");
        assert_eq!(tree.read(MEMORY, "pod"), None);
        for file in [
            "memory.pressure",
            "memory.current",
            "memory.max",
            "memory.high",
            "io.max",
        ] {
            let tree = Tree::v2();
            tree.stalled("pod", 100, 100);
            tree.memory("pod", 1, "1", "1");
            tree.write("pod/io.max", "");
            let path = tree.directory.path().join("pod").join(file);
            let mut buffer = Box::new([0; size_of::<Buffer>()]);
            let mut read = |signal| tree.groups().read(signal, Path::new("pod"), &mut buffer);
            fs::write(&path, b"\xff rubbish").unwrap();
            assert!(read(MEMORY).is_err() || read(IO).is_err(), "{file}");
            fs::remove_file(&path).unwrap();
            assert!(read(MEMORY).is_ok() && read(IO).is_ok(), "{file}");
        }
    }

    /// Who may make cgroups below a pod's cannot have evictd look at them without end, nor hide a limit among them.
    #[test]
    fn with_too_many_groups_own_limits_are_unknown() {
        let tree = Tree::v2();
        for number in 0..80 {
            tree.stalled(&format!("pod/{number}"), 100, 0);
        }
        tree.stalled("pod", 0, 0);
        assert_eq!(tree.read(MEMORY, "pod"), Some((0, Some(0))));
        tree.stalled("pod", 5000, 0);
        assert_eq!(tree.read(MEMORY, "pod"), Some((5000, None)));
    }

    #[test]
    fn groups_beside_the_pods_are_measured() {
        let tree = Tree::v2();
        let groups = [
            "init.scope",
            "system.slice/cron.service",
            "kubepods.slice/pod1",
            "kubelet/kubepods/pod2",
            "kubelet/helper",
        ];
        for group in groups {
            tree.stalled(group, 0, 0);
        }
        let beside = |base: &str, pods: &[&str]| {
            let pods: Vec<PathBuf> = pods.iter().map(PathBuf::from).collect();
            let mut found = tree.groups().beside(Path::new(base), &pods);
            found.sort_unstable();
            found
                .into_iter()
                .map(|group| group.display().to_string())
                .collect::<Vec<_>>()
        };
        let pods = ["kubepods.slice", "kubelet/kubepods"];
        assert_eq!(
            beside("", &pods),
            ["init.scope", "kubelet/helper", "system.slice"]
        );
        assert_eq!(beside("kubelet", &pods), ["kubelet/helper"]);
        assert!(beside("kubepods.slice", &pods).is_empty());
        assert!(beside("nowhere", &pods).is_empty());
    }

    #[test]
    fn whether_the_pressure_of_a_pod_may_be_known() {
        let known = |tree: &Tree, group: &str| tree.groups().may_be_known(Path::new(group));
        let v2 = Tree::v2();
        assert!(known(&v2, "kubepods"), "it may come");
        v2.write("kubepods/memory.current", "1");
        assert!(!known(&v2, "kubepods"), "a kernel without pressure");
        v2.stalled("kubepods", 0, 0);
        assert!(known(&v2, "kubepods"));
        let hybrid = Tree::hybrid();
        assert!(!known(&hybrid, "kubepods"));
        hybrid.stalled("unified/kubepods", 0, 0);
        assert!(known(&hybrid, "kubepods"));
        let v1 = tempfile::tempdir().unwrap();
        fs::create_dir(v1.path().join("memory")).unwrap();
        let v1 = GroupPressure::new(Hierarchies::detect(v1.path()).unwrap());
        assert!(!v1.may_be_known(Path::new("kubepods")));
    }
}
