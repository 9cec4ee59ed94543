//! The page of `evictd-scheduler top`, for any size.

use super::{Decision, Frame};
use crate::cli::pending::{Pending, PendingPod};
use evictd_command::{Colour, Column, Section, Table, View, age};
use jiff::Timestamp;
use std::cmp::Reverse;
use std::collections::HashMap;

/// The queues in the order in which their pods are shown: pods of the last one are tried soon.
const QUEUES: [&str; 4] = ["unschedulable", "gated", "backoff", "active"];

/// Waiting pods of one queue with the same message.
struct Waiting<'a> {
    first: &'a PendingPod,
    pods: usize,
    /// The last attempt that is the longest ago.
    since: Timestamp,
}

impl Frame {
    /// One page. `lost` says why the data is old.
    pub(super) fn page(&self, lost: Option<&str>, view: View, rows: Option<usize>) -> String {
        let mut head = vec![view.paint(Colour::Strong, &self.title())];
        if let Some(why) = lost {
            head.push(view.paint(Colour::Bad, &view.sentence(why)));
        }
        head.push(view.hanging("queues    ", &self.queues()));
        head.push(view.hanging("attempts  ", &self.rate()));
        head.extend(
            self.sessions()
                .map(|line| view.hanging("sessions  ", &line)),
        );
        let (title, waiting) = waiting(&self.pending, view);
        let sections = [
            Section::head(&head.join("\n")),
            Section::new(title, &waiting).giving_way(),
            Section::new("last decisions", &self.decisions(view)).giving_way(),
        ];
        Section::page(&sections, view, rows)
    }

    fn title(&self) -> String {
        let count = |kind| {
            self.samples
                .whole("scheduler_cache_size", &[("type", kind)])
        };
        let leads = self.samples.by("leader_election_master_status", "name");
        let role = match leads.as_slice() {
            [] => "runs",
            leads if leads.iter().any(|(_, leads)| *leads > 0.0) => "leads",
            _ => "does not lead",
        };
        format!(
            "evictd-scheduler at {} {role}: {} nodes, {} pods    q quits",
            self.server,
            count("nodes"),
            count("pods"),
        )
    }

    fn queues(&self) -> String {
        let lengths = QUEUES.iter().rev().map(|queue| {
            let length = self
                .samples
                .whole("scheduler_pending_pods", &[("queue", queue)]);
            format!("{queue} {length}")
        });
        let mut lengths: Vec<String> = lengths.collect();
        let incomplete = [("queue", "incomplete")];
        let incomplete = self.samples.whole("scheduler_pending_pods", &incomplete);
        // Only clusters with pod groups have such pods.
        if !matches!(&*incomplete, "0" | "-") {
            lengths.push(format!("incomplete {incomplete}"));
        }
        lengths.join(", ")
    }

    fn rate(&self) -> String {
        let results = ["scheduled", "unschedulable", "error"];
        let rates = self
            .rates
            .map(|it| [it.scheduled, it.unschedulable, it.error]);
        let parts = results.iter().enumerate().map(|(at, result)| {
            let rate = rates.map_or("-".to_owned(), |rates| format!("{:.1}", rates[at]));
            format!("{result} {rate}/s ({:.0})", self.attempts(result))
        });
        let parts: Vec<String> = parts.collect();
        format!("{}; in brackets all", parts.join(", "))
    }

    /// The newest first.
    fn decisions(&self, view: View) -> String {
        if self.decisions.is_empty() {
            return "none yet".to_owned();
        }
        let rows = self.decisions.iter().rev().map(|decision| {
            let age = age_at(self.pending.time, decision.time);
            vec![age, decision.pod.clone(), outcome(decision)]
        });
        let columns = [
            Column::figure("AGE", 3),
            Column::name("POD", 4),
            Column::sentence("DECISION", 5),
        ];
        Table::new(columns, rows).fitted(view).text
    }

    /// Of batch sessions, if the scheduler runs them.
    fn sessions(&self) -> Option<String> {
        let sessions = self.samples.batch_sessions()?;
        Some(format!(
            "{sessions}; `evictd-batch top --server` shows the shares of queues"
        ))
    }
}

/// The time from then to the scheduler's own time, which a scheduler of an earlier version does not send.
fn age_at(now: Option<Timestamp>, since: Timestamp) -> String {
    let age = now.map(|now| age(now.duration_since(since).as_secs()));
    age.unwrap_or_else(|| "-".to_owned())
}

/// The title and the table of the waiting pods.
fn waiting(pending: &Pending, view: View) -> (String, String) {
    let title = match pending.count.saturating_sub(pending.pods.len()) {
        0 => "what pods wait on".to_owned(),
        _ => format!(
            "what pods wait on, {} of {} pods",
            pending.pods.len(),
            pending.count
        ),
    };
    if pending.pods.is_empty() {
        return (title, view.paint(Colour::Good, "No pod is pending."));
    }
    let rows = grouped(&pending.pods).into_iter().map(|group| {
        let pod = group.first;
        let others = match group.pods - 1 {
            0 => String::new(),
            others => format!("+{others}"),
        };
        vec![
            pod.pod.clone(),
            others,
            pod.pool.clone(),
            age_at(pending.time, group.since),
            pod.plugins.join(", "),
            reason(pod),
        ]
    });
    let columns = [
        Column::name("POD", 6),
        Column::figure("MORE", 5),
        Column::words("QUEUE", 4),
        Column::figure("SINCE", 3),
        Column::sentence("REJECTED BY", 1),
        Column::sentence("WAITS ON", 6),
    ];
    (title, Table::new(columns, rows).fitted(view).text)
}

