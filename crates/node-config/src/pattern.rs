//! The forms of amounts and durations, as JSON Schemas with regular expressions that every editor understands.

use evictd_signals::Signal;
use serde_json::{Value as Json, json};

/// An amount of bytes or counts, as Kubernetes writes it, or a share of the capacity.
const AMOUNT: &str = r"^\+?[0-9.]+([eE][+-]?[0-9]+)?(%|[KMGTPE]i|[numkMGTPE])?$";
const PRESSURE: &str = r"^(0%|100%|\s*(some|full)\s+avg(10|60|300)\s*>\s*[0-9.]+%(\s+for\s+.+)?)$";
const PERCENT: &str = r"^\+?[0-9.]+([eE][+-]?[0-9]+)?%$";
/// In Go's notation.
const DURATION: &str = r"^\+?(0|(([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$";

/// A text, or a bare number that is one.
fn text(pattern: &str) -> Json {
    json!({ "type": ["string", "number"], "pattern": pattern })
}

/// Of bare numbers only 0 needs no unit.
pub(super) fn duration() -> Json {
    json!({ "type": ["string", "integer"], "pattern": DURATION, "minimum": 0, "maximum": 0 })
}

/// Of a signal's threshold.
pub(super) fn threshold(signal: Signal) -> Json {
    text(if signal.is_pressure() {
        PRESSURE
    } else {
        AMOUNT
    })
}

/// Of a soft threshold's grace period.
pub(super) fn grace(_: Signal) -> Json {
    duration()
}

/// The amount to reclaim beyond a threshold.
pub(super) fn reclaim(signal: Signal) -> Json {
    text(if signal.is_pressure() {
        PERCENT
    } else {
        AMOUNT
    })
}
