//! The scheduler of a configuration: a framework for each profile.

use super::metrics::MetricsRecorder;
use super::threads::Threads;
use evictd_scheduling::config::Configuration;
use evictd_scheduling::{
    CustomPlugin, Framework, Parallelizer, Recorder, Scheduler, Settings, TieBreak,
};
use std::sync::Arc;

/// The configuration may name `plugins`. The error names a plugin that refuses its arguments.
pub(super) fn scheduler(
    config: &Configuration,
    plugins: &[CustomPlugin],
    recorder: &Arc<MetricsRecorder>,
) -> Result<Scheduler, String> {
    let settings = Settings {
        initial_backoff: config.pod_initial_backoff,
        max_backoff: config.pod_max_backoff,
        max_unschedulable: config.pod_max_unschedulable,
        ..Settings::default()
    };
    let scheduler = Scheduler::new(settings, !config.extenders.is_empty(), |cluster| {
        let threads = Arc::new(Threads::new());
        let profiles = config.profiles.iter();
        let frameworks = profiles.map(|profile| {
            let mut framework = Framework::new(cluster, profile, plugins)?;
            framework.parallelizer = Arc::clone(&threads) as Arc<dyn Parallelizer>;
            framework.recorder = Arc::clone(recorder) as Arc<dyn Recorder>;
            framework.begin_counting();
            // Pods without requests have equal scores on many nodes, and would all get the first one.
            framework.tie_break = TieBreak::FewestPods;
            Ok(framework)
        });
        frameworks.collect::<Result<Vec<Framework>, String>>()
    });
    let mut scheduler = scheduler?;
    scheduler.set_extenders(config.extenders.clone());
    Ok(scheduler)
}
