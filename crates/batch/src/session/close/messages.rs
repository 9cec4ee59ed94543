//! Why a job or a pod waits, in Volcano's words (S6-139, S6-140).

use crate::session::Session;
use crate::session::snapshot::ids::{JobId, TaskId};
use crate::session::snapshot::task::Status;
use evictd_batch_objects::Difference;
use evictd_placement::NodeId;
use std::collections::BTreeMap;

/// Counts as texts, sorted as such.
fn sorted(counts: impl Iterator<Item = (String, i32)>) -> String {
    let mut texts: Vec<String> = counts
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    texts.sort_unstable();
    texts.join(", ")
}

/// Why a pod waits: in a word, for people where there is something to say of it alone, and the node that is being
/// freed for it.
pub(super) fn condition_of(
    session: &Session<'_>,
    task_id: TaskId,
) -> (&'static str, Option<String>, Option<NodeId>) {
    let task = &session.tx.snapshot.tasks[task_id];
    let context = task.context();
    let node = context.node.map_or("", |node| session.tx.node_name(node));
    let key = &task.key;
    match context.status {
        Status::Allocated => {
            let words = format!(
                "Pod {key} can possibly be assigned to {node}, once minAvailable is satisfied"
            );
            ("Schedulable", Some(words), None)
        }
        Status::Pipelined => {
            let words = format!(
                "Pod {key} can possibly be assigned to {node}, once resource is released and \
                     minAvailable is satisfied"
            );
            let nominated = if session.tx.compat.has(Difference::NominatedFirst) {
                // A try that was given up has evicted nothing.
                task.node.filter(|_| task.evicts)
            } else {
                context.node.filter(|_| context.evicts)
            };
            ("Unschedulable", Some(words), nominated)
        }
        Status::Pending => {
            let error = session.tx.snapshot.jobs[task.job].fit_errors.get(&task_id);
            let words = error.map(|error| error.text().to_owned());
            ("Unschedulable", words, None)
        }
        other => (other.as_str(), None, None),
    }
}

/// The message for a job as a whole.
pub(super) fn fit_text(session: &Session<'_>, job_id: JobId) -> String {
    let tx = &session.tx;
    let job = &tx.snapshot.jobs[job_id];
    let not = if job.is_ready() { "" } else { "not " };
    let counts = Status::ALL.into_iter().filter_map(|status| {
        let count = job.count(status);
        (count > 0).then(|| (status.as_str().to_owned(), count))
    });
    let counts = counts.chain([("minAvailable".to_owned(), job.min_member)]);
    let mut text = format!("pod group is {not}ready, {}", sorted(counts));
    let mut reasons: BTreeMap<&str, i32> = BTreeMap::new();
    for task in session.tx.snapshot.tasks_of(job_id, Status::Pending) {
        *reasons.entry(condition_of(session, task).0).or_default() += 1;
    }
    if !reasons.is_empty() {
        let reasons = reasons.into_iter();
        let reasons = sorted(reasons.map(|(reason, count)| (reason.to_owned(), count)));
        text = format!("{text}; Pending: {reasons}");
    }
    if job.priority < job.class_priority {
        let (counted, class) = (job.priority, job.class_priority);
        text = format!(
            "{text}. Its priority counts as {counted}, the lowest of its pods, not as {class}"
        );
    }
    if let Some(words) = &job.not_enqueued_because {
        text = format!("{text}. Not let in: {words}");
    } else if let Some(words) = session.tx.tiers().topology_objection(job_id) {
        text = format!("{text}. Not placed: {words}");
    } else if let Some(words) = tx.plugins.no_place(&tx.snapshot, job.queue) {
        text = format!("{text}. Not placed: {words}");
    }
    let best = job.best_domain.as_ref();
    let tried = !job.fit_errors.is_empty() || job.is_placed_by_groups();
    if let Some(words) = best.filter(|_| tried) {
        text = format!("{text}. {words}");
    }
    let origin = job.fit_errors.iter();
    // The map has no order. The first name gives the same message in each session.
    let origin = origin.min_by_key(|(task, _)| &session.tx.snapshot.tasks[**task].key);
    if let Some((task, error)) = origin {
        let name = session.tx.snapshot.tasks[*task].name();
        text = format!("{text}. Origin reason is {name}: {}", error.text());
    }
    text
}
