//! The report of a simulated trace, with a column for each configuration.

use evictd_batch_trace::svg::{NAMES, Run};
use evictd_batch_trace::{Report, Spread};
use evictd_command::{Colour, Column, Row, Table, View};

/// The headings of the differences from the first configuration.
const DIFFERENCES: [&str; 5] = ["", "B-A", "C-A", "D-A", "E-A"];
/// The number of unfinished jobs that are listed.
const MAX_UNFINISHED: usize = 10;

/// The unit of a figure.
#[derive(Debug, Clone, Copy)]
enum Unit {
    Count,
    Percent,
    Index,
    Time,
}

type FigureOf = Box<dyn Fn(&Report) -> Option<f64>>;

/// A row of the table.
struct Figure {
    name: String,
    unit: Unit,
    value: FigureOf,
}

impl Figure {
    fn new(name: &str, unit: Unit, value: impl Fn(&Report) -> Option<f64> + 'static) -> Self {
        Self {
            name: name.to_owned(),
            unit,
            value: Box::new(value),
        }
    }
}

pub(super) fn page(runs: &[Run], view: View) -> String {
    let mut parts = Vec::new();
    if let Some(first) = runs.first() {
        let (jobs, queues) = (first.report.jobs, first.report.queues.len());
        let counted = |count: usize, thing: &str| match count {
            1 => format!("1 {thing}"),
            _ => format!("{count} {thing}s"),
        };
        let (jobs, queues) = (counted(jobs, "job"), counted(queues, "queue"));
        parts.push(view.sentence(&format!("{jobs} in {queues}.")));
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
    parts.push(figures(runs).shown(view));
    parts.push(queues(runs, view));
    parts.extend(runs.iter().filter_map(|run| unfinished(run, view)));
    parts.join("\n\n")
}

fn all_figures(first: &Report) -> Vec<Figure> {
    let general = vec![
        Figure::new("jobs that ended", Unit::Count, |report| {
            Some(number(report.finished))
        }),
        Figure::new("makespan", Unit::Time, |report| {
            Some(report.makespan_seconds)
        }),
    ];
    let utilization = first.utilization.keys().map(|resource| {
        let name = format!("{resource} held");
        let resource = resource.clone();
        Figure::new(&name, Unit::Percent, move |report| {
            report.utilization.get(&resource).copied()
        })
    });
    let lost_work = first.lost_work_seconds.keys().map(|resource| {
        let name = format!("{resource} of it lost");
        let resource = resource.clone();
        Figure::new(&name, Unit::Percent, move |report| {
            let lost = report.lost_work_seconds.get(&resource)?;
            let all = lost + report.work_seconds.get(&resource)?;
            (all > 0.0).then(|| lost / all)
        })
    });
    let free = first.free_while_waiting.keys().map(|resource| {
        let name = format!("{resource} free while a job waits");
        let resource = resource.clone();
        Figure::new(&name, Unit::Percent, move |report| {
            report.free_while_waiting.get(&resource).copied()
        })
    });
    let reserved = first.reserved_while_waiting.keys().map(|resource| {
        let name = format!("{resource} of it reserved");
        let resource = resource.clone();
        Figure::new(&name, Unit::Percent, move |report| {
            let all = report.free_while_waiting.get(&resource)?;
            let reserved = report.reserved_while_waiting.get(&resource)?;
            (*all > 0.0).then(|| reserved / all)
        })
    });
    let free = free.zip(reserved).flat_map(<[Figure; 2]>::from);
    let by_resource = utilization.zip(lost_work).flat_map(<[Figure; 2]>::from);
    let fairness_and_waits = [
        Figure::new("fairness, mean", Unit::Index, |report| {
            report.fairness.as_ref().map(|fairness| fairness.mean)
        }),
        Figure::new("fairness, p5", Unit::Index, |report| {
            report.fairness.as_ref().map(|fairness| fairness.p5)
        }),
        Figure::new("wait, mean", Unit::Time, |report| {
            report.wait_seconds.as_ref().map(|wait| wait.mean)
        }),
        Figure::new("wait, p50", Unit::Time, |report| {
            report.wait_seconds.as_ref().map(|wait| wait.p50)
        }),
        Figure::new("wait, p95", Unit::Time, |report| {
            report.wait_seconds.as_ref().map(|wait| wait.p95)
        }),
        Figure::new("wait, p99", Unit::Time, |report| {
            report.wait_seconds.as_ref().map(|wait| wait.p99)
        }),
        Figure::new("wait, longest", Unit::Time, |report| {
            report.wait_seconds.as_ref().map(|wait| wait.max)
        }),
    ];
    let evictions = [
        Figure::new("pods preempted", Unit::Count, |report| {
            Some(count(report.preempted_pods))
        }),
        Figure::new("pods reclaimed", Unit::Count, |report| {
            Some(count(report.reclaimed_pods))
        }),
        Figure::new("jobs that lost pods", Unit::Count, |report| {
            Some(number(report.evicted_jobs))
        }),
        Figure::new("sessions", Unit::Count, |report| {
            Some(count(report.sessions))
        }),
    ];
    general
        .into_iter()
        .chain(by_resource)
        .chain(free)
        .chain(fairness_and_waits)
        .chain(evictions)
        .collect()
}

fn number(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

fn count(count: u64) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}

/// A row for each figure.
pub(super) fn figures(runs: &[Run]) -> Table {
    let Some(first) = runs.first() else {
        return Table::new([], Vec::<Row>::new());
    };
    let mut columns = vec![Column::name("FIGURE", 9)];
    for (index, name) in NAMES.iter().enumerate().take(runs.len()) {
        let heading = if runs.len() > 1 { name } else { "VALUE" };
        columns.push(Column::figure(heading, 8));
        if index > 0 {
            columns.push(Column::figure(DIFFERENCES[index], 1));
        }
    }
    let rows = all_figures(&first.report).into_iter().map(|figure| {
        let Figure { name, unit, value } = figure;
        let base = value(&first.report);
        let mut cells = vec![name];
        for (index, run) in runs.iter().enumerate() {
            let here = value(&run.report);
            cells.push(here.map_or_else(|| "-".to_owned(), |here| unit.format(here, false)));
            if index > 0 {
                let difference = here.zip(base).map(|(here, base)| here - base);
                cells.push(
                    difference.map_or_else(String::new, |difference| unit.format(difference, true)),
                );
            }
        }
        cells
    });
    Table::new(columns, rows)
}

fn queues(runs: &[Run], view: View) -> String {
    let Some((table, note)) = queue_table(runs) else {
        return String::new();
    };
    let note = view.paint(Colour::Faint, &view.sentence(&note));
    format!("{}\n{note}", table.shown(view))
}

/// A row for each queue and configuration, and the meaning of the columns.
pub(super) fn queue_table(runs: &[Run]) -> Option<(Table, String)> {
    let first = runs.first()?;
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
        Column::figure("HELD", 7),
    ]);
    // One resource has to do for the last column: the one with the highest utilization.
    let busiest = resources.iter().max_by(|one, other| {
        let utilization =
            |name: &String| first.report.utilization.get(name).copied().unwrap_or(0.0);
        utilization(one).total_cmp(&utilization(other))
    });
    let rows = first.report.queues.keys().flat_map(|name| {
        runs.iter()
            .zip(NAMES)
            .enumerate()
            .filter_map(move |(index, (run, letter))| {
                let queue = run.report.queues.get(name)?;
                let waits = queue.wait_seconds.as_ref();
                let wait = |figure: fn(&Spread) -> f64| {
                    waits.map_or_else(|| "-".to_owned(), |waits| time(figure(waits)))
                };
                let mut cells = vec![if index == 0 {
                    name.clone()
                } else {
                    String::new()
                }];
                if several {
                    cells.push(letter.to_owned());
                }
                cells.push(queue.finished.to_string());
                cells.extend([
                    wait(|waits| waits.p50),
                    wait(|waits| waits.p95),
                    wait(|waits| waits.p99),
                    wait(|waits| waits.max),
                ]);
                cells.push(queue.preempted_pods.to_string());
                cells.push(queue.reclaimed_pods.to_string());
                let held = busiest.and_then(|resource| queue.utilization.get(*resource));
                cells.push(Unit::Percent.format(held.copied().unwrap_or(0.0), false));
                Some(cells)
            })
    });
    let table = Table::new(columns, rows.collect::<Vec<_>>());
    let resource = busiest.map_or("", |resource| resource.as_str());
    let note = format!(
        "P50 to LONGEST: from arrival to start, - if no job started. HELD: of the {resource} of the cluster, on average."
    );
    Some((table, note))
}

