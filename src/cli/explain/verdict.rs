//! The first lines: who goes, and why that one.

use super::report::{Report, SignalState, ThresholdState};
use crate::cli::{evidence, table::amount};
use evictd_eviction::{Decision, duration};

/// Who goes next and why number one is number one, a few short lines.
pub(super) fn verdict(report: &Report) -> Vec<String> {
    let mut lines = if report.step.local_storage_eviction {
        over_own_limit(report)
    } else if let Some(decision) = &report.step.decision {
        decided(report, decision)
    } else if let Some((state, threshold)) = crossed(report) {
        waiting(state, threshold)
    } else {
        calm(report)
    };
    if let Some(line) = otherwise(report) {
        lines.push(line);
    }
    lines
}

fn over_own_limit(report: &Report) -> Vec<String> {
    let evicted = &report.step.evicted;
    let head = match evicted.as_slice() {
        [one] => format!("{} goes now, for a limit of its own:", one.pod),
        all => format!("{} pods go now, each for a limit of its own:", all.len()),
    };
    let each = evicted.iter().map(|eviction| {
        let (pod, message) = (&eviction.pod, eviction.message.trim_end());
        format!("  {pod}: {message}")
    });
    let after = "Pressure is looked at in the cycle after.".to_owned();
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
                format!("{pod} goes now, {grace}: {because}."),
                format!("Why this one: {}.", decision.why),
            ]
        }
        None => vec![format!(
            "Nobody goes, although {because}: {}.",
            decision.why
        )],
    };
    if let Some(reclaim) = evidence::reclaim(&report.step) {
        lines.push(format!("But {reclaim}; where that is enough, no pod goes."));
    }
    lines
}

/// The first threshold that is crossed and does not act.
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
        let grace = duration::to_string(lasting);
        format!("which acts once it has lasted {grace}")
    };
    vec![format!("Nobody goes yet: {crossing}, {when}.")]
}

fn calm(report: &Report) -> Vec<String> {
    let all = report.signals.iter().flat_map(|state| {
        let thresholds = state.thresholds.iter();
        thresholds.filter_map(move |threshold| Some((state, threshold, share(state, threshold)?)))
    });
    let nearest = all.min_by(|a, b| a.2.total_cmp(&b.2));
    let has_thresholds = report
        .signals
        .iter()
        .any(|state| !state.thresholds.is_empty());
    vec![match nearest {
        Some((state, threshold, _)) => {
            let signal = state.signal;
            let margin = amount(Some(signal), threshold.margin);
            format!(
                "Nothing is under pressure: nobody goes now. The nearest is {signal}, {margin} above its threshold."
            )
        }
        None if has_thresholds => {
            "Nobody goes: the summary tells nothing of the signals that have thresholds.".to_owned()
        }
        None => "No thresholds are configured: nobody ever goes for pressure.".to_owned(),
    }]
}

/// How much of the capacity lies above the threshold.
#[allow(clippy::cast_precision_loss, reason = "compared, never shown")]
fn share(state: &SignalState, threshold: &ThresholdState) -> Option<f64> {
    let capacity = state.observed?.capacity.max(1);
    Some(threshold.margin? as f64 / capacity as f64)
}

/// Who would go for what the pods are ranked for, where the lines above have not said so.
fn otherwise(report: &Report) -> Option<String> {
    let signal = report.ranked_for;
    let acting = report
        .step
        .decision
        .as_ref()
        .and_then(Decision::acting_signal);
    if acting == Some(signal) || (report.step.local_storage_eviction && !report.asked) {
        return None;
    }
    Some(match report.ranked.why() {
        Some(why) => format!("First to go for {signal}: {why}."),
        None => format!("For {signal} nobody could go."),
    })
}
