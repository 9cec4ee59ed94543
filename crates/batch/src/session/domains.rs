//! Groups of which all pods have to be in one domain of the cluster: which there are, and what is said of them.

use super::Session;
use super::resource::{Dim, Resource};
use super::rooms::times;
use super::within::Within;

impl Session<'_> {
    /// The domains among which a job has the choice; `None` for one whose pods may be anywhere.
    pub(crate) fn choice(&mut self, job: usize) -> Option<Vec<Within>> {
        let own = &self.model.jobs[job];
        let labels = own.topology();
        if labels.is_empty() {
            return None;
        }
        let tasks = own.tasks.iter();
        let taken = tasks.filter_map(|task| self.model.tasks[*task].node);
        Some(self.domains.choice(self.cluster, labels, taken))
    }

    /// The same for those that go through all that there is to try: a job that may be anywhere is tried once.
    pub(crate) fn tries(&mut self, job: usize) -> Vec<Option<Within>> {
        self.choice(job).map_or_else(
            || vec![None],
            |choice| choice.into_iter().map(Some).collect(),
        )
    }

    /// Does something while the pods of a job can be nowhere else.
    pub(crate) fn within<T>(
        &mut self,
        (job, within): (usize, Option<Within>),
        act: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.model.jobs[job].within = within;
        let done = act(self);
        self.model.jobs[job].within = None;
        done
    }

    /// How many pods of a job that wait there could be at most in each of these domains, now or once those have gone that go
    /// already, and those that hold this on each node. `None` if that cannot be told.
    pub(crate) fn most_in(
        &mut self,
        job: usize,
        choice: &[Within],
        held: Option<&[Resource]>,
    ) -> Option<Vec<usize>> {
        let parts = self.waiting_parts(job)?;
        let mut total = vec![0_usize; choice.len()];
        for part in &parts {
            let mut most = vec![0_usize; choice.len()];
            for node in 0..self.model.nodes.len() {
                let at = self.domains.position(choice, node);
                let Some(at) = at.filter(|at| most[*at] < part.count) else {
                    continue;
                };
                let own = &self.model.nodes[node];
                let room = |dim: Dim| {
                    let held = held.map_or(0.0, |held| held[node].get(dim));
                    held + own.idle.get(dim) + own.releasing.get(dim) - own.pipelined.get(dim)
                };
                let count = times(&part.request, room);
                let (judge, view) = self.asking();
                let open = |task| judge.might_take(view, task, node, held.is_some());
                if count > 0 && part.task.is_none_or(open) {
                    most[at] = most[at].saturating_add(count);
                }
            }
            for (total, most) in total.iter_mut().zip(most) {
                *total += most.min(part.count);
            }
        }
        Some(total)
    }

    /// The domain in which the most pods of a job that wait could be, the first of equals, and how many.
    pub(crate) fn roomiest(&mut self, job: usize, choice: &[Within]) -> Option<(Within, usize)> {
        let most = self.most_in(job, choice, None);
        let most = most.unwrap_or_else(|| vec![0; choice.len()]);
        let domains = choice.iter().copied().zip(most);
        domains.reduce(|best, own| if own.1 > best.1 { own } else { best })
    }

    /// What a job is told whose pods could be in no domain.
    pub(crate) fn no_domain_words(&self, job: usize) -> String {
        match self.model.jobs[job].topology() {
            [key] => format!("no node has the label {key}"),
            keys => format!("no node has all of the labels {}", keys.join(", ")),
        }
    }

    /// What a job is told about the domain in which most of its pods fit: how many of how many.
    pub(crate) fn domain_words(
        &self,
        job: usize,
        within: Within,
        (fit, all): (usize, usize),
    ) -> String {
        let own = &self.model.jobs[job];
        let best = self.domains.words(within);
        let mut tasks = own.tasks.iter().map(|task| &self.model.tasks[*task]);
        if tasks.any(|task| task.node.is_some()) {
            return format!("All its pods have to be on nodes with {best}, where some of them are");
        }
        let keys = own.topology().join(" and the same ");
        format!(
            "All its pods have to be on nodes with the same {keys}: at best there is room for {fit} of {all}, on those \
             with {best}"
        )
    }
}