fn unfinished(run: &Run, view: View) -> Option<String> {
    let summary = unfinished_headline(run)?;
    let table = unfinished_table(run, MAX_UNFINISHED).shown(view);
    Some(format!("{}\n{table}", view.sentence(&summary)))
}

/// How many jobs have not ended; `None` if all have.
pub(super) fn unfinished_headline(run: &Run) -> Option<String> {
    let unfinished = &run.report.unfinished;
    let first = unfinished.first()?;
    Some(match unfinished.len() {
        1 => format!("{}: {} has not ended.", run.conf, first.job),
        count => format!("{}: {count} jobs have not ended.", run.conf),
    })
}

pub(super) fn unfinished_table(run: &Run, most: usize) -> Table {
    let unfinished = &run.report.unfinished;
    let columns = [
        Column::name("JOB", 5),
        Column::name("QUEUE", 4),
        Column::sentence("WHY IT HAS NOT ENDED", 3),
    ];
    let rows = unfinished.iter().take(most).map(|job| {
        let cells = vec![job.job.clone(), job.queue.clone(), job.reason.clone()];
        Row::from(cells).coloured(Some(Colour::Bad))
    });
    Table::new(columns, rows)
}

impl Unit {
    /// Formats a figure. A difference has a sign, unless it is shown as zero.
    fn format(self, figure: f64, signed: bool) -> String {
        let text = match self {
            Self::Count => format!("{:.0}", figure.abs()),
            Self::Percent => format!("{:.1} %", figure.abs() * 100.0),
            Self::Index => format!("{:.3}", figure.abs()),
            Self::Time => time(figure.abs()),
        };
        let is_zero = !text.contains(|c: char| ('1'..='9').contains(&c));
        match (signed && !is_zero, figure < 0.0) {
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
    fn figures_have_units_and_differences_have_signs() {
        for (unit, figure, signed, expected) in [
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
            assert_eq!(unit.format(figure, signed), expected);
        }
    }
}
