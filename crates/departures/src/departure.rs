//! One pod that must leave: its reason, its stage, and how long it keeps other pods from being chosen.

use evictd_decision::{Cause, Owner};
use evictd_pod::Quantity;
use evictd_signals::{NodeCondition, Signal, SignalMap, StarvedResource};
use evictd_usage::UsageNeed;
use jiff::{SignedDuration, Timestamp};
use std::path::PathBuf;

/// How long a killed pod that frees nothing is waited for before another victim is chosen. After a process has died
/// the kernel may need this long to free its memory.
pub(super) const KILL_WAIT: SignedDuration = SignedDuration::from_secs(2);
/// A killed pod is waited for during at least this many cycles. On a machine that was suspended or stalled, time
/// has passed in which the pod could not exit.
const KILL_WAIT_CYCLES: u32 = 20;
/// The longest time that any pod is waited for before another victim is chosen (S1-059): first until it is killed,
/// then until its resources are free.
pub const CLEANUP_TIMEOUT: SignedDuration = SignedDuration::from_secs(30);
/// How long an ended pod is waited for after its files are removed. A filesystem frees the blocks of a large file after
/// its name: in the same system call (ext4), or later (XFS, btrfs).
const FREEING_TIMEOUT: SignedDuration = SignedDuration::from_secs(10);
/// The kubelet sends SIGKILL two seconds after SIGTERM (S1-049), and the kernel needs up to two more seconds to free
/// the pod's memory.
pub(super) const KUBELET_KILL_WAIT: SignedDuration = SignedDuration::from_secs(4);
/// How long a notice stays owed after the pod's end, and after the API server has first accepted it. A kubelet that
/// does not see its pods starts the pod again and overwrites its status. After a restart of the API server kubelets
/// were seen to read their pods again after 13 s and after 66 s; with a connection that hangs it takes some minutes.
pub const NOTICE_OWED: SignedDuration = SignedDuration::from_mins(10);
/// After a failed termination the pod is passed over for this long.
pub(super) const FAILED_WAIT: SignedDuration = SignedDuration::from_mins(1);

/// Why a pod must leave.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Purpose {
    /// The node is short of a resource, or the pod exceeds a limit of its own.
    Eviction {
        /// The kind of eviction.
        cause: Cause,
        /// The acting signal or limit.
        signal: String,
        /// When the threshold was first seen crossed.
        crossed_at: Timestamp,
        /// The last cycle in which the threshold was not crossed.
        clear_at: Timestamp,
    },
    /// The pod was not admitted: because of node conditions, or, if there are none, because it does not fit.
    Rejection {
        /// The conditions that forbid it.
        conditions: Vec<NodeCondition>,
    },
    /// A critical pod needs its resources.
    Preemption {
        /// The first resource that the critical pod lacks (S2-020).
        resource: String,
    },
    /// The kubelet evicts it, not evictd.
    KubeletEviction,
    /// It was deleted and is no longer listed, but it still runs. Its kubelet is expected to end it.
    Deleted,
}

impl Purpose {
    /// The kind of eviction; `None` for anything but an eviction.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Eviction { cause, .. } => Some(*cause),
            _ => None,
        }
    }

    /// The signal of the eviction; `None` for a local storage limit and for anything but an eviction.
    pub fn signal(&self) -> Option<Signal> {
        match self {
            Self::Eviction { signal, .. } => Signal::parse(signal),
            _ => None,
        }
    }

    /// The node condition of the signal or of the rejection, if there is one. The reason to leave ends when this
    /// condition ends.
    pub fn condition(&self) -> Option<NodeCondition> {
        self.signal()?.condition()
    }

    /// Whether the kubelet ends the pod, not evictd.
    pub fn is_by_kubelet(&self) -> bool {
        matches!(self, Self::KubeletEviction | Self::Deleted)
    }

    /// Whether its files are waited for after its processes.
    pub fn is_for_disk(&self) -> bool {
        self.condition() == Some(NodeCondition::DiskPressure)
    }
}

