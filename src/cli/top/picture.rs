//! What one frame of `evictd top` shows, laid out for any width.

use crate::cli::daemon::Daemon;
use crate::cli::outcome::remark;
use crate::cli::ranking;
use crate::cli::status::headline;
use crate::cli::table::{amount, duration, moment, text, told};
use crate::doors::state::{SignalStatus, Status, ThresholdStatus};
use anyhow::Context;
use evictd_command::{Failure, View, printable_line, shortened};
use evictd_eviction::pressure::WHOLE;
use jiff::SignedDuration;
use ratatui::Frame;
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Color, Style};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph};
use serde_json::Value;

const ALARM: Style = Style::new().fg(Color::Red).bold();
const WARNING: Style = Style::new().fg(Color::Yellow);
const CALM: Style = Style::new().fg(Color::Green);

/// Bars of signals are never longer or shorter.
const BARS: std::ops::RangeInclusive<usize> = 5..=40;
/// From this width on words are not abbreviated.
const ROOMY: usize = 110;
/// What a message may take of the height, in lines.
const MESSAGE: usize = 3;

/// What one frame shows.
pub(super) struct Picture {
    status: Status,
    /// The ranking, or why there is none.
    ranking: Result<Value, String>,
    /// Why the picture is old.
    pub(super) lost: Option<String>,
}

/// A part of the frame.
struct Section {
    title: Option<String>,
    lines: Vec<(String, Style)>,
}

impl Section {
    fn text(title: String, text: &str) -> Self {
        let lines = text.lines().map(|line| (line.to_owned(), Style::new()));
        Self {
            title: Some(title),
            lines: lines.collect(),
        }
    }

    fn height(&self) -> u16 {
        let lines = self.lines.len() + usize::from(self.title.is_some());
        u16::try_from(lines).unwrap_or(u16::MAX)
    }
}

impl Picture {
    pub(super) fn take(daemon: &Daemon) -> Result<Self, Failure> {
        let status = serde_json::from_value(daemon.get("/v1/status")?)
            .context("the daemon's status is not understood; is it of another version?")?;
        Ok(Self {
            status,
            ranking: daemon
                .get("/v1/ranking")
                .map_err(|failure| failure.to_string()),
            lost: None,
        })
    }

    /// One frame as text.
    pub(super) fn page(&self, view: View) -> String {
        let mut page = String::new();
        for section in self.sections(view.plain()) {
            if let Some(title) = section.title {
                page.push_str("── ");
                page.push_str(&title);
                page.push('\n');
            }
            for (line, _) in section.lines {
                page += &line;
                page.push('\n');
            }
        }
        page
    }

    pub(super) fn draw(&self, frame: &mut Frame<'_>, colour: bool) {
        let sections = self.sections(View::of_width(usize::from(frame.area().width)));
        let [head, signals, _, last] = sections.each_ref().map(Section::height);
        let areas = Layout::vertical([
            Constraint::Length(head),
            Constraint::Length(signals),
            Constraint::Min(3),
            Constraint::Length(last),
        ])
        .split(frame.area());
        for (section, area) in sections.into_iter().zip(areas.iter()) {
            let lines = section.lines.into_iter().map(|(line, style)| {
                let style = if colour { style } else { Style::new() };
                Line::styled(line, style)
            });
            let mut shown = Paragraph::new(lines.collect::<Vec<_>>());
            if let Some(title) = section.title {
                shown = shown.block(Block::new().borders(Borders::TOP).title(title));
            }
            frame.render_widget(shown, *area);
        }
    }

    /// Everything from top to bottom.
    fn sections(&self, view: View) -> [Section; 4] {
        [
            self.head(view),
            self.signals(view),
            self.ranked(view),
            self.last(view),
        ]
    }

    fn head(&self, view: View) -> Section {
        let status = &self.status;
        let mode = match &status.paused {
            Some(pause) => format!("  PAUSED {pause}"),
            None if status.dry_run => "  DRY RUN".to_owned(),
            None => String::new(),
        };
        let uptime = duration(SignedDuration::from_secs(status.uptime_seconds));
        let before = format!("evictd {} on ", status.version);
        let after = format!(
            ", up {uptime}, {} pods{mode}    q quits",
            status.pods.active
        );
        let title = fitted(view, &before, &status.node, &after);
        let mut lines = vec![(title, Style::new().bold())];
        let (headline, style) = match &self.lost {
            Some(why) => (why.clone(), ALARM),
            None if status.signals.iter().any(needs_attention) => (headline(status), ALARM),
            None => (headline(status), CALM),
        };
        lines.extend(message(view, &headline, style));
        let others = status.warnings.len().saturating_sub(1);
        if let Some(first) = status.warnings.first() {
            let besides = match others {
                0 => String::new(),
                others => format!(" (and {others} more, see `evictd status`)"),
            };
            let warning = format!("{first}{besides}");
            lines.extend(message(view, &warning, WARNING));
        }
        Section { title: None, lines }
    }

