//! What a session shows of its beginning and of its actions.

use crate::session::Session;
use crate::session::objects::{ROOT, quantity};
use crate::session::order::Waiting;
use crate::session::outcome::{
    Amount, Amounts, Eviction, JobShareOutcome, Outcome, QueueOutcome, Refused,
};
use crate::session::plugins::{QueueShare, Shares};
use crate::session::resource::{Dim, Resource};
use crate::session::task::Status;
use std::collections::BTreeMap;

impl Session<'_> {
    /// Before any action.
    pub(crate) fn report_open(&self, outcome: &mut Outcome) {
        let by_rank = self.model.by_rank.iter();
        outcome.session_nodes = by_rank
            .map(|node| self.node_name(*node).to_owned())
            .collect();
        let mut queues = Waiting::default();
        let mut jobs = vec![Waiting::default(); self.model.queues.len()];
        for (index, job) in self.model.live_jobs() {
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
            let order = order.map(|job| self.model.jobs[job].key.to_string());
            let name = self.model.queues[queue].name.to_string();
            outcome
                .job_order_at_open
                .insert(name.clone(), order.collect());
            outcome.queue_order_at_open.push(name);
        }
        outcome.queues_at_open = self.queue_outcomes(true);
        outcome.job_shares_at_open = self.plugins.drf.as_ref().map(|drf| {
            let shares = self.model.live_jobs().map(|(index, job)| {
                let own = &drf.jobs[index];
                let dominant = own.dominant.map_or("", |dim| self.model.dims.name(dim));
                let share = JobShareOutcome {
                    dominant_resource: dominant.to_owned(),
                    share: own.share,
                };
                (job.key.to_string(), share)
            });
            shares.collect()
        });
    }

    /// After the last action.
    pub(crate) fn report_actions(&self, outcome: &mut Outcome) {
        let key = |task: usize| self.model.tasks[task].key.to_string();
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
        let jobs = self.model.live_jobs();
        for index in jobs.flat_map(|(_, job)| job.tasks.iter().copied()) {
            let task = &self.model.tasks[index];
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

    /// What queues' tasks hold, as it is written to their status.
    pub(super) fn report_queues(&self, outcome: &mut Outcome) {
        let mut allocated = vec![Resource::default(); self.model.queues.len()];
        // Without the queue above all others nothing is summed up.
        let top = self.model.live_queues().any(|(_, own)| &*own.name == ROOT);
        for (_, job) in self.model.live_jobs() {
            let mut queue = Some(job.queue);
            // So many steps lead to the top, unless the queues go round in a circle.
            for _ in 0..self.model.queues.len() {
                let Some(own) = queue else { break };
                allocated[own].add(&job.allocated);
                queue = self.model.queues[own].parent.filter(|_| top);
            }
        }
        for (index, queue) in self.model.live_queues() {
            let own = &allocated[index];
            let amounts = own
                .iter()
                .filter(|(dim, amount)| *amount != 0.0 || matches!(*dim, Dim::CPU | Dim::MEMORY));
            let amounts = amounts.map(|(dim, amount)| {
                let name = self.model.dims.name(dim);
                (name.to_owned(), quantity(name, amount).to_string())
            });
            let amounts: BTreeMap<String, String> = amounts.collect();
            outcome
                .queue_allocated
                .insert(queue.name.to_string(), amounts);
        }
    }

    fn amounts(&self, own: &Resource) -> Amounts {
        let amounts = own.iter();
        amounts
            .map(|(dim, amount)| (self.model.dims.name(dim).to_owned(), Amount(amount)))
            .collect()
    }

    /// Queues' shares, if a plugin shares by queue.
    fn queue_outcomes(&self, all: bool) -> Option<BTreeMap<String, QueueOutcome>> {
        let plugins = &self.plugins;
        let capacity = plugins.capacity.as_ref().map(|own| &own.shares);
        let proportion = plugins.proportion.as_ref().map(|own| &own.shares);
        let shares: &Shares = capacity.or(proportion)?;
        let queues = self.model.queues.iter().zip(&shares.queues);
        let outcomes = queues.filter_map(|(queue, own)| {
            Some((
                queue.name.to_string(),
                self.queue_outcome(own.as_ref()?, all),
            ))
        });
        Some(outcomes.collect())
    }

    fn queue_outcome(&self, own: &QueueShare, all: bool) -> QueueOutcome {
        let amounts = |amounts: &Resource| all.then(|| self.amounts(amounts));
        QueueOutcome {
            allocated: self.amounts(&own.allocated),
            deserved: amounts(&own.deserved),
            elastic: amounts(&own.elastic),
            inqueue: self.amounts(&own.inqueue),
            real_capability: amounts(&own.real_capability),
            request: amounts(&own.request),
            share: own.share,
        }
    }
}
