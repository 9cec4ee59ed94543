//! Thresholds: their grammar, their values, and the kubelet's derived ones (S1-004 to S1-017).

mod allocatable;
mod inverted;
mod json;
mod reach;

use crate::{
    Signal,
    pressure::{PressureError, PressureLimit},
};
use evictd_pod::{
    Quantity,
    duration::{self, DurationError},
    quantity::QuantityError,
};
use jiff::SignedDuration;
use std::collections::BTreeMap;

pub use allocatable::{with_allocatable, with_allocatable_pids};

/// The value of a threshold: an amount, or a part of the signal's capacity.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ThresholdValue {
    /// Bytes or counts.
    Quantity(Quantity),
    /// A fraction of capacity, kept in single precision as the kubelet does (S1-011).
    Percentage(f32),
    /// A share of time in which tasks may be stalled; evictd's own.
    Pressure(PressureLimit),
}

impl ThresholdValue {
    /// The amount at this capacity (S1-011). The product is truncated to a whole number, and printed with binary
    /// suffixes even for counts (S1-054).
    #[allow(
        clippy::cast_precision_loss,
        reason = "double precision is the kubelet's"
    )]
    #[allow(clippy::cast_possible_truncation, reason = "cutting is the kubelet's")]
    pub fn at(self, capacity: i64) -> Quantity {
        match self {
            Self::Quantity(quantity) => quantity,
            Self::Percentage(fraction) => {
                let amount = (capacity as f64 * f64::from(fraction)) as i64;
                Quantity::bytes(amount)
            }
            Self::Pressure(limit) => Quantity::count(capacity - i64::from(limit.most)),
        }
    }

    /// How long it must be met before it acts, independent of the grace period.
    const fn lasting(self) -> SignedDuration {
        match self {
            Self::Pressure(limit) => limit.lasting,
            Self::Quantity(_) | Self::Percentage(_) => SignedDuration::ZERO,
        }
    }
}

impl std::fmt::Display for ThresholdValue {
    /// A canonical quantity, or the fraction as its shortest decimal.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Quantity(quantity) => quantity.fmt(f),
            Self::Percentage(fraction) => fraction.fmt(f),
            Self::Pressure(limit) => limit.fmt(f),
        }
    }
}

/// "Act when this signal has been below this value for this long."
#[derive(Debug, Clone, PartialEq)]
pub struct Threshold {
    /// The signal whose available amount is compared.
    pub signal: Signal,
    /// Met while the available amount is strictly below this (S1-004).
    pub value: ThresholdValue,
    /// How long it must have been met before it acts; zero makes the threshold hard (S1-009).
    pub grace_period: SignedDuration,
    /// Once it acts, it acts until the value plus this is available (S1-027).
    pub min_reclaim: Option<ThresholdValue>,
}

impl Threshold {
    /// Whether it acts without a grace period (S1-009).
    pub fn is_hard(&self) -> bool {
        self.grace_period.is_zero()
    }

    /// How long it must have been met before it acts.
    pub fn acts_after(&self) -> SignedDuration {
        self.grace_period.max(self.value.lasting())
    }

    /// Sorting key of printed lists.
    pub fn order(&self) -> (&'static str, SignedDuration) {
        (self.signal.as_str(), self.grace_period)
    }
}

/// The threshold maps of a configuration, as written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ThresholdMaps {
    /// Signal to value, without a grace period.
    pub hard: BTreeMap<String, String>,
    /// Signal to value, with a grace period.
    pub soft: BTreeMap<String, String>,
    /// Signal to grace period.
    pub soft_grace_period: BTreeMap<String, String>,
    /// Signal to minimum reclaim.
    pub minimum_reclaim: BTreeMap<String, String>,
}

/// The content of the maps, parsed. A threshold that is switched off is in none of them.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct ParsedThresholds {
    /// Of `evictionHard`.
    pub hard: Vec<Threshold>,
    /// Of `evictionSoft`, with their grace periods.
    pub soft: Vec<Threshold>,
    /// Of `evictionMinimumReclaim`.
    pub minimum_reclaims: Vec<(Signal, ThresholdValue)>,
}

impl ParsedThresholds {
    /// The thresholds, hard ones first.
    pub fn into_all(self) -> Vec<Threshold> {
        self.hard.into_iter().chain(self.soft).collect()
    }
}

/// One mistake, in the kubelet's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{kind}")]
pub struct ThresholdError {
    /// The map with the mistake: `evictionHard`, `evictionSoft`, ...
    pub map: &'static str,
    /// The key with the mistake.
    pub key: String,
    /// Which rule the text breaks.
    pub kind: ThresholdErrorKind,
}

