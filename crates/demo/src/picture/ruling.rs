//! The decision: the ranking, the reason, and how long each step took.

use super::{BAD, FAINT, GOOD, SPECIAL, STRONG, WARNING, amount, millis};
use crate::scene::{Act, Scene};
use evictd_decision::{
    Excess, RankedPod, Spared,
    record::{Ended, Outcome},
};
use evictd_signals::StarvedResource;
use ratatui::{
    style::Style,
    text::{Line, Span},
};
use std::time::Duration;

/// Lines reserved for the sentence that explains the decision.
pub(super) const SENTENCE: u16 = 2;

pub(super) fn lines(scene: &Scene, width: usize) -> Vec<Line<'static>> {
    let resource = scene.resource();
    let heading = format!(
        "{:<3}{:<12}{:<8}{:>10} {:>8}  {:<rest$}",
        "#",
        "POD",
        "EXCEEDS",
        "PRIORITY",
        "OVERAGE",
        "BECAUSE",
        rest = width.saturating_sub(43),
    );
    let mut lines = vec![Line::styled(heading, FAINT.underlined())];
    let Some(act) = scene.act() else {
        lines.push(waiting(scene));
        // The space is reserved, so that the layout does not change when the decision comes.
        lines.resize(scene.pods.len() + 1, Line::default());
        return lines;
    };
    let ranked = &act.decision.ranked;
    for (index, pod) in ranked.iter().enumerate() {
        lines.push(place(act, pod, ranked.get(index + 1), index + 1, resource));
    }
    lines
}

/// The sentence that explains the decision.
pub(super) fn why(scene: &Scene) -> Line<'static> {
    let Some(act) = scene.act() else {
        return Line::default();
    };
    Line::from(vec![
        Span::styled("why ", STRONG),
        Span::raw(act.decision.why.clone()),
    ])
}

/// The result of the scenario.
pub(super) fn verdict(scene: &Scene) -> Line<'static> {
    match &scene.verdict {
        None => Line::default(),
        Some((true, verdict)) => Line::styled(format!("✔ {verdict}"), GOOD.bold()),
        Some((false, verdict)) => Line::styled(format!("✘ {verdict}"), BAD),
    }
}

/// The reason why the decision waits.
fn waiting(scene: &Scene) -> Line<'static> {
    let crossed = scene.signals.iter().flat_map(|signal| &signal.marks);
    let left = crossed
        .filter_map(|mark| {
            let since = mark.crossed_since?;
            let below = scene.now.duration_since(since).unsigned_abs();
            Some((below, mark.grace.checked_sub(below)?))
        })
        .min_by_key(|(_, left)| *left);
    match left {
        Some((below, left)) => Line::styled(
            format!(
                "below its threshold for {:.1} s; acts in {:.1} s",
                below.as_secs_f64(),
                left.as_secs_f64()
            ),
            WARNING,
        ),
        None => Line::styled("none: every signal is above its thresholds", GOOD),
    }
}

fn place(
    act: &Act,
    pod: &RankedPod,
    next: Option<&RankedPod>,
    rank: usize,
    resource: StarvedResource,
) -> Line<'static> {
    let is_evicted = act
        .decision
        .eviction
        .as_ref()
        .is_some_and(|eviction| eviction.index == pod.index);
    let exceeds = match pod.excess {
        Excess::Exceeds => "yes",
        Excess::Within | Excess::NoGain => "no",
        Excess::UnknownFirst | Excess::UnknownLast => "?",
    };
    let overage = pod
        .overage
        .map_or("-".to_owned(), |overage| amount(resource, overage.value()));
    let name = pod.pod.rsplit('/').next().unwrap_or_default();
    let keys = format!(
        "{rank:<3}{name:<12}{exceeds:<8}{:>10} {overage:>8}  ",
        pod.priority
    );
    let (because, style) = match (pod.spared, next) {
        (Some(Spared::Critical(_)), _) => ("spared: critical".to_owned(), SPECIAL.bold()),
        (Some(spared), _) => (format!("spared: {spared}"), SPECIAL),
        (None, Some(next)) if is_evicted => {
            (format!("EVICTED: {}", pod.because(next, resource)), BAD)
        }
        (None, None) if is_evicted => ("EVICTED".to_owned(), BAD),
        (None, _) => (String::new(), FAINT),
    };
    let keys = Span::styled(keys, if is_evicted { BAD } else { Style::new() });
    Line::from(vec![keys, Span::styled(because, style)])
}

/// The times from the crossing to the exit of the last process, in milliseconds.
pub(super) fn times(scene: &Scene) -> Line<'static> {
    let Some(act) = scene.act() else {
        return Line::default();
    };
    let outcome = act.record.outcome.as_ref();
    let ended: Ended = outcome
        .and_then(Outcome::ended)
        .cloned()
        .unwrap_or_default();
    let seconds = |seconds: Option<f64>| Duration::try_from_secs_f64(seconds?).ok();
    let waited = act.decision.threshold.as_ref().map(|acting| {
        let since = act.decision.time.duration_since(acting.first_observed_at);
        since.unsigned_abs()
    });
    let waited = waited.unwrap_or_default();
    let mut spans = Vec::new();
    let mut stop = |label: &str, at: Option<Duration>, style: Style| {
        let Some(at) = at else { return };
        if !spans.is_empty() {
            spans.push(Span::styled(" ─▶ ", FAINT));
        }
        spans.push(Span::raw(format!("{label} ")));
        spans.push(Span::styled(millis(at), style.bold()));
    };
    let clear =
        seconds(ended.reaction_from_last_clear_look_seconds).zip(seconds(ended.reaction_seconds));
    let clear = clear.map(|(clear, reaction)| clear.saturating_sub(reaction));
    let base = clear.unwrap_or_default();
    stop("clear", clear.map(|_| Duration::ZERO), GOOD);
    stop("crossed", Some(base), WARNING);
    if !waited.is_zero() {
        stop("decided", Some(base + waited), Style::new());
    }
    let first = if ended.killed_seconds == ended.first_signal_seconds {
        "SIGKILL"
    } else {
        "SIGTERM"
    };
    let after = |step| seconds(step).map(|seconds| base + waited + seconds);
    stop(first, after(ended.first_signal_seconds), Style::new());
    stop("gone", after(ended.last_process_gone_seconds), BAD);
    spans.push(Span::raw(" ms"));
    Line::from(spans)
}
