//! The metrics. Tests check dashboards and alerts against the metrics that are registered here.
//!
//! The main loop owns [`Metrics`] and updates it in each cycle without allocating. The HTTP server owns the
//! [`Exposition`] and renders it for each scrape.

mod gauges;
#[cfg(test)]
mod tests;

pub(crate) use evictd_daemon::metrics::Exposition;
pub use evictd_daemon::metrics::Format;
pub(crate) use gauges::{ConfigurationGauges, NodeHeartbeat};

use evictd_signals::{ConditionMap, NodeCondition, Observation, Signal, SignalMap};
use gauges::{BySignal, BySignalAndKind, SignalGauges, ThresholdGauges};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::Registry;
use std::time::Duration;

const REACTION_BUCKETS: [f64; 14] = [
    0.001, 0.003, 0.01, 0.03, 0.05, 0.1, 0.15, 0.3, 0.5, 1.0, 3.0, 5.0, 10.0, 30.0,
];
const CYCLE_BUCKETS: [f64; 11] = [
    0.000_01, 0.000_03, 0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 1.0, 10.0,
];
const STATS_AGE_BUCKETS: [f64; 10] = [0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0];

/// Whether a threshold has a grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tier {
    /// At once.
    Hard,
    /// After its grace period.
    Soft,
}

impl Tier {
    /// The value of the label `kind`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hard => "hard",
            Self::Soft => "soft",
        }
    }
}

