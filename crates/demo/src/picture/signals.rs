//! The available amount of every observed signal, compared with its thresholds.

use super::{BAD, FAINT, GOOD, WARNING, amount, bar, eighths};
use crate::scene::{Mark, Scene, SignalLine};
use ratatui::{
    style::Style,
    text::{Line, Span},
};

const CROSSED: &str = " CROSSED";
/// Width of `1023Mi of 1023Mi`.
const FIGURES: usize = 16;

pub(super) fn lines(scene: &Scene, width: usize) -> Vec<Line<'static>> {
    let names = scene.signals.iter().map(|line| line.signal.as_str().len());
    let name = names.max().unwrap_or(0) + 1;
    scene
        .signals
        .iter()
        .map(|signal| line(signal, name, width))
        .collect()
}

fn line(signal: &SignalLine, name: usize, width: usize) -> Line<'static> {
    let show = |value| amount(signal.signal.resource(), value);
    let thresholds = thresholds(signal, show);
    let written: usize = thresholds.iter().map(Span::width).sum();
    // Space for the word "crossed" is reserved, so that the layout does not change.
    let word = if crossed(&signal.marks).next().is_some() {
        0
    } else {
        CROSSED.len()
    };
    let cells = width.saturating_sub(name + FIGURES + written + word + 2);
    let figures = format!("{} of {}", show(signal.available), show(signal.capacity));
    let style = style(&signal.marks);
    let marks: Vec<usize> = signal
        .marks
        .iter()
        .map(|mark| eighths(mark.value, signal.capacity, cells) / 8)
        .collect();
    let filled = eighths(signal.available, signal.capacity, cells);
    let mut spans = vec![Span::raw(format!("{:name$}", signal.signal.as_str()))];
    spans.extend(bar(filled, ("━", style), cells, &marks, ("─", FAINT)));
    spans.push(Span::styled(format!(" {figures:>FIGURES$} "), style));
    spans.extend(thresholds);
    Line::from(spans)
}

/// Red below a hard threshold, yellow below a soft one.
fn style(marks: &[Mark]) -> Style {
    if crossed(marks).any(|mark| mark.grace.is_zero()) {
        BAD
    } else if crossed(marks).next().is_some() {
        WARNING.bold()
    } else {
        GOOD
    }
}

fn crossed(marks: &[Mark]) -> impl Iterator<Item = &Mark> {
    marks.iter().filter(|mark| mark.crossed_since.is_some())
}

fn thresholds(signal: &SignalLine, show: impl Fn(i64) -> String) -> Vec<Span<'static>> {
    let mut marks: Vec<&Mark> = signal.marks.iter().collect();
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.value));
    let mut spans = Vec::new();
    for mark in marks {
        let kind = if mark.grace.is_zero() { "hard" } else { "soft" };
        spans.push(Span::styled(format!(" {kind} {}", show(mark.value)), FAINT));
        if mark.crossed_since.is_some() {
            let style = style(std::slice::from_ref(mark));
            spans.push(Span::styled(CROSSED, style));
        }
    }
    spans
}
