//! The answer for people: what the job waits for, what would start it, then the queue, who comes first, and the nodes.

use evictd_batch::session::{
    Feasibility, JobDiagnosis, MissingAmount, QueueUsage, RoleFeasibility,
};
use evictd_batch::why::{Answer, State};
use evictd_command::{Colour, Column, Table, View};
use evictd_pod::Quantity;
use std::cmp::Reverse;

/// The most jobs, and reasons of nodes, that are shown.
const SHOWN: usize = 5;

/// The whole page. `known` says whether the configuration is the scheduler's own.
pub(super) fn page(answer: &Answer, known: bool, view: View) -> String {
    let colour = match answer.state {
        State::Waits | State::NotEnqueued | State::RunsInPart => Colour::Bad,
        State::Stopped => Colour::Warning,
        State::Starts | State::Runs | State::Finished => Colour::Good,
    };
    let headline = view.sentence(&format!("{}.", answer.headline));
    let mut parts = vec![view.paint(colour, &headline)];
    if !answer.more.is_empty() {
        parts.push(view.sentence(&answer.more.join(" ")));
    }
    if !answer.soonest.is_empty() {
        parts.push(soonest(answer, view));
    }
    if !answer.history.is_empty() {
        let lines = answer.history.iter().map(|line| view.hanging("  ", line));
        let lines: Vec<String> = lines.collect();
        parts.push(format!("Had to go for others:\n{}", lines.join("\n")));
    }
    if let Some(diagnosis) = answer.diagnosis.as_ref().filter(|_| waits(answer.state)) {
        parts.push(queue(&diagnosis.queue, view));
        parts.extend(ahead(answer, diagnosis, view));
        parts.extend(room(&diagnosis.feasibility, view));
    }
    if !known && answer.diagnosis.is_some() {
        let text = "By the built-in configuration; --conf FILE names the scheduler's own.";
        parts.push(view.paint(Colour::Faint, &view.sentence(text)));
    }
    parts.join("\n\n")
}

fn waits(state: State) -> bool {
    matches!(state, State::Waits | State::NotEnqueued | State::RunsInPart)
}

fn soonest(answer: &Answer, view: View) -> String {
    let what = match answer.state {
        State::RunsInPart => "What would start another pod of it, each tried in a session:",
        _ => "What would start it, each tried in a session:",
    };
    let head = view.paint(Colour::Strong, &view.sentence(what));
    let lines = answer
        .soonest
        .iter()
        .map(|own| view.hanging("  - ", &own.words));
    let lines: Vec<String> = lines.collect();
    format!("{head}\n{}", lines.join("\n"))
}

fn amount(amount: Option<Quantity>) -> String {
    amount.map_or_else(|| "-".to_owned(), |own| own.to_string())
}

fn queue(queue: &QueueUsage, view: View) -> String {
    let state = match queue.state.as_str() {
        "" => "without a state".to_owned(),
        state => state.to_lowercase(),
    };
    let by = match queue.plugin {
        Some(plugin) => format!("shared by plugin {plugin}"),
        None => "shared by no plugin".to_owned(),
    };
    let running = queue.running;
    let jobs = if running == 1 {
        "job holds"
    } else {
        "jobs hold"
    };
    let head = format!(
        "Queue {}: {state}, weight {}, {by}; {running} {jobs} room in it.",
        queue.name, queue.weight
    );
    if queue.resources.is_empty() {
        return view.sentence(&head);
    }
    let shown = queue.resources.iter();
    let shown = shown.filter(|own| own.resource != evictd_pod::resources::PODS);
    let rows = shown.map(|own| {
        vec![
            own.resource.clone(),
            own.allocated.to_string(),
            amount(own.deserved),
            amount(own.capability),
            own.request.to_string(),
            own.promised.to_string(),
        ]
    });
    let columns = [
        Column::name("RESOURCE", 6),
        Column::figure("HOLDS", 5),
        Column::figure("DESERVES", 4),
        Column::figure("AT MOST", 3),
        Column::figure("WANTS", 2),
        Column::figure("PROMISED", 1),
    ];
    let table = Table::new(columns, rows).shown(view);
    format!("{}\n{table}", view.sentence(&head))
}

