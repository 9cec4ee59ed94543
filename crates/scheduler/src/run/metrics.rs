//! Metrics under kube-scheduler's names, with its labels, buckets and levels of stability, so that its dashboards and
//! alerts work (S5-097 to S5-099).
//!
//! ```
//! use evictd_daemon::metrics::Format;
//! use evictd_scheduler::run::metrics::Metrics;
//!
//! let (metrics, exposition) = Metrics::new();
//! metrics.schedule_attempts.add(["scheduled", "default-scheduler"], 1);
//! let text = exposition.render(Format::Plain)?;
//! assert!(text.contains("scheduler_schedule_attempts_total{result=\"scheduled\",profile=\"default-scheduler\"} 1"));
//! # Ok::<(), std::fmt::Error>(())
//! ```

mod batch;

pub use batch::BatchMetrics;

use evictd_daemon::metrics::Exposition;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

type Labels = Vec<(&'static str, String)>;

/// From the first bound, by a factor, so many.
#[derive(Debug, Clone, Copy)]
struct Buckets(f64, f64, u16);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        let Self(first, factor, count) = *self;
        Histogram::new(exponential_buckets(first, factor, count))
    }
}

/// A counter for each combination of `N` labels; clones share them.
#[derive(Debug, Clone)]
pub struct Counters<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels, Counter>,
}

/// A gauge for each combination of `N` labels; clones share them.
#[derive(Debug, Clone)]
pub struct Gauges<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels, Gauge>,
}

/// A histogram for each combination of `N` labels; clones share them.
#[derive(Debug, Clone)]
pub struct Histograms<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels, Histogram, Buckets>,
}

fn labels<const N: usize>(names: [&'static str; N], values: [&str; N]) -> Labels {
    let values = values.map(str::to_owned);
    names.into_iter().zip(values).collect()
}

impl<const N: usize> Counters<N> {
    /// Counts so many more.
    pub fn add(&self, values: [&str; N], more: u64) {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).inc_by(more);
    }
}

impl<const N: usize> Gauges<N> {
    /// Sets the gauge.
    pub fn set(&self, values: [&str; N], value: i64) {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).set(value);
    }

    /// Raises the gauge.
    pub fn add(&self, values: [&str; N], more: i64) {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).inc_by(more);
    }

    /// Removes what was set, for labels that mean nothing any more.
    pub fn clear(&self) {
        self.family.clear();
    }
}

impl<const N: usize> Histograms<N> {
    /// Counts one value.
    pub fn observe(&self, values: [&str; N], value: f64) {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).observe(value);
    }
}

/// The label `attempts` of [`Metrics::pod_scheduling_sli_duration`] (S5-099).
pub fn attempts_label(attempts: u32) -> String {
    if attempts >= 15 {
        "15+".to_owned()
    } else {
        attempts.to_string()
    }
}

/// The metrics as whoever decides updates them. Durations are in seconds; the labels are named in their order.
#[derive(Debug, Clone)]
pub struct Metrics {
    /// `result` (scheduled, unschedulable, error), `profile`.
    pub schedule_attempts: Counters<2>,
    /// `result`, `profile`.
    pub scheduling_attempt_duration: Histograms<2>,
    /// Of the decision alone.
    pub scheduling_algorithm_duration: Histograms<0>,
    /// `event`.
    pub event_handling_duration: Histograms<1>,
    /// `event`.
    pub inflight_events: Gauges<1>,
    /// Victims of a preemption.
    pub preemption_victims: Histograms<0>,
    /// Preemptions that were tried.
    pub preemption_attempts: Counters<0>,
    /// `queue` (active, backoff, unschedulable, gated).
    pub pending_pods: Gauges<1>,
    /// `operation` (binding).
    pub goroutines: Gauges<1>,
    /// `attempts`, by [`attempts_label`].
    pub pod_scheduling_sli_duration: Histograms<1>,
    /// Attempts that a pod needed.
    pub pod_scheduling_attempts: Histograms<0>,
    /// Pods that the flush of old unschedulable pods has saved.
    pub pod_scheduled_after_flush: Counters<0>,
    /// `extension_point`, `status`, `profile`.
    pub framework_extension_point_duration: Histograms<3>,
    /// `plugin`, `extension_point`, `status`.
    pub plugin_execution_duration: Histograms<3>,
    /// `plugin`, `event`, `hint`.
    pub queueing_hint_execution_duration: Histograms<3>,
    /// `queue`, `event`.
    pub queue_incoming_pods: Counters<2>,
    /// `result`.
    pub permit_wait_duration: Histograms<1>,
    /// `type` (nodes, pods, `assumed_pods`).
    pub cache_size: Gauges<1>,
    /// `plugin`, `profile`.
    pub unschedulable_pods: Gauges<2>,
    /// `plugin`, `extension_point`, `profile`.
    pub plugin_evaluation: Counters<3>,
    /// `result` (success, error).
    pub preemption_goroutines_duration: Histograms<1>,
    /// `result`.
    pub preemption_goroutines_execution: Counters<1>,
    /// `profile`, `result`.
    pub batch_attempts: Counters<2>,
    /// `profile`, `reason`.
    pub batch_cache_flushed: Counters<2>,
    /// `hinted`, `profile`.
    pub get_node_hint_duration: Histograms<2>,
    /// `profile`.
    pub store_schedule_results_duration: Histograms<1>,
    /// `name` of the lease: 1 while this process leads.
    pub leader_election_master_status: Gauges<1>,
    /// Events that were not sent because too many waited.
    pub events_dropped: Counters<0>,
    /// Of batch sessions.
    pub sessions: BatchMetrics,
}

