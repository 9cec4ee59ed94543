//! Publishes to the metrics.

use super::Publish;
use crate::evict::EvictError;
use crate::fact::{AdmissionAction, AdmissionDecision, Cycle, Decided, Fact, Terminated};
use crate::metrics::{Metrics, ThresholdState, Tier};
use crate::{delivery::Publication, pods::Warning};
use evictd_decision::record::Record;
use evictd_departures::Purpose;
use evictd_kernel::signals::SignalHealth;
use evictd_signals::{NodeCondition, Signal, SignalMap};
use jiff::Timestamp;
use std::{collections::BTreeMap, time::Duration};

/// Updates the metrics from observations, decisions and departures.
#[derive(Debug)]
pub(crate) struct MetricsPublisher {
    metrics: Metrics,
    health: SignalMap<SignalHealth>,
    /// The time of the first cycle; the age of pods that were never listed counts from here.
    begun: Option<Timestamp>,
    /// Signal and kind of evictions that a budget may still forbid, by decision id.
    asked: BTreeMap<String, (&'static str, &'static str)>,
}

impl MetricsPublisher {
    /// A publisher that updates these metrics.
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            health: SignalMap::default(),
            begun: None,
            asked: BTreeMap::new(),
        }
    }

    /// Adds the bad samples since the last cycle to the counters.
    fn count_bad_samples(&mut self, cycle: &Cycle<'_>) {
        for (signal, old) in &mut self.health {
            let new = cycle.sample.health(signal);
            for _ in old.rejected..new.rejected {
                self.metrics.sample_rejected(signal);
            }
            for _ in old.failed + old.stale..new.failed + new.stale {
                self.metrics.read_failed(signal);
            }
            *old = new;
        }
    }

    fn set_pods_age(&mut self, cycle: &Cycle<'_>) {
        let begun = *self.begun.get_or_insert(cycle.now);
        let stale = cycle
            .pods
            .warnings
            .iter()
            .find_map(|warning| match warning {
                Warning::Stale(stale) => Some(stale.as_of.unwrap_or(begun)),
                _ => None,
            });
        let age = stale.map_or(Duration::ZERO, |as_of| {
            cycle.now.duration_since(as_of).unsigned_abs()
        });
        self.metrics.pods_age(age);
    }

    fn set_thresholds(&mut self, cycle: &Cycle<'_>) {
        for signal in Signal::ALL {
            let capacity = cycle
                .sample
                .observations
                .get(signal)
                .map(|seen| seen.capacity);
            for (tier, hard) in [(Tier::Hard, true), (Tier::Soft, false)] {
                let mut all = cycle.housekeeper.thresholds();
                let threshold =
                    all.find(|threshold| threshold.signal == signal && threshold.is_hard() == hard);
                let state = threshold
                    .zip(capacity)
                    .map(|(threshold, capacity)| ThresholdState {
                        value: threshold.value.at(capacity).value(),
                        met: cycle
                            .housekeeper
                            .first_observed()
                            .any(|(met, _)| met == threshold),
                    });
                self.metrics.threshold(signal, tier, state);
            }
        }
    }
}

impl Publish for MetricsPublisher {
    fn publish(&mut self, fact: &Fact<'_>) {
        match fact {
            Fact::CycleEnded(cycle) => self.cycle_ended(cycle),
            Fact::Decided(decided) => self.decided(decided),
            Fact::Admitted(admission) => self.admitted(admission),
            Fact::Terminated(ended) => self.terminated(ended),
            Fact::FoundGone(ended) => self.found_gone(ended),
            Fact::Restarted => self.restarted(),
            Fact::Reclaimed(record) => self.reclaimed(record),
            Fact::Published(publication) => self.published(publication),
            _ => {}
        }
    }
}

impl MetricsPublisher {
    fn cycle_ended(&mut self, cycle: &Cycle<'_>) {
        for signal in Signal::ALL {
            self.metrics
                .observed(signal, cycle.sample.observations.get(signal));
        }
        self.set_thresholds(cycle);
        for condition in NodeCondition::ALL {
            let raised = cycle.housekeeper.conditions().any(|held| held == condition);
            self.metrics.condition(condition, raised);
        }
        self.metrics.paused(cycle.paused.is_some());
        self.set_pods_age(cycle);
        self.count_bad_samples(cycle);
        self.metrics.cycle(cycle.took.unsigned_abs());
    }

    fn decided(&mut self, decided: &Decided<'_>) {
        let decision = decided.decision;
        if let Some((signal, shares)) = decision.acting_signal().zip(decision.shares) {
            self.metrics.in_no_pod(signal, shares.in_no_pod.value());
        }
        if decision.eviction.is_none() {
            return;
        }
        if let Some(acting) = &decision.threshold {
            let times = [acting.observed.time, decided.measured_at];
            let oldest = times.into_iter().flatten().min();
            let age = oldest.map_or(Duration::ZERO, |time| {
                decided.acted_at.duration_since(time).unsigned_abs()
            });
            self.metrics.stats_age(acting.threshold.signal, age);
        }
        let (signal, kind) = (decision.signal, decision.kind.as_str());
        if decided.asked {
            self.asked.insert(decided.id().to_owned(), (signal, kind));
        } else if !decided.dry_run() {
            self.metrics.evicted(signal, kind);
        }
    }

    fn admitted(&mut self, admission: &AdmissionDecision) {
        if !matches!(admission.act, AdmissionAction::Leave { .. }) {
            self.metrics
                .admission_finding(admission.act.as_str(), &admission.reason);
        }
    }

    fn terminated(&mut self, ended: &Terminated<'_>) {
        let asked = self.asked.remove(&ended.departure.id);
        if let Some((signal, kind)) = asked.filter(|_| ended.result.is_ok()) {
            self.metrics.evicted(signal, kind);
        }
        match &ended.result {
            Err(EvictError::Blocked { .. }) => self.metrics.eviction_failed("budget"),
            Err(_) => self.metrics.eviction_failed("kill"),
            Ok(termination) if termination.gone_at.is_none() => {
                self.metrics.eviction_failed("cleanup");
            }
            Ok(_) => self.found_gone(ended),
        }
        if let Some(reaction) = ended.reaction() {
            self.metrics.reaction(reaction.unsigned_abs());
        }
    }

    fn found_gone(&mut self, ended: &Terminated<'_>) {
        if let Purpose::Preemption { resource } = &ended.departure.purpose {
            self.metrics.preempted(resource);
        }
    }

    fn reclaimed(&mut self, record: &Record) {
        if let Some(done) = &record.reclaimed {
            self.metrics.reclaimed("containers", done.container_bytes);
            self.metrics.reclaimed("images", done.image_bytes);
            self.metrics.reclaimed("memory", done.memory_bytes);
        }
    }

    fn restarted(&mut self) {
        self.metrics.restarted();
    }

    fn published(&mut self, publication: &Publication) {
        self.metrics.published(publication.outcome.as_str());
    }
}
