//! Answers to requests for the pending pods, with suggestions for one of them.

use crate::run::deadline::Deadline;
use crate::run::view::{Pending, Suggestions, Times, View};
use evictd_scheduling::Scheduler;
use evictd_what_if::Suggestion;

/// The most nodes with suggestions for a pod.
const SUGGESTED_NODES: usize = 5;

/// Answers the requests that have arrived since the last call.
pub(super) fn answer(view: &View, scheduler: &mut Scheduler, deadline: &Deadline, times: Times) {
    // Equal requests that arrive together are answered from one pass over the queue.
    let mut all = None;
    for request in view.take_requests() {
        let pending = match &request.pod {
            None => Pending::clone(all.get_or_insert_with(|| Pending::of(scheduler, times, None))),
            Some(pod) => {
                let pending = Pending::of(scheduler, times, Some(pod));
                let (namespace, name) = pod;
                // Suggestions are tried on the cluster, which takes as long as an attempt.
                deadline.begin();
                let help = suggestions(scheduler, namespace, name);
                Pending { help, ..pending }
            }
        };
        // The client may have left.
        let _ = request.reply.send(pending);
    }
}

/// `None` if the pod does not wait.
fn suggestions(scheduler: &mut Scheduler, namespace: &str, name: &str) -> Option<Suggestions> {
    let found = scheduler.suggest(namespace, name, SUGGESTED_NODES)?;
    let texts = |changes: Vec<Suggestion>| changes.iter().map(ToString::to_string).collect();
    let by_node = found.nodes.into_iter().map(|node| {
        let alternatives = node.alternatives.into_iter().map(texts);
        (node.node, alternatives.collect())
    });
    Some(Suggestions {
        feasible: found.feasible,
        by_node: by_node.collect(),
        blockers: found.blockers,
        obstacles: found.obstacles.into_iter().collect(),
        is_incomplete: found.is_incomplete,
    })
}