fn ahead(answer: &Answer, diagnosis: &JobDiagnosis, view: View) -> Option<String> {
    let count = diagnosis.ahead.len();
    if count == 0 {
        return None;
    }
    let jobs = if count == 1 { "job comes" } else { "jobs come" };
    let left = count.saturating_sub(SHOWN);
    let more = if left > 0 {
        format!("; {left} are not shown")
    } else {
        String::new()
    };
    let head = format!("{count} {jobs} before it in the queue{more}.");
    let jobs = answer.ahead.iter().zip(&diagnosis.ahead);
    let rows = jobs.take(SHOWN).map(|(job, own)| {
        vec![
            job.clone(),
            own.waiting.to_string(),
            own.plugin.unwrap_or("age").to_owned(),
            own.why.clone(),
        ]
    });
    let columns = [
        Column::name("JOB", 4),
        Column::figure("WAIT", 1),
        Column::words("BY", 2),
        Column::sentence("WHY", 3),
    ];
    let table = Table::new(columns, rows).shown(view);
    Some(format!("{}\n{table}", view.sentence(&head)))
}

fn room(feasibility: &Feasibility, view: View) -> Vec<String> {
    let lacking = feasibility
        .roles
        .iter()
        .filter(|role| role.placed < role.waiting);
    let mut parts: Vec<String> = lacking.map(|role| nodes(role, feasibility, view)).collect();
    if !feasibility.nearest.is_empty() {
        parts.push(nearest(feasibility, view));
    }
    parts
}

/// What nodes say to the pods of a role.
fn nodes(role: &RoleFeasibility, feasibility: &Feasibility, view: View) -> String {
    let request = role.request.iter();
    let request: Vec<String> = request.map(|(name, own)| format!("{name} {own}")).collect();
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
        return view.sentence(&format!("{head}: {mistake}."));
    }
    let mut counts: Vec<(&String, &usize)> = role.refused.iter().collect();
    counts.sort_by_key(|(text, count)| (Reverse(**count), *text));
    let all: usize = role.refused.values().sum();
    let rows = counts
        .iter()
        .map(|(text, count)| vec![count.to_string(), (*text).clone()]);
    let columns = [Column::figure("NODES", 2), Column::sentence("REASON", 1)];
    let table = Table::new(columns, rows).shown(view);
    let within = feasibility.within.as_ref();
    let with = within.map_or_else(String::new, |within| format!(" with {within}"));
    let say = match all {
        0 => return view.sentence(&format!("{head}: there is no node.")),
        1 => format!("What the only node{with} says to the next one:"),
        all => format!("What all {all} nodes{with} say to the next one:"),
    };
    let head = view.sentence(&format!("{head}. {say}"));
    format!("{head}\n{table}")
}

fn scarce(all: &[MissingAmount]) -> String {
    let all = all
        .iter()
        .map(|own| format!("{} {}", own.resource, own.amount));
    all.collect::<Vec<_>>().join(", ")
}

fn nearest(feasibility: &Feasibility, view: View) -> String {
    let several = feasibility.waiting - feasibility.now - feasibility.later > 1;
    let mut columns = vec![
        Column::name("NEAREST NODE", 3),
        Column::sentence("LACKS FOR ONE", 2),
    ];
    if several {
        columns.push(Column::sentence("LACKS FOR ALL", 1));
    }
    let rows = feasibility.nearest.iter().map(|near| {
        let mut cells = vec![near.node.clone(), scarce(&near.one)];
        if several {
            cells.push(scarce(&near.all));
        }
        cells
    });
    Table::new(columns, rows).shown(view)
}
