//! What each queue holds, wants and deserves; how it comes to deserve it is a matter of the plugin.

use crate::session::Form;
use crate::session::model::Model;
use crate::session::resource::{Resource, Unnamed, share};
use crate::session::task::Status;

/// The most rounds.
const ROUNDS: usize = 10_000;

/// A queue's part. All amounts as in [`Resource`].
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueShare {
    pub(crate) weight: f64,
    pub(crate) allocated: Resource,
    /// What its tasks hold and wait for.
    pub(crate) request: Resource,
    pub(crate) deserved: Resource,
    /// What jobs that were let in are waiting for.
    pub(crate) inqueue: Resource,
    /// What its jobs hold beyond what they need.
    pub(crate) elastic: Resource,
    pub(crate) guarantee: Resource,
    /// The most it can have.
    pub(crate) real_capability: Resource,
    pub(crate) share: f64,
    /// Of one that lends of what it deserves.
    pub(crate) lent: Option<Lent>,
    /// The share of a queue that deserves nothing, where it does not follow from what it holds.
    pub(crate) share_of_nothing: Option<f64>,
}

/// A queue that cannot use all that it deserves.
#[derive(Debug, Clone)]
pub(crate) struct Lent {
    /// What it holds and can use besides.
    pub(crate) usable: Resource,
    /// What it deserves by its weight.
    pub(crate) deserved: Resource,
}

/// The queues that have a job, by index.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares {
    pub(crate) queues: Vec<Option<QueueShare>>,
}

impl QueueShare {
    /// The largest part of what it deserves that it holds (S6-131).
    pub(crate) fn update(&mut self) {
        if self.deserved.is_empty()
            && let Some(share) = self.share_of_nothing
        {
            self.share = share;
            return;
        }
        let deserved = self.deserved.some();
        let shares = deserved.map(|(dim, deserved)| share(self.allocated.get(dim), deserved));
        self.share = shares.fold(0.0, f64::max);
    }

    /// What it holds and wants of what it deserves.
    pub(crate) fn wanted(&self) -> &Resource {
        self.lent.as_ref().map_or(&self.request, |own| &own.usable)
    }

    /// What it deserves by its weight, whether it can use it or not.
    pub(crate) fn entitled(&self) -> &Resource {
        self.lent
            .as_ref()
            .map_or(&self.deserved, |own| &own.deserved)
    }

    /// What it would hold with one request more.
    pub(crate) fn with(&self, request: &Resource) -> Resource {
        let mut sum = self.allocated.clone();
        sum.add(request);
        sum
    }

    /// What it would come to if a job with this need was let in (S6-134).
    pub(crate) fn with_job(&self, need: &Resource) -> Resource {
        let mut sum = need.clone();
        sum.add(&self.allocated);
        sum.add(&self.inqueue);
        sum.sub(&self.elastic);
        sum
    }
}

impl Shares {
    /// What queues hold and want, and the most that each can have (S6-130). They deserve nothing yet.
    pub(crate) fn open(model: &Model, form: &Form) -> Self {
        let mut guaranteed = Resource::default();
        let queues = model.live_queues();
        for guarantee in queues.filter_map(|(_, own)| own.guarantee.as_ref()) {
            guaranteed.add(guarantee);
        }
        let mut own = Self {
            queues: vec![None; model.queues.len()],
        };
        for (index, job) in model.live_jobs() {
            let queue = &model.queues[job.queue];
            let part = own.queues[job.queue].get_or_insert_with(|| {
                let guarantee = queue.guarantee.clone().unwrap_or_default();
                let mut most = model.total.beyond(&guaranteed);
                most.add(&guarantee);
                if let Some(capability) = &queue.capability {
                    let mut capability = capability.clone();
                    for amount in [&mut capability.cpu, &mut capability.memory] {
                        if *amount <= 0.0 {
                            *amount = f64::MAX;
                        }
                    }
                    most.lower_to(&capability, Unnamed::Infinity);
                }
                QueueShare {
                    weight: queue.weight,
                    guarantee,
                    real_capability: most,
                    ..QueueShare::default()
                }
            });
            part.allocated.add(&job.allocated);
            part.request.add(&job.allocated);
            part.elastic
                .add(&job.allocated.beyond(&job.min_resources()));
            if let Some(inqueue) = model.promised(index, form) {
                part.inqueue.add(&inqueue);
            }
            if job.count(Status::Pending) > 0 {
                for task in model.tasks_of(index, Status::Pending) {
                    part.request.add(&model.tasks[task].request);
                }
            }
        }
        own
    }

    /// Round by round gives each queue that wants more its part of what is left (S6-129).
    pub(super) fn divide(&mut self, total: &Resource) {
        for own in self.queues.iter_mut().flatten() {
            own.deserved = Resource::default();
        }
        let mut remaining = total.clone();
        let mut met = vec![false; self.queues.len()];
        // It is over after a few rounds, unless somebody has written weights below zero.
        for _ in 0..ROUNDS {
            let unmet = self.queues.iter().zip(&met).filter(|(_, met)| !**met);
            let weights: f64 = unmet
                .filter_map(|(own, _)| own.as_ref().map(|own| own.weight))
                .sum();
            if weights == 0.0 {
                break;
            }
            let before = remaining.clone();
            let (mut more, mut less) = (Resource::default(), Resource::default());
            for (own, met) in self.queues.iter_mut().zip(&mut met) {
                let Some(own) = own.as_mut().filter(|_| !*met) else {
                    continue;
                };
                let old = own.deserved.clone();
                let mut part = before.clone();
                part.scale(own.weight / weights);
                own.deserved.add(&part);
                own.deserved
                    .lower_to(&own.real_capability, Unnamed::Infinity);
                let wanted = own.wanted().clone();
                own.deserved.lower_to(&wanted, Unnamed::Zero);
                own.deserved.raise_to(&own.guarantee);
                own.update();
                *met = wanted.within(&own.deserved, Unnamed::Zero) || own.deserved == old;
                more.add(&own.deserved.beyond(&old));
                less.add(&old.beyond(&own.deserved));
            }
            // A guarantee may have given more than there was; nobody is made to pay for it.
            remaining.add(&less);
            remaining = remaining.beyond(&more);
            if remaining.is_empty() || remaining == before {
                break;
            }
        }
    }

    pub(crate) fn of(&self, queue: usize) -> Option<&QueueShare> {
        self.queues[queue].as_ref()
    }

    pub(crate) fn change(&mut self, queue: usize, request: &Resource, more: bool) {
        if let Some(own) = &mut self.queues[queue] {
            if more {
                own.allocated.add(request);
            } else {
                own.allocated.sub(request);
            }
            own.update();
        }
    }

    /// The largest part of its fair share of the cluster that a queue holds or was promised: what it deserves where that is
    /// laid down, what its weight says otherwise.
    pub(crate) fn promised(&self, queue: usize, total: &Resource, laid_down: bool) -> f64 {
        let Some(own) = self.of(queue) else {
            return 0.0;
        };
        let mut fair = own.deserved.clone();
        if !laid_down || fair.is_empty() {
            let weights: f64 = self.queues.iter().flatten().map(|own| own.weight).sum();
            fair = total.clone();
            fair.scale(own.weight / weights.max(1.0));
        }
        let held = own.with(&own.inqueue);
        let parts = fair.some().map(|(dim, fair)| share(held.get(dim), fair));
        parts.fold(0.0, f64::max)
    }

    pub(crate) fn share(&self, queue: usize) -> f64 {
        self.of(queue).map_or(0.0, |own| own.share)
    }
}
