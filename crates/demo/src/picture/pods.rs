//! The pods: name, usage and state.

use super::{BAD, FAINT, GOOD, SPECIAL, STRONG, WARNING, amount, bar, eighths};
use crate::scene::{Fate, PodLine, Scene};
use evictd_signals::StarvedResource;
use ratatui::{
    style::Style,
    text::{Line, Span},
};

/// Width of all columns but the bar.
const COLUMNS: usize = 64;

pub(super) fn lines(scene: &Scene, width: usize) -> Vec<Line<'static>> {
    let resource = scene.resource();
    let cells = width.saturating_sub(COLUMNS).max(8);
    let uses = match resource {
        StarvedResource::Memory => "MEMORY",
        StarvedResource::EphemeralStorage => "DISK",
        StarvedResource::Inodes => "INODES",
        StarvedResource::Pids => "THREADS",
        StarvedResource::Io => "I/O",
    };
    let heading = format!(
        "{:<11} {:<11}{:>10} {:>8}  {uses:<cells$} {:>7}  {}",
        "POD", "QOS", "PRIORITY", "REQUEST", "", "STATE"
    );
    let mut lines = vec![Line::styled(
        format!("{heading:<width$}"),
        FAINT.underlined(),
    )];
    let peaks = scene
        .pods
        .iter()
        .map(|pod| pod.peak.max(pod.request.unwrap_or(0)));
    let most = peaks.max().unwrap_or(0);
    lines.extend(
        scene
            .pods
            .iter()
            .map(|pod| line(scene, pod, most, resource, cells)),
    );
    lines
}

fn line(
    scene: &Scene,
    pod: &PodLine,
    most: i64,
    resource: StarvedResource,
    cells: usize,
) -> Line<'static> {
    let show = |value: Option<i64>| value.map_or("-".to_owned(), |it| amount(resource, it));
    let gone = pod.fate == Fate::Gone;
    let usage = pod.usage.filter(|_| !gone);
    let over = pod
        .request
        .is_some_and(|request| usage.is_some_and(|it| it > request));
    let (fate, style) = fate(scene, pod);
    let request = pod.request.filter(|request| *request > 0);
    let marks: Vec<usize> = request
        .map(|request| eighths(request, most, cells) / 8)
        .into_iter()
        .collect();
    let (name, text) = match pod.fate {
        Fate::Gone => (FAINT.crossed_out(), FAINT),
        _ => (STRONG, Style::new()),
    };
    let short = pod.pod.rsplit('/').next().unwrap_or_default().to_owned();
    let room = 11_usize.saturating_sub(short.len());
    let mut spans = vec![
        Span::styled(short, name),
        Span::styled(
            format!(
                "{:room$} {:<11}{:>10} {:>8}  ",
                "",
                pod.qos,
                pod.priority,
                show(request)
            ),
            text,
        ),
    ];
    let (value, filling) = match (gone, over) {
        (true, _) => (pod.peak, ("╌", FAINT)),
        (false, true) => (usage.unwrap_or(0), ("━", WARNING)),
        (false, false) => (usage.unwrap_or(0), ("━", GOOD)),
    };
    let filled = eighths(value, most, cells);
    spans.extend(bar(filled, filling, cells, &marks, (" ", FAINT)));
    spans.push(Span::styled(format!(" {:>7}  ", show(usage)), text));
    spans.push(Span::styled(fate, style));
    Line::from(spans)
}

fn fate(scene: &Scene, pod: &PodLine) -> (&'static str, Style) {
    match pod.fate {
        Fate::Gone => ("✖ evicted", BAD),
        Fate::Going => ("◐ stopping", WARNING.bold()),
        Fate::Alive if pod.critical && scene.act().is_some() => ("◆ spared", SPECIAL.bold()),
        Fate::Alive if pod.critical => ("◆ critical", SPECIAL),
        Fate::Alive => ("● alive", GOOD),
    }
}
