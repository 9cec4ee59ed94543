//! Process ids. A thread takes one too, so threads are counted.

use super::pods_group::PodsGroup;
use super::reading::Reading;
use super::{Renewal, SignalSources};
use crate::cgroup::{Controller, Hierarchies};
use crate::kernel_file::{Buffer, KernelFile, ReadError, number_or_max};
use std::path::Path;

/// The highest possible value of `pid_max` on Linux, so the most ids that can ever be in use.
const MOST_PIDS: u64 = 1 << 22;

/// Reads how many ids are in use, and how many there are.
#[derive(Debug)]
pub(super) struct Pids {
    pid_max: KernelFile,
    threads_max: KernelFile,
    /// The lower of the two limits; only an administrator changes them.
    capacity: Option<u64>,
    loadavg: KernelFile,
    /// The cgroup that acts as the node.
    bounding: Option<BoundingGroup>,
    pods: PodsGroup<BoundingGroup>,
}

/// A cgroup that may have a limit on processes, which is the capacity then.
#[derive(Debug)]
struct BoundingGroup {
    limit: KernelFile,
    current: KernelFile,
}

impl BoundingGroup {
    /// `None` if the pids controller is not mounted; the cgroup itself need not exist yet.
    fn new(hierarchies: &Hierarchies, group: &Path) -> Option<Self> {
        let directory = hierarchies.dir(Controller::Pids, group)?;
        Some(Self {
            limit: KernelFile::new(directory.join("pids.max")),
            current: KernelFile::new(directory.join("pids.current")),
        })
    }

    /// The same for a cgroup that exists; `None` if the controller does not have it.
    fn find(hierarchies: &Hierarchies, group: &Path) -> Option<Self> {
        let limit = hierarchies.dir(Controller::Pids, group)?.join("pids.max");
        limit.exists().then(|| Self::new(hierarchies, group))?
    }

    /// The process ids left below its limit; `None` if the limit is not below `most`.
    fn left(&mut self, most: u64, buffer: &mut Buffer) -> Result<Option<Reading>, ReadError> {
        let limit = self.limit.read(buffer, "a number or max", number_or_max)?;
        if limit >= most {
            return Ok(None);
        }
        let used = self.current.read(buffer, "a number", number_or_max)?;
        Ok(Some(Reading::unused(limit, used, MOST_PIDS)))
    }
}

impl Pids {
    pub(super) fn new(sources: &SignalSources) -> Self {
        let file = |path| KernelFile::new(sources.proc_root.join(path));
        let hierarchies = sources.hierarchies.as_ref();
        let bounding = hierarchies.zip(sources.node_cgroup.as_deref());
        let pods = sources.pods_cgroups.iter();
        let pods = pods.filter_map(|group| BoundingGroup::new(hierarchies?, group));
        Self {
            pid_max: file("sys/kernel/pid_max"),
            threads_max: file("sys/kernel/threads-max"),
            capacity: None,
            loadavg: file("loadavg"),
            bounding: bounding.and_then(|(all, group)| BoundingGroup::find(all, group)),
            pods: PodsGroup::new(pods),
        }
    }

    /// The process ids left to the cgroup with all pods in it. `None` if there is none, or if its limit is not below
    /// the `capacity` of the node.
    pub(super) fn read_pods(
        &mut self,
        capacity: u64,
        buffer: &mut Buffer,
        renewal: Renewal,
    ) -> Option<Result<Reading, ReadError>> {
        let read = self
            .pods
            .read(renewal, |group| group.left(capacity, buffer));
        read?.transpose()
    }

    pub(super) fn read(
        &mut self,
        buffer: &mut Buffer,
        renewal: Renewal,
    ) -> Result<Reading, ReadError> {
        let number = "a number";
        // An administrator rarely changes the limits, so they are not read each time.
        let known = self
            .capacity
            .take()
            .filter(|_| !renewal.due && !renewal.fast);
        let capacity = match known {
            Some(capacity) => capacity,
            None => u64::min(
                self.pid_max.read(buffer, number, number_or_max)?,
                self.threads_max.read(buffer, number, number_or_max)?,
            ),
        };
        self.capacity = Some(capacity);
        if let Some(group) = &mut self.bounding {
            let limit = group.limit.read(buffer, "a number or max", number_or_max)?;
            if limit < u64::MAX {
                let used = group.current.read(buffer, number, number_or_max)?;
                return Ok(Reading::unused(limit.min(capacity), used, MOST_PIDS));
            }
        }
        let used = self.loadavg.read(buffer, "running/total", threads)?;
        Ok(Reading::unused(capacity, used, MOST_PIDS))
    }
}

/// The number of threads on the machine: after the slash in the fourth word of `/proc/loadavg`.
fn threads(loadavg: &str) -> Option<u64> {
    let (_, threads) = loadavg.split_ascii_whitespace().nth(3)?.split_once('/')?;
    threads.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_loadavg() {
        let table = [
            ("0.06 0.15 0.12 1/84 6720\n", Some(84)),
            ("0.06 0.15 0.12 1/ 6720\n", None),
            ("0.06 0.15 0.12 84 6720\n", None),
            ("0.06 0.15 0.12 1/-84 6720\n", None),
            ("0.06 0.15\n", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(threads(text), expected, "{text:?}");
        }
    }
}
