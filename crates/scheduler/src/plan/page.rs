//! The plan as a page: the preemption, the reasons for the choice, and the reasons against the other nodes.

use super::answer::{Answer, CandidateNode, Victim};
use super::explanation::{Explanation, NamedStep};
use evictd_command::{Colour, Column, Table, View};
use evictd_placement::Code;
use evictd_preemption::Action;
use std::collections::{BTreeMap, HashSet};

/// The most nodes that are named for one reason.
const NAMED: usize = 3;

/// The reason against a candidate that was not chosen.
pub(super) const CANDIDATE: &str = "is a candidate, too";

pub(crate) fn page(answer: &Answer, view: View) -> String {
    let (colour, head) = headline(answer);
    let head: Vec<String> = head.lines().map(|line| view.sentence(line)).collect();
    let mut parts = vec![view.paint(colour, &head.join("\n"))];
    if !answer.victims.is_empty() {
        let table = victims(&answer.victims).shown(view.within(2));
        parts.push(indented(&table));
    }
    if let Some(chosen) = answer.chosen.as_ref().filter(|_| !answer.why.is_empty()) {
        parts.push(why(answer, chosen, view));
    }
    if !answer.clear_nominations.is_empty() {
        let pods = answer.clear_nominations.join(", ");
        parts.push(view.hanging("Nominations to this node that are cleared: ", &pods));
    }
    let replicas = answer.replicas;
    parts.extend(replicas.map(|count| crate::explain::replicas(count, view)));
    parts.extend(crate::explain::blockers(&answer.blockers, view));
    parts.extend(other_nodes(answer, view));
    if !answer.unchecked.is_empty() {
        let head = "The input lacks objects that the pod needs:";
        parts.push(listed(view, head, &answer.unchecked));
    }
    let explained = answer.explanation.as_ref();
    parts.extend(explained.map(|explained| explanation(explained, view)));
    let elapsed = &answer.elapsed_seconds;
    let (load, plan) = (elapsed.load, elapsed.plan);
    parts.push(format!("Loaded in {load:.3} s, planned in {plan:.3} s."));
    parts.join("\n\n")
}

/// A heading with indented lines.
fn listed(view: View, head: &str, lines: &[String]) -> String {
    let lines = lines.iter().map(|line| view.hanging("  ", line));
    let all: Vec<String> = std::iter::once(view.sentence(head)).chain(lines).collect();
    all.join("\n")
}

pub(super) fn headline(answer: &Answer) -> (Colour, String) {
    let pod = &answer.preemptor;
    let (name, priority, requests, form) = (&pod.pod, pod.priority, &pod.requests, pod.form);
    let head = format!("{name} (priority {priority}, asks for {requests})");
    if let Some(gang) = &answer.gang {
        let state = gang.state();
        return if answer.fits_without_preemption {
            (
                Colour::Good,
                format!("{head} fits without preemption {state}."),
            )
        } else if let Some(Ok(actions)) = &gang.preemption {
            (Colour::Warning, preempts_together(&head, &state, actions))
        } else {
            let reason = &answer.ineligible_reason;
            (
                Colour::Bad,
                format!("{head} is not placed by itself: {reason}.\nNow {state}"),
            )
        };
    }
    if answer.fits_without_preemption {
        let fits = format!("{head} fits without preemption.");
        return (Colour::Good, fits);
    }
    if let Some(error) = &answer.error {
        let undecided = format!(
            "{head} fits on no node: the attempt ends with an error, so that none is preempted.\n{error}"
        );
        return (Colour::Bad, undecided);
    }
    if !answer.eligible {
        let reason = &answer.ineligible_reason;
        let how = if answer.is_tried {
            "fits on no node and may not preempt"
        } else {
            "is not tried"
        };
        let stuck = format!("{head} {how}: {reason}");
        return (Colour::Bad, stuck);
    }
    let Some(CandidateNode {
        node,
        victims,
        violations,
    }) = &answer.chosen
    else {
        let message = answer.message.as_deref().unwrap_or_default();
        let stuck = format!(
            "{head} fits on no node, and preemption does not help.\nkube-scheduler {form} would say: {message}"
        );
        return (Colour::Bad, stuck);
    };
    let pods = match victims.len() {
        1 => "1 pod".to_owned(),
        count => format!("{count} pods"),
    };
    let budgets = match violations {
        0 => "against no PodDisruptionBudget".to_owned(),
        count => format!("{count} of them against a PodDisruptionBudget"),
    };
    let preempts = format!(
        "{head} fits on no node as it is.\nkube-scheduler {form} would preempt {pods} on {node} for it, {budgets}:"
    );
    (Colour::Warning, preempts)
}

