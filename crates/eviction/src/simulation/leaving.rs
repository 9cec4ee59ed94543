//! The fate of the pods that a simulation evicts, as far as summaries show it.
//!
//! Under evictd's rules the same state machine waits for them as in the daemon. A kill takes effect at once, but the
//! pod's usage does not count as free while a summary lists the pod. Once no summary does, its memory has two seconds
//! to come back, and two more whenever some of it came back.

use crate::Housekeeper;
use evictd_decision::{Decision, Eviction};
use evictd_departures::{
    Departure, Ending, Event, PodState, Purpose, RemainingUsage, Stage, after,
};
use evictd_pod::{Pod, Quantity};
use evictd_signals::{Observations, Signal, StarvedResource};
use evictd_usage::Summary;
use jiff::{SignedDuration, Timestamp};
use std::{collections::BTreeSet, path::PathBuf};

/// The kernel may need this long to free the memory of a process that has died.
const FREEING: SignedDuration = SignedDuration::from_secs(2);

/// The pods that were evicted and may not have freed everything.
#[derive(Debug, Default)]
pub(super) struct Leaving {
    victims: Vec<Victim>,
    /// `namespace/name` and UID of those that have ended; a UID may be missing.
    ended: BTreeSet<(String, String)>,
}

#[derive(Debug)]
struct Victim {
    pod: Pod,
    signal: Option<Signal>,
    held: Quantity,
    /// The available amount of the signal when the pod was chosen.
    available: i64,
    /// When SIGKILL is due.
    kill_at: Timestamp,
    /// How much had not come back when that was last less than before, and when.
    missing: (i64, Timestamp),
}

impl Leaving {
    /// A pod was chosen; its grace period begins.
    pub(super) fn begin(
        &mut self,
        housekeeper: &mut Housekeeper,
        now: Timestamp,
        (decision, eviction): (&Decision, &Eviction),
        pod: &Pod,
    ) {
        let name = (String::new(), eviction.pod.clone(), pod.uid.clone());
        let acting = decision.threshold.as_ref();
        let crossed_at = acting.map_or(now, |acting| acting.first_observed_at);
        let purpose = Purpose::Eviction {
            cause: decision.kind,
            signal: decision.signal.to_owned(),
            crossed_at,
            clear_at: crossed_at,
        };
        let grace = SignedDuration::from_secs(eviction.grace_period_seconds.max(0));
        let mut departure = Departure::new(name, purpose, now, grace);
        departure.cgroup = Some(PathBuf::from(&pod.uid));
        housekeeper.on_event(now, Event::Begin(Box::new(departure)));
        let held = decision.expected_gain.unwrap_or_default();
        self.victims.push(Victim {
            pod: pod.clone(),
            signal: decision.acting_signal(),
            held,
            available: acting.map_or(0, |acting| acting.observed.available),
            kill_at: after(now, grace),
            missing: (held.value(), after(now, grace)),
        });
        self.end(housekeeper, now, None);
    }

    /// Whether this pod was evicted and has ended.
    pub(super) fn has_ended(&self, pod: &Pod) -> bool {
        self.ended.contains(&(pod.full_name(), pod.uid.clone()))
    }

    /// Ends the pods whose grace period is over, and those that `summary` no longer lists.
    pub(super) fn end(
        &mut self,
        housekeeper: &mut Housekeeper,
        now: Timestamp,
        summary: Option<&Summary>,
    ) {
        for victim in &mut self.victims {
            let uid = &victim.pod.uid;
            let departure = housekeeper.departures().get(uid);
            let Some(departure) = departure.filter(|departure| departure.is_terminating()) else {
                continue;
            };
            victim.kill_at = departure.kill_at();
            let listed = summary.is_none_or(|summary| victim.is_listed(summary));
            if listed && now < victim.kill_at {
                continue;
            }
            self.ended.insert((victim.pod.full_name(), uid.clone()));
            let at = victim.kill_at.min(now);
            victim.missing.1 = at;
            let (killed, uid) = (uid.clone(), uid.clone());
            housekeeper.on_event(at, Event::Killed { uid: killed });
            let ending = Ending::Gone { at };
            housekeeper.on_event(at, Event::Ended { uid, ending });
        }
    }

    /// Reports the remaining usage of the pods that have ended; call it after the observation of the same summary.
    pub(super) fn observe(
        &mut self,
        housekeeper: &mut Housekeeper,
        now: Timestamp,
        summary: &Summary,
        seen: &Observations,
    ) {
        let departures = housekeeper.departures();
        self.victims.retain(|victim| {
            let departure = departures.get(&victim.pod.uid);
            departure.is_some_and(|one| !matches!(one.stage(), Stage::Gone { .. }))
        });
        let ended = |victim: &&mut Victim| {
            let departure = departures.get(&victim.pod.uid);
            departure.is_some_and(Departure::has_left)
        };
        let ended = self.victims.iter_mut().filter(ended);
        let states = ended.map(|victim| PodState {
            uid: victim.pod.uid.clone(),
            cgroup: Some(PathBuf::from(&victim.pod.uid)),
            runs: Some(false),
            listed: victim.is_listed(summary),
            remaining: Some(victim.remaining(now, summary, seen)),
            ..PodState::default()
        });
        let states: Vec<PodState> = states.collect();
        housekeeper.on_event(now, Event::Observed(states));
    }
}

impl Victim {
    fn is_listed(&self, summary: &Summary) -> bool {
        let usage = summary.usage(std::slice::from_ref(&self.pod));
        usage.of(0).is_some()
    }

    fn remaining(
        &mut self,
        now: Timestamp,
        summary: &Summary,
        seen: &Observations,
    ) -> RemainingUsage {
        let usage = summary.usage(std::slice::from_ref(&self.pod));
        if let Some(usage) = usage.of(0) {
            return RemainingUsage {
                memory: usage.working_set.map(|memory| memory.value),
                swap: usage.swap.map(|swap| swap.value),
                processes: usage
                    .processes
                    .map(|processes| processes.value.unsigned_abs()),
                files_are_gone: Some(false),
            };
        }
        let missing = Some(self.missing(now, seen));
        let resource = self.signal.map(Signal::resource);
        let of = |wanted| missing.filter(|_| resource == Some(wanted));
        let is_swap = self.signal == Some(Signal::SwapAvailable);
        let memory = of(StarvedResource::Memory);
        RemainingUsage {
            memory: memory.filter(|_| !is_swap),
            swap: memory.filter(|_| is_swap),
            processes: of(StarvedResource::Pids).and_then(|count| u64::try_from(count).ok()),
            files_are_gone: Some(true),
        }
    }

    /// The part of its usage that has not come back. Other pods use more meanwhile, so half of it shows that it was
    /// freed.
    fn missing(&mut self, now: Timestamp, seen: &Observations) -> i64 {
        let Some(seen) = self.signal.and_then(|signal| seen.get(signal)) else {
            return 0;
        };
        let held = self.held.value();
        let missing = held.saturating_sub(seen.available.saturating_sub(self.available));
        if missing < self.missing.0 {
            self.missing = (missing, now);
        }
        let waits = now.duration_since(self.missing.1) < FREEING;
        if waits && missing > held / 2 {
            missing
        } else {
            0
        }
    }
}
