//! Thresholds and amounts as log lines and the status page show them.

use evictd_signals::{Signal, Threshold, ThresholdValue, human_bytes};

/// As configured, but a fraction is shown as a percentage.
pub(crate) fn configured(threshold: &Threshold) -> String {
    match threshold.value {
        ThresholdValue::Quantity(quantity) => quantity.to_string(),
        ThresholdValue::Pressure(limit) => limit.to_string(),
        ThresholdValue::Percentage(fraction) => {
            let percent = (f64::from(fraction) * 100_000.0).round() / 1000.0;
            format!("{percent}%")
        }
    }
}

/// In the unit of the signal.
pub(super) fn amount(signal: Signal, value: i64) -> String {
    if signal.counts_bytes() {
        human_bytes(value)
    } else {
        value.to_string()
    }
}
