//! The table of ranked pods, the same for all commands.

use super::table::{or_dash as shown, used, yes};
use evictd_command::{Colour, Column, Fitted, Row, Table, View};
use evictd_decision::{
    RankedPod, Spared,
    record::{RankingRow, Record},
    why,
};
use evictd_pod::QosClass;
use evictd_signals::{Signal, StarvedResource};
use serde::Deserialize;
use serde_json::Value;

/// A pod of a ranking, and why it ranks before the next.
#[derive(Deserialize)]
struct Place {
    #[serde(flatten)]
    row: RankingRow,
    #[serde(default)]
    because: Option<String>,
}

/// The first `most` pods of a ranking with all sorting keys, and the number of the others.
pub(super) fn first(most: usize, ranked: &[RankedPod], signal: Signal, view: View) -> String {
    let table = explained(most, ranked, signal).shown(view);
    match ranked.len().saturating_sub(most) {
        0 => table,
        more => format!("{table}\n... and {more} more, all of them in -o json"),
    }
}

/// The first `most` pods, with the reason why each ranks before the next.
pub(super) fn explained(most: usize, ranked: &[RankedPod], signal: Signal) -> Table {
    let rows = why::rows(ranked, signal.resource()).take(most);
    let places = rows.map(|row| Place {
        row: RankingRow::of(row.pod),
        because: Some(row.because),
    });
    all(Some(signal), &places.collect::<Vec<_>>())
}

/// The ranking in an answer of the daemon.
pub(super) fn page(answer: &Value, view: View) -> String {
    answered(answer).shown(view)
}

/// The same without a note about columns that do not fit.
pub(super) fn brief_page(answer: &Value, view: View) -> String {
    let Fitted { text, .. } = answered(answer).fitted(view);
    text
}

fn answered(answer: &Value) -> Table {
    let signal = answer["signal"].as_str().and_then(Signal::parse);
    let places: Vec<Place> = Deserialize::deserialize(&answer["pods"]).unwrap_or_default();
    all(signal, &places)
}

/// The ranking in a record of a decision, which has the keys but not the explanations.
pub(super) fn recorded(record: &Record) -> Table {
    let rows = record.ranking.iter().cloned();
    let places = rows.map(|row| Place { row, because: None });
    all(record.acting_signal(), &places.collect::<Vec<_>>())
}

fn all(signal: Option<Signal>, pods: &[Place]) -> Table {
    let counts = signal.is_some_and(|signal| signal.resource() == StarvedResource::Pids);
    let (over, request) = if counts {
        ("OVER SHARE", "SHARE")
    } else {
        ("OVER REQUEST", "REQUEST")
    };
    let mut columns = vec![
        Column::figure("#", 8),
        Column::name("POD", 9),
        Column::words(over, 4),
        Column::figure("PRIORITY", 3),
        Column::figure("OVERAGE", 5),
        Column::figure("USAGE", 7),
        Column::figure(request, 2),
        Column::words("QOS", 1),
    ];
    // Only records lack the explanations.
    if pods.iter().any(|pod| !because(pod).is_empty()) {
        columns.push(Column::sentence("BEFORE THE NEXT BECAUSE", 6));
    }
    let next = pods.iter().position(|place| !is_spared(&place.row));
    let rows = pods.iter().enumerate().map(|(index, place)| {
        let pod = &place.row;
        let row = Row::from(vec![
            (index + 1).to_string(),
            pod.pod.clone(),
            yes(pod.exceeds_request),
            pod.priority.to_string(),
            used(signal, pod.overage),
            used(signal, pod.usage),
            used(signal, pod.request),
            shown(pod.qos.map(QosClass::as_str)),
            because(place),
        ]);
        row.coloured(if is_spared(pod) {
            Some(Colour::Faint)
        } else {
            (next == Some(index)).then_some(Colour::Strong)
        })
    });
    Table::new(columns, rows)
}

fn is_spared(row: &RankingRow) -> bool {
    row.critical || row.protected || row.unreachable.is_some()
}

fn because(place: &Place) -> String {
    let row = &place.row;
    match &place.because {
        Some(because) => because.clone(),
        None if row.critical => "never evicted: critical".to_owned(),
        None if row.protected => "never evicted: protected".to_owned(),
        None => row
            .unreachable
            .map_or_else(String::new, |why| Spared::Unreachable(why).because()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_decision::record::Kind;
    use jiff::Timestamp;
    use serde_json::json;

    #[test]
    fn under_pressure_pods_are_shown_in_the_bytes_that_they_are_ranked_by() {
        let pods =
            json!([{ "pod": "shop/hog", "usage": "300Mi", "overage": "250Mi", "request": "50Mi" }]);
        for signal in ["memory.psi", "io.psi"] {
            let page = page(&json!({ "signal": signal, "pods": pods }), View::WHOLE);
            for shown in ["300Mi", "250Mi", "50Mi"] {
                assert!(page.contains(shown), "{shown} in\n{page}");
            }
        }
    }

    #[test]
    fn a_record_has_no_words_and_no_column_for_them() {
        let pods = json!([{ "pod": "shop/hog", "because": "lower priority" }]);
        let answer = json!({ "signal": "memory.available", "pods": pods });
        assert!(page(&answer, View::WHOLE).contains("BECAUSE"));
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
        let page = recorded(&record).shown(View::WHOLE);
        assert!(
            page.contains("shop/hog") && !page.contains("BECAUSE"),
            "{page}"
        );
    }
}
