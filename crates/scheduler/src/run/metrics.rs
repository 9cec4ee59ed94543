//! Metrics under kube-scheduler's names, with its labels, buckets and levels of stability, so that its dashboards and
//! alerts work (S5-097 to S5-099).

mod batch;
mod by_release;
mod groups;
mod recorder;
#[cfg(test)]
mod tests;
mod work_queue;

pub(crate) use batch::BatchMetrics;
pub(crate) use by_release::{ClaimsCreated, SharedRelease};
pub(crate) use groups::GroupMetrics;
pub(crate) use recorder::{BindingRecorder, MetricsRecorder};
pub(crate) use work_queue::{WorkItem, WorkQueue, WorkQueueMetrics};

use by_release::Promoted;
use evictd_daemon::metrics::Exposition;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::registry::{Metric, Registry};

type Labels = Vec<(&'static str, String)>;

/// Exponential buckets: the first bound, the factor, and their number.
#[derive(Debug, Clone, Copy)]
struct Buckets(f64, f64, u16);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        let Self(first, factor, count) = *self;
        Histogram::new(exponential_buckets(first, factor, count))
    }
}

/// A counter for each combination of `N` labels. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Counters<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels, Counter>,
}

/// A gauge for each combination of `N` labels. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Gauges<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels, Gauge>,
}

/// A histogram for each combination of `N` labels. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Histograms<const N: usize> {
    names: [&'static str; N],
    family: Family<Labels, Histogram, Buckets>,
}

fn labels<const N: usize>(names: [&'static str; N], values: [&str; N]) -> Labels {
    let values = values.map(str::to_owned);
    names.into_iter().zip(values).collect()
}

impl<const N: usize> Counters<N> {
    /// The counter of these labels. It stays valid.
    fn counter(&self, values: [&str; N]) -> Counter {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).clone()
    }

    pub(crate) fn add(&self, values: [&str; N], more: u64) {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).inc_by(more);
    }
}

impl<const N: usize> Gauges<N> {
    /// The gauge of these labels. It stays valid until [`Self::clear`].
    fn gauge(&self, values: [&str; N]) -> Gauge {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).clone()
    }

    pub(crate) fn set(&self, values: [&str; N], value: i64) {
        self.gauge(values).set(value);
    }

    /// Removes all combinations of labels, some of which may stand for deleted objects.
    pub(crate) fn clear(&self) {
        self.family.clear();
    }
}

impl<const N: usize> Histograms<N> {
    /// The histogram of these labels. It stays valid.
    fn histogram(&self, values: [&str; N]) -> Histogram {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).clone()
    }

    pub(crate) fn observe(&self, values: [&str; N], value: f64) {
        let labels = labels(self.names, values);
        self.family.get_or_create(&labels).observe(value);
    }
}

/// The label `attempts` of [`Metrics::pod_scheduling_sli_duration`] (S5-099).
pub(crate) fn attempts_label(attempts: u32) -> String {
    if attempts >= 15 {
        "15+".to_owned()
    } else {
        attempts.to_string()
    }
}

