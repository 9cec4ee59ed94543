//! The part of a report about thresholds that were nearly met, and about the time under each condition.

use crate::cli::table::{amount, duration, moment, used};
use evictd_command::{Column, Table};
use evictd_signals::{
    Signal,
    near_misses::{NearMiss, NearReport, Times},
};
use jiff::SignedDuration;

/// For how long the node was observed, in whole days, and what was near.
pub(super) fn note(near: &NearReport) -> String {
    let observed = seconds(near.observed_seconds);
    if near.observed_seconds <= 0.0 {
        return "How near the node came to its thresholds is not known for this time.".to_owned();
    }
    let times: u32 = near
        .near_misses
        .iter()
        .fold(0, |sum, one| sum.saturating_add(one.times));
    let nearly = match times {
        0 => "no threshold was nearly met".to_owned(),
        1 => "a threshold was nearly met once".to_owned(),
        many => format!("thresholds were nearly met {many} times"),
    };
    format!("Observed for {observed} of these days (UTC): {nearly}.")
}

/// The tables that have rows.
pub(super) fn parts(near: &NearReport) -> Vec<(&'static str, Table)> {
    let mut parts = Vec::new();
    if !near.near_misses.is_empty() {
        parts.push((
            "Near misses: thresholds that were nearly met, at the nearest",
            misses(near),
        ));
    }
    if near
        .near_misses
        .iter()
        .any(|one| !one.nearest.holders.is_empty())
    {
        parts.push(("Pods that held most then", holders(near)));
    }
    if !near.conditions.is_empty() {
        parts.push(("Time under conditions", conditions(near)));
    }
    parts
}

fn seconds(seconds: f64) -> String {
    duration(SignedDuration::try_from_secs_f64(seconds).unwrap_or(SignedDuration::MAX))
}

fn misses(near: &NearReport) -> Table {
    let rows = near.near_misses.iter().map(|one| {
        let miss = &one.nearest;
        let signal = Signal::parse(&miss.signal);
        vec![
            miss.signal.clone(),
            times(one),
            left(signal, miss),
            format!(
                "{} ({})",
                amount(signal, Some(limit(signal, miss))),
                kind(miss)
            ),
            moment(miss.least_at),
            duration(SignedDuration::from_secs(one.near_seconds)),
        ]
    });
    let columns = [
        Column::words("SIGNAL", 9),
        Column::words("TIMES", 8),
        Column::figure("LEFT", 7),
        Column::figure("THRESHOLD", 6),
        Column::words("WHEN", 4),
        Column::figure("NEAR FOR", 3),
    ];
    Table::new(columns, rows)
}

fn times(one: &Times) -> String {
    let lasts = if one.lasts { ", now too" } else { "" };
    format!("{}{lasts}", one.times)
}

const fn kind(miss: &NearMiss) -> &'static str {
    if miss.hard { "hard" } else { "soft" }
}

/// Of a pressure signal the share of time that was stalled, as its threshold is written.
fn left(signal: Option<Signal>, miss: &NearMiss) -> String {
    let is_pressure = signal.is_some_and(Signal::is_pressure);
    let shown = if is_pressure {
        miss.capacity.saturating_sub(miss.least_available)
    } else {
        miss.least_available
    };
    amount(signal, Some(shown))
}

fn limit(signal: Option<Signal>, miss: &NearMiss) -> i64 {
    if signal.is_some_and(Signal::is_pressure) {
        miss.capacity.saturating_sub(miss.threshold)
    } else {
        miss.threshold
    }
}

fn holders(near: &NearReport) -> Table {
    let rows = near.near_misses.iter().flat_map(|one| {
        let miss = &one.nearest;
        let signal = Signal::parse(&miss.signal);
        miss.holders.iter().map(move |held| {
            let pod = held.pod.escape_debug().to_string();
            vec![pod, miss.signal.clone(), used(signal, Some(held.usage))]
        })
    });
    let columns = [
        Column::name("POD", 9),
        Column::words("SIGNAL", 8),
        Column::figure("USAGE", 7),
    ];
    Table::new(columns, rows)
}

fn conditions(near: &NearReport) -> Table {
    let rows = near.conditions.iter().map(|one| {
        let share = one.seconds / near.observed_seconds.max(1.0) * 100.0;
        vec![
            one.condition.clone(),
            seconds(one.seconds),
            format!("{share:.1}%"),
        ]
    });
    let columns = [
        Column::words("CONDITION", 9),
        Column::figure("RAISED FOR", 8),
        Column::figure("OF THE TIME", 7),
    ];
    Table::new(columns, rows)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_command::View;
    use evictd_signals::near_misses::Kept;
    use jiff::Timestamp;
    use serde_json::json;

    fn report() -> NearReport {
        let began = "2026-11-20T10:00:00Z";
        let miss = |signal: &str, hard: bool, figures: [i64; 3]| {
            json!({
                "signal": signal, "hard": hard, "began": began, "lastSeen": "2026-11-20T10:04:30Z", "leastAt": began,
                "capacity": figures[0], "threshold": figures[1], "leastAvailable": figures[2],
                "holders": [{ "pod": "shop/cart-5d4f\u{1b}", "usage": "2Gi" }, { "pod": "shop/db", "usage": "900Mi" }],
            })
        };
        let kept = json!({
            "version": 1,
            "days": [{
                "begins": "2026-11-20T00:00:00Z", "observedSeconds": 86_400.0,
                "raisedSeconds": { "MemoryPressure": 864.0 }, "nearMisses": { "memory.available": 12 },
            }],
            "nearMisses": [miss("memory.available", true, [8 << 30, 100 << 20, 110 << 20])],
            "ongoing": [miss("memory.psi", false, [10_000, 8000, 8200])],
        });
        let kept: Kept = serde_json::from_value(kept).unwrap();
        let at = |time: &str| time.parse::<Timestamp>().unwrap();
        kept.report(at("2026-11-20T01:00:00Z"), at("2026-11-21T00:00:00Z"))
    }

    #[test]
    fn near_misses_and_times_are_shown_in_the_units_of_their_signals() {
        let near = report();
        assert_eq!(
            note(&near),
            "Observed for 1day of these days (UTC): thresholds were nearly met 13 times."
        );
        let page: Vec<String> = parts(&near)
            .iter()
            .map(|(heading, table)| format!("{heading}\n{}", table.shown(View::WHOLE)))
            .collect();
        let page = page.join("\n");
        for part in [
            "memory.available  12",
            "110Mi  100Mi (hard)",
            "shop/cart-5d4f\\u{1b}  memory.available    2Gi",
            "shop/db               memory.available  900Mi",
            "1, now too",
            "18%",
            "20% (soft)",
            "MemoryPressure     14m 24s         1.0%",
        ] {
            assert!(page.contains(part), "{part} in {page}");
        }
    }

    #[test]
    fn a_node_that_was_not_observed_is_not_called_calm() {
        let unknown = note(&NearReport::default());
        assert!(unknown.contains("not known"), "{unknown}");
        assert!(parts(&NearReport::default()).is_empty());
    }
}
