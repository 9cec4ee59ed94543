//! The actions of a plan. The scheduler only carries them out.

use evictd_pod::wire::Generation;
use serde::Serialize;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Action {
    /// Write the nominated node into the pod's status. If that fails, no further action may be taken (S3-005).
    Nominate {
        /// `namespace/name`.
        pod: String,
        /// The node.
        node: String,
    },
    /// Clear the nomination in the pod's status. A failure is logged and stops nothing (S3-009).
    ClearNomination {
        /// `namespace/name`.
        pod: String,
    },
    /// Patch a condition into the victim's status. A deleted victim counts as success (S4-021, S4-023).
    PatchCondition {
        /// `namespace/name`.
        pod: String,
        /// Guards against a new pod of the same name.
        uid: String,
        /// `DisruptionTarget`.
        #[serde(rename = "type")]
        kind: &'static str,
        /// `True`.
        status: &'static str,
        /// `PreemptionByScheduler`.
        reason: &'static str,
        /// The message, as kube-scheduler writes it.
        message: String,
        /// The generation of the victim's spec, if it is known.
        #[serde(skip_serializing_if = "Option::is_none")]
        observed_generation: Generation,
    },
    /// Delete the victim. A deleted victim counts as success.
    Delete {
        /// `namespace/name`.
        pod: String,
        /// Guards against a new pod of the same name.
        uid: String,
    },
    /// Reject a victim that waits in Permit (S3-007, S4-022).
    RejectWaiting {
        /// `namespace/name`.
        pod: String,
        /// Guards against a new pod of the same name.
        uid: String,
    },
    /// Record an event about a victim.
    Event(Event),
}

/// An event about a victim (S3-008, S4-024).
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// `namespace/name`.
    pub pod: String,
    /// `Normal`.
    #[serde(rename = "type")]
    pub kind: &'static str,
    /// `Preempted`.
    pub reason: &'static str,
    /// `Preempting`.
    pub action: &'static str,
    /// The note, as kube-scheduler writes it.
    pub note: String,
}