/// The waiting pods by queue and message: the largest group of a queue first.
fn grouped(pods: &[PendingPod]) -> Vec<Waiting<'_>> {
    let mut groups: Vec<Waiting<'_>> = Vec::new();
    let mut known = HashMap::new();
    for pod in pods {
        let key = (&pod.pool, &pod.plugins, &pod.message, &pod.nominated);
        let at = *known.entry(key).or_insert(groups.len());
        match groups.get_mut(at) {
            Some(group) => {
                group.pods += 1;
                group.since = group.since.min(pod.since);
            }
            None => groups.push(Waiting {
                first: pod,
                pods: 1,
                since: pod.since,
            }),
        }
    }
    let queue = |pod: &PendingPod| QUEUES.iter().position(|queue| *queue == pod.pool);
    groups.sort_by_key(|group| (queue(group.first), Reverse(group.pods), group.since));
    groups
}

fn reason(pod: &PendingPod) -> String {
    match &pod.nominated {
        Some(node) => format!("{node} is being freed for it"),
        None if pod.message.is_empty() && pod.plugins.is_empty() => "its turn".to_owned(),
        None => first_sentence(&pod.message).to_owned(),
    }
}

/// `3 Insufficient cpu` of `0/3 nodes are available: 3 Insufficient cpu.` and what follows about preemption.
fn first_sentence(message: &str) -> &str {
    let first = message.split_once(". ").map_or(message, |(first, _)| first);
    let first = first.trim_end_matches('.');
    match first.split_once(" nodes are available: ") {
        Some((_, reasons)) => reasons,
        None => first,
    }
}

fn outcome(decision: &Decision) -> String {
    let message = decision.message.as_deref().map(first_sentence);
    match (&decision.node, &decision.nominated, message) {
        (Some(node), _, Some(message)) => format!("{node}, {message}"),
        (Some(node), _, None) => match decision.score {
            Some(score) => format!("{node}, score {score}, of {} nodes", decision.feasible),
            None => format!("{node}, the only one that fits"),
        },
        (None, Some(node), _) => {
            let victims = decision.victims.len();
            format!("preempts {victims} pods on {node}")
        }
        (None, None, message) => message.unwrap_or("not placed").to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_daemon::metrics::Samples;
    use serde_json::{Value, json};
    use tokio::time::Instant;

    fn pod(name: &str, pool: &str, since: &str, message: &str) -> Value {
        json!({
            "pod": name, "pool": pool, "since": since, "attempts": 3, "plugins": ["NodeResourcesFit"],
            "wakes": [], "message": message, "nominated": null,
        })
    }

    fn frame() -> Frame {
        let full = "0/3 nodes are available: 3 Insufficient cpu. preemption: 0/3 nodes are available: 3 no victims.";
        let mut pods: Vec<Value> = (0..30)
            .map(|index| {
                pod(
                    &format!("shop/web-{index}"),
                    "unschedulable",
                    "2026-11-21T23:20:00Z",
                    full,
                )
            })
            .collect();
        pods.insert(0, pod("shop/next", "active", "2026-11-21T23:29:00Z", ""));
        pods.push(pod(
            "shop/evil\u{1b}[2J",
            "unschedulable",
            "2026-11-21T23:00:00Z",
            "a\u{1b}[2Jb",
        ));
        let pending = json!({ "time": "2026-11-21T23:30:00Z", "count": 1032, "pods": pods });
        let decisions: Vec<Value> = (0..20)
            .map(|index| {
                json!({
                    "time": "2026-11-21T23:29:59Z", "pod": format!("shop/done-{index}"), "attempt": 1, "feasible": 2,
                    "node": "one", "score": 281, "message": null, "nominated": null, "victims": [],
                })
            })
            .collect();
        let samples = "scheduler_pending_pods{queue=\"active\"} 1\nscheduler_pending_pods{queue=\"unschedulable\"} 1031\n\
            scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"a\"} 40\n\
            scheduler_cache_size{type=\"nodes\"} 3\nleader_election_master_status{name=\"x\"} 1\n";
        Frame {
            server: "https://127.0.0.1:10259".to_owned(),
            pending: serde_json::from_value(pending).unwrap(),
            decisions: serde_json::from_value(decisions.into()).unwrap(),
            samples: Samples::parse(samples),
            taken: Instant::now(),
            rates: None,
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
            "leads: 3 nodes, - pods",
            "active 1, backoff -, gated -, unschedulable 1031",
            "scheduled -/s (40)",
            "32 of 1032 pods",
            "shop/web-0",
            "+29",
            "10m",
            "3 Insufficient cpu",
            "shop/done-19",
            "one, score 281, of 2 nodes",
        ] {
            assert!(page.contains(shown), "{shown}\n{page}");
        }
        assert!(
            !page.contains("\u{1b}[2J") && !page.contains("no victims"),
            "{page}"
        );
        frame.rates = frame.rates_since(&Frame {
            samples: Samples::default(),
            taken: frame.taken - std::time::Duration::from_secs(4),
            ..self::frame()
        });
        let page = frame.page(Some("nothing answers"), View::WHOLE, None);
        assert!(
            page.contains("scheduled 10.0/s (40)") && page.contains("nothing answers"),
            "{page}"
        );
        assert!(
            page.contains("shop/done-0"),
            "a pipe gets everything\n{page}"
        );
    }

    #[test]
    fn counters_that_fall_give_no_rate() {
        let (old, mut new) = (frame(), frame());
        new.taken += std::time::Duration::from_secs(1);
        new.samples = Samples::default();
        assert_eq!(new.rates_since(&old), None);
    }
}
