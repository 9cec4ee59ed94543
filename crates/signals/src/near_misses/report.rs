//! A summary of the kept observations of a period.

use super::{Day, Kept, NearMiss, SECONDS_OF_A_DAY};
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use std::{cmp::Reverse, collections::BTreeMap};

/// Near misses and times under conditions, by whole days in UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct NearReport {
    /// How long the signals were observed, in seconds.
    pub observed_seconds: f64,
    /// The conditions that were raised, the longest first.
    pub conditions: Vec<Raised>,
    /// The near misses by signal and kind of threshold, the most frequent first.
    pub near_misses: Vec<Times>,
}

/// A condition that was raised.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Raised {
    /// Its name.
    pub condition: String,
    /// For how long, in seconds.
    pub seconds: f64,
}

/// The near misses of one signal.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Times {
    /// How many there were, of hard and of soft thresholds. Only the latest are kept in full.
    pub times: u32,
    /// Whether the last one lasts.
    pub lasts: bool,
    /// For how long the signal was near in those that are kept in full, in seconds.
    pub near_seconds: i64,
    /// The nearest of those that are kept in full, by the share of the threshold.
    #[serde(flatten)]
    pub nearest: NearMiss,
}

impl Kept {
    /// The summary from `since` to `until`. Near misses that are dated later are left out: the clock was set back.
    pub fn report(&self, since: Timestamp, until: Timestamp) -> NearReport {
        let days: Vec<&Day> = self
            .days
            .iter()
            .filter(|day| day.is_in(since, until))
            .collect();
        let mut raised: BTreeMap<&str, f64> = BTreeMap::new();
        for (condition, seconds) in days.iter().flat_map(|day| &day.raised_seconds) {
            *raised.entry(condition).or_default() += seconds;
        }
        let mut conditions: Vec<Raised> = raised
            .into_iter()
            .map(|(condition, seconds)| Raised {
                condition: condition.to_owned(),
                seconds,
            })
            .collect();
        conditions.sort_by(|one, other| other.seconds.total_cmp(&one.seconds));
        NearReport {
            observed_seconds: days.iter().map(|day| day.observed_seconds).sum(),
            conditions,
            near_misses: self.times(&days, since, until),
        }
    }

    fn times(&self, days: &[&Day], since: Timestamp, until: Timestamp) -> Vec<Times> {
        let ended = self.near_misses.iter().map(|miss| (miss, false));
        let ongoing = self.ongoing.iter().map(|miss| (miss, true));
        let within = ended
            .chain(ongoing)
            .filter(|(miss, _)| miss.last_seen >= since && miss.began <= until);
        let mut by_signal: BTreeMap<&str, Vec<(&NearMiss, bool)>> = BTreeMap::new();
        for (miss, lasts) in within {
            let of_signal = by_signal.entry(miss.signal.as_str()).or_default();
            of_signal.push((miss, lasts));
        }
        let times = by_signal.into_iter().filter_map(|(signal, misses)| {
            let nearest = misses
                .iter()
                .min_by(|(one, _), (other, _)| one.left().total_cmp(&other.left()));
            let counted = days.iter().filter_map(|day| day.near_misses.get(signal));
            let counted = counted.fold(0_u32, |sum, count| sum.saturating_add(*count));
            let seconds = misses.iter().map(|(miss, _)| miss.length().as_secs());
            let (lasting, kept) = (
                misses.iter().filter(|(_, lasts)| *lasts).count(),
                misses.len(),
            );
            // A day counts those of a part of it, too, and some that lasted at a restart are in no day.
            let counted = counted.saturating_add(u32::try_from(lasting).unwrap_or(u32::MAX));
            Some(Times {
                times: counted.max(u32::try_from(kept).unwrap_or(u32::MAX)),
                lasts: lasting > 0,
                near_seconds: seconds.fold(0, i64::saturating_add),
                nearest: (*nearest?.0).clone(),
            })
        });
        let mut times: Vec<Times> = times.collect();
        times.sort_by_key(|one| Reverse(one.times));
        times
    }
}

impl Day {
    fn is_in(&self, since: Timestamp, until: Timestamp) -> bool {
        let ends = self
            .begins
            .saturating_add(SignedDuration::from_secs(SECONDS_OF_A_DAY));
        self.begins <= until && ends.is_ok_and(|ends| ends > since)
    }
}

impl NearMiss {
    /// For how long the signal was near.
    pub fn length(&self) -> SignedDuration {
        self.last_seen
            .duration_since(self.began)
            .max(SignedDuration::ZERO)
    }

    /// The part of the threshold that was left; below 1 if it was met.
    #[allow(clippy::cast_precision_loss, reason = "a comparison of shares")]
    fn left(&self) -> f64 {
        self.least_available as f64 / self.threshold.max(1) as f64
    }
}
