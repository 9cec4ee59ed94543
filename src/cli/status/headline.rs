//! The first line of the status: whether anything is wrong.

use crate::cli::{
    evidence,
    table::{amount, moment},
};
use evictd_command::Colour;
use evictd_node::status::{SignalStatus, Status, ThresholdStatus};
use evictd_signals::{
    Observation, Signal,
    pressure::{self, WHOLE},
};

/// Whether the headline is about something that is short, exhausted or not observed.
pub(in crate::cli) fn is_alarming(status: &Status) -> bool {
    urgency(status) == Colour::Bad
}

/// The colour of the headline.
pub(super) fn urgency(status: &Status) -> Colour {
    let mut thresholds = status.signals.iter().flat_map(|signal| &signal.thresholds);
    let raised = status.conditions.iter().any(|condition| condition.raised);
    if thresholds.any(|threshold| threshold.met)
        || status.signals.iter().any(SignalStatus::is_blind)
        || !exhausted(status).is_empty()
    {
        Colour::Bad
    } else if raised {
        Colour::Warning
    } else {
        Colour::Good
    }
}

/// One sentence: whether anything is wrong.
pub(in crate::cli) fn headline(status: &Status) -> String {
    let crossed: Vec<String> = met(status)
        .map(|(signal, one)| crossed(signal, one))
        .collect();
    if !crossed.is_empty() {
        let held = met(status).all(|(_, threshold)| threshold.held_until.is_some());
        let state = if held { "HELD" } else { "UNDER PRESSURE" };
        return format!("{state}: {}.", crossed.join("; "));
    }
    let exhausted = evidence::exhausted(&exhausted(status));
    let raised: Vec<&str> = status
        .conditions
        .iter()
        .filter(|condition| condition.raised)
        .map(|condition| condition.condition.as_str())
        .collect();
    let still = match raised.as_slice() {
        [] => String::new(),
        raised => format!("; {} is still raised", raised.join(", ")),
    };
    let blind = status.signals.iter().filter(|signal| signal.is_blind());
    let blind: Vec<&str> = blind.map(|signal| signal.signal.as_str()).collect();
    if let Some(exhausted) = exhausted {
        return format!("{exhausted}{still}.");
    }
    match (blind.as_slice(), raised.is_empty()) {
        ([], true) => "Calm: no signal is below a threshold.".to_owned(),
        ([], false) => format!("Recovering: no signal is below a threshold{still}."),
        ([one], _) => format!("{one} is not observed: nothing is evicted for it{still}."),
        (several, _) => format!(
            "{} are not observed: nothing is evicted for them{still}.",
            several.join(", ")
        ),
    }
}

/// The thresholds that are met, with their signals.
fn met(status: &Status) -> impl Iterator<Item = (&SignalStatus, &ThresholdStatus)> {
    let pairs = status.signals.iter().flat_map(|signal| {
        let thresholds = signal.thresholds.iter();
        thresholds.map(move |threshold| (signal, threshold))
    });
    pairs.filter(|(_, threshold)| threshold.met)
}

/// Signals without a threshold that are practically exhausted.
fn exhausted(status: &Status) -> Vec<(Signal, Observation)> {
    let unwatched = status
        .signals
        .iter()
        .filter(|one| one.thresholds.is_empty());
    let observed = unwatched.filter_map(|one| {
        let observed = Observation {
            available: one.available?,
            capacity: one.capacity?,
            time: one.time,
        };
        Some((one.signal, observed))
    });
    let exhausted = observed.filter(|(signal, seen)| evidence::is_exhausted(*signal, seen));
    exhausted.collect()
}

fn crossed(signal: &SignalStatus, threshold: &ThresholdStatus) -> String {
    let since = threshold
        .since
        .map(|since| format!(" since {}", moment(since)))
        .unwrap_or_default();
    if let Some(available) = threshold.available.filter(|_| signal.signal.is_pressure()) {
        let stalled = pressure::percent(WHOLE - available);
        let (signal, kind, configured) = (signal.signal, &threshold.kind, &threshold.configured);
        if let Some(until) = threshold.held_until {
            let until = pressure::percent(WHOLE - until);
            return format!(
                "{signal} is {stalled}, within the {kind} threshold of {configured}, held until {until} by the minimum reclaim{since}"
            );
        }
        return format!("{signal} is {stalled}, the {kind} threshold is {configured}{since}");
    }
    let shown = |figure| amount(Some(signal.signal), figure);
    let (name, kind) = (signal.signal, &threshold.kind);
    let (available, value) = (shown(signal.available), shown(Some(threshold.value)));
    match threshold.held_until {
        None => format!("{name} is {available}, below the {kind} threshold of {value}{since}"),
        Some(_) => format!(
            "{name} is {available}, above its {kind} threshold of {value}, held until {} by the minimum reclaim{since}",
            shown(threshold.held_until)
        ),
    }
}
