//! Pods that must leave, as the housekeeper follows them.

use super::Housekeeper;
use crate::{
    ConditionMap, RankedPod, Signal, Usage,
    departures::{Command, Context, Departure, Departures, Ending, Event, Stage},
};
use evictd_pod::Pod;
use jiff::Timestamp;
use std::borrow::Borrow;

impl Housekeeper {
    /// What happens to pods that must leave; what follows from it.
    pub fn on_event(&mut self, now: Timestamp, event: Event) -> Vec<Command> {
        let uid = match &event {
            Event::Begin(departure) => Some(departure.uid.clone()),
            Event::Killed { uid } | Event::Ended { uid, .. } => Some(uid.clone()),
            _ => None,
        };
        match &event {
            // Somebody else has begun to end a pod: what was observed before says nothing any more.
            Event::Begin(departure)
                if departure.purpose.is_elsewhere()
                    && !self.departures.is_terminating(&departure.uid) =>
            {
                self.last_action = Some(now);
                self.relieved = Some(now);
            }
            Event::Ended { ending, .. } => {
                self.has_gone |= matches!(ending, Ending::Gone { .. });
                self.quiet = None;
            }
            _ => {}
        }
        let context = self.context();
        let commands = self.departures.on_event(now, event, &context);
        if let Some(uid) = uid {
            self.weigh_later(&uid);
        }
        commands
    }

    /// What a victim's end gains shows once it can give back no more; a pod that lives on says nothing on whether its end would
    /// have helped.
    fn weigh_later(&mut self, uid: &str) {
        let departure = self.departures.get(uid);
        match departure.map(Departure::stage) {
            Some(Stage::Terminating { .. }) => {
                let until = departure.map_or(Timestamp::MIN, Departure::credited_until);
                self.futile.due(uid, until);
            }
            Some(Stage::Ended { .. } | Stage::Gone { .. }) => self.futile.due(uid, Timestamp::MIN),
            Some(Stage::Failed { .. } | Stage::Blocked { .. }) | None => self.futile.lives_on(uid),
        }
    }

    /// What follows for pods on their way out from the turn that was begun.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Every pod that must leave.
    pub fn departures(&self) -> &Departures {
        &self.departures
    }

    /// The same, to take note of what is no event.
    pub fn departures_mut(&mut self) -> &mut Departures {
        &mut self.departures
    }

    fn context(&self) -> Context {
        let mut keeping_away = ConditionMap::default();
        for condition in self.taints() {
            keeping_away[condition] = true;
        }
        Context {
            pressing: self.condition_active,
            keeping_away,
            transition_period: self.rules.pressure_transition_period,
            kubelet: self.rules.kubelet_is_here,
            ends_nobody: self.ends_nobody,
        }
    }

    /// What pods on their way out hold, while nobody else may go yet: as long as they give back they are waited for.
    pub fn watch_dying(
        &mut self,
        now: Timestamp,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) {
        let rows = self.with_ranking(now, signal, |ranking| ranking.of_dying(pods, usage));
        self.see_dying(now, signal, pods, &rows);
    }

    pub(super) fn see_dying(
        &mut self,
        now: Timestamp,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        rows: &[RankedPod],
    ) {
        for pod in rows {
            if let Some(holds) = pod.gives_back(signal) {
                let uid = &pods[pod.index].borrow().uid;
                if self.departures.holds(now, uid, signal, holds) {
                    self.weigh_later(uid);
                }
            }
        }
    }

    /// Dry run, or paused: decisions are made and nobody is set on the way out.
    pub fn set_ends_nobody(&mut self, ends_nobody: bool) {
        if self.ends_nobody != ends_nobody {
            self.quiet = None;
        }
        self.ends_nobody = ends_nobody;
    }
}
