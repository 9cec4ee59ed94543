//! Whether a queue is let in, may change, or may go (S6-084).

use super::{hierarchy, resources, tree};
use crate::field::Mistakes;
use crate::{Known, Settings};
use evictd_batch_objects::{Queue, QueueSpec};

/// The first group of errors in a new queue, or in a changed one if `old` is its earlier state.
pub(crate) fn check(
    queue: &Queue,
    old: Option<&Queue>,
    known: &Known,
    settings: &Settings,
) -> Result<(), String> {
    let mut mistakes = Mistakes::default();
    resources::check_own(&queue.spec, &mut mistakes);
    let state = queue.status.state.as_str();
    if !state.is_empty() && !STATES.contains(&state) {
        let why = format!("queue state must be in [{}]", STATES.join(" "));
        mistakes.invalid("requestBody.spec.state", state, &why);
    }
    hierarchy::check(queue, known, &mut mistakes);
    if let Some(wrong) = mistakes.aggregate() {
        return Err(wrong);
    }
    let moved = old.is_none_or(|old| old.spec.parent != queue.spec.parent);
    if moved {
        tree::check(queue, known, settings.max_queue_depth)?;
    }
    let resized = old.is_none_or(|old| differ(&old.spec, &queue.spec));
    let is_root = queue.metadata.name == "root";
    // The root's amounts are those of the cluster, which the scheduler computes.
    if is_root && settings.protect_root && old.is_some() && resized {
        return Err(
            "root queue's resource attributes (capability, deserved, guarantee) cannot be modified"
                .to_owned(),
        );
    }
    // A change of anything else must not fail because of an older inconsistency of its neighbours.
    if !is_root && (moved || resized) {
        resources::check_around(queue, known)?;
    }
    Ok(())
}

/// States that a queue may be given.
pub(crate) const STATES: [&str; 2] = ["Open", "Closed"];

/// Why a queue cannot be deleted.
pub(crate) fn check_deletion(name: &str, known: &Known, settings: &Settings) -> Result<(), String> {
    if KEPT.contains(&name) {
        return Err(format!("`{name}` queue can not be deleted"));
    }
    let queue = known.queue(name)?;
    if let Some(pods) = tree::pods(queue).filter(|_| settings.check_allocated_pods) {
        return Err(format!(
            "queue {name} cannot be deleted because it has allocated Pods: {pods}"
        ));
    }
    let children = known.children(name);
    if children.is_empty() {
        return Ok(());
    }
    let names: Vec<_> = children
        .iter()
        .map(|child| child.metadata.name.as_str())
        .collect();
    Err(format!(
        "queue {name} can not be deleted because it has {} child queues: {}",
        names.len(),
        names.join(", ")
    ))
}

/// Queues that always stay.
pub(crate) const KEPT: [&str; 2] = ["default", "root"];

fn differ(old: &QueueSpec, new: &QueueSpec) -> bool {
    old.capability != new.capability
        || old.deserved != new.deserved
        || old.guarantee.resource != new.guarantee.resource
}
