//! Lifecycle policies of a job and of its tasks (S6-078).

use crate::field::Mistakes;
use evictd_batch_objects::{JobSpec, LifecyclePolicy};
use evictd_pod::duration;
use std::collections::BTreeSet;

/// Events that a policy may name, sorted.
pub(crate) const EVENTS: [&str; 8] = [
    "*",
    "JobUpdated",
    "PodEvicted",
    "PodFailed",
    "PodPending",
    "TaskCompleted",
    "TaskFailed",
    "Unknown",
];
/// Actions that a policy may name, sorted.
pub(crate) const ACTIONS: [&str; 8] = [
    "AbortJob",
    "CompleteJob",
    "RestartJob",
    "RestartPartition",
    "RestartPod",
    "RestartTask",
    "ResumeJob",
    "TerminateJob",
];

/// Refuses a timeout that is no duration. Volcano cannot read such a job at all.
pub(crate) fn check_timeouts(spec: &JobSpec) -> Result<(), String> {
    let of_job = ("spec".to_owned(), &spec.policies);
    let tasks = spec.tasks.iter().enumerate();
    let tasks = tasks.map(|(index, task)| (format!("spec.tasks[{index}]"), &task.policies));
    for (path, policies) in std::iter::once(of_job).chain(tasks) {
        for (index, policy) in policies.iter().enumerate() {
            let timeout = policy.timeout.as_deref().unwrap_or("0");
            duration::parse(timeout).map_err(|error| {
                format!("cannot read the object: {path}.policies[{index}].timeout: {error}")
            })?;
        }
    }
    Ok(())
}

/// The error in the policies at this path, with the valid values; empty if they are valid.
pub(super) fn check(policies: &[LifecyclePolicy], path: &str) -> String {
    let mut events: Vec<&str> = Vec::new();
    let mut wrong: Vec<String> = first(policies, path, &mut events).into_iter().collect();
    // Beside `*` every other event would match two policies.
    if events.contains(&"*") && events.len() > 1 {
        wrong.push("if there's * here, no other policy should be here".to_owned());
    }
    if wrong.is_empty() {
        return String::new();
    }
    let heading = match wrong.len() {
        1 => "1 error occurred:".to_owned(),
        many => format!("{many} errors occurred:"),
    };
    let items = wrong.join("\n\t* ");
    let (events, actions) = (EVENTS.join(" "), ACTIONS.join(" "));
    format!(
        "{heading}\n\t* {items}\n\n valid events are [{events}], valid actions are [{actions}];"
    )
}

/// The first mistake; `events` are those up to it.
fn first<'p>(
    policies: &'p [LifecyclePolicy],
    path: &str,
    events: &mut Vec<&'p str>,
) -> Option<String> {
    let mut codes: BTreeSet<i32> = BTreeSet::new();
    for policy in policies {
        let named = named(policy);
        match policy.exit_code {
            Some(_) if !named.is_empty() => {
                return Some("must not specify event and exitCode simultaneously".to_owned());
            }
            None if named.is_empty() => {
                return Some("either event and exitCode should be specified".to_owned());
            }
            None => {
                if let Some(wrong) = of_events(policy, &named, path, events) {
                    return Some(wrong);
                }
            }
            Some(0) => return Some("0 is not a valid error code".to_owned()),
            Some(code) => {
                if !codes.insert(code) {
                    return Some(format!("duplicate exitCode {code}"));
                }
            }
        }
    }
    None
}

fn of_events<'p>(
    policy: &LifecyclePolicy,
    named: &[&'p str],
    path: &str,
    events: &mut Vec<&'p str>,
) -> Option<String> {
    for event in named {
        let mut mistakes = Mistakes::default();
        if !EVENTS.contains(event) {
            mistakes.invalid(path, event, "invalid policy event");
        } else if !ACTIONS.contains(&policy.action.as_str()) {
            mistakes.invalid(path, &policy.action, "invalid policy action");
        }
        if !mistakes.is_empty() {
            return mistakes.aggregate();
        }
        if events.contains(event) {
            return Some(format!("duplicate event {event}  across different policy"));
        }
        events.push(event);
    }
    None
}

/// The events of a policy, each once; the single one comes last.
fn named(policy: &LifecyclePolicy) -> Vec<&str> {
    let single = Some(&policy.event).filter(|event| !event.is_empty());
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let named = policy.events.iter().chain(single).map(String::as_str);
    named.filter(|event| seen.insert(event)).collect()
}
