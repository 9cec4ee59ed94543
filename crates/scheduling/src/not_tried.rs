//! Pods that the scheduler never tries, whatever the nodes have.

use evictd_pod::wire::{self, PodPhase};
use std::fmt;

/// Why a pod is not tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NotTried {
    /// It has scheduling gates (S5-037), by name.
    Gated(Vec<String>),
    /// It is being deleted (S5-040): `namespace/name`.
    Deleting(String),
    /// It has ended, with this phase.
    Ended(PodPhase),
}

impl NotTried {
    /// The reason for a pod without a node; `None` if it is tried.
    pub fn of(pod: &wire::Pod) -> Option<Self> {
        if pod.status.phase.has_ended() {
            return Some(Self::Ended(pod.status.phase.clone()));
        }
        if pod.metadata.deletion_timestamp.is_some() {
            return Some(Self::Deleting(pod.metadata.full_name()));
        }
        let gates = pod.spec.scheduling_gates.iter();
        let gates: Vec<String> = gates.map(|gate| gate.name.clone()).collect();
        (!gates.is_empty()).then_some(Self::Gated(gates))
    }
}

impl fmt::Display for NotTried {
    /// In kube-scheduler's words where it has some.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gated(gates) => write!(f, "waiting for scheduling gates: [{}]", gates.join(" ")),
            Self::Deleting(pod) => write!(f, "skip schedule deleting pod: {pod}"),
            Self::Ended(phase) => write!(f, "it has ended with phase {phase}"),
        }
    }
}
