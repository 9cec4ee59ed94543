//! Thresholds on pressure: the share of time in which tasks were stalled because they waited for memory or I/O
//! (users #5).
//!
//! A threshold reads `full avg10 > 20% for 5s`. Its observation is the remaining time, in which tasks were not
//! stalled, so that for every signal a smaller value is worse.

use crate::{Observation, Signal};
use evictd_pod::duration;
use jiff::{SignedDuration, Timestamp};
use std::fmt;

/// The whole time, in the unit of all figures here: a hundredth of a percent.
pub const WHOLE: i64 = 10_000;
const ALL_THE_TIME: u16 = 10_000;

/// Which tasks must have been stalled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Share {
    /// At least one task.
    Some,
    /// All tasks that were not idle.
    Full,
}

/// The window of the kernel's average.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Average {
    /// Ten seconds.
    Avg10,
    /// A minute.
    Avg60,
    /// Five minutes.
    Avg300,
}

impl Share {
    const ALL: [Self; 2] = [Self::Some, Self::Full];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Some => "some",
            Self::Full => "full",
        }
    }
}

impl Average {
    // Longest name first, so that `avg300` is not taken for `avg30` and a zero.
    const ALL: [Self; 3] = [Self::Avg300, Self::Avg60, Self::Avg10];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Avg10 => "avg10",
            Self::Avg60 => "avg60",
            Self::Avg300 => "avg300",
        }
    }

    /// The length of the window.
    pub const fn window(self) -> SignedDuration {
        SignedDuration::from_secs(match self {
            Self::Avg10 => 10,
            Self::Avg60 => 60,
            Self::Avg300 => 300,
        })
    }
}

/// The kernel's figures for one resource, in hundredths of a percent, each as avg10, avg60, avg300.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stall {
    /// Time in which at least one task was stalled.
    pub some: [u16; 3],
    /// Time in which all tasks that were not idle were stalled.
    pub full: [u16; 3],
}

impl Stall {
    /// One of the figures, in hundredths of a percent.
    pub const fn figure(&self, share: Share, average: Average) -> u16 {
        let averages = match share {
            Share::Some => &self.some,
            Share::Full => &self.full,
        };
        averages[average as usize]
    }

    /// Whether no task was stalled, in any window.
    pub fn is_zero(&self) -> bool {
        *self == Self::default()
    }

    /// The sum of each figure, at most the whole time.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        self.with(other, |one, other| {
            one.saturating_add(other).min(ALL_THE_TIME)
        })
    }

    /// The smaller one of each figure.
    #[must_use]
    pub fn at_most(self, other: Self) -> Self {
        self.with(other, u16::min)
    }

    fn with(self, other: Self, join: impl Fn(u16, u16) -> u16) -> Self {
        let each = |one: [u16; 3], other: [u16; 3]| {
            let mut joined = one;
            for (one, other) in joined.iter_mut().zip(other) {
                *one = join(*one, other);
            }
            joined
        };
        Self {
            some: each(self.some, other.some),
            full: each(self.full, other.full),
        }
    }

    /// The figure as an observation: the time in which tasks were not stalled.
    pub(crate) fn observe(
        &self,
        share: Share,
        average: Average,
        time: Option<Timestamp>,
    ) -> Observation {
        Observation {
            available: WHOLE - i64::from(self.figure(share, average)),
            capacity: WHOLE,
            time,
        }
    }
}

/// How much pressure is too much: the value of a pressure threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PressureLimit {
    /// Which tasks are stalled.
    pub share: Share,
    /// The window of the average.
    pub average: Average,
    /// The threshold is met while the figure is above this, in hundredths of a percent.
    pub most: u16,
    /// How long it must be met without interruption before it acts; zero means at once.
    pub lasting: SignedDuration,
}

/// Why a text is not a [`PressureLimit`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("eviction threshold {signal} must be {{some|full}} avg{{10|60|300}} > X% [for D]: {text}")]
pub struct PressureError {
    /// The signal of the threshold.
    pub signal: Signal,
    /// As written.
    pub text: String,
}

impl PressureLimit {
    /// Reads `full avg10 > 20% for 5s`, and the same without the duration.
    pub fn parse(signal: Signal, text: &str) -> Result<Self, PressureError> {
        Self::read(text).ok_or_else(|| PressureError {
            signal,
            text: text.to_owned(),
        })
    }

    fn read(text: &str) -> Option<Self> {
        let (left, right) = text.split_once('>')?;
        let (share, average) = left.trim_ascii().split_once(' ')?;
        let (percent, lasting) = match right.trim_ascii().split_once(' ') {
            Some((percent, rest)) => (percent, rest.trim_ascii_start().strip_prefix("for ")?),
            // Without a time it acts at once, as a hard threshold does.
            None => (right.trim_ascii(), "0"),
        };
        let lasting = duration::parse(lasting.trim_ascii()).ok()?;
        Some(Self {
            share: Share::ALL.into_iter().find(|one| one.as_str() == share)?,
            average: Average::ALL
                .into_iter()
                .find(|one| one.as_str() == average.trim_ascii())?,
            most: hundredths(percent.strip_suffix('%')?)?,
            lasting: Some(lasting).filter(|lasting| !lasting.is_negative())?,
        })
    }

