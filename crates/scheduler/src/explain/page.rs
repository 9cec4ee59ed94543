//! The result of an attempt as a page: the chosen node, the scores, and the reasons against the other nodes.

use super::answer::{Answer, Failure, Scored};
use evictd_command::{Colour, Column, Table, View};
use evictd_scheduling::MOST_REPLICAS;
use indexmap::IndexMap;
use std::collections::BTreeMap;

/// The most nodes with scores, or that are named for one reason.
const SHOWN: usize = 5;

pub(crate) fn page(answer: &Answer, view: View) -> String {
    let (colour, head) = headline(answer);
    let mut parts = vec![view.paint(colour, &view.sentence(&head))];
    let is_tried = answer.not_tried.is_none();
    parts.extend(answer.replicas.map(|count| replicas(count, view)));
    if !answer.scores.is_empty() {
        parts.push(scores(answer, view));
    }
    let message = answer.message();
    parts.extend(message.map(|message| view.hanging("kube-scheduler would say: ", &message)));
    parts.extend(obstacles(&answer.obstacles, view));
    parts.extend(blockers(&answer.blockers, view));
    parts.extend(suggestions(&answer.suggestions, view));
    if !answer.wakes.is_empty() && is_tried {
        let events = answer.wakes.keys().copied().collect::<Vec<_>>().join(", ");
        parts.push(view.hanging("These events try it again: ", &events));
    }
    if is_tried {
        parts.extend(other_nodes(answer, view));
    }
    if !answer.unchecked.is_empty() {
        let lines = answer.unchecked.iter();
        let lines: Vec<String> = lines.map(|line| view.hanging("  ", line)).collect();
        let head = view.sentence("The input lacks objects that the pod needs:");
        parts.push(format!("{head}\n{}", lines.join("\n")));
    }
    parts.join("\n\n")
}

/// The objects that keep a pod from every node.
pub(crate) fn blockers(lines: &[String], view: View) -> Option<String> {
    let named = lines.iter().map(|line| view.hanging("  ", line));
    let named: Vec<String> = named.collect();
    let head = view.sentence("What is in the way:");
    (!lines.is_empty()).then(|| format!("{head}\n{}", named.join("\n")))
}

/// How many pods like the one in question fit.
pub(crate) fn replicas(count: usize, view: View) -> String {
    let up_to = if count == MOST_REPLICAS {
        "At least "
    } else {
        ""
    };
    let pods = if count == 1 { "pod" } else { "pods" };
    let verb = if count == 1 { "fits" } else { "fit" };
    view.sentence(&format!(
        "{up_to}{count} {pods} like it {verb} now, this one included."
    ))
}

/// The obstacles on the nearest nodes.
pub(crate) fn obstacles<'o>(
    by_node: impl IntoIterator<Item = (&'o String, &'o String)>,
    view: View,
) -> Option<String> {
    let lines = by_node.into_iter();
    let lines = lines.map(|(node, what)| view.hanging("  ", &format!("{node}: {what}")));
    let lines: Vec<String> = lines.collect();
    let head = view.sentence("Obstacles on the nearest nodes:");
    (!lines.is_empty()).then(|| format!("{head}\n{}", lines.join("\n")))
}

/// The changes after which the pod would fit, by node.
pub(crate) fn suggestions(
    by_node: &IndexMap<String, Vec<Vec<String>>>,
    view: View,
) -> Option<String> {
    let lines = by_node.iter().map(|(node, alternatives)| {
        let alternatives = alternatives.iter().map(|changes| changes.join(" and "));
        let text = alternatives.collect::<Vec<_>>().join("; or ");
        view.hanging("  ", &format!("{node}: {text}"))
    });
    let lines: Vec<String> = lines.collect();
    let head = view.sentence("It would fit with any of these, each tried:");
    (!lines.is_empty()).then(|| format!("{head}\n{}", lines.join("\n")))
}

pub(super) fn headline(answer: &Answer) -> (Colour, String) {
    let pod = &answer.pod;
    if let Some(reason) = &answer.not_tried {
        return (Colour::Warning, format!("{pod} is not tried: {reason}."));
    }
    if let Some(gang) = &answer.gang {
        let state = gang.state();
        return match &answer.chosen {
            Some(node) => (
                Colour::Good,
                format!("{pod} would be assigned to {node} {state}."),
            ),
            None if gang.message.is_none() => (
                Colour::Bad,
                format!("{pod} fits on no node {state}, and the others are placed without it."),
            ),
            None => (Colour::Bad, format!("{pod} is not placed, because {state}")),
        };
    }
    if let Some(failure) = &answer.failure {
        return match &failure.nominated {
            Some(node) => (
                Colour::Warning,
                format!(
                    "{pod} fits on no node as it is; {node} would be freed for it by preempting {}{}.",
                    failure.victims.join(", "),
                    in_spite_of(failure)
                ),
            ),
            None => (
                Colour::Bad,
                format!("{pod} fits on no node{}.", outlook(failure)),
            ),
        };
    }
    if answer.error.is_some() {
        let undecided = format!(
            "{pod} fits on no node: the attempt ends with an error, and is repeated after the backoff."
        );
        return (Colour::Bad, undecided);
    }
    let chosen = answer.chosen.as_deref().unwrap_or_default();
    let how = match (answer.top.len(), answer.feasible.len()) {
        (_, 1) => "the only node that it fits on".to_owned(),
        (1, all) => format!("the best of {all} nodes that it fits on"),
        (equal, all) => format!("one of {equal} that are equally good, of {all} that it fits on"),
    };
    (
        Colour::Good,
        format!("{pod} would be assigned to {chosen}: {how}."),
    )
}

