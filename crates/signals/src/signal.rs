//! The signals, the resource that is starved when each is low, and the node condition that each raises. The
//! kubelet's signals come first, then evictd's own.

use enum_map::{Enum, EnumMap};
use evictd_pod::Quantity;
use serde::{Deserialize, Serialize};

/// A value for each signal.
pub type SignalMap<T> = EnumMap<Signal, T>;

/// A value for each node condition.
pub type ConditionMap<T> = EnumMap<NodeCondition, T>;

/// A resource that the node can run out of (S1-001).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Enum)]
pub enum Signal {
    /// Memory of the node, in bytes.
    MemoryAvailable,
    /// Memory that the pods' cgroup may still take, in bytes.
    AllocatableMemoryAvailable,
    /// Bytes of the filesystem with the kubelet's root directory.
    NodefsAvailable,
    /// Inodes of the filesystem with the kubelet's root directory.
    NodefsInodesFree,
    /// Bytes of the filesystem with the images.
    ImagefsAvailable,
    /// Inodes of the filesystem with the images.
    ImagefsInodesFree,
    /// Bytes of the filesystem with the containers' writable layers.
    ContainerfsAvailable,
    /// Inodes of the filesystem with the containers' writable layers.
    ContainerfsInodesFree,
    /// Process ids, counted in threads.
    PidAvailable,
    /// Process ids that the pods' cgroup may still take. No kubelet has this signal.
    AllocatablePidAvailable,
    /// Unused swap space of the machine, in bytes (users #7). No kubelet has this signal.
    SwapAvailable,
    /// Time in which no task waited for memory, in hundredths of a percent (users #5). No kubelet has this signal.
    MemoryPsi,
    /// Time in which no task waited for I/O, in hundredths of a percent (users #5). No kubelet has this signal.
    IoPsi,
}

impl Signal {
    /// Every signal, in declaration order, which is that of a [`SignalMap`].
    pub const ALL: [Self; 13] = [
        Self::MemoryAvailable,
        Self::AllocatableMemoryAvailable,
        Self::NodefsAvailable,
        Self::NodefsInodesFree,
        Self::ImagefsAvailable,
        Self::ImagefsInodesFree,
        Self::ContainerfsAvailable,
        Self::ContainerfsInodesFree,
        Self::PidAvailable,
        Self::AllocatablePidAvailable,
        Self::SwapAvailable,
        Self::MemoryPsi,
        Self::IoPsi,
    ];

    /// The name in configurations, metrics and messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::MemoryAvailable => "memory.available",
            Self::AllocatableMemoryAvailable => "allocatableMemory.available",
            Self::NodefsAvailable => "nodefs.available",
            Self::NodefsInodesFree => "nodefs.inodesFree",
            Self::ImagefsAvailable => "imagefs.available",
            Self::ImagefsInodesFree => "imagefs.inodesFree",
            Self::ContainerfsAvailable => "containerfs.available",
            Self::ContainerfsInodesFree => "containerfs.inodesFree",
            Self::PidAvailable => "pid.available",
            Self::AllocatablePidAvailable => "allocatablePid.available",
            Self::SwapAvailable => "swap.available",
            Self::MemoryPsi => "memory.psi",
            Self::IoPsi => "io.psi",
        }
    }

    /// The signal of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|signal| signal.as_str() == name)
    }

    /// Whether this is evictd's own signal, which no kubelet has.
    pub const fn is_ours(self) -> bool {
        matches!(
            self,
            Self::AllocatablePidAvailable | Self::SwapAvailable | Self::MemoryPsi | Self::IoPsi
        )
    }

    /// Whether this is a pressure signal: its figures are shares of time, and the kernel has several per resource.
    pub const fn is_pressure(self) -> bool {
        matches!(self, Self::MemoryPsi | Self::IoPsi)
    }

    /// The resource that is starved when this signal is low (S1-002).
    pub const fn resource(self) -> StarvedResource {
        match self {
            Self::MemoryAvailable
            | Self::AllocatableMemoryAvailable
            | Self::SwapAvailable
            | Self::MemoryPsi => StarvedResource::Memory,
            Self::IoPsi => StarvedResource::Io,
            Self::NodefsAvailable | Self::ImagefsAvailable | Self::ContainerfsAvailable => {
                StarvedResource::EphemeralStorage
            }
            Self::NodefsInodesFree | Self::ImagefsInodesFree | Self::ContainerfsInodesFree => {
                StarvedResource::Inodes
            }
            Self::PidAvailable | Self::AllocatablePidAvailable => StarvedResource::Pids,
        }
    }

    /// The node condition that is raised while this signal is low (S1-003). Kubernetes has no condition for slow
    /// I/O.
    pub const fn condition(self) -> Option<NodeCondition> {
        Some(match self.resource() {
            StarvedResource::Io => return None,
            StarvedResource::Memory => NodeCondition::MemoryPressure,
            StarvedResource::EphemeralStorage | StarvedResource::Inodes => {
                NodeCondition::DiskPressure
            }
            StarvedResource::Pids => NodeCondition::PidPressure,
        })
    }

    /// An amount in the unit of this signal.
    pub const fn quantity(self, value: i64) -> Quantity {
        if self.counts_bytes() {
            Quantity::bytes(value)
        } else {
            Quantity::count(value)
        }
    }

    /// Whether figures are bytes (printed as 128Mi) or counts (printed as 288k).
    pub const fn counts_bytes(self) -> bool {
        matches!(
            self.resource(),
            StarvedResource::Memory | StarvedResource::EphemeralStorage
        ) && !self.is_pressure()
    }
}

