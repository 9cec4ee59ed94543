//! Formats figures for people.

use evictd_pod::Quantity;
use evictd_signals::{Signal, StarvedResource, human_bytes, pressure};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use std::{fmt::Display, time::Duration};

/// Bytes, a count or a share of time, depending on the signal; `-` if not known.
pub(super) fn amount(signal: Option<Signal>, value: Option<i64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if signal.is_some_and(Signal::is_pressure) => pressure::percent(value),
        Some(value) if signal.is_none_or(Signal::counts_bytes) => human_bytes(value),
        Some(value) => value.to_string(),
    }
}

/// Usage of a pod in bytes or as a count; pods have no share of the stalled time of others.
pub(super) fn used(signal: Option<Signal>, value: Option<Quantity>) -> String {
    let counted = |signal: Signal| {
        let resource = signal.resource();
        matches!(resource, StarvedResource::Inodes | StarvedResource::Pids)
    };
    match value.map(|value| value.value()) {
        None => "-".to_owned(),
        Some(count) if signal.is_some_and(counted) => count.to_string(),
        Some(bytes) => human_bytes(bytes),
    }
}

/// A duration in its two largest units: `2h 3m`, `12s`, `350ms`.
pub(super) fn duration(duration: SignedDuration) -> String {
    let duration = Duration::try_from(duration).unwrap_or_default();
    let rounded = match duration.as_secs() {
        0 => Duration::from_millis(u64::from(duration.subsec_millis())),
        seconds => Duration::from_secs(seconds),
    };
    let text = humantime::format_duration(rounded).to_string();
    text.split(' ').take(2).collect::<Vec<_>>().join(" ")
}

/// The same for seconds from a JSON document.
pub(super) fn seconds(value: f64) -> String {
    duration(SignedDuration::try_from_secs_f64(value).unwrap_or_default())
}

/// A time in UTC, to the second.
pub(super) fn moment(time: Timestamp) -> String {
    time.strftime("%Y-%m-%d %H:%M:%SZ").to_string()
}

/// The value, or `-` if there is none.
pub(super) fn or_dash(value: Option<impl Display>) -> String {
    value.map_or_else(
        || "-".to_owned(),
        |value| value.to_string().trim_end().to_owned(),
    )
}

/// A text field of a JSON document, or `-`.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "-".to_owned(),
        Value::String(text) => text.trim_end().to_owned(),
        other => other.to_string(),
    }
}

/// `yes`, `no`, or `?` if not known.
pub(super) fn yes(value: Option<bool>) -> String {
    match value {
        Some(true) => "yes",
        Some(false) => "no",
        None => "?",
    }
    .to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_value_is_a_dash() {
        assert_eq!(amount(Some(Signal::MemoryAvailable), None), "-");
        assert_eq!(or_dash(None::<&str>), "-");
        assert_eq!(or_dash(Some("words \n")), "words");
    }

    #[test]
    fn usage_is_shown_in_the_unit_of_its_resource() {
        for (signal, expected) in [
            (Signal::MemoryAvailable, "2Ki"),
            (Signal::MemoryPsi, "2Ki"),
            (Signal::IoPsi, "2Ki"),
            (Signal::NodefsAvailable, "2Ki"),
            (Signal::NodefsInodesFree, "2048"),
            (Signal::PidAvailable, "2048"),
        ] {
            let two = Quantity::bytes(2048);
            assert_eq!(used(Some(signal), Some(two)), expected, "{signal}");
        }
        let unknown = used(Some(Signal::MemoryPsi), None);
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
