//! Reports the state when a session opens and after its actions.

use crate::session::Session;
use crate::session::objects::{ROOT, quantity};
use crate::session::outcome::{
    Amount, Amounts, Eviction, JobShareOutcome, Outcome, QueueOutcome, Refused,
};
use crate::session::plugins::{QueueShare, Shares};
use crate::session::priority_queue::PriorityQueue;
use crate::session::resource::{Dim, Resource};
use crate::session::task::Status;
use std::collections::BTreeMap;

impl Session<'_> {
    /// Before any action.
    pub(crate) fn report_open(&self, outcome: &mut Outcome) {
        let by_rank = self.snapshot.by_rank.iter();
        outcome.session_nodes = by_rank
            .map(|node| self.node_name(*node).to_owned())
            .collect();
        let mut queues = PriorityQueue::default();
        let mut jobs = vec![PriorityQueue::default(); self.snapshot.queues.len()];
        for (index, job) in self.snapshot.live_jobs() {
            outcome.session_jobs.push(job.key.to_string());
            if let Some(invalid) = self.invalid(index) {
                let refused = Refused {
                    reason: invalid.reason.to_owned(),
                    message: invalid.message,
                };
                outcome.invalid_jobs.insert(job.key.to_string(), refused);
            }
            if jobs[job.queue].is_empty() {
                queues.push(job.queue, |one, other| self.queue_before(one, other));
            }
            jobs[job.queue].push(index, |one, other| self.job_before(one, other));
        }
        outcome.session_jobs.sort_unstable();
        while let Some(queue) = queues.pop(|one, other| self.queue_before(one, other)) {
            let waiting = &mut jobs[queue];
            let order =
                std::iter::from_fn(|| waiting.pop(|one, other| self.job_before(one, other)));
            let order = order.map(|job| self.snapshot.jobs[job].key.to_string());
            let name = self.snapshot.queues[queue].name.to_string();
            outcome
                .job_order_at_open
                .insert(name.clone(), order.collect());
            outcome.queue_order_at_open.push(name);
        }
        outcome.queues_at_open = self.queue_outcomes(true);
        outcome.job_shares_at_open = self.plugins.drf.as_ref().map(|drf| {
            let shares = self.snapshot.live_jobs().map(|(index, job)| {
                let job_share = &drf.jobs[index];
                let dominant = job_share
                    .dominant
                    .map_or("", |dim| self.snapshot.dims.name(dim));
                let share = JobShareOutcome {
                    dominant_resource: dominant.to_owned(),
                    share: job_share.share,
                };
                (job.key.to_string(), share)
            });
            shares.collect()
        });
    }

    /// After the last action.
    pub(crate) fn report_actions(&self, outcome: &mut Outcome) {
        let key = |task: usize| self.snapshot.tasks[task].key.to_string();
        outcome.queues_after = self.queue_outcomes(false);
        let binds = self.binds.iter();
        outcome.binds = binds
            .map(|(task, node)| (key(*task), self.node_name(*node).to_owned()))
            .collect();
        outcome.bound = outcome.binds.keys().cloned().collect();
        let evicted = self.evicted.iter();
        outcome.evicted = evicted
            .map(|(task, why)| Eviction {
                pod: key(*task),
                reason: (*why).to_owned(),
            })
            .collect();
        outcome.evicted.sort_unstable();
        let jobs = self.snapshot.live_jobs();
        for index in jobs.flat_map(|(_, job)| job.tasks.iter().copied()) {
            let task = &self.snapshot.tasks[index];
            let Some(node) = task.node else { continue };
            let name = self.node_name(node);
            match task.status {
                Status::Pipelined => {
                    outcome.pipelined.insert(key(index), name.to_owned());
                }
                Status::Allocated => {
                    outcome
                        .allocated_not_bound
                        .push(format!("{} -> {name}", task.key));
                }
                _ => {}
            }
        }
        outcome.allocated_not_bound.sort_unstable();
    }

    /// The amounts that queues' tasks hold, for the status of the queues.
    pub(super) fn report_queues(&self, outcome: &mut Outcome) {
        let mut allocated = vec![Resource::default(); self.snapshot.queues.len()];
        // Without the queue above all others nothing is summed up.
        let top = self
            .snapshot
            .live_queues()
            .any(|(_, queue)| &*queue.name == ROOT);
        for (_, job) in self.snapshot.live_jobs() {
            let mut queue = Some(job.queue);
            // So many operations lead to the top, unless the queues go round in a circle.
            for _ in 0..self.snapshot.queues.len() {
                let Some(at) = queue else { break };
                allocated[at].add(&job.allocated);
                queue = self.snapshot.queues[at].parent.filter(|_| top);
            }
        }
        for (index, queue) in self.snapshot.live_queues() {
            let held = &allocated[index];
            let amounts = held
                .iter()
                .filter(|(dim, amount)| *amount != 0.0 || matches!(*dim, Dim::CPU | Dim::MEMORY));
            let amounts = amounts.map(|(dim, amount)| {
                let name = self.snapshot.dims.name(dim);
                (name.to_owned(), quantity(name, amount).to_string())
            });
            let amounts: BTreeMap<String, String> = amounts.collect();
            outcome
                .queue_allocated
                .insert(queue.name.to_string(), amounts);
        }
    }

    fn amounts(&self, resource: &Resource) -> Amounts {
        let amounts = resource.iter();
        amounts
            .map(|(dim, amount)| (self.snapshot.dims.name(dim).to_owned(), Amount(amount)))
            .collect()
    }

    /// Queues' shares, if a plugin shares by queue.
    fn queue_outcomes(&self, all: bool) -> Option<BTreeMap<String, QueueOutcome>> {
        let plugins = &self.plugins;
        let capacity = plugins.capacity.as_ref().map(|capacity| &capacity.shares);
        let proportion = plugins
            .proportion
            .as_ref()
            .map(|proportion| &proportion.shares);
        let shares: &Shares = capacity.or(proportion)?;
        let queues = self.snapshot.queues.iter().zip(&shares.queues);
        let outcomes = queues.filter_map(|(queue, share)| {
            Some((
                queue.name.to_string(),
                self.queue_outcome(share.as_ref()?, all),
            ))
        });
        Some(outcomes.collect())
    }

    fn queue_outcome(&self, share: &QueueShare, all: bool) -> QueueOutcome {
        let amounts = |amounts: &Resource| all.then(|| self.amounts(amounts));
        QueueOutcome {
            allocated: self.amounts(&share.allocated),
            deserved: amounts(&share.deserved),
            elastic: amounts(&share.elastic),
            inqueue: self.amounts(&share.inqueue),
            real_capability: amounts(&share.real_capability),
            request: amounts(&share.request),
            share: share.share,
        }
    }
}
