//! What a scheduler would do; whoever calls only carries it out.

use serde::Serialize;

/// One thing to do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "do", rename_all = "camelCase", rename_all_fields = "camelCase")]
pub enum Action {
    /// Write into the pod's status that this node is being freed for it. Where that fails, nothing else may be done
    /// (S3-005).
    Nominate {
        /// `namespace/name`.
        pod: String,
        /// The node.
        node: String,
    },
    /// Take the nomination out of the pod's status. A failure is told and stops nothing (S3-009).
    ClearNomination {
        /// `namespace/name`.
        pod: String,
    },
    /// Put a condition into the victim's status; that it is gone counts as done (S4-021, S4-023).
    PatchCondition {
        /// `namespace/name`.
        pod: String,
        /// The one that is meant, and no other of the name.
        uid: String,
        /// `DisruptionTarget`.
        #[serde(rename = "type")]
        kind: &'static str,
        /// `True`.
        status: &'static str,
        /// `PreemptionByScheduler`.
        reason: &'static str,
        /// A sentence.
        message: String,
    },
    /// Delete the victim; that it is gone counts as done.
    Delete {
        /// `namespace/name`.
        pod: String,
        /// The one that is meant, and no other of the name.
        uid: String,
    },
    /// Refuse a victim that waits for its binding (S3-007, S4-022).
    RejectWaiting {
        /// `namespace/name`.
        pod: String,
        /// The one that is meant, and no other of the name.
        uid: String,
    },
    /// Tell the world.
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
    /// A sentence.
    pub note: String,
}
