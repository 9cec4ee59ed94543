//! The answer as a page: the reason, the changes that would start the job, then its queue, the jobs ahead of it and the nodes.

use evictd_batch::session::{
    Feasibility, JobDiagnosis, MissingAmount, QueueUsage, RoleFeasibility,
};
use evictd_batch::why::{Answer, State};
use evictd_command::{Colour, Column, Table, View};
use evictd_pod::Quantity;
use std::cmp::Reverse;

/// The number of jobs that are shown.
const MAX_JOBS: usize = 5;

/// The note if no configuration was given.
pub(super) const BUILT_IN: &str =
    "The built-in configuration was used; --conf FILE sets that of the scheduler.";

/// `conf_is_given` says whether the configuration was given, or is the built-in one.
pub(super) fn page(answer: &Answer, conf_is_given: bool, view: View) -> String {
    let colour = colour(answer.state);
    let headline = view.sentence(&format!("{}.", answer.headline));
    let mut parts = vec![view.paint(colour, &headline)];
    if !answer.more.is_empty() {
        parts.push(view.sentence(&answer.more.join(" ")));
    }
    if !answer.soonest.is_empty() {
        parts.push(soonest(answer, view));
    }
    if !answer.history.is_empty() {
        let lines: Vec<String> = answer
            .history
            .iter()
            .map(|line| view.hanging("  ", line))
            .collect();
        parts.push(format!("Evicted for other jobs:\n{}", lines.join("\n")));
    }
    if let Some(diagnosis) = answer.diagnosis.as_ref().filter(|_| waits(answer.state)) {
        parts.push(queue(&diagnosis.queue, view));
        parts.extend(ahead(answer, diagnosis, view));
        parts.extend(feasibility(&diagnosis.feasibility, view));
    }
    if !conf_is_given && answer.diagnosis.is_some() {
        parts.push(view.paint(Colour::Faint, &view.sentence(BUILT_IN)));
    }
    parts.join("\n\n")
}

pub(super) fn colour(state: State) -> Colour {
    match state {
        State::Waits | State::NotEnqueued | State::RunsInPart => Colour::Bad,
        State::Stopped => Colour::Warning,
        State::Starts | State::Runs | State::Finished => Colour::Good,
    }
}

pub(super) fn waits(state: State) -> bool {
    matches!(state, State::Waits | State::NotEnqueued | State::RunsInPart)
}

fn soonest(answer: &Answer, view: View) -> String {
    let head = match answer.state {
        State::RunsInPart => "Changes that would start another pod of it, each tried in a session:",
        _ => "Changes that would start it, each tried in a session:",
    };
    let head = view.paint(Colour::Strong, &view.sentence(head));
    let lines: Vec<String> = answer
        .soonest
        .iter()
        .map(|proposal| view.hanging("  - ", &proposal.words))
        .collect();
    format!("{head}\n{}", lines.join("\n"))
}

fn amount(amount: Option<Quantity>) -> String {
    amount.map_or_else(|| "-".to_owned(), |amount| amount.to_string())
}

fn queue(queue: &QueueUsage, view: View) -> String {
    let head = view.sentence(&queue_headline(queue));
    if queue.resources.is_empty() {
        return head;
    }
    format!("{head}\n{}", queue_table(queue).shown(view))
}

/// The state of the queue, its weight, and how many of its jobs run.
pub(super) fn queue_headline(queue: &QueueUsage) -> String {
    let state = match queue.state.as_str() {
        "" => "no state".to_owned(),
        state => state.to_lowercase(),
    };
    let shared_by = match queue.plugin {
        Some(plugin) => format!("shared by plugin {plugin}"),
        None => "shared by no plugin".to_owned(),
    };
    let running = queue.running;
    let jobs = if running == 1 { "job has" } else { "jobs have" };
    // Who sees a share that is not used up, and other queues above theirs, would ask why nothing is reclaimed.
    let lent = queue.resources.iter().filter_map(|usage| {
        let amount = usage.lent?;
        Some(format!("{} {amount}", usage.resource))
    });
    let lent = lent.collect::<Vec<_>>().join(", ");
    let lent = match lent.as_str() {
        "" => String::new(),
        lent => format!(
            " Of its share other queues lend {lent}: it is used where it is free, and no pod is evicted for it."
        ),
    };
    format!(
        "Queue {}: {state}, weight {}, {shared_by}; {running} {jobs} pods on nodes.{lent}",
        queue.name, queue.weight
    )
}

pub(super) fn queue_table(queue: &QueueUsage) -> Table {
    let rows = queue
        .resources
        .iter()
        .filter(|usage| usage.resource != evictd_pod::resources::PODS)
        .map(|usage| {
            vec![
                usage.resource.clone(),
                usage.allocated.to_string(),
                amount(usage.deserved),
                amount(usage.capability),
                usage.request.to_string(),
                usage.promised.to_string(),
            ]
        });
    let columns = [
        Column::name("RESOURCE", 6),
        Column::figure("ALLOCATED", 5),
        Column::figure("DESERVED", 4),
        Column::figure("CAPABILITY", 3),
        Column::figure("REQUEST", 2),
        Column::figure("INQUEUE", 1),
    ];
    Table::new(columns, rows)
}

