//! `evictd history`: past evictions with all the evidence kept of each.

mod contents;
mod html;

use super::daemon::Daemon;
use super::outcome::{gone, shortfall};
use super::ranking;
use super::table::{amount, moment, or_dash, used};
use anyhow::anyhow;
use clap::Args;
use evictd_command::{Colour, Column, Failure, PageOutput, Row, Table, View, warn};
use evictd_decision::record::{Ended, Kind, Outcome, Publication, Record};
use evictd_reclaim::Reclaimed;
use evictd_signals::pressure;
use serde::Deserialize;
use serde_json::Value;
use std::collections::HashMap;
use std::fmt::Write;

const EXAMPLE: &str = "Example:
  evictd history
  evictd history 1a2006d362d-1
  evictd history -o json | jq '.[] | select(.kind == \"hard\") | .pod'";

/// Past evictions, oldest first; one of them in full when its id is given.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// Show this decision with all its evidence.
    #[arg(value_name = "ID")]
    id: Option<String>,
    #[command(flatten)]
    daemon: Daemon,
    #[command(flatten)]
    output: PageOutput,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let all = latest(records(self.daemon.get("/v1/history")?));
        let problem = problem(&self.daemon.get("/v1/status")?);
        if let Some(problem) = &problem {
            warn("evictd", problem);
        }
        let Some(id) = self.id else {
            return self.output.print(
                &all,
                |all, view| list(all, problem.is_some(), view),
                |all| html::html_of_all(all, problem.as_deref()),
            );
        };
        let one = all.iter().find(|record| record.id == id).ok_or_else(|| {
            let listed = "`evictd history` lists them";
            Failure::Input(match &problem {
                None => anyhow!("no decision {id:?} is kept; {listed}"),
                Some(_) => {
                    anyhow!("no decision {id:?} is known, and the history is incomplete; {listed}")
                }
            })
        })?;
        self.output.print(one, evidence, html::html)
    }
}

/// Why the records may be incomplete.
pub(super) fn problem(status: &Value) -> Option<String> {
    let error = status["history"]["error"].as_str()?;
    Some(format!("the history is incomplete: {error}"))
}

/// Records of another version that cannot be parsed are left out.
pub(super) fn records(all: Value) -> Vec<Record> {
    let Value::Array(records) = all else {
        return Vec::new();
    };
    let known = records.into_iter().map(Record::deserialize);
    // A record of another version may be beyond this one; the others are shown.
    known.filter_map(Result::ok).collect()
}

/// A decision has a record when it is made, and another with its outcome: only the last one counts.
pub(super) fn latest(records: Vec<Record>) -> Vec<Record> {
    let mut kept: Vec<Record> = Vec::with_capacity(records.len());
    let mut places: HashMap<String, usize> = HashMap::new();
    for record in records {
        let place = *places.entry(record.id.clone()).or_insert(kept.len());
        match kept.get_mut(place) {
            // The last record of a decision has its outcome; it keeps the place of the first.
            Some(earlier) => *earlier = record,
            None => kept.push(record),
        }
    }
    kept
}

/// The message of the pod's status; if no pod was evicted, why not.
fn words(record: &Record) -> String {
    match &record.message {
        Some(message) => message.clone(),
        None => format!("no pod: {}", or_dash(record.why.as_ref())),
    }
}

fn list(all: &[Record], lacks_some: bool, view: View) -> String {
    if all.is_empty() {
        let sentence = if lacks_some {
            "No eviction is known, and the history cannot be read or written: there may have been some."
        } else {
            "Nothing was ever evicted."
        };
        return sentence.to_owned();
    }
    table(all).shown(view)
}

fn table(all: &[Record]) -> Table {
    let rows = all.iter().map(|record| {
        Row::from(vec![
            moment(record.time),
            record.id.clone(),
            record.signal.clone().into_owned(),
            record.kind.as_str().to_owned(),
            or_dash(record.pod.as_ref()),
            or_dash(record.grace_period_seconds),
            gone(record),
            or_dash(record.publication.as_ref().map(Publication::state)),
            words(record),
        ])
        .coloured(failed(record).then_some(Colour::Warning))
    });
    let columns = [
        Column::words("TIME", 7),
        Column::words("ID", 6),
        Column::words("SIGNAL", 5),
        Column::words("KIND", 4),
        Column::name("POD", 9),
        Column::figure("GRACE", 1),
        Column::sentence("GONE AFTER", 8).at_least(10),
        Column::words("CLUSTER", 2),
        Column::sentence("MESSAGE", 3),
    ];
    Table::new(columns, rows)
}

/// Whether the pod had to leave but is still there.
fn failed(record: &Record) -> bool {
    !record.dry_run && shortfall(record).is_some()
}

