//! How often a threshold was nearly met, and how long each condition was raised: in bounded space, across restarts.
//!
//! A near miss begins when little more than a threshold is left of its signal, and ends when the signal was far from it for a
//! minute. If the threshold acted meanwhile, it is none: the history has the decision. A soft threshold that was met for less than
//! its grace period is one.

mod report;
#[cfg(test)]
mod tests;

pub use report::{NearReport, Raised, Times};

use crate::{ConditionMap, Observation, Signal, StarvedResource, Threshold};
use evictd_pod::Quantity;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};

/// The version of [`Kept`]. Raise it if an older program would misunderstand the file.
const VERSION: u64 = 1;
/// The most days that are kept.
const DAYS: usize = 35;
/// The most near misses that are kept, the latest ones.
const MISSES: usize = 64;
/// The most pods that a near miss names.
const HOLDERS: usize = 3;
/// A near miss ends when the signal was far from its threshold for so long.
const FAR_FOR: SignedDuration = SignedDuration::from_mins(1);
/// The usage of pods is not read again sooner.
const READ_AGAIN: SignedDuration = SignedDuration::from_secs(10);
/// Figures that are not known by then are not waited for.
const READ_WITHIN: SignedDuration = SignedDuration::from_secs(30);
/// A cycle may be so much later than planned. After a longer time the node was suspended, and nothing was observed.
const LATE: SignedDuration = SignedDuration::from_secs(5);
const SECONDS_OF_A_DAY: i64 = 86_400;

/// The observations that outlive a restart.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Kept {
    version: u64,
    /// In the order in which they began. After the clock was set back, that is not the order of their dates.
    days: VecDeque<Day>,
    /// Those that have ended, oldest first.
    near_misses: VecDeque<NearMiss>,
    /// Those that last.
    ongoing: Vec<NearMiss>,
}

/// One day in UTC.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Day {
    begins: Timestamp,
    /// How long the signals were observed.
    observed_seconds: f64,
    /// How long each condition was raised, in seconds.
    raised_seconds: BTreeMap<String, f64>,
    /// How many near misses ended, by signal.
    near_misses: BTreeMap<String, u32>,
}

/// A time in which a threshold was nearly met.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NearMiss {
    /// The name of the signal.
    pub signal: String,
    /// Whether the threshold is hard.
    pub hard: bool,
    /// When it began.
    pub began: Timestamp,
    /// When the signal was last seen near.
    pub last_seen: Timestamp,
    /// The threshold, in the signal's unit.
    pub threshold: i64,
    /// All there is of the signal.
    pub capacity: i64,
    /// The least that was left. It is below a soft threshold that was met for less than its grace period.
    pub least_available: i64,
    /// When that was.
    pub least_at: Timestamp,
    /// The pods that used most, largest first; empty if that is not known.
    pub holders: Vec<PodUse>,
}

/// A pod and its usage of the resource.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PodUse {
    /// `namespace/name`.
    pub pod: String,
    /// Its usage.
    pub usage: Quantity,
}

impl Kept {
    /// Whether a newer program has written it.
    pub const fn is_newer(&self) -> bool {
        self.version > VERSION
    }
}

/// A threshold in one cycle.
#[derive(Debug, Clone, Copy)]
pub struct Level<'a> {
    /// The threshold.
    pub threshold: &'a Threshold,
    /// The observation that it is compared with; `None` if there is none.
    pub observed: Option<Observation>,
    /// Whether it is met and past its grace period.
    pub acts: bool,
}

/// Follows the thresholds and conditions from cycle to cycle.
#[derive(Debug, Clone, Default)]
pub struct NearMisses {
    kept: Kept,
    ongoing: Vec<Ongoing>,
    last: Option<LastCycle>,
}

#[derive(Debug, Clone, Copy)]
struct LastCycle {
    at: Timestamp,
    raised: ConditionMap<bool>,
    /// The time until the next cycle is observed up to this length.
    longest: SignedDuration,
}

/// A near miss that lasts.
#[derive(Debug, Clone)]
struct Ongoing {
    signal: Signal,
    miss: NearMiss,
    acted: bool,
    /// Since when the signal is far from the threshold, or not observed.
    far_since: Option<Timestamp>,
    /// When the usage of pods was read, and how much was left then.
    read: Option<(Timestamp, i64)>,
}

/// The amount above a threshold within which a signal is near it.
fn margin(threshold: &Threshold, limit: i64, capacity: i64) -> i64 {
    if threshold.signal.is_pressure() {
        // The limit is a share of time in which nothing stalls.
        return capacity.saturating_sub(limit) / 4;
    }
    (limit / 4).max(capacity / 200)
}

impl NearMisses {
    /// Continues from the file of an earlier run. Near misses that lasted then have ended.
    pub fn new(mut kept: Kept) -> Self {
        for miss in std::mem::take(&mut kept.ongoing) {
            push(&mut kept.near_misses, miss, MISSES);
        }
        kept.version = VERSION;
        Self {
            kept,
            ..Self::default()
        }
    }

