//! Measures plugins, extension points and queueing hints, as rarely as kube-scheduler does.

use super::Metrics;
use evictd_scheduling::Recorder;
use evictd_scheduling::config::Point;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use std::collections::HashMap;
use std::hash::Hash;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Plugins are measured in one of so many attempts (`pluginMetricsSamplePercent` 10).
const ATTEMPTS: u32 = 10;
/// At most so many queueing hints are measured in a second, as kube-scheduler discards what does not fit into its buffer.
const HINTS: u32 = 1000;

/// Metrics by key and profile. They are found without a copy of any label, because most are written for each pod.
struct Known<K, M>(Mutex<HashMap<K, Vec<(String, M)>>>);

impl<K, M> Default for Known<K, M> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash, M: Clone> Known<K, M> {
    fn get(&self, key: K, profile: &str, make: impl FnOnce() -> M) -> M {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_key = all.entry(key).or_default();
        let known = of_key.iter().find(|(known, _)| known == profile);
        if let Some((_, metric)) = known {
            return metric.clone();
        }
        let metric = make();
        of_key.push((profile.to_owned(), metric.clone()));
        metric
    }
}

pub(crate) struct MetricsRecorder {
    metrics: Metrics,
    began: Instant,
    attempts: AtomicU32,
    /// How many hints may still be measured until the next second.
    hints: AtomicU32,
    evaluations: Known<(Point, String), Counter>,
    points: Known<(Point, &'static str), Histogram>,
}

impl MetricsRecorder {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            began: Instant::now(),
            attempts: AtomicU32::new(0),
            hints: AtomicU32::new(HINTS),
            evaluations: Known::default(),
            points: Known::default(),
        }
    }

    /// An attempt was made. A look at an empty queue is none: else it would be measured in the place of a pod.
    pub(crate) fn on_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// A second has passed.
    pub(crate) fn next_second(&self) {
        self.hints.store(HINTS, Ordering::Relaxed);
    }
}

/// The part of the point Score that has a name of its own in metrics.
const NORMALIZE: &str = "ScoreExtensionNormalize";

/// The status of plugins that have done their work.
const SUCCESS: &str = "Success";

/// The name of a point in metrics.
fn label(point: Point) -> &'static str {
    match point {
        Point::PreEnqueue => "PreEnqueue",
        Point::QueueSort => "QueueSort",
        Point::PreFilter => "PreFilter",
        Point::Filter => "Filter",
        Point::PostFilter => "PostFilter",
        Point::PodGroupPostFilter => "PodGroupPostFilter",
        Point::PreScore => "PreScore",
        Point::Score => "Score",
        Point::Reserve => "Reserve",
        Point::Permit => "Permit",
        Point::PreBind => "PreBind",
        Point::Bind => "Bind",
        Point::PostBind => "PostBind",
        Point::PlacementGenerate => "PlacementGenerate",
        Point::PlacementScore => "PlacementScore",
    }
}

impl Recorder for MetricsRecorder {
    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    fn samples_plugins(&self) -> bool {
        self.attempts
            .load(Ordering::Relaxed)
            .is_multiple_of(ATTEMPTS)
    }

    fn samples_hints(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.hints
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    fn on_point(&self, profile: &str, point: Point, status: &'static str, took: Duration) {
        let histogram = self.points.get((point, status), profile, || {
            let durations = &self.metrics.framework_extension_point_duration;
            durations.histogram([label(point), status, profile])
        });
        histogram.observe(took.as_secs_f64());
    }

    fn on_plugin(&self, plugin: &str, point: Point, status: &'static str, took: Duration) {
        self.metrics
            .plugin_execution_duration
            .observe([plugin, label(point), status], took.as_secs_f64());
    }

    fn on_normalized(&self, plugin: &str, took: Duration) {
        self.metrics
            .plugin_execution_duration
            .observe([plugin, NORMALIZE, SUCCESS], took.as_secs_f64());
    }

    fn on_evaluated(&self, profile: &str, plugin: &str, point: Point, count: u64) {
        let key = (point, plugin.to_owned());
        let counter = self.evaluations.get(key, profile, || {
            let labels = [plugin, label(point), profile];
            self.metrics.plugin_evaluation.counter(labels)
        });
        counter.inc_by(count);
    }

    fn on_hint(&self, plugin: &'static str, event: &'static str, wakes: bool, took: Duration) {
        let hint = if wakes { "Queue" } else { "QueueSkip" };
        self.metrics
            .queueing_hint_execution_duration
            .observe([plugin, event, hint], took.as_secs_f64());
    }

    fn on_group_attempt(&self, profile: &str, result: &'static str, took: Duration) {
        let (groups, took) = (&self.metrics.groups, took.as_secs_f64());
        groups.schedule_attempts.add([result, profile], 1);
        groups.attempt_duration.observe([result, profile], took);
        groups.algorithm_duration.observe([], took);
    }

    fn on_preemption(&self, preemptor: &'static str, status: &'static str, took: Duration) {
        let groups = &self.metrics.groups;
        groups
            .preemption_evaluation_duration
            .observe([preemptor, status], took.as_secs_f64());
    }

    fn on_group_preemption(&self, status: &'static str) {
        self.metrics.groups.preemption_attempts.add([status], 1);
    }

    fn on_group_victims(&self, pods: usize, disruptions: usize) {
        // A double holds every number of pods that fits into memory.
        #[allow(clippy::cast_precision_loss, reason = "there are fewer than 2^53 pods")]
        let [pods, disruptions] = [pods as f64, disruptions as f64];
        let groups = &self.metrics.groups;
        groups.preemption_victims.observe([], pods);
        groups.disruptions.observe(["podgroup"], disruptions);
    }

    fn on_placements(&self, profile: &str, count: usize) {
        let count = u64::try_from(count).unwrap_or(u64::MAX);
        self.metrics
            .groups
            .generated_placements
            .add([profile], count);
    }

    fn on_placement(&self, profile: &str, is_feasible: bool, took: Duration) {
        let result = if is_feasible {
            "feasible"
        } else {
            "infeasible"
        };
        let groups = &self.metrics.groups;
        groups.placement_evaluations.add([result, profile], 1);
        groups
            .placement_evaluation_duration
            .observe([result, profile], took.as_secs_f64());
    }
}

const fn status(succeeds: bool) -> &'static str {
    if succeeds { SUCCESS } else { "Error" }
}

/// Measures the points of one binding.
#[derive(Clone)]
pub(crate) struct BindingRecorder {
    recorder: Arc<MetricsRecorder>,
    profile: Box<str>,
    /// Whether its plugins are measured, too.
    samples_plugins: bool,
}

impl BindingRecorder {
    pub(crate) fn new(recorder: &Arc<MetricsRecorder>, profile: &str) -> Self {
        Self {
            recorder: Arc::clone(recorder),
            profile: profile.into(),
            // The binding may end many attempts later.
            samples_plugins: recorder.samples_plugins(),
        }
    }

    /// The plugins of the point have run since then.
    pub(crate) fn ran(&self, point: Point, succeeds: bool, since: Instant) {
        self.recorder
            .on_point(&self.profile, point, status(succeeds), since.elapsed());
    }

    /// A plugin has run since then.
    pub(crate) fn plugin_ran(&self, plugin: &str, point: Point, succeeds: bool, since: Instant) {
        if self.samples_plugins {
            self.recorder
                .on_plugin(plugin, point, status(succeeds), since.elapsed());
        }
    }
}
