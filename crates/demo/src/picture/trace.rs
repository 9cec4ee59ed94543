//! The available amount over time, with the thresholds and the time of the eviction.

use super::{BAD, CALM, FAINT, SPECIAL, WARNING, amount, eighths};
use crate::scene::{Scene, SignalLine};
use jiff::{SignedDuration, Timestamp};
use ratatui::{
    style::Style,
    text::{Line, Span},
};

/// Width of the figures on the left.
const GUTTER: usize = 7;
/// The shortest time span of the whole width.
const SHORTEST: SignedDuration = SignedDuration::from_secs(2);
/// A cell that is filled from below, in eighths.
const LOWER_EIGHTHS: [&str; 9] = [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];

/// As many lines as fit; the last one is the time axis.
pub(super) fn lines(scene: &Scene, (width, height): (usize, usize)) -> Vec<Line<'static>> {
    let watched = scene.signals.iter().find(|it| it.signal == scene.signal());
    let (Some(signal), Some(rows)) = (watched, height.checked_sub(1).filter(|rows| *rows > 0))
    else {
        return Vec::new();
    };
    let time = TimeAxis::new(scene, width.saturating_sub(GUTTER));
    let columns = columns(scene, &time);
    let mut lines: Vec<Line<'static>> = (0..rows)
        .rev()
        .map(|row| level(signal, &columns, row, rows))
        .collect();
    lines.push(axis(scene, &time));
    lines
}

/// Maps times to columns.
struct TimeAxis {
    started: Timestamp,
    span: SignedDuration,
    columns: usize,
}

impl TimeAxis {
    fn new(scene: &Scene, columns: usize) -> Self {
        let span = scene.now.duration_since(scene.started).max(SHORTEST);
        Self {
            started: scene.started,
            span,
            columns,
        }
    }

    fn column(&self, time: Timestamp) -> usize {
        let since = time.duration_since(self.started).as_millis().max(0);
        let columns = i128::try_from(self.columns).unwrap_or(0);
        let column = since * columns / self.span.as_millis().max(1);
        usize::try_from(column)
            .unwrap_or(0)
            .min(self.columns.saturating_sub(1))
    }
}

/// The smallest value in each column; a column without an observation repeats the previous one.
fn columns(scene: &Scene, time: &TimeAxis) -> Vec<Option<i64>> {
    let mut columns: Vec<Option<i64>> = vec![None; time.columns];
    for (at, available) in &scene.trace {
        if let Some(column) = columns.get_mut(time.column(*at)) {
            *column = Some(column.map_or(*available, |least| least.min(*available)));
        }
    }
    let mut last = None;
    for column in columns.iter_mut().take(time.column(scene.now) + 1) {
        *column = column.or(last);
        last = *column;
    }
    columns
}

/// One row of the graph, counted from the bottom.
fn level(signal: &SignalLine, columns: &[Option<i64>], row: usize, rows: usize) -> Line<'static> {
    let level = |value| (eighths(value, signal.capacity, rows) / 8).min(rows - 1);
    let marks = || signal.marks.iter().filter(|mark| level(mark.value) == row);
    let show = |value| amount(signal.signal.resource(), value);
    let (label, style) = match marks().map(|mark| mark.value).max() {
        Some(threshold) => (show(threshold), BAD),
        None if row + 1 == rows => (show(signal.capacity), FAINT),
        None => (String::new(), FAINT),
    };
    let mut spans = vec![Span::styled(
        format!("{label:>width$} ", width = GUTTER - 1),
        style,
    )];
    let empty = match marks().next() {
        Some(_) => ("╌", BAD),
        None => (" ", Style::new()),
    };
    spans.extend(columns.iter().map(|column| {
        let value = column.unwrap_or(0);
        let height = eighths(value, signal.capacity, rows);
        let part = height.saturating_sub(row * 8).min(8);
        match part {
            0 => Span::styled(empty.0, empty.1),
            8 if height > (row + 1) * 8 && marks().next().is_some() => {
                Span::styled("╌", BAD.bg(CALM))
            }
            part => Span::styled(LOWER_EIGHTHS[part], colour(signal, value)),
        }
    }));
    Line::from(spans)
}

fn colour(signal: &SignalLine, value: i64) -> Style {
    let mut crossed = signal.marks.iter().filter(|mark| value < mark.value);
    match (crossed.clone().any(|it| it.grace.is_zero()), crossed.next()) {
        (true, _) => BAD,
        (false, Some(_)) => WARNING,
        (false, None) => Style::new().fg(CALM),
    }
}

/// The time axis: seconds and events.
fn axis(scene: &Scene, time: &TimeAxis) -> Line<'static> {
    let mut cells = vec![(' ', FAINT); time.columns];
    // Written only where it fits completely on free space.
    let mut put = |at: usize, text: &str, style| {
        let end = at + text.chars().count();
        if let Some(place) = cells.get_mut(at..end)
            && place.iter().all(|(letter, _)| *letter == ' ')
        {
            for (cell, letter) in place.iter_mut().zip(text.chars()) {
                *cell = (letter, style);
            }
        }
    };
    if let Some(act) = scene.act() {
        let column = time.column(act.decision.time);
        let word = match (&act.decision.eviction, &act.decision.threshold) {
            (Some(_), Some(acting)) => {
                let left = amount(scene.resource(), acting.observed.available);
                format!("evicted with {left} left")
            }
            (Some(_), None) => "evicted".to_owned(),
            (None, _) => "no pod may be evicted".to_owned(),
        };
        if column + word.len() + 3 < time.columns {
            put(column, &format!("▲ {word}"), SPECIAL.bold());
        } else {
            let at = column.saturating_sub(word.len() + 1);
            put(at, &format!("{word} ▲"), SPECIAL.bold());
        }
    }
    let seconds = time.span.as_secs_f64();
    let step = [0.5, 1.0, 2.0, 5.0]
        .into_iter()
        .find(|step| seconds / step <= 8.0)
        .unwrap_or(10.0);
    let mut at = 0.0;
    while at < seconds {
        let moment = SignedDuration::from_secs_f64(at);
        if let Ok(moment) = scene.started.checked_add(moment) {
            put(time.column(moment), &format!("{at} s"), FAINT);
        }
        at += step;
    }
    let mut spans = vec![Span::raw(" ".repeat(GUTTER))];
    spans.extend(
        cells
            .into_iter()
            .map(|(letter, style)| Span::styled(letter.to_string(), style)),
    );
    Line::from(spans)
}
