//! The amount that a threshold demands together with its minimum reclaim.

use super::{Threshold, ThresholdValue};
use crate::Observation;
use evictd_pod::Quantity;

impl Threshold {
    /// The available amount at which it stops acting: its value and the minimum reclaim (S1-027).
    pub fn to_reach(&self, capacity: i64) -> Quantity {
        let mut quantity = self.value.at(capacity);
        if let Some(min_reclaim) = self.min_reclaim {
            quantity += min_reclaim.at(capacity);
        }
        quantity
    }

    /// The available amount at which it stops acting, if the signal is above the threshold now: then only the minimum
    /// reclaim holds it. `None` below the threshold.
    pub fn held_until(&self, observed: &Observation) -> Option<Quantity> {
        let above = self.value.at(observed.capacity) <= Quantity::count(observed.available);
        above.then(|| self.to_reach(observed.capacity))
    }

    /// Whether a minimum reclaim demands more than the capacity ever leaves available. Then the threshold, once it acts,
    /// acts for ever. `None` for the capacity of a node that is not known: only percentages can be added then.
    pub fn never_ends(&self, capacity: Option<i64>) -> bool {
        use ThresholdValue::Percentage;
        let Some(more) = self.min_reclaim.filter(|_| !self.signal.is_pressure()) else {
            return false;
        };
        match (self.value, more, capacity) {
            (Percentage(value), Percentage(more), _) => value + more > 1.0 - f32::EPSILON,
            (_, _, Some(capacity)) => self.to_reach(capacity) >= Quantity::count(capacity),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Signal, ThresholdMaps};

    fn threshold(signal: &str, value: &str, reclaim: &str) -> Threshold {
        let map = |text: &str| [(signal.to_owned(), text.to_owned())].into();
        let maps = ThresholdMaps {
            hard: map(value),
            minimum_reclaim: map(reclaim),
            ..ThresholdMaps::default()
        };
        maps.parse_with_ours().unwrap().remove(0)
    }

    #[test]
    fn a_threshold_out_of_reach_never_ends() {
        const GI: i64 = 1 << 30;
        let table = [
            ("15%", "90%", None, true),
            ("25%", "75%", None, true),
            ("10%", "90%", None, true),
            ("5%", "10%", None, false),
            ("15%", "84%", Some(GI), false),
            ("1Gi", "90%", None, false),
            ("1Gi", "91%", Some(10 * GI), true),
            ("1Gi", "89%", Some(10 * GI), false),
            ("1Gi", "1Gi", Some(2 * GI), true),
            ("1Gi", "1Gi", Some(3 * GI), false),
        ];
        for (value, reclaim, capacity, expected) in table {
            let threshold = threshold("memory.available", value, reclaim);
            let case = format!("{value} {reclaim} {capacity:?}");
            assert_eq!(threshold.never_ends(capacity), expected, "{case}");
        }
        let psi = threshold("memory.psi", "full avg10 > 20%", "15%");
        assert_eq!(psi.signal, Signal::MemoryPsi);
        assert!(!psi.never_ends(Some(10_000)));
    }

    #[test]
    fn a_signal_above_its_threshold_is_held_by_the_minimum_reclaim_alone() {
        let threshold = threshold("memory.available", "64Mi", "50%");
        let at = |available: i64| Observation {
            available: available << 20,
            capacity: 256 << 20,
            time: None,
        };
        assert_eq!(threshold.held_until(&at(63)), None);
        let until = threshold.held_until(&at(64)).unwrap();
        assert_eq!(until.value(), 192 << 20);
    }
}
