//! The allocated, requested and deserved amounts of each queue. Plugins decide how they are divided.

use super::{Reserved, Vote};
use crate::session::objects::quantity;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{JobId, QueueId, TaskId};
use crate::session::snapshot::resource::{Dim, Resource, Unnamed, share};
use crate::session::snapshot::task::Status;
use evictd_batch_objects::{Compat, Difference};
use serde::Serialize;
use std::cmp::Ordering;

/// The most rounds.
const ROUNDS: usize = 10_000;

/// A queue's part. All amounts as in [`Resource`].
#[derive(Debug, Clone, Default)]
pub(crate) struct QueueShare {
    pub(crate) weight: f64,
    pub(crate) allocated: Resource,
    /// The amounts that its tasks hold or wait for.
    pub(crate) request: Resource,
    pub(crate) deserved: Resource,
    /// The part of `deserved` that other queues lend, because they cannot use it.
    pub(crate) lent: Resource,
    /// The amounts promised to enqueued jobs.
    pub(crate) inqueue: Resource,
    /// The amounts that its jobs hold beyond their minResources.
    pub(crate) elastic: Resource,
    pub(crate) guarantee: Resource,
    /// Its capability, with the limits of the queues above. Empty without a tree of queues.
    pub(crate) capability: Resource,
    /// The most it can have.
    pub(crate) real_capability: Resource,
    pub(crate) share: f64,
    /// Set if a part of its share is redistributed.
    pub(crate) reduced: Option<ReducedShare>,
    /// The share of a queue that deserves nothing, if it does not follow from its allocation.
    pub(crate) share_of_nothing: Option<f64>,
}

/// A queue that cannot use all that it deserves.
#[derive(Debug, Clone)]
pub(crate) struct ReducedShare {
    /// Its allocation and the part that it can use besides.
    pub(crate) usable: Resource,
    /// The deserved share by weight.
    pub(crate) deserved: Resource,
}

/// The key of a queue's object that limits a job.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LimitingKey {
    /// The queue that may not have more: that of the job, or one above it.
    pub limited: String,
    /// The queue that has the key.
    pub queue: String,
    /// `spec.capability`, or `spec.guarantee` of another queue; empty if the cluster is the limit.
    pub key: &'static str,
    /// Both with the amount, for people.
    pub message: String,
}

/// The shares of queues by index: of those that have a job, or of every queue of a tree.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shares {
    pub(crate) queues: Vec<Option<QueueShare>>,
    /// By queue, the queues above it, the root first. Empty without a tree.
    pub(crate) ancestors: Vec<Vec<QueueId>>,
    /// Whether the shares of inner queues change during the session.
    pub(crate) inner_shares_follow: bool,
    /// Whether a refusal names the queue and the key that limits a job.
    pub(super) explains: bool,
}

impl QueueShare {
    /// Updates the share: the largest part of the deserved amounts that is allocated (S6-131).
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

    /// The requested part of the deserved share.
    pub(crate) fn wanted(&self) -> &Resource {
        self.reduced
            .as_ref()
            .map_or(&self.request, |reduced| &reduced.usable)
    }

    /// The deserved share by weight, whether it is usable or not.
    pub(crate) fn entitled(&self) -> &Resource {
        self.reduced
            .as_ref()
            .map_or(&self.deserved, |reduced| &reduced.deserved)
    }

    /// Whether it holds more than an amount of any resource, the number of pods aside.
    pub(super) fn exceeds(&self, amount: &Resource) -> bool {
        let mut held = self.allocated.iter();
        held.any(|(dim, held)| dim != Dim::PODS && held > amount.get(dim))
    }

    /// The allocation with one more request.
    pub(crate) fn with(&self, request: &Resource) -> Resource {
        let mut sum = self.allocated.clone();
        sum.add(request);
        sum
    }

    /// The sum if a job with this request were enqueued (S6-134).
    pub(crate) fn with_job(&self, need: &Resource) -> Resource {
        let mut sum = need.clone();
        sum.add(&self.allocated);
        sum.add(&self.inqueue);
        sum.sub(&self.elastic);
        sum
    }
}

