//! What an earlier run of the daemon has decided and not finished, as the history tells it: a pod on its way out is seen
//! off at the end of the grace that was decided, and whoever was not told is.

use super::{
    Agent, Errand, Flight, Landing,
    active::Place,
    cluster::{HARD_PATIENCE, Leaving, Stage},
    restarts::RUNS_ON,
};
use crate::{
    evict::{Departure, EvictError, Victim},
    outbox::{self, Fate, Notice, Way},
    publish::Landed,
};
use evictd_eviction::record::{Kind, Publication, Record};
use jiff::{SignedDuration, Timestamp};
use std::{path::PathBuf, time::Duration};

/// A decision that its record leaves open.
#[derive(Debug)]
pub struct Unfinished {
    /// Without the ranking.
    record: Record,
    pod: String,
    uid: String,
    grace_period_seconds: i64,
}

impl Unfinished {
    /// As its record has it; `None` where it has not what is needed.
    pub fn read(record: &Record) -> Option<Self> {
        let who = record.pod.clone().zip(record.uid.clone());
        let Some(((pod, uid), grace_period_seconds)) = who.zip(record.grace_period_seconds) else {
            let id = &record.id;
            tracing::warn!(
                "decision {id} was not finished, and its record is no help: it lacks pod, uid or grace"
            );
            return None;
        };
        Some(Self {
            record: record.clone().essential(),
            pod,
            uid,
            grace_period_seconds,
        })
    }

    fn flight(&self, grace: Duration) -> Flight {
        let record = &self.record;
        let name = (record.id.clone(), self.pod.clone(), self.uid.clone());
        let signal = || record.signal.clone().into_owned();
        let errand = match (record.kind.cause(), record.kind) {
            (Some(kind), _) => Errand::Eviction {
                kind,
                signal: signal(),
                crossed_at: record.time,
                clear_at: record.time,
            },
            (None, Kind::Preemption) => Errand::Preemption { resource: signal() },
            (None, _) => Errand::Rejection,
        };
        Flight::new(name, errand, record.time, grace)
    }

    /// The notice that nobody is known to have got.
    fn take_notice(&mut self) -> Option<Notice> {
        match &mut self.record.publication {
            Some(Publication::Waiting { notice }) => notice.take().map(|notice| *notice),
            _ => None,
        }
    }
}

impl Agent {
    /// Takes up what an earlier run has not finished, as soon as it is certain what became of its pod.
    pub(super) fn take_up(&mut self, now: Timestamp) {
        if self.ports.unfinished.is_empty() || self.behaviour.dry_run {
            return;
        }
        let before = self.ports.unfinished.len();
        for one in std::mem::take(&mut self.ports.unfinished) {
            match self.active.place_of(&one.uid) {
                Place::In(cgroup) => self.finish(now, one, Some(cgroup)),
                Place::Nowhere => self.finish(now, one, None),
                Place::Unsure => self.ports.unfinished.push(one),
            }
        }
        if self.ports.unfinished.len() < before {
            self.active.refresh(now);
            self.housekeeper.set_unreachable(self.active.unreachable());
        }
    }

    fn finish(&mut self, now: Timestamp, mut one: Unfinished, cgroup: Option<PathBuf>) {
        let asked = u64::try_from(one.grace_period_seconds).unwrap_or(0);
        let grace = Duration::from_secs(asked).max(self.behaviour.least_grace);
        let flight = one.flight(grace);
        let victim = cgroup.map(|cgroup| Victim {
            uid: one.uid.clone(),
            cgroup,
            sandbox: None,
        });
        let hierarchies = &self.ports.evictor.hierarchies;
        let runs = victim
            .as_ref()
            .is_some_and(|victim| hierarchies.runs(&victim.cgroup));
        let over = now.duration_since(flight.kill_at)
            >= self.housekeeper.rules().pressure_transition_period;
        tracing::info!(
            EVICTD_DECISION_ID = one.record.id,
            EVICTD_POD = one.pod,
            EVICTD_POD_UID = one.uid,
            "what was decided about {} was not finished; it is taken up",
            one.pod
        );
        if runs && over && !one.record.is_told() {
            self.let_run_on(now, &one, flight);
            return;
        }
        if !runs {
            self.active.evicted(&one.uid);
        }
        let rebooted = one.record.boot_id.as_deref().unwrap_or_default() != self.ports.boot_id;
        match victim {
            Some(victim) if one.record.outcome.is_none() && !rebooted => {
                self.see_off(now, one, flight, victim);
            }
            victim => {
                let gone = flight.kill_at;
                let notice = one.take_notice();
                if let (Some(notice), Some(cluster)) = (notice, &self.ports.cluster) {
                    drop(cluster.outbox.post_again(notice));
                    if let Some(victim) = &victim {
                        self.restarts.begin(&flight, victim, grace, Some(gone));
                    }
                }
                if one.record.outcome.is_none() {
                    self.conclude(now, flight, Ok(Departure::not_begun()));
                }
            }
        }
    }

    /// With what is left of its grace.
    fn see_off(&mut self, now: Timestamp, mut one: Unfinished, flight: Flight, victim: Victim) {
        let whole = flight.kill_at.duration_since(flight.since);
        // A clock that was set back lengthens no grace.
        let left = flight.kill_at.duration_since(now);
        let grace = left.clamp(SignedDuration::ZERO, whole).unsigned_abs();
        let mut notice = one.take_notice();
        if let Some(notice) = &mut notice
            && let Way::Delete(seconds) = &mut notice.way
        {
            *seconds = grace.as_secs();
        }
        let stage = if one.record.is_told() {
            Stage::Told
        } else {
            Stage::Again
        };
        self.launch(Leaving {
            flight,
            victim,
            grace,
            notice,
            patience: HARD_PATIENCE,
            stage,
        });
    }

    /// Told or ended so late, it would be a pod that harms nobody.
    fn let_run_on(&mut self, now: Timestamp, one: &Unfinished, flight: Flight) {
        if one.record.is_waiting() {
            self.published(&outbox::Publication {
                id: one.record.id.clone(),
                pod: one.pod.clone(),
                uid: one.uid.clone(),
                fate: Fate::NotPublished(RUNS_ON.to_owned()),
            });
        }
        if one.record.outcome.is_none() {
            self.conclude(now, flight, Err(EvictError::RunsOn));
        }
    }

    /// What became of it is known without a flight.
    fn conclude(&mut self, now: Timestamp, flight: Flight, result: Result<Departure, EvictError>) {
        let landing = Landing { flight, result };
        let landed = Landed {
            now,
            landing: &landing,
        };
        for publisher in &mut self.ports.publishers {
            if landing.result.is_ok() {
                publisher.was_gone(&landed);
            } else {
                publisher.landed(&landed);
            }
        }
    }
}
