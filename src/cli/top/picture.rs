//! The content of one frame of `evictd top`, for any width.

use crate::cli::daemon::Daemon;
use crate::cli::outcome::remark;
use crate::cli::ranking;
use crate::cli::status::{headline, is_alarming, no_decision};
use crate::cli::table::{amount, duration, moment, or_dash, text};
use anyhow::Context;
use evictd_command::{Colour, Failure, Section, View, printable_line, shortened};
use evictd_node::status::{SignalStatus, Status, ThresholdStatus};
use evictd_signals::pressure::WHOLE;
use jiff::SignedDuration;
use serde_json::Value;

/// The shortest and the longest bar of a signal.
const BARS: std::ops::RangeInclusive<usize> = 5..=40;
/// From this width on words are not abbreviated.
const ROOMY: usize = 110;
/// The most characters of a name in a message.
const NAME: usize = 50;
/// The lines that the ranking needs: title, headings and the first pods.
const RANKED: usize = 7;
/// The most lines of a message: on a low screen, and on any other.
const MESSAGE: (usize, usize) = (2, 3);
/// A screen with fewer lines is low.
const LOW: usize = 30;

/// The data of one frame.
pub(super) struct Picture {
    status: Status,
    /// The ranking, or why there is none.
    ranking: Result<Value, String>,
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
        })
    }

    /// One frame. `lost` says why the data is old. If the rows are limited, some of them are reserved for the ranking.
    pub(super) fn page(&self, lost: Option<&str>, view: View, rows: Option<usize>) -> String {
        let lines = match rows {
            None => usize::MAX,
            Some(..LOW) => MESSAGE.0,
            Some(_) => MESSAGE.1,
        };
        let head = self.head(lost, view, lines);
        let decision = self.last(view, lines);
        let others = head.lines().count() + decision.lines().count() + 1 + RANKED + 1;
        let room = rows.map_or(usize::MAX, |rows| rows.saturating_sub(others));
        let sections = [
            Section::head(&head),
            self.signals(view, room),
            self.ranked(view).giving_way(),
            Section::new("last decision", &decision),
        ];
        Section::page(&sections, view, rows)
    }

    fn head(&self, lost: Option<&str>, view: View, most: usize) -> String {
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
        let (headline, colour) = match lost {
            Some(why) => (why.to_owned(), Colour::Bad),
            // As in `evictd status`, where an exhausted signal without a threshold is urgent, too.
            None if is_alarming(status) => (headline(status), Colour::Bad),
            None => (headline(status), Colour::Good),
        };
        let mut parts = vec![
            view.paint(Colour::Strong, &title),
            view.paint(colour, &message(view, most, &headline)),
        ];
        let others = status.warnings.len().saturating_sub(1);
        if let Some(first) = status.warnings.first() {
            let besides = match others {
                0 => String::new(),
                others => format!(" (and {others} more, see `evictd status`)"),
            };
            let warning = message(view, most, &format!("{first}{besides}"));
            parts.push(view.paint(Colour::Warning, &warning));
        }
        parts.join("\n")
    }

    /// The signals, or only the most urgent ones if not all fit.
    fn signals(&self, view: View, room: usize) -> Section {
        let all = &self.status.signals;
        let mut urgent: Vec<&SignalStatus> = all.iter().collect();
        urgent.sort_by(|a, b| urgency(a).total_cmp(&urgency(b)));
        urgent.truncate(room.max(1));
        let shown = all.iter().filter(|signal| urgent.contains(signal));
        let shown: Vec<&SignalStatus> = shown.collect();
        let names = shown.iter().map(|signal| signal.signal.as_str().len());
        let names = names.max().unwrap_or(0);
        let roomy = view.width().is_none_or(|width| width >= ROOMY);
        let seen = shown.iter().filter(|signal| unseen(signal).is_none());
        let widest = seen.map(|signal| standing(signal, roomy).chars().count());
        let taken = names + 2 + widest.max().unwrap_or(0);
        let width = view.width().unwrap_or(usize::MAX);
        let cells = width.saturating_sub(taken);
        let cells = cells.clamp(*BARS.start(), *BARS.end());
        let lines = shown.iter().map(|signal| {
            let name = signal.signal.as_str();
            let line = match unseen(signal) {
                Some(why) => format!("{name:<names$} {}", printable_line(why)),
                None => format!(
                    "{name:<names$} {} {}",
                    bar(signal, cells),
                    standing(signal, roomy)
                ),
            };
            match colour(signal) {
                Some(colour) => view.paint(colour, &line),
                None => line,
            }
        });
        let which = match all.len() - shown.len() {
            0 => String::new(),
            calm => format!(" ({calm} calm ones are not shown)"),
        };
        let title = format!("signals and their thresholds{which}");
        Section::new(title, &lines.collect::<Vec<_>>().join("\n"))
    }

    fn ranked(&self, view: View) -> Section {
        match &self.ranking {
            Err(why) => Section::new("pods in the order of eviction", &view.sentence(why)),
            Ok(answer) => {
                let before = format!("first victim for {}: ", text(&answer["signal"]));
                let title = fitted(view.within(4), &before, &text(&answer["next"]), "");
                Section::new(title, &ranking::brief_page(answer, view))
            }
        }
    }

    fn last(&self, view: View, most: usize) -> String {
        let text = match &self.status.last_decision {
            None => no_decision(&self.status).to_owned(),
            Some(record) => format!(
                "{} {} for {}{}: {}",
                moment(record.time),
                shortened(&or_dash(record.pod.as_ref()), NAME),
                record.signal,
                remark(record),
                or_dash(record.message.as_ref()),
            ),
        };
        message(view, most, &text)
    }
}

