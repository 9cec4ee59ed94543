//! Reclaims of evictd on the node without an eviction, by its events.

use crate::cli::table::moment;
use evictd_command::View;
use evictd_node::RECLAIMED;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// How many are shown.
const SHOWN: usize = 3;

/// A reclaim at a time.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Freed {
    time: Timestamp,
    /// The signal and the removed objects.
    message: String,
}

/// The path of the events about this node.
pub(super) fn path(node: &str) -> String {
    format!(
        "/api/v1/namespaces/default/events\
         ?fieldSelector=involvedObject.kind%3DNode,involvedObject.name%3D{node},reason%3D{RECLAIMED}"
    )
}

#[derive(Deserialize)]
struct List {
    items: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "eventTime")]
    time: Option<Timestamp>,
    #[serde(default)]
    message: String,
    series: Option<Series>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Series {
    last_observed_time: Option<Timestamp>,
}

/// The newest of them, the newest first.
pub(super) fn parse(text: &str) -> serde_json::Result<Vec<Freed>> {
    let list: List = serde_json::from_str(text)?;
    let freed = |event: Event| {
        let repeated = event.series.and_then(|series| series.last_observed_time);
        let time = repeated.or(event.time)?;
        Some(Freed {
            time,
            message: event.message,
        })
    };
    let mut freed: Vec<Freed> = list.items.into_iter().filter_map(freed).collect();
    freed.sort_by_key(|freed| Reverse(freed.time));
    freed.truncate(SHOWN);
    Ok(freed)
}

/// A line for each.
pub(super) fn lines(freed: &[Freed]) -> Vec<String> {
    let lines = freed
        .iter()
        .map(|freed| format!("{}: {}", moment(freed.time), freed.message));
    lines.collect()
}

pub(super) fn page(freed: &[Freed], view: View) -> Option<String> {
    let lines = freed
        .iter()
        .map(|freed| view.hanging(&format!("  {}  ", moment(freed.time)), &freed.message));
    let lines: Vec<String> = lines.collect();
    let head =
        view.sentence("Freed by evictd before a pod had to go (kept for as long as events are):");
    (!lines.is_empty()).then(|| format!("{head}\n{}", lines.join("\n")))
}
