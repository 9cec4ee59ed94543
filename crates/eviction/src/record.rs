//! What an evicted pod keeps of its eviction: one annotation. Status reason and message do not last: where every
//! container exits with 0, the kubelet empties them.

use crate::{Decision, Signal};
use evictd_pod::Quantity;
use serde_json::json;

/// The annotation's name.
pub const ANNOTATION: &str = "evictd.dev/evicted";

/// The annotation's value, a JSON object; `id` names the decision in the history. Amounts are quantities, an unknown
/// one is null; `rank` counts from 1.
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
        "threshold": acting.map(|acting| acting.quantity),
        "observed": acting.map(|acting| amount(acting.threshold.signal, acting.observed.available)),
        "usage": ranked.and_then(|pod| pod.usage),
        "request": ranked.map(|pod| pod.request),
        "rank": place.map(|place| place + 1),
        "message": decision.eviction.as_ref().map(|eviction| eviction.message.trim_end()),
    })
    .to_string()
}

fn amount(signal: Signal, value: i64) -> Quantity {
    if signal.counts_bytes() {
        Quantity::bytes(value)
    } else {
        Quantity::count(value)
    }
}
