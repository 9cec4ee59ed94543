//! `evictd top`: a live screen of signals against thresholds and of who would go next.

use super::daemon::Daemon;
use super::outcome::remark;
use super::ranking;
use super::status::{headline, no_decision};
use super::table::{amount, duration, moment, text, told};
use anyhow::Context;
use clap::Args;
use evictd_command::{Failure, write_to_stdout};
use evictd_eviction::pressure::WHOLE;
use evictd_node::server::state::{SignalStatus, Status, ThresholdStatus};
use jiff::SignedDuration;
use ratatui::backend::TestBackend;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::style::{Style, Stylize};
use ratatui::text::Line;
use ratatui::widgets::{Block, Borders, Paragraph};
use ratatui::{Frame, Terminal};
use serde_json::Value;
use std::io::{self, IsTerminal};
use std::time::Duration;

const REFRESH: Duration = Duration::from_secs(1);
const BAR_WIDTH: usize = 40;
const HEAD_LINES: u16 = 3;
const LAST_LINES: u16 = 2;
/// How wide a frame is where there is no terminal.
const PAGE_WIDTH: u16 = 140;

const EXAMPLE: &str = "Example:
  evictd top
  evictd top | head -20    # not a terminal: one frame";

/// A live screen of signals against thresholds and of who would go next; q quits.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    #[command(flatten)]
    daemon: Daemon,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        // A daemon that cannot be reached is an error here, and part of the picture later.
        let mut picture = Picture::take(&self.daemon)?;
        if !io::stdout().is_terminal() {
            return write_to_stdout(&picture.page());
        }
        let mut terminal = ratatui::try_init()?;
        let outcome = loop {
            if let Err(error) = terminal.draw(|frame| picture.draw(frame)) {
                break Err(error);
            }
            match quit_within(REFRESH) {
                Ok(true) => break Ok(()),
                Ok(false) => {}
                Err(error) => break Err(error),
            }
            match Picture::take(&self.daemon) {
                Ok(next) => picture = next,
                Err(failure) => picture.lost = Some(failure.to_string()),
            }
        };
        ratatui::try_restore()?;
        Ok(outcome?)
    }
}

/// Whether the user asked to leave before `time` was over; any other event ends the wait early.
fn quit_within(time: Duration) -> io::Result<bool> {
    if !event::poll(time)? {
        return Ok(false);
    }
    Ok(match event::read()? {
        Event::Key(KeyEvent {
            code, modifiers, ..
        }) => {
            let interrupt = code == KeyCode::Char('c') && modifiers.contains(KeyModifiers::CONTROL);
            interrupt || matches!(code, KeyCode::Char('q') | KeyCode::Esc)
        }
        _ => false,
    })
}

/// What one frame shows.
struct Picture {
    status: Status,
    /// The ranking, or why there is none.
    ranking: Result<Value, String>,
    /// Why the picture is old.
    lost: Option<String>,
}

impl Picture {
    fn take(daemon: &Daemon) -> Result<Self, Failure> {
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
    fn page(&self) -> String {
        let titled = |lines: usize| u16::try_from(lines).unwrap_or(u16::MAX).saturating_add(1);
        let height = HEAD_LINES
            .saturating_add(titled(self.signals().len()))
            .saturating_add(titled(self.ranked().len()))
            .saturating_add(LAST_LINES);
        let Ok(mut terminal) = Terminal::new(TestBackend::new(PAGE_WIDTH, height));
        let Ok(drawn) = terminal.draw(|frame| self.draw(frame));
        let lines: Vec<String> = drawn
            .buffer
            .content
            .chunks(usize::from(PAGE_WIDTH))
            .map(|row| {
                let line: String = row.iter().map(ratatui::buffer::Cell::symbol).collect();
                line.trim_end().to_owned()
            })
            .collect();
        lines.join("\n").trim_end().to_owned()
    }

    fn draw(&self, frame: &mut Frame<'_>) {
        let signals = self.signals();
        let height = u16::try_from(signals.len())
            .unwrap_or(u16::MAX)
            .saturating_add(1);
        let [head, bars, ranked, last] = Layout::vertical([
            Constraint::Length(HEAD_LINES),
            Constraint::Length(height),
            Constraint::Min(2),
            Constraint::Length(LAST_LINES),
        ])
        .areas(frame.area());
        frame.render_widget(Paragraph::new(self.head()), head);
        frame.render_widget(
            Paragraph::new(signals).block(titled("signals, and where their thresholds lie")),
            bars,
        );
        frame.render_widget(
            Paragraph::new(self.ranked()).block(titled(&self.who())),
            ranked,
        );
        frame.render_widget(
            Paragraph::new(self.last()).block(titled("last decision")),
            last,
        );
    }

    fn head(&self) -> Vec<Line<'static>> {
        let status = &self.status;
        let mode = match &status.paused {
            Some(pause) => format!("  PAUSED {pause}"),
            None if status.dry_run => "  DRY RUN".to_owned(),
            None => String::new(),
        };
        let uptime = duration(SignedDuration::from_secs(status.uptime_seconds));
        let title = format!(
            "evictd {} on {}, up {uptime}, {} pods{mode}    q quits",
            status.version, status.node, status.pods.active
        );
        let headline = match &self.lost {
            Some(why) => Line::from(why.clone()).red().bold(),
            None if status.signals.iter().any(needs_attention) => {
                Line::from(headline(status)).red().bold()
            }
            None => Line::from(headline(status)).green(),
        };
        let warnings = match status.warnings.split_first() {
            None => Line::default(),
            Some((first, [])) => Line::from(first.clone()).yellow(),
            Some((first, others)) => Line::from(format!(
                "{first} (and {} more, see `evictd status`)",
                others.len()
            ))
            .yellow(),
        };
        vec![Line::from(title).bold(), headline, warnings]
    }

