//! The crank: one turn of the housekeeper, step by step, waits included.

use super::Housekeeper;
use crate::{
    Decision, Observations, RankedPod, StarvedResource, Usage,
    decision::Withheld,
    departures::Event,
    step::{Step, UsageNeed},
};
use evictd_pod::Pod;
use jiff::{SignedDuration, Timestamp};
use std::borrow::Borrow;

/// A decision that ends nobody is not made again before this.
const QUIET: SignedDuration = SignedDuration::from_secs(1);
/// The same where directories must be walked for it: as seldom as a kubelet looks (S1-017).
const QUIET_DISK: SignedDuration = SignedDuration::from_secs(10);

/// What was asked for by a [`Step`].
#[derive(Debug, Clone)]
pub enum Answer<'a, P> {
    /// Usage of the pods with limits on local storage; `None` where it is not time for them.
    LocalStorage(Option<(&'a [P], &'a Usage)>),
    /// What the node has left after a reclaim; `None` where no fresh look was possible.
    Reclaimed(Option<&'a Observations>),
    /// Usage of those who are being ended.
    Watched(UsageNeed, &'a [P], &'a Usage),
    /// Usage of every pod.
    Ranked {
        /// What it was asked for.
        need: UsageNeed,
        /// The pods.
        pods: &'a [P],
        /// What each uses.
        usage: &'a Usage,
        /// What the node has left now, where measuring took so long that those chosen before may have gone meanwhile.
        fresh: Option<&'a Observations>,
    },
    /// The same, where [`Housekeeper::rank_for`] has ranked them already.
    InOrder {
        /// What it was asked for.
        need: UsageNeed,
        /// The pods.
        pods: &'a [P],
        /// What each uses.
        usage: &'a Usage,
        /// The first to go first.
        ranked: Vec<RankedPod>,
    },
    /// It is not known yet; the next turn asks again.
    NotYet,
}

impl Housekeeper {
    /// Begins a turn with what was observed; what is needed next. A hard threshold that comes to act while soft victims are
    /// still asked politely ends their grace, before anybody else is chosen.
    pub fn begin(&mut self, now: Timestamp, observations: &Observations) -> Step {
        let step = self.observe(now, observations);
        if let Some(hard_since) = self.hard_since() {
            let cut = self.on_event(now, Event::CutGraces { hard_since });
            self.commands.extend(cut);
        }
        let next = self.on_event(now, Event::Next);
        self.commands.extend(next);
        self.wait(now, step)
    }

    /// Takes in what was asked for; what is needed next, and whoever has to go. [`Step::Rest`] ends the turn.
    pub fn answer<P: Borrow<Pod>>(
        &mut self,
        now: Timestamp,
        answer: Answer<'_, P>,
    ) -> (Step, Vec<Decision>) {
        let next = match answer {
            Answer::LocalStorage(Some((pods, usage))) => {
                let decisions = self.check_local_storage(now, pods, usage);
                if !decisions.is_empty() {
                    return (Step::Rest, decisions);
                }
                self.pressure()
            }
            Answer::LocalStorage(None) => self.pressure(),
            Answer::Reclaimed(fresh) => self.reclaimed(fresh),
            Answer::Watched(need, pods, usage) => {
                self.watch_dying(now, need.signal, pods, usage);
                Step::Rest
            }
            Answer::Ranked {
                need,
                pods,
                usage,
                fresh,
            } => {
                let ranked = self.rank_for(now, (need, fresh), pods, usage);
                let decision =
                    ranked.and_then(|ranked| self.decide_among(now, need, (pods, usage), ranked));
                return (Step::Rest, decision.into_iter().collect());
            }
            Answer::InOrder {
                need,
                pods,
                usage,
                ranked,
            } => {
                let decision = self.decide_among(now, need, (pods, usage), ranked);
                return (Step::Rest, decision.into_iter().collect());
            }
            Answer::NotYet => Step::Rest,
        };
        (self.wait(now, next), Vec::new())
    }

    /// Everybody in the order of a [`Step::Rank`], for a shell that must know who is first before it can tell all that the
    /// decision needs; the ranking goes into [`Answer::InOrder`]. `None` where nobody has to go any more: nobody goes for
    /// what was seen before the last one who went had given back what it held.
    pub fn rank_for(
        &mut self,
        now: Timestamp,
        (need, fresh): (UsageNeed, Option<&Observations>),
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) -> Option<Vec<RankedPod>> {
        if let Some(fresh) = fresh {
            self.observe(now, fresh);
            if self.need() != Some(need) {
                return None;
            }
        }
        self.rank_acting(now, pods, usage)
    }

    fn decide_among(
        &mut self,
        now: Timestamp,
        need: UsageNeed,
        (pods, usage): (&[impl Borrow<Pod>], &Usage),
        ranked: Vec<RankedPod>,
    ) -> Option<Decision> {
        let decision = self.choose(now, pods, usage, ranked)?;
        self.note_quiet(now, need, &decision);
        Some(decision)
    }

    /// Whoever was chosen before is waited for, and what would only be said again is not thought about again so soon.
    fn wait(&mut self, now: Timestamp, step: Step) -> Step {
        let Step::Rank(need) = step else {
            return step;
        };
        if need.hard && self.departures.unblock() {
            self.quiet = None;
        }
        if self.departures.block(now, need) {
            return Step::Watch(need);
        }
        let quiet = self
            .quiet
            .is_some_and(|(about, until)| about == need && now < until);
        if quiet { Step::Rest } else { step }
    }

    /// The kubelet thinks at each of its looks.
    fn note_quiet(&mut self, now: Timestamp, need: UsageNeed, decision: &Decision) {
        let ours = self.rules.credit_dying_pods;
        if !ours || (decision.eviction.is_some() && !self.ends_nobody) {
            return;
        }
        let pause = match need.signal.resource() {
            StarvedResource::Memory | StarvedResource::Pids | StarvedResource::Io => QUIET,
            StarvedResource::EphemeralStorage | StarvedResource::Inodes => QUIET_DISK,
        };
        let until = now.saturating_add(pause).unwrap_or(now);
        self.quiet = Some((need, until));
        let nobody_can = matches!(
            decision.withheld,
            Some(
                Withheld::NoPods | Withheld::AllSpared | Withheld::NoIo | Withheld::NoRelief { .. }
            )
        );
        if nobody_can {
            self.stands_back[need.signal] = Some(until);
        }
    }
}
