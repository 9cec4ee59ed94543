//! The pressure that evictd's agent reports on its Node for the scheduler. Each resource has a condition and a taint,
//! and an annotation names the resources that are close to a threshold.

/// The annotation of a Node that names the conditions that are close to being raised: `DiskPressure,MemoryPressure`.
pub const CLOSE_TO: &str = "evictd.dev/close-to";

/// The names of one kind of pressure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Names {
    /// Type of the kubelet's condition.
    pub kubelet: &'static str,
    /// Type of evictd's condition, which the kubelet does not overwrite.
    pub agent: &'static str,
    /// Key of evictd's taint.
    pub taint: &'static str,
}

/// Too little memory.
pub const MEMORY: Names = Names {
    kubelet: "MemoryPressure",
    agent: "EvictdMemoryPressure",
    taint: "evictd.dev/memory-pressure",
};

/// Too little room on a disk, or too few inodes.
pub const DISK: Names = Names {
    kubelet: "DiskPressure",
    agent: "EvictdDiskPressure",
    taint: "evictd.dev/disk-pressure",
};

/// Too few process ids.
pub const PID: Names = Names {
    kubelet: "PIDPressure",
    agent: "EvictdPIDPressure",
    taint: "evictd.dev/pid-pressure",
};
