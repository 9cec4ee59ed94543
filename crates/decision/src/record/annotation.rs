//! The annotation in which an evicted pod keeps the record of its eviction. Status reason and message may be lost:
//! if every container exits with 0, the kubelet clears them.

use crate::{ActingThreshold, Decision};
use evictd_pod::Quantity;
use evictd_signals::pressure;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Value, json};

/// The key of the annotation.
pub const ANNOTATION: &str = "evictd.dev/evicted";

/// The annotation's value, a JSON object; `id` names the decision in the history. Amounts are quantities, pressures
/// percentages, unknown amounts null; `rank` counts from 1.
pub fn record(id: &str, decision: &Decision) -> String {
    let acting = decision.threshold.as_ref();
    let place = decision.eviction.as_ref().and_then(|eviction| {
        decision
            .ranked
            .iter()
            .position(|pod| pod.index == eviction.index)
    });
    let ranked = place.map(|place| &decision.ranked[place]);
    json!({
        "decision": id,
        "time": decision.time,
        "kind": decision.kind,
        "signal": decision.signal,
        "threshold": acting.map(threshold),
        "observed": acting.map(observed),
        "usage": ranked.and_then(|pod| pod.usage),
        "request": ranked.map(|pod| pod.request),
        // People count from one.
        "rank": place.map(|place| place + 1),
        "message": decision.eviction.as_ref().map(|eviction| eviction.message.trim_end()),
    })
    .to_string()
}

/// When the eviction that this annotation value records was decided; `None` if evictd did not write the value.
pub fn time(record: &str) -> Option<Timestamp> {
    #[derive(Deserialize)]
    struct Record {
        time: Timestamp,
    }
    let record: Record = serde_json::from_str(record).ok()?;
    Some(record.time)
}

/// The identity of the decision that an annotation value records.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Mark {
    /// Id of the decision.
    pub decision: String,
    /// How often the API server was informed of it.
    #[serde(rename = "told", default = "once")]
    pub times_sent: u64,
}

const fn once() -> u64 {
    1
}

/// The decision that this annotation value records; `None` if evictd did not write the value.
pub fn mark(record: &str) -> Option<Mark> {
    serde_json::from_str(record).ok()
}

/// The same value for a notice that is sent again, with a counter. After a pod's status was overwritten, a kubelet
/// processes the pod again only if something else in it changes too.
pub fn repeated(record: &str, times_sent: u64) -> String {
    let mut again: Value = serde_json::from_str(record).unwrap_or_default();
    if let Some(fields) = again.as_object_mut() {
        fields.insert("told".to_owned(), times_sent.into());
    }
    again.to_string()
}

/// The value for a pod that is preempted or rejected.
pub fn brief(id: &str, time: Timestamp, kind: &str, reason: &str, message: &str) -> String {
    json!({
        "decision": id,
        "time": time,
        "kind": kind,
        "reason": reason,
        "message": message.trim_end(),
    })
    .to_string()
}

fn threshold(acting: &ActingThreshold) -> String {
    if acting.threshold.signal.is_pressure() {
        return acting.threshold.value.to_string();
    }
    acting.quantity.to_string()
}

fn observed(acting: &ActingThreshold) -> String {
    let signal = acting.threshold.signal;
    let available = acting.observed.available;
    if signal.is_pressure() {
        pressure::percent(acting.observed.taken())
    } else if signal.counts_bytes() {
        Quantity::bytes(available).to_string()
    } else {
        Quantity::count(available).to_string()
    }
}