impl std::fmt::Display for Signal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Signal {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de> Deserialize<'de> for Signal {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let name = String::deserialize(deserializer)?;
        Self::parse(&name).ok_or_else(|| {
            serde::de::Error::custom(format_args!("unsupported eviction signal {name}"))
        })
    }
}

/// The starved resource, as messages, events and annotations name it (S1-002).
#[derive(
    Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum StarvedResource {
    /// Memory, for `memory.available`, `allocatableMemory.available`, `swap.available` and `memory.psi`.
    #[default]
    #[serde(rename = "memory")]
    Memory,
    /// Bytes of node-local disk.
    #[serde(rename = "ephemeral-storage")]
    EphemeralStorage,
    /// Inodes of node-local disk.
    #[serde(rename = "inodes")]
    Inodes,
    /// Process ids, for `pid.available` and `allocatablePid.available`.
    #[serde(rename = "pids")]
    Pids,
    /// Time on devices, for `io.psi`.
    #[serde(rename = "io")]
    Io,
}

impl StarvedResource {
    /// The word used in messages.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::EphemeralStorage => "ephemeral-storage",
            Self::Inodes => "inodes",
            Self::Pids => "pids",
            Self::Io => "io",
        }
    }
}

impl std::fmt::Display for StarvedResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A condition by which the scheduler and admission learn that the node is short of a resource (S1-003).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Enum, Serialize)]
pub enum NodeCondition {
    /// Short of bytes or inodes.
    DiskPressure,
    /// Short of memory or swap.
    MemoryPressure,
    /// Short of process ids.
    #[serde(rename = "PIDPressure")]
    PidPressure,
}

impl NodeCondition {
    /// Every condition, sorted by name, which is the order of a [`ConditionMap`].
    pub const ALL: [Self; 3] = [Self::DiskPressure, Self::MemoryPressure, Self::PidPressure];

    /// The condition's type in a node's status.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DiskPressure => "DiskPressure",
            Self::MemoryPressure => "MemoryPressure",
            Self::PidPressure => "PIDPressure",
        }
    }

    /// The condition of that name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|condition| condition.as_str() == name)
    }
}

impl std::fmt::Display for NodeCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s1_001_names_round_trip() {
        let map = SignalMap::<()>::default();
        assert!(map.iter().map(|(signal, ())| signal).eq(Signal::ALL));
        for signal in Signal::ALL {
            assert_eq!(Signal::parse(signal.as_str()), Some(signal));
        }
        assert_eq!(Signal::parse("memory.free"), None);
    }

    #[test]
    fn s1_002_s1_003_resource_and_condition_of_every_signal() {
        let table = [
            ("memory.available", "memory", "MemoryPressure"),
            ("allocatableMemory.available", "memory", "MemoryPressure"),
            ("nodefs.available", "ephemeral-storage", "DiskPressure"),
            ("nodefs.inodesFree", "inodes", "DiskPressure"),
            ("imagefs.available", "ephemeral-storage", "DiskPressure"),
            ("imagefs.inodesFree", "inodes", "DiskPressure"),
            ("containerfs.available", "ephemeral-storage", "DiskPressure"),
            ("containerfs.inodesFree", "inodes", "DiskPressure"),
            ("pid.available", "pids", "PIDPressure"),
            ("allocatablePid.available", "pids", "PIDPressure"),
            ("swap.available", "memory", "MemoryPressure"),
            ("memory.psi", "memory", "MemoryPressure"),
            ("io.psi", "io", ""),
        ];
        for (name, resource, condition) in table {
            let signal = Signal::parse(name).unwrap();
            assert_eq!(signal.resource().as_str(), resource);
            assert_eq!(
                signal.condition().map_or("", NodeCondition::as_str),
                condition
            );
        }
    }
}
