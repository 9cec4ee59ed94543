//! Pods that must leave. This crate alone knows which pods must leave, why, and in which stage each of them is.
//!
//! ```text
//!   Begin, Resume, Plan                    Ended: gone               Seen: all is freed
//!        |                                    |                          |
//!    Terminating -- CutGrace, Killed ------> Ended ------------------> Gone --+-- API server informed: forgotten once it is not listed
//!        |  \                                                                 `-- runs again before that:
//!        |   `-- Ended: a budget forbids it ----> Blocked                         ended again while its reason exists
//!        `------ Ended: termination failed -----> Failed
//! ```
//!
//! A pre-kill hook may run while a pod is terminating, before its first signal: `hook.rs`.
//!
//! The caller carries out every [`Command`] and reports every [`Event`]. Every pod that is terminated is tracked here.
#![forbid(unsafe_code)]

mod departure;
mod event;
mod hook;
mod recovery;
#[cfg(test)]
mod tests;

pub use departure::{
    CLEANUP_TIMEOUT, Departure, NOTICE_OWED, NoticeState, Purpose, RemainingUsage, Stage, after,
};
pub use event::{
    Command, Conclusion, Context, Ending, Event, Planned, PodState, Question, UnfinishedDecision,
};

use departure::{FAILED_WAIT, KUBELET_KILL_WAIT};
use evictd_pod::Quantity;
use evictd_signals::Signal;
use evictd_usage::UsageNeed;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
};

/// How often pods that have ended are checked again, because the kubelet may have restarted them.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);
/// Why a pending notice to the API server is dropped.
pub const STILL_RUNS: &str = "the pod still runs after the pressure has ended, and its kubelet has not taken note of the \
    decision for too long; `kubectl delete pod` ends it";
/// Why the notice of a rejection is dropped.
pub const ADMITTED: &str = "the pod was admitted after all";

/// The usage of a victim when it was chosen.
#[derive(Debug, Clone)]
pub struct Chosen {
    /// UID of the victim.
    pub uid: String,
    /// The signal that it was chosen for.
    pub signal: Signal,
    /// The usage that its end should free.
    pub held: Quantity,
    /// The available amount of the signal; `None` where the disk does not have to show more.
    pub available: Option<i64>,
}

/// Every pod that must leave, by UID.
#[derive(Debug, Clone, Default)]
pub struct Departures {
    pods: BTreeMap<String, Departure>,
    /// Pods to preempt, one after the other, in kill order (S2-016).
    planned: VecDeque<Planned>,
    /// Decisions of an earlier run, until the state of their pods is known.
    unfinished: Vec<UnfinishedDecision>,
    /// The last victim. On a starved machine the next measurement may be far away.
    chosen: Option<Chosen>,
}

impl Departures {
    /// Applies an event and returns the commands that follow from it.
    pub fn on_event(&mut self, now: Timestamp, event: Event, context: &Context) -> Vec<Command> {
        match event {
            Event::Begin(departure) => self.begin(now, *departure),
            Event::Resume(unfinished) => {
                self.unfinished.push(*unfinished);
                Vec::new()
            }
            Event::Plan(planned) => {
                self.planned.extend(planned);
                Vec::new()
            }
            Event::CutGraces {
                hard_since,
                exhausted_at,
            } => self.cut_graces(now, hard_since, exhausted_at),
            Event::Killed { uid } => {
                self.killed(now, &uid);
                Vec::new()
            }
            Event::HookEnded { uid } => {
                if let Some(departure) = self.pods.get_mut(&uid) {
                    departure.end_hook(now);
                }
                Vec::new()
            }
            Event::Ended { uid, ending } => {
                self.ended(now, &uid, ending);
                Vec::new()
            }
            Event::NoticeAccepted { id } => {
                let mut of_id = self.pods.values_mut();
                if let Some(departure) = of_id.find(|departure| departure.id == id) {
                    departure.notice_accepted_at.get_or_insert(now);
                }
                Vec::new()
            }
            Event::NoticeClosed { id, sent } => self.notice_closed(&id, sent),
            Event::Observed(pod_states) => self.seen(now, &pod_states, context),
            Event::Next => self.next_planned(context),
        }
    }

