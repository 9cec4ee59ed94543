//! A scene of the demo as a page, and the summary at the end.

use super::scenario::{CORES, LogLine, Report, Scene};
use evictd_command::{Colour, Column, Table, View};

/// The width of a core in characters.
const CORE_WIDTH: usize = 7;
/// The number of log lines in a scene.
const LOG_LINES: usize = 10;

/// Nodes, queues, and the last lines of the log.
pub(super) fn page(scene: &Scene, view: View) -> String {
    let head = format!(
        "{}  two queues of equal weight, four nodes",
        clock(scene.seconds)
    );
    let parts = [
        view.paint(Colour::Strong, &head),
        nodes(scene, view),
        queues(scene, view),
        log(
            &scene.log[scene.log.len().saturating_sub(LOG_LINES)..],
            view,
        ),
    ];
    parts.join("\n\n")
}

fn clock(seconds: i64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn colour(queue: &str, is_terminating: bool) -> Colour {
    match (is_terminating, queue) {
        (true, _) => Colour::Bad,
        (_, "production") => Colour::Good,
        _ => Colour::Warning,
    }
}

/// A line for each node. The width of a pod shows its cores.
fn nodes(scene: &Scene, view: View) -> String {
    let lines = scene.nodes.iter().map(|(name, pods)| {
        let mut line = format!("{name}  ");
        let mut idle = CORES;
        for pod in pods {
            idle = idle.saturating_sub(pod.cores);
            let mark = if pod.is_terminating { "x " } else { "" };
            let width = (pod.cores as usize * CORE_WIDTH).saturating_sub(2);
            let name = format!("{mark}{}", pod.name.replace("-pod-", "-"));
            let text = format!("[{name:<width$.width$}]");
            line.push_str(&view.paint(colour(pod.queue, pod.is_terminating), &text));
        }
        let free = format!("{:<CORE_WIDTH$}", " .").repeat(idle as usize);
        line.push_str(&view.paint(Colour::Faint, &free));
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn queues(scene: &Scene, view: View) -> String {
    let rows = scene.queues.iter().map(|(name, queue)| {
        vec![
            (*name).to_owned(),
            queue.allocated.to_string(),
            queue.pending.to_string(),
            format!("{:.0}", queue.deserved),
        ]
    });
    let columns = [
        Column::name("QUEUE", 4),
        Column::figure("ALLOCATED", 3),
        Column::figure("PENDING", 2),
        Column::figure("DESERVED", 1),
    ];
    Table::new(columns, rows).shown(view)
}

fn log(lines: &[LogLine], view: View) -> String {
    let lines: Vec<String> = lines
        .iter()
        .map(|line| view.hanging(&format!("{:>5}  ", clock(line.seconds)), &line.text))
        .collect();
    lines.join("\n")
}

/// The checks, after the log lines that were not shown yet.
pub(super) fn summary(report: &Report, new_lines: &[LogLine], view: View) -> String {
    let checks = report.checks.iter().map(|check| {
        let (mark, colour) = if check.holds {
            ("ok   ", Colour::Good)
        } else {
            ("NOT  ", Colour::Bad)
        };
        view.paint(colour, &view.hanging(mark, check.what))
    });
    let checks = checks.collect::<Vec<_>>().join("\n");
    if new_lines.is_empty() {
        return format!("\n{checks}");
    }
    format!("{}\n\n{checks}", log(new_lines, view))
}
