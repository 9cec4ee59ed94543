//! The page of a sequence of pods, and the comparison of two.

use super::what_if::WhatIfOutcome;
use evictd_command::{Colour, Column, Table, View};
use evictd_scheduling::MOST_REPLICAS;
use evictd_scheduling::simulation::{NodeUse, PreemptedPod, SequenceOutcome};
use serde::Serialize;
use std::collections::BTreeMap;

/// The most pods that are named together.
const NAMED: usize = 3;

/// The same pods with two configurations.
#[derive(Debug, Serialize)]
pub(crate) struct Comparison {
    #[serde(rename = "own")]
    pub(crate) first: WhatIfOutcome,
    pub(crate) other: WhatIfOutcome,
}

/// As [`page`], with the added nodes and with the pods that a drain leaves.
pub(crate) fn page_of_what_if(answer: &WhatIfOutcome, view: View) -> String {
    let mut parts = vec![page(&answer.outcome, view)];
    if !answer.added_nodes.is_empty() {
        let unused = answer.unused_nodes();
        let added = format!("Added nodes: {}.", answer.added_nodes.join(", "));
        parts.push(match unused.as_slice() {
            [] => added,
            unused => format!("{added} No pod was scheduled onto {}.", unused.join(", ")),
        });
    }
    if !answer.blockers.is_empty() {
        parts.push(blockers(&answer.blockers, view));
    }
    if !answer.more_fit.is_empty() {
        let lines = answer.more_fit.iter().map(|(pod, count)| {
            let up_to = if *count + 1 == MOST_REPLICAS {
                "at least "
            } else {
                ""
            };
            view.hanging("  ", &format!("like {pod}: {up_to}{count}"))
        });
        let head = view.sentence("How many more pods fit then:");
        parts.push(format!("{head}\n{}", lines.collect::<Vec<_>>().join("\n")));
    }
    if !answer.cannot_move.is_empty() {
        parts.push(grouped("CANNOT MOVE", &answer.cannot_move, view));
    }
    parts.join("\n\n")
}

/// The number of scheduled pods, their nodes, and why the others are unschedulable.
pub(crate) fn page(outcome: &SequenceOutcome, view: View) -> String {
    let (placed, left) = (outcome.placed.len(), outcome.unschedulable.len());
    let (colour, head) = headline(outcome);
    let mut parts = vec![view.paint(colour, &view.sentence(&head))];
    if placed > 0 {
        parts.push(nodes(outcome, view));
    }
    if !outcome.preempted.is_empty() {
        parts.push(preempted(outcome).shown(view));
    }
    if left > 0 {
        parts.push(reasons(outcome, view));
    }
    if !outcome.gated.is_empty() {
        parts.push(grouped("GATED", &outcome.gated, view));
    }
    if !outcome.not_tried.is_empty() {
        parts.push(grouped("NOT TRIED", &outcome.not_tried, view));
    }
    parts.join("\n\n")
}

/// Workloads in a cluster create no pods: theirs are in the same dump.
const NO_PODS: &str =
    "There is no pod to schedule. Pods of workloads are created for the manifests of --pods only.";

/// How many pods were scheduled, at which cost, and how many were not.
pub(super) fn headline(outcome: &SequenceOutcome) -> (Colour, String) {
    let (placed, left) = (outcome.placed.len(), outcome.unschedulable.len());
    let gated = outcome.gated.len();
    if placed + left + gated + outcome.not_tried.len() == 0 {
        return (Colour::Warning, NO_PODS.to_owned());
    }
    let colour = if left == 0 { Colour::Good } else { Colour::Bad };
    let gated = match gated {
        0 => String::new(),
        1 => ", 1 is gated".to_owned(),
        gated => format!(", {gated} are gated"),
    };
    let evicted = outcome.preempted.iter().filter(|pod| !pod.terminates);
    let at_a_cost = match evicted.count() {
        0 => String::new(),
        1 => " after 1 preemption".to_owned(),
        count => format!(" after {count} preemptions"),
    };
    let head = match placed {
        1 => "1 pod was scheduled".to_owned(),
        placed => format!("{placed} pods were scheduled"),
    };
    let are = if left == 1 { "is" } else { "are" };
    (
        colour,
        format!("{head}{at_a_cost}, {left} {are} unschedulable{gated}."),
    )
}

