//! The page of `evictd-batch top`, for any size.

use super::Frame;
use crate::cli::queue::GroupCounts;
use evictd_batch_objects::{
    PodGroup, PodGroupCondition, PodGroupConditionType, PodGroupPhase, Queue,
};
use evictd_command::{Colour, Column, Section, Table, View, age};
use evictd_daemon::metrics::Samples;
use evictd_pod::wire::Time;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// The most decisions that are shown.
const DECISIONS: usize = 20;
/// The time over which the rate is counted.
const MINUTE: SignedDuration = SignedDuration::from_secs(60);

impl Frame {
    /// One page. `lost` says why the data is old.
    pub(super) fn page(&self, lost: Option<&str>, view: View, rows: Option<usize>) -> String {
        let title = format!(
            "evictd-batch: {} queues, {} pod groups    q quits",
            self.queues.len(),
            self.groups.len()
        );
        let mut head = vec![view.paint(Colour::Strong, &title)];
        if let Some(why) = lost {
            head.push(view.paint(Colour::Bad, &view.sentence(why)));
        }
        head.push(view.hanging("groups    ", &self.phases()));
        head.extend(
            self.sessions()
                .map(|line| view.hanging("sessions  ", &line)),
        );
        let sections = [
            Section::head(&head.join("\n")),
            Section::new("queues", &self.queues(view)).giving_way(),
            Section::new("what pod groups wait on", &self.waiting(view)).giving_way(),
            Section::new("last decisions", &self.decisions(view)).giving_way(),
        ];
        Section::page(&sections, view, rows)
    }

    fn phases(&self) -> String {
        let all = GroupCounts::of(self.groups.iter());
        let started = self.groups.iter().filter_map(started);
        let recent = |time: &Timestamp| self.now.duration_since(*time) < MINUTE;
        let started = started.filter(recent).count();
        format!(
            "running {}, inqueue {}, pending {}, unknown {}, completed {}; {started} became complete in the last minute",
            all.running, all.inqueue, all.pending, all.unknown, all.completed
        )
    }

    /// The sessions of the scheduler, if one was named.
    fn sessions(&self) -> Option<String> {
        let sessions = self.samples.as_ref()?.batch_sessions();
        Some(sessions.unwrap_or_else(|| "the scheduler runs none".to_owned()))
    }

    /// The queues, the fullest first.
    fn queues(&self, view: View) -> String {
        if self.queues.is_empty() {
            return "No queue exists.".to_owned();
        }
        let mut by_queue: BTreeMap<&str, Vec<&PodGroup>> = BTreeMap::new();
        for group in &self.groups {
            by_queue.entry(&group.spec.queue).or_default().push(group);
        }
        let share = |queue: &Queue| share(queue, self.samples.as_ref());
        let mut queues: Vec<(&Queue, Option<f64>)> = self
            .queues
            .iter()
            .map(|queue| (queue, share(queue)))
            .collect();
        queues.sort_by(|a, b| b.1.unwrap_or(-1.0).total_cmp(&a.1.unwrap_or(-1.0)));
        let rows = queues.into_iter().map(|(queue, share)| {
            let name = queue.metadata.name.as_str();
            let groups = by_queue.get(name).into_iter().flatten().copied();
            let counts = GroupCounts::of(groups);
            let allocated = |resource: &str| {
                let amount = queue.status.allocated.get(resource);
                amount.map_or("-".to_owned(), ToString::to_string)
            };
            vec![
                name.to_owned(),
                queue.status.state.to_string(),
                queue.spec.weight.to_string(),
                share.map_or("-".to_owned(), |share| format!("{:.0}%", share * 100.0)),
                allocated("cpu"),
                allocated("memory"),
                counts.running.to_string(),
                counts.inqueue.to_string(),
                counts.pending.to_string(),
            ]
        });
        let columns = [
            Column::name("QUEUE", 9),
            Column::words("STATE", 3),
            Column::figure("WEIGHT", 1),
            Column::figure("SHARE", 8),
            Column::figure("CPU", 4),
            Column::figure("MEMORY", 2),
            Column::figure("RUNNING", 5),
            Column::figure("INQUEUE", 6),
            Column::figure("PENDING", 7),
        ];
        Table::new(columns, rows).fitted(view).text
    }

