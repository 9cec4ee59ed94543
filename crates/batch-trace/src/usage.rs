//! Records the queues' allocations and demand over time, and derives figures.

use super::fairness::{self, Claim};
use super::series::Series;
use super::wire::{Nodes, Queue, Trace};
use evictd_batch::session::Amounts as SessionAmounts;
use evictd_pod::Quantity;
use evictd_pod::resources::{MEMORY, PODS};
use evictd_pod::wire::ResourceList;
use std::collections::BTreeSet;

/// Amounts of each resource of the usage, in billionths of its unit.
pub(super) type Amounts = Box<[i128]>;

/// Jain's index is counted in so many steps from 0 to 1.
const STEPS: u16 = 1000;

#[derive(Debug)]
struct QueueAccount {
    weight: f64,
    /// The most that the queue may have of each resource, if there is a limit.
    most: Vec<Option<i128>>,
    holds: Amounts,
    waits: Amounts,
}

/// The free part of a resource while a job waits.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Free {
    pub(super) all: f64,
    /// That on nodes reserved for a job.
    pub(super) reserved: f64,
}

/// The books of all queues.
#[derive(Debug)]
pub(super) struct UsageRecorder {
    resources: Vec<Box<str>>,
    /// The present capacity of each.
    capacity: Amounts,
    accounts: Vec<QueueAccount>,
    /// When the first job came, and up to when the books are kept, in milliseconds.
    began: u64,
    now: u64,
    /// Jobs that have come and not started.
    waiting: u32,
    /// Of each queue and resource the part that it holds; then Jain's index and the jobs that wait.
    amounts: Vec<Option<f64>>,
    stale: bool,
    series: Series,
    /// The same amounts, added up over all of the time.
    sums: Vec<f64>,
    /// Of each resource the part that is free on nodes reserved for a job that waits.
    reserved: Vec<f64>,
    /// Of each resource the free part, and that on reserved nodes, added up over the time with a job that waits.
    free: Vec<Free>,
    /// How long Jain's index was about so many thousandths, in milliseconds.
    index_times: Vec<u64>,
}

impl UsageRecorder {
    /// For the resources that jobs ask for, beginning with the arrival of the first job.
    pub(super) fn new(trace: &Trace, queues: &[Queue], began: u64) -> Self {
        let tasks = trace.jobs.iter().flat_map(|job| &job.tasks);
        let names = tasks.flat_map(|task| task.requests.keys());
        let names: BTreeSet<&str> = names.filter(|name| *name != PODS).collect();
        let mut recorder = Self {
            capacity: vec![0; names.len()].into(),
            resources: names.into_iter().map(Box::from).collect(),
            accounts: Vec::new(),
            began,
            now: began,
            waiting: 0,
            amounts: Vec::new(),
            stale: true,
            series: Series::new(0),
            sums: Vec::new(),
            reserved: Vec::new(),
            free: Vec::new(),
            index_times: vec![0; usize::from(STEPS) + 1],
        };
        recorder.accounts = queues.iter().map(|queue| recorder.account(queue)).collect();
        let width = recorder.accounts.len() * recorder.resources.len() + 2;
        recorder.amounts = vec![None; width];
        recorder.series = Series::new(width);
        recorder.sums = vec![0.0; width];
        recorder.reserved = vec![0.0; recorder.resources.len()];
        recorder.free = vec![Free::default(); recorder.resources.len()];
        recorder
    }

    fn account(&self, queue: &Queue) -> QueueAccount {
        let most = self.resources.iter().map(|name| {
            let capability = queue.capability.get(name);
            capability.map(Quantity::nano_value)
        });
        QueueAccount {
            weight: f64::from(queue.weight),
            most: most.collect(),
            holds: vec![0; self.resources.len()].into(),
            waits: vec![0; self.resources.len()].into(),
        }
    }

    /// A list of amounts by resource.
    pub(super) fn amounts_of(&self, list: &ResourceList) -> Amounts {
        let amounts = self.resources.iter().map(|name| list.get(name));
        amounts
            .map(|amount| amount.map_or(0, Quantity::nano_value))
            .collect()
    }

