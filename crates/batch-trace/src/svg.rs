//! A picture of a trace that was played: of each configuration what queues held over time, and below, for all of them,
//! fairness and the jobs that waited.

use super::{Report, Timeline};
use evictd_picture::{CYAN, FAINT, FRAME, RED, TEXT, YELLOW, escaped, on_card};
use serde::Serialize;
use std::fmt::Write as _;

/// The names of runs in comparisons. There are no more columns and colours.
pub const NAMES: [&str; 5] = ["A", "B", "C", "D", "E"];

/// A trace played under one configuration.
#[derive(Debug, Serialize)]
pub struct Run {
    /// The file; `built-in` without one.
    pub conf: String,
    /// The report.
    #[serde(flatten)]
    pub report: Report,
}

const WIDTH: f64 = 960.0;
/// Room for the figures on the left, and on the right.
const LEFT: f64 = 60.0;
const RIGHT: f64 = 20.0;
/// The title above a panel, and the heights of panels.
const TITLE: f64 = 34.0;
const TALL: f64 = 150.0;
const LOW: f64 = 110.0;
/// The time axis below the last panel.
const AXIS: f64 = 40.0;

const LABEL: &str =
    "A trace that was played: what queues held, fairness, and jobs that waited, over time";
const FONT: &str = "system-ui, 'DejaVu Sans', sans-serif";
const QUEUES: [&str; 8] = [
    "#4c8bd8", "#3fa055", "#c99a2e", "#d9604f", "#9a78d8", "#3fb3b8", "#d97f3a", "#7f8a96",
];
const LINES: [&str; 5] = [TEXT, YELLOW, CYAN, RED, "#bc8cff"];

/// Where times and amounts are drawn.
#[derive(Debug, Clone, Copy)]
struct Panel {
    top: f64,
    height: f64,
    /// The largest amount and the last second that are drawn.
    most: f64,
    seconds: f64,
}

impl Panel {
    fn x(self, seconds: f64) -> f64 {
        LEFT + (WIDTH - LEFT - RIGHT) * (seconds / self.seconds)
    }

    fn y(self, amount: f64) -> f64 {
        self.top + self.height * (1.0 - amount / self.most)
    }
}

/// The whole picture.
pub fn picture(runs: &[Run]) -> String {
    let seconds = runs.iter().map(|run| run.report.makespan_seconds);
    let seconds = seconds.fold(1.0, f64::max);
    let mut svg = String::new();
    let mut top = 8.0;
    let mut panel = |height: f64, most: f64| {
        let panel = Panel {
            top: top + TITLE,
            height,
            most,
            seconds,
        };
        top += TITLE + height;
        panel
    };
    for (run, name) in runs.iter().zip(NAMES) {
        let title = if runs.len() > 1 {
            format!("{name}  {}", run.conf)
        } else {
            run.conf.clone()
        };
        held(&mut svg, panel(TALL, 1.0), run, &title);
    }
    lines(
        &mut svg,
        panel(LOW, 1.0),
        runs,
        "Jain's index of fairness among queues",
        |series| series.fairness.clone(),
    );
    let waiting = runs.iter().flat_map(|run| &run.report.series.waiting_jobs);
    let most = waiting.copied().fold(1.0, f64::max);
    // The time axis is below the last panel only, because all panels share it.
    let last = panel(LOW, rounded_up(most));
    lines(
        &mut svg,
        last,
        runs,
        "Jobs that wait for their start",
        |series| series.waiting_jobs.iter().copied().map(Some).collect(),
    );
    time_axis(&mut svg, last);
    framed(&svg, last.top + last.height + AXIS)
}

fn framed(content: &str, height: f64) -> String {
    let content = format!("<g font-family=\"{FONT}\" font-size=\"12\">\n{content}</g>\n");
    on_card((WIDTH, height), LABEL, &content)
}

/// Areas one above the other: the part of the cluster that each queue held.
fn held(svg: &mut String, panel: Panel, run: &Run, title: &str) {
    let used = &run.report.utilization;
    let most = used.iter().max_by(|one, other| one.1.total_cmp(other.1));
    let Some((resource, _)) = most else { return };
    let series = &run.report.series;
    let empty = vec![0.0; series.seconds.len()];
    let mut below = empty.clone();
    let mut key = Vec::new();
    for ((name, amounts), colour) in series.queues.iter().zip(QUEUES.iter().cycle()) {
        let held = amounts.get(resource).unwrap_or(&empty);
        let above: Vec<f64> = below
            .iter()
            .zip(held)
            .map(|(one, more)| one + more)
            .collect();
        area(svg, panel, series, (&below, &above), colour);
        below = above;
        key.push((name.as_str(), *colour));
    }
    grid(svg, panel, &["0", "50 %", "100 %"]);
    let title = format!("{title}: {resource} held by each queue");
    heading(svg, panel, &title, &key);
}

fn area(
    svg: &mut String,
    panel: Panel,
    series: &Timeline,
    (below, above): (&[f64], &[f64]),
    colour: &str,
) {
    let point = |seconds: &f64, amount: &f64| {
        let middle = seconds + series.span_seconds / 2.0;
        format!(
            "{:.1},{:.1}",
            panel.x(middle.min(panel.seconds)),
            panel.y(*amount)
        )
    };
    let upper = series.seconds.iter().zip(above);
    let lower = series.seconds.iter().zip(below).rev();
    let points = upper
        .chain(lower)
        .map(|(seconds, amount)| point(seconds, amount));
    let points = points.collect::<Vec<_>>().join(" ");
    let _ = writeln!(svg, "<polygon points=\"{points}\" fill=\"{colour}\"/>");
}

