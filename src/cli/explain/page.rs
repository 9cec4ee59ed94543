//! The page for people: first the verdict, then the signals, then the ranked pods.

use super::{
    freed,
    report::{ChosenBy, Report, SignalState, ThresholdState},
    taints, verdict,
};
use crate::cli::{evidence, ranking, table::amount};
use evictd_command::{Colour, Column, Row, Table, View};
use evictd_decision::Decision;
use evictd_pod::duration;
use evictd_signals::{Observation, Signal};

/// How many ranked pods are shown.
const SHOWN: usize = 20;

/// The whole page.
pub(super) fn page(report: &Report, view: View) -> String {
    let mut parts = vec![
        verdict::verdict(report, view).join("\n"),
        warnings(report, view),
        signals(report, view),
        pods(report, view),
    ];
    if let Some(freed) = freed::page(&report.freed, view) {
        parts.push(freed);
    }
    if let Some(node) = &report.node {
        parts.push(taints::page(node, view));
    }
    let headings = std::iter::once("Assumed: ").chain(std::iter::repeat("         "));
    let assumed = report.assumed.iter().zip(headings);
    let assumed: Vec<String> = assumed
        .map(|(assumed, heading)| view.hanging(heading, assumed))
        .collect();
    parts.push(assumed.join("\n"));
    parts.retain(|part| !part.is_empty());
    parts.join("\n\n")
}

/// Where the Node's own conditions contradict these figures.
fn warnings(report: &Report, view: View) -> String {
    let warnings = report.node.iter().flat_map(|node| &node.warnings);
    let warnings = warnings.map(|warning| view.paint(Colour::Warning, &view.sentence(warning)));
    warnings.collect::<Vec<_>>().join("\n")
}

fn pods(report: &Report, view: View) -> String {
    let signal = report.ranked_for;
    if report.ranked.pods.is_empty() {
        return "There are no pods.".to_owned();
    }
    let because = match report.chosen_by {
        ChosenBy::Asked => "as --signal asks",
        ChosenBy::Acting => "whose threshold acts now",
        ChosenBy::Crossed => "whose threshold is crossed",
        ChosenBy::Calm if !report.has_thresholds() => {
            return view.sentence("Pods are not ranked, because no signal has a threshold; --signal SIGNAL ranks them for a signal.");
        }
        ChosenBy::Calm => "because no threshold is crossed (--signal SIGNAL ranks for another)",
    };
    let head = view.sentence(&format!(
        "Pods in the order of eviction for {signal}, {because}:"
    ));
    let ranking = ranking::first(SHOWN, &report.ranked.pods, signal, view);
    let outside = outside(report).map(|words| format!("\n{}", view.sentence(&words)));
    format!("{head}\n{ranking}{}", outside.unwrap_or_default())
}

/// The use that belongs to no pod, of the ranked signal.
pub(super) fn outside(report: &Report) -> Option<String> {
    let mut states = report.signals.iter();
    let state = states.find(|state| state.signal == report.ranked_for)?;
    Some(state.shares.as_ref()?.in_no_pod_words())
}

/// The signals with a threshold.
pub(super) fn watched(report: &Report) -> Table {
    let columns = [
        Column::words("SIGNAL", 7),
        Column::figure("AVAILABLE", 5),
        Column::figure("OF", 3),
        Column::words("THRESHOLD", 4),
        Column::words("KIND", 1),
        Column::sentence("STATE", 6),
        Column::name("FIRST VICTIM", 2),
    ];
    let acting = report
        .step
        .decision
        .as_ref()
        .and_then(Decision::acting_signal);
    let watched = report.signals.iter().flat_map(|state| {
        let thresholds = state.thresholds.iter();
        thresholds.map(move |threshold| {
            Row::from(row(state, threshold, acting))
                .coloured(threshold.crossed.then_some(Colour::Bad))
        })
    });
    let watched: Vec<Row> = watched.collect();
    Table::new(columns, watched)
}

fn signals(report: &Report, view: View) -> String {
    if !report.has_thresholds() {
        return left(report).shown(view);
    }
    let mut parts = vec![watched(report).shown(view)];
    let unwatched: Vec<String> = report.signals.iter().filter_map(unwatched).collect();
    if !unwatched.is_empty() {
        parts.push(view.hanging("Without a threshold: ", &unwatched.join(", ")));
    }
    let held = conditions(report);
    if !held.is_empty() {
        parts.push(view.hanging("Node conditions set: ", &held.join(", ")));
    }
    parts.join("\n")
}

/// The node conditions that are set.
pub(super) fn conditions(report: &Report) -> Vec<&str> {
    let held = report.step.node_conditions.iter();
    held.map(|held| held.as_str()).collect()
}

/// The available amount of every signal, if none has a threshold.
pub(super) fn left(report: &Report) -> Table {
    let rows = report.signals.iter().filter_map(|state| {
        let observed = state.observed?;
        let shown = |figure: i64| amount(Some(state.signal), Some(figure));
        let figures = [observed.available, observed.capacity].map(shown);
        let [available, capacity] = figures;
        Some(vec![state.signal.to_string(), available, capacity])
    });
    let columns = [
        Column::words("SIGNAL", 3),
        Column::figure("AVAILABLE", 2),
        Column::figure("OF", 1),
    ];
    Table::new(columns, rows)
}

/// `pid.available (32551 of 32768 left)`
pub(super) fn unwatched(state: &SignalState) -> Option<String> {
    let observed = state.observed.filter(|_| state.thresholds.is_empty())?;
    if state.unmeasured {
        return Some(format!(
            "{} (not measured: its capacity is 0)",
            state.signal
        ));
    }
    let shown = |figure: i64| amount(Some(state.signal), Some(figure));
    let (available, capacity) = (shown(observed.available), shown(observed.capacity));
    Some(format!("{} ({available} of {capacity} left)", state.signal))
}

fn row(state: &SignalState, threshold: &ThresholdState, acting: Option<Signal>) -> Vec<String> {
    let signal = state.signal;
    let observed = state.observed.filter(Observation::is_measured);
    let shown = |figure: Option<i64>| amount(Some(signal), figure);
    vec![
        signal.to_string(),
        shown(observed.map(|observed| observed.available)),
        shown(observed.map(|observed| observed.capacity)),
        evidence::limit(&threshold.threshold, observed.as_ref()),
        kind(threshold),
        standing(state, threshold, acting),
        state.next.clone().unwrap_or_else(|| "nobody".to_owned()),
    ]
}

fn kind(threshold: &ThresholdState) -> String {
    if threshold.threshold.is_hard() {
        "hard".to_owned()
    } else {
        let grace = duration::format(threshold.threshold.grace_period);
        format!("soft, {grace}")
    }
}

/// The state of this threshold; only one signal acts per cycle, the others wait.
fn standing(state: &SignalState, threshold: &ThresholdState, acting: Option<Signal>) -> String {
    let signal = state.signal;
    match threshold.margin {
        _ if state.unmeasured && !threshold.crossed => "not measured: its capacity is 0".to_owned(),
        None => "not in the summary".to_owned(),
        Some(_) if threshold.acts && acting == Some(signal) => "MET, acts now".to_owned(),
        Some(_) if threshold.acts => "MET, acts in a later cycle".to_owned(),
        Some(_) if threshold.crossed && threshold.threshold.is_hard() => {
            "MET, acts from the next cycle on".to_owned()
        }
        Some(_) if threshold.crossed => {
            let grace = duration::format(threshold.threshold.grace_period);
            format!("MET, would act after {grace}")
        }
        Some(margin) => format!("{} above it", amount(Some(signal), Some(margin))),
    }
}