    /// Notes that a pod was chosen, and its usage at that time.
    pub fn choose(&mut self, chosen: Option<Chosen>) {
        self.chosen = chosen;
    }

    fn begin(&mut self, now: Timestamp, mut departure: Departure) -> Vec<Command> {
        let uid = departure.uid.clone();
        if let Some(chosen) = self.chosen.take_if(|chosen| chosen.uid == uid) {
            departure.chosen(chosen.signal, chosen.held, chosen.available);
        }
        let (grace, by_kubelet) = (departure.grace, departure.purpose.is_by_kubelet());
        let runs = departure.cgroup.is_some() && departure.runs;
        if by_kubelet && self.pods.contains_key(&uid) {
            return Vec::new();
        }
        if runs && !by_kubelet {
            departure.begin(now, grace);
            departure.begin_hook(now);
        } else if !runs {
            departure.runs = false;
            departure.stage = Stage::Gone { at: now };
        }
        let pending = departure.notice_state == NoticeState::Pending;
        self.pods.insert(uid.clone(), departure);
        match (runs && !by_kubelet, pending) {
            (true, _) => vec![Command::Terminate {
                uid,
                left: grace,
                again: false,
            }],
            (false, true) => vec![Command::SendNotice { uid }],
            (false, false) => Vec::new(),
        }
    }

    fn cut_graces(
        &mut self,
        now: Timestamp,
        hard_since: Timestamp,
        exhausted_at: Option<Timestamp>,
    ) -> Vec<Command> {
        let mut cut = Vec::new();
        for departure in self.pods.values_mut() {
            let too_late = departure.is_too_late(now, exhausted_at);
            departure.kubelet_is_too_late |= too_late;
            if too_late || departure.is_cut_short(now, hard_since) {
                departure.begin(now, SignedDuration::ZERO);
                cut.push(Command::CutGrace {
                    uid: departure.uid.clone(),
                });
            } else if departure.hook_is_too_late(now, hard_since, exhausted_at) {
                departure.end_hook(now);
                cut.push(Command::EndHook {
                    uid: departure.uid.clone(),
                });
            }
        }
        cut
    }

    fn killed(&mut self, now: Timestamp, uid: &str) {
        if let Some(departure) = self.pods.get_mut(uid)
            && let Stage::Terminating { killed, .. } = &mut departure.stage
        {
            killed.get_or_insert(now);
        }
    }

    fn ended(&mut self, now: Timestamp, uid: &str, ending: Ending) {
        self.planned.retain(|planned| planned.uid != uid);
        let Some(departure) = self.pods.get_mut(uid) else {
            return;
        };
        departure.repeated = false;
        departure.checked_at = Some(now);
        departure.stage = match ending {
            Ending::Gone { at } => {
                departure.runs = false;
                Stage::Ended { at }
            }
            Ending::Failed => Stage::Failed {
                until: after(now, FAILED_WAIT),
            },
            Ending::Blocked { again } => Stage::Blocked {
                until: after(now, again),
            },
        };
    }

    /// Notes the outcome of a notice. A rejected pod whose status can never show the rejection is admitted instead.
    fn notice_closed(&mut self, id: &str, sent: bool) -> Vec<Command> {
        let mut of_id = self.pods.values_mut();
        let Some(departure) = of_id.find(|departure| departure.id == id) else {
            return Vec::new();
        };
        departure.notice_state = if sent {
            NoticeState::Sent
        } else {
            NoticeState::NotNeeded
        };
        let rejected = matches!(departure.purpose, Purpose::Rejection { .. });
        if sent || !rejected {
            return Vec::new();
        }
        let uid = departure.uid.clone();
        if !departure.is_terminating() {
            self.pods.remove(&uid);
        }
        vec![Command::Admit { uid }]
    }

