//! Pods that must leave: the one place that knows who does, for what, and how far each is.
//!
//! ```text
//!   Begin, Find, Plan                    Ended: gone               Seen: all is back
//!        |                                    |                          |
//!    Terminating -- CutGrace, Killed ------> Ended ------------------> Gone --+-- told: forgotten once it is not listed
//!        |  \                                                                 `-- runs again before it is told:
//!        |   `-- Ended: a budget keeps it ------> Blocked                         ended again while its reason holds
//!        `------ Ended: it cannot be ended -----> Failed
//! ```
//!
//! The shell carries out every [`Command`] and reports every [`Event`]; nothing is ended that is not in here.

mod departure;
mod event;
mod recovery;
#[cfg(test)]
mod tests;

pub use departure::{CLEANUP, Departure, Purpose, Remains, Stage, Telling};
pub use event::{Command, Conclusion, Context, Ending, Event, Found, Planned, Question, Sighting};

use crate::{Signal, UsageNeed};
use departure::{ASIDE, ELSEWHERE, after};
use evictd_pod::Quantity;
use jiff::{SignedDuration, Timestamp};
use std::{
    collections::{BTreeMap, VecDeque},
    path::PathBuf,
};

/// How often those that have ended are looked at again, for they may run again.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);
/// Why a notice is dropped.
pub const RUNS_ON: &str = "the pod was started again and runs on after the pressure";
/// Why a pod that was turned away is told so no more.
pub const LET_IN: &str = "the pod was let in after all";

/// Every pod that must leave, by UID.
#[derive(Debug, Clone, Default)]
pub struct Departures {
    pods: BTreeMap<String, Departure>,
    /// Who leaves for critical pods, one after the other, in kill order (S2-016).
    planned: VecDeque<Planned>,
    /// What an earlier run has left open, until it is certain what became of it.
    found: Vec<Found>,
    /// The last victim, and what it held when it was chosen: looks may be far apart on a machine that is short of everything.
    chosen: Option<(String, (Signal, Quantity))>,
}

impl Departures {
    /// What follows from an event.
    pub fn on_event(&mut self, now: Timestamp, event: Event, context: &Context) -> Vec<Command> {
        match event {
            Event::Begin(departure) => self.begin(now, *departure),
            Event::Find(found) => {
                self.found.push(*found);
                Vec::new()
            }
            Event::Plan(planned) => {
                self.planned.extend(planned);
                Vec::new()
            }
            Event::CutGraces { hard_since } => self.cut_graces(now, hard_since),
            Event::Killed { uid } => {
                self.killed(now, &uid);
                Vec::new()
            }
            Event::Ended { uid, ending } => {
                self.ended(now, &uid, ending);
                Vec::new()
            }
            Event::Told { id, told } => self.told(&id, told),
            Event::Seen(sightings) => self.seen(now, &sightings, context),
            Event::Next => self.next_planned(context),
        }
    }

    /// This pod is chosen for this signal, and holds so much.
    pub(crate) fn choose(&mut self, uid: &str, signal: Signal, holds: Option<Quantity>) {
        self.chosen = holds.map(|holds| (uid.to_owned(), (signal, holds)));
    }

    fn begin(&mut self, now: Timestamp, mut departure: Departure) -> Vec<Command> {
        let uid = departure.uid.clone();
        let chosen = self.chosen.take_if(|(chosen, _)| *chosen == uid);
        departure.chosen(chosen.map(|(_, held)| held));
        let (grace, elsewhere) = (departure.grace, departure.purpose.is_elsewhere());
        let runs = departure.cgroup.is_some() && departure.runs;
        if elsewhere && self.pods.contains_key(&uid) {
            return Vec::new();
        }
        if runs && !elsewhere {
            departure.begin(now, grace);
        } else if !runs {
            departure.runs = false;
            departure.stage = Stage::Gone { at: now };
        }
        let owed = departure.telling == Telling::Owed;
        self.pods.insert(uid.clone(), departure);
        match (runs && !elsewhere, owed) {
            (true, _) => vec![Command::Terminate {
                uid,
                left: grace,
                again: false,
            }],
            (false, true) => vec![Command::Tell { uid }],
            (false, false) => Vec::new(),
        }
    }

