//! Figures for people.

use evictd_eviction::{Signal, StarvedResource, pressure, why::human_bytes};
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
    parsed(value).map_or_else(|| text(value), |parsed| amount(signal, Some(parsed)))
}

/// A quantity of what a pod uses, bytes or a count: pods have no share of the time in which others stood still.
pub(super) fn used(signal: Option<Signal>, value: &Value) -> String {
    let counted = |signal: Signal| {
        let resource = signal.resource();
        matches!(resource, StarvedResource::Inodes | StarvedResource::Pids)
    };
    match parsed(value) {
        None => text(value),
        Some(count) if signal.is_some_and(counted) => count.to_string(),
        Some(bytes) => human_bytes(bytes),
    }
}

fn parsed(value: &Value) -> Option<i64> {
    let quantity: Quantity = value.as_str()?.parse().ok()?;
    Some(quantity.value())
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

/// A moment out of a JSON document.
pub(super) fn told_moment(value: &Value) -> String {
    let time: Option<Timestamp> = value.as_str().and_then(|time| time.parse().ok());
    time.map_or_else(|| text(value), moment)
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
    fn what_pods_use_is_bytes_or_a_count_whatever_the_signal_is() {
        for (signal, expected) in [
            (Signal::MemoryAvailable, "2Ki"),
            (Signal::MemoryPsi, "2Ki"),
            (Signal::IoPsi, "2Ki"),
            (Signal::NodefsAvailable, "2Ki"),
            (Signal::NodefsInodesFree, "2048"),
            (Signal::PidAvailable, "2048"),
        ] {
            assert_eq!(used(Some(signal), &json!("2Ki")), expected, "{signal}");
        }
        let unknown = used(Some(Signal::MemoryPsi), &Value::Null);
        assert_eq!(unknown, "-");
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
