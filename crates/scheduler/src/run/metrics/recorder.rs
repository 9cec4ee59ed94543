//! Measures plugins, extension points and queueing hints, as rarely as kube-scheduler does.

use super::Metrics;
use evictd_scheduling::Recorder;
use evictd_scheduling::config::Point;
use prometheus_client::metrics::counter::Counter;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;
use tokio::time::Instant;

/// Plugins are measured in one of so many attempts (`pluginMetricsSamplePercent` 10).
const ATTEMPTS: u32 = 10;
/// At most so many queueing hints are measured in a second, as kube-scheduler discards what does not fit into its buffer.
const HINTS: u32 = 1000;

/// The counters of a plugin at a point, by profile.
type ByProfile = Vec<(String, Counter)>;

pub(crate) struct MetricsRecorder {
    metrics: Metrics,
    began: Instant,
    attempts: AtomicU32,
    /// How many hints may still be measured until the next second.
    hints: AtomicU32,
    /// The counters of evaluations, by point and plugin and then by profile, so that no label is written again.
    evaluations: Mutex<HashMap<(Point, String), ByProfile>>,
}

impl MetricsRecorder {
    pub(crate) fn new(metrics: Metrics) -> Self {
        Self {
            metrics,
            began: Instant::now(),
            attempts: AtomicU32::new(0),
            hints: AtomicU32::new(HINTS),
            evaluations: Mutex::default(),
        }
    }

    /// The next attempt begins.
    pub(crate) fn next_attempt(&self) {
        self.attempts.fetch_add(1, Ordering::Relaxed);
    }

    /// A second has passed.
    pub(crate) fn next_second(&self) {
        self.hints.store(HINTS, Ordering::Relaxed);
    }
}

/// The name of a point in metrics.
fn label(point: Point) -> &'static str {
    match point {
        Point::PreEnqueue => "PreEnqueue",
        Point::QueueSort => "QueueSort",
        Point::PreFilter => "PreFilter",
        Point::Filter => "Filter",
        Point::PostFilter => "PostFilter",
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
        self.attempts.load(Ordering::Relaxed) % ATTEMPTS == 1
    }

    fn samples_hints(&self) -> bool {
        let take = |left: u32| left.checked_sub(1);
        self.hints
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, take)
            .is_ok()
    }

    fn on_point(&self, profile: &str, point: Point, status: &'static str, took: Duration) {
        self.metrics
            .framework_extension_point_duration
            .observe([label(point), status, profile], took.as_secs_f64());
    }

    fn on_plugin(&self, plugin: &str, point: Point, status: &'static str, took: Duration) {
        self.metrics
            .plugin_execution_duration
            .observe([plugin, label(point), status], took.as_secs_f64());
    }

    fn on_evaluated(&self, profile: &str, plugin: &str, point: Point, count: u64) {
        let mut all = self
            .evaluations
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let of_plugin = all.entry((point, plugin.to_owned())).or_default();
        let known = of_plugin.iter().find(|(known, _)| known == profile);
        if let Some((_, counter)) = known {
            counter.inc_by(count);
            return;
        }
        let counter = self
            .metrics
            .plugin_evaluation
            .counter([plugin, label(point), profile]);
        counter.inc_by(count);
        of_plugin.push((profile.to_owned(), counter));
    }

    fn on_hint(&self, plugin: &'static str, event: &'static str, wakes: bool, took: Duration) {
        let hint = if wakes { "Queue" } else { "QueueSkip" };
        self.metrics
            .queueing_hint_execution_duration
            .observe([plugin, event, hint], took.as_secs_f64());
    }
}
