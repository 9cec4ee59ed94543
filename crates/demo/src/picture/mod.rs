//! Draws a scene as one frame into a buffer.

mod pods;
mod ruling;
mod signals;
pub mod svg;
mod trace;

use super::scene::Scene;
use evictd_signals::{StarvedResource, human_bytes};
use ratatui::{
    buffer::Buffer,
    layout::{Constraint, Layout, Rect},
    style::{Color, Style},
    text::{Line, Span},
    widgets::{Paragraph, Widget, Wrap},
};
use std::time::Duration;

/// A smaller terminal gets no picture.
pub const LEAST: (u16, u16) = (80, 22);
/// A taller frame shows nothing more.
pub const TALLEST: u16 = 34;

/// Colours for good, threshold reached, failed, and notable. They are from the palette of the terminal.
const GOOD: Style = Style::new().fg(Color::Green);
const BAD: Style = Style::new().fg(Color::Red).bold();
const WARNING: Style = Style::new().fg(Color::Yellow);
const SPECIAL: Style = Style::new().fg(Color::Cyan);
/// The background of large areas, dark enough for text on it.
const CALM: Color = Color::Indexed(22);
const FAINT: Style = Style::new().dim();
const STRONG: Style = Style::new().bold();

/// Draws the scene into this part of the buffer.
pub fn draw(scene: &Scene, area: Rect, buffer: &mut Buffer) {
    let area = area.intersection(buffer.area);
    let inner = Rect {
        x: area.x + 1,
        width: area.width.saturating_sub(2),
        ..area
    };
    let width = usize::from(inner.width);
    let bars = signals::lines(scene, width);
    let pods = pods::lines(scene, width);
    let table = ruling::lines(scene, width);
    let fixed = 2 + bars.len() + pods.len() + table.len() + usize::from(ruling::SENTENCE) + 2;
    let gap = u16::from(usize::from(inner.height) >= fixed + 12);
    let [
        head,
        _,
        signals,
        _,
        trace,
        _,
        cast,
        _,
        act,
        _,
        times,
        why,
        end,
    ] = Layout::vertical([
        Constraint::Length(2),
        Constraint::Length(gap),
        length(&bars),
        Constraint::Length(gap),
        Constraint::Min(4),
        Constraint::Length(gap),
        length(&pods),
        Constraint::Length(gap),
        length(&table),
        Constraint::Length(gap),
        Constraint::Length(1),
        Constraint::Length(ruling::SENTENCE),
        Constraint::Length(1),
    ])
    .areas(inner);
    let size = (usize::from(trace.width), usize::from(trace.height));
    Paragraph::new(header(scene, width)).render(head, buffer);
    Paragraph::new(bars).render(signals, buffer);
    Paragraph::new(trace::lines(scene, size)).render(trace, buffer);
    Paragraph::new(pods).render(cast, buffer);
    Paragraph::new(table).render(act, buffer);
    Paragraph::new(ruling::times(scene)).render(times, buffer);
    Paragraph::new(ruling::why(scene))
        .wrap(Wrap { trim: true })
        .render(why, buffer);
    Paragraph::new(ruling::verdict(scene)).render(end, buffer);
}

/// Removes the colours; bold and dim stay.
pub fn without_colour(buffer: &mut Buffer) {
    for cell in &mut buffer.content {
        cell.fg = Color::Reset;
        cell.bg = Color::Reset;
    }
}

fn length(lines: &[Line<'_>]) -> Constraint {
    Constraint::Length(u16::try_from(lines.len()).unwrap_or(u16::MAX))
}

/// The scenario, how it is run, and one sentence about it.
fn header(scene: &Scene, width: usize) -> Vec<Line<'static>> {
    let mode = match &scene.missing {
        None => Span::styled("real processes, real cgroups", GOOD),
        Some(_) => Span::styled("SIMULATED", WARNING.bold()),
    };
    let elapsed = scene.now.duration_since(scene.started).as_secs_f64();
    let looks = format!(
        "{elapsed:.2} s  sample {}, next in {} ms",
        scene.looks,
        millis(scene.sleep)
    );
    let mut title = Line::from(vec![
        Span::styled("evictd demo", STRONG),
        Span::styled(format!("  {}  ", scene.scenario.name()), SPECIAL.bold()),
        mode,
    ]);
    push_right(&mut title, Span::styled(looks, FAINT), width);
    let story = match &scene.missing {
        None => Line::from(scene.scenario.story()),
        Some(missing) => Line::styled(missing.clone(), WARNING),
    };
    vec![title, story]
}

/// Appends text at the right margin, if there is room.
fn push_right(line: &mut Line<'static>, span: Span<'static>, width: usize) {
    let taken = line.width() + span.width();
    if let Some(room) = width.checked_sub(taken) {
        line.push_span(" ".repeat(room));
        line.push_span(span);
    }
}

/// `310Mi`, or a count if the resource is not bytes.
fn amount(resource: StarvedResource, value: i64) -> String {
    match resource {
        StarvedResource::Memory | StarvedResource::EphemeralStorage | StarvedResource::Io => {
            human_bytes(value)
        }
        StarvedResource::Inodes | StarvedResource::Pids => value.to_string(),
    }
}

/// Milliseconds; with one decimal for short times only.
fn millis(time: Duration) -> String {
    let millis = time.as_secs_f64() * 1000.0;
    if millis < 99.95 {
        format!("{millis:.1}")
    } else {
        format!("{millis:.0}")
    }
}

/// How many eighths of a cell show a value, if `whole` fills `cells`.
fn eighths(value: i64, whole: i64, cells: usize) -> usize {
    let whole = i128::from(whole.max(1));
    let value = i128::from(value).clamp(0, whole);
    let cells = i128::try_from(cells).unwrap_or(0);
    usize::try_from((value * cells * 8 + whole / 2) / whole).unwrap_or(0)
}

/// A bar of `cells` cells, of which `eighths` are filled; the cells in `marks` show a threshold.
fn bar(
    filled: usize,
    (full, style): (&'static str, Style),
    cells: usize,
    marks: &[usize],
    (empty, faint): (&'static str, Style),
) -> Vec<Span<'static>> {
    (0..cells)
        .map(|cell| {
            let part = filled.saturating_sub(cell * 8);
            match part {
                _ if marks.contains(&cell) => Span::styled("┃", STRONG),
                0 => Span::styled(empty, faint),
                1..=4 if full == "━" => Span::styled("╸", style),
                _ => Span::styled(full, style),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests;