/// The nominations of a gang's pods, which wait for the end of the victims.
fn preempts_together(head: &str, state: &str, actions: &[Action]) -> String {
    let nominations = actions.iter().filter_map(|action| match action {
        Action::Nominate { pod, node } => Some(format!("{pod} on {node}")),
        _ => None,
    });
    let nominations: Vec<String> = nominations.collect();
    let count = actions.len() - nominations.len();
    let pods = if count == 1 { "pod" } else { "pods" };
    let nominations = nominations.join(", ");
    format!(
        "{head} does not fit as it is: {state}\nThe group would preempt {count} {pods} and be nominated: {nominations}."
    )
}

pub(super) fn victims(victims: &[Victim]) -> Table {
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
    let columns = [
        Column::name("VICTIM", 6),
        Column::figure("PRIORITY", 5),
        Column::name("OWNER", 2),
        Column::name("BUDGETS", 4),
        Column::words("STARTED", 1),
        Column::words("REPLACEMENT", 3),
    ];
    Table::new(columns, rows)
}

fn why(answer: &Answer, chosen: &CandidateNode, view: View) -> String {
    let node = &chosen.node;
    let count = answer.candidates.len();
    let head = format!("Why {node}, of {count} candidates:");
    listed(view, &head, &answer.why)
}

/// The other nodes by reason, the most frequent reason first.
pub(super) fn reasons(answer: &Answer) -> Vec<(String, Vec<&str>)> {
    let mut groups: BTreeMap<String, Vec<&str>> = BTreeMap::new();
    let mut tried: HashSet<&str> = HashSet::new();
    for candidate in &answer.candidates {
        tried.insert(&candidate.node);
        let chosen = answer.chosen.as_ref().map(|freed| freed.node.as_str());
        if chosen != Some(&candidate.node) {
            groups
                .entry(CANDIDATE.to_owned())
                .or_default()
                .push(&candidate.node);
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
            // With a preemption, candidates beyond a sample and those that extenders remove are left.
            let why = if answer.fits_without_preemption || !answer.eligible {
                "no preemption was tried"
            } else {
                "not tried, or removed by an extender"
            };
            format!("{why}: {reasons}")
        } else {
            format!("preemption cannot help: {reasons}")
        };
        groups.entry(group).or_default().push(node);
    }
    let mut groups: Vec<(String, Vec<&str>)> = groups.into_iter().collect();
    groups.sort_by_key(|(_, nodes)| std::cmp::Reverse(nodes.len()));
    groups
}

fn other_nodes(answer: &Answer, view: View) -> Option<String> {
    let groups = reasons(answer);
    if groups.is_empty() {
        return None;
    }
    let rows = groups.into_iter().map(|(group, nodes)| {
        let mut named = nodes[..nodes.len().min(NAMED)].join(", ");
        if nodes.len() > NAMED {
            named += ", ...";
        }
        vec![nodes.len().to_string(), group, named]
    });
    let columns = [
        Column::figure("NODES", 2),
        Column::sentence("REASON", 3),
        Column::sentence("WHICH", 1),
    ];
    let table = Table::new(columns, rows).shown(view.within(2));
    Some(format!("The other nodes:\n{}", indented(&table)))
}

fn explanation(explanation: &Explanation, view: View) -> String {
    let node = &explanation.node;
    listed(
        view,
        &format!("On {node}, step by step:"),
        &steps(explanation),
    )
}

/// A sentence for each step.
pub(super) fn steps(explanation: &Explanation) -> Vec<String> {
    let mut lines = Vec::new();
    if !explanation.without_preemption.is_empty() {
        let reasons = explanation.without_preemption.join(", ");
        lines.push(format!("as it is: {reasons}"));
    }
    lines.extend(explanation.steps.iter().map(step));
    lines.push(format!("so: {}", explanation.result));
    lines
}

fn step(step: &NamedStep) -> String {
    let reason =
        |obstacle: &Option<String>| obstacle.as_deref().unwrap_or("it does not fit").to_owned();
    match step {
        NamedStep::Removed { violating, others } => {
            let count = violating.len() + others.len();
            let budgets = match violating.len() {
                0 => String::new(),
                count => format!(", {count} of them against a PodDisruptionBudget"),
            };
            format!("all {count} pods of lower priority are removed{budgets}")
        }
        NamedStep::StillNot { obstacle } => {
            format!("it does not fit even then: {}", reason(obstacle))
        }
        NamedStep::Reprieved { pod } => format!("{pod} is put back and can stay"),
        NamedStep::Victim { pod, obstacle } => {
            format!(
                "{pod} is put back and must be removed: {}",
                reason(obstacle)
            )
        }
    }
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