    fn signals(&self, view: View) -> Section {
        let signals = &self.status.signals;
        let names = signals.iter().map(|signal| signal.signal.as_str().len());
        let names = names.max().unwrap_or(0);
        let roomy = view.width().is_none_or(|width| width >= ROOMY);
        let figures: Vec<String> = signals
            .iter()
            .map(|signal| standing(signal, roomy))
            .collect();
        let seen = signals.iter().zip(&figures);
        let seen = seen.filter(|(signal, _)| unseen(signal).is_none());
        let widest = seen.map(|(_, figures)| figures.chars().count()).max();
        let taken = names + 2 + widest.unwrap_or(0);
        let room = view
            .width()
            .map_or(*BARS.end(), |width| width.saturating_sub(taken));
        let cells = room.clamp(*BARS.start(), *BARS.end());
        let lines = signals.iter().zip(&figures).flat_map(|(signal, figures)| {
            let name = format!("{:<names$} ", signal.signal.as_str());
            let line = match unseen(signal) {
                Some(why) => view.hanging(&name, why),
                None => format!("{name}{} {figures}", bar(signal, cells)),
            };
            let lines: Vec<String> = line.lines().map(str::to_owned).collect();
            lines.into_iter().map(|line| (line, style(signal)))
        });
        Section {
            title: Some("signals, and where their thresholds lie".to_owned()),
            lines: lines.collect(),
        }
    }

    fn ranked(&self, view: View) -> Section {
        match &self.ranking {
            Err(why) => Section::text("who would go".to_owned(), &view.sentence(why)),
            Ok(answer) => {
                let before = format!("who would go for {}: ", text(&answer["signal"]));
                let title = fitted(view, &before, &text(&answer["next"]), "");
                Section::text(title, &ranking::told_briefly(answer, view))
            }
        }
    }

    fn last(&self, view: View) -> Section {
        let told = match &self.status.last_decision {
            None => "nothing was ever evicted".to_owned(),
            Some(record) => format!(
                "{} {} for {}{}: {}",
                moment(record.time),
                told(record.pod.as_ref()),
                record.signal,
                remark(record),
                told(record.message.as_ref()),
            ),
        };
        Section {
            title: Some("last decision".to_owned()),
            lines: message(view, &told, Style::new()).collect(),
        }
    }
}

/// A line with a name in it, which is shortened as far as the line has too little room.
fn fitted(view: View, before: &str, name: &str, after: &str) -> String {
    let name = printable_line(name);
    let others = before.chars().count() + after.chars().count();
    let name = match view.width() {
        Some(width) => shortened(&name, width.saturating_sub(others).max(12)),
        None => name.into_owned(),
    };
    format!("{before}{name}{after}")
}

/// The lines of a sentence, of which the last ones may be missing.
fn message(view: View, text: &str, style: Style) -> impl Iterator<Item = (String, Style)> {
    let text = view.sentence(text);
    let lines: Vec<String> = text.lines().take(MESSAGE).map(str::to_owned).collect();
    lines.into_iter().map(move |line| (line, style))
}

fn low(signal: &SignalStatus) -> bool {
    signal.thresholds.iter().any(|threshold| threshold.met)
}

fn needs_attention(signal: &SignalStatus) -> bool {
    low(signal) || signal.is_blind()
}

fn style(signal: &SignalStatus) -> Style {
    match (low(signal), &signal.problem) {
        (true, _) => ALARM,
        (false, Some(_)) => WARNING,
        (false, None) => Style::new(),
    }
}

/// Why there are no figures.
fn unseen(signal: &SignalStatus) -> Option<&str> {
    let why = signal.absent.as_ref().or(signal.problem.as_ref());
    why.map(String::as_str)
}

fn highest(signal: &SignalStatus) -> Option<&ThresholdStatus> {
    let thresholds = signal.thresholds.iter();
    thresholds.max_by_key(|threshold| threshold.value)
}

/// How much is left and where the threshold lies.
fn standing(signal: &SignalStatus, roomy: bool) -> String {
    let show = |value| amount(Some(signal.signal), value);
    let highest = highest(signal);
    if signal.signal.is_pressure() {
        let stalled = signal.available.map(|available| WHOLE - available);
        let limit = highest.map_or("-", |threshold| threshold.configured.as_str());
        let of_the_time = if roomy { " of the time" } else { "" };
        return format!(
            "{:>8}{of_the_time} stalled, threshold {limit}",
            show(stalled)
        );
    }
    let left = if roomy { " left" } else { "" };
    format!(
        "{:>8}{left} of {:>8}, threshold {:>8}",
        show(signal.available),
        show(signal.capacity),
        show(highest.map(|threshold| threshold.value)),
    )
}