/// All metrics. Durations are in seconds. The comments name the labels in their order.
#[derive(Debug, Clone)]
#[allow(
    dead_code,
    reason = "dashboards of kube-scheduler query metrics that never change here"
)]
pub(crate) struct Metrics {
    /// `result` (scheduled, unschedulable, error), `profile`.
    pub(crate) schedule_attempts: Counters<2>,
    /// `result`, `profile`.
    pub(crate) scheduling_attempt_duration: Histograms<2>,
    /// Without the binding.
    pub(crate) scheduling_algorithm_duration: Histograms<0>,
    /// `event`.
    pub(crate) event_handling_duration: Histograms<1>,
    /// `event`.
    pub(crate) inflight_events: Gauges<1>,
    pub(crate) preemption_victims: Histograms<0>,
    pub(crate) preemption_attempts: Counters<0>,
    /// `queue` (active, backoff, unschedulable, gated; incomplete and pending from 1.37 on).
    pub(crate) pending_pods: Gauges<1>,
    /// `operation` (binding).
    pub(crate) goroutines: Gauges<1>,
    /// `attempts`, by [`attempts_label`].
    pub(crate) pod_scheduling_sli_duration: Histograms<1>,
    pub(crate) pod_scheduling_attempts: Histograms<0>,
    /// Pods that the flush of unschedulable pods has made schedulable.
    pub(crate) pod_scheduled_after_flush: Counters<0>,
    /// `extension_point`, `status`, `profile`.
    pub(crate) framework_extension_point_duration: Histograms<3>,
    /// `plugin`, `extension_point`, `status`.
    pub(crate) plugin_execution_duration: Histograms<3>,
    /// `plugin`, `event`, `hint`.
    pub(crate) queueing_hint_execution_duration: Histograms<3>,
    /// `queue`, `event`.
    pub(crate) queue_incoming_pods: Counters<2>,
    /// `result`.
    pub(crate) permit_wait_duration: Histograms<1>,
    /// `type` (nodes, pods, `assumed_pods`).
    pub(crate) cache_size: Gauges<1>,
    /// `plugin`, `profile`.
    pub(crate) unschedulable_pods: Gauges<2>,
    /// `plugin`, `extension_point`, `profile`.
    pub(crate) plugin_evaluation: Counters<3>,
    /// `result` (success, error).
    pub(crate) preemption_goroutines_duration: Histograms<1>,
    /// `result`.
    pub(crate) preemption_goroutines_execution: Counters<1>,
    /// `profile`, `result`.
    pub(crate) batch_attempts: Counters<2>,
    /// `profile`, `reason`.
    pub(crate) batch_cache_flushed: Counters<2>,
    /// `hinted`, `profile`.
    pub(crate) get_node_hint_duration: Histograms<2>,
    /// `profile`.
    pub(crate) store_schedule_results_duration: Histograms<1>,
    /// `name` of the lease: 1 while this process leads.
    pub(crate) leader_election_master_status: Gauges<1>,
    /// Events that were not sent because too many waited.
    pub(crate) events_dropped: Counters<0>,
    /// `result` (success, error).
    pub(crate) authentication_attempts: Counters<1>,
    /// `result`.
    pub(crate) authentication_duration: Histograms<1>,
    /// `username`. Only well-known names are labels, because clients choose them.
    pub(crate) authenticated_user_requests: Counters<1>,
    /// `result` (allowed, no-opinion, error).
    pub(crate) authorization_attempts: Counters<1>,
    /// `result`.
    pub(crate) authorization_duration: Histograms<1>,
    /// `name`, `stage` (empty).
    pub(crate) feature_enabled: Gauges<2>,
    /// `name`: the tasks that write bindings and preemptions.
    pub(crate) work_queues: WorkQueueMetrics,
    pub(crate) groups: GroupMetrics,
    pub(crate) claims_created: ClaimsCreated,
    pub(crate) release: SharedRelease,
    /// Only where batch sessions run.
    pub(crate) sessions: Option<BatchMetrics>,
}

#[derive(Clone, Copy)]
enum StabilityLevel {
    Alpha,
    Beta,
    Stable,
}

use StabilityLevel::{Alpha, Beta, Stable};

impl StabilityLevel {
    const fn as_str(self) -> &'static str {
        match self {
            Alpha => "ALPHA",
            Beta => "BETA",
            Stable => "STABLE",
        }
    }
}

/// The options of a metric, as in `k8s.io/component-base/metrics`.
#[derive(Clone, Copy)]
struct Opts<'a> {
    name: &'a str,
    stability_level: StabilityLevel,
    help: &'a str,
}

const fn opts<'a>(name: &'a str, stability_level: StabilityLevel, help: &'a str) -> Opts<'a> {
    Opts {
        name,
        stability_level,
        help,
    }
}

/// Makes metrics and registers them.
struct Maker {
    registry: Registry,
    release: SharedRelease,
}

impl Maker {
    /// As in kube-scheduler, the help begins with the level of stability.
    fn register(&mut self, opts: Opts<'_>, metric: impl Metric) {
        let help = format!("[{}] {}", opts.stability_level.as_str(), opts.help);
        self.registry.register(opts.name, help, metric);
    }

