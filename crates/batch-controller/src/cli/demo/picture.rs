//! A scene of the demo as a page, and what it came to in the end.

use super::play::{CORES, Report, Scene};
use evictd_command::{Colour, Column, Table, View};

/// Columns of a core.
const CORE: usize = 7;
/// So much of what has happened is shown.
const LINES: usize = 10;

/// Nodes, queues, and what has happened so far.
pub(super) fn page(scene: &Scene, view: View) -> String {
    let head = format!(
        "{}  two queues of equal weight, four nodes",
        clock(scene.seconds)
    );
    let parts = [
        view.paint(Colour::Strong, &head),
        nodes(scene, view),
        queues(scene, view),
        log(&scene.log[scene.log.len().saturating_sub(LINES)..], view),
    ];
    parts.join("\n\n")
}

/// Minutes and seconds.
fn clock(seconds: i64) -> String {
    format!("{}:{:02}", seconds / 60, seconds % 60)
}

fn colour(queue: &str, going: bool) -> Colour {
    match (going, queue) {
        (true, _) => Colour::Bad,
        (_, "production") => Colour::Good,
        _ => Colour::Warning,
    }
}

/// A line for each node, a block for each pod as wide as it has cores.
fn nodes(scene: &Scene, view: View) -> String {
    let lines = scene.nodes.iter().map(|(name, blocks)| {
        let mut line = format!("{name}  ");
        let mut left = CORES;
        for block in blocks {
            left = left.saturating_sub(block.cores);
            let mark = if block.going { "x " } else { "" };
            let width = (block.cores as usize * CORE).saturating_sub(2);
            let name = format!("{mark}{}", block.pod.replace("-pod-", "-"));
            let text = format!("[{name:<width$.width$}]");
            line.push_str(&view.paint(colour(block.queue, block.going), &text));
        }
        let free = format!("{:<CORE$}", " .").repeat(left as usize);
        line.push_str(&view.paint(Colour::Faint, &free));
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn queues(scene: &Scene, view: View) -> String {
    let rows = scene.queues.iter().map(|(name, own)| {
        vec![
            (*name).to_owned(),
            own.holds.to_string(),
            own.waits.to_string(),
            format!("{:.0}", own.deserves),
        ]
    });
    let columns = [
        Column::name("QUEUE", 4),
        Column::figure("HOLDS", 3),
        Column::figure("WAITS", 2),
        Column::figure("DESERVES", 1),
    ];
    Table::new(columns, rows).shown(view)
}

fn log(lines: &[(i64, String)], view: View) -> String {
    let lines = lines.iter();
    let lines = lines.map(|(at, what)| view.hanging(&format!("{:>5}  ", clock(*at)), what));
    lines.collect::<Vec<_>>().join("\n")
}

/// What has happened, as far as it was not shown before, and whether it was what was expected.
pub(super) fn summary(report: &Report, happened: &[(i64, String)], view: View) -> String {
    let checks = report.checks.iter().map(|check| {
        let (mark, colour) = if check.holds {
            ("ok   ", Colour::Good)
        } else {
            ("NOT  ", Colour::Bad)
        };
        view.paint(colour, &view.hanging(mark, check.what))
    });
    let checks = checks.collect::<Vec<_>>().join("\n");
    if happened.is_empty() {
        return format!("\n{checks}");
    }
    format!("{}\n\n{checks}", log(happened, view))
}
