//! The node's allocatable resources, as far as they are known.

use evictd_eviction::Housekeeper;
use evictd_pod::{Node, Quantity, ResourceList, node::NodeStatus, resources};
use evictd_signals::{Observations, Signal};
use procfs::{FromReadSI, KernelStats};
use std::{path::Path, sync::Arc};
use tokio::sync::watch;

/// Where the figures come from.
#[derive(Debug)]
pub enum Allocatable {
    /// The Node object, once it was read: its kubelet has computed them.
    Node(watch::Receiver<Option<Arc<Node>>>),
    /// The machine, if no kubelet manages the pods: its CPUs and the capacity of its signals, without the amounts that
    /// the hard thresholds keep free.
    Machine {
        /// Number of CPUs online; `None` if the kernel does not report it.
        cpus: Option<i64>,
    },
    /// Not known.
    Unknown,
}

/// The first kubelet that counts huge pages as used (S7-280).
pub(super) const COUNTS_HUGE_PAGES_SINCE: (u32, u32) = (1, 37);

impl Allocatable {
    /// The machine whose `/proc` this is.
    pub(crate) fn of_machine(proc: &Path) -> Self {
        let stat = KernelStats::from_file(proc.join("stat"), procfs::current_system_info());
        let cpus = stat
            .ok()
            .and_then(|stat| i64::try_from(stat.cpu_time.len()).ok());
        Self::Machine {
            cpus: cpus.filter(|cpus| *cpus > 0),
        }
    }

    /// Whether no kubelet manages the pods.
    pub(crate) const fn is_machine(&self) -> bool {
        matches!(self, Self::Machine { .. })
    }

    /// The version of the node's kubelet, once its Node was read.
    pub(super) fn kubelet(&self) -> Option<(u32, u32)> {
        match self {
            Self::Node(node) => node.borrow().as_ref()?.status.node_info.kubelet(),
            Self::Machine { .. } | Self::Unknown => None,
        }
    }

    /// A node with its allocatable resources; for a machine only these, as far as known.
    pub(super) fn node(&self, housekeeper: &Housekeeper, seen: &Observations) -> Option<Node> {
        let cpus = match self {
            Self::Node(node_object) => return node_object.borrow().as_deref().cloned(),
            Self::Machine { cpus } => cpus.map(Quantity::count),
            Self::Unknown => return None,
        };
        let known = [
            (resources::CPU, cpus),
            (
                resources::MEMORY,
                allocatable(housekeeper, seen, Signal::MemoryAvailable),
            ),
            (
                resources::EPHEMERAL_STORAGE,
                allocatable(housekeeper, seen, Signal::NodefsAvailable),
            ),
        ];
        let allocatable: ResourceList = known
            .into_iter()
            .filter_map(|(name, quantity)| Some((name, quantity?)))
            .collect();
        Some(Node {
            status: NodeStatus {
                allocatable,
                ..NodeStatus::default()
            },
            ..Node::default()
        })
    }
}

/// The capacity less the highest hard threshold.
fn allocatable(housekeeper: &Housekeeper, seen: &Observations, signal: Signal) -> Option<Quantity> {
    let capacity = seen.get(signal)?.capacity;
    let hard = housekeeper
        .thresholds()
        .filter(|threshold| threshold.signal == signal && threshold.is_hard())
        .map(|threshold| threshold.value.at(capacity).value());
    Some(Quantity::bytes(
        capacity.saturating_sub(hard.max().unwrap_or(0)).max(0),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpus(proc: &Path) -> Option<i64> {
        match Allocatable::of_machine(proc) {
            Allocatable::Machine { cpus } => cpus,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_machines_cpus_are_counted_where_the_kernel_lists_them() {
        let directory = tempfile::tempdir().unwrap();
        assert_eq!(cpus(directory.path()), None);
        let stat = "cpu  9 0 9 9 0 0 0 0 0 0\ncpu0 4 0 4 4 0 0 0 0 0 0\ncpu3 5 0 5 5 0 0 0 0 0 0\nintr 7 0 1\nctxt 9\n\
                    btime 1700000000\nprocesses 7\nprocs_running 1\nprocs_blocked 0\nsoftirq 7 1\n";
        std::fs::write(directory.path().join("stat"), stat).unwrap();
        assert_eq!(cpus(directory.path()), Some(2));
        assert!(cpus(Path::new("/proc")).is_some());
    }
}