fn ahead(answer: &Answer, diagnosis: &JobDiagnosis, view: View) -> Option<String> {
    let count = diagnosis.ahead.len();
    if count == 0 {
        return None;
    }
    let jobs = if count == 1 { "job comes" } else { "jobs come" };
    let hidden = count.saturating_sub(MAX_JOBS);
    let more = if hidden > 0 {
        format!("; {hidden} are not shown")
    } else {
        String::new()
    };
    let head = format!("{count} {jobs} before it in the queue{more}.");
    let table = ahead_table(answer, diagnosis, MAX_JOBS).shown(view);
    Some(format!("{}\n{table}", view.sentence(&head)))
}

/// The first jobs that come before it.
pub(super) fn ahead_table(answer: &Answer, diagnosis: &JobDiagnosis, most: usize) -> Table {
    let jobs = answer.ahead.iter().zip(&diagnosis.ahead);
    let rows = jobs.take(most).map(|(name, job)| {
        vec![
            name.clone(),
            job.waiting.to_string(),
            job.plugin.unwrap_or("age").to_owned(),
            job.why.clone(),
        ]
    });
    let columns = [
        Column::name("JOB", 4),
        Column::figure("PENDING", 1),
        Column::words("BY", 2),
        Column::sentence("WHY", 3),
    ];
    Table::new(columns, rows)
}

fn feasibility(feasibility: &Feasibility, view: View) -> Vec<String> {
    let mut parts: Vec<String> = feasibility
        .roles
        .iter()
        .filter(|role| role.placed < role.waiting)
        .map(|role| nodes(role, feasibility, view))
        .collect();
    if !feasibility.nearest.is_empty() {
        parts.push(nearest(feasibility).shown(view));
    }
    parts
}

/// The reasons of the nodes against the pods of a task.
fn nodes(role: &RoleFeasibility, feasibility: &Feasibility, view: View) -> String {
    let head = view.sentence(&nodes_headline(role, feasibility));
    if role.mistake.is_some() || role.refused.is_empty() {
        return head;
    }
    format!("{head}\n{}", nodes_table(role).shown(view))
}

/// For how many pods of the task there is room.
pub(super) fn nodes_headline(role: &RoleFeasibility, feasibility: &Feasibility) -> String {
    let request: Vec<String> = role
        .request
        .iter()
        .map(|(name, amount)| format!("{name} {amount}"))
        .collect();
    let each = if request.is_empty() {
        "nothing".to_owned()
    } else {
        request.join(", ")
    };
    let of = if role.role.is_empty() {
        String::new()
    } else {
        format!(" of task {}", role.role)
    };
    let head = format!(
        "There is room for {} of the {} waiting pods{of} ({each} each)",
        role.placed, role.waiting
    );
    if let Some(mistake) = &role.mistake {
        return format!("{head}: {mistake}.");
    }
    let all: usize = role.refused.values().sum();
    let within = feasibility.within.as_ref();
    let with = within.map_or_else(String::new, |within| format!(" with {within}"));
    let title = match all {
        0 => return format!("{head}: there is no node."),
        1 => format!("The reason of the only node{with} against the next pod:"),
        all => format!("The reasons of all {all} nodes{with} against the next pod:"),
    };
    format!("{head}. {title}")
}

/// The reasons, the most frequent first.
pub(super) fn nodes_table(role: &RoleFeasibility) -> Table {
    let mut counts: Vec<(&String, &usize)> = role.refused.iter().collect();
    counts.sort_by_key(|(text, count)| (Reverse(**count), *text));
    let rows = counts
        .iter()
        .map(|(text, count)| vec![count.to_string(), (*text).clone()]);
    let columns = [Column::figure("NODES", 2), Column::sentence("REASON", 1)];
    Table::new(columns, rows)
}

fn missing(amounts: &[MissingAmount]) -> String {
    let amounts: Vec<String> = amounts
        .iter()
        .map(|missing| format!("{} {}", missing.resource, missing.amount))
        .collect();
    amounts.join(", ")
}

pub(super) fn nearest(feasibility: &Feasibility) -> Table {
    let several = feasibility.waiting - feasibility.now - feasibility.later > 1;
    let mut columns = vec![
        Column::name("NEAREST NODE", 3),
        Column::sentence("MISSING FOR ONE", 2),
    ];
    if several {
        columns.push(Column::sentence("MISSING FOR ALL", 1));
    }
    let rows = feasibility.nearest.iter().map(|near| {
        let mut cells = vec![near.node.clone(), missing(&near.one)];
        if several {
            cells.push(missing(&near.all));
        }
        cells
    });
    Table::new(columns, rows)
}