/// The state of a threshold.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThresholdState {
    /// Its value in bytes or counts; percentages are converted with the capacity.
    pub value: i64,
    /// Whether it is crossed.
    pub met: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByCondition {
    condition: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByStage {
    stage: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByFinding {
    action: &'static str,
    reason: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResource {
    resource: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByWhat {
    what: &'static str,
}

/// Makes the histograms of a family.
#[derive(Debug, Clone)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// The metrics as the main loop updates them.
#[derive(Debug)]
pub struct Metrics {
    available: SignalGauges,
    capacity: SignalGauges,
    in_no_pod: SignalGauges,
    threshold: ThresholdGauges,
    threshold_met: ThresholdGauges,
    conditions: ConditionMap<Gauge>,
    node_heartbeat: NodeHeartbeat,
    configuration: ConfigurationGauges,
    pods_age: Gauge,
    paused: Gauge,
    evictions: Family<BySignalAndKind, Counter>,
    eviction_failures: Family<ByStage, Counter>,
    publications: Family<ByResult, Counter>,
    restarts: Counter,
    admission_findings: Family<ByFinding, Counter>,
    preemptions: Family<ByResource, Counter>,
    reclaimed_bytes: Family<ByWhat, Counter>,
    stats_age: Family<BySignal, Histogram, Buckets>,
    cycle_duration: Histogram,
    reaction: Histogram,
    samples_rejected: SignalMap<Counter>,
    read_errors: SignalMap<Counter>,
}

impl Metrics {
    /// All metrics at zero, and their renderer.
    pub fn new() -> (Self, Exposition) {
        let mut registry = Registry::with_prefix("evictd");
        let conditions = Family::<ByCondition, Gauge>::default();
        let samples_rejected = Family::<BySignal, Counter>::default();
        let read_errors = Family::<BySignal, Counter>::default();
        let by_signal = |family: &Family<BySignal, Counter>| {
            SignalMap::from_fn(|signal: Signal| {
                family.get_or_create_owned(&BySignal {
                    signal: signal.as_str(),
                })
            })
        };
        let metrics = Self {
            available: SignalGauges::default(),
            capacity: SignalGauges::default(),
            in_no_pod: SignalGauges::default(),
            threshold: ThresholdGauges::default(),
            threshold_met: ThresholdGauges::default(),
            conditions: ConditionMap::from_fn(|condition: NodeCondition| {
                conditions.get_or_create_owned(&ByCondition {
                    condition: condition.as_str(),
                })
            }),
            node_heartbeat: NodeHeartbeat::default(),
            configuration: ConfigurationGauges::default(),
            pods_age: Gauge::default(),
            paused: Gauge::default(),
            evictions: Family::default(),
            eviction_failures: Family::default(),
            publications: Family::default(),
            restarts: Counter::default(),
            admission_findings: Family::default(),
            preemptions: Family::default(),
            reclaimed_bytes: Family::default(),
            stats_age: Family::new_with_constructor(Buckets(&STATS_AGE_BUCKETS)),
            cycle_duration: Buckets(&CYCLE_BUCKETS).new_metric(),
            reaction: Buckets(&REACTION_BUCKETS).new_metric(),
            samples_rejected: by_signal(&samples_rejected),
            read_errors: by_signal(&read_errors),
        };
        metrics.register_gauges(&mut registry);
        registry.register(
            "node_condition",
            "Whether the node condition is raised",
            conditions,
        );
        metrics.register_events(&mut registry);
        registry.register(
            "samples_rejected",
            "Samples that were rejected as impossible: negative, above capacity, shrunken capacity",
            samples_rejected,
        );
        registry.register(
            "signal_read_errors",
            "Failed attempts to read a signal",
            read_errors,
        );
        registry.register(
            "build",
            "The running version",
            Info::new([("version", env!("CARGO_PKG_VERSION"))]),
        );
        metrics.begin_at_zero();
        (metrics, Exposition::new(registry))
    }

    /// Creates all counters at zero: a counter that first appears with its first event shows no increase in
    /// queries.
    fn begin_at_zero(&self) {
        for stage in ["budget", "cleanup", "kill"] {
            drop(self.eviction_failures.get_or_create(&ByStage { stage }));
        }
        for result in ["published", "recorded", "not published"] {
            drop(self.publications.get_or_create(&ByResult { result }));
        }
        for what in ["containers", "images"] {
            drop(self.reclaimed_bytes.get_or_create(&ByWhat { what }));
        }
        for resource in ["cpu", "memory", "ephemeral-storage", "pods"] {
            let resource = resource.to_owned();
            drop(self.preemptions.get_or_create(&ByResource { resource }));
        }
        // A histogram has many lines, so it is created only for the one signal that every node has.
        let signal = Signal::MemoryAvailable.as_str();
        drop(self.stats_age.get_or_create(&BySignal { signal }));
        for signal in Signal::ALL.map(Signal::as_str) {
            for kind in [Tier::Hard, Tier::Soft].map(Tier::as_str) {
                drop(
                    self.evictions
                        .get_or_create(&BySignalAndKind { signal, kind }),
                );
            }
        }
        for action in ["report", "reject"] {
            let reason = "Evicted".to_owned();
            drop(
                self.admission_findings
                    .get_or_create(&ByFinding { action, reason }),
            );
        }
    }

    fn register_gauges(&self, registry: &mut Registry) {
        let gauges = [
            (
                "signal_available",
                "What is available, in bytes or counts",
                &self.available,
            ),
            (
                "signal_capacity",
                "The capacity, in bytes or counts",
                &self.capacity,
            ),
            (
                "signal_in_no_pod",
                "What is used outside of pods, in bytes or counts, at the last decision for the signal",
                &self.in_no_pod,
            ),
        ];
        for (name, help, gauges) in gauges {
            registry.register(name, help, gauges.family.clone());
        }
        let thresholds = [
            (
                "threshold",
                "The threshold, in bytes or counts",
                &self.threshold,
            ),
            (
                "threshold_met",
                "Whether the signal is below the threshold",
                &self.threshold_met,
            ),
        ];
        for (name, help, gauges) in thresholds {
            registry.register(name, help, gauges.family.clone());
        }
        registry.register(
            "node_heartbeat_timestamp_seconds",
            "When the Node's conditions were last written; 0 before the first time; only in a cluster",
            self.node_heartbeat.family.clone(),
        );
        registry.register(
            "config_last_reload_successful",
            "Whether the last configuration read is in force; 0: it was refused, and the previous one stays",
            self.configuration.successful.clone(),
        );
        registry.register(
            "config_last_reload_success_timestamp_seconds",
            "When the configuration in force was read",
            self.configuration.read_at.clone(),
        );
        registry.register(
            "config_restart_required",
            "Settings that were changed and take effect only after a restart",
            self.configuration.waits.clone(),
        );
        registry.register(
            "pods_age_seconds",
            "How long the source of pods has not answered; 0 while it does",
            self.pods_age.clone(),
        );
        registry.register(
            "paused",
            "Whether evictions are paused",
            self.paused.clone(),
        );
    }

    fn register_events(&self, registry: &mut Registry) {
        registry.register("evictions", "Pods evicted", self.evictions.clone());
        registry.register(
            "eviction_failures",
            "Failed evictions, by the stage that failed",
            self.eviction_failures.clone(),
        );
        registry.register(
            "publications",
            "Evictions by how they reached the API server: published, recorded, not published",
            self.publications.clone(),
        );
        registry.register(
            "restarted_before_told",
            "Times that a kubelet restarted an evicted pod's containers before it knew of the eviction; they are terminated again",
            self.restarts.clone(),
        );
        registry.register(
            "admission_findings",
            "New pods that failed admission, by the reason and by what was done: report, reject, preempt",
            self.admission_findings.clone(),
        );
        registry.register(
            "preemptions",
            "Pods preempted to admit a critical pod, by the resource it lacked",
            self.preemptions.clone(),
        );
        registry.register(
            "reclaimed_bytes",
            "Bytes freed without evicting a pod",
            self.reclaimed_bytes.clone(),
        );
        registry.register(
            "stats_age_seconds",
            "Age of the sample that an eviction was decided on",
            self.stats_age.clone(),
        );
        registry.register(
            "cycle_duration_seconds",
            "From the beginning of a cycle to its decision",
            self.cycle_duration.clone(),
        );
        registry.register(
            "reaction_seconds",
            "From the threshold first seen crossed to the exit of the victim's last process",
            self.reaction.clone(),
        );
    }

    /// Sets a signal's observation; `None` while it is not observed.
    pub fn observed(&mut self, signal: Signal, observation: Option<&Observation>) {
        self.available
            .set(signal, observation.map(|observed| observed.available));
        self.capacity
            .set(signal, observation.map(|observed| observed.capacity));
    }

    /// Sets how much of a signal is used by no known pod.
    pub fn in_no_pod(&mut self, signal: Signal, amount: i64) {
        self.in_no_pod.set(signal, Some(amount));
    }

    /// Sets the state of a signal's threshold; `None` if there is none.
    pub fn threshold(&mut self, signal: Signal, tier: Tier, state: Option<ThresholdState>) {
        self.threshold
            .set(signal, tier, state.map(|state| state.value));
        self.threshold_met
            .set(signal, tier, state.map(|state| i64::from(state.met)));
    }

    /// Whether a node condition is raised.
    pub fn condition(&self, condition: NodeCondition, raised: bool) {
        self.conditions[condition].set(i64::from(raised));
    }

    /// The gauge for the task that writes the Node's conditions.
    pub fn node_heartbeat(&self) -> NodeHeartbeat {
        self.node_heartbeat.clone()
    }

    /// The gauges for the code that reads the configuration.
    pub fn configuration(&self) -> ConfigurationGauges {
        self.configuration.clone()
    }

    /// Sets how long ago the pods were last certain.
    pub(crate) fn pods_age(&self, age: Duration) {
        self.pods_age
            .set(i64::try_from(age.as_secs()).unwrap_or(i64::MAX));
    }

    /// Whether a pause holds.
    pub fn paused(&self, holds: bool) {
        self.paused.set(i64::from(holds));
    }

    /// A pod was evicted for `signal`; `kind` is a threshold's `hard` or `soft`, or `localStorage`.
    pub fn evicted(&self, signal: &'static str, kind: &'static str) {
        self.evictions
            .get_or_create(&BySignalAndKind { signal, kind })
            .inc();
    }

    /// An eviction failed in the named stage.
    pub(crate) fn eviction_failed(&self, stage: &'static str) {
        self.eviction_failures
            .get_or_create(&ByStage { stage })
            .inc();
    }

    /// Counts the result of informing the API server of an eviction.
    pub fn published(&self, result: &'static str) {
        self.publications.get_or_create(&ByResult { result }).inc();
    }

    /// Counts that a kubelet restarted an evicted pod's containers before it knew of the eviction.
    pub fn restarted(&self) {
        self.restarts.inc();
    }

    /// Counts a new pod that should not have been admitted, with the action on it.
    pub(crate) fn admission_finding(&self, action: &'static str, reason: &str) {
        let reason = reason.to_owned();
        self.admission_findings
            .get_or_create(&ByFinding { action, reason })
            .inc();
    }

    /// Counts a pod that was preempted for a critical pod that lacked `resource`.
    pub fn preempted(&self, resource: &str) {
        let resource = resource.to_owned();
        self.preemptions
            .get_or_create(&ByResource { resource })
            .inc();
    }

    /// Counts freed bytes, by their kind.
    pub fn reclaimed(&self, what: &'static str, bytes: u64) {
        self.reclaimed_bytes
            .get_or_create(&ByWhat { what })
            .inc_by(bytes);
    }

    /// Records the age of the sample that an eviction was decided on (S1-043).
    pub(crate) fn stats_age(&self, signal: Signal, age: Duration) {
        self.stats_age
            .get_or_create(&BySignal {
                signal: signal.as_str(),
            })
            .observe(age.as_secs_f64());
    }

    /// Records the time that a cycle took until its decision.
    pub fn cycle(&self, duration: Duration) {
        self.cycle_duration.observe(duration.as_secs_f64());
    }

    /// Records the time from the first observation past the threshold to the exit of the victim's last process.
    pub fn reaction(&self, duration: Duration) {
        self.reaction.observe(duration.as_secs_f64());
    }

    /// Counts an impossible sample of this signal.
    pub(crate) fn sample_rejected(&self, signal: Signal) {
        self.samples_rejected[signal].inc();
    }

    /// This signal could not be read.
    pub(crate) fn read_failed(&self, signal: Signal) {
        self.read_errors[signal].inc();
    }
}