/// The possible errors in a threshold.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ThresholdErrorKind {
    /// S1-007
    #[error("unsupported eviction signal {0}")]
    UnsupportedSignal(String),
    /// S1-006
    #[error("eviction percentage threshold {signal} must be >= 0%: {value}")]
    BelowZeroPercent {
        /// The signal of the threshold.
        signal: Signal,
        /// As written.
        value: String,
    },
    /// S1-006
    #[error("eviction percentage threshold {signal} must be <= 100%: {value}")]
    AboveHundredPercent {
        /// The signal of the threshold.
        signal: Signal,
        /// As written.
        value: String,
    },
    /// S1-006
    #[error("eviction threshold {signal} must be positive: {value}")]
    NotPositive {
        /// The signal of the threshold.
        signal: Signal,
        /// The amount in canonical form.
        value: Quantity,
    },
    /// The text does not follow the grammar of pressure.
    #[error(transparent)]
    Pressure(#[from] PressureError),
    /// The minimum reclaim of a pressure signal must be a percentage of the time.
    #[error("eviction minimum reclaim {signal} must be a percentage: {value}")]
    NotPercent {
        /// The signal of the threshold.
        signal: Signal,
        /// As written.
        value: String,
    },
    /// A soft threshold has both `for DURATION` in its value and a grace period.
    #[error("grace period is specified twice for the soft eviction threshold {0}")]
    TwoGracePeriods(Signal),
    /// S1-010
    #[error("eviction percentage minimum reclaim {signal} must be positive: {value}")]
    MinimumReclaimNotPositive {
        /// The signal of the threshold.
        signal: Signal,
        /// As written.
        value: String,
    },
    /// S1-010
    #[error("negative eviction minimum reclaim specified for {0}")]
    NegativeMinimumReclaim(Signal),
    /// S1-008
    #[error("invalid eviction grace period specified: {0}, must be a positive value")]
    NegativeGracePeriod(String),
    /// S1-008
    #[error("grace period must be specified for the soft eviction threshold {0}")]
    NoGracePeriod(Signal),
    /// The text before `%` is not a number.
    #[error("strconv.ParseFloat: parsing {0:?}: invalid syntax")]
    Percentage(String),
    /// The text is not a quantity.
    #[error(transparent)]
    Quantity(#[from] QuantityError),
    /// The grace period is not a duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
}

impl ThresholdMaps {
    /// All thresholds on the kubelet's signals, hard ones first; or all mistakes, in the order in which the kubelet
    /// finds them.
    pub fn parse(&self) -> Result<Vec<Threshold>, Vec<ThresholdError>> {
        self.parse_by_map(false).map(ParsedThresholds::into_all)
    }

    /// The same, including evictd's own signals.
    pub fn parse_with_ours(&self) -> Result<Vec<Threshold>, Vec<ThresholdError>> {
        self.parse_by_map(true).map(ParsedThresholds::into_all)
    }

    /// The same, one list per map; with evictd's own signals if `ours` is set.
    pub fn parse_by_map(&self, ours: bool) -> Result<ParsedThresholds, Vec<ThresholdError>> {
        if ours {
            self.parse_known(|_| true)
        } else {
            self.parse_known(|signal| !signal.is_ours())
        }
    }

    fn parse_known(
        &self,
        known: fn(Signal) -> bool,
    ) -> Result<ParsedThresholds, Vec<ThresholdError>> {
        let mut errors = Vec::new();
        let hard = each(("evictionHard", &self.hard), known, &mut errors, statement);
        let soft = each(("evictionSoft", &self.soft), known, &mut errors, statement);
        let graces = each(
            ("evictionSoftGracePeriod", &self.soft_grace_period),
            known,
            &mut errors,
            grace_period,
        );
        let reclaims = each(
            ("evictionMinimumReclaim", &self.minimum_reclaim),
            known,
            &mut errors,
            minimum_reclaim,
        );
        let min_reclaim = |signal| {
            let entry = reclaims.iter().find(|(of, _)| *of == signal)?;
            Some(entry.1)
        };
        let at_once = |(signal, value): (Signal, Option<ThresholdValue>)| {
            Some(Threshold {
                signal,
                value: value?,
                grace_period: SignedDuration::ZERO,
                min_reclaim: min_reclaim(signal),
            })
        };
        let hard = hard.into_iter().filter_map(at_once).collect();
        let mut acting_later = Vec::new();
        for (signal, value) in soft {
            let Some(value) = value else { continue };
            let written = graces.iter().find(|(of, _)| *of == signal);
            // If the grace period is present but wrong, it has been reported already.
            let is_there = self.soft_grace_period.contains_key(signal.as_str());
            let mut mistake = |kind: fn(Signal) -> ThresholdErrorKind| {
                errors.push(ThresholdError {
                    map: "evictionSoft",
                    key: signal.as_str().to_owned(),
                    kind: kind(signal),
                });
            };
            let grace_period = match (written, value.lasting()) {
                (Some(_), lasting) if lasting.is_positive() => {
                    mistake(ThresholdErrorKind::TwoGracePeriods);
                    continue;
                }
                (Some((_, grace_period)), _) => *grace_period,
                (None, lasting) if lasting.is_positive() => lasting,
                (None, _) => {
                    if !is_there {
                        mistake(ThresholdErrorKind::NoGracePeriod);
                    }
                    continue;
                }
            };
            acting_later.push(Threshold {
                signal,
                value,
                grace_period,
                min_reclaim: min_reclaim(signal),
            });
        }
        if errors.is_empty() {
            Ok(ParsedThresholds {
                hard,
                soft: acting_later,
                minimum_reclaims: reclaims,
            })
        } else {
            Err(errors)
        }
    }
}

fn each<T>(
    (map, entries): (&'static str, &BTreeMap<String, String>),
    known: fn(Signal) -> bool,
    errors: &mut Vec<ThresholdError>,
    parse: impl Fn(Signal, &str) -> Result<T, ThresholdErrorKind>,
) -> Vec<(Signal, T)> {
    let mut parsed = Vec::new();
    for (key, value) in entries {
        let result = Signal::parse(key)
            .filter(|signal| known(*signal))
            .ok_or_else(|| ThresholdErrorKind::UnsupportedSignal(key.clone()))
            .and_then(|signal| Ok((signal, parse(signal, value)?)));
        match result {
            Ok(entry) => parsed.push(entry),
            // The other entries are still read, so that one start of the daemon reports all mistakes.
            Err(kind) => errors.push(ThresholdError {
                map,
                key: key.clone(),
                kind,
            }),
        }
    }
    parsed
}

/// Parses a value; `None` if it switches the threshold off (S1-006).
fn statement(signal: Signal, text: &str) -> Result<Option<ThresholdValue>, ThresholdErrorKind> {
    // Both are the kubelet's words for a threshold that is off.
    if text == "0%" || text == "100%" {
        return Ok(None);
    }
    if signal.is_pressure() {
        let limit = PressureLimit::parse(signal, text)?;
        return Ok(Some(ThresholdValue::Pressure(limit)));
    }
    if let Some(fraction) = percentage(text)? {
        let value = text.to_owned();
        return if fraction < 0.0 {
            Err(ThresholdErrorKind::BelowZeroPercent { signal, value })
        } else if fraction > 1.0 {
            Err(ThresholdErrorKind::AboveHundredPercent { signal, value })
        } else {
            Ok(Some(ThresholdValue::Percentage(fraction)))
        };
    }
    let value: Quantity = text.parse()?;
    if value.is_positive() {
        Ok(Some(ThresholdValue::Quantity(value)))
    } else {
        Err(ThresholdErrorKind::NotPositive { signal, value })
    }
}

fn minimum_reclaim(signal: Signal, text: &str) -> Result<ThresholdValue, ThresholdErrorKind> {
    // A percentage comes first, because a minimum reclaim of a pressure signal has no other form.
    if let Some(fraction) = percentage(text)? {
        if fraction <= 0.0 {
            return Err(ThresholdErrorKind::MinimumReclaimNotPositive {
                signal,
                value: text.to_owned(),
            });
        }
        return Ok(ThresholdValue::Percentage(fraction));
    }
    if signal.is_pressure() {
        let value = text.to_owned();
        return Err(ThresholdErrorKind::NotPercent { signal, value });
    }
    let value: Quantity = text.parse()?;
    if value.is_negative() {
        return Err(ThresholdErrorKind::NegativeMinimumReclaim(signal));
    }
    Ok(ThresholdValue::Quantity(value))
}

fn grace_period(_: Signal, text: &str) -> Result<SignedDuration, ThresholdErrorKind> {
    let duration = duration::parse(text)?;
    if duration.is_negative() {
        return Err(ThresholdErrorKind::NegativeGracePeriod(text.to_owned()));
    }
    Ok(duration)
}

/// The fraction, if the text ends in `%`.
fn percentage(text: &str) -> Result<Option<f32>, ThresholdErrorKind> {
    if !text.ends_with('%') {
        return Ok(None);
    }
    let number = text.trim_end_matches('%');
    match number.parse::<f32>() {
        Ok(percent) if !percent.is_nan() => Ok(Some(percent / 100.0)),
        _ => Err(ThresholdErrorKind::Percentage(number.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(hard: &[(&str, &str)]) -> ThresholdMaps {
        ThresholdMaps {
            hard: hard
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            ..ThresholdMaps::default()
        }
    }

    fn first_error(maps: &ThresholdMaps) -> String {
        maps.parse().unwrap_err()[0].to_string()
    }

    #[test]
    fn s1_006_values() {
        let table = [
            ("100Mi", "100Mi"),
            ("10%", "0.1"),
            ("4.1%", "0.040999997"),
            ("838860Ki", "838860Ki"),
        ];
        for (value, printed) in table {
            let parsed = maps(&[("memory.available", value)]).parse().unwrap();
            assert_eq!(parsed[0].value.to_string(), printed);
            assert!(parsed[0].is_hard());
        }
        for off in ["0%", "100%"] {
            assert_eq!(maps(&[("memory.available", off)]).parse().unwrap(), []);
        }
    }

    #[test]
    fn s1_006_s1_007_refused_values() {
        let table = [
            (
                "memory.free",
                "1Gi",
                "unsupported eviction signal memory.free",
            ),
            (
                "memory.available",
                "-1%",
                "eviction percentage threshold memory.available must be >= 0%: -1%",
            ),
            (
                "memory.available",
                "101%",
                "eviction percentage threshold memory.available must be <= 100%: 101%",
            ),
            (
                "memory.available",
                "0",
                "eviction threshold memory.available must be positive: 0",
            ),
            (
                "memory.available",
                "-1Ki",
                "eviction threshold memory.available must be positive: -1Ki",
            ),
            (
                "memory.available",
                "x%",
                "strconv.ParseFloat: parsing \"x\": invalid syntax",
            ),
        ];
        for (signal, value, error) in table {
            assert_eq!(first_error(&maps(&[(signal, value)])), error);
        }
    }

    #[test]
    fn s1_008_soft_needs_a_grace_period() {
        let mut config = ThresholdMaps::default();
        config.soft.insert("nodefs.available".into(), "10%".into());
        assert_eq!(
            first_error(&config),
            "grace period must be specified for the soft eviction threshold nodefs.available"
        );
        config
            .soft_grace_period
            .insert("nodefs.available".into(), "-1s".into());
        assert_eq!(
            first_error(&config),
            "invalid eviction grace period specified: -1s, must be a positive value"
        );
        config
            .soft_grace_period
            .insert("nodefs.available".into(), "1M".into());
        assert_eq!(
            first_error(&config),
            "time: unknown unit \"M\" in duration \"1M\""
        );
        config
            .soft_grace_period
            .insert("nodefs.available".into(), "90s".into());
        assert_eq!(config.parse().unwrap()[0].grace_period.as_secs(), 90);
    }

    #[test]
    fn s1_009_soft_without_delay_is_hard() {
        let mut config = ThresholdMaps::default();
        config.soft.insert("pid.available".into(), "10".into());
        config
            .soft_grace_period
            .insert("pid.available".into(), "0s".into());
        assert!(config.parse().unwrap()[0].is_hard());
    }

    #[test]
    fn s1_010_minimum_reclaim() {
        let mut config = maps(&[("memory.available", "1Gi")]);
        for (value, error) in [
            (
                "0%",
                "eviction percentage minimum reclaim memory.available must be positive: 0%",
            ),
            (
                "-5",
                "negative eviction minimum reclaim specified for memory.available",
            ),
        ] {
            config
                .minimum_reclaim
                .insert("memory.available".into(), value.into());
            assert_eq!(first_error(&config), error);
        }
        config
            .minimum_reclaim
            .insert("memory.available".into(), "0".into());
        assert!(config.parse().unwrap()[0].min_reclaim.is_some());
    }

    #[test]
    fn every_mistake_is_reported_at_once() {
        let mut config = maps(&[("memory.free", "1Gi"), ("pid.available", "x")]);
        config.soft.insert("nodefs.available".into(), "10%".into());
        assert_eq!(config.parse().unwrap_err().len(), 3);
    }

    #[test]
    fn s1_011_percentages_follow_capacity() {
        let value = ThresholdValue::Percentage(0.1);
        assert_eq!(value.at(1000).value(), 100);
        assert_eq!(value.at(2009).value(), 200);
    }
}
