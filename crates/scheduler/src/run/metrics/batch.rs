//! Metrics of batch sessions under Volcano's names (S6-143).

use super::{Buckets, Gauges, Histograms, Labels, Maker, labels};
use evictd_batch::session::{Amounts, Outcome};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// A gauge of a queue, by its name.
type OfQueue = Family<Labels, Gauge<f64, AtomicU64>>;

const QUEUE: [&str; 1] = ["queue_name"];

/// What sessions cost and come to.
#[derive(Debug, Clone)]
pub struct BatchMetrics {
    latency: Histograms<0>,
    victims: Gauges<0>,
    /// A gauge, because a counter's name would end in `_total`, which Volcano's does not.
    attempts: Gauges<0>,
    unscheduled_tasks: Gauges<1>,
    unscheduled_jobs: Gauges<0>,
    allocated: [OfQueue; 2],
    request: [OfQueue; 2],
    deserved: [OfQueue; 2],
    share: OfQueue,
    overused: Gauges<1>,
}

const ALPHA: &str = "ALPHA";

impl BatchMetrics {
    pub(super) fn new(make: &mut Maker) -> Self {
        let mut of_queue = |name: &str, help: &str| {
            let family = OfQueue::default();
            make.register(
                &format!("volcano_queue_{name}"),
                ALPHA,
                help,
                family.clone(),
            );
            family
        };
        let mut both = |name: &str, help: &str| {
            ["milli_cpu", "memory_bytes"].map(|unit| of_queue(&format!("{name}_{unit}"), help))
        };
        let allocated = both("allocated", "What the pods of a queue hold");
        let request = both("request", "What the pods of a queue hold and wait for");
        let deserved = both("deserved", "What a queue deserves");
        let share = of_queue(
            "share",
            "The largest part of what it deserves that a queue holds",
        );
        Self {
            latency: make.histograms(
                (
                    "volcano_e2e_scheduling_latency_milliseconds",
                    ALPHA,
                    "How long a session took",
                ),
                [],
                Buckets(5.0, 2.0, 15),
            ),
            victims: make.gauges(
                (
                    "volcano_pod_preemption_victims",
                    ALPHA,
                    "Pods that the last session has evicted",
                ),
                [],
            ),
            attempts: make.gauges(
                (
                    "volcano_total_preemption_attempts",
                    ALPHA,
                    "Sessions that have evicted pods",
                ),
                [],
            ),
            unscheduled_tasks: make.gauges(
                (
                    "volcano_unschedule_task_count",
                    ALPHA,
                    "Pods of a job that could not be placed",
                ),
                ["job_id"],
            ),
            unscheduled_jobs: make.gauges(
                (
                    "volcano_unschedule_job_count",
                    ALPHA,
                    "Jobs that could not be placed",
                ),
                [],
            ),
            overused: make.gauges(
                (
                    "volcano_queue_overused",
                    ALPHA,
                    "Whether a queue holds all that it deserves",
                ),
                QUEUE,
            ),
            allocated,
            request,
            deserved,
            share,
        }
    }

    /// A session has ended.
    pub fn session(&self, took: Duration, outcome: &Outcome) {
        self.latency.observe([], took.as_secs_f64() * 1000.0);
        let evicted = i64::try_from(outcome.evicted.len()).unwrap_or(i64::MAX);
        self.victims.set([], evicted);
        self.attempts.add([], i64::from(evicted > 0));
        self.unscheduled_tasks.clear();
        let mut jobs = 0;
        for (job, group) in &outcome.pod_groups {
            let waiting = group.tasks.get("Pending").copied().unwrap_or(0);
            if waiting > 0 {
                jobs += 1;
                self.unscheduled_tasks.set([job], waiting.into());
            }
        }
        self.unscheduled_jobs.set([], jobs);
        self.queues(outcome);
    }

    fn queues(&self, outcome: &Outcome) {
        let families = [&self.allocated, &self.request, &self.deserved];
        let families = families.into_iter().flatten().chain([&self.share]);
        families.for_each(Family::clear);
        self.overused.clear();
        for (queue, own) in outcome.queues_at_open.iter().flatten() {
            let labels = labels(QUEUE, [queue]);
            set(&self.request, &labels, own.request.as_ref());
            set(&self.deserved, &labels, own.deserved.as_ref());
        }
        for (queue, own) in outcome.queues_after.iter().flatten() {
            let labels = labels(QUEUE, [queue]);
            set(&self.allocated, &labels, Some(&own.allocated));
            self.share.get_or_create(&labels).set(own.share);
            self.overused.set([queue], i64::from(own.share >= 1.0));
        }
    }
}

/// Cpu and memory of an amount.
fn set(families: &[OfQueue; 2], labels: &Labels, amounts: Option<&Amounts>) {
    for (family, name) in families.iter().zip(["cpu", "memory"]) {
        let amount = amounts.and_then(|amounts| amounts.get(name));
        family
            .get_or_create(labels)
            .set(amount.map_or(0.0, |amount| amount.0));
    }
}