    /// The waiting groups by queue, phase and reason: the one that waits longest first.
    fn waiting(&self, view: View) -> String {
        let mut known: BTreeMap<_, (&PodGroup, usize, Timestamp)> = BTreeMap::new();
        for group in &self.groups {
            let phase = &group.status.phase;
            if !matches!(
                phase,
                PodGroupPhase::Unset | PodGroupPhase::Pending | PodGroupPhase::Inqueue
            ) {
                continue;
            }
            let since = created(group).unwrap_or(self.now);
            let key = (&group.spec.queue, phase_name(phase), reason(group));
            let entry = known.entry(key).or_insert((group, 0, since));
            entry.1 += 1;
            if since < entry.2 {
                (entry.0, entry.2) = (group, since);
            }
        }
        if known.is_empty() {
            return view.paint(Colour::Good, "No pod group waits.");
        }
        let mut groups: Vec<_> = known.into_iter().collect();
        groups.sort_by_key(|(_, (_, count, since))| (*since, Reverse(*count)));
        let rows = groups.into_iter().map(|((queue, phase, reason), found)| {
            let (group, count, since) = found;
            let others = match count - 1 {
                0 => String::new(),
                others => format!("+{others}"),
            };
            let waits = age(self.now.duration_since(since).as_secs());
            let (queue, phase) = (queue.clone(), phase.to_owned());
            vec![name(group), others, queue, phase, waits, reason]
        });
        let columns = [
            Column::name("GROUP", 6),
            Column::figure("MORE", 4),
            Column::name("QUEUE", 3),
            Column::words("PHASE", 1),
            Column::figure("AGE", 2),
            Column::sentence("WAITS ON", 5),
        ];
        Table::new(columns, rows).fitted(view).text
    }

    /// The last conditions that sessions have set, the newest first.
    fn decisions(&self, view: View) -> String {
        let mut decisions: Vec<(Timestamp, &PodGroup, &PodGroupCondition)> = Vec::new();
        for group in &self.groups {
            let conditions = group.status.conditions.iter();
            let timed = conditions.filter_map(|it| Some((it.last_transition_time?, it)));
            let last = timed.max_by_key(|(time, _)| *time);
            decisions.extend(last.map(|(time, condition)| (time, group, condition)));
        }
        if decisions.is_empty() {
            return "none yet".to_owned();
        }
        decisions.sort_by_key(|(time, _, _)| Reverse(*time));
        let rows = decisions.into_iter().take(DECISIONS);
        let rows = rows.map(|(time, group, condition)| {
            vec![
                age(self.now.duration_since(time).as_secs()),
                name(group),
                group.spec.queue.clone(),
                outcome(condition),
            ]
        });
        let columns = [
            Column::figure("AGE", 2),
            Column::name("GROUP", 4),
            Column::name("QUEUE", 1),
            Column::sentence("DECISION", 3),
        ];
        Table::new(columns, rows).fitted(view).text
    }
}

/// The allocated part of what a queue deserves: the scheduler's figure, else that of its amounts. `None` if it is unknown.
fn share(queue: &Queue, samples: Option<&Samples>) -> Option<f64> {
    let name = queue.metadata.name.as_str();
    let computed = samples.and_then(|it| it.sum("volcano_queue_share", &[("queue_name", name)]));
    computed.or_else(|| {
        let parts = queue
            .spec
            .deserved
            .iter()
            .filter_map(|(resource, deserved)| {
                let allocated = queue.status.allocated.get(resource)?.milli_value();
                let deserved = deserved.milli_value();
                #[allow(clippy::cast_precision_loss, reason = "shown in whole percent")]
                (deserved > 0).then_some(allocated as f64 / deserved as f64)
            });
        parts.reduce(f64::max)
    })
}

fn created(group: &PodGroup) -> Option<Timestamp> {
    group.metadata.creation_timestamp.map(Time::timestamp)
}

/// When its gang became complete.
fn started(group: &PodGroup) -> Option<Timestamp> {
    let mut conditions = group.status.conditions.iter();
    let condition = conditions.find(|it| it.holds(PodGroupConditionType::Scheduled))?;
    condition.last_transition_time
}

