//! The topology domains of groups whose pods all belong in one domain.

use super::Session;
use super::free_capacity::times;
use super::resource::{Dim, Resource};
use super::topology::DomainId;

impl Session<'_> {
    /// The domains among which a job has the choice; `None` for one whose pods may be anywhere.
    pub(crate) fn choice(&mut self, job: usize) -> Option<Vec<DomainId>> {
        let job = &self.snapshot.jobs[job];
        let labels = job.topology();
        if labels.is_empty() {
            return None;
        }
        let tasks = job.tasks.iter();
        let taken = tasks.filter_map(|task| self.snapshot.tasks[*task].node);
        Some(self.domains.choice(self.cluster, labels, taken))
    }

    /// The same for those that go through all that there is to try: a job that may be anywhere is tried once.
    pub(crate) fn tries(&mut self, job: usize) -> Vec<Option<DomainId>> {
        self.choice(job).map_or_else(
            || vec![None],
            |choice| choice.into_iter().map(Some).collect(),
        )
    }

    /// Does something while the pods of a job can be nowhere else.
    pub(crate) fn within<T>(
        &mut self,
        (job, within): (usize, Option<DomainId>),
        act: impl FnOnce(&mut Self) -> T,
    ) -> T {
        self.snapshot.jobs[job].within = within;
        let done = act(self);
        self.snapshot.jobs[job].within = None;
        done
    }

    /// The most pending pods of a job that could be in each of these domains, counting pending evictions and, if given,
    /// `held` amounts by node. `None` if a task cannot be compiled.
    pub(crate) fn most_in(
        &mut self,
        job: usize,
        choice: &[DomainId],
        held: Option<&[Resource]>,
    ) -> Option<Vec<usize>> {
        let parts = self.waiting_parts(job)?;
        let mut total = vec![0_usize; choice.len()];
        for part in &parts {
            let mut most = vec![0_usize; choice.len()];
            for node in 0..self.snapshot.nodes.len() {
                let at = self.domains.position(choice, node);
                let Some(at) = at.filter(|at| most[*at] < part.count) else {
                    continue;
                };
                let on_node = &self.snapshot.nodes[node];
                let room = |dim: Dim| {
                    let held = held.map_or(0.0, |held| held[node].get(dim));
                    held + on_node.idle.get(dim) + on_node.releasing.get(dim)
                        - on_node.pipelined.get(dim)
                };
                let count = times(&part.request, room);
                let (evaluator, view) = self.evaluation();
                let open = |task| evaluator.might_take(view, task, node, held.is_some());
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
    pub(crate) fn roomiest(
        &mut self,
        job: usize,
        choice: &[DomainId],
    ) -> Option<(DomainId, usize)> {
        let most = self.most_in(job, choice, None);
        let most = most.unwrap_or_else(|| vec![0; choice.len()]);
        let domains = choice.iter().copied().zip(most);
        domains.reduce(|best, domain| if domain.1 > best.1 { domain } else { best })
    }

    /// The message for a job without a domain.
    pub(crate) fn no_domain_words(&self, job: usize) -> String {
        match self.snapshot.jobs[job].topology() {
            [key] => format!("no node has the label {key}"),
            keys => format!("no node has all of the labels {}", keys.join(", ")),
        }
    }

    /// The message about the domain in which most pods of a job fit.
    pub(crate) fn domain_words(
        &self,
        job: usize,
        within: DomainId,
        (fit, all): (usize, usize),
    ) -> String {
        let job = &self.snapshot.jobs[job];
        let best = self.domains.words(within);
        let mut tasks = job.tasks.iter().map(|task| &self.snapshot.tasks[*task]);
        if tasks.any(|task| task.node.is_some()) {
            return format!("All its pods have to be on nodes with {best}, where some of them are");
        }
        let keys = job.topology().join(" and the same ");
        format!(
            "All its pods have to be on nodes with the same {keys}: at best there is room for {fit} of {all}, on those \
             with {best}"
        )
    }
}