    /// Applies a cycle; the next one follows within `sleep`. Returns whether a near miss has ended.
    pub fn observe<'t>(
        &mut self,
        now: Timestamp,
        sleep: SignedDuration,
        raised: ConditionMap<bool>,
        levels: impl Iterator<Item = Level<'t>>,
    ) -> bool {
        self.count_time(now);
        self.last = Some(LastCycle {
            at: now,
            raised,
            longest: sleep.saturating_add(LATE),
        });
        for one in &mut self.ongoing {
            one.far_since.get_or_insert(now);
        }
        for level in levels {
            self.apply(now, &level);
        }
        self.end(now)
    }

    /// Adds the time since the last cycle to the day.
    fn count_time(&mut self, now: Timestamp) {
        let Some(last) = self.last else {
            return;
        };
        let within = now.duration_since(last.at);
        if !within.is_positive() || within > last.longest {
            return;
        }
        let seconds = within.as_secs_f64();
        let day = self.day(now);
        day.observed_seconds += seconds;
        for (condition, raised) in last.raised {
            if !raised {
                continue;
            }
            // The name is copied on the first time of a day only.
            match day.raised_seconds.get_mut(condition.as_str()) {
                Some(known) => *known += seconds,
                None => {
                    day.raised_seconds
                        .insert(condition.as_str().to_owned(), seconds);
                }
            }
        }
    }

    fn day(&mut self, now: Timestamp) -> &mut Day {
        let second = now.as_second();
        let begins = second - second.rem_euclid(SECONDS_OF_A_DAY);
        let begins = Timestamp::from_second(begins).unwrap_or(Timestamp::MIN);
        let days = &mut self.kept.days;
        let place = days.iter().rposition(|day| day.begins == begins);
        let place = place.unwrap_or_else(|| {
            let day = Day {
                begins,
                ..Day::default()
            };
            push(days, day, DAYS);
            days.len() - 1
        });
        &mut days[place]
    }

    fn apply(&mut self, now: Timestamp, level: &Level<'_>) {
        let threshold = level.threshold;
        let observed = level.observed.filter(Observation::is_measured);
        let Some(observed) = observed else {
            return;
        };
        let limit = threshold.value.at(observed.capacity).value();
        let margin = margin(threshold, limit, observed.capacity);
        let above = observed.available.saturating_sub(limit);
        let is_same =
            |one: &Ongoing| one.signal == threshold.signal && one.miss.hard == threshold.is_hard();
        let place = self.ongoing.iter().position(is_same);
        // Two limits, so that a signal that sways around one of them is near once.
        let near = above < if place.is_some() { margin * 2 } else { margin };
        if !near {
            return;
        }
        let place = place.unwrap_or_else(|| {
            self.ongoing.push(Ongoing::new(now, threshold));
            self.ongoing.len() - 1
        });
        self.ongoing[place].note(now, &observed, limit, level.acts);
    }

    fn end(&mut self, now: Timestamp) -> bool {
        let mut has_ended = false;
        let mut index = 0;
        while let Some(one) = self.ongoing.get(index) {
            let far_for = one.far_since.map(|since| now.duration_since(since));
            if far_for.is_none_or(|far_for| far_for < FAR_FOR) {
                index += 1;
                continue;
            }
            let ended = self.ongoing.swap_remove(index);
            if ended.acted {
                continue;
            }
            has_ended = true;
            let count = self.day(now).near_misses.entry(ended.miss.signal.clone());
            let count = count.or_default();
            *count = count.saturating_add(1);
            push(&mut self.kept.near_misses, ended.miss, MISSES);
        }
        has_ended
    }

    /// The signal for which the usage of pods is wanted: at the begin of a near miss, and when it has become much nearer. Never
    /// one of disks, because a walk would delay that of a decision.
    pub fn wants_usage(&self, now: Timestamp) -> Option<Signal> {
        let wants = |one: &&Ongoing| match one.read {
            _ if one.acted || one.far_since.is_some() || !is_in_cgroups(one.signal) => false,
            None => now.duration_since(one.miss.began) < READ_WITHIN,
            Some((at, left)) => {
                let above = left.saturating_sub(one.miss.threshold);
                let nearer = left.saturating_sub(one.miss.least_available);
                nearer > 0 && nearer >= above / 2 && now.duration_since(at) >= READ_AGAIN
            }
        };
        self.ongoing.iter().find(wants).map(|one| one.signal)
    }

    /// Adds the usage of the pods, the largest first, to what lasts for this signal.
    pub fn note_usage(&mut self, now: Timestamp, signal: Signal, pods: &[PodUse]) {
        for one in &mut self.ongoing {
            if one.signal == signal {
                one.miss.holders = pods.iter().take(HOLDERS).cloned().collect();
                one.read = Some((now, one.miss.least_available));
            }
        }
    }

    /// The observations to write to disk.
    pub fn to_keep(&self) -> Kept {
        let ongoing = self.ongoing.iter().filter(|one| !one.acted);
        Kept {
            ongoing: ongoing.map(|one| one.miss.clone()).collect(),
            ..self.kept.clone()
        }
    }
}

impl Ongoing {
    fn new(now: Timestamp, threshold: &Threshold) -> Self {
        Self {
            signal: threshold.signal,
            miss: NearMiss {
                signal: threshold.signal.as_str().to_owned(),
                hard: threshold.is_hard(),
                began: now,
                least_available: i64::MAX,
                ..NearMiss::default()
            },
            acted: false,
            far_since: None,
            read: None,
        }
    }

    fn note(&mut self, now: Timestamp, observed: &Observation, limit: i64, acts: bool) {
        self.acted |= acts;
        self.far_since = None;
        let miss = &mut self.miss;
        miss.last_seen = now;
        if observed.available < miss.least_available {
            miss.least_available = observed.available;
            miss.least_at = now;
            (miss.threshold, miss.capacity) = (limit, observed.capacity);
        }
    }
}

fn is_in_cgroups(signal: Signal) -> bool {
    matches!(
        signal.resource(),
        StarvedResource::Memory | StarvedResource::Pids
    )
}

fn push<T>(list: &mut VecDeque<T>, one: T, most: usize) {
    while list.len() >= most {
        list.pop_front();
    }
    list.push_back(one);
}