/// The times from the first observation past the threshold to the exit of the last process, step by step.
fn reaction(ended: Option<&Ended>) -> String {
    let mut words = "crossed".to_owned();
    let Some(ended) = ended else {
        return words;
    };
    let steps = [
        ("decided", ended.crossed_to_decided_seconds),
        ("first signal", ended.first_signal_seconds),
        ("gone", ended.last_process_gone_seconds),
    ];
    let mut since = 0.0;
    for (step, seconds) in steps {
        let Some(seconds) = seconds else { break };
        // The first time counts from the crossing, the others from the decision.
        let took = if step == "decided" {
            seconds
        } else {
            seconds - since
        };
        since = if step == "decided" { 0.0 } else { seconds };
        let _ = write!(words, " -> {step} {:.1} ms", took.max(0.0) * 1000.0);
    }
    match ended.reaction_seconds {
        Some(all) => format!("{words}; {:.1} ms in all", all * 1000.0),
        None => words,
    }
}

/// Whether the cluster was informed.
fn cluster(record: &Record) -> String {
    let publication = record.publication.as_ref();
    let state = or_dash(publication.map(Publication::state));
    match publication.and_then(Publication::why) {
        Some(why) => format!("{state}: {why}"),
        None => state,
    }
}

/// The pod's owner, and how many of its pods were evicted here recently.
fn owner(record: &Record) -> String {
    let counted = record.owner.as_ref();
    or_dash(counted.map(|counted| {
        let (owner, evictions) = (&counted.owner, counted.evictions);
        format!("{owner}, {evictions} of its pods evicted here recently")
    }))
}

/// `succeeded after 212 ms: dumped to ..`: how the pre-kill hook went, and the beginning of its output.
fn hook(ended: Option<&Ended>) -> String {
    let Some(hook) = ended.and_then(|ended| ended.hook.as_ref()) else {
        return or_dash(None::<&str>);
    };
    let mut words = format!("{} after {} ms", hook.outcome.as_str(), hook.milliseconds);
    for text in [hook.detail.as_str(), hook.output.trim()] {
        if !text.is_empty() {
            let _ = write!(words, ": {}", text.escape_debug());
        }
    }
    words
}

/// Everything that is known of one decision.
fn evidence(record: &Record, view: View) -> String {
    let mut page = page(view, &facts(record));
    for (heading, table) in contents::tables(record) {
        let _ = write!(page, "\n{heading}:\n{}\n", table.shown(view));
    }
    if !record.ranking.is_empty() {
        let ranking = ranking::recorded(record).shown(view);
        let _ = writeln!(page, "\n{ranking}");
    }
    page
}