/// A line with a name, which is shortened if the line is too long.
fn fitted(view: View, before: &str, name: &str, after: &str) -> String {
    let name = printable_line(name);
    let others = before.chars().count() + after.chars().count();
    let name = match view.width() {
        Some(width) => shortened(&name, width.saturating_sub(others).max(12)),
        None => name.into_owned(),
    };
    format!("{before}{name}{after}")
}

/// A sentence, wrapped; the last lines are cut if they do not fit.
fn message(view: View, most: usize, text: &str) -> String {
    let text = view.sentence(text);
    let lines: Vec<&str> = text.lines().take(most).collect();
    lines.join("\n")
}

fn low(signal: &SignalStatus) -> bool {
    signal.thresholds.iter().any(|threshold| threshold.met)
}

fn needs_attention(signal: &SignalStatus) -> bool {
    low(signal) || signal.is_blind()
}

/// Urgency, the smaller the more urgent: the part of the capacity that is available above the threshold.
#[allow(clippy::cast_precision_loss, reason = "compared, never shown")]
fn urgency(signal: &SignalStatus) -> f64 {
    match (signal.headroom, signal.capacity) {
        _ if needs_attention(signal) => -1.0,
        (Some(headroom), Some(capacity)) if !signal.thresholds.is_empty() => {
            headroom as f64 / capacity.max(1) as f64
        }
        _ => f64::INFINITY,
    }
}

fn colour(signal: &SignalStatus) -> Option<Colour> {
    match (low(signal), &signal.problem) {
        (true, _) => Some(Colour::Bad),
        (false, Some(_)) => Some(Colour::Warning),
        (false, None) => None,
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

/// The available amount, and the threshold.
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

/// A bar: the used part is filled, and the threshold is marked.
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

/// The first cell of the available part.
fn cell(left: i64, capacity: i64, cells: usize) -> usize {
    let capacity = i128::from(capacity.max(1));
    let used = (capacity - i128::from(left)).clamp(0, capacity);
    let cells = i128::try_from(cells).unwrap_or(0);
    usize::try_from(used * cells / capacity).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_decision::record::{Kind, Record};
    use evictd_signals::Signal;
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
    fn pressure_is_shown_as_it_was_configured() {
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
        };
        let page = picture.page(None, View::WHOLE, None);
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
        // Control characters in names cannot reach the terminal.
        let evil = "a\u{1b}[2J\u{9b}b";
        picture.ranking =
            Ok(json!({ "signal": "memory.available", "next": evil, "pods": [{ "pod": evil }] }));
        picture.status.last_decision = serde_json::from_value(json!({
            "id": "1", "kind": "hard", "pod": evil, "time": "2026-11-21T23:26:43Z",
        }))
        .ok();
        picture.status.node = evil.to_owned();
        let page = picture.page(None, View::WHOLE, None);
        let steers = |c: char| c.is_control() && c != '\n';
        assert!(!page.contains(steers), "{page:?}");
        picture.ranking = Err("too busy".to_owned());
        let page = picture.page(Some("no daemon answers"), View::WHOLE, None);
        assert!(
            page.contains("no daemon answers") && page.contains("too busy"),
            "{page}"
        );
    }
}
