//! Past evictions as documents for a browser.

use super::{contents, facts, failed, moment, ranking, table, words};
use evictd_decision::record::{Ended, Outcome, Record};
use evictd_html::{Block, Column, Page, Table, Tone};

/// All decisions that are kept.
pub(super) fn html_of_all(all: &[Record], problem: Option<&str>) -> Page {
    let (tone, verdict) = match (problem, all.len()) {
        (Some(problem), _) => (Tone::Warning, problem.to_owned()),
        (None, 0) => (Tone::Good, "Nothing was ever evicted.".to_owned()),
        (None, 1) => (Tone::Plain, "1 decision is kept.".to_owned()),
        (None, count) => (Tone::Plain, format!("{count} decisions are kept.")),
    };
    let mut page = Page::new("evictd history", tone, &verdict);
    page.section("Decisions, the oldest first", [table(all).into()]);
    page
}

/// One decision with all its evidence.
pub(super) fn html(record: &Record) -> Page {
    let tone = if failed(record) {
        Tone::Warning
    } else {
        Tone::Plain
    };
    let verdict = format!("{}: {}", moment(record.time), words(record));
    let mut page = Page::new(&format!("evictd history {}", record.id), tone, &verdict);
    let ended = record.outcome.as_ref().and_then(Outcome::ended);
    let facts = facts(record).into_iter();
    let facts =
        facts.filter(|(heading, _)| !["DECISION", "TIME", "MESSAGE", "REACTION"].contains(heading));
    let facts = facts.map(|(heading, value)| (evictd_command::capitalized(heading), value));
    page.section("What happened", [Block::Facts(facts.collect())]);
    page.section("Each moment", [moments(ended)]);
    for (heading, table) in contents::tables(record) {
        page.section(heading, [table.into()]);
    }
    page.section(
        "Pods in the order of eviction",
        [ranking::recorded(record).into()],
    );
    page
}

/// Milliseconds from the first observation past the threshold, as far as each moment is known.
fn moments(ended: Option<&Ended>) -> Block {
    let decided = ended.and_then(|ended| ended.crossed_to_decided_seconds);
    let after = |seconds: Option<f64>| Some(decided? + seconds?);
    let moments = [
        ("the threshold was crossed", decided.map(|_| 0.0)),
        ("the victim was chosen", decided),
        (
            "the first signal was sent",
            after(ended.and_then(|ended| ended.first_signal_seconds)),
        ),
        (
            "the last process was gone",
            after(ended.and_then(|ended| ended.last_process_gone_seconds)),
        ),
    ];
    let known = moments.into_iter().filter_map(|(moment, seconds)| {
        let milliseconds = format!("{:.1}", seconds? * 1000.0);
        Some(vec![milliseconds.into(), moment.into()])
    });
    let columns = [Column::figure("ms"), Column::text("Moment")];
    Block::Table(Table::new(columns, known.collect::<Vec<_>>()))
}