    fn cut_graces(&mut self, now: Timestamp, hard_since: Timestamp) -> Vec<Command> {
        let mut cut = Vec::new();
        for departure in self.pods.values_mut() {
            if departure.yields(now, hard_since) {
                departure.begin(now, SignedDuration::ZERO);
                cut.push(Command::CutGrace {
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
        departure.looked = Some(now);
        departure.stage = match ending {
            Ending::Gone { at } => {
                departure.runs = false;
                Stage::Ended { at }
            }
            Ending::Failed => Stage::Failed {
                until: after(now, ASIDE),
            },
            Ending::Blocked { again } => Stage::Blocked {
                until: after(now, again),
            },
        };
    }

    /// It is known what became of a notice; a pod whose status never says that it is turned away is let in.
    fn told(&mut self, id: &str, told: bool) -> Vec<Command> {
        let mut of_id = self.pods.values_mut();
        let Some(departure) = of_id.find(|departure| departure.id == id) else {
            return Vec::new();
        };
        departure.telling = if told { Telling::Told } else { Telling::None };
        let rejected = matches!(departure.purpose, Purpose::Rejection { .. });
        if told || !rejected {
            return Vec::new();
        }
        let uid = departure.uid.clone();
        if !departure.is_terminating() {
            self.pods.remove(&uid);
        }
        vec![Command::LetIn { uid }]
    }

    /// Who is to be looked at: those who are not being ended, each some time after it was last seen, or all at once before a
    /// decision.
    pub fn questions(&self, now: Timestamp, all: bool) -> Vec<Question> {
        let due = |departure: &&Departure| match departure.stage {
            Stage::Ended { .. } => true,
            Stage::Gone { .. } | Stage::Failed { .. } | Stage::Blocked { .. } => {
                let recent = |looked| now.duration_since(looked) < PERIOD;
                all || !departure.looked.is_some_and(recent)
            }
            Stage::Terminating { .. } => departure.purpose.is_elsewhere(),
        };
        let of = |departure: &Departure| Question {
            uid: departure.uid.clone(),
            cgroup: departure.cgroup.clone(),
            remains: matches!(departure.stage, Stage::Ended { .. }),
            older_than: None,
        };
        let pods = self.pods.values().filter(due).map(of);
        pods.chain(self.found.iter().map(Found::question)).collect()
    }

    fn seen(&mut self, now: Timestamp, seen: &[Sighting], context: &Context) -> Vec<Command> {
        let mut commands = Vec::new();
        for sighting in seen {
            commands.extend(self.take_up(now, sighting, context));
            let Some(departure) = self.pods.get_mut(&sighting.uid) else {
                continue;
            };
            departure.looked = Some(now);
            departure.cgroup.clone_from(&sighting.cgroup);
            departure.runs = sighting.runs.unwrap_or(departure.runs);
            departure.settle(now, sighting.listed, sighting.remains);
            let (stays, command) = follow(now, departure, sighting, context);
            if let Some(Command::Terminate { left, .. }) = &command {
                departure.repeated = true;
                departure.begin(now, *left);
            }
            commands.extend(command);
            if !stays {
                self.pods.remove(&sighting.uid);
            }
        }
        commands
    }

    /// The next victim of a critical pod, unless the one before is not gone yet.
    fn next_planned(&self, context: &Context) -> Vec<Command> {
        let Some(next) = self.planned.front().filter(|_| !context.ends_nobody) else {
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

    /// The first of those that leave for critical pods has gone by itself, or cannot be ended.
    pub fn pass_over_planned(&mut self) {
        self.planned.pop_front();
    }

    /// Whether this pod is to leave for a critical one: what it holds counts as free.
    pub fn is_planned(&self, uid: &str) -> bool {
        self.planned.iter().any(|planned| planned.uid == uid)
    }

    /// Whether the next victim for this has to wait for one of these; counts the looks, so to be asked once a look.
    pub(crate) fn block(&mut self, now: Timestamp, need: UsageNeed) -> bool {
        let mut block = false;
        for departure in self.pods.values_mut() {
            departure.look(now);
            block |= departure.blocks(now, need);
        }
        block
    }

    /// What pods without processes still hold of this signal, and which pods those are.
    pub(crate) fn remains(&self, now: Timestamp, signal: Signal) -> (Vec<String>, Quantity) {
        let mut names = Vec::new();
        let mut sum = Quantity::ZERO;
        for departure in self.pods.values() {
            let remains = departure.remains(now, signal);
            if remains.is_positive() {
                names.push(departure.pod.clone());
                sum += remains;
            }
        }
        (names, sum)
    }

    /// A pod on its way out is seen to hold so much of this signal; true if that is less than before.
    pub(crate) fn holds(
        &mut self,
        now: Timestamp,
        uid: &str,
        signal: Signal,
        holds: Quantity,
    ) -> bool {
        let departure = self.pods.get_mut(uid);
        departure.is_some_and(|departure| departure.holds(now, signal, holds))
    }

    /// Whether what this pod's processes hold counts as nearly free.
    pub(crate) fn is_credited(&self, uid: &str, now: Timestamp) -> bool {
        let departure = self.pods.get(uid);
        departure.is_some_and(|departure| departure.is_credited(now))
    }

    /// Those whose processes are being ended, or are about to be by somebody else.
    pub fn is_terminating(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(Departure::is_terminating)
    }

    /// Whether this pod was deleted, and its kubelet has not ended it in its time: it goes before all others.
    pub(crate) fn is_overdue(&self, uid: &str, now: Timestamp) -> bool {
        let departure = self.pods.get(uid);
        departure.is_some_and(|departure| {
            departure.purpose == Purpose::Deleted
                && departure.is_terminating()
                && departure.kill_at() <= now
        })
    }

    /// Whether this pod is over, as far as anybody knows: ended here, and nothing of it runs.
    pub fn has_left(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(Departure::has_left)
    }

    /// One of them.
    pub fn get(&self, uid: &str) -> Option<&Departure> {
        self.pods.get(uid)
    }

    /// All of them, by UID.
    pub fn iter(&self) -> impl Iterator<Item = &Departure> {
        self.pods.values()
    }

    /// Whether nobody's processes are being ended here.
    pub fn nobody_terminates(&self) -> bool {
        !self
            .pods
            .values()
            .any(|departure| departure.is_terminating() && !departure.purpose.is_elsewhere())
    }

    /// Whether anybody is on the way out, or may not have given back all that it held.
    pub fn anybody_leaves(&self) -> bool {
        let leaves = |departure: &Departure| {
            departure.is_terminating() || matches!(departure.stage, Stage::Ended { .. })
        };
        self.pods.values().any(leaves)
    }

    /// Budgets count no more: a hard threshold acts. True if one did.
    pub(crate) fn unblock(&mut self) -> bool {
        let before = self.pods.len();
        self.pods
            .retain(|_, departure| !matches!(departure.stage, Stage::Blocked { .. }));
        self.pods.len() < before
    }

    /// The kubelet was seen to evict this pod, which ran until now.
    pub fn elsewhere(now: Timestamp, (pod, uid): (String, String), cgroup: PathBuf) -> Departure {
        let name = (String::new(), pod, uid);
        let mut departure = Departure::new(name, Purpose::Elsewhere, now, ELSEWHERE);
        departure.cgroup = Some(cgroup);
        departure
    }

    /// This pod is listed no more since then, and runs; it had this grace, and the kubelet two seconds more.
    pub fn deleted(
        since: Timestamp,
        (pod, uid): (String, String),
        cgroup: PathBuf,
        grace: SignedDuration,
    ) -> Departure {
        let grace = grace.saturating_add(departure::KILLED);
        let name = (String::new(), pod, uid);
        let mut departure = Departure::new(name, Purpose::Deleted, since, grace);
        departure.cgroup = Some(cgroup);
        departure
    }
}

/// Whether a pod that is not being ended is still followed, and what is to be done about it now.
fn follow(
    now: Timestamp,
    departure: &Departure,
    seen: &Sighting,
    context: &Context,
) -> (bool, Option<Command>) {
    match (departure.stage, &departure.purpose) {
        (Stage::Terminating { kill_at, .. }, Purpose::Elsewhere) => {
            (departure.runs && now < kill_at, None)
        }
        (Stage::Terminating { .. }, Purpose::Deleted) => (departure.runs && !seen.listed, None),
        (Stage::Terminating { .. } | Stage::Ended { .. }, _) => (true, None),
        (Stage::Failed { until } | Stage::Blocked { until }, _) => (now < until, None),
        (Stage::Gone { at }, purpose) => match purpose {
            Purpose::Rejection { conditions } => {
                let holds = conditions.iter().any(|one| context.keeps_away(*one));
                kept_out(now, departure, seen, (context, holds))
            }
            _ if departure.telling == Telling::Owed => {
                let condition = departure.purpose.condition();
                let holds = condition.is_some_and(|condition| context.presses(condition));
                (true, started_again(now, at, departure, (context, holds)))
            }
            // What starts in its place is a pod like any other.
            _ => (seen.listed && !departure.runs, None),
        },
    }
}

/// Its status is not told yet: while the pressure that it went for lasts it is ended again; a pod that runs on after it is
/// left alone, and what was to be told of it is dropped, for told late it would end a pod that harms nobody.
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
        (!context.ends_nobody).then_some(Command::Terminate {
            uid,
            left: departure.grace,
            again: true,
        })
    } else {
        let over = now.duration_since(gone) >= context.transition_period;
        over.then_some(Command::Withdraw { uid, why: RUNS_ON })
    }
}

/// A pod that is not let in. Where a kubelet looks after the pods that is the last word, once the API server has it. Until
/// then, and where pods come from manifests for good, it holds as long as its reason does.
fn kept_out(
    now: Timestamp,
    departure: &Departure,
    seen: &Sighting,
    (context, holds): (&Context, bool),
) -> (bool, Option<Command>) {
    let uid = departure.uid.clone();
    if !context.kubelet && seen.let_in {
        return (false, Some(Command::Withdraw { uid, why: LET_IN }));
    }
    let told = departure.telling == Telling::Told;
    let has_ended = told && seen.terminal && !departure.runs;
    if !seen.listed || has_ended {
        return (false, None);
    }
    // One that is ended before its kubelet is told is only started again.
    let just_now = context.kubelet && !told && now.duration_since(departure.since) < PERIOD;
    if !departure.runs || just_now {
        return (true, None);
    }
    if !context.kubelet || told || holds {
        let command = (!context.ends_nobody).then_some(Command::Terminate {
            uid,
            left: departure.grace,
            again: true,
        });
        return (true, command);
    }
    let over = now.duration_since(departure.since) >= context.transition_period;
    (
        true,
        over.then_some(Command::Withdraw { uid, why: RUNS_ON }),
    )
}
