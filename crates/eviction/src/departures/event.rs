//! What happens to pods that must leave, and what follows from it.

use super::{Departure, Remains};
use crate::{ConditionMap, NodeCondition};
use jiff::{SignedDuration, Timestamp};
use std::path::PathBuf;

/// What the shell reports.
#[derive(Debug, Clone)]
pub enum Event {
    /// This pod must leave; what was decided is written down.
    Begin(Box<Departure>),
    /// An earlier run has left this open.
    Find(Box<Found>),
    /// These leave for a critical pod, in this order.
    Plan(Vec<Planned>),
    /// A hard threshold acts since then.
    CutGraces {
        /// Since when.
        hard_since: Timestamp,
    },
    /// SIGKILL has reached every process of this pod.
    Killed {
        /// The pod's UID.
        uid: String,
    },
    /// A pod's termination has ended, well or not.
    Ended {
        /// The pod's UID.
        uid: String,
        /// How.
        ending: Ending,
    },
    /// It is known what became of what the API server was to be told.
    Told {
        /// Id of the decision.
        id: String,
        /// Whether it knows.
        told: bool,
    },
    /// What [`super::Departures::questions`] asked for.
    Seen(Vec<Sighting>),
    /// It is time to think of those who leave for critical pods.
    Next,
}

/// A decision that the history leaves open.
#[derive(Debug, Clone)]
pub struct Found {
    /// As it was decided.
    pub departure: Departure,
    /// Whether it is known what became of the pod.
    pub ended: bool,
    /// Whether the machine was started since.
    pub rebooted: bool,
}

/// How a termination ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// No process is left.
    Gone {
        /// When the last was seen gone.
        at: Timestamp,
    },
    /// It could not be ended in the time that it had.
    Failed,
    /// Its disruption budget does not let it go.
    Blocked {
        /// When to ask again.
        again: SignedDuration,
    },
}

/// What the shell is to do.
#[derive(Debug, Clone)]
pub enum Command {
    /// End the pod's processes: ask, wait for what is `left` of its grace, kill. To be answered by [`Event::Ended`].
    Terminate {
        /// The pod's UID.
        uid: String,
        /// What is left of its grace.
        left: SignedDuration,
        /// It runs again after its end: nothing new is told or written down.
        again: bool,
    },
    /// End the grace that is running.
    CutGrace {
        /// The pod's UID.
        uid: String,
    },
    /// Tell the API server; nothing has to be ended.
    Tell {
        /// The pod's UID.
        uid: String,
    },
    /// Drop what the API server was to be told.
    Withdraw {
        /// The pod's UID.
        uid: String,
        /// In words.
        why: &'static str,
    },
    /// It is this one's turn to leave for a critical pod: write it down and [`Event::Begin`], or pass it over.
    Preempt(Planned),
    /// What became of a decision that an earlier run has left open is known without a termination.
    Conclude {
        /// Of whom.
        departure: Box<Departure>,
        /// What.
        conclusion: Conclusion,
    },
    /// A pod that was turned away is let in when it is next asked about.
    LetIn {
        /// The pod's UID.
        uid: String,
    },
}

/// What became of a decision that an earlier run has left open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Conclusion {
    /// The pod is gone, and nobody saw when.
    Gone,
    /// It runs on after the pressure: what is not done yet is not done any more.
    RunsOn {
        /// Whether its outcome is not known yet.
        unended: bool,
        /// Whether the API server was to be told.
        untold: bool,
    },
}

/// Who is to leave for a critical pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Planned {
    /// The pod's UID.
    pub uid: String,
    /// UID of the critical one.
    pub preemptor: String,
    /// The first resource that it lacks.
    pub lacks: String,
}

/// A pod that has to be looked at.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Question {
    /// The pod's UID.
    pub uid: String,
    /// Its cgroup as last known.
    pub cgroup: Option<PathBuf>,
    /// Whether what it still holds is asked for.
    pub remains: bool,
    /// Whether some process of it is older than this, where that is asked for.
    pub older_than: Option<Timestamp>,
}

/// What was seen of one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the pod"
)]
pub struct Sighting {
    /// The pod's UID.
    pub uid: String,
    /// Its cgroup, where it has one.
    pub cgroup: Option<PathBuf>,
    /// Whether anything runs in it; `None` where nobody can tell.
    pub runs: Option<bool>,
    /// Whether it is listed, let in or not.
    pub listed: bool,
    /// Whether it is listed and let in.
    pub let_in: bool,
    /// Whether its status says that it has ended.
    pub terminal: bool,
    /// Whether nobody can tell where it is at present.
    pub unsure: bool,
    /// Whether some process of it is older than what was decided, where that was asked for.
    pub older: bool,
    /// What it still holds, where that was asked for.
    pub remains: Option<Remains>,
}

/// What holds on the node meanwhile.
#[derive(Debug, Clone, Copy, Default)]
pub struct Context {
    /// Conditions that hold for their cause.
    pub pressing: ConditionMap<bool>,
    /// Conditions that keep new pods away.
    pub keeping_away: ConditionMap<bool>,
    /// How long a condition outlives its cause.
    pub transition_period: SignedDuration,
    /// Whether a kubelet looks after the pods.
    pub kubelet: bool,
    /// Dry run, or paused: nobody is set on the way out.
    pub ends_nobody: bool,
}

impl Context {
    pub(super) fn presses(&self, condition: NodeCondition) -> bool {
        self.pressing[condition]
    }

    pub(super) fn keeps_away(&self, condition: NodeCondition) -> bool {
        self.keeping_away[condition]
    }
}
