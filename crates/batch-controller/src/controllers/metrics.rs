//! The controllers' metrics, by Volcano's names (S6-143).

use evictd_batch::job::Phase;
use evictd_batch::wire::{Job, PodGroup};
use evictd_daemon::metrics::Exposition;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::HashMap;

/// Phases of a PodGroup that are counted, and how their metric is called.
const PHASES: [(&str, &str); 5] = [
    ("Inqueue", "queue_pod_group_inqueue_count"),
    ("Pending", "queue_pod_group_pending_count"),
    ("Running", "queue_pod_group_running_count"),
    ("Unknown", "queue_pod_group_unknown_count"),
    ("Completed", "queue_pod_group_completed_count"),
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfQueue {
    queue_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfJob {
    job_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Ended {
    job_name: String,
    queue_name: String,
}

/// The values; whoever serves them has the [`Registry`].
pub(super) struct Metrics {
    groups: Vec<(&'static str, Family<OfQueue, Gauge>)>,
    retries: Family<OfJob, Gauge>,
    completed: Family<Ended, Counter>,
    failed: Family<Ended, Counter>,
    phases: HashMap<String, Phase>,
}

impl Metrics {
    pub(super) fn new() -> (Self, Exposition) {
        let mut registry = Registry::with_prefix("volcano");
        let groups = PHASES.map(|(phase, name)| {
            let family = Family::<OfQueue, Gauge>::default();
            let help = format!("PodGroups of the queue in phase {phase}");
            registry.register(name, help, family.clone());
            (phase, family)
        });
        let retries = Family::<OfJob, Gauge>::default();
        registry.register("job_retry_counts", "Restarts of the job", retries.clone());
        let completed = Family::<Ended, Counter>::default();
        registry.register(
            "job_completed_phase_count",
            "Jobs that completed",
            completed.clone(),
        );
        let failed = Family::<Ended, Counter>::default();
        registry.register("job_failed_phase_count", "Jobs that failed", failed.clone());
        let metrics = Self {
            groups: groups.into(),
            retries,
            completed,
            failed,
            phases: HashMap::new(),
        };
        (metrics, Exposition::new(registry))
    }

    /// Takes the newest state of a job.
    pub(super) fn job(&mut self, key: &str, job: &Job) {
        let status = &job.status;
        let label = OfJob {
            job_id: key.to_owned(),
        };
        let retries = i64::from(status.retry_count);
        self.retries.get_or_create(&label).set(retries);
        let phase = Phase::of(&status.state.phase);
        let before = self.phases.insert(key.to_owned(), phase);
        // The end of a job that had ended before the controller began was counted then.
        if before.is_none_or(|before| before == phase) {
            return;
        }
        let label = Ended {
            job_name: key.to_owned(),
            queue_name: job.spec.queue.clone(),
        };
        match phase {
            Phase::Completed => self.completed.get_or_create(&label).inc(),
            Phase::Failed => self.failed.get_or_create(&label).inc(),
            _ => 0,
        };
    }

    /// A job is gone.
    pub(super) fn forget_job(&mut self, key: &str) {
        self.phases.remove(key);
        self.retries.remove(&OfJob {
            job_id: key.to_owned(),
        });
    }

    /// A group appears, changed or is gone.
    pub(super) fn group(&self, old: Option<&PodGroup>, new: Option<&PodGroup>) {
        for (group, change) in [(old, -1), (new, 1)] {
            let Some(group) = group else { continue };
            let label = OfQueue {
                queue_name: group.spec.queue.clone(),
            };
            for (phase, family) in &self.groups {
                let gauge = family.get_or_create(&label);
                if *phase == group.status.phase.as_str() {
                    gauge.inc_by(change);
                }
            }
        }
    }

    /// A queue is gone.
    pub(super) fn forget_queue(&self, queue: &str) {
        for (_, family) in &self.groups {
            family.remove(&OfQueue {
                queue_name: queue.to_owned(),
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_daemon::metrics::Format;
    use serde_json::json;

    #[test]
    fn s6_143_metrics_of_jobs_and_queues_have_volcanos_names() {
        let (mut metrics, exposition) = Metrics::new();
        let job = |phase: &str| -> Job {
            let status = json!({"state": {"phase": phase}, "retryCount": 2});
            serde_json::from_value(json!({"spec": {"queue": "q"}, "status": status})).unwrap()
        };
        metrics.job("ml/train", &job("Running"));
        metrics.job("ml/train", &job("Completed"));
        metrics.job("ml/old", &job("Failed"));
        let group = |phase: &str| -> PodGroup {
            let status = json!({"phase": phase});
            serde_json::from_value(json!({"spec": {"queue": "q"}, "status": status})).unwrap()
        };
        let (inqueue, running) = (group("Inqueue"), group("Running"));
        metrics.group(None, Some(&inqueue));
        metrics.group(Some(&inqueue), Some(&running));
        metrics.group(None, Some(&running));
        metrics.group(Some(&running), None);
        let text = exposition.render(Format::Open).unwrap();
        let lines = [
            "volcano_job_retry_counts{job_id=\"ml/train\"} 2",
            "volcano_job_completed_phase_count_total{job_name=\"ml/train\",queue_name=\"q\"} 1",
            "volcano_queue_pod_group_running_count{queue_name=\"q\"} 1",
            "volcano_queue_pod_group_inqueue_count{queue_name=\"q\"} 0",
        ];
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        assert!(!text.contains("ml/old\",queue_name"));
        metrics.forget_job("ml/train");
        assert!(
            !exposition
                .render(Format::Open)
                .unwrap()
                .contains("job_id=\"ml/train\"")
        );
    }
}
