//! `evictd-scheduler simulate`: a timeline of events for the queue.

use anyhow::anyhow;
use clap::Args;
use evictd_command::{Column, Failure, Output, Table, View, warn};
use evictd_document::{Document, LARGE};
use evictd_scheduling::simulation::{self, Action, Outcome, Step, StepOutcome, Timeline};
use serde::Deserialize;
use std::path::PathBuf;

const EXAMPLE: &str = r#"Example:
  evictd-scheduler simulate timeline.json

The file:
  { "now": "2026-01-01T00:00:00Z",
    "config": { "podInitialBackoffSeconds": 1, "podMaxBackoffSeconds": 10 },
    "objects": [ what is there at the start ],
    "steps": [
      { "at": 1, "do": "add", "object": { "kind": "Pod", ... } },
      { "at": 20, "do": "pop" },
      { "at": 30, "do": "unschedulable", "pod": "shop/web",
        "plugins": ["NodeResourcesFit"] },
      { "at": 40, "do": "update", "object": { "kind": "Node", ... } } ] }

at is in milliseconds after now. Steps are add, update, delete (object), pop,
unschedulable (pod, plugins, pending, nominate), error, done, bindingError
(pod), assume (pod, node), permitRejected (pod, plugins), activate (pods),
flushBackoff and flushUnschedulable."#;

/// Where pods wait, and what wakes them, over a timeline of changes in a cluster.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The timeline, JSON or YAML; - is stdin.
    file: PathBuf,
    #[command(flatten)]
    output: Output,
}

/// What tells the two kinds of files apart.
#[derive(Deserialize)]
struct Shape {
    steps: Option<serde::de::IgnoredAny>,
    pending: Option<serde::de::IgnoredAny>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let document = Document::read(&self.file, LARGE).map_err(Failure::input)?;
        let timeline = read(&document)?;
        let seen: Vec<Seen> = timeline.steps.iter().map(Seen::of).collect();
        let outcome = simulation::run(timeline).map_err(|mistakes| {
            let name = document.name();
            let mistakes = mistakes.iter().map(|mistake| format!("{name}: {mistake}"));
            Failure::Input(anyhow!(mistakes.collect::<Vec<_>>().join("\n")))
        })?;
        for (index, warning) in &outcome.warnings {
            warn("evictd-scheduler", &format!("steps[{index}]: {warning}"));
        }
        self.output
            .print(&outcome, |outcome, view| page(outcome, &seen, view))
    }
}

fn read(document: &Document) -> Result<Timeline, Failure> {
    let shape: Shape = document.parse().map_err(Failure::input)?;
    if shape.steps.is_none() && shape.pending.is_some() {
        let told = "pods in queue order (the key pending) cannot be simulated yet; a file with steps is needed";
        return Err(Failure::input(document.wrong(told)));
    }
    document.parse().map_err(Failure::input)
}

/// A step, for the table.
struct Seen {
    at: String,
    action: &'static str,
    about: String,
}

impl Seen {
    fn of(step: &Step) -> Self {
        let object = step.object.as_ref().map(ToString::to_string);
        let pods = || step.pods.join(" ");
        let about = match step.action {
            Some(Action::Activate) => pods(),
            _ => object.unwrap_or_else(|| step.pod.clone()),
        };
        let at = step.at.unwrap_or(0);
        Self {
            at: format!("{}.{:03}", at / 1000, at % 1000),
            action: step.action.map_or("", Action::as_str),
            about,
        }
    }

    fn row(&self, outcome: &StepOutcome) -> Vec<String> {
        let about = match &outcome.popped {
            Some(Some(pod)) => pod.clone(),
            Some(None) => "nobody".to_owned(),
            None => self.about.clone(),
        };
        let counts = [
            outcome.active.len(),
            outcome.backoff.len() + outcome.error_backoff.len(),
            outcome.unschedulable.len(),
            outcome.gated.len(),
            outcome.in_flight.len(),
        ];
        let counts = counts.map(|count| count.to_string());
        [self.at.clone(), self.action.to_owned(), about]
            .into_iter()
            .chain(counts)
            .collect()
    }
}

fn page(outcome: &Outcome, seen: &[Seen], view: View) -> String {
    let columns = [
        Column::figure("AT", 4),
        Column::words("STEP", 6),
        Column::name("ABOUT", 5).at_least(10),
        Column::figure("ACTIVE", 3),
        Column::figure("BACKOFF", 3),
        Column::figure("UNSCHED", 3),
        Column::figure("GATED", 1),
        Column::figure("FLYING", 2),
    ];
    let rows = seen.iter().zip(&outcome.steps);
    let steps = Table::new(columns, rows.map(|(seen, outcome)| seen.row(outcome)));
    let mut parts = vec![steps.shown(view)];
    if outcome.pods.is_empty() {
        parts.push("No pod waits at the end.".to_owned());
    } else {
        parts.push(waiting(outcome, view));
    }
    parts.join("\n\n")
}

/// The pods that wait at the end.
fn waiting(outcome: &Outcome, view: View) -> String {
    let nothing = StepOutcome::default();
    let last = outcome.steps.last().unwrap_or(&nothing);
    let pools = [
        ("active", &last.active),
        ("backoff", &last.backoff),
        ("backoff (error)", &last.error_backoff),
        ("unschedulable", &last.unschedulable),
        ("gated", &last.gated),
    ];
    let rows = pools.into_iter().flat_map(|(pool, pods)| {
        pods.iter().filter_map(move |name| {
            let pod = outcome.pods.get(name)?;
            let attempts = pod.attempts.to_string();
            let plugins = pod.plugins.join(", ");
            Some(vec![name.clone(), pool.to_owned(), attempts, plugins])
        })
    });
    let columns = [
        Column::name("WAITS AT THE END", 4),
        Column::words("IN", 3),
        Column::figure("ATTEMPTS", 1),
        Column::sentence("KEPT OUT LAST BY", 2),
    ];
    Table::new(columns, rows).shown(view)
}