    /// The pods that the caller must check: those that are not being terminated, each once per second, or all of
    /// them (`all`) before a decision.
    pub fn questions(&self, now: Timestamp, all: bool) -> Vec<Question> {
        let due = |departure: &&Departure| match departure.stage {
            Stage::Ended { .. } => true,
            Stage::Gone { .. } | Stage::Failed { .. } | Stage::Blocked { .. } => {
                let recent = |checked_at| now.duration_since(checked_at) < PERIOD;
                all || !departure.checked_at.is_some_and(recent)
            }
            Stage::Terminating { .. } => departure.purpose.is_by_kubelet(),
        };
        let of = |departure: &Departure| Question {
            uid: departure.uid.clone(),
            cgroup: departure.cgroup.clone(),
            remaining: matches!(departure.stage, Stage::Ended { .. }),
            older_than: None,
        };
        let pods = self.pods.values().filter(due).map(of);
        pods.chain(self.unfinished.iter().map(UnfinishedDecision::question))
            .collect()
    }

    fn seen(&mut self, now: Timestamp, seen: &[PodState], context: &Context) -> Vec<Command> {
        let mut commands = Vec::new();
        for pod_state in seen {
            commands.extend(self.resume(now, pod_state, context));
            let Some(departure) = self.pods.get_mut(&pod_state.uid) else {
                continue;
            };
            departure.checked_at = Some(now);
            departure.cgroup.clone_from(&pod_state.cgroup);
            departure.runs = pod_state.runs.unwrap_or(departure.runs);
            departure.settle(
                now,
                pod_state.listed,
                pod_state.remaining,
                &context.available,
            );
            let (stays, command) = follow(now, departure, pod_state, context);
            if let Some(Command::Terminate { left, .. }) = &command {
                departure.repeated = true;
                departure.begin(now, *left);
            }
            commands.extend(command);
            if !stays {
                self.pods.remove(&pod_state.uid);
            }
        }
        commands
    }

    /// Begins the next planned preemption, unless the previous victim is still there.
    fn next_planned(&self, context: &Context) -> Vec<Command> {
        let Some(next) = self.planned.front().filter(|_| !context.terminations_off) else {
            return Vec::new();
        };
        let one_leaves = |departure: &Departure| {
            departure.is_terminating() && matches!(departure.purpose, Purpose::Preemption { .. })
        };
        if self.is_terminating(&next.uid) || self.pods.values().any(one_leaves) {
            return Vec::new();
        }
        vec![Command::Preempt(next.clone())]
    }

    /// Skips the first planned preemption: the pod has ended by itself or cannot be terminated.
    pub fn skip_planned(&mut self) {
        self.planned.pop_front();
    }

    /// Whether this pod is to be preempted; its requests then count as free.
    pub fn is_planned(&self, uid: &str) -> bool {
        self.planned.iter().any(|planned| planned.uid == uid)
    }

    /// Counts the cycles since pods were killed.
    pub fn count_cycle(&mut self, now: Timestamp) {
        for departure in self.pods.values_mut() {
            departure.count_cycle(now);
        }
    }

    /// Whether no victim may be chosen for `need` until one of these pods has left. With `credited`, their remaining
    /// usage counts as nearly free.
    pub fn block(&self, now: Timestamp, need: UsageNeed, credited: bool) -> bool {
        let mut all = self.pods.values();
        all.any(|departure| departure.blocks(now, need, credited))
    }

    /// The remaining usage of `signal` by pods without processes, and the names of these pods.
    pub fn remaining(&self, now: Timestamp, signal: Signal) -> (Vec<String>, Quantity) {
        let mut names = Vec::new();
        let mut sum = Quantity::ZERO;
        for departure in self.pods.values() {
            let remaining = departure.remaining(now, signal);
            if remaining.is_positive() {
                names.push(departure.pod.clone());
                sum += remaining;
            }
        }
        (names, sum)
    }

