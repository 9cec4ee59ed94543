//! A report for people: as text and as a document for a browser.

use super::{Whole, near_misses};
use crate::cli::table::{amount, moment, or_dash, used};
use evictd_command::{Colour, Column, Table, View};
use evictd_decision::report::{Counts, Report, SignalReport};
use evictd_html::{Page, Tone};
use evictd_pod::Quantity;
use evictd_signals::{Signal, StarvedResource, human_bytes};

/// A heading and a table.
type Part = (&'static str, Table);

pub(super) fn page(whole: &Whole, view: View) -> String {
    let mut page = vec![view.paint(Colour::Strong, &view.sentence(&verdict(&whole.report)))];
    page.extend(notes(whole).iter().map(|note| view.sentence(note)));
    for (heading, table) in parts(whole) {
        let heading = view.paint(Colour::Strong, heading);
        page.push(format!("{heading}\n{}", table.shown(view)));
    }
    page.join("\n\n")
}

pub(super) fn html(whole: &Whole) -> Page {
    let report = &whole.report;
    let tone = match report.total.evicted + report.total.would_evict + report.total.failed {
        0 => Tone::Good,
        _ => Tone::Plain,
    };
    let mut page = Page::new("evictd report", tone, &verdict(report));
    let notes = notes(whole).into_iter().map(|note| (String::new(), note));
    page.section("In short", [evictd_html::Block::Facts(notes.collect())]);
    for (heading, table) in parts(whole) {
        page.section(heading, [table.into()]);
    }
    page
}

fn verdict(report: &Report) -> String {
    let (since, until) = (moment(report.since), moment(report.until));
    let counted = match counted(&report.total) {
        none if none.is_empty() && report.is_incomplete() => "no decision is known".to_owned(),
        none if none.is_empty() => "no decision was made".to_owned(),
        some => some,
    };
    format!("From {since} to {until}: {counted}.")
}

/// The counts that are not zero.
fn counted(counts: &Counts) -> String {
    let all = [
        (counts.evicted, "evicted"),
        (
            counts.would_evict,
            "would have been evicted (dry run or pause)",
        ),
        (counts.failed, "could not be terminated"),
        (counts.rejected, "rejected"),
        (counts.preempted, "preempted"),
        (
            counts.withheld,
            "times under a threshold without an eviction",
        ),
        (counts.reclaims, "reclaims of containers and images"),
    ];
    let some = all.into_iter().filter(|(count, _)| *count > 0);
    let some: Vec<String> = some
        .map(|(count, what)| format!("{count} {what}"))
        .collect();
    some.join(", ")
}

fn notes(whole: &Whole) -> Vec<String> {
    let report = &whole.report;
    let mut notes: Vec<String> = report.problem.iter().map(|it| format!("{it}.")).collect();
    if report.not_understood > 0 {
        let records = report.not_understood;
        notes.push(format!(
            "Records of another version are not counted: {records}."
        ));
    }
    if report.later > 0 {
        let later = report.later;
        notes.push(format!(
            "Decisions that are dated later than now are not counted: {later}. The clock was set back."
        ));
    }
    if let Some(oldest) = report.oldest.filter(|_| report.may_lack_some()) {
        notes.push(format!(
            "The oldest decision that is kept is of {}: earlier ones may have been dropped.",
            moment(oldest)
        ));
    }
    let kubelet = &report.kubelet;
    if kubelet.compared > 0 {
        notes.push(format!(
            "For the same figures a kubelet would have chosen the same pod in {} of {} evictions. Its own figures are up to 16 s older.",
            kubelet.same, kubelet.compared
        ));
    }
    notes.push(near_misses::note(&whole.near));
    notes
}

/// The tables that have rows.
fn parts(whole: &Whole) -> Vec<Part> {
    let report = &whole.report;
    let mut parts = Vec::new();
    if !report.signals.is_empty() {
        parts.push(("By signal", signals(report)));
    }
    if !report.owners.is_empty() {
        parts.push(("By owner", owners(report)));
    }
    parts.extend(near_misses::parts(&whole.near));
    if !report.kubelet.different.is_empty() {
        parts.push((
            "Where a kubelet would have chosen another pod",
            kubelets(report),
        ));
    }
    if !report.above_request.is_empty() {
        parts.push((
            "Pods above their request at decisions (a request of P99 would have held them)",
            pods(report),
        ));
    }
    parts
}

fn signals(report: &Report) -> Table {
    let rows = report.signals.iter().map(|one| {
        let seconds = |value: Option<f64>| or_dash(value.map(|value| format!("{value:.2} s")));
        vec![
            one.signal.clone(),
            counted(&one.counts),
            least(one),
            seconds(one.median_reaction_seconds),
            seconds(one.longest_reaction_seconds),
        ]
    });
    let columns = [
        Column::words("SIGNAL", 9),
        Column::sentence("DECISIONS", 8),
        Column::figure("LEAST LEFT", 5),
        Column::figure("MEDIAN REACTION", 3),
        Column::figure("LONGEST", 2),
    ];
    Table::new(columns, rows)
}

fn least(one: &SignalReport) -> String {
    let signal = Signal::parse(&one.signal);
    let left = amount(signal, one.least_available);
    match one.capacity {
        Some(capacity) => format!("{left} of {}", amount(signal, Some(capacity))),
        None => left,
    }
}

fn owners(report: &Report) -> Table {
    let rows = report.owners.iter().map(|one| {
        let signals: Vec<&str> = one.signals.iter().map(String::as_str).collect();
        vec![
            one.owner.clone(),
            counted(&one.counts),
            signals.join(", "),
            moment(one.last),
            one.last_id.clone(),
        ]
    });
    let columns = [
        Column::name("OWNER", 9),
        Column::sentence("DECISIONS", 8),
        Column::sentence("SIGNALS", 3),
        Column::words("LAST", 4),
        Column::words("ID", 7),
    ];
    Table::new(columns, rows)
}

fn kubelets(report: &Report) -> Table {
    let rows = report.kubelet.different.iter().map(|one| {
        vec![
            one.id.clone(),
            one.pod.clone(),
            one.kubelet.clone(),
            used(None, one.gain),
        ]
    });
    let columns = [
        Column::words("ID", 2),
        Column::name("EVICTED", 8),
        Column::name("KUBELET", 9),
        Column::figure("WOULD FREE", 3),
    ];
    Table::new(columns, rows)
}

fn pods(report: &Report) -> Table {
    let rows = report.above_request.iter().map(|one| {
        let shown = |value: Quantity| match one.resource {
            StarvedResource::Memory | StarvedResource::EphemeralStorage => {
                human_bytes(value.value())
            }
            _ => value.to_string(),
        };
        vec![
            one.pod.clone(),
            one.resource.as_str().to_owned(),
            format!("{} of {}", one.above, one.decisions),
            shown(one.request),
            shown(one.p50),
            shown(one.p99),
        ]
    });
    let columns = [
        Column::name("POD", 9),
        Column::words("RESOURCE", 5),
        Column::figure("ABOVE", 3),
        Column::figure("REQUEST", 7),
        Column::figure("P50", 4),
        Column::figure("P99", 8),
    ];
    Table::new(columns, rows)
}