fn name(group: &PodGroup) -> String {
    let metadata = &group.metadata;
    format!("{}/{}", metadata.namespace_or_default(), metadata.name)
}

fn phase_name(phase: &PodGroupPhase) -> &'static str {
    match phase {
        PodGroupPhase::Inqueue => "Inqueue",
        _ => "Pending",
    }
}

/// The message of the last session that could not place it. Without one, the next step of the group.
fn reason(group: &PodGroup) -> String {
    let mut conditions = group.status.conditions.iter();
    let refused = conditions.find(|it| it.holds(PodGroupConditionType::Unschedulable));
    match (refused, &group.status.phase) {
        (Some(condition), _) => condition.message.clone(),
        (None, PodGroupPhase::Inqueue) => "its pods".to_owned(),
        (None, _) => "its queue, to be enqueued".to_owned(),
    }
}

fn outcome(condition: &PodGroupCondition) -> String {
    match condition.message.as_str() {
        "" => format!("{} is {}", condition.kind, condition.status.as_str()),
        message if condition.holds(PodGroupConditionType::Unschedulable) => {
            format!("not placed: {message}")
        }
        message => message.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn frame() -> Frame {
        let group = |index: usize, queue: &str, phase: &str, kind: &str, message: &str| {
            let condition = json!({
                "type": kind, "status": "True", "message": message,
                "lastTransitionTime": format!("2026-11-21T23:29:{index:02}Z"),
            });
            json!({
                "metadata": { "name": format!("train-{index}"), "namespace": "ml", "creationTimestamp": "2026-11-21T23:00:00Z" },
                "spec": { "queue": queue, "minMember": 2 }, "status": { "phase": phase, "conditions": [condition] },
            })
        };
        let gang =
            "2/2 tasks in gang unschedulable: pod group is not ready, 2 Pending, 2 minAvailable";
        let mut groups: Vec<Value> = (0..30)
            .map(|index| group(index, "gold", "Inqueue", "Unschedulable", gang))
            .collect();
        groups.push(group(
            40,
            "iron\u{1b}[2J",
            "Running",
            "Scheduled",
            "tasks in gang are ready to be scheduled",
        ));
        let queues = json!([
            { "metadata": { "name": "iron" }, "spec": { "weight": 1 }, "status": { "state": "Open" } },
            { "metadata": { "name": "gold" }, "spec": { "weight": 4, "deserved": { "cpu": "4", "memory": "8Gi" } },
              "status": { "state": "Open", "allocated": { "cpu": "1", "memory": "6Gi" } } },
        ]);
        Frame {
            now: "2026-11-21T23:30:00Z".parse().unwrap(),
            queues: serde_json::from_value(queues).unwrap(),
            groups: serde_json::from_value(groups.into()).unwrap(),
            samples: None,
        }
    }

    #[test]
    fn a_page_of_80_by_24_shows_queues_reasons_and_decisions() {
        let mut frame = frame();
        let page = frame.page(None, View::of_width(80), Some(24));
        assert!(page.lines().count() <= 24, "{page}");
        for line in page.lines() {
            assert!(line.chars().count() <= 80, "{line}");
        }
        for shown in [
            "2 queues, 31 pod groups",
            "running 1, inqueue 30",
            "75%",
            "ml/train-0",
            "+29",
            "30m",
            "2/2 tasks in gang unschedulable",
            "ml/train-40",
            "tasks in gang are ready",
        ] {
            assert!(page.contains(shown), "{shown}\n{page}");
        }
        assert!(!page.contains('\u{1b}'), "{page}");
        // The scheduler's figure replaces that of the amounts; without either a share is unknown.
        frame.samples = Some(Samples::parse(
            "volcano_queue_share{queue_name=\"gold\"} 1.25\n",
        ));
        let page = frame.page(Some("nothing answers"), View::WHOLE, None);
        assert!(
            page.contains("125%") && page.contains("the scheduler runs none"),
            "{page}"
        );
        let iron = page
            .lines()
            .find(|line| line.starts_with("iron  "))
            .unwrap();
        assert!(iron.split_whitespace().nth(3) == Some("-"), "{iron}");
    }
}