/// Usage that a pod may still have after its last process has exited: files in memory until the volume is unmounted,
/// process ids until the parent has waited for them. `None` where it is unknown.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RemainingUsage {
    /// Bytes of memory.
    pub memory: Option<i64>,
    /// Bytes of swap.
    pub swap: Option<i64>,
    /// Process ids of zombies.
    pub processes: Option<u64>,
    /// Whether hardly any of its files are left. Its object may be listed for days after that.
    pub files_are_gone: Option<bool>,
}

impl RemainingUsage {
    /// How much of `signal` becomes available once these resources are freed.
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

    /// Whether this is nothing but rounding: the kernel's counters may lag by some pages.
    fn is_negligible(&self) -> bool {
        const LITTLE: i64 = 1 << 20;
        let little = |bytes: Option<i64>| bytes.is_none_or(|bytes| bytes < LITTLE);
        little(self.memory) && little(self.swap) && self.processes.unwrap_or(0) == 0
    }
}

/// The stage of a pod's departure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Its processes are being ended.
    Terminating {
        /// When SIGKILL is due or was sent.
        kill_at: Timestamp,
        /// When SIGKILL had reached every process. `None` before, and after an error that a retry may solve.
        killed: Option<Timestamp>,
    },
    /// Its last process has exited; its resources may not be free yet.
    Ended {
        /// When the last process exited.
        at: Timestamp,
    },
    /// All its resources are free, or the wait for them has timed out.
    Gone {
        /// When the last process exited.
        at: Timestamp,
    },
    /// It could not be terminated. It is passed over until `until`, and other pods may be chosen.
    Failed {
        /// When it may be chosen again.
        until: Timestamp,
    },
    /// Its disruption budget forbids an eviction for soft thresholds until `until`.
    Blocked {
        /// When it may be chosen again.
        until: Timestamp,
    },
}

/// Whether the API server has to be informed of the departure.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NoticeState {
    /// It need not be informed.
    #[default]
    NotNeeded,
    /// It must be informed and is not yet.
    Pending,
    /// It is informed, or no longer has the pod.
    Sent,
}

/// One pod that must leave.
#[derive(Debug, Clone)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own about the pod"
)]
pub struct Departure {
    /// Id of the decision, as in the history.
    pub id: String,
    /// `namespace/name`.
    pub pod: String,
    /// The pod's UID, by which it is tracked.
    pub uid: String,
    /// Why it must leave.
    pub purpose: Purpose,
    /// When the decision was made.
    pub since: Timestamp,
    /// Grace period between SIGTERM and SIGKILL.
    pub grace: SignedDuration,
    /// Its cgroup, relative to the root of the hierarchy; `None` if it has no cgroup that the daemon may write to.
    pub cgroup: Option<PathBuf>,
    /// The pod's owner, and the node condition that counts its evictions.
    pub owner: Option<(Owner, NodeCondition)>,
    /// Whether the API server is asked for permission first: a disruption budget may forbid the eviction.
    pub asked: bool,
    /// Whether the API server has to be informed.
    pub notice_state: NoticeState,
    /// How long the pre-kill hook may take before the first signal; `None` if it is not run. See [`Departure::allow_hook`].
    pub hook: Option<SignedDuration>,
    /// While the hook runs: when it has to end.
    pub(super) hook_until: Option<Timestamp>,
    /// When the API server first accepted the notice. Its kubelet may not have seen it yet.
    pub(super) notice_accepted_at: Option<Timestamp>,
    pub(super) stage: Stage,
    /// The pod was started again and is ended again. The repetition is not a decision of its own.
    pub(super) repeated: bool,
    /// Whether a process of the pod ran at the last check.
    pub runs: bool,
    /// Its kubelet would end it only after a signal is exhausted, so its time was cut short.
    pub(super) kubelet_is_too_late: bool,
    /// Cycles since SIGKILL was due.
    cycles_after_kill: u32,
    /// When its usage was last seen to shrink.
    shrank_at: Option<Timestamp>,
    /// Its usage of the signal's resource when last seen.
    last_usage: Option<(Signal, Quantity)>,
    remaining: Option<RemainingUsage>,
    /// The signal of a disk, and the amount of it that must be available before the pod's files count as freed.
    awaited: Option<(Signal, i64)>,
    /// When its files were first seen removed.
    files_removed_at: Option<Timestamp>,
    /// When it was last checked after its end.
    pub(super) checked_at: Option<Timestamp>,
}