impl Shares {
    /// The allocated and requested amounts and the real capability of queues (S6-130). Nothing is deserved yet.
    pub(crate) fn open(snapshot: &Snapshot, compat: Compat) -> Self {
        let mut guaranteed = Resource::default();
        let queues = snapshot.live_queues();
        for guarantee in queues.filter_map(|(_, queue)| queue.guarantee.as_ref()) {
            guaranteed.add(guarantee);
        }
        let mut shares = Self {
            queues: vec![None; snapshot.queues.len()],
            explains: compat.has(Difference::ConditionSaysWhy),
            ..Self::default()
        };
        for (index, job) in snapshot.live_jobs() {
            let queue = &snapshot.queues[job.queue];
            shares.queues[job.queue].get_or_insert_with(|| {
                let guarantee = queue.guarantee.clone().unwrap_or_default();
                let mut most = snapshot.total.beyond(&guaranteed);
                most.add(&guarantee);
                if let Some(capability) = &queue.capability {
                    let mut capability = capability.clone();
                    // Volcano reads a capability of zero as none.
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
            shares.count(snapshot, index, compat);
        }
        shares
    }

    /// Adds the amounts of a job to its queue and the queues above it (S6-155).
    pub(super) fn count(&mut self, snapshot: &Snapshot, job_id: JobId, compat: Compat) {
        let job = &snapshot.jobs[job_id];
        let elastic = job.allocated.beyond(&job.min_resources());
        let inqueue = snapshot.promised(job_id, compat);
        let mut request = job.allocated.clone();
        if job.count(Status::Pending) > 0 {
            for task in snapshot.tasks_of(job_id, Status::Pending) {
                request.add(&snapshot.tasks[task].request);
            }
        }
        self.on_path(job.queue, |part, _| {
            part.allocated.add(&job.allocated);
            part.request.add(&request);
            part.elastic.add(&elastic);
            if let Some(inqueue) = &inqueue {
                part.inqueue.add(inqueue);
            }
        });
    }

    /// Changes the share of a queue and of the queues above it. The flag is true for the queue itself.
    fn on_path(&mut self, queue: QueueId, mut change: impl FnMut(&mut QueueShare, bool)) {
        let above = self.ancestors.get(queue.index()).into_iter().flatten();
        for at in std::iter::once(&queue).chain(above) {
            if let Some(share) = &mut self.queues[*at] {
                change(share, *at == queue);
            }
        }
    }

    /// The share of a queue and of the queues above it, the nearest first.
    pub(crate) fn path(&self, queue: QueueId) -> impl Iterator<Item = (QueueId, &QueueShare)> {
        let above = self.ancestors.get(queue.index()).into_iter().flatten();
        let path = std::iter::once(queue).chain(above.rev().copied());
        path.filter_map(|at| Some((at, self.of(at)?)))
    }

    /// Gives each queue that wants more its part of the rest, round by round (S6-129).
    pub(super) fn divide(&mut self, total: &Resource) {
        for share in self.queues.iter_mut().flatten() {
            share.deserved = Resource::default();
        }
        let mut remaining = total.clone();
        let mut met = vec![false; self.queues.len()];
        // A few rounds suffice, unless weights are negative.
        for _ in 0..ROUNDS {
            let unmet = self.queues.iter().zip(&met).filter(|(_, met)| !**met);
            let weights: f64 = unmet
                .filter_map(|(share, _)| share.as_ref().map(|share| share.weight))
                .sum();
            if weights == 0.0 {
                break;
            }
            let before = remaining.clone();
            let (mut more, mut less) = (Resource::default(), Resource::default());
            for (share, met) in self.queues.iter_mut().zip(&mut met) {
                let Some(share) = share.as_mut().filter(|_| !*met) else {
                    continue;
                };
                let old = share.deserved.clone();
                let mut part = before.clone();
                part.scale(share.weight / weights);
                share.deserved.add(&part);
                share
                    .deserved
                    .lower_to(&share.real_capability, Unnamed::Infinity);
                let wanted = share.wanted().clone();
                share.deserved.lower_to(&wanted, Unnamed::Zero);
                share.deserved.raise_to(&share.guarantee);
                share.update();
                *met = wanted.within(&share.deserved, Unnamed::Zero) || share.deserved == old;
                more.add(&share.deserved.beyond(&old));
                less.add(&old.beyond(&share.deserved));
            }
            // Guarantees may exceed the total; other queues do not pay for that.
            remaining.add(&less);
            remaining = remaining.beyond(&more);
            // Further rounds would change nothing.
            if remaining.is_empty() || remaining == before {
                break;
            }
        }
    }

    pub(crate) fn of(&self, queue: QueueId) -> Option<&QueueShare> {
        self.queues[queue].as_ref()
    }

    /// A task was allocated or deallocated.
    pub(super) fn change(&mut self, snapshot: &Snapshot, task: TaskId, more: bool) {
        let task = &snapshot.tasks[task];
        let follows = self.inner_shares_follow;
        self.on_path(snapshot.jobs[task.job].queue, |share, is_own| {
            if more {
                share.allocated.add(&task.request);
            } else {
                share.allocated.sub(&task.request);
            }
            if is_own || follows {
                share.update();
            }
        });
    }

    /// Sets aside the request of a job that was enqueued.
    pub(crate) fn add_inqueue(&mut self, queue: QueueId, request: &Resource) {
        self.on_path(queue, |share, _| share.inqueue.add(request));
    }

    /// The higher priority first, then the smaller share.
    pub(super) fn compare(&self, snapshot: &Snapshot, one: QueueId, other: QueueId) -> Ordering {
        let priority = |queue: QueueId| snapshot.queues[queue].priority;
        let order = priority(other).cmp(&priority(one));
        order.then_with(|| self.share(one).total_cmp(&self.share(other)))
    }

    /// Whether a job's queue, and each queue above it, has room for its request (S6-134, S6-161).
    pub(super) fn enqueueable(
        &self,
        snapshot: &Snapshot,
        job: JobId,
        request: &Resource,
        reserved: &Reserved,
    ) -> Result<Vote, String> {
        let queue = snapshot.jobs[job].queue;
        if self.of(queue).is_none() {
            return Ok(Vote::Abstain);
        }
        if !snapshot.queues[queue].open {
            return Err(String::new());
        }
        for (at, share) in self.path(queue) {
            let mut sum = share.with_job(request);
            if let Some(reserved) = &reserved.of_share {
                sum.add(reserved);
            }
            if let Some(returned) = &reserved.returned {
                sum.sub(returned);
            }
            let exceeded: Vec<Dim> = sum.exceeded(&share.real_capability, request).collect();
            let Some(first) = exceeded.first().copied() else {
                continue;
            };
            let text = "queue resource quota insufficient";
            let text = objection(snapshot, text, "insufficient", exceeded);
            if !self.explains {
                return Err(text);
            }
            let limit = self.limiting_key(snapshot, at, first);
            return Err(format!("{text}; {}", limit.message));
        }
        Ok(Vote::Permit)
    }

    /// The key that limits a resource of a queue: its capability, or the guarantees of other queues.
    pub(crate) fn limiting_key(
        &self,
        snapshot: &Snapshot,
        queue: QueueId,
        dim: Dim,
    ) -> LimitingKey {
        let name = snapshot.dims.name(dim);
        let amount = |amount: f64| format!("{name} {}", quantity(name, amount));
        let limited = &snapshot.queues[queue];
        let most = self
            .of(queue)
            .map_or(0.0, |share| share.real_capability.get(dim));
        // A queue may have no more than those above it, so the key may be theirs.
        let capped = self.path(queue).find_map(|(at, _)| {
            let capability = snapshot.queues[at].capability.as_ref()?.get(dim);
            let is_limit = capability > 0.0 && capability <= most;
            is_limit.then(|| (capability, snapshot.queues[at].name.to_string()))
        });
        if let Some((capability, name)) = capped {
            let capability = amount(capability);
            return LimitingKey {
                message: format!("spec.capability of queue {name} is {capability}"),
                limited: name.clone(),
                queue: name,
                key: "spec.capability",
            };
        }
        let guaranteed = snapshot.live_queues().filter_map(|(id, other)| {
            let guarantee = other.guarantee.as_ref()?.get(dim);
            (id != queue && guarantee > 0.0).then_some((guarantee, other))
        });
        let largest = guaranteed.max_by(|(one, left), (other, right)| {
            one.total_cmp(other)
                .then_with(|| right.name.cmp(&left.name))
        });
        let left = amount(most.max(0.0));
        let has = format!("queue {} may have {left}", limited.name);
        match largest {
            Some((guarantee, other)) => LimitingKey {
                limited: limited.name.to_string(),
                queue: other.name.to_string(),
                key: "spec.guarantee",
                message: format!(
                    "{has}, since spec.guarantee of queue {} keeps {}",
                    other.name,
                    amount(guarantee)
                ),
            },
            None => LimitingKey {
                limited: limited.name.to_string(),
                queue: limited.name.to_string(),
                key: "",
                message: has,
            },
        }
    }

    /// The largest part of its fair share that a queue holds or was promised. The fair share is `deserved` with plugin
    /// capacity, else it follows from the weight.
    pub(crate) fn promised(&self, queue: QueueId, total: &Resource, laid_down: bool) -> f64 {
        let Some(queue_share) = self.of(queue) else {
            return 0.0;
        };
        let mut fair = queue_share.deserved.clone();
        if !laid_down || fair.is_empty() {
            let weights: f64 = self.queues.iter().flatten().map(|share| share.weight).sum();
            fair = total.clone();
            fair.scale(queue_share.weight / weights.max(1.0));
        }
        let held = queue_share.with(&queue_share.inqueue);
        let parts = fair.some().map(|(dim, fair)| share(held.get(dim), fair));
        parts.fold(0.0, f64::max)
    }

    pub(crate) fn share(&self, queue: QueueId) -> f64 {
        self.of(queue).map_or(0.0, |queue| queue.share)
    }
}

/// `queue resource quota insufficient: insufficient cpu, insufficient memory`.
pub(super) fn objection(snapshot: &Snapshot, text: &str, word: &str, dims: Vec<Dim>) -> String {
    let names = dims.into_iter().map(|dim| snapshot.dims.name(dim));
    let names: Vec<String> = names.map(|name| format!("{word} {name}")).collect();
    format!("{text}: {}", names.join(", "))
}