    /// Notes the usage of a pod that is leaving; true if it has shrunk.
    pub fn update_usage(
        &mut self,
        now: Timestamp,
        uid: &str,
        signal: Signal,
        holds: Quantity,
    ) -> bool {
        let departure = self.pods.get_mut(uid);
        departure.is_some_and(|departure| departure.update_usage(now, signal, holds))
    }

    /// Whether the usage of this pod's processes counts as nearly free.
    pub fn is_credited(&self, uid: &str, now: Timestamp) -> bool {
        let departure = self.pods.get(uid);
        departure.is_some_and(|departure| departure.is_credited(now))
    }

    /// Whether this pod was rejected, by this run or by an earlier one whose decision is not finished.
    pub fn is_rejected(&self, uid: &str) -> bool {
        let unfinished = self
            .unfinished
            .iter()
            .map(|unfinished| &unfinished.departure);
        let mut all = self.pods.get(uid).into_iter().chain(unfinished);
        all.any(|one| one.uid == uid && matches!(one.purpose, Purpose::Rejection { .. }))
    }

    /// Whether the pod's processes are being terminated, by evictd or by the kubelet.
    pub fn is_terminating(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(Departure::is_terminating)
    }

    /// Whether this pod has no process and its resources may not be free yet.
    pub fn is_freeing(&self, uid: &str) -> bool {
        let departure = self.pods.get(uid);
        departure.is_some_and(|departure| matches!(departure.stage, Stage::Ended { .. }))
    }

    /// Whether this pod ranks before all others: its kubelet did not end it within its grace period, or would end it
    /// too late for a hard threshold.
    pub fn is_overdue(&self, uid: &str, now: Timestamp) -> bool {
        let departure = self.pods.get(uid);
        departure.is_some_and(|departure| {
            (departure.purpose == Purpose::Deleted || departure.kubelet_is_too_late)
                && departure.is_terminating()
                && departure.kill_at() <= now
        })
    }

    /// When the next kubelet's time to end its pod is over.
    pub fn next_overdue(&self, now: Timestamp) -> Option<Timestamp> {
        let by_kubelet = |departure: &&Departure| {
            departure.purpose == Purpose::Deleted && departure.is_terminating()
        };
        let departures = self.pods.values().filter(by_kubelet);
        departures
            .map(Departure::kill_at)
            .filter(|at| *at > now)
            .min()
    }

    /// Whether evictd ended this pod and, as far as is known, none of its processes run.
    pub fn has_left(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(Departure::has_left)
    }

    /// The departure of the pod with this UID.
    pub fn get(&self, uid: &str) -> Option<&Departure> {
        self.pods.get(uid)
    }

    /// All departures, by UID.
    pub fn iter(&self) -> impl Iterator<Item = &Departure> {
        self.pods.values()
    }

    /// Whether any pod is leaving, or may not have freed all of its resources.
    pub fn is_any_leaving(&self) -> bool {
        let leaves = |departure: &Departure| {
            departure.is_terminating() || matches!(departure.stage, Stage::Ended { .. })
        };
        self.pods.values().any(leaves)
    }

    /// Ends all waits for disruption budgets, because a hard threshold is met. True if there was one.
    pub fn unblock(&mut self) -> bool {
        let before = self.pods.len();
        self.pods
            .retain(|_, departure| !matches!(departure.stage, Stage::Blocked { .. }));
        self.pods.len() < before
    }

    /// A departure for a running pod that the kubelet was seen to evict.
    pub fn kubelet_eviction(
        now: Timestamp,
        (pod, uid): (String, String),
        cgroup: PathBuf,
    ) -> Departure {
        let name = (String::new(), pod, uid);
        let mut departure = Departure::new(name, Purpose::KubeletEviction, now, KUBELET_KILL_WAIT);
        departure.cgroup = Some(cgroup);
        departure
    }

