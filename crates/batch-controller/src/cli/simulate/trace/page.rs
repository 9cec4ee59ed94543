//! The figures of a trace that was played, one configuration beside the other.

use evictd_batch_trace::svg::{NAMES, Run};
use evictd_batch_trace::{Report, Spread};
use evictd_command::{Colour, Column, Row, Table, View};

/// The columns of the differences from the first configuration.
const DIFFERENCES: [&str; 5] = ["", "B-A", "C-A", "D-A", "E-A"];
/// So many jobs are named that have not come to their end.
const NAMED: usize = 10;

/// How a figure is written.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Count,
    Percent,
    Index,
    Time,
}

/// A row of the table: what it says, its unit, and its figure of a run.
type Figure = (String, Unit, Box<dyn Fn(&Report) -> Option<f64>>);

/// The whole page.
pub(super) fn page(runs: &[Run], view: View) -> String {
    let mut parts = Vec::new();
    if let Some(first) = runs.first() {
        let (jobs, queues) = (first.report.jobs, first.report.queues.len());
        let head = format!("{jobs} jobs in {queues} queues.");
        parts.push(view.sentence(&head));
    }
    let legend = runs.iter().zip(NAMES).map(|(run, name)| {
        let heading = if runs.len() > 1 {
            format!("{name}  ")
        } else {
            String::new()
        };
        view.hanging(&heading, &run.conf)
    });
    parts.push(legend.collect::<Vec<_>>().join("\n"));
    parts.push(figures(runs, view));
    parts.push(queues(runs, view));
    parts.extend(runs.iter().filter_map(|run| unfinished(run, view)));
    parts.join("\n\n")
}

