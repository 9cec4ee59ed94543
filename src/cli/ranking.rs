//! The table of ranked pods, the same wherever a ranking is shown.

use super::table::{told as shown, used, yes};
use evictd_command::table;
use evictd_eviction::{
    RankedPod, Signal, StarvedResource,
    decision::Spared,
    record::{RankingRow, Record},
    why,
};
use evictd_pod::QosClass;
use serde::Deserialize;
use serde_json::Value;

/// A pod of a ranking, and why it stands before the next.
#[derive(Deserialize)]
struct Place {
    #[serde(flatten)]
    row: RankingRow,
    #[serde(default)]
    because: Option<String>,
}

/// The first `most` pods in ranked order with every key that put them there, and how many there are besides.
pub(super) fn first(most: usize, ranked: &[RankedPod], signal: Signal) -> String {
    let rows = why::rows(ranked, signal.resource()).take(most);
    let places = rows.map(|row| Place {
        row: RankingRow::of(row.pod),
        because: Some(row.because),
    });
    let table = all(Some(signal), &places.collect::<Vec<_>>());
    match ranked.len().saturating_sub(most) {
        0 => table,
        more => format!("{table}\n... and {more} more, all of them in -o json"),
    }
}

/// The ranking in an answer of the daemon.
pub(super) fn told(answer: &Value) -> String {
    let signal = answer["signal"].as_str().and_then(Signal::parse);
    let places: Vec<Place> = Deserialize::deserialize(&answer["pods"]).unwrap_or_default();
    all(signal, &places)
}

/// The ranking in a record of a decision, which has the keys and not the words.
pub(super) fn recorded(record: &Record) -> String {
    let rows = record.ranking.iter().cloned();
    let places = rows.map(|row| Place { row, because: None });
    all(record.acting_signal(), &places.collect::<Vec<_>>())
}

fn all(signal: Option<Signal>, pods: &[Place]) -> String {
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
    let shown_columns = headings.len() - usize::from(!words);
    let rows = pods.iter().zip(1_u64..).map(|(place, rank)| {
        let pod = &place.row;
        let mut row = vec![
            rank.to_string(),
            pod.pod.clone(),
            yes(pod.exceeds_request),
            pod.priority.to_string(),
            used(signal, pod.overage),
            used(signal, pod.usage),
            used(signal, pod.request),
            shown(pod.qos.map(QosClass::as_str)),
            because(place),
        ];
        row.truncate(shown_columns);
        row
    });
    table(&headings[..shown_columns], rows)
}

fn because(place: &Place) -> String {
    let row = &place.row;
    match &place.because {
        Some(because) => because.clone(),
        None if row.critical => "never goes: critical".to_owned(),
        None if row.protected => "never goes: protected".to_owned(),
        None => row
            .unreachable
            .map_or_else(String::new, |why| Spared::Unreachable(why).because()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_eviction::record::Kind;
    use jiff::Timestamp;
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
        let record = Record {
            ranking: vec![RankingRow {
                pod: "shop/hog".to_owned(),
                ..RankingRow::default()
            }],
            ..Record::new(
                "1".to_owned(),
                Timestamp::UNIX_EPOCH,
                Kind::Hard,
                "memory.available",
            )
        };
        let page = recorded(&record);
        assert!(
            page.contains("shop/hog") && !page.contains("BECAUSE"),
            "{page}"
        );
    }
}