    /// The correct form of the probable meaning of the text, for the error message.
    pub fn nearest(text: &str) -> Self {
        let lower = text.to_ascii_lowercase();
        let share = Share::ALL
            .into_iter()
            .find(|one| lower.contains(one.as_str()));
        let average = Average::ALL.into_iter().find(|one| {
            // `some 10s > 20%` means the average over ten seconds.
            let digits = one.as_str().trim_start_matches("avg");
            lower.contains(one.as_str()) || lower.contains(&format!("{digits}s"))
        });
        let percent = lower.split_once('%').and_then(|(before, _)| {
            let mut numbers = before.rsplit(|c: char| !c.is_ascii_digit() && c != '.');
            hundredths(numbers.next()?)
        });
        let lasting = lower
            .split_once("for")
            .map(|(_, rest)| rest.trim_ascii())
            .and_then(|text| duration::parse(text).ok());
        Self {
            share: share.unwrap_or(Share::Full),
            average: average.unwrap_or(Average::Avg10),
            most: percent.unwrap_or(2000),
            lasting: lasting
                .filter(SignedDuration::is_positive)
                .unwrap_or_default(),
        }
    }
}

/// A percentage with at most two digits after the decimal point, above 0% and below 100%.
fn hundredths(text: &str) -> Option<u16> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || fraction.len() > 2 || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: u16 = whole.parse().ok().filter(|whole| *whole < 100)?;
    let fraction: u16 = format!("{fraction:0<2}").parse().ok()?;
    Some(whole * 100 + fraction).filter(|all| *all > 0)
}

/// `12.5%`, from hundredths of a percent.
pub fn percent(hundredths: i64) -> String {
    let sign = if hundredths < 0 { "-" } else { "" };
    let value = hundredths.unsigned_abs();
    let text = format!("{sign}{}.{:02}", value / 100, value % 100);
    let text = text.trim_end_matches('0').trim_end_matches('.');
    format!("{text}%")
}

impl fmt::Display for PressureLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (share, average) = (self.share.as_str(), self.average.as_str());
        write!(f, "{share} {average} > {}", percent(self.most.into()))?;
        if self.lasting.is_positive() {
            write!(f, " for {}", duration::format(self.lasting))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn limit(text: &str) -> Option<PressureLimit> {
        PressureLimit::parse(Signal::MemoryPsi, text).ok()
    }

    #[test]
    fn texts_and_their_values() {
        let table = [
            ("full avg10 > 20% for 5s", "full avg10 > 20% for 5s"),
            ("some avg60>12.5%", "some avg60 > 12.5%"),
            (
                " full  avg300 >  0.01%  for  1m30s ",
                "full avg300 > 0.01% for 1m30s",
            ),
            ("some avg10 > 99.99% for 0s", "some avg10 > 99.99%"),
        ];
        for (text, shown) in table {
            assert_eq!(
                limit(text).map(|limit| limit.to_string()).as_deref(),
                Some(shown),
                "{text}"
            );
        }
    }

    #[test]
    fn invalid_texts_and_their_suggestions() {
        let table = [
            ("20%", "full avg10 > 20%"),
            ("100Mi", "full avg10 > 20%"),
            ("", "full avg10 > 20%"),
            ("full avg10", "full avg10 > 20%"),
            ("avg60 > 5%", "full avg60 > 5%"),
            ("some > 7.5%", "some avg10 > 7.5%"),
            ("some avg10 < 7%", "some avg10 > 7%"),
            ("full avg30 > 7%", "full avg10 > 7%"),
            ("Full Avg10 > 7%", "full avg10 > 7%"),
            ("full avg10 > 20", "full avg10 > 20%"),
            ("full avg10 > 0%", "full avg10 > 20%"),
            ("full avg10 > 100%", "full avg10 > 20%"),
            ("full avg10 > 1.234%", "full avg10 > 20%"),
            ("full avg10 > -5%", "full avg10 > 5%"),
            ("full avg10 > 5% 30s", "full avg10 > 5%"),
            ("full avg10 > 5% for", "full avg10 > 5%"),
            ("full avg10 > 5% for -1s", "full avg10 > 5%"),
            ("some 60s 5% for 10s", "some avg60 > 5% for 10s"),
            ("full avg10 > 5% for 30", "full avg10 > 5%"),
        ];
        for (text, meant) in table {
            assert_eq!(limit(text), None, "{text}");
            let nearest = PressureLimit::nearest(text);
            assert_eq!(nearest.to_string(), meant, "{text}");
        }
    }

    #[test]
    fn the_figure_is_the_one_that_was_named() {
        let stall = Stall {
            some: [1, 2, 3],
            full: [4, 5, 6],
        };
        let (some, full) = (Share::Some, Share::Full);
        let table = [
            (some, Average::Avg10, 1),
            (some, Average::Avg60, 2),
            (some, Average::Avg300, 3),
            (full, Average::Avg10, 4),
            (full, Average::Avg60, 5),
            (full, Average::Avg300, 6),
        ];
        for (share, average, figure) in table {
            let seen = stall.observe(share, average, None);
            assert_eq!((seen.available, seen.capacity), (WHOLE - figure, WHOLE));
        }
    }

    proptest! {
        #[test]
        fn a_printed_value_is_parsed_to_the_same_value(
            full in any::<bool>(),
            average in 0..3_usize,
            most in 1..10_000_u16,
            millis in 0..10_000_000_i64,
        ) {
            let said = PressureLimit {
                share: Share::ALL[usize::from(full)],
                average: Average::ALL[average],
                most,
                lasting: SignedDuration::from_millis(millis),
            };
            prop_assert_eq!(limit(&said.to_string()), Some(said));
            prop_assert_eq!(PressureLimit::nearest(&said.to_string()), said);
        }

        #[test]
        fn any_text_is_refused_or_read_and_its_nearest_form_is_a_right_one(text in ".{0,40}") {
            let _ = limit(&text);
            let nearest = PressureLimit::nearest(&text);
            prop_assert_eq!(limit(&nearest.to_string()), Some(nearest));
        }
    }
}