    fn signals(&self) -> Vec<Line<'static>> {
        self.status.signals.iter().map(signal_line).collect()
    }

    fn who(&self) -> String {
        match &self.ranking {
            Ok(ranking) => format!(
                "who would go for {}: {}",
                text(&ranking["signal"]),
                text(&ranking["next"])
            ),
            Err(_) => "who would go".to_owned(),
        }
    }

    fn ranked(&self) -> Vec<Line<'static>> {
        let shown = match &self.ranking {
            Ok(answer) => ranking::told(answer),
            Err(why) => why.clone(),
        };
        shown
            .lines()
            .map(|line| Line::from(line.to_owned()))
            .collect()
    }

    fn last(&self) -> String {
        match &self.status.last_decision {
            None => no_decision(&self.status).to_owned(),
            Some(record) => format!(
                "{} {} for {}{}: {}",
                moment(record.time),
                told(record.pod.as_ref()),
                record.signal,
                remark(record),
                told(record.message.as_ref()),
            ),
        }
    }
}

fn titled(title: &str) -> Block<'static> {
    Block::new().borders(Borders::TOP).title(title.to_owned())
}

fn low(signal: &SignalStatus) -> bool {
    signal.thresholds.iter().any(|threshold| threshold.met)
}

fn needs_attention(signal: &SignalStatus) -> bool {
    low(signal) || signal.is_blind()
}

fn signal_line(signal: &SignalStatus) -> Line<'static> {
    let highest = signal
        .thresholds
        .iter()
        .max_by_key(|threshold| threshold.value);
    let figures = format!(
        "{:<28}{} {}",
        signal.signal.as_str(),
        bar(
            signal.available,
            signal.capacity,
            highest.map(|threshold| threshold.value)
        ),
        standing(signal, highest),
    );
    let style = match (low(signal), &signal.problem) {
        (true, _) => Style::new().red().bold(),
        (false, Some(_)) => Style::new().yellow(),
        (false, None) => Style::new(),
    };
    Line::styled(figures, style)
}

/// How much is left and where the threshold lies, or why nobody knows.
fn standing(signal: &SignalStatus, highest: Option<&ThresholdStatus>) -> String {
    let show = |value| amount(Some(signal.signal), value);
    if let Some(why) = signal.absent.as_ref().or(signal.problem.as_ref()) {
        return why.clone();
    }
    if signal.signal.is_pressure() {
        let stalled = signal.available.map(|available| WHOLE - available);
        let limit = highest.map_or("-", |threshold| threshold.configured.as_str());
        return format!(
            "{:>9} of the time stalled, threshold {limit}",
            show(stalled)
        );
    }
    format!(
        "{:>9} left of {:>9}, threshold {:>9}",
        show(signal.available),
        show(signal.capacity),
        show(highest.map(|threshold| threshold.value)),
    )
}

/// What is used of the capacity, filled; where the threshold begins, marked.
fn bar(available: Option<i64>, capacity: Option<i64>, threshold: Option<i64>) -> String {
    let (Some(available), Some(capacity)) = (available, capacity) else {
        return "?".repeat(BAR_WIDTH);
    };
    let used = cell(available, capacity);
    let mark = threshold.map(|threshold| cell(threshold, capacity));
    (0..BAR_WIDTH)
        .map(|at| match at {
            _ if mark == Some(at) => '┃',
            _ if at < used => '█',
            _ => '░',
        })
        .collect()
}

/// The first cell of what is left.
fn cell(left: i64, capacity: i64) -> usize {
    let capacity = i128::from(capacity.max(1));
    let used = (capacity - i128::from(left)).clamp(0, capacity);
    usize::try_from(used * BAR_WIDTH as i128 / capacity).unwrap_or(0)
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
        let drawn = bar(Some(25), Some(100), Some(10));
        assert_eq!(drawn.chars().filter(|cell| *cell == '█').count(), 30);
        assert_eq!(drawn.chars().position(|cell| cell == '┃'), Some(36));
        for (available, capacity) in [(-5, 100), (200, 100), (0, 0), (i64::MIN, i64::MAX)] {
            assert_eq!(
                bar(Some(available), Some(capacity), Some(1))
                    .chars()
                    .count(),
                BAR_WIDTH
            );
        }
        assert_eq!(bar(None, Some(100), None), "?".repeat(BAR_WIDTH));
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
        let told = standing(&signal, signal.thresholds.first());
        assert_eq!(
            told.trim_start(),
            "0% of the time stalled, threshold some avg10 > 20%"
        );
        signal.problem = Some("its source cannot be read".to_owned());
        assert_eq!(standing(&signal, None), "its source cannot be read");
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
        let page = picture.page();
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
        let page = picture.page();
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!page.contains(steers), "{page:?}");
        picture.lost = Some("no daemon answers".to_owned());
        picture.ranking = Err("too busy".to_owned());
        let page = picture.page();
        assert!(
            page.contains("no daemon answers") && page.contains("too busy"),
            "{page}"
        );
    }
}
