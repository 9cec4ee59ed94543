//! One pod that must leave: why, how far it is, and for how long nobody else may go.

use crate::{Cause, NodeCondition, Owner, Signal, StarvedResource, UsageNeed};
use evictd_pod::Quantity;
use jiff::{SignedDuration, Timestamp};
use std::path::PathBuf;

/// How long a killed pod that gives nothing back is waited for before another is chosen. The kernel may take as long to
/// give back what a process held.
pub(super) const KILLED: SignedDuration = SignedDuration::from_secs(2);
/// Through how many looks at least it is waited for: on a machine that stood still meanwhile it had no time to go.
const KILLED_LOOKS: u32 = 20;
/// How long any pod is waited for before another is chosen (S1-059): that it can be killed, and that what it held is back.
pub const CLEANUP: SignedDuration = SignedDuration::from_secs(30);
/// The kubelet kills two seconds after it has asked (S1-049), and the kernel takes up to two to free what the pod held.
pub(super) const ELSEWHERE: SignedDuration = SignedDuration::from_secs(4);
/// A pod that could not be ended is passed over for this long.
pub(super) const ASIDE: SignedDuration = SignedDuration::from_mins(1);

/// What a pod leaves for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// The node runs out of something, or the pod exceeds a limit of its own.
    Eviction {
        /// What brought it about.
        cause: Cause,
        /// The acting signal or limit.
        signal: String,
        /// When the threshold was first seen crossed.
        crossed_at: Timestamp,
        /// The last look that had not seen it crossed yet.
        clear_at: Timestamp,
    },
    /// It was not let in, for these conditions; for none of them where it does not fit.
    Rejection {
        /// The conditions that keep it out.
        conditions: Vec<NodeCondition>,
    },
    /// A critical pod needs its place.
    Preemption {
        /// The first resource that the critical pod lacks (S2-020).
        resource: String,
    },
    /// Its kubelet evicts it.
    Elsewhere,
    /// It was deleted and is listed no more, but runs: its kubelet is about to end it.
    Deleted,
}

impl Purpose {
    /// What kind of eviction it is, if it is one.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Eviction { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    /// The signal that the pod goes for; `None` for a limit of its own.
    pub fn signal(&self) -> Option<Signal> {
        match self {
            Self::Eviction { signal, .. } => Signal::parse(signal),
            _ => None,
        }
    }

    /// What holds as long as the pressure that the pod goes for, if that is one.
    pub fn condition(&self) -> Option<NodeCondition> {
        self.signal()?.condition()
    }

    /// Whether somebody else ends it.
    pub(crate) fn is_elsewhere(&self) -> bool {
        matches!(self, Self::Elsewhere | Self::Deleted)
    }

    fn is_for_disk(&self) -> bool {
        self.condition() == Some(NodeCondition::DiskPressure)
    }
}

/// What a pod without processes may still hold: files in memory until their volume is unmounted, process ids until they
/// are waited for. `None` where nobody can tell.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Remains {
    /// Bytes of memory.
    pub memory: Option<i64>,
    /// Bytes of swap.
    pub swap: Option<i64>,
    /// Process ids.
    pub processes: Option<u64>,
}

impl Remains {
    /// What of this signal comes back once they are gone.
    fn of(&self, signal: Signal) -> Quantity {
        match (signal, signal.resource()) {
            (Signal::MemoryPsi, _) => Quantity::ZERO,
            (Signal::SwapAvailable, _) => Quantity::bytes(self.swap.unwrap_or(0)),
            (_, StarvedResource::Memory) => Quantity::bytes(self.memory.unwrap_or(0)),
            (_, StarvedResource::Pids) => {
                let processes = i64::try_from(self.processes.unwrap_or(0));
                Quantity::count(processes.unwrap_or(i64::MAX))
            }
            _ => Quantity::ZERO,
        }
    }

    /// The kernel's own sums may be some pages off for a while.
    fn are_nothing(&self) -> bool {
        const LITTLE: i64 = 1 << 20;
        let little = |bytes: Option<i64>| bytes.is_none_or(|bytes| bytes < LITTLE);
        little(self.memory) && little(self.swap) && self.processes.unwrap_or(0) == 0
    }
}

/// How far a pod is on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its processes are being ended.
    Terminating {
        /// When SIGKILL is due.
        kill_at: Timestamp,
        /// When SIGKILL had reached all of them; `None` while it has not, an error that may pass included.
        killed: Option<Timestamp>,
    },
    /// Its last process is gone since then, and what it held may not be back yet.
    Ended {
        /// Since when.
        at: Timestamp,
    },
    /// All that it held is back, or has been waited for long enough.
    Gone {
        /// When its last process was gone.
        at: Timestamp,
    },
    /// It could not be ended: others may be chosen, and it is not until then.
    Failed {
        /// Until when.
        until: Timestamp,
    },
    /// Its disruption budget keeps it, from soft thresholds, until then.
    Blocked {
        /// Until when.
        until: Timestamp,
    },
}