/// What is used of the capacity, filled; where the threshold begins, marked.
fn bar(signal: &SignalStatus, cells: usize) -> String {
    let (Some(available), Some(capacity)) = (signal.available, signal.capacity) else {
        return "?".repeat(cells);
    };
    let used = cell(available, capacity, cells);
    let mark = highest(signal).map(|threshold| cell(threshold.value, capacity, cells));
    (0..cells)
        .map(|at| match at {
            _ if mark == Some(at) => '┃',
            _ if at < used => '█',
            _ => '░',
        })
        .collect()
}

/// The first cell of what is left.
fn cell(left: i64, capacity: i64, cells: usize) -> usize {
    let capacity = i128::from(capacity.max(1));
    let used = (capacity - i128::from(left)).clamp(0, capacity);
    let cells = i128::try_from(cells).unwrap_or(0);
    usize::try_from(used * cells / capacity).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_eviction::{
        Signal,
        record::{Kind, Record},
    };
    use serde_json::json;

    #[test]
    fn a_bar_fills_with_use_and_marks_the_threshold() {
        let signal = |available, capacity, threshold| {
            let mut signal = SignalStatus::new(Signal::MemoryAvailable);
            (signal.available, signal.capacity) = (available, Some(capacity));
            signal.thresholds.push(ThresholdStatus {
                value: threshold,
                ..ThresholdStatus::default()
            });
            signal
        };
        let drawn = bar(&signal(Some(25), 100, 10), 40);
        assert_eq!(drawn.chars().filter(|cell| *cell == '█').count(), 30);
        assert_eq!(drawn.chars().position(|cell| cell == '┃'), Some(36));
        for (available, capacity) in [(-5, 100), (200, 100), (0, 0), (i64::MIN, i64::MAX)] {
            let drawn = bar(&signal(Some(available), capacity, 1), 9);
            assert_eq!(drawn.chars().count(), 9);
        }
        assert_eq!(bar(&signal(None, 100, 1), 7), "?".repeat(7));
    }

    #[test]
    fn pressure_is_told_as_it_was_configured() {
        let mut signal = SignalStatus::new(Signal::IoPsi);
        (signal.available, signal.capacity) = (Some(WHOLE), Some(WHOLE));
        signal.thresholds.push(ThresholdStatus {
            value: 8_000,
            configured: "some avg10 > 20%".to_owned(),
            ..ThresholdStatus::default()
        });
        let told = standing(&signal, true);
        assert_eq!(
            told.trim_start(),
            "0% of the time stalled, threshold some avg10 > 20%"
        );
        signal.problem = Some("its source cannot be read".to_owned());
        assert_eq!(unseen(&signal), Some("its source cannot be read"));
    }

    #[test]
    fn a_frame_shows_signals_ranking_and_the_last_decision() {
        let mut signal = SignalStatus::new(Signal::MemoryAvailable);
        signal.available = Some(80 << 20);
        signal.capacity = Some(512 << 20);
        signal.thresholds.push(ThresholdStatus {
            kind: "hard".to_owned(),
            value: 100 << 20,
            met: true,
            ..ThresholdStatus::default()
        });
        let status = Status {
            node: "node-1".to_owned(),
            signals: vec![signal],
            last_decision: Some(Record {
                pod: Some("shop/old".to_owned()),
                dry_run: true,
                ..Record::new(
                    "1".to_owned(),
                    "2026-11-21T23:26:43.123456789Z".parse().unwrap(),
                    Kind::Hard,
                    "memory.available",
                )
            }),
            ..Status::default()
        };
        let ranking = json!({ "signal": "memory.available", "next": "shop/hog", "pods": [{ "pod": "shop/hog" }] });
        let mut picture = Picture {
            status,
            ranking: Ok(ranking),
            lost: None,
        };
        let page = picture.page(View::WHOLE);
        for shown in [
            "node-1",
            "UNDER PRESSURE",
            "memory.available",
            "80Mi left of",
            "┃",
            "shop/hog",
            "shop/old",
            "[dry run]",
            "2026-11-21 23:26:43Z",
        ] {
            assert!(page.contains(shown), "{shown} in\n{page}");
        }
        // What others have named cannot steer the terminal.
        let evil = "a\u{1b}[2J\u{9b}b";
        picture.ranking =
            Ok(json!({ "signal": "memory.available", "next": evil, "pods": [{ "pod": evil }] }));
        picture.status.last_decision = serde_json::from_value(json!({
            "id": "1", "kind": "hard", "pod": evil, "time": "2026-11-21T23:26:43Z",
        }))
        .ok();
        picture.status.node = evil.to_owned();
        let page = picture.page(View::WHOLE);
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!page.contains(steers), "{page:?}");
        picture.lost = Some("no daemon answers".to_owned());
        picture.ranking = Err("too busy".to_owned());
        let page = picture.page(View::WHOLE);
        assert!(
            page.contains("no daemon answers") && page.contains("too busy"),
            "{page}"
        );
    }
}
