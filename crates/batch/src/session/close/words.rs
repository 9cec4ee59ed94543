//! Why a job or a pod waits, in Volcano's words (S6-139, S6-140).

use crate::session::Session;
use crate::session::task::Status;
use std::collections::BTreeMap;

/// Counts as texts, sorted as such.
fn sorted(counts: impl Iterator<Item = (String, i32)>) -> String {
    let mut texts: Vec<String> = counts
        .map(|(name, count)| format!("{count} {name}"))
        .collect();
    texts.sort_unstable();
    texts.join(", ")
}

impl Session<'_> {
    pub(super) fn node_name(&self, node: usize) -> &str {
        self.cluster.node_name(evictd_placement::NodeId::of(node))
    }

    /// Why a pod waits: in a word, for people where there is something to say of it alone, and the node that is being
    /// freed for it.
    pub(super) fn said_of(&self, task: usize) -> (&'static str, Option<String>, Option<usize>) {
        let own = &self.model.tasks[task];
        let context = own.context();
        let node = context.node.map_or("", |node| self.node_name(node));
        let key = &own.key;
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
                let nominated = context.node.filter(|_| context.evicts);
                ("Unschedulable", Some(words), nominated)
            }
            Status::Pending => {
                let error = self.model.jobs[own.job].fit_errors.get(&task);
                let words = error.map(|error| error.text().to_owned());
                ("Unschedulable", words, None)
            }
            other => (other.as_str(), None, None),
        }
    }

    /// What there is to say of a job as a whole.
    pub(super) fn fit_text(&self, job: usize) -> String {
        let own = &self.model.jobs[job];
        let not = if own.is_ready() { "" } else { "not " };
        let counts = Status::ALL.into_iter().filter_map(|status| {
            let count = own.count(status);
            (count > 0).then(|| (status.as_str().to_owned(), count))
        });
        let counts = counts.chain([("minAvailable".to_owned(), own.min_member)]);
        let mut text = format!("pod group is {not}ready, {}", sorted(counts));
        let mut reasons: BTreeMap<&str, i32> = BTreeMap::new();
        for task in self.model.tasks_of(job, Status::Pending) {
            *reasons.entry(self.said_of(task).0).or_default() += 1;
        }
        if !reasons.is_empty() {
            let reasons = reasons.into_iter();
            let reasons = sorted(reasons.map(|(reason, count)| (reason.to_owned(), count)));
            text = format!("{text}; Pending: {reasons}");
        }
        if own.priority < own.class_priority {
            let (counted, class) = (own.priority, own.class_priority);
            text = format!(
                "{text}. Its priority counts as {counted}, the lowest of its pods, not as {class}"
            );
        }
        if let Some(words) = &own.kept_out {
            text = format!("{text}. Not let in: {words}");
        }
        let best = own.best_domain.as_ref();
        if let Some(words) = best.filter(|_| !own.fit_errors.is_empty()) {
            text = format!("{text}. {words}");
        }
        let origin = own.fit_errors.iter();
        let origin = origin.min_by_key(|(task, _)| &self.model.tasks[**task].key);
        if let Some((task, error)) = origin {
            let name = self.model.tasks[*task].name();
            text = format!("{text}. Origin reason is {name}: {}", error.text());
        }
        text
    }
}