/// The nodes with new pods.
fn nodes(outcome: &SequenceOutcome, view: View) -> String {
    let mut new: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (pod, node) in &outcome.placed {
        new.entry(node).or_default().push(pod);
    }
    let rows = outcome.nodes.iter().filter_map(|node| {
        let pods = new.get(node.name.as_str())?;
        let (cpu, memory) = (percent(node.cpu), percent(node.memory));
        let all = node.pods.to_string();
        Some(vec![
            node.name.clone(),
            pods.len().to_string(),
            all,
            cpu,
            memory,
            some(pods),
        ])
    });
    let columns = [
        Column::name("NODE", 6),
        Column::figure("NEW", 5),
        Column::figure("PODS", 2),
        Column::figure("CPU", 4),
        Column::figure("MEMORY", 3),
        Column::sentence("NEW PODS", 1),
    ];
    Table::new(columns, rows).shown(view)
}

/// The messages of unschedulable pods.
fn reasons(outcome: &SequenceOutcome, view: View) -> String {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (pod, message) in &outcome.unschedulable {
        groups.entry(message).or_default().push(pod);
    }
    let rows = groups
        .iter()
        .map(|(message, pods)| vec![pods.len().to_string(), (*message).to_owned(), some(pods)]);
    let columns = [
        Column::figure("PODS", 2),
        Column::sentence("MESSAGE", 3),
        Column::sentence("NAMES", 1),
    ];
    Table::new(columns, rows).shown(view)
}

/// The objects that keep pods from every node, with the pods.
fn blockers(by_pod: &BTreeMap<String, Vec<String>>, view: View) -> String {
    let mut pods: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (pod, lines) in by_pod {
        for line in lines {
            pods.entry(line).or_default().push(pod);
        }
    }
    let rows = pods
        .iter()
        .map(|(line, pods)| vec![pods.len().to_string(), (*line).to_owned(), some(pods)]);
    let columns = [
        Column::figure("PODS", 2),
        Column::sentence("WHAT IS IN THE WAY", 3),
        Column::sentence("NAMES", 1),
    ];
    Table::new(columns, rows).shown(view)
}

/// The preempted pods with their node and preemptor.
pub(super) fn preempted(outcome: &SequenceOutcome) -> Table {
    let rows = outcome.preempted.iter().map(|preempted| {
        let PreemptedPod {
            pod,
            node,
            preemptor,
            ..
        } = preempted;
        vec![
            pod.clone(),
            node.clone(),
            preemptor.clone(),
            budgets(preempted),
        ]
    });
    let columns = [
        Column::name("PREEMPTED", 4),
        Column::name("NODE", 3),
        Column::name("FOR", 2),
        Column::sentence("BUDGETS", 1),
    ];
    Table::new(columns, rows)
}

/// The budgets that cover a preempted pod.
fn budgets(preempted: &PreemptedPod) -> String {
    match (preempted.budgets.join(", "), preempted.violates) {
        _ if preempted.terminates => "it ends already, which is awaited".to_owned(),
        (budgets, true) => format!("{budgets} (violated)"),
        (budgets, false) if budgets.is_empty() => "-".to_owned(),
        (budgets, false) => budgets,
    }
}

