//! Metrics of batch sessions under Volcano's names (S6-143).

use super::StabilityLevel::Alpha;
use super::{Buckets, Counters, Gauges, Histograms, Labels, Maker, labels, opts};
use evictd_batch::session::{Amounts, Outcome};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

/// A gauge by the name of the queue.
type OfQueue = Family<Labels, Gauge<f64, AtomicU64>>;

const QUEUE: [&str; 1] = ["queue_name"];

#[derive(Debug, Clone)]
pub(crate) struct BatchMetrics {
    latency: Histograms<0>,
    victims: Gauges<0>,
    attempts: Counters<0>,
    unscheduled_tasks: Gauges<1>,
    unscheduled_jobs: Gauges<0>,
    allocated: [OfQueue; 2],
    request: [OfQueue; 2],
    deserved: [OfQueue; 2],
    share: OfQueue,
    overused: Gauges<1>,
    refused_confs: Counters<0>,
}

impl BatchMetrics {
    pub(super) fn new(make: &mut Maker) -> Self {
        let mut of_queue = |name: &str, help: &str| {
            let family = OfQueue::default();
            let name = format!("volcano_queue_{name}");
            make.register(opts(&name, Alpha, help), family.clone());
            family
        };
        let mut both = |name: &str, help: &str| {
            ["milli_cpu", "memory_bytes"].map(|unit| of_queue(&format!("{name}_{unit}"), help))
        };
        let allocated = both("allocated", "Allocated amount of a queue");
        let request = both(
            "request",
            "Requests of all pods of a queue, running or pending",
        );
        let deserved = both("deserved", "Deserved amount of a queue");
        let share = of_queue(
            "share",
            "Allocated share of the deserved amount of a queue, of the largest resource",
        );
        Self {
            latency: make.histograms(
                opts(
                    "volcano_e2e_scheduling_latency_milliseconds",
                    Alpha,
                    "Duration of a session",
                ),
                [],
                Buckets(5.0, 2.0, 15),
            ),
            victims: make.gauges(
                opts(
                    "volcano_pod_preemption_victims",
                    Alpha,
                    "Pods that the last session evicted",
                ),
                [],
            ),
            attempts: make.counters(
                opts(
                    "volcano_total_preemption_attempts",
                    Alpha,
                    "Sessions that evicted pods",
                ),
                [],
            ),
            unscheduled_tasks: make.gauges(
                opts(
                    "volcano_unschedule_task_count",
                    Alpha,
                    "Pods of a job that could not be placed",
                ),
                ["job_id"],
            ),
            unscheduled_jobs: make.gauges(
                opts(
                    "volcano_unschedule_job_count",
                    Alpha,
                    "Jobs that could not be placed",
                ),
                [],
            ),
            overused: make.gauges(
                opts(
                    "volcano_queue_overused",
                    Alpha,
                    "Whether the allocated amount of a queue reaches its deserved amount",
                ),
                QUEUE,
            ),
            refused_confs: make.counters(
                opts(
                    "evictd_batch_conf_reload_failures",
                    Alpha,
                    "Changes of the batch configuration that were refused",
                ),
                [],
            ),
            allocated,
            request,
            deserved,
            share,
        }
    }

    /// A changed configuration is invalid, and the last valid one stays.
    pub(crate) fn conf_refused(&self) {
        self.refused_confs.add([], 1);
    }

    pub(crate) fn session(&self, took: Duration, outcome: &Outcome) {
        self.latency.observe([], took.as_secs_f64() * 1000.0);
        let evicted = i64::try_from(outcome.evicted.len()).unwrap_or(i64::MAX);
        self.victims.set([], evicted);
        self.attempts.add([], u64::from(evicted > 0));
        // Jobs and queues that were deleted must not keep their last value.
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
        for (queue, amounts) in outcome.queues_at_open.iter().flatten() {
            let labels = labels(QUEUE, [queue]);
            set(&self.request, &labels, amounts.request.as_ref());
            set(&self.deserved, &labels, amounts.deserved.as_ref());
        }
        for (queue, amounts) in outcome.queues_after.iter().flatten() {
            let labels = labels(QUEUE, [queue]);
            set(&self.allocated, &labels, Some(&amounts.allocated));
            self.share.get_or_create(&labels).set(amounts.share);
            self.overused.set([queue], i64::from(amounts.share >= 1.0));
        }
    }
}

/// Sets the gauges for CPU and memory.
fn set(families: &[OfQueue; 2], labels: &Labels, amounts: Option<&Amounts>) {
    for (family, name) in families.iter().zip(["cpu", "memory"]) {
        let amount = amounts.and_then(|amounts| amounts.get(name));
        family
            .get_or_create(labels)
            .set(amount.map_or(0.0, |amount| amount.0));
    }
}
