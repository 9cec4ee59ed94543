//! The place of a queue in the tree of queues (S6-084).

use crate::Known;
use evictd_batch_objects::Queue;
use evictd_pod::Quantity;

/// The parent exists, is not the queue itself and not too deep down, and is no leaf with pods.
pub(super) fn check(queue: &Queue, known: &Known, deepest: usize) -> Result<(), String> {
    let (name, parent) = (&queue.metadata.name, &queue.spec.parent);
    if matches!(parent.as_str(), "" | "root") {
        return Ok(());
    }
    if parent == name {
        return Err(format!("queue {name} cannot use itself as parent"));
    }
    check_depth(queue, known, deepest)?;
    let above = known.queue(parent);
    let above =
        above.map_err(|error| format!("failed to get parent queue of queue {name}: {error}"))?;
    match pods(above) {
        // Pods belong to leaves. Below a leaf with pods its amounts would count twice.
        Some(pods) if known.children(parent).is_empty() => Err(format!(
            "queue {parent} cannot be the parent queue of queue {name} because it has allocated Pods: {pods}"
        )),
        _ => Ok(()),
    }
}

/// The number of pods that run in a queue, if any do.
pub(super) fn pods(queue: &Queue) -> Option<i64> {
    let pods = queue.status.allocated.get("pods");
    pods.filter(|pods| !pods.is_zero()).map(Quantity::value)
}

fn check_depth(queue: &Queue, known: &Known, deepest: usize) -> Result<(), String> {
    let (name, mut parent) = (&queue.metadata.name, queue.spec.parent.as_str());
    let mut depth = 1;
    while !matches!(parent, "" | "root") {
        depth += 1;
        if depth > deepest {
            return Err(format!(
                "queue {name} exceeds the maximum allowed depth of {deepest}"
            ));
        }
        let above = known.queue(parent);
        let above = above.map_err(|error| {
            format!("failed to get parent queue {parent} of queue {name}: {error}")
        })?;
        parent = &above.spec.parent;
    }
    Ok(())
}
