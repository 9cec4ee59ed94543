//! A session of the scheduler: what becomes of each job, and who has to go.

use evictd_batch::session::{GroupOutcome, Outcome, UpstreamOutcome};
use evictd_command::{Colour, Column, Row, Table, View};

/// The whole page.
pub(super) fn page(outcome: &Outcome, view: View) -> String {
    let (bound, evicted) = (outcome.bound.len(), outcome.evicted.len());
    let promised = outcome.pipelined.len();
    let head = format!(
        "{bound} pods are bound, {promised} wait for room that is being freed, {evicted} are evicted."
    );
    let mut parts = vec![view.sentence(&head)];
    if !outcome.pod_groups.is_empty() || !outcome.upstream_pod_groups.is_empty() {
        parts.push(jobs(outcome, view));
    }
    if evicted > 0 {
        parts.push(victims(outcome, view));
    }
    parts.join("\n\n")
}

fn count(group: &GroupOutcome, statuses: &[&str]) -> String {
    let counts = statuses
        .iter()
        .filter_map(|status| group.tasks.get(*status));
    counts.sum::<i32>().to_string()
}

fn jobs(outcome: &Outcome, view: View) -> String {
    let rows = outcome.pod_groups.iter().map(|(job, group)| {
        let invalid = outcome.invalid_jobs.get(job);
        let mut conditions = group.conditions.iter();
        let unschedulable = conditions.find(|own| own.kind == "Unschedulable");
        let why = invalid
            .map(|own| own.message.clone())
            .or_else(|| unschedulable.map(|own| own.message.clone()));
        let colour = why.is_some().then_some(Colour::Bad);
        let cells = vec![
            job.clone(),
            group.phase.clone(),
            count(group, &["Binding"]),
            count(group, &["Bound", "Running"]),
            count(group, &["Pending", "Allocated", "Pipelined"]),
            why.unwrap_or_default(),
        ];
        Row::from(cells).coloured(colour)
    });
    let left_out = outcome
        .upstream_pod_groups
        .iter()
        .filter_map(|(job, told)| {
            let UpstreamOutcome::Unschedulable(why) = told else {
                return None;
            };
            let mut cells = vec![String::new(); 6];
            cells[0].clone_from(job);
            cells[5].clone_from(why);
            let left_out = !outcome.pod_groups.contains_key(job);
            left_out.then(|| Row::from(cells).coloured(Some(Colour::Bad)))
        });
    let rows = rows.chain(left_out);
    let columns = [
        Column::name("JOB", 6),
        Column::words("PHASE", 5),
        Column::figure("BOUND", 4),
        Column::figure("THERE", 2),
        Column::figure("WAIT", 3),
        Column::sentence("WHY", 1),
    ];
    Table::new(columns, rows).shown(view)
}

fn victims(outcome: &Outcome, view: View) -> String {
    let rows = outcome
        .evicted
        .iter()
        .map(|own| vec![own.pod.clone(), own.reason.as_str().to_owned()]);
    let columns = [Column::name("EVICTED", 2), Column::words("BY", 1)];
    Table::new(columns, rows).shown(view)
}