impl Departure {
    /// A departure decided at `since`, in stage `Terminating`. The caller sets the other fields if they are known.
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
            notice_state: NoticeState::NotNeeded,
            hook: None,
            hook_until: None,
            notice_accepted_at: None,
            stage: Stage::Terminating {
                kill_at: after(since, grace),
                killed: None,
            },
            repeated: false,
            runs: true,
            kubelet_is_too_late: false,
            cycles_after_kill: 0,
            shrank_at: None,
            last_usage: None,
            remaining: None,
            awaited: None,
            files_removed_at: None,
            checked_at: None,
        }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// When SIGKILL is due or was sent.
    pub fn kill_at(&self) -> Timestamp {
        match self.stage {
            Stage::Terminating { kill_at, .. } => kill_at,
            _ => after(self.since, self.grace),
        }
    }

    /// Whether its processes are being terminated.
    pub fn is_terminating(&self) -> bool {
        matches!(self.stage, Stage::Terminating { .. })
    }

    /// Whether its last process has exited.
    pub fn has_left(&self) -> bool {
        matches!(self.stage, Stage::Ended { .. } | Stage::Gone { .. }) && !self.runs
    }

    /// The reason why this departure waits, in a few words, and the latest end of the wait. `None` if it does not wait.
    pub fn waits_for(&self) -> Option<(&'static str, Option<Timestamp>)> {
        Some(match (self.stage, &self.purpose) {
            (Stage::Terminating { kill_at, .. }, Purpose::KubeletEviction) => {
                ("its kubelet evicts it", Some(kill_at))
            }
            (Stage::Terminating { kill_at, .. }, Purpose::Deleted) => (
                "it was deleted and still runs; its kubelet has this long to end it",
                Some(kill_at),
            ),
            (Stage::Terminating { .. }, _) if self.repeated => {
                ("it was started again, and is terminated again", None)
            }
            (
                Stage::Terminating {
                    killed: Some(at), ..
                },
                _,
            ) => (
                "it is killed; what it holds is not released yet",
                Some(after(at, CLEANUP_TIMEOUT)),
            ),
            (Stage::Terminating { .. }, _) if self.hook_until.is_some() => (
                "the pre-kill hook runs, then its grace period begins",
                self.hook_until,
            ),
            (Stage::Terminating { kill_at, .. }, _) if self.asked => (
                "the eviction API is asked, then its grace period begins",
                Some(kill_at),
            ),
            (Stage::Terminating { kill_at, .. }, _) => {
                ("its grace period, then SIGKILL", Some(kill_at))
            }
            (Stage::Ended { at }, _) => (
                "no process is left; what it holds is not released yet",
                Some(after(at, CLEANUP_TIMEOUT)),
            ),
            (Stage::Failed { until }, _) => (
                "it could not be terminated; passed over for now",
                Some(until),
            ),
            (Stage::Blocked { until }, _) => (
                "its disruption budget blocks it; passed over for now",
                Some(until),
            ),
            (Stage::Gone { .. }, _) if self.notice_state == NoticeState::Pending => {
                let accepted = self.notice_accepted_at.is_some();
                let words = match (self.runs, accepted) {
                    (true, _) => "it runs again; its kubelet has not seen the decision yet",
                    (false, true) => "it is gone; its kubelet has not confirmed it yet",
                    (false, false) => "it is gone; the API server does not know it yet",
                };
                (words, None)
            }
            (Stage::Gone { .. }, _) => return None,
        })
    }

    /// Whether the decision holds although its pod runs again and its reason is over. A pending notice holds while the
    /// pod's kubelet may not have seen it. Without one, and for a rejection that no kubelet has seen, the decision
    /// holds for the transition period.
    pub(super) fn is_in_force(
        &self,
        now: Timestamp,
        gone: Timestamp,
        transition_period: SignedDuration,
    ) -> bool {
        let rejected = matches!(self.purpose, Purpose::Rejection { .. });
        let is_pending = self.notice_state == NoticeState::Pending;
        let (since, period) = match self.notice_accepted_at {
            // A status that was accepted may still be overwritten, so the notice is owed from that moment.
            Some(at) if is_pending => (at.max(gone), transition_period.max(NOTICE_OWED)),
            None if is_pending && !rejected => (gone, transition_period.max(NOTICE_OWED)),
            _ => (gone, transition_period),
        };
        now.duration_since(since) < period
    }

    /// Notes the pod's usage of `signal` when it was chosen, and the amount that was `available` then. Without
    /// `available` its files count as freed when they are removed.
    pub(super) fn chosen(&mut self, signal: Signal, held: Quantity, available: Option<i64>) {
        self.last_usage = Some((signal, held));
        // Others go on writing meanwhile: half of it shows that it was freed.
        let awaited = |left: i64| (signal, left.saturating_add(held.value() / 2));
        self.awaited = available
            .filter(|_| self.purpose.is_for_disk())
            .map(awaited);
    }

    /// Its termination begins now, with `left` of its grace period remaining.
    pub(super) fn begin(&mut self, now: Timestamp, left: SignedDuration) {
        self.cycles_after_kill = 0;
        self.hook_until = None;
        self.stage = Stage::Terminating {
            kill_at: after(now, left),
            killed: None,
        };
    }

    /// Whether its grace period is to be cut short when a hard threshold is met since `hard_since`. This applies to a
    /// victim of a soft threshold that was terminating before, and to every preempted pod, since its memory is
    /// needed now.
    pub(super) fn is_cut_short(&self, now: Timestamp, hard_since: Timestamp) -> bool {
        let is_cut_short = match self.purpose {
            // A soft victim that was chosen after the hard crossing was chosen beside it, with its grace period.
            Purpose::Eviction { cause, .. } => cause == Cause::Soft && self.since <= hard_since,
            Purpose::Preemption { .. } => true,
            Purpose::Rejection { .. } | Purpose::KubeletEviction | Purpose::Deleted => false,
        };
        is_cut_short && self.is_terminating() && self.kill_at() > now
    }

    /// Whether the kubelet would kill this pod only after the signal of a hard threshold is exhausted. The pod runs
    /// until then, so its end would come too late.
    pub(super) fn is_too_late(&self, now: Timestamp, exhausted_at: Option<Timestamp>) -> bool {
        let kill_at = self.kill_at();
        self.purpose.is_by_kubelet()
            && self.is_terminating()
            && kill_at > now
            && exhausted_at.is_some_and(|exhausted| exhausted < kill_at)
    }

    /// Counts the cycles after SIGKILL.
    pub(super) fn count_cycle(&mut self, now: Timestamp) {
        if let Stage::Terminating { kill_at, .. } = self.stage
            && kill_at <= now
        {
            self.cycles_after_kill = self.cycles_after_kill.saturating_add(1);
        }
    }

    /// Whether this pod has to leave before another victim may be chosen for `need`. Without credit for its usage, decisions
    /// wait until the usage is free, at most as long as the kubelet waits (S1-059).
    pub(super) fn blocks(&self, now: Timestamp, need: UsageNeed, credited: bool) -> bool {
        let within = |since: Timestamp, limit| now.duration_since(since) < limit;
        match self.stage {
            // Its first end was waited for; a pod that starts again and again must not hold up every decision.
            Stage::Terminating { .. } if self.repeated => false,
            Stage::Terminating { kill_at, .. } if self.purpose == Purpose::KubeletEviction => {
                now < kill_at
            }
            // The kubelet may take long to end a deleted pod. Its usage is credited, and other pods may be chosen
            // for the rest.
            Stage::Terminating { .. } if self.purpose == Purpose::Deleted => false,
            // The victim of a soft threshold keeps its whole grace period before another pod is chosen for the same
            // signal.
            Stage::Terminating { kill_at, .. } if now < kill_at => {
                self.purpose.signal() == Some(need.signal) || within(self.since, CLEANUP_TIMEOUT)
            }
            // SIGKILL has not reached every process; the error may pass.
            Stage::Terminating {
                kill_at,
                killed: None,
            } => within(kill_at, CLEANUP_TIMEOUT),
            Stage::Terminating {
                killed: Some(killed),
                ..
            } => {
                // Both, time and samples: on a busy machine two seconds may hold only a few samples.
                let dies = within(killed, KILL_WAIT) || self.cycles_after_kill < KILL_WAIT_CYCLES;
                (dies || !credited) && within(killed, CLEANUP_TIMEOUT)
            }
            // Its files outlast its processes, and so may its memory.
            Stage::Ended { at } => {
                let disk = need.signal.condition() == Some(NodeCondition::DiskPressure);
                let resource = self.purpose.signal().map(Signal::resource);
                let same = !credited && resource == Some(need.signal.resource());
                (same || (disk && self.purpose.is_for_disk())) && within(at, CLEANUP_TIMEOUT)
            }
            Stage::Gone { .. } | Stage::Failed { .. } | Stage::Blocked { .. } => false,
        }
    }

    /// Until when the usage of its processes counts as nearly free: while the kill may take, and as long as its
    /// usage shrinks.
    pub fn credited_until(&self) -> Timestamp {
        let Stage::Terminating { kill_at, killed } = self.stage else {
            return Timestamp::MIN;
        };
        // Its kubelet may do anything later.
        if self.purpose.is_by_kubelet() {
            return kill_at;
        }
        let killed = killed.map_or_else(
            || after(kill_at, CLEANUP_TIMEOUT),
            |at| after(at, KILL_WAIT),
        );
        let shrank_at = self.shrank_at.map_or(killed, |at| after(at, KILL_WAIT));
        killed.max(shrank_at)
    }

    /// Whether the usage of its processes counts as nearly free.
    pub(super) fn is_credited(&self, now: Timestamp) -> bool {
        now < self.credited_until()
    }

    /// Notes the current usage of its processes; true if it has shrunk. On a slow or busy machine a large pod needs
    /// seconds to free its memory: while its usage shrinks from cycle to cycle, it is waited for.
    pub(super) fn update_usage(&mut self, now: Timestamp, signal: Signal, holds: Quantity) -> bool {
        let before = self.last_usage.replace((signal, holds));
        let less = before.is_some_and(|(of, last_usage)| of == signal && holds < last_usage);
        if less {
            self.shrank_at = Some(now);
        }
        less
    }

    /// Its usage of `signal` after its last process has exited, until the wait for it ends.
    pub(super) fn remaining(&self, now: Timestamp, signal: Signal) -> Quantity {
        match (self.stage, self.remaining) {
            (Stage::Ended { at }, Some(remaining)) if now.duration_since(at) < CLEANUP_TIMEOUT => {
                remaining.of(signal)
            }
            _ => Quantity::ZERO,
        }
    }

    /// Whether the disk shows the space of the removed files as available, or has had time to.
    fn disk_shows_it(&mut self, now: Timestamp, available: &SignalMap<Option<i64>>) -> bool {
        let removed_at = *self.files_removed_at.get_or_insert(now);
        self.awaited.is_none_or(|(signal, expected)| {
            available[signal].is_none_or(|left| left >= expected)
                || now.duration_since(removed_at) >= FREEING_TIMEOUT
        })
    }

    /// Notes the state of the pod after its last process has exited. Returns true once all its resources are free or
    /// the wait for them has timed out. `available`: the available amount of each signal at the last observation.
    pub(super) fn settle(
        &mut self,
        now: Timestamp,
        listed: bool,
        remaining: Option<RemainingUsage>,
        available: &SignalMap<Option<i64>>,
    ) -> bool {
        let Stage::Ended { at } = self.stage else {
            return false;
        };
        // An unknown reading keeps the last one: no figure does not mean that all is released.
        self.remaining = remaining.or(self.remaining);
        // If it runs again, its usage belongs to the new processes, so nothing is left to be freed.
        let back = if self.runs {
            true
        } else if self.purpose.is_for_disk() {
            let gone = self
                .remaining
                .and_then(|remaining| remaining.files_are_gone);
            (!listed || gone == Some(true)) && self.disk_shows_it(now, available)
        } else {
            self.remaining
                .is_none_or(|remaining| remaining.is_negligible())
        };
        if back || now.duration_since(at) >= CLEANUP_TIMEOUT {
            self.stage = Stage::Gone { at };
            return true;
        }
        false
    }
}

/// `time` plus `pause`; the latest representable time if that overflows.
pub fn after(time: Timestamp, pause: SignedDuration) -> Timestamp {
    time.saturating_add(pause).unwrap_or(Timestamp::MAX)
}