    /// So many nodes alike have joined the cluster, or left it.
    pub(super) fn nodes(&mut self, nodes: &Nodes, joins: bool) {
        let one = self.amounts_of(&nodes.allocatable);
        let count = i128::from(nodes.count);
        change(&mut self.capacity, &one, if joins { count } else { -count });
        self.stale = true;
    }

    /// A pod of a queue waits for so much.
    pub(super) fn waits(&mut self, queue: usize, amounts: &Amounts) {
        change(&mut self.accounts[queue].waits, amounts, 1);
        self.stale = true;
    }

    /// A pod that has waited is on a node.
    pub(super) fn starts(&mut self, queue: usize, amounts: &Amounts) {
        let account = &mut self.accounts[queue];
        change(&mut account.waits, amounts, -1);
        change(&mut account.holds, amounts, 1);
        self.stale = true;
    }

    /// A pod has left its node.
    pub(super) fn leaves(&mut self, queue: usize, amounts: &Amounts) {
        change(&mut self.accounts[queue].holds, amounts, -1);
        self.stale = true;
    }

    /// A job has come and waits for its start.
    pub(super) const fn job_waits(&mut self) {
        self.waiting += 1;
        self.stale = true;
    }

    /// A pod that has waited was deleted.
    pub(super) fn withdraws(&mut self, queue: usize, amounts: &Amounts) {
        change(&mut self.accounts[queue].waits, amounts, -1);
        self.stale = true;
    }

    /// A job has started, or was deleted before.
    pub(super) const fn job_starts(&mut self) {
        self.waiting -= 1;
        self.stale = true;
    }

    /// The free amounts of the nodes that are now reserved for a job that waits. Account for the time before first.
    pub(super) fn reserves(&mut self, free: Option<&SessionAmounts>) {
        let all = self.resources.iter().zip(&self.capacity);
        let parts = all.map(|(name, all)| {
            let amount = free.and_then(|free| free.get(&**name));
            amount.map_or(0.0, |amount| part(nanos(name, amount.0), *all))
        });
        self.reserved = parts.collect();
    }

    /// Accounts for the time up to a moment; later changes count from there.
    #[expect(clippy::cast_precision_loss, reason = "spans are below 2⁵³ ms")]
    pub(super) fn advance(&mut self, now: u64) {
        if now <= self.now {
            return;
        }
        // Amounts are computed once for a span, however many pods have changed in it.
        if std::mem::take(&mut self.stale) {
            self.look();
        }
        let lasted = now - self.now;
        for (sum, amount) in self.sums.iter_mut().zip(&self.amounts) {
            *sum += amount.unwrap_or(0.0) * lasted as f64;
        }
        self.add_free(lasted as f64);
        if let Some(index) = self.amounts[self.width()] {
            let steps = f64::from(STEPS);
            let step = (0..=STEPS)
                .rev()
                .find(|step| f64::from(*step) <= index * steps);
            self.index_times[usize::from(step.unwrap_or(0))] += lasted;
        }
        let (from, to) = (self.now - self.began, now - self.began);
        self.series.add(from, to, &self.amounts);
        self.now = now;
    }

    /// Adds the free amounts over so many milliseconds, if a job waits.
    fn add_free(&mut self, lasted: f64) {
        if self.waiting == 0 {
            return;
        }
        for resource in 0..self.resources.len() {
            let queues = (0..self.accounts.len()).map(|queue| queue * self.resources.len());
            let held = queues.filter_map(|queue| self.amounts[queue + resource]);
            let all = (1.0 - held.sum::<f64>()).max(0.0);
            let free = &mut self.free[resource];
            free.all += all * lasted;
            free.reserved += self.reserved[resource].min(all) * lasted;
        }
    }

    /// How many amounts belong to queues.
    fn width(&self) -> usize {
        self.accounts.len() * self.resources.len()
    }

