//! The health of each signal: impossible figures are rejected, errors are counted, and each change is logged once.

use super::reading::{CapacityGuard, Reading};
use crate::kernel_file::ReadError;
use evictd_signals::{Observation, Signal, SignalMap};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;

/// A filesystem that does not answer for this long is reported. On a busy machine answers are often some
/// milliseconds late, which is normal.
const HANGS_AFTER: SignedDuration = SignedDuration::from_secs(2);

/// The state of one signal in one observation.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum SignalState {
    /// This node does not have this signal, or it is not needed.
    #[default]
    Absent,
    /// It was observed.
    Observed,
    /// Its source could not be read.
    Failed,
    /// Its source gave an impossible figure.
    Rejected,
    /// Its source has not answered yet.
    Stale,
}

/// One signal's state, and how often it could not be observed since start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct SignalHealth {
    /// State in the last observation.
    pub state: SignalState,
    /// Observations whose source could not be read.
    pub failed: u64,
    /// Observations with an impossible figure.
    pub rejected: u64,
    /// Observations without an answer in time.
    pub stale: u64,
    /// When the current series of observations without an answer began.
    #[serde(skip)]
    unanswered_since: Option<Timestamp>,
    /// Whether an answer is overdue enough to be reported.
    #[serde(skip)]
    pub hangs: bool,
}

/// The answer of a signal's source.
#[derive(Debug, Clone, Copy)]
pub(super) enum Outcome<'a> {
    Absent,
    Read(Reading, Timestamp),
    Failed(&'a ReadError),
    /// Not answered yet at this time.
    Unanswered(Timestamp),
}

impl<'a> Outcome<'a> {
    pub(super) fn of(result: &'a Result<Reading, ReadError>, now: Timestamp) -> Self {
        match result {
            Ok(reading) => Self::Read(*reading, now),
            Err(error) => Self::Failed(error),
        }
    }

    pub(super) fn of_any(result: Option<&'a Result<Reading, ReadError>>, now: Timestamp) -> Self {
        result.map_or(Self::Absent, |result| Self::of(result, now))
    }
}

/// The health of all signals.
#[derive(Debug, Default)]
pub(super) struct Registry {
    capacity_guards: SignalMap<CapacityGuard>,
    pub(super) health: SignalMap<SignalHealth>,
    /// The state that was last logged, per signal.
    logged: SignalMap<SignalState>,
    read_only: SignalMap<bool>,
}

impl Registry {
    /// Logs once when the filesystem of this signal becomes read-only, and when it can be written again.
    pub(super) fn note_read_only(&mut self, signal: Signal, read_only: bool) {
        if std::mem::replace(&mut self.read_only[signal], read_only) == read_only {
            return;
        }
        if read_only {
            tracing::warn!(%signal, "the filesystem of {signal} is read-only: nothing on it can be removed");
        } else {
            tracing::info!(%signal, "the filesystem of {signal} can be written again");
        }
    }

    /// Checks and counts a source's answer; returns the observation if it is valid.
    pub(super) fn record(&mut self, signal: Signal, outcome: Outcome<'_>) -> Option<Observation> {
        let health = &mut self.health[signal];
        let logged = &mut self.logged[signal];
        let unanswered_since = health.unanswered_since.take();
        health.hangs = false;
        let mut is_change = |state| std::mem::replace(logged, state) != state;
        match outcome {
            Outcome::Absent => health.state = SignalState::Absent,
            Outcome::Read(reading, time) => {
                match self.capacity_guards[signal].check(reading, time) {
                    Ok(observation) => {
                        health.state = SignalState::Observed;
                        // At the start, a signal that works is not logged.
                        if is_change(SignalState::Absent) {
                            tracing::info!(%signal, "{signal} can be sampled again");
                        }
                        return Some(observation);
                    }
                    Err(impossible) => {
                        health.state = SignalState::Rejected;
                        health.rejected += 1;
                        if is_change(SignalState::Rejected) {
                            tracing::warn!(%signal, ?reading, "{signal}: impossible sample rejected: {impossible}");
                        }
                    }
                }
            }
            Outcome::Failed(error) => {
                health.state = SignalState::Failed;
                health.failed += 1;
                if is_change(SignalState::Failed) {
                    tracing::warn!(%signal, "{signal} cannot be sampled: {error}");
                }
            }
            Outcome::Unanswered(now) => {
                let since = unanswered_since.unwrap_or(now);
                health.state = SignalState::Stale;
                health.stale += 1;
                health.unanswered_since = Some(since);
                health.hangs = now.duration_since(since) >= HANGS_AFTER;
                if health.hangs && is_change(SignalState::Stale) {
                    tracing::warn!(%signal, "{signal} cannot be sampled: its filesystem does not answer");
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_testkit::testing::logged;

    #[test]
    fn only_lasting_problems_are_logged_and_once() {
        let good = || Outcome::Read(Reading::left(5, 10), Timestamp::UNIX_EPOCH);
        let said = |outcomes: Vec<Outcome<'static>>| {
            logged(|| {
                let mut registry = Registry::default();
                for outcome in outcomes {
                    registry.record(Signal::NodefsAvailable, outcome);
                }
            })
        };
        let unanswered = |second| Outcome::Unanswered(Timestamp::from_second(second).unwrap());
        let late = vec![unanswered(0), unanswered(1), good(), unanswered(3), good()];
        assert_eq!(said(late), "");
        let hanging = said(vec![
            unanswered(0),
            unanswered(1),
            unanswered(2),
            unanswered(3),
            good(),
            good(),
        ]);
        let lines: Vec<&str> = hanging.lines().collect();
        assert_eq!(lines.len(), 2, "{hanging}");
        assert!(
            lines[0].contains("nodefs.available cannot be sampled"),
            "{hanging}"
        );
        assert!(
            lines[1].contains("nodefs.available can be sampled again"),
            "{hanging}"
        );
    }
}
