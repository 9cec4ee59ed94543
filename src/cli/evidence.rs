//! Thresholds and steps in words for people.

use super::table::amount;
use evictd_decision::Eviction;
use evictd_eviction::simulation::StepOutcome;
use evictd_pod::duration;
use evictd_signals::{Observation, Signal, Threshold, ThresholdValue, pressure};

/// `memory.available < 500Mi`, with its grace period and minimum reclaim if it has them.
pub(super) fn threshold(threshold: &Threshold) -> String {
    let grace = if threshold.is_hard() {
        String::new()
    } else {
        let grace = duration::format(threshold.grace_period);
        format!(", soft: acts after {grace}")
    };
    let min_reclaim = threshold.min_reclaim.map_or(String::new(), |more| {
        format!(", then until {} more is available", value(more))
    });
    let (signal, limit) = (threshold.signal, value(threshold.value));
    let below = if signal.is_pressure() { "" } else { "< " };
    format!("{signal} {below}{limit}{grace}{min_reclaim}")
}

/// `memory.available 400Mi < 500Mi`, with the observed amount.
pub(super) fn crossing(threshold: &Threshold, observed: Option<&Observation>) -> String {
    let signal = threshold.signal;
    if signal.is_pressure() {
        let stalled = observed.map_or_else(|| "-".to_owned(), stalled);
        return format!(
            "{signal} {stalled}, where {} is too much",
            value(threshold.value)
        );
    }
    let available = amount(Some(signal), observed.map(|observed| observed.available));
    let limit = limit(threshold, observed);
    let Some(until) = observed.and_then(|observed| threshold.held_until(observed)) else {
        return format!("{signal} {available} < {limit}");
    };
    let until = amount(Some(signal), Some(until.value()));
    format!("{signal} {available}, above {limit}, held until {until} by the minimum reclaim")
}

/// `31%`, the share of time in which tasks were stalled.
fn stalled(observed: &Observation) -> String {
    pressure::percent(observed.taken())
}

/// The threshold's value; `10% (2.4Gi)` if it is a percentage.
pub(super) fn limit(threshold: &Threshold, observed: Option<&Observation>) -> String {
    let written = value(threshold.value);
    match (threshold.value, observed) {
        (ThresholdValue::Percentage(_), Some(observed)) => {
            let quantity = threshold.value.at(observed.capacity).value();
            let quantity = amount(Some(threshold.signal), Some(quantity));
            format!("{written} ({quantity})")
        }
        _ => written,
    }
}

/// `500Mi`, or `5%` if it is a percentage.
pub(super) fn value(value: ThresholdValue) -> String {
    match value {
        ThresholdValue::Quantity(quantity) => quantity.to_string(),
        ThresholdValue::Pressure(limit) => limit.to_string(),
        ThresholdValue::Percentage(fraction) => {
            let percent = format!("{:.4}", f64::from(fraction) * 100.0);
            format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

/// Whether this signal is exhausted. Full swap alone is no shortage: the kernel swaps out idle pages.
pub(super) fn is_exhausted(signal: Signal, observed: &Observation) -> bool {
    signal != Signal::SwapAvailable && observed.is_exhausted()
}

/// That signals without a threshold are exhausted, without a full stop; `None` if there are none.
pub(super) fn exhausted(signals: &[(Signal, Observation)]) -> Option<String> {
    let left = |(signal, observed): &(Signal, Observation)| {
        if signal.is_pressure() {
            return format!("{} of the time", stalled(observed));
        }
        let shown = |figure| amount(Some(*signal), Some(figure));
        let (available, capacity) = (shown(observed.available), shown(observed.capacity));
        format!("{available} of {capacity} left")
    };
    // The same filesystem often stands for several signals.
    let same = signals
        .windows(2)
        .all(|pair| left(&pair[0]) == left(&pair[1]));
    let named: Vec<String> = signals
        .iter()
        .map(|one| {
            if same {
                one.0.to_string()
            } else {
                format!("{} ({})", one.0, left(one))
            }
        })
        .collect();
    let first = signals.first().filter(|_| same);
    let figures = first.map_or_else(String::new, |one| format!(" ({})", left(one)));
    match named.as_slice() {
        [] => None,
        [one] => Some(format!(
            "{one} is exhausted{figures} and has no threshold: no pod is evicted for it"
        )),
        several => Some(format!(
            "{} are exhausted{figures} and have no threshold: no pod is evicted for them",
            several.join(", ")
        )),
    }
}

/// The grace period of the pod.
pub(super) fn grace(eviction: &Eviction) -> String {
    match eviction.grace_period_seconds {
        ..=0 => "without a grace period".to_owned(),
        seconds => format!("with a grace period of {seconds} s"),
    }
}

/// The objects that would be reclaimed before a pod is evicted.
pub(super) fn reclaim(step: &StepOutcome) -> Option<&'static str> {
    match (step.container_gc, step.image_gc) {
        (true, true) => Some("dead containers, then unused images, are deleted first"),
        (true, false) => Some("dead containers are deleted first"),
        (false, true) => Some("unused images are deleted first"),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_reads_as_it_was_written() {
        for (fraction, words) in [(0.05, "5%"), (0.040_999_997, "4.1%"), (1e-4, "0.01%")] {
            assert_eq!(value(ThresholdValue::Percentage(fraction)), words);
        }
    }
}