/// A heading and a value.
type Fact = (&'static str, String);

/// The facts about one decision, without the ranking.
fn facts(record: &Record) -> Vec<Fact> {
    match record.kind {
        Kind::Admission | Kind::Preemption => admission_or_preemption(record),
        Kind::Hard | Kind::Soft | Kind::LocalStorage => shortage(record),
        Kind::Reclaim => reclaim(record),
    }
}

/// For a pod that was rejected or preempted.
fn admission_or_preemption(record: &Record) -> Vec<Fact> {
    let ended = record.outcome.as_ref().and_then(Outcome::ended);
    vec![
        ("DECISION", record.id.clone()),
        ("TIME", moment(record.time)),
        ("POD", pod(record)),
        ("SIGNAL", signal_and_kind(record)),
        ("REASON", or_dash(record.reason.as_ref())),
        ("MESSAGE", or_dash(record.message.as_ref())),
        ("FOR", or_dash(record.preemptor.as_ref())),
        ("GRACE", or_dash(record.grace_period_seconds)),
        ("ENDED", or_dash(ended.map(|ended| ended.method.as_str()))),
        ("GONE", gone(record)),
        ("CLUSTER", cluster(record)),
    ]
}

/// For reclaims without an eviction.
fn reclaim(record: &Record) -> Vec<Fact> {
    let done = record.reclaimed.as_ref();
    let all = |texts: Vec<String>| match texts.as_slice() {
        [] => "-".to_owned(),
        texts => texts.join("; "),
    };
    let would = done.map(|done| &done.would_remove[..]).unwrap_or_default();
    let problems = done.map(|done| done.problems.clone()).unwrap_or_default();
    let enough = done.map(|done| if done.relieved { "yes" } else { "no" });
    vec![
        ("DECISION", record.id.clone()),
        ("TIME", moment(record.time)),
        ("SIGNAL", signal_and_kind(record)),
        ("MESSAGE", or_dash(record.message.as_ref())),
        ("CONTAINERS", or_dash(done.map(|done| done.containers))),
        ("IMAGES", or_dash(done.map(|done| done.images))),
        ("BYTES", or_dash(done.map(Reclaimed::bytes))),
        ("ENOUGH", or_dash(enough)),
        ("PROBLEMS", all(problems)),
        (
            "WOULD GO",
            all(would.iter().map(ToString::to_string).collect()),
        ),
    ]
}

fn pod(record: &Record) -> String {
    let (pod, uid) = (or_dash(record.pod.as_ref()), or_dash(record.uid.as_ref()));
    format!("{pod} (uid {uid})")
}

fn signal_and_kind(record: &Record) -> String {
    format!("{} ({})", record.signal, record.kind.as_str())
}

fn page(view: View, lines: &[(&str, String)]) -> String {
    let mut page = String::new();
    for (heading, value) in lines {
        // Writing to a String cannot fail.
        let line = view.hanging(&format!("{heading:<11}"), value);
        let _ = writeln!(page, "{line}");
    }
    page
}

/// `below 64Mi`, or that a minimum reclaim holds it.
fn state(record: &Record) -> String {
    let (signal, acting) = (record.acting_signal(), record.threshold.as_ref());
    let held = acting.and_then(|acting| acting.threshold.held_until(&acting.observed));
    let quantity = amount(signal, acting.map(|acting| acting.quantity.value()));
    match held {
        None => format!("below {quantity}"),
        Some(until) => format!(
            "above {quantity}, held until {} by the minimum reclaim,",
            amount(signal, Some(until.value()))
        ),
    }
}

/// For a decision about a shortage.
fn shortage(record: &Record) -> Vec<Fact> {
    let signal = record.acting_signal();
    let acting = record.threshold.as_ref();
    let seen = acting.map(|acting| acting.observed);
    let since = or_dash(acting.map(|acting| moment(acting.first_observed_at)));
    let (observed, threshold) = match acting {
        // Pressure is a share of time, not an amount that is available.
        Some(acting) if acting.threshold.signal.is_pressure() => (
            format!(
                "stalled {} of the time",
                pressure::percent(acting.observed.taken())
            ),
            format!(
                "{} since {since}",
                super::evidence::value(acting.threshold.value)
            ),
        ),
        _ => (
            format!(
                "{} available of {}",
                amount(signal, seen.map(|seen| seen.available)),
                amount(signal, seen.map(|seen| seen.capacity))
            ),
            format!("{} since {since}", state(record)),
        ),
    };
    let ended = record.outcome.as_ref().and_then(Outcome::ended);
    let passed_over = record.passed_over.as_ref();
    let mut lines = vec![
        ("DECISION", record.id.clone()),
        ("TIME", moment(record.time)),
        ("POD", pod(record)),
        ("SIGNAL", signal_and_kind(record)),
        ("OBSERVED", observed),
        ("THRESHOLD", threshold),
        (
            "GRACE",
            format!("{} s", or_dash(record.grace_period_seconds)),
        ),
        ("REASON", or_dash(record.reason.as_ref())),
        ("MESSAGE", or_dash(record.message.as_ref())),
        ("WHY", or_dash(record.why.as_ref())),
        ("SPARED", or_dash(passed_over.map(|one| &one.sentence))),
        ("NEXT", or_dash(record.runner_up.as_ref())),
        ("GAIN", used(signal, record.expected_gain)),
        ("OWNER", owner(record)),
        ("WOKEN BY", or_dash(record.woken_by.as_ref())),
        ("REACTION", reaction(ended)),
        ("GONE", gone(record)),
        ("HELD BY", contents::held_by(ended)),
        ("MEMORY", contents::memory_kinds(ended)),
        ("HOOK", hook(ended)),
        ("CLUSTER", cluster(record)),
    ];
    // A limit of a pod has no figures of the node.
    lines.retain(|(heading, _)| match *heading {
        "OBSERVED" | "THRESHOLD" => acting.is_some(),
        "SPARED" => passed_over.is_some(),
        "HOOK" => ended.is_some_and(|ended| ended.hook.is_some()),
        "HELD BY" | "MEMORY" => ended.is_some_and(|ended| ended.contents.is_some()),
        _ => true,
    });
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_reaction_is_shown_step_by_step() {
        let ended = Ended {
            crossed_to_decided_seconds: Some(0.5),
            first_signal_seconds: Some(0.001),
            last_process_gone_seconds: Some(0.0215),
            reaction_seconds: Some(0.5215),
            ..Ended::default()
        };
        assert_eq!(
            reaction(Some(&ended)),
            "crossed -> decided 500.0 ms -> first signal 1.0 ms -> gone 20.5 ms; 521.5 ms in all"
        );
        assert_eq!(reaction(None), "crossed");
    }

    #[test]
    fn a_document_for_a_browser_has_each_moment_that_is_known() {
        let record = |outcome: Value| -> Record {
            let record = json!({
                "id": "1", "time": "2026-01-01T00:00:00Z", "kind": "hard", "signal": "memory.available",
                "pod": "shop/<b>hog", "message": "The node was low on memory", "outcome": outcome,
                "ranking": [{ "pod": "shop/<b>hog" }],
            });
            serde_json::from_value(record).unwrap()
        };
        let ended = json!({ "method": "kill", "crossedToDecidedSeconds": 0.5, "firstSignalSeconds": 0.001 });
        let document = html::html(&record(ended)).to_html();
        for part in ["501.0", "the first signal was sent", "shop/&lt;b&gt;hog"] {
            assert!(document.contains(part), "{part} in {document}");
        }
        assert!(
            !document.contains("the last process was gone"),
            "{document}"
        );
        let open = html::html(&record(Value::Null)).to_html();
        assert!(!open.contains("Each moment"), "{open}");
    }

    #[test]
    fn a_hook_is_shown_with_its_failure_and_what_it_wrote() {
        let hook_of = |more: serde_json::Value| {
            let ended: Ended = serde_json::from_value(json!({ "hook": more })).unwrap();
            hook(Some(&ended))
        };
        let dumped =
            json!({ "outcome": "succeeded", "milliseconds": 212, "output": "dumped\u{1b}[2J\n" });
        assert_eq!(hook_of(dumped), "succeeded after 212 ms: dumped\\u{1b}[2J");
        let failed = json!({ "outcome": "failed", "milliseconds": 3, "detail": "exit status: 3" });
        assert_eq!(hook_of(failed), "failed after 3 ms: exit status: 3");
        let newer = json!({ "outcome": "postponed", "milliseconds": 3 });
        assert_eq!(hook_of(newer), "ended in an unknown way after 3 ms");
        assert_eq!(hook(None), "-");
    }

    #[test]
    fn where_the_history_cannot_be_had_nobody_says_that_nothing_happened() {
        let error = "cannot open the history /var/lib/evictd: Read-only file system";
        let told = problem(&json!({ "history": { "error": error } })).unwrap();
        assert!(told.ends_with(error), "{told}");
        assert!(!list(&[], true, View::WHOLE).contains("Nothing was ever evicted"));
        assert_eq!(problem(&json!({ "history": { "error": null } })), None);
        assert_eq!(problem(&json!({})), None);
        assert_eq!(list(&[], false, View::WHOLE), "Nothing was ever evicted.");
    }

    #[test]
    fn the_outcome_replaces_the_decision_it_belongs_to() {
        let record = |id: &str, outcome: Value| json!({ "id": id, "time": "2026-01-01T00:00:00Z", "kind": "hard", "outcome": outcome });
        let of_another_version = json!({ "note": "what it may be" });
        let all = json!([
            record("1", Value::Null),
            record("2", Value::Null),
            of_another_version,
            record("1", json!({ "error": "a budget" })),
        ]);
        let told: Vec<(String, bool)> = latest(records(all))
            .into_iter()
            .map(|record| (record.id, record.outcome.is_some()))
            .collect();
        assert_eq!(told, [("1".to_owned(), true), ("2".to_owned(), false)]);
    }

    #[test]
    fn a_pod_that_was_passed_over_is_shown_without_figures_that_are_not_there() {
        let record = json!({
            "id": "1", "time": "2026-01-01T00:00:00Z", "kind": "localStorage", "signal": "emptydirfs.limit",
            "why": "shop/agent exceeds a limit of its own",
            "passedOver": { "pod": "shop/agent", "because": "critical priority", "sentence": "shop/agent exceeds it" },
        });
        let record: Record = serde_json::from_value(record).unwrap();
        let shown = evidence(&record, View::WHOLE);
        assert!(
            shown.contains("SPARED     shop/agent exceeds it"),
            "{shown}"
        );
        assert!(
            !shown.contains("OBSERVED") && !shown.contains("USAGE"),
            "{shown}"
        );
    }

    #[test]
    fn a_reclaim_is_shown_with_what_it_removed_and_what_failed() {
        let reclaimed = json!({
            "containers": 1, "images": 2, "imageBytes": 5, "relieved": true,
            "failed": 1, "problems": ["image b: it is in use"],
        });
        let record = json!({
            "id": "1", "time": "2026-01-01T00:00:00Z", "kind": "reclaim",
            "signal": "nodefs.available", "message": "removed 3", "reclaimed": reclaimed,
        });
        let record: Record = serde_json::from_value(record).unwrap();
        let shown = evidence(&record, View::WHOLE);
        for line in [
            "SIGNAL     nodefs.available (reclaim)",
            "CONTAINERS 1",
            "BYTES      5",
            "ENOUGH     yes",
            "PROBLEMS   image b: it is in use",
            "WOULD GO   -",
        ] {
            assert!(shown.lines().any(|one| one.trim_end() == line), "{shown}");
        }
    }
}