fn all_figures(first: &Report) -> Vec<Figure> {
    let mut all: Vec<Figure> = Vec::new();
    let mut add = |name: &str, unit, figure: fn(&Report) -> Option<f64>| {
        all.push((name.to_owned(), unit, Box::new(figure)));
    };
    add("jobs that ended", Unit::Count, |own| {
        Some(number(own.finished))
    });
    add("makespan", Unit::Time, |own| Some(own.makespan_seconds));
    add("fairness, mean", Unit::Index, |own| {
        own.fairness.as_ref().map(|own| own.mean)
    });
    add("fairness, p5", Unit::Index, |own| {
        own.fairness.as_ref().map(|own| own.p5)
    });
    add("wait, mean", Unit::Time, |own| Some(own.wait_seconds.mean));
    add("wait, p50", Unit::Time, |own| Some(own.wait_seconds.p50));
    add("wait, p95", Unit::Time, |own| Some(own.wait_seconds.p95));
    add("wait, p99", Unit::Time, |own| Some(own.wait_seconds.p99));
    add("wait, longest", Unit::Time, |own| {
        Some(own.wait_seconds.max)
    });
    add("pods preempted", Unit::Count, |own| {
        Some(count(own.preempted_pods))
    });
    add("pods reclaimed", Unit::Count, |own| {
        Some(count(own.reclaimed_pods))
    });
    add("jobs that lost pods", Unit::Count, |own| {
        Some(number(own.evicted_jobs))
    });
    add("sessions", Unit::Count, |own| Some(count(own.sessions)));
    let used = first.utilization.keys().map(|resource| -> Figure {
        let of = resource.clone();
        let figure = move |own: &Report| own.utilization.get(&of).copied();
        (format!("{resource} held"), Unit::Percent, Box::new(figure))
    });
    let lost = first.lost_work_seconds.keys().map(|resource| -> Figure {
        let of = resource.clone();
        let figure = move |own: &Report| {
            let lost = own.lost_work_seconds.get(&of)?;
            let all = lost + own.work_seconds.get(&of)?;
            (all > 0.0).then(|| lost / all)
        };
        (
            format!("{resource} of it lost"),
            Unit::Percent,
            Box::new(figure),
        )
    });
    let pairs: Vec<Figure> = used.zip(lost).flat_map(<[Figure; 2]>::from).collect();
    // Behind the makespan.
    all.splice(2..2, pairs);
    all
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn count(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn figures(runs: &[Run], view: View) -> String {
    let Some(first) = runs.first() else {
        return String::new();
    };
    let mut columns = vec![Column::name("FIGURE", 9)];
    for (index, name) in NAMES.iter().enumerate().take(runs.len()) {
        let heading = if runs.len() > 1 { name } else { "VALUE" };
        columns.push(Column::figure(heading, 8));
        if index > 0 {
            columns.push(Column::figure(DIFFERENCES[index], 1));
        }
    }
    let rows = all_figures(&first.report)
        .into_iter()
        .map(|(name, unit, of)| {
            let before = of(&first.report);
            let mut cells = vec![name];
            for (index, run) in runs.iter().enumerate() {
                let now = of(&run.report);
                cells.push(now.map_or_else(|| "-".to_owned(), |now| unit.shown(now, false)));
                if index > 0 {
                    let difference = now.zip(before).map(|(now, before)| now - before);
                    cells.push(difference.map_or_else(String::new, |own| unit.shown(own, true)));
                }
            }
            cells
        });
    Table::new(columns, rows).shown(view)
}

/// Of each queue a row a configuration.
fn queues(runs: &[Run], view: View) -> String {
    let Some(first) = runs.first() else {
        return String::new();
    };
    let several = runs.len() > 1;
    let resources: Vec<&String> = first.report.utilization.keys().collect();
    let mut columns = vec![Column::name("QUEUE", 9)];
    if several {
        columns.push(Column::words("", 9));
    }
    columns.extend([
        Column::figure("ENDED", 7),
        Column::figure("P50", 6),
        Column::figure("P95", 8),
        Column::figure("P99", 5),
        Column::figure("LONGEST", 4),
        Column::figure("PREEMPTED", 2),
        Column::figure("RECLAIMED", 3),
        Column::figure("HOLDS", 7),
    ]);
    // Of the resource of which most is held.
    let most = resources.iter().max_by(|one, other| {
        let held = |name: &String| first.report.utilization.get(name).copied().unwrap_or(0.0);
        held(one).total_cmp(&held(other))
    });
    let rows = first.report.queues.keys().flat_map(|name| {
        runs.iter()
            .zip(NAMES)
            .enumerate()
            .filter_map(move |(index, (run, letter))| {
                let own = run.report.queues.get(name)?;
                let Spread {
                    p50, p95, p99, max, ..
                } = own.wait_seconds;
                let mut cells = vec![if index == 0 {
                    name.clone()
                } else {
                    String::new()
                }];
                if several {
                    cells.push(letter.to_owned());
                }
                cells.push(own.finished.to_string());
                cells.extend([p50, p95, p99, max].map(|wait| Unit::Time.shown(wait, false)));
                cells.push(own.preempted_pods.to_string());
                cells.push(own.reclaimed_pods.to_string());
                let held = most.and_then(|most| own.utilization.get(*most));
                cells.push(Unit::Percent.shown(held.copied().unwrap_or(0.0), false));
                Some(cells)
            })
    });
    let table = Table::new(columns, rows.collect::<Vec<_>>()).shown(view);
    let what = most.map_or("", |most| most.as_str());
    let note = format!(
        "P50 to LONGEST: from arrival to start. HOLDS: of the cluster's {what}, on average."
    );
    format!(
        "{table}\n{}",
        view.paint(Colour::Faint, &view.sentence(&note))
    )
}

/// Jobs that have not come to their end.
fn unfinished(run: &Run, view: View) -> Option<String> {
    let left = &run.report.unfinished;
    let first = left.first()?;
    let columns = [
        Column::name("JOB", 5),
        Column::name("QUEUE", 4),
        Column::sentence("WHY IT HAS NOT ENDED", 3),
    ];
    let named = left.iter().take(NAMED).map(|own| {
        let cells = vec![own.job.clone(), own.queue.clone(), own.reason.clone()];
        Row::from(cells).coloured(Some(Colour::Bad))
    });
    let table = Table::new(columns, named).shown(view);
    let more = match left.len() {
        1 => format!("{}: {} has not come to its end.", run.conf, first.job),
        count => format!("{}: {count} jobs have not come to their end.", run.conf),
    };
    Some(format!("{}\n{table}", view.sentence(&more)))
}

impl Unit {
    /// A figure, or a difference with its sign.
    fn shown(self, figure: f64, signed: bool) -> String {
        let text = match self {
            Self::Count => format!("{:.0}", figure.abs()),
            Self::Percent => format!("{:.1} %", figure.abs() * 100.0),
            Self::Index => format!("{:.3}", figure.abs()),
            Self::Time => time(figure.abs()),
        };
        let zero = !text.contains(|c: char| ('1'..='9').contains(&c));
        match (signed && !zero, figure < 0.0) {
            (false, _) => text,
            (true, true) => format!("-{text}"),
            (true, false) => format!("+{text}"),
        }
    }
}

/// `12s`, `3m05s`, `2h07m`, `1d03h`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "neither negative nor large"
)]
pub(super) fn time(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match (days, hours, minutes) {
        (0, 0, 0) => format!("{seconds}s"),
        (0, 0, _) => format!("{minutes}m{:02}s", seconds % 60),
        (0, _, _) => format!("{hours}h{:02}m", minutes % 60),
        _ => format!("{days}d{:02}h", hours % 24),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_their_units_and_differences_their_signs() {
        for (unit, figure, signed, wanted) in [
            (Unit::Time, 0.0, false, "0s"),
            (Unit::Time, 59.4, false, "59s"),
            (Unit::Time, 185.0, false, "3m05s"),
            (Unit::Time, 7620.0, false, "2h07m"),
            (Unit::Time, 97_200.0, false, "1d03h"),
            (Unit::Time, -185.0, true, "-3m05s"),
            (Unit::Percent, 0.1234, true, "+12.3 %"),
            (Unit::Percent, 0.0001, true, "0.0 %"),
            (Unit::Index, -0.05, true, "-0.050"),
            (Unit::Count, 12.0, false, "12"),
        ] {
            assert_eq!(unit.shown(figure, signed), wanted);
        }
    }
}
