//! The plan as a person reads it: what would happen first, then why, then what stands in the way elsewhere.

use super::answer::{Answer, Freed, Victim};
use super::explanation::{Explanation, NamedStep};
use evictd_command::table;
use evictd_placement::Code;
use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;

/// So many nodes are named of each group.
const NAMED: usize = 3;

/// The whole page.
pub(crate) fn page(answer: &Answer) -> String {
    let mut parts = vec![headline(answer)];
    if let Some(chosen) = &answer.chosen {
        parts.push(victims(&answer.victims));
        parts.push(why(answer, chosen));
    }
    if !answer.clear_nominations.is_empty() {
        let pods = answer.clear_nominations.join(", ");
        parts.push(format!("These lose their claim to the node: {pods}"));
    }
    parts.extend(elsewhere(answer));
    if !answer.unchecked.is_empty() {
        let lines = answer.unchecked.join("\n");
        parts.push(format!(
            "Not checked, since the input does not tell:\n{}",
            indented(&lines)
        ));
    }
    parts.extend(answer.explanation.as_ref().map(explanation));
    let elapsed = &answer.elapsed_seconds;
    let (load, plan) = (elapsed.load, elapsed.plan);
    parts.push(format!("Loaded in {load:.3} s, planned in {plan:.3} s."));
    parts.join("\n\n")
}

fn headline(answer: &Answer) -> String {
    let pod = &answer.preemptor;
    let (name, priority, requests, form) = (&pod.pod, pod.priority, &pod.requests, pod.form);
    let head = format!("{name} (priority {priority}, asks for {requests})");
    if answer.fits_without_preemption {
        return format!("{head} fits without preemption: nobody has to go.");
    }
    if !answer.eligible {
        let reason = answer.ineligible_reason;
        return format!("{head} fits on no node and may not preempt: {reason}");
    }
    let Some(Freed {
        node,
        victims,
        violations,
    }) = &answer.chosen
    else {
        let message = answer.message.as_deref().unwrap_or_default();
        return format!(
            "{head} fits on no node, and preemption does not help.\nkube-scheduler {form} would say: {message}"
        );
    };
    let pods = match victims.len() {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    };
    let budgets = match violations {
        0 => "against no PodDisruptionBudget".to_owned(),
        count => format!("{count} of them against a PodDisruptionBudget"),
    };
    format!(
        "{head} fits on no node as it is.\nkube-scheduler {form} would preempt {pods} on {node} for it, {budgets}:"
    )
}

fn victims(victims: &[Victim]) -> String {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let rows = victims.iter().map(|victim| {
        let budgets = victim.budgets.join(", ");
        let elsewhere = victim.fits_elsewhere.map(|count| match count {
            0 => "fits nowhere".to_owned(),
            1 => "fits on 1 node".to_owned(),
            count => format!("fits on {count} nodes"),
        });
        vec![
            victim.pod.clone(),
            victim.priority.to_string(),
            or_none(victim.owner.clone()),
            or_none((!budgets.is_empty()).then_some(budgets)),
            or_none(victim.started.map(|time| time.to_string())),
            or_none(elsewhere),
        ]
    });
    let headings = [
        "VICTIM",
        ">PRIORITY",
        "OWNER",
        "BUDGETS",
        "STARTED",
        "A NEW ONE",
    ];
    indented(&table(&headings, rows))
}

fn why(answer: &Answer, chosen: &Freed) -> String {
    let node = &chosen.node;
    let count = answer.candidates.len();
    let mut text = format!("Why {node}, of {count} that could be freed:");
    for line in &answer.why {
        let _ = write!(text, "\n  {line}");
    }
    text
}

/// The other nodes, grouped by what stands in the way.
fn elsewhere(answer: &Answer) -> Option<String> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut tried: HashSet<&str> = HashSet::new();
    for candidate in &answer.candidates {
        tried.insert(&candidate.node);
        let chosen = answer.chosen.as_ref().map(|own| own.node.as_str());
        if chosen != Some(&candidate.node) {
            let group = "could be freed, too".to_owned();
            groups.entry(group).or_default().push(&candidate.node);
        }
    }
    for (node, obstacle) in &answer.not_candidates {
        tried.insert(node);
        let reasons = obstacle.status.reasons.join(", ");
        let group = format!("{} ({reasons})", obstacle.why);
        groups.entry(group).or_default().push(node);
    }
    for (node, status) in &answer.filter_status {
        if tried.contains(node.as_str()) {
            continue;
        }
        let reasons = status.reasons.join(", ");
        let group = if status.code == Code::Unschedulable.as_str() {
            format!("not tried, or taken off by an extender: {reasons}")
        } else {
            format!("preemption cannot help: {reasons}")
        };
        groups.entry(group).or_default().push(node);
    }
    if groups.is_empty() {
        return None;
    }
    let mut groups: Vec<(String, Vec<&str>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    let rows = groups.into_iter().map(|(group, nodes)| {
        let mut named = nodes[..nodes.len().min(NAMED)].join(", ");
        if nodes.len() > NAMED {
            named += ", ...";
        }
        vec![nodes.len().to_string(), group, named]
    });
    let table = table(&[">NODES", "WHAT STANDS IN THE WAY", "WHICH"], rows);
    Some(format!("The other nodes:\n{}", indented(&table)))
}

fn explanation(explanation: &Explanation) -> String {
    let node = &explanation.node;
    let mut lines = vec![format!("On {node}, step by step:")];
    if !explanation.without_preemption.is_empty() {
        let reasons = explanation.without_preemption.join(", ");
        lines.push(format!("as it is: {reasons}"));
    }
    lines.extend(explanation.steps.iter().map(step));
    lines.push(format!("so: {}", explanation.result));
    lines.join("\n  ")
}

fn step(step: &NamedStep) -> String {
    let in_the_way =
        |obstacle: &Option<String>| obstacle.as_deref().unwrap_or("it does not fit").to_owned();
    match step {
        NamedStep::Removed { violating, others } => {
            let count = violating.len() + others.len();
            let budgets = match violating.len() {
                0 => String::new(),
                count => format!(", {count} of them against a PodDisruptionBudget"),
            };
            format!("off come all {count} less important pods{budgets}")
        }
        NamedStep::StillNot { obstacle } => format!("even so: {}", in_the_way(obstacle)),
        NamedStep::Stays { pod } => format!("{pod} comes back and may stay"),
        NamedStep::Goes { pod, obstacle } => {
            format!("{pod} comes back and must go: {}", in_the_way(obstacle))
        }
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
