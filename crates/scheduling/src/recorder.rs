//! Measures how long plugins and extension points take. This crate has no clock: the caller provides a [`Recorder`].

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

/// The status of a plugin that has nothing to do for a pod.
pub(crate) const SKIP: &str = "Skip";

/// The status of a plugin that keeps a pod out of the queue.
pub(crate) const UNRESOLVABLE: &str = "UnschedulableAndUnresolvable";

/// Runs `work` and returns its result with the time that it took.
pub(crate) fn timed<T>(recorder: &dyn Recorder, work: impl FnOnce() -> T) -> (T, Duration) {
    let began = recorder.now();
    let result = work();
    (result, recorder.now().saturating_sub(began))
}