/// Pods by reason.
pub(super) fn grouped(title: &'static str, pods: &BTreeMap<String, String>, view: View) -> String {
    let mut groups: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (pod, reason) in pods {
        groups.entry(reason).or_default().push(pod);
    }
    let rows = groups
        .iter()
        .map(|(reason, pods)| vec![pods.len().to_string(), (*reason).to_owned(), some(pods)]);
    let columns = [
        Column::figure(title, 2),
        Column::sentence("BECAUSE", 3),
        Column::sentence("WHICH", 1),
    ];
    Table::new(columns, rows).shown(view)
}

fn some(pods: &[&str]) -> String {
    let named = pods[..pods.len().min(NAMED)].join(", ");
    if pods.len() > NAMED {
        format!("{named}, ...")
    } else {
        named
    }
}

fn percent((used, there): (i64, i64)) -> String {
    if there <= 0 {
        return "-".to_owned();
    }
    // A hundred times the memory of a node may exceed 64 bits.
    format!("{}%", i128::from(used) * 100 / i128::from(there))
}

/// One line for each figure, with both runs side by side.
pub(crate) fn comparison(both: &Comparison, view: View) -> String {
    let table = compared(both).shown(view);
    format!("{table}\n\n{}", view.sentence(&moved(both)))
}

pub(super) fn compared(both: &Comparison) -> Table {
    let [first, other] = [figures(&both.first.outcome), figures(&both.other.outcome)];
    let rows = first
        .into_iter()
        .zip(other)
        .map(|((name, first), (_, other))| vec![name.to_owned(), first, other]);
    let columns = [
        Column::words("", 3),
        Column::figure("FIRST", 2),
        Column::figure("OTHER", 1),
    ];
    Table::new(columns, rows)
}

/// How many pods get another node with the other configuration.
pub(super) fn moved(both: &Comparison) -> String {
    let (first, other) = (&both.first.outcome.placed, &both.other.outcome.placed);
    if first == other {
        return "Both configurations schedule every pod onto the same node.".to_owned();
    }
    let moved = first
        .iter()
        .filter(|(pod, node)| other.get(*pod) != Some(*node));
    format!(
        "{} pods get another node, or none, with the other configuration.",
        moved.count()
    )
}

/// The compared figures.
fn figures(outcome: &SequenceOutcome) -> Vec<(&'static str, String)> {
    let nodes = &outcome.nodes;
    let busy = nodes.iter().filter(|node| node.pods > 0).count();
    let sum = |of: fn(&NodeUse) -> (i64, i64)| {
        let busy = nodes.iter().filter(|node| node.pods > 0).map(of);
        busy.fold((0, 0), |(used, there), node| {
            (used + node.0, there + node.1)
        })
    };
    let fullest = |of: fn(&NodeUse) -> (i64, i64)| {
        let shares = nodes.iter().map(of).filter(|share| share.1 > 0);
        let fullest = shares.max_by_key(|share| i128::from(share.0) * 10_000 / i128::from(share.1));
        percent(fullest.unwrap_or((0, 0)))
    };
    let largest = |of: fn(&NodeUse) -> (i64, i64)| {
        nodes
            .iter()
            .map(of)
            .map(|(used, there)| there - used)
            .max()
            .unwrap_or(0)
    };
    let most = nodes.iter().map(|node| node.pods).max().unwrap_or(0);
    vec![
        ("scheduled pods", outcome.placed.len().to_string()),
        (
            "unschedulable pods",
            outcome.unschedulable.len().to_string(),
        ),
        ("nodes with pods", format!("{busy} of {}", nodes.len())),
        ("cpu in use on those", percent(sum(|node| node.cpu))),
        ("memory in use on those", percent(sum(|node| node.memory))),
        ("cpu in use, fullest node", fullest(|node| node.cpu)),
        ("memory in use, fullest node", fullest(|node| node.memory)),
        (
            "cpu left in one piece",
            format!("{}m", largest(|node| node.cpu)),
        ),
        (
            "memory left in one piece",
            format!("{}Mi", largest(|node| node.memory) >> 20),
        ),
        ("most pods on a node", most.to_string()),
    ]
}