    fn look(&mut self) {
        let mut claims = Vec::with_capacity(self.accounts.len());
        let width = self.width();
        let mut amounts = self.amounts.iter_mut();
        for account in &self.accounts {
            let mut claim = Claim {
                weight: account.weight,
                wants: 0.0,
                holds: 0.0,
            };
            for (resource, all) in self.capacity.iter().enumerate() {
                let held = account.holds[resource];
                let both = part(held + account.waits[resource], *all);
                let holds = part(held, *all);
                if let Some(amount) = amounts.next() {
                    *amount = Some(holds);
                }
                let most = account.most[resource];
                let most = most.map_or(1.0, |most| part(most, *all).min(1.0));
                let wants = both.min(most).max(holds);
                claim.wants = claim.wants.max(wants);
                claim.holds = claim.holds.max(holds);
            }
            claims.push(claim);
        }
        self.amounts[width] = fairness::index(&claims);
        self.amounts[width + 1] = Some(f64::from(self.waiting));
    }

    /// The resources, by name.
    pub(super) fn resources(&self) -> &[Box<str>] {
        &self.resources
    }

    /// For how long the books were kept, in milliseconds.
    pub(super) const fn lasted(&self) -> u64 {
        self.now - self.began
    }

    /// The part of a resource that a queue held on average.
    #[expect(clippy::cast_precision_loss, reason = "spans are below 2⁵³ ms")]
    pub(super) fn mean(&self, queue: usize, resource: usize) -> f64 {
        let sum = self.sums[queue * self.resources.len() + resource];
        sum / self.lasted().max(1) as f64
    }

    /// The part of a resource that was free while a job waited, averaged over all of the time.
    #[expect(clippy::cast_precision_loss, reason = "spans are below 2⁵³ ms")]
    pub(super) fn free(&self, resource: usize) -> Free {
        let lasted = self.lasted().max(1) as f64;
        let Free { all, reserved } = self.free[resource];
        Free {
            all: all / lasted,
            reserved: reserved / lasted,
        }
    }

    /// The part of a resource that was held on average.
    pub(super) fn utilization(&self, resource: usize) -> f64 {
        let queues = 0..self.accounts.len();
        queues.map(|queue| self.mean(queue, resource)).sum()
    }

    /// For how long there was a fairness index, in milliseconds, its mean over that time, and its 5th percentile.
    #[expect(clippy::cast_precision_loss, reason = "spans are below 2⁵³ ms")]
    pub(super) fn fairness(&self) -> Option<(u64, f64, f64)> {
        let lasted: u64 = self.index_times.iter().sum();
        if lasted == 0 {
            return None;
        }
        let mut left = lasted / 20;
        let mut steps = self.index_times.iter().zip(0_u16..);
        let low = steps.find(|(time, _)| {
            let found = **time > left;
            left = left.saturating_sub(**time);
            found
        });
        let low = low.map_or(STEPS, |(_, step)| step);
        let mean = self.sums[self.width()] / lasted as f64;
        Some((lasted, mean, f64::from(low) / f64::from(STEPS)))
    }

    pub(super) const fn series(&self) -> &Series {
        &self.series
    }
}

/// An amount of a session in billionths of the resource's unit.
#[expect(clippy::cast_possible_truncation, reason = "amounts are whole numbers")]
fn nanos(name: &str, amount: f64) -> i128 {
    let unit = if name == MEMORY {
        1_000_000_000
    } else {
        1_000_000
    };
    amount as i128 * unit
}

fn change(amounts: &mut Amounts, by: &Amounts, times: i128) {
    for (amount, by) in amounts.iter_mut().zip(by) {
        *amount += by * times;
    }
}

/// A part of a whole; of nothing nothing is 0 and something is 1.
#[expect(clippy::cast_precision_loss, reason = "a part need not be exact")]
fn part(amount: i128, all: i128) -> f64 {
    if all == 0 {
        return if amount == 0 { 0.0 } else { 1.0 };
    }
    amount as f64 / all as f64
}