    /// The name is without `_total`.
    fn counters<const N: usize>(
        &mut self,
        opts: Opts<'_>,
        names: [&'static str; N],
    ) -> Counters<N> {
        let family = Family::default();
        self.register(opts, family.clone());
        let counters = Counters { names, family };
        if N == 0 {
            counters.add([""; N], 0);
        }
        counters
    }

    /// Of alpha level in 1.36, and of beta level from 1.37 on.
    fn promoted_histograms<const N: usize>(
        &mut self,
        (name, help): (&'static str, &'static str),
        names: [&'static str; N],
        buckets: Buckets,
    ) -> Histograms<N> {
        let family = Family::new_with_constructor(buckets);
        self.registry.register_collector(Box::new(Promoted {
            name,
            help,
            family: family.clone(),
            release: self.release.clone(),
        }));
        if N == 0 {
            drop(family.get_or_create(&Labels::new()));
        }
        Histograms { names, family }
    }

    fn gauges<const N: usize>(&mut self, opts: Opts<'_>, names: [&'static str; N]) -> Gauges<N> {
        let family = Family::default();
        self.register(opts, family.clone());
        Gauges { names, family }
    }

    fn histograms<const N: usize>(
        &mut self,
        opts: Opts<'_>,
        names: [&'static str; N],
        buckets: Buckets,
    ) -> Histograms<N> {
        let family = Family::new_with_constructor(buckets);
        self.register(opts, family.clone());
        if N == 0 {
            drop(family.get_or_create(&Labels::new()));
        }
        Histograms { names, family }
    }
}

/// The labels of `kubernetes_build_info`.
const BUILD: [&str; 9] = [
    "major",
    "minor",
    "git_version",
    "git_commit",
    "git_tree_state",
    "build_date",
    "go_version",
    "compiler",
    "platform",
];

/// The version is that of this program, and not of the Kubernetes that it behaves as. An unknown field is empty.
fn build_info() -> [&'static str; 9] {
    let platform = match std::env::consts::ARCH {
        "x86_64" => "linux/amd64",
        "aarch64" => "linux/arm64",
        _ => "linux",
    };
    let (major, minor) = (
        env!("CARGO_PKG_VERSION_MAJOR"),
        env!("CARGO_PKG_VERSION_MINOR"),
    );
    let version = concat!("v", env!("CARGO_PKG_VERSION"));
    [major, minor, version, "", "", "", "", "rustc", platform]
}

const MILLISECONDS: Buckets = Buckets(0.001, 2.0, 15);
const SHORT: Buckets = Buckets(0.000_1, 2.0, 12);
const SHORTER: Buckets = Buckets(0.000_01, 2.0, 12);
const FINE: Buckets = Buckets(0.000_01, 1.5, 20);
const LONG: Buckets = Buckets(0.01, 2.0, 20);

/// The counters whose names upstream do not end in `_total`.
const SHORT_NAMES: [&str; 3] = [
    "authenticated_user_requests",
    "authentication_attempts",
    "volcano_total_preemption_attempts",
];

impl Metrics {
    #[rustfmt::skip]
    pub(crate) fn new(runs_batch: bool) -> (Self, Exposition) {
        let release = SharedRelease::default();
        let mut make = Maker { registry: Registry::default(), release: release.clone() };
        let metrics = Self {
            schedule_attempts: make.counters(opts("scheduler_schedule_attempts", Stable, "Attempts to schedule a pod, by result"), ["result", "profile"]),
            scheduling_attempt_duration: make.histograms(opts("scheduler_scheduling_attempt_duration_seconds", Stable, "Duration of an attempt, with the binding"), ["result", "profile"], MILLISECONDS),
            scheduling_algorithm_duration: make.promoted_histograms(("scheduler_scheduling_algorithm_duration_seconds", "Duration of an attempt without the binding"), [], MILLISECONDS),
            event_handling_duration: make.histograms(opts("scheduler_event_handling_duration_seconds", Alpha, "Duration of handling a cluster event"), ["event"], SHORT),
            inflight_events: make.gauges(opts("scheduler_inflight_events", Alpha, "Cluster events that are kept for pods in flight"), ["event"]),
            preemption_victims: make.histograms(opts("scheduler_preemption_victims", Stable, "Victims of one preemption"), [], Buckets(1.0, 2.0, 7)),
            preemption_attempts: make.counters(opts("scheduler_preemption_attempts", Stable, "Attempted preemptions"), []),
            pending_pods: make.gauges(opts("scheduler_pending_pods", Stable, "Pending pods, by queue"), ["queue"]),
            goroutines: make.gauges(opts("scheduler_goroutines", Beta, "Tasks that run beside the scheduling loop"), ["operation"]),
            pod_scheduling_sli_duration: make.histograms(opts("scheduler_pod_scheduling_sli_duration_seconds", Beta, "Time from a pod's arrival in the queue until it was bound"), ["attempts"], LONG),
            pod_scheduling_attempts: make.histograms(opts("scheduler_pod_scheduling_attempts", Stable, "Attempts until a pod was bound"), [], Buckets(1.0, 2.0, 5)),
            pod_scheduled_after_flush: make.counters(opts("scheduler_pod_scheduled_after_flush", Alpha, "Pods that were scheduled after the flush of unschedulable pods"), []),
            framework_extension_point_duration: make.histograms(opts("scheduler_framework_extension_point_duration_seconds", Stable, "Duration of all plugins of an extension point"), ["extension_point", "status", "profile"], SHORT),
            plugin_execution_duration: make.promoted_histograms(("scheduler_plugin_execution_duration_seconds", "Duration of a plugin at an extension point"), ["plugin", "extension_point", "status"], FINE),
            queueing_hint_execution_duration: make.histograms(opts("scheduler_queueing_hint_execution_duration_seconds", Alpha, "Duration of a plugin's queueing hint"), ["plugin", "event", "hint"], FINE),
            queue_incoming_pods: make.counters(opts("scheduler_queue_incoming_pods", Stable, "Pods that were added to a queue, by event"), ["queue", "event"]),
            permit_wait_duration: make.histograms(opts("scheduler_permit_wait_duration_seconds", Beta, "How long a pod waited in Permit"), ["result"], MILLISECONDS),
            cache_size: make.gauges(opts("scheduler_cache_size", Alpha, "Nodes, pods and assumed pods in the cache"), ["type"]),
            unschedulable_pods: make.gauges(opts("scheduler_unschedulable_pods", Beta, "Unschedulable pods that a plugin rejected"), ["plugin", "profile"]),
            plugin_evaluation: make.counters(opts("scheduler_plugin_evaluation", Beta, "Attempts that a plugin evaluated"), ["plugin", "extension_point", "profile"]),
            preemption_goroutines_duration: make.histograms(opts("scheduler_preemption_goroutines_duration_seconds", Alpha, "Duration of the writes of a preemption"), ["result"], LONG),
            preemption_goroutines_execution: make.counters(opts("scheduler_preemption_goroutines_execution", Alpha, "Preemptions whose writes have ended"), ["result"]),
            batch_attempts: make.counters(opts("scheduler_batch_attempts", Alpha, "Attempts to use the result of an equal pod"), ["profile", "result"]),
            batch_cache_flushed: make.counters(opts("scheduler_batch_cache_flushed", Alpha, "Discarded results of equal pods"), ["profile", "reason"]),
            get_node_hint_duration: make.histograms(opts("scheduler_get_node_hint_duration_seconds", Alpha, "Duration of looking up the result of an equal pod"), ["hinted", "profile"], SHORTER),
            store_schedule_results_duration: make.histograms(opts("scheduler_store_schedule_results_duration_seconds", Alpha, "Duration of storing a result for equal pods"), ["profile"], SHORTER),
            leader_election_master_status: make.gauges(opts("leader_election_master_status", Alpha, "Whether this process leads"), ["name"]),
            events_dropped: make.counters(opts("scheduler_events_dropped", Alpha, "Events that were not sent because too many waited"), []),
            authentication_attempts: make.counters(opts("authentication_attempts", Alpha, "Attempts to authenticate a client, by result"), ["result"]),
            authentication_duration: make.histograms(opts("authentication_duration_seconds", Alpha, "Duration of authenticating a client"), ["result"], MILLISECONDS),
            authenticated_user_requests: make.counters(opts("authenticated_user_requests", Alpha, "Authenticated requests by user: the usual names, email_id, or other"), ["username"]),
            authorization_attempts: make.counters(opts("authorization_attempts", Alpha, "Attempts to authorize a request, by result"), ["result"]),
            authorization_duration: make.histograms(opts("authorization_duration_seconds", Alpha, "Duration of authorizing a request"), ["result"], MILLISECONDS),
            feature_enabled: make.gauges(opts("kubernetes_feature_enabled", Beta, "Whether a feature gate is on"), ["name", "stage"]),
            work_queues: WorkQueueMetrics::new(&mut make),
            groups: GroupMetrics::new(&mut make),
            claims_created: ClaimsCreated::new(&mut make),
            release,
            sessions: runs_batch.then(|| BatchMetrics::new(&mut make)),
        };
        let build = make.gauges(opts("kubernetes_build_info", Alpha, "The version of this program"), BUILD);
        build.set(build_info(), 1);

        for queue in ["active", "backoff", "unschedulable", "gated", "incomplete", "pending"] {
            metrics.pending_pods.set([queue], 0);
        }
        for queue in ["active", "backoff", "unschedulable", "gated"] {
            for kind in ["pod", "podgroup"] {
                metrics.groups.queued_entities.set([queue, kind], 0);
            }
        }
        for kind in ["nodes", "pods", "assumed_pods"] {
            metrics.cache_size.set([kind], 0);
        }
        (metrics, Exposition::new(make.registry).with_short_names(&SHORT_NAMES))
    }
}
