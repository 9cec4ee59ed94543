//! Figures for people.

use evictd_eviction::{Signal, pressure, why::human_bytes};
use evictd_pod::Quantity;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::time::Duration;

/// Bytes, a count or a share of time, as the signal has it; `-` where it is unknown.
pub(super) fn amount(signal: Option<Signal>, value: Option<i64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if signal.is_some_and(Signal::is_pressure) => pressure::percent(value),
        Some(value) if signal.is_none_or(Signal::counts_bytes) => human_bytes(value),
        Some(value) => value.to_string(),
    }
}

/// A quantity in Kubernetes' grammar, shown as [`amount`] shows it.
pub(super) fn quantity(signal: Option<Signal>, value: &Value) -> String {
    let parsed = value
        .as_str()
        .and_then(|text| text.parse::<Quantity>().ok());
    parsed.map_or_else(
        || text(value),
        |quantity| amount(signal, Some(quantity.value())),
    )
}

/// A length of time in its two largest units: `2h 3m`, `12s`, `350ms`.
pub(super) fn duration(duration: SignedDuration) -> String {
    let duration = Duration::try_from(duration).unwrap_or_default();
    let rounded = match duration.as_secs() {
        0 => Duration::from_millis(u64::from(duration.subsec_millis())),
        seconds => Duration::from_secs(seconds),
    };
    let text = humantime::format_duration(rounded).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// The same for seconds out of a JSON document.
pub(super) fn seconds(value: f64) -> String {
    duration(SignedDuration::try_from_secs_f64(value).unwrap_or_default())
}

/// A moment in UTC, to the second.
pub(super) fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// A text field, or `-`.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.trim_end().to_owned(),
        other => other.to_string(),
    }
}

/// `yes`, `no`, or `?` where it is unknown.
pub(super) fn yes(value: &Value) -> String {
    match value.as_bool() {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn quantities_are_shown_as_the_signal_counts() {
        let memory = Some(Signal::MemoryAvailable);
        assert_eq!(quantity(memory, &json!("1536Ki")), "1.5Mi");
        assert_eq!(quantity(Some(Signal::PidAvailable), &json!("2k")), "2000");
        assert_eq!(quantity(None, &Value::Null), "-");
        assert_eq!(amount(memory, None), "-");
    }

    #[test]
    fn durations_show_two_units() {
        for (millis, expected) in [
            (0, "0s"),
            (350, "350ms"),
            (12_700, "12s"),
            (7_384_000, "2h 3m"),
            (-5, "0s"),
        ] {
            assert_eq!(duration(SignedDuration::from_millis(millis)), expected);
        }
    }
}
