//! How the housekeeper tracks pods that must leave.

use super::Housekeeper;
use crate::{
    ConditionMap, RankedPod, Signal, SignalMap, Usage,
    departures::{
        CLEANUP_TIMEOUT, Command, Context, Departure, Departures, Ending, Event, Stage, after,
    },
};
use evictd_pod::Pod;
use jiff::Timestamp;
use std::borrow::Borrow;

impl Housekeeper {
    /// Applies an event of a pod that must leave; returns the commands that follow.
    pub fn on_event(&mut self, now: Timestamp, event: Event) -> Vec<Command> {
        let uid = match &event {
            Event::Begin(departure) => Some(departure.uid.clone()),
            Event::Killed { uid } | Event::Ended { uid, .. } => Some(uid.clone()),
            _ => None,
        };
        match &event {
            // The kubelet has begun to end a pod: observations from before are out of date.
            Event::Begin(departure)
                if departure.purpose.is_by_kubelet()
                    && !self.departures.is_terminating(&departure.uid) =>
            {
                self.last_action = Some(now);
                self.relieved = Some(now);
            }
            Event::Ended { ending, .. } => {
                self.has_gone |= matches!(ending, Ending::Gone { .. });
                self.pauses.forget_victims();
            }
            _ => {}
        }
        let freeing = self.freeing(&event);
        let begins = matches!(event, Event::Begin(_));
        let context = self.context();
        let mut commands = self.departures.on_event(now, event, &context);
        if let Some(cut) = self.cut_graces(now).filter(|_| begins) {
            commands.extend(self.departures.on_event(now, cut, &context));
        }
        for uid in &freeing {
            if !self.departures.is_freeing(uid) {
                self.futile.set_due(uid, Timestamp::MIN);
            }
        }
        if let Some(uid) = uid {
            self.schedule_comparison(&uid);
        }
        commands
    }

    /// The observed pods without processes whose resources are not free yet.
    fn freeing(&self, event: &Event) -> Vec<String> {
        let Event::Observed(pod_states) = event else {
            return Vec::new();
        };
        let uids = pod_states.iter().map(|seen| &seen.uid);
        let freeing = uids.filter(|uid| self.departures.is_freeing(uid));
        freeing.cloned().collect()
    }

    /// The effect of an eviction is compared once the pod can free nothing more. If the pod was not terminated, there
    /// is no effect to compare.
    fn schedule_comparison(&mut self, uid: &str) {
        let departure = self.departures.get(uid);
        match departure.map(Departure::stage) {
            Some(Stage::Terminating { .. }) => {
                let until = departure.map_or(Timestamp::MIN, Departure::credited_until);
                self.futile.set_due(uid, until);
            }
            // Its files are still there: it is compared when the wait for them ends, at the latest.
            Some(Stage::Ended { at }) if departure.is_some_and(|one| one.purpose.is_for_disk()) => {
                self.futile.set_due(uid, after(at, CLEANUP_TIMEOUT));
            }
            Some(Stage::Ended { .. } | Stage::Gone { .. }) => {
                self.futile.set_due(uid, Timestamp::MIN);
            }
            Some(Stage::Failed { .. } | Stage::Blocked { .. }) | None => {
                self.futile.not_terminated(uid);
            }
        }
    }

    /// Takes the commands that resulted from the current cycle.
    pub fn take_commands(&mut self) -> Vec<Command> {
        std::mem::take(&mut self.commands)
    }

    /// Every pod that must leave.
    pub fn departures(&self) -> &Departures {
        &self.departures
    }

    /// The same, for changes that are not events.
    pub fn departures_mut(&mut self) -> &mut Departures {
        &mut self.departures
    }

    fn context(&self) -> Context {
        let mut keeping_away = ConditionMap::default();
        for condition in self.taints() {
            keeping_away[condition] = true;
        }
        let mut available = SignalMap::default();
        for (signal, seen) in self.last.iter() {
            available[signal] = Some(seen.available);
        }
        Context {
            available,
            pressing: self.condition_active,
            keeping_away,
            transition_period: self.rules.pressure_transition_period,
            kubelet: self.rules.kubelet_is_here,
            terminations_off: self.terminations_off,
        }
    }

    /// Notes the usage of the terminating pods, while no other pod may be chosen: shrinking pods are waited for.
    pub fn watch_terminating(
        &mut self,
        now: Timestamp,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        usage: &Usage,
    ) {
        let rows = self.with_ranking(now, signal, |ranking| ranking.of_terminating(pods, usage));
        self.update_terminating(now, signal, pods, &rows);
    }

    pub(super) fn update_terminating(
        &mut self,
        now: Timestamp,
        signal: Signal,
        pods: &[impl Borrow<Pod>],
        rows: &[RankedPod],
    ) {
        for pod in rows {
            if let Some(holds) = pod.gain {
                let uid = &pods[pod.index].borrow().uid;
                if self.departures.update_usage(now, uid, signal, holds) {
                    self.schedule_comparison(uid);
                }
            }
        }
    }

    /// Dry run or pause: decisions are made, but no pod is terminated.
    pub fn set_terminations_off(&mut self, terminations_off: bool) {
        if self.terminations_off != terminations_off {
            self.pauses.forget_victims();
        }
        self.terminations_off = terminations_off;
    }
}