/// Whether the API server is to be told of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Telling {
    /// By nobody.
    #[default]
    None,
    /// It does not know yet.
    Owed,
    /// It knows.
    Told,
}

/// One pod that must leave.
#[derive(Debug, Clone)]
pub struct Departure {
    /// Id of the decision.
    pub id: String,
    /// `namespace/name`.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// What for.
    pub purpose: Purpose,
    /// When it was decided.
    pub since: Timestamp,
    /// Between SIGTERM and SIGKILL.
    pub grace: SignedDuration,
    /// Its cgroup, relative to the root of its hierarchy, where it has one that may be touched.
    pub cgroup: Option<PathBuf>,
    /// Who would make the pod again, and the condition that it goes for.
    pub owner: Option<(Owner, NodeCondition)>,
    /// Whether the API server is asked first: a disruption budget may keep the pod.
    pub asked: bool,
    /// Whether the API server is to be told.
    pub telling: Telling,
    pub(super) stage: Stage,
    /// It runs again, and is ended again: no part of what was decided.
    pub(super) repeated: bool,
    /// Something of it runs, as last seen.
    pub runs: bool,
    /// Looks since SIGKILL was due.
    looks: u32,
    /// When it was last seen to hold less than before.
    gave_back: Option<Timestamp>,
    /// What it held of a signal's resource when last seen.
    held: Option<(Signal, Quantity)>,
    remains: Option<Remains>,
    /// When it was last looked at after its end.
    pub(super) looked: Option<Timestamp>,
}

