//! The table of ranked pods, the same wherever a ranking is shown.

use super::table::{text, used, yes};
use evictd_command::table;
use evictd_eviction::{
    RankedPod, Signal, StarvedResource,
    decision::{Spared, Unreachable},
    why,
};
use serde::Deserialize;
use serde_json::Value;

/// The first `most` pods in ranked order with every key that put them there, and how many there are besides.
pub(super) fn first(most: usize, ranked: &[RankedPod], signal: Signal) -> String {
    let rows = why::rows(ranked, signal.resource()).take(most);
    let shown: Vec<Value> = rows
        .map(|row| serde_json::to_value(row).unwrap_or_default())
        .collect();
    let table = all(Some(signal), &shown);
    match ranked.len().saturating_sub(most) {
        0 => table,
        more => format!("{table}\n... and {more} more, all of them in -o json"),
    }
}

/// The ranking in an answer of the daemon.
pub(super) fn told(answer: &Value) -> String {
    all(signal_of(answer), list(&answer["pods"]))
}

/// The ranking in a record of a decision, which has the keys and not the words.
pub(super) fn recorded(decision: &Value) -> String {
    all(signal_of(decision), list(&decision["ranking"]))
}

/// The signal that an answer or a record is about.
pub(super) fn signal_of(document: &Value) -> Option<Signal> {
    document["signal"].as_str().and_then(Signal::parse)
}

fn list(pods: &Value) -> &[Value] {
    pods.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn all(signal: Option<Signal>, pods: &[Value]) -> String {
    let mut headings = [
        ">#",
        "POD",
        "OVER REQUEST",
        ">PRIORITY",
        ">OVERAGE",
        ">USAGE",
        ">REQUEST",
        "QOS",
        "BEFORE THE NEXT BECAUSE",
    ];
    if signal.is_some_and(|signal| signal.resource() == StarvedResource::Pids) {
        headings[2] = "OVER SHARE";
        headings[6] = ">SHARE";
    }
    // Only a record of a decision has no words.
    let words = pods.iter().any(|pod| !because(pod).is_empty());
    let shown = headings.len() - usize::from(!words);
    let rows = pods.iter().zip(1_u64..).map(|(pod, rank)| {
        let mut row = vec![
            rank.to_string(),
            text(&pod["pod"]),
            yes(&pod["exceedsRequest"]),
            text(&pod["priority"]),
            used(signal, &pod["overage"]),
            used(signal, &pod["usage"]),
            used(signal, &pod["request"]),
            text(&pod["qos"]),
            because(pod),
        ];
        row.truncate(shown);
        row
    });
    table(&headings[..shown], rows)
}

fn because(pod: &Value) -> String {
    let flags = [
        ("critical", "never goes: critical"),
        ("protected", "never goes: protected"),
    ];
    let flag = flags.into_iter().find(|(key, _)| pod[key] == true);
    match (pod["because"].as_str(), flag) {
        (Some(because), _) => because.to_owned(),
        (None, Some((_, spared))) => spared.to_owned(),
        (None, None) => unreachable(pod).unwrap_or_default(),
    }
}

fn unreachable(pod: &Value) -> Option<String> {
    let why = Unreachable::deserialize(&pod["unreachable"]).ok()?;
    Some(Spared::Unreachable(why).because())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn under_pressure_pods_are_shown_in_the_bytes_that_they_are_ranked_by() {
        let pods =
            json!([{ "pod": "shop/hog", "usage": "300Mi", "overage": "250Mi", "request": "50Mi" }]);
        for signal in ["memory.psi", "io.psi"] {
            let page = told(&json!({ "signal": signal, "pods": pods }));
            for shown in ["300Mi", "250Mi", "50Mi"] {
                assert!(page.contains(shown), "{shown} in\n{page}");
            }
        }
    }

    #[test]
    fn a_record_has_no_words_and_no_column_for_them() {
        let pods = json!([{ "pod": "shop/hog", "because": "lower priority" }]);
        let answer = json!({ "signal": "memory.available", "pods": pods });
        assert!(told(&answer).contains("BECAUSE"));
        let record = json!({ "signal": "memory.available", "ranking": [{ "pod": "shop/hog" }] });
        let page = recorded(&record);
        assert!(
            page.contains("shop/hog") && !page.contains("BECAUSE"),
            "{page}"
        );
    }
}
