//! The outcome of a session: a table of jobs, and one of evicted pods.

use evictd_batch::session::{GroupOutcome, Outcome, UpstreamOutcome};
use evictd_batch_objects::PodGroupConditionType;
use evictd_command::{Colour, Column, Row, Table, View};
use evictd_html::{Page, Tone};

pub(super) fn page(outcome: &Outcome, view: View) -> String {
    let mut parts = vec![view.sentence(&summary(outcome))];
    if !outcome.pod_groups.is_empty() || !outcome.upstream_pod_groups.is_empty() {
        parts.push(jobs(outcome).shown(view));
    }
    if !outcome.evicted.is_empty() {
        parts.push(evictions(outcome).shown(view));
    }
    parts.join("\n\n")
}

/// The outcome as a document for a browser.
pub(super) fn html(outcome: &Outcome) -> Page {
    let mut page = Page::new("evictd-batch simulate", Tone::Plain, &summary(outcome));
    page.section("Evicted pods", [evictions(outcome).into()]);
    page.section("Jobs", [jobs(outcome).into()]);
    page
}

fn summary(outcome: &Outcome) -> String {
    let (bound, evicted) = (outcome.bound.len(), outcome.evicted.len());
    let pipelined = outcome.pipelined.len();
    let pods = |count: usize| match count {
        1 => "1 pod is".to_owned(),
        count => format!("{count} pods are"),
    };
    let is = |count: usize| if count == 1 { "is" } else { "are" };
    let mut text = format!("{} bound, {evicted} {} evicted", pods(bound), is(evicted));
    if pipelined > 0 {
        let and = "bound once room is free or their gang is complete";
        text = format!("{text}, {pipelined} may be {and}");
    }
    text + "."
}

/// The number of tasks with one of these statuses.
fn count(group: &GroupOutcome, statuses: &[&str]) -> String {
    statuses
        .iter()
        .filter_map(|status| group.tasks.get(*status))
        .sum::<i32>()
        .to_string()
}

fn jobs(outcome: &Outcome) -> Table {
    let rows = outcome.pod_groups.iter().map(|(job, group)| {
        let invalid = outcome.invalid_jobs.get(job);
        let mut conditions = group.conditions.iter();
        let unschedulable =
            conditions.find(|condition| condition.kind == PodGroupConditionType::Unschedulable);
        let invalid = invalid.map(|invalid| &invalid.message);
        let unschedulable = unschedulable.map(|condition| &condition.message);
        // A job that is not enqueued lacks pods because of that.
        let reason = if group.phase == "Pending" {
            unschedulable.or(invalid)
        } else {
            invalid.or(unschedulable)
        };
        let reason = reason.cloned();
        let colour = reason.is_some().then_some(Colour::Bad);
        let cells = vec![
            job.clone(),
            group.phase.clone(),
            count(group, &["Binding"]),
            count(group, &["Bound", "Running"]),
            count(group, &["Pending", "Allocated", "Pipelined"]),
            reason.unwrap_or_default(),
        ];
        Row::from(cells).coloured(colour)
    });
    // Groups of scheduling.k8s.io that the session ignored, for example because their queue does not exist.
    let ignored = outcome
        .upstream_pod_groups
        .iter()
        .filter_map(|(job, group)| {
            let UpstreamOutcome::Unschedulable(reason) = group else {
                return None;
            };
            let mut cells = vec![String::new(); 6];
            cells[0].clone_from(job);
            cells[5].clone_from(reason);
            let is_ignored = !outcome.pod_groups.contains_key(job);
            is_ignored.then(|| Row::from(cells).coloured(Some(Colour::Bad)))
        });
    let rows = rows.chain(ignored);
    let columns = [
        Column::name("JOB", 6),
        Column::words("PHASE", 5),
        Column::figure("BOUND", 4),
        Column::figure("PLACED", 2),
        Column::figure("PENDING", 3),
        Column::sentence("WHY", 1),
    ];
    Table::new(columns, rows)
}

fn evictions(outcome: &Outcome) -> Table {
    let rows = outcome
        .evicted
        .iter()
        .map(|eviction| vec![eviction.pod.clone(), eviction.reason.as_str().to_owned()]);
    let columns = [Column::name("EVICTED", 2), Column::words("BY", 1)];
    Table::new(columns, rows)
}