    /// A departure for a deleted pod that still runs although it has not been listed since then. The kubelet has
    /// the pod's grace period and two more seconds to end it.
    pub fn deleted(
        since: Timestamp,
        (pod, uid): (String, String),
        cgroup: PathBuf,
        grace: SignedDuration,
    ) -> Departure {
        let grace = grace.saturating_add(departure::KILL_WAIT);
        let name = (String::new(), pod, uid);
        let mut departure = Departure::new(name, Purpose::Deleted, since, grace);
        departure.cgroup = Some(cgroup);
        departure
    }
}

/// Whether a departure whose pod is not being terminated is still tracked, and the command that follows from the
/// observation.
fn follow(
    now: Timestamp,
    departure: &Departure,
    seen: &PodState,
    context: &Context,
) -> (bool, Option<Command>) {
    match (departure.stage, &departure.purpose) {
        (Stage::Terminating { kill_at, .. }, Purpose::KubeletEviction) => {
            let waits = now < kill_at || departure.kubelet_is_too_late;
            (departure.runs && waits, None)
        }
        (Stage::Terminating { .. }, Purpose::Deleted) => (departure.runs && !seen.listed, None),
        (Stage::Terminating { .. } | Stage::Ended { .. }, _) => (true, None),
        (Stage::Failed { until } | Stage::Blocked { until }, _) => (now < until, None),
        (Stage::Gone { at }, purpose) => match purpose {
            Purpose::Rejection { conditions } => {
                let holds = conditions.iter().any(|one| context.keeps_away(*one));
                rejected(now, departure, seen, (context, holds))
            }
            _ if departure.notice_state == NoticeState::Pending => {
                let condition = departure.purpose.condition();
                let holds = condition.is_some_and(|condition| context.presses(condition));
                (true, started_again(now, at, departure, (context, holds)))
            }
            // If the pod is started again after that, it is treated like any other pod.
            _ => (seen.listed && !departure.runs, None),
        },
    }
}

/// The pod was started again before the API server was informed of its end. While the pressure lasts it is
/// terminated again. After that it is left to its kubelet, which ends it once it has seen the notice. A kubelet that
/// has not seen it for long is not waited for: the notice is dropped.
fn started_again(
    now: Timestamp,
    gone: Timestamp,
    departure: &Departure,
    (context, holds): (&Context, bool),
) -> Option<Command> {
    let uid = departure.uid.clone();
    if !departure.runs {
        None
    } else if holds {
        (!context.terminations_off).then_some(Command::Terminate {
            uid,
            left: departure.grace,
            again: true,
        })
    } else {
        let in_force = departure.is_in_force(now, gone, context.transition_period);
        (!in_force).then_some(Command::Withdraw {
            uid,
            why: STILL_RUNS,
        })
    }
}

/// A rejected pod. With a kubelet the rejection is final once the API server has it. Before that, and always where
/// pods come from manifests, the rejection lasts as long as its reason.
fn rejected(
    now: Timestamp,
    departure: &Departure,
    seen: &PodState,
    (context, holds): (&Context, bool),
) -> (bool, Option<Command>) {
    let uid = departure.uid.clone();
    if !context.kubelet && seen.is_admitted {
        return (false, Some(Command::Withdraw { uid, why: ADMITTED }));
    }
    let sent = departure.notice_state == NoticeState::Sent;
    let has_ended = sent && seen.terminal && !departure.runs;
    if !seen.listed || has_ended {
        return (false, None);
    }
    // A pod that is ended before the kubelet learns of the rejection would only be started again.
    let just_now = context.kubelet && !sent && now.duration_since(departure.since) < PERIOD;
    if !departure.runs || just_now {
        return (true, None);
    }
    if !context.kubelet || sent || holds {
        let command = (!context.terminations_off).then_some(Command::Terminate {
            uid,
            left: departure.grace,
            again: true,
        });
        return (true, command);
    }
    let in_force = departure.is_in_force(now, departure.since, context.transition_period);
    (
        true,
        (!in_force).then_some(Command::Withdraw {
            uid,
            why: STILL_RUNS,
        }),
    )
}
