//! Thresholds that were probably inverted: they name the usable amount, where a threshold names the available one.

use super::ThresholdValue;
use crate::{Observation, Threshold};

/// A threshold above this part of the capacity is probably inverted. `90%` is the usual mistake.
const PLAUSIBLE: f64 = 0.5;

impl ThresholdValue {
    /// The percentage that may be in use before a percentage this high is crossed; `None` for plausible values and for
    /// amounts, whose capacity is not known.
    pub fn inverted_percentage(self) -> Option<f64> {
        match self {
            Self::Percentage(fraction) if f64::from(fraction) > PLAUSIBLE => {
                Some((1.0 - f64::from(fraction)) * 100.0)
            }
            _ => None,
        }
    }
}

impl Threshold {
    /// How much may be in use before this threshold is crossed, if that is less than half of the capacity.
    #[expect(clippy::cast_precision_loss, reason = "compared with a half")]
    pub fn inverted(&self, observed: &Observation) -> Option<i64> {
        if self.signal.is_pressure() || observed.capacity <= 0 {
            return None;
        }
        let value = self.value.at(observed.capacity).value();
        let above = value as f64 > observed.capacity as f64 * PLAUSIBLE;
        above.then(|| observed.capacity.saturating_sub(value).max(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Signal;
    use jiff::SignedDuration;

    #[test]
    fn a_threshold_above_half_of_the_capacity_is_inverted() {
        let table = [
            ("90%", Some(10)),
            ("51%", Some(49)),
            ("50%", None),
            ("10%", None),
            ("0%", None),
            ("600k", Some(40)),
            ("500k", None),
            ("2M", Some(0)),
        ];
        let observed = Observation {
            available: 1_000_000,
            capacity: 1_000_000,
            time: None,
        };
        for (written, used) in table {
            let value = match written.strip_suffix('%') {
                Some(percent) => {
                    ThresholdValue::Percentage(percent.parse::<f32>().unwrap() / 100.0)
                }
                None => ThresholdValue::Quantity(written.parse().unwrap()),
            };
            let threshold = Threshold {
                signal: Signal::PidAvailable,
                value,
                grace_period: SignedDuration::ZERO,
                min_reclaim: None,
            };
            // Percentages are kept in single precision.
            let found = threshold.inverted(&observed);
            assert_eq!(found.map(|used| (used + 5_000) / 10_000), used, "{written}");
            let percent = value.inverted_percentage().map(f64::round);
            let of_percentage = written.ends_with('%') && used.is_some();
            assert_eq!(percent.is_some(), of_percentage, "{written}");
        }
    }
}
