//! The page of a timeline of events for the queue.

use evictd_command::{Column, Table, View};
use evictd_scheduling::simulation::{Action, Outcome, Step, StepOutcome};

/// The row of a step.
pub(crate) struct Row {
    at: String,
    action: &'static str,
    about: String,
}

impl Row {
    pub(crate) fn of(step: &Step) -> Self {
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

    fn cells(&self, outcome: &StepOutcome) -> Vec<String> {
        let about = match &outcome.popped {
            Some(Some(pod)) => pod.clone(),
            Some(None) => "no pod".to_owned(),
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

pub(crate) fn page(outcome: &Outcome, rows: &[Row], view: View) -> String {
    let end = if outcome.pods.is_empty() {
        headline(outcome)
    } else {
        pending(outcome).shown(view)
    };
    format!("{}\n\n{end}", steps(outcome, rows).shown(view))
}

/// How many pods are pending at the end.
pub(super) fn headline(outcome: &Outcome) -> String {
    match outcome.pods.len() {
        0 => "No pod is pending at the end.".to_owned(),
        1 => "1 pod is pending at the end.".to_owned(),
        count => format!("{count} pods are pending at the end."),
    }
}

pub(super) fn steps(outcome: &Outcome, rows: &[Row]) -> Table {
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
    let rows = rows.iter().zip(&outcome.steps);
    Table::new(columns, rows.map(|(step, outcome)| step.cells(outcome)))
}

/// The pods that are pending at the end.
pub(super) fn pending(outcome: &Outcome) -> Table {
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
        Column::name("PENDING AT THE END", 4),
        Column::words("QUEUE", 3),
        Column::figure("ATTEMPTS", 1),
        Column::sentence("REJECTED BY", 2),
    ];
    Table::new(columns, rows)
}