impl Departure {
    /// One that begins at `since`. What else is known of it is set in its fields.
    pub fn new(
        (id, pod, uid): (String, String, String),
        purpose: Purpose,
        since: Timestamp,
        grace: SignedDuration,
    ) -> Self {
        Self {
            id,
            pod,
            uid,
            purpose,
            since,
            grace,
            cgroup: None,
            owner: None,
            asked: false,
            telling: Telling::None,
            stage: Stage::Terminating {
                kill_at: after(since, grace),
                killed: None,
            },
            repeated: false,
            runs: true,
            looks: 0,
            gave_back: None,
            held: None,
            remains: None,
            looked: None,
        }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// When SIGKILL was or is due.
    pub fn kill_at(&self) -> Timestamp {
        match self.stage {
            Stage::Terminating { kill_at, .. } => kill_at,
            _ => after(self.since, self.grace),
        }
    }

    /// Whether its processes are being ended.
    pub fn is_terminating(&self) -> bool {
        matches!(self.stage, Stage::Terminating { .. })
    }

    /// Whether it is over: nothing of it runs any more.
    pub fn has_left(&self) -> bool {
        matches!(self.stage, Stage::Ended { .. } | Stage::Gone { .. }) && !self.runs
    }

    /// What is waited for in a few words, and until when at most; `None` where nothing is.
    pub fn waits_for(&self) -> Option<(&'static str, Option<Timestamp>)> {
        Some(match (self.stage, &self.purpose) {
            (Stage::Terminating { kill_at, .. }, Purpose::Elsewhere) => {
                ("its kubelet evicts it", Some(kill_at))
            }
            (Stage::Terminating { kill_at, .. }, Purpose::Deleted) => (
                "it was deleted and runs on; its kubelet has this long to end it",
                Some(kill_at),
            ),
            (Stage::Terminating { .. }, _) if self.repeated => {
                ("it was started again, and is ended again", None)
            }
            (
                Stage::Terminating {
                    killed: Some(at), ..
                },
                _,
            ) => (
                "it is killed; what it holds is to come back",
                Some(after(at, CLEANUP)),
            ),
            (Stage::Terminating { kill_at, .. }, _) if self.asked => (
                "its disruption budget is asked, then it has its grace",
                Some(kill_at),
            ),
            (Stage::Terminating { kill_at, .. }, _) => ("its grace, then SIGKILL", Some(kill_at)),
            (Stage::Ended { at }, _) => (
                "no process is left; what it still holds is to come back",
                Some(after(at, CLEANUP)),
            ),
            (Stage::Failed { until }, _) => ("it could not be ended; passed over", Some(until)),
            (Stage::Blocked { until }, _) => {
                ("its disruption budget keeps it; passed over", Some(until))
            }
            (Stage::Gone { .. }, _) if self.telling == Telling::Owed => {
                ("it is gone; the API server is to be told", None)
            }
            (Stage::Gone { .. }, _) => return None,
        })
    }

    /// What it held when it was chosen.
    pub(super) fn chosen(&mut self, held: Option<(Signal, Quantity)>) {
        self.held = held.or(self.held);
    }

    /// Its termination begins: what is left of its grace runs from now on.
    pub(super) fn begin(&mut self, now: Timestamp, left: SignedDuration) {
        self.looks = 0;
        self.stage = Stage::Terminating {
            kill_at: after(now, left),
            killed: None,
        };
    }

    /// Whether its grace ends where a hard threshold acts: that of a soft victim which was on its way already, and that of
    /// any pod which goes for a critical one, for what it holds is needed now.
    pub(super) fn yields(&self, now: Timestamp, hard_since: Timestamp) -> bool {
        let yields = match self.purpose {
            Purpose::Eviction { cause, .. } => cause == Cause::Soft && self.since <= hard_since,
            Purpose::Preemption { .. } => true,
            Purpose::Rejection { .. } | Purpose::Elsewhere | Purpose::Deleted => false,
        };
        yields && self.is_terminating() && self.kill_at() > now
    }

    /// Counts the looks after SIGKILL.
    pub(super) fn look(&mut self, now: Timestamp) {
        if let Stage::Terminating { kill_at, .. } = self.stage
            && kill_at <= now
        {
            self.looks = self.looks.saturating_add(1);
        }
    }

    /// Whether the next victim for this has to wait for it.
    pub(super) fn blocks(&self, now: Timestamp, need: UsageNeed) -> bool {
        let within = |since: Timestamp, limit| now.duration_since(since) < limit;
        match self.stage {
            Stage::Terminating { .. } if self.repeated => false,
            Stage::Terminating { kill_at, .. } if self.purpose == Purpose::Elsewhere => {
                now < kill_at
            }
            // It may take long: what it holds is credited, and others may go for the rest.
            Stage::Terminating { .. } if self.purpose == Purpose::Deleted => false,
            // A soft victim has all of its grace before another goes for the same signal.
            Stage::Terminating { kill_at, .. } if now < kill_at => {
                self.purpose.signal() == Some(need.signal) || within(self.since, CLEANUP)
            }
            // What keeps it from being killed may pass.
            Stage::Terminating {
                kill_at,
                killed: None,
            } => within(kill_at, CLEANUP),
            Stage::Terminating {
                killed: Some(killed),
                ..
            } => (within(killed, KILLED) || self.looks < KILLED_LOOKS) && within(killed, CLEANUP),
            // Its files outlast its processes.
            Stage::Ended { at } => {
                let disk = need.signal.condition() == Some(NodeCondition::DiskPressure);
                disk && self.purpose.is_for_disk() && within(at, CLEANUP)
            }
            Stage::Gone { .. } | Stage::Failed { .. } | Stage::Blocked { .. } => false,
        }
    }

    /// Until when what its processes hold counts as nearly free: while it can be killed, and as long as it gives back.
    pub(crate) fn credited_until(&self) -> Timestamp {
        let Stage::Terminating { kill_at, killed } = self.stage else {
            return Timestamp::MIN;
        };
        if self.purpose.is_elsewhere() {
            return kill_at;
        }
        let killed = killed.map_or_else(|| after(kill_at, CLEANUP), |at| after(at, KILLED));
        let gave_back = self.gave_back.map_or(killed, |at| after(at, KILLED));
        killed.max(gave_back)
    }

    /// Whether what its processes hold counts as nearly free.
    pub(super) fn is_credited(&self, now: Timestamp) -> bool {
        now < self.credited_until()
    }

    /// What its processes are seen to hold. A large pod gives back over seconds on a slow or busy machine: while it holds
    /// less at each look, it is waited for. True if it holds less.
    pub(super) fn holds(&mut self, now: Timestamp, signal: Signal, holds: Quantity) -> bool {
        let before = self.held.replace((signal, holds));
        let less = before.is_some_and(|(of, held)| of == signal && holds < held);
        if less {
            self.gave_back = Some(now);
        }
        less
    }

    /// What it still holds of this signal though no process is left, as long as that is waited for.
    pub(super) fn remains(&self, now: Timestamp, signal: Signal) -> Quantity {
        match (self.stage, self.remains) {
            (Stage::Ended { at }, Some(remains)) if now.duration_since(at) < CLEANUP => {
                remains.of(signal)
            }
            _ => Quantity::ZERO,
        }
    }

    /// What is seen of it after its last process was gone; true once all is back or has been waited for long enough.
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        listed: bool,
        remains: Option<Remains>,
    ) -> bool {
        let Stage::Ended { at } = self.stage else {
            return false;
        };
        self.remains = remains.or(self.remains);
        // What runs again holds what it holds for itself.
        let back = if self.runs {
            true
        } else if self.purpose.is_for_disk() {
            !listed
        } else {
            self.remains.is_none_or(|remains| remains.are_nothing())
        };
        if back || now.duration_since(at) >= CLEANUP {
            self.stage = Stage::Gone { at };
            return true;
        }
        false
    }
}

/// That much later; where there is no such time, the last one there is.
pub(super) fn after(time: Timestamp, pause: SignedDuration) -> Timestamp {
    time.saturating_add(pause).unwrap_or(Timestamp::MAX)
}
