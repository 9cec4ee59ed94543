//! The events of a job.

use evictd_command::{Column, Table, View};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};

/// A v1 Event. Recorders of `events.k8s.io` and of the core group fill in different fields.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Event {
    #[serde(rename = "type")]
    kind: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    count: Option<i32>,
    first_timestamp: Option<Timestamp>,
    last_timestamp: Option<Timestamp>,
    #[serde(rename = "eventTime")]
    time: Option<Timestamp>,
    series: Option<Series>,
    source: Option<Source>,
    reporting_component: Option<String>,
}

/// Repeats of an event.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Series {
    count: i32,
    last_observed_time: Option<Timestamp>,
}

/// The recorder of an event of the core group.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default)]
struct Source {
    component: String,
}

impl Event {
    fn first_time(&self) -> Option<Timestamp> {
        self.first_timestamp.or(self.time)
    }

    fn last_time(&self) -> Option<Timestamp> {
        let repeated = self
            .series
            .as_ref()
            .and_then(|series| series.last_observed_time);
        // `events.k8s.io` has a series, the core group has timestamps.
        repeated.or(self.last_timestamp).or(self.first_time())
    }

    fn count(&self) -> i32 {
        let repeated = self.series.as_ref().map(|series| series.count);
        repeated.or(self.count).unwrap_or(1)
    }

    fn recorder(&self) -> &str {
        let component = self.source.as_ref().map(|source| source.component.as_str());
        let component = component.filter(|component| !component.is_empty());
        component
            .or(self.reporting_component.as_deref())
            .unwrap_or_default()
    }
}

/// Sorts events by their last time.
pub(super) fn sorted(mut events: Vec<Event>) -> Vec<Event> {
    events.sort_by_key(Event::last_time);
    events
}

/// A table with ages at `now`.
pub(super) fn table(events: &[Event], now: Timestamp, view: View) -> String {
    if events.is_empty() {
        return "Events:  <none>".to_owned();
    }
    let since = |time: Option<Timestamp>| {
        time.map_or_else(
            || "<unknown>".to_owned(),
            |time| age(now.duration_since(time)),
        )
    };
    let rows = events.iter().map(|event| {
        let age = match event.count() {
            count if count > 1 => {
                format!(
                    "{} (x{count} over {})",
                    since(event.last_time()),
                    since(event.first_time())
                )
            }
            _ => since(event.last_time()),
        };
        let text = |text: &Option<String>| text.clone().unwrap_or_default();
        vec![
            text(&event.kind),
            text(&event.reason),
            age,
            event.recorder().to_owned(),
            text(&event.message).trim().to_owned(),
        ]
    });
    let columns = [
        Column::words("Type", 5),
        Column::words("Reason", 6),
        Column::words("Age", 4),
        Column::words("From", 2),
        Column::sentence("Message", 9),
    ];
    format!("Events:\n{}", Table::new(columns, rows).shown(view))
}

/// Formats an age as kubectl does: two units while the larger one is small, otherwise one.
fn age(age: SignedDuration) -> String {
    let seconds = age.as_secs().max(0);
    let two = |larger: i64, large: &str, smaller: i64, small: &str| match smaller {
        0 => format!("{larger}{large}"),
        _ => format!("{larger}{large}{smaller}{small}"),
    };
    let (minutes, hours, days) = (seconds / 60, seconds / 3600, seconds / 86_400);
    match () {
        () if minutes < 2 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if hours < 3 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () => format!("{days}d"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_age_has_two_units_only_while_the_larger_one_is_small() {
        for (seconds, expected) in [
            (-5, "0s"),
            (119, "119s"),
            (120, "2m"),
            (125, "2m5s"),
            (3599, "59m"),
            (3 * 3600 + 60, "3h1m"),
            (8 * 3600, "8h"),
            (3 * 86_400 + 3600, "3d1h"),
            (400 * 86_400, "400d"),
        ] {
            assert_eq!(age(SignedDuration::from_secs(seconds)), expected);
        }
    }

    #[test]
    fn s6_147_events_of_both_groups_are_shown_with_their_repeats() {
        let read = |text: &str| serde_json::from_str::<Event>(text).unwrap();
        let old = read(
            r#"{"type": "Normal", "reason": "ExecuteAction", "message": "Start ", "count": 3, "source": {"component": "vc"},
                "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:05:00Z"}"#,
        );
        let new = read(
            r#"{"type": "Warning", "reason": "PodGroupPending", "message": "it waits", "source": {}, "count": null,
                "eventTime": "2026-01-01T00:01:00.000000Z", "reportingComponent": "evictd-batch"}"#,
        );
        let now = "2026-01-01T00:06:00Z".parse().unwrap();
        let table = table(&sorted(vec![old, new]), now, View::WHOLE);
        let lines: Vec<Vec<&str>> = table
            .lines()
            .map(|line| {
                line.split("  ")
                    .map(str::trim)
                    .filter(|cell| !cell.is_empty())
                    .collect()
            })
            .collect();
        assert_eq!(lines[1], ["Type", "Reason", "Age", "From", "Message"]);
        assert_eq!(
            lines[2],
            [
                "Warning",
                "PodGroupPending",
                "5m",
                "evictd-batch",
                "it waits"
            ]
        );
        assert_eq!(
            lines[3],
            ["Normal", "ExecuteAction", "60s (x3 over 6m)", "vc", "Start"]
        );
    }
}
