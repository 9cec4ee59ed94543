//! Texts of node conditions: the kubelet's reasons and messages (S1-077, S1-078), under condition types that the
//! kubelet does not overwrite.

use crate::NodeCondition;
use evictd_pod::pressure::{self, Names};

impl NodeCondition {
    const fn names(self) -> Names {
        match self {
            Self::DiskPressure => pressure::DISK,
            Self::MemoryPressure => pressure::MEMORY,
            Self::PidPressure => pressure::PID,
        }
    }

    /// The condition type that evictd sets next to the kubelet's.
    pub const fn own_type(self) -> &'static str {
        self.names().agent
    }

    /// Key of the taint that keeps new pods off the node while the condition holds.
    pub const fn taint_key(self) -> &'static str {
        self.names().taint
    }

    /// Reason of the condition (S1-077).
    pub const fn reason(self, raised: bool) -> &'static str {
        match (self, raised) {
            (Self::DiskPressure, true) => "KubeletHasDiskPressure",
            (Self::DiskPressure, false) => "KubeletHasNoDiskPressure",
            (Self::MemoryPressure, true) => "KubeletHasInsufficientMemory",
            (Self::MemoryPressure, false) => "KubeletHasSufficientMemory",
            (Self::PidPressure, true) => "KubeletHasInsufficientPID",
            (Self::PidPressure, false) => "KubeletHasSufficientPID",
        }
    }

    /// Message of the condition.
    pub const fn message(self, raised: bool) -> &'static str {
        match (self, raised) {
            (Self::DiskPressure, true) => "evictd has disk pressure",
            (Self::DiskPressure, false) => "evictd has no disk pressure",
            (Self::MemoryPressure, true) => "evictd has insufficient memory available",
            (Self::MemoryPressure, false) => "evictd has sufficient memory available",
            (Self::PidPressure, true) => "evictd has insufficient PID available",
            (Self::PidPressure, false) => "evictd has sufficient PID available",
        }
    }

    /// Reason of the event when the condition changes (S1-078).
    pub const fn event_reason(self, raised: bool) -> &'static str {
        match (self, raised) {
            (Self::DiskPressure, true) => "NodeHasDiskPressure",
            (Self::DiskPressure, false) => "NodeHasNoDiskPressure",
            (Self::MemoryPressure, true) => "NodeHasInsufficientMemory",
            (Self::MemoryPressure, false) => "NodeHasSufficientMemory",
            (Self::PidPressure, true) => "NodeHasInsufficientPID",
            (Self::PidPressure, false) => "NodeHasSufficientPID",
        }
    }
}
