//! What this node has to give to pods, as far as anybody says.

use evictd_eviction::{Housekeeper, Observations, Signal};
use evictd_pod::{Node, Quantity, ResourceList, node::NodeStatus, resources};
use std::{fs, path::Path, sync::Arc};
use tokio::sync::watch;

/// Who says it.
#[derive(Debug)]
pub enum Room {
    /// The Node's object, once it was read: a kubelet has worked it out.
    Node(watch::Receiver<Option<Arc<Node>>>),
    /// The machine itself, where no kubelet looks after the pods: its cpus, and what the signals observe less what the
    /// hard thresholds keep free.
    Machine {
        /// How many cpus are online; `None` where the kernel does not tell.
        cpus: Option<i64>,
    },
    /// Nobody.
    Unknown,
}

impl Room {
    /// The machine whose `/proc` is this.
    pub fn of_machine(proc: &Path) -> Self {
        let stat = fs::read_to_string(proc.join("stat")).unwrap_or_default();
        let one = |line: &&str| {
            let number = line.strip_prefix("cpu");
            number.is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        };
        let cpus = i64::try_from(stat.lines().filter(one).count()).ok();
        Self::Machine {
            cpus: cpus.filter(|cpus| *cpus > 0),
        }
    }

    /// Whether no kubelet looks after the pods.
    pub const fn is_machine(&self) -> bool {
        matches!(self, Self::Machine { .. })
    }

    /// The node with what it has to give; for a machine only that, and only what is known of it.
    pub(super) fn node(&self, housekeeper: &Housekeeper, seen: &Observations) -> Option<Node> {
        let cpus = match self {
            Self::Node(told) => return told.borrow().as_deref().cloned(),
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
        let known = known.into_iter();
        let allocatable: ResourceList = known
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

/// The capacity, less the highest hard threshold.
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