/// Registers what it makes.
struct Maker(Registry);

impl Maker {
    /// The level of stability comes first in the help, as in kube-scheduler's.
    fn register(&mut self, name: &str, level: &str, help: &str, metric: impl Metric) {
        let help = format!("[{level}] {help}");
        self.0.register(name, help, metric);
    }

    /// The name is without `_total`.
    fn counters<const N: usize>(
        &mut self,
        (name, level, help): (&str, &str, &str),
        names: [&'static str; N],
    ) -> Counters<N> {
        let family = Family::default();
        self.register(name, level, help, family.clone());
        let counters = Counters { names, family };
        if N == 0 {
            counters.add([""; N], 0);
        }
        counters
    }

    fn gauges<const N: usize>(
        &mut self,
        (name, level, help): (&str, &str, &str),
        names: [&'static str; N],
    ) -> Gauges<N> {
        let family = Family::default();
        self.register(name, level, help, family.clone());
        Gauges { names, family }
    }

    fn histograms<const N: usize>(
        &mut self,
        (name, level, help): (&str, &str, &str),
        names: [&'static str; N],
        buckets: Buckets,
    ) -> Histograms<N> {
        let family = Family::new_with_constructor(buckets);
        self.register(name, level, help, family.clone());
        if N == 0 {
            drop(family.get_or_create(&Labels::new()));
        }
        Histograms { names, family }
    }
}

const MILLISECONDS: Buckets = Buckets(0.001, 2.0, 15);
const SHORT: Buckets = Buckets(0.000_1, 2.0, 12);
const SHORTER: Buckets = Buckets(0.000_01, 2.0, 12);
const FINE: Buckets = Buckets(0.000_01, 1.5, 20);
const LONG: Buckets = Buckets(0.01, 2.0, 20);

const STABLE: &str = "STABLE";
const BETA: &str = "BETA";
const ALPHA: &str = "ALPHA";

impl Metrics {
    /// All metrics, and what renders them.
    #[rustfmt::skip]
    pub fn new() -> (Self, Exposition) {
        let mut make = Maker(Registry::default());
        let metrics = Self {
            schedule_attempts: make.counters(("scheduler_schedule_attempts", STABLE, "Attempts to place a pod, by their result"), ["result", "profile"]),
            scheduling_attempt_duration: make.histograms(("scheduler_scheduling_attempt_duration_seconds", STABLE, "How long an attempt took, with the binding"), ["result", "profile"], MILLISECONDS),
            scheduling_algorithm_duration: make.histograms(("scheduler_scheduling_algorithm_duration_seconds", ALPHA, "How long a decision took"), [], MILLISECONDS),
            event_handling_duration: make.histograms(("scheduler_event_handling_duration_seconds", ALPHA, "How long a change of the cluster took to be handled"), ["event"], SHORT),
            inflight_events: make.gauges(("scheduler_inflight_events", ALPHA, "Events that are kept for pods in flight"), ["event"]),
            preemption_victims: make.histograms(("scheduler_preemption_victims", STABLE, "Victims of a preemption"), [], Buckets(1.0, 2.0, 7)),
            preemption_attempts: make.counters(("scheduler_preemption_attempts", STABLE, "Preemptions that were tried"), []),
            pending_pods: make.gauges(("scheduler_pending_pods", STABLE, "Pods that wait, by queue"), ["queue"]),
            goroutines: make.gauges(("scheduler_goroutines", ALPHA, "Tasks that run beside the decisions"), ["operation"]),
            pod_scheduling_sli_duration: make.histograms(("scheduler_pod_scheduling_sli_duration_seconds", BETA, "How long a pod took from its first attempt until it was bound"), ["attempts"], LONG),
            pod_scheduling_attempts: make.histograms(("scheduler_pod_scheduling_attempts", STABLE, "Attempts that a pod needed"), [], Buckets(1.0, 2.0, 5)),
            pod_scheduled_after_flush: make.counters(("scheduler_pod_scheduled_after_flush", ALPHA, "Pods that were placed because the flush of old unschedulable pods tried them again"), []),
            framework_extension_point_duration: make.histograms(("scheduler_framework_extension_point_duration_seconds", STABLE, "How long all plugins of an extension point took"), ["extension_point", "status", "profile"], SHORT),
            plugin_execution_duration: make.histograms(("scheduler_plugin_execution_duration_seconds", ALPHA, "How long a plugin took at an extension point"), ["plugin", "extension_point", "status"], FINE),
            queueing_hint_execution_duration: make.histograms(("scheduler_queueing_hint_execution_duration_seconds", ALPHA, "How long a plugin's queueing hint took"), ["plugin", "event", "hint"], FINE),
            queue_incoming_pods: make.counters(("scheduler_queue_incoming_pods", STABLE, "Pods that came into a queue, by event"), ["queue", "event"]),
            permit_wait_duration: make.histograms(("scheduler_permit_wait_duration_seconds", ALPHA, "How long a pod waited for its permit"), ["result"], MILLISECONDS),
            cache_size: make.gauges(("scheduler_cache_size", ALPHA, "Nodes, pods and assumed pods in the cache"), ["type"]),
            unschedulable_pods: make.gauges(("scheduler_unschedulable_pods", ALPHA, "Pods that a plugin keeps from being placed"), ["plugin", "profile"]),
            plugin_evaluation: make.counters(("scheduler_plugin_evaluation", ALPHA, "Attempts in which a plugin took part"), ["plugin", "extension_point", "profile"]),
            preemption_goroutines_duration: make.histograms(("scheduler_preemption_goroutines_duration_seconds", ALPHA, "How long the writes of a preemption took"), ["result"], LONG),
            preemption_goroutines_execution: make.counters(("scheduler_preemption_goroutines_execution", ALPHA, "Preemptions whose writes have ended"), ["result"]),
            batch_attempts: make.counters(("scheduler_batch_attempts", ALPHA, "Attempts to use the result of an equal pod"), ["profile", "result"]),
            batch_cache_flushed: make.counters(("scheduler_batch_cache_flushed", ALPHA, "Results that were thrown away"), ["profile", "reason"]),
            get_node_hint_duration: make.histograms(("scheduler_get_node_hint_duration_seconds", ALPHA, "How long looking up a result took"), ["hinted", "profile"], SHORTER),
            store_schedule_results_duration: make.histograms(("scheduler_store_schedule_results_duration_seconds", ALPHA, "How long keeping a result took"), ["profile"], SHORTER),
            leader_election_master_status: make.gauges(("leader_election_master_status", ALPHA, "Whether this process leads"), ["name"]),
            events_dropped: make.counters(("scheduler_events_dropped", ALPHA, "Events that were not sent because too many waited"), []),
            sessions: BatchMetrics::new(&mut make),
        };
        for queue in ["active", "backoff", "unschedulable", "gated"] {
            metrics.pending_pods.set([queue], 0);
        }
        for kind in ["nodes", "pods", "assumed_pods"] {
            metrics.cache_size.set([kind], 0);
        }
        (metrics, Exposition::new(make.0))
    }
}