/// The budgets that the preemption violates.
fn in_spite_of(failure: &Failure) -> String {
    if failure.violated_budgets.is_empty() {
        return String::new();
    }
    let budgets: Vec<&str> = failure
        .violated_budgets
        .iter()
        .map(String::as_str)
        .collect();
    format!(" against PodDisruptionBudget {}", budgets.join(", "))
}

/// The next step after a claim is deallocated.
fn outlook(failure: &Failure) -> String {
    let Some(claim) = &failure.deallocates else {
        return String::new();
    };
    let then = match failure.feasible_then.as_slice() {
        [] => "which does not suffice".to_owned(),
        nodes => format!("then it fits on {}", some(nodes)),
    };
    format!(" now; the devices of claim {claim} are given back, {then}")
}

/// The first names.
fn some(names: &[String]) -> String {
    let first = &names[..names.len().min(SHOWN)];
    match names.len() - first.len() {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}

/// The weighted scores of the chosen and the next best node by plugin, and the totals of the best nodes.
fn scores(answer: &Answer, view: View) -> String {
    let of = |name: &Option<String>| name.as_ref().and_then(|name| answer.scores.get(name));
    let pair = [of(&answer.chosen), of(&answer.runner_up)];
    let cell = |scored: Option<&Scored>, plugin: &str| {
        let scores = scored.and_then(|scored| scored.plugins.get(plugin));
        scores.map_or(String::new(), |[_, _, weighted]| weighted.to_string())
    };
    let rows = answer.weights.iter().map(|(plugin, weight)| {
        let [chosen, next] = pair.map(|scored| cell(scored, plugin));
        vec![plugin.clone(), weight.to_string(), chosen, next]
    });
    let total =
        |scored: Option<&Scored>| scored.map_or(String::new(), |node| node.total.to_string());
    let [chosen, next] = pair.map(total);
    let rows = rows.chain([vec!["total".to_owned(), String::new(), chosen, next]]);
    let columns = [
        Column::name("SCORE BY PLUGIN", 4),
        Column::figure("WEIGHT", 1),
        Column::figure("CHOSEN", 3),
        Column::figure("NEXT", 2),
    ];
    let table = indented(&Table::new(columns, rows).shown(view.within(2)));
    let mut best: Vec<(&String, &Scored)> = answer.scores.iter().collect();
    best.sort_by_key(|(name, scored)| (-scored.total, *name));
    let named = best.iter().take(SHOWN);
    let named = named.map(|(name, scored)| format!("{name} {}", scored.total));
    let named: Vec<String> = named.collect();
    let more = match best.len().saturating_sub(SHOWN) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let list = view.hanging("The best nodes: ", &format!("{}{more}", named.join(", ")));
    let amounts = best.first().map_or(String::new(), |(name, _)| {
        let amounts = answer.amounts.get(*name).into_iter().flatten();
        let amounts: Vec<String> = amounts.map(|(name, of)| format!("{name} {of}")).collect();
        format!(
            "on {name} with the pod {}; a container that requests nothing counts with 100m cpu and 200Mi memory",
            amounts.join(", ")
        )
    });
    let amounts = view.hanging("Amounts behind the scores: ", &amounts);
    format!("{table}\n\n{list}\n{amounts}")
}

fn indented(text: &str) -> String {
    let lines = text.lines().map(|line| format!("  {line}"));
    lines.collect::<Vec<_>>().join("\n")
}

/// The rejected nodes by their reasons, the most frequent reasons first.
pub(super) fn rejected(answer: &Answer) -> Vec<(String, Vec<&str>)> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    for (node, status) in &answer.filter_status {
        groups
            .entry(status.reasons.join(", "))
            .or_default()
            .push(node);
    }
    let mut groups: Vec<(String, Vec<&str>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    groups
}

fn other_nodes(answer: &Answer, view: View) -> Option<String> {
    let lines = rejected(answer).into_iter().map(|(reasons, nodes)| {
        let named = nodes
            .iter()
            .take(SHOWN)
            .copied()
            .collect::<Vec<_>>()
            .join(", ");
        let more = match nodes.len().saturating_sub(SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        let count = nodes.len();
        view.hanging("  ", &format!("{count} {reasons}: {named}{more}"))
    });
    let lines: Vec<String> = lines.collect();
    if lines.is_empty() {
        return None;
    }
    let head = view.sentence("The other nodes:");
    Some(format!("{head}\n{}", lines.join("\n")))
}