/// A line for each configuration; where an amount is not known the line is broken.
fn lines(
    svg: &mut String,
    panel: Panel,
    runs: &[Run],
    title: &str,
    amounts: impl Fn(&Timeline) -> Vec<Option<f64>>,
) {
    let (middle, most) = (panel.most / 2.0, panel.most);
    grid(svg, panel, &["0", &figure(middle), &figure(most)]);
    for (run, colour) in runs.iter().zip(LINES) {
        let series = &run.report.series;
        let mut path = String::new();
        let mut drawn = false;
        for (seconds, amount) in series.seconds.iter().zip(amounts(series)) {
            if let Some(amount) = amount {
                // An average belongs to the middle of its span.
                let middle = (seconds + series.span_seconds / 2.0).min(panel.seconds);
                let step = if drawn { 'L' } else { 'M' };
                let _ = write!(path, "{step}{:.1} {:.1}", panel.x(middle), panel.y(amount));
            }
            drawn = amount.is_some();
        }
        let _ = writeln!(
            svg,
            "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.4\" stroke-linejoin=\"round\"/>"
        );
    }
    let key: Vec<(&str, &str)> = match runs {
        [_] => Vec::new(),
        _ => NAMES.into_iter().zip(LINES).take(runs.len()).collect(),
    };
    heading(svg, panel, title, &key);
}

/// The lines of a panel with their names, from below.
fn grid(svg: &mut String, panel: Panel, labels: &[&str; 3]) {
    for (label, part) in labels.iter().zip([0.0, 0.5, 1.0]) {
        let y = panel.y(panel.most * part);
        let _ = writeln!(
            svg,
            "<path d=\"M{LEFT} {y:.1}H{:.0}\" stroke=\"{FRAME}\"/>\n\
             <text x=\"{:.0}\" y=\"{:.1}\" fill=\"{FAINT}\" text-anchor=\"end\">{label}</text>",
            WIDTH - RIGHT,
            LEFT - 8.0,
            y + 4.0,
        );
    }
}

/// A title, and the meaning of the colours.
fn heading(svg: &mut String, panel: Panel, title: &str, key: &[(&str, &str)]) {
    let y = panel.top - 10.0;
    let _ = writeln!(
        svg,
        "<text x=\"{LEFT}\" y=\"{y:.1}\" fill=\"{TEXT}\" font-weight=\"bold\">{}</text>",
        escaped(title)
    );
    let mut x = WIDTH - RIGHT;
    for (name, colour) in key.iter().rev() {
        // About as wide as the letters are.
        let letters = f64::from(u32::try_from(name.chars().count()).unwrap_or(0));
        x -= letters * 7.0 + 24.0;
        let _ = writeln!(
            svg,
            "<rect x=\"{x:.1}\" y=\"{:.1}\" width=\"10\" height=\"10\" rx=\"2\" fill=\"{colour}\"/>\n\
             <text x=\"{:.1}\" y=\"{y:.1}\" fill=\"{TEXT}\">{}</text>",
            y - 9.0,
            x + 14.0,
            escaped(name)
        );
    }
}

/// Seconds, minutes, hours or days, so that there are a few of them.
fn time_axis(svg: &mut String, panel: Panel) {
    const STEPS: [(f64, f64, &str); 13] = [
        (1.0, 1.0, "s"),
        (5.0, 1.0, "s"),
        (20.0, 1.0, "s"),
        (60.0, 60.0, "min"),
        (300.0, 60.0, "min"),
        (1200.0, 60.0, "min"),
        (3600.0, 3600.0, "h"),
        (7200.0, 3600.0, "h"),
        (14_400.0, 3600.0, "h"),
        (28_800.0, 3600.0, "h"),
        (86_400.0, 86_400.0, "d"),
        (432_000.0, 86_400.0, "d"),
        (2_592_000.0, 86_400.0, "d"),
    ];
    let enough = |(step, _, _): &&(f64, f64, &str)| panel.seconds / step <= 12.0;
    let step = STEPS.iter().find(enough).copied();
    let (step, unit, name) = step.unwrap_or((panel.seconds / 5.0, 86_400.0, "d"));
    let mut at = 0.0;
    while at <= panel.seconds {
        let x = panel.x(at);
        let bottom = panel.top + panel.height;
        let _ = writeln!(
            svg,
            "<path d=\"M{x:.1} {bottom:.1}v5\" stroke=\"{FAINT}\"/>\n\
             <text x=\"{x:.1}\" y=\"{:.1}\" fill=\"{FAINT}\" text-anchor=\"middle\">{} {name}</text>",
            bottom + 19.0,
            figure(at / unit),
        );
        at += step;
    }
}

fn figure(amount: f64) -> String {
    if amount.fract() == 0.0 {
        format!("{amount:.0}")
    } else {
        format!("{amount:.1}")
    }
}

/// The next number with one digit and zeros, as the top of a scale.
fn rounded_up(most: f64) -> f64 {
    let power = 10.0_f64.powf(most.max(1.0).log10().floor());
    (most / power).ceil() * power
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scales_end_at_round_numbers() {
        for (most, top) in [
            (0.3, 1.0),
            (1.0, 1.0),
            (7.2, 8.0),
            (10.0, 10.0),
            (131.0, 200.0),
        ] {
            assert!((rounded_up(most) - top).abs() < 1e-9, "{most}");
        }
    }
}
