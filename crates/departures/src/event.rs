//! Events of pods that must leave, and the commands that follow from them.

use super::{Departure, RemainingUsage};
use evictd_signals::{ConditionMap, NodeCondition, SignalMap};
use jiff::{SignedDuration, Timestamp};
use std::path::PathBuf;

/// A report of the caller.
#[derive(Debug, Clone)]
pub enum Event {
    /// A pod must leave. The caller has written the decision to the history before.
    Begin(Box<Departure>),
    /// A decision that an earlier run of the daemon did not finish.
    Resume(Box<UnfinishedDecision>),
    /// These pods are to be preempted, in this order.
    Plan(Vec<Planned>),
    /// A hard threshold is met: grace periods that it cuts short end now.
    CutGraces {
        /// Since when it is met.
        hard_since: Timestamp,
        /// When its signal is exhausted, where known.
        exhausted_at: Option<Timestamp>,
    },
    /// SIGKILL has reached every process of the pod.
    Killed {
        /// UID of the pod.
        uid: String,
    },
    /// The pod's pre-kill hook has ended, in whatever way; its grace period has begun.
    HookEnded {
        /// UID of the pod.
        uid: String,
    },
    /// A pod's termination has ended, successfully or not.
    Ended {
        /// UID of the pod.
        uid: String,
        /// Whether the pod has terminated.
        ending: Ending,
    },
    /// The API server has accepted a notice. The pod's kubelet may not have seen it yet, and may overwrite it.
    NoticeAccepted {
        /// Id of the decision.
        id: String,
    },
    /// The outcome of informing the API server of a decision.
    NoticeClosed {
        /// Id of the decision.
        id: String,
        /// Whether the API server is informed.
        sent: bool,
    },
    /// The answer to [`super::Departures::questions`].
    Observed(Vec<PodState>),
    /// Time to begin the next planned preemption.
    Next,
}

/// A decision that the history shows as not finished.
#[derive(Debug, Clone)]
pub struct UnfinishedDecision {
    /// As it was decided.
    pub departure: Departure,
    /// Whether the history has an outcome for the pod.
    pub ended: bool,
    /// Whether the machine was rebooted after the decision.
    pub rebooted: bool,
}

/// How a termination ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No process is left.
    Gone {
        /// When the daemon saw that the last process had exited.
        at: Timestamp,
    },
    /// Some process did not exit in time.
    Failed,
    /// A disruption budget forbids it.
    Blocked {
        /// How long to wait before asking again.
        again: SignedDuration,
    },
}

/// An action that the caller must carry out.
#[derive(Debug, Clone)]
pub enum Command {
    /// Terminate the pod: send SIGTERM, wait for `left`, send SIGKILL. The caller answers with [`Event::Ended`].
    Terminate {
        /// UID of the pod.
        uid: String,
        /// The rest of the grace period.
        left: SignedDuration,
        /// The pod was ended before and was started again: nothing is published or written to the history a second
        /// time.
        again: bool,
    },
    /// The pod's running grace period is cut short, or its kubelet's time to end it.
    CutGrace {
        /// UID of the pod.
        uid: String,
    },
    /// The pod's pre-kill hook has to end now; its grace period begins.
    EndHook {
        /// UID of the pod.
        uid: String,
    },
    /// Inform the API server; the pod has no process to terminate.
    SendNotice {
        /// UID of the pod.
        uid: String,
    },
    /// Drop the pending publication about the pod.
    Withdraw {
        /// UID of the pod.
        uid: String,
        /// The reason in words.
        why: &'static str,
    },
    /// This preemption is next: write the decision to the history and report [`Event::Begin`], or skip it with
    /// [`super::Departures::skip_planned`].
    Preempt(Planned),
    /// A decision of an earlier run is finished without a termination.
    Conclude {
        /// The pod and its decision.
        departure: Box<Departure>,
        /// Whether the pod has terminated or runs.
        conclusion: Conclusion,
    },
    /// A pod that was rejected before has to be admitted from now on.
    Admit {
        /// UID of the pod.
        uid: String,
    },
}

/// The result of a decision that an earlier run did not finish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// The pod does not exist any more; the time of its end is unknown.
    Gone,
    /// The pressure is over and the pod still runs: pending actions are dropped.
    StillRuns {
        /// Whether the history has no outcome of the termination yet.
        outcome_missing: bool,
        /// Whether the API server was to be informed and is not.
        notice_pending: bool,
    },
}

/// A pod that is to be preempted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// UID of the pod.
    pub uid: String,
    /// UID of the critical pod.
    pub preemptor: String,
    /// The first resource that the critical pod lacks.
    pub lacks: String,
}

/// A question to the caller about the present state of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// UID of the pod.
    pub uid: String,
    /// Its cgroup as last known.
    pub cgroup: Option<PathBuf>,
    /// Whether to report the pod's remaining usage.
    pub remaining: bool,
    /// Whether to report if some process of the pod is older than this time.
    pub older_than: Option<Timestamp>,
}

/// The answer to a [`Question`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the pod"
)]
pub struct PodState {
    /// UID of the pod.
    pub uid: String,
    /// Its cgroup, where it has one.
    pub cgroup: Option<PathBuf>,
    /// Whether a process runs in that cgroup; `None` where that cannot be determined.
    pub runs: Option<bool>,
    /// Whether the pod is listed, admitted or not.
    pub listed: bool,
    /// Whether the pod is listed and admitted.
    pub is_admitted: bool,
    /// Whether its status has a terminal phase.
    pub terminal: bool,
    /// Whether it is not known at present where the pod is.
    pub unsure: bool,
    /// Whether some process of it is older than the decision, if that was asked.
    pub older: bool,
    /// The pod's remaining usage, if the observer had to report it.
    pub remaining: Option<RemainingUsage>,
}

/// The state of the node that departures depend on.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context {
    /// Conditions whose own cause is present, not those that are only held back from clearing.
    pub pressing: ConditionMap<bool>,
    /// Conditions that currently keep new pods off the node.
    pub keeping_away: ConditionMap<bool>,
    /// The available amount of each signal at the last observation.
    pub available: SignalMap<Option<i64>>,
    /// How long a condition lasts after its cause is over.
    pub transition_period: SignedDuration,
    /// Whether a kubelet manages the pods.
    pub kubelet: bool,
    /// Dry run or pause: no pod is terminated.
    pub terminations_off: bool,
}

impl Context {
    pub(super) fn presses(&self, condition: NodeCondition) -> bool {
        self.pressing[condition]
    }

    pub(super) fn keeps_away(&self, condition: NodeCondition) -> bool {
        self.keeping_away[condition]
    }
}
