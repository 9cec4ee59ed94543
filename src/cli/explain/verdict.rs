//! The first lines: which pod is evicted next, and why.

use super::report::{ChosenBy, Report, SignalState, ThresholdState};
use crate::cli::{evidence, table::amount};
use evictd_command::{Colour, View};
use evictd_decision::Decision;
use evictd_pod::duration;
use evictd_signals::Observation;

/// The next victim, and why the first pod ranks first, in a few short lines.
pub(super) fn verdict(report: &Report, view: View) -> Vec<String> {
    let (colour, lines) = sentences(report);
    let lines = lines.iter().enumerate().map(|(index, line)| {
        let indent = if line.starts_with("  ") { "  " } else { "" };
        let line = view.hanging(indent, line.trim_start());
        match index {
            0 => view.paint(colour, &line),
            _ => line,
        }
    });
    lines.collect()
}

/// The same as sentences. The colour is that of the first.
pub(super) fn sentences(report: &Report) -> (Colour, Vec<String>) {
    let (mut colour, mut lines) = if report.step.local_storage_eviction {
        (Colour::Bad, over_own_limit(report))
    } else if let Some(decision) = &report.step.decision {
        (Colour::Bad, decided(report, decision))
    } else if let Some((state, threshold)) = crossed(report) {
        (Colour::Warning, waiting(state, threshold))
    } else if report.has_thresholds() {
        (Colour::Good, calm(report))
    } else {
        (Colour::Warning, vec![OFF.to_owned()])
    };
    let exhausted = evidence::exhausted(&report.exhausted());
    let is_calm = !matches!(colour, Colour::Bad);
    match exhausted {
        // A calm first line would be all that is read.
        Some(exhausted) if is_calm => {
            colour = Colour::Bad;
            lines.insert(0, format!("{exhausted}."));
            if let Some(calm) = lines.get_mut(1) {
                *calm = calm.replacen(
                    "Nothing is under pressure",
                    "Nothing else is under pressure",
                    1,
                );
            }
        }
        Some(exhausted) => lines.push(format!("{exhausted}.")),
        None => {}
    }
    lines.extend(unmeasured(report));
    let over_limit = report.step.over_own_limit.iter();
    lines.extend(over_limit.map(|sentence| format!("{sentence}.")));
    lines.extend(otherwise(report));
    (colour, lines)
}

const OFF: &str = "Eviction is off: no signal has a threshold, so no pod is evicted, whatever this node runs out of.";

fn over_own_limit(report: &Report) -> Vec<String> {
    let evicted = &report.step.evicted;
    let head = match evicted.as_slice() {
        [one] => format!(
            "{} is evicted now, because it exceeds a storage limit of its own:",
            one.pod
        ),
        all => format!(
            "{} pods are evicted now, because each exceeds a storage limit of its own:",
            all.len()
        ),
    };
    let each = evicted.iter().map(|eviction| {
        let (pod, message) = (&eviction.pod, eviction.message.trim_end());
        format!("  {pod}: {message}")
    });
    let after = "Node pressure is checked in the next cycle.".to_owned();
    std::iter::once(head).chain(each).chain([after]).collect()
}

fn decided(report: &Report, decision: &Decision) -> Vec<String> {
    let because = decision.threshold.as_ref().map_or(String::new(), |acting| {
        evidence::crossing(&acting.threshold, Some(&acting.observed))
    });
    let mut lines = match &decision.eviction {
        Some(eviction) => {
            let (pod, grace) = (&eviction.pod, evidence::grace(eviction));
            vec![
                format!("{pod} is evicted now, {grace}: {because}."),
                format!("Why this one: {}.", decision.why),
            ]
        }
        None => vec![format!(
            "No pod is evicted, although {because}: {}.",
            decision.why
        )],
    };
    if let Some(reclaim) = evidence::reclaim(&report.step) {
        lines.push(format!(
            "But {reclaim}; if that is enough, no pod is evicted."
        ));
    }
    lines
}

/// The first threshold that is crossed but does not act.
fn crossed(report: &Report) -> Option<(&SignalState, &ThresholdState)> {
    let all = report.signals.iter().flat_map(|state| {
        let thresholds = state.thresholds.iter();
        thresholds.map(move |threshold| (state, threshold))
    });
    let mut crossed = all.filter(|(_, threshold)| threshold.crossed);
    crossed.next()
}

fn waiting(state: &SignalState, waiting: &ThresholdState) -> Vec<String> {
    let crossing = evidence::crossing(&waiting.threshold, state.observed.as_ref());
    let lasting = waiting.threshold.acts_after();
    let when = if lasting.is_zero() {
        "which acts from the next cycle on".to_owned()
    } else {
        let grace = duration::format(lasting);
        format!("which acts once it has lasted {grace}")
    };
    vec![format!("No pod is evicted yet: {crossing}, {when}.")]
}

fn calm(report: &Report) -> Vec<String> {
    let all = report.signals.iter().flat_map(|state| {
        let thresholds = state.thresholds.iter();
        thresholds.filter_map(move |threshold| Some((state, threshold, share(state, threshold)?)))
    });
    let nearest = all.min_by(|a, b| a.2.total_cmp(&b.2));
    vec![match nearest {
        Some((state, threshold, _)) => {
            let signal = state.signal;
            let margin = amount(Some(signal), threshold.margin);
            format!(
                "Nothing is under pressure: no pod is evicted now. The nearest is {signal}, {margin} above its threshold."
            )
        }
        None => {
            "No pod is evicted: the summary has no figures of the signals that have thresholds."
                .to_owned()
        }
    }]
}

/// Signals with thresholds that were reported with a capacity of 0, so that a calm first line is not about them.
fn unmeasured(report: &Report) -> Option<String> {
    let states = report.signals.iter();
    let blind = states.filter(|state| {
        let mut thresholds = state.thresholds.iter();
        state.unmeasured && thresholds.all(|threshold| !threshold.crossed)
    });
    let blind = blind.filter(|state| !state.thresholds.is_empty());
    let blind: Vec<&str> = blind.map(|state| state.signal.as_str()).collect();
    (!blind.is_empty()).then(|| {
        format!(
            "Not measured, so that no pod is evicted for it: {} (the summary says that its capacity is 0).",
            blind.join(", ")
        )
    })
}

/// The part of the capacity that is available above the threshold.
#[allow(clippy::cast_precision_loss, reason = "compared, never shown")]
fn share(state: &SignalState, threshold: &ThresholdState) -> Option<f64> {
    let capacity = state.observed.filter(Observation::is_measured)?.capacity;
    Some(threshold.margin? as f64 / capacity as f64)
}

/// Which pod would be evicted for the ranked signal, if the lines above did not say so.
fn otherwise(report: &Report) -> Option<String> {
    let signal = report.ranked_for;
    let acting = report
        .step
        .decision
        .as_ref()
        .and_then(Decision::acting_signal);
    let asked = report.chosen_by == ChosenBy::Asked;
    let idle = report.step.local_storage_eviction || !report.has_thresholds();
    if acting == Some(signal) || (idle && !asked) {
        return None;
    }
    Some(match report.ranked.why() {
        Some(why) => format!("First victim for {signal}: {why}."),
        None => format!("For {signal} no pod could be evicted."),
    })
}
