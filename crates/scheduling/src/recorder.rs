//! Measures how long plugins and extension points take. This crate has no clock: the caller provides a [`Recorder`].

#[cfg(test)]
mod tests;

use crate::config::Point;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Receives what is measured (`metricsRecorder` in kube-scheduler). Its methods are called during an attempt and must be quick.
/// By default nothing is measured.
pub trait Recorder: Send + Sync {
    /// The time since some moment; it never goes back.
    fn now(&self) -> Duration {
        Duration::ZERO
    }

    /// Whether each plugin of this attempt is measured.
    fn samples_plugins(&self) -> bool {
        false
    }

    /// Whether the next queueing hint is measured.
    fn samples_hints(&self) -> bool {
        false
    }

    /// All plugins of a point have run for a pod of the profile. The status is that of the point.
    fn on_point(&self, _profile: &str, _point: Point, _status: &'static str, _took: Duration) {}

    /// A plugin has run at a point.
    fn on_plugin(&self, _plugin: &str, _point: Point, _status: &'static str, _took: Duration) {}

    /// A plugin has normalized its scores of all nodes.
    fn on_normalized(&self, _plugin: &str, _took: Duration) {}

    /// A plugin has evaluated pods, or nodes for a pod.
    fn on_evaluated(&self, _profile: &str, _plugin: &str, _point: Point, _count: u64) {}

    /// A plugin's queueing hint for the event has run.
    fn on_hint(&self, _plugin: &'static str, _event: &'static str, _wakes: bool, _took: Duration) {}

    /// The pods of a group, or of a tree of groups, were tried together. The result is `scheduled`, `waiting_on_preemption`,
    /// `unschedulable` or `error` (S7-054).
    fn on_group_attempt(&self, _profile: &str, _result: &'static str, _took: Duration) {}

    /// Victims were looked for, for a `pod` or a `podgroup` (S7-054).
    fn on_preemption(&self, _preemptor: &'static str, _status: &'static str, _took: Duration) {}

    /// The `PodGroupPostFilter` plugins have run. The status is also known where no victims were looked for.
    fn on_group_preemption(&self, _status: &'static str) {}

    /// A group preempts so many pods. Pods that are only evicted together count once in `disruptions` (S7-054).
    fn on_group_victims(&self, _pods: usize, _disruptions: usize) {}

    /// A group has so many domains to be placed in (S7-095).
    fn on_placements(&self, _profile: &str, _count: usize) {}

    /// A group was tried in one domain.
    fn on_placement(&self, _profile: &str, _is_feasible: bool, _took: Duration) {}
}

/// Measures nothing.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct NoRecorder;

impl Recorder for NoRecorder {}

/// A recorder that several owners share. By default nothing is measured.
#[derive(Clone)]
pub(crate) struct SharedRecorder(pub(crate) Arc<dyn Recorder>);

impl Default for SharedRecorder {
    fn default() -> Self {
        Self(Arc::new(NoRecorder))
    }
}

impl fmt::Debug for SharedRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SharedRecorder")
    }
}

/// The status of a point or plugin, as kube-scheduler names it.
pub(crate) const fn status(succeeds: bool) -> &'static str {
    if succeeds { SUCCESS } else { "Unschedulable" }
}

/// The status of a successful attempt.
pub(crate) const SUCCESS: &str = "Success";

/// The status of a plugin that has failed.
pub(crate) const ERROR: &str = "Error";

/// The status of a plugin that has nothing to do for a pod.
pub(crate) const SKIP: &str = "Skip";

/// The status of a plugin that delays the binding of a pod.
pub(crate) const WAIT: &str = "Wait";

/// The status of a plugin that keeps a pod out of the queue.
pub(crate) const UNRESOLVABLE: &str = "UnschedulableAndUnresolvable";

/// Runs a plugin at a point. If this attempt is measured, it records the time and the status of the result.
pub(crate) fn run_plugin<T>(
    recorder: &dyn Recorder,
    (plugin, point): (&str, Point),
    run: impl FnOnce() -> T,
    status: impl FnOnce(&T) -> &'static str,
) -> T {
    if !recorder.samples_plugins() {
        return run();
    }
    let (result, took) = timed(recorder, run);
    recorder.on_plugin(plugin, point, status(&result), took);
    result
}

/// The plugins that have run at a point, if this attempt is measured. They are recorded once it is known that the point counts.
pub(crate) struct PluginRuns<'r> {
    recorder: &'r dyn Recorder,
    point: Point,
    runs: Option<Vec<(String, &'static str, Duration)>>,
}

impl<'r> PluginRuns<'r> {
    pub(crate) fn new(recorder: &'r dyn Recorder, point: Point) -> Self {
        let runs = recorder.samples_plugins().then(Vec::new);
        Self {
            recorder,
            point,
            runs,
        }
    }

    /// Runs a plugin.
    pub(crate) fn run<T>(
        &mut self,
        plugin: &str,
        run: impl FnOnce() -> T,
        status: impl FnOnce(&T) -> &'static str,
    ) -> T {
        let Some(runs) = &mut self.runs else {
            return run();
        };
        let (result, took) = timed(self.recorder, run);
        runs.push((plugin.to_owned(), status(&result), took));
        result
    }

    /// Records the runs.
    pub(crate) fn record(self) {
        for (plugin, status, took) in self.runs.into_iter().flatten() {
            self.recorder.on_plugin(&plugin, self.point, status, took);
        }
    }
}

/// Runs `work` and returns its result with the time that it took.
pub(crate) fn timed<T>(recorder: &dyn Recorder, work: impl FnOnce() -> T) -> (T, Duration) {
    let began = recorder.now();
    let result = work();
    (result, recorder.now().saturating_sub(began))
}
