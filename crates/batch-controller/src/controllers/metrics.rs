//! The metrics of the controllers, with Volcano's names (S6-143).

use evictd_batch_objects::{Job, JobPhase, PodGroup};
use evictd_daemon::metrics::Exposition;
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use std::collections::HashMap;

/// The phases of pod groups that are counted, with the names of their metrics.
const PHASES: [(&str, &str); 5] = [
    ("Inqueue", "queue_pod_group_inqueue_count"),
    ("Pending", "queue_pod_group_pending_count"),
    ("Running", "queue_pod_group_running_count"),
    ("Unknown", "queue_pod_group_unknown_count"),
    ("Completed", "queue_pod_group_completed_count"),
];

/// The counters whose names at Volcano do not end in `_total`.
const SHORT_NAMES: [&str; 2] = [
    "volcano_job_completed_phase_count",
    "volcano_job_failed_phase_count",
];

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct QueueLabel {
    queue_name: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct JobLabel {
    job_id: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FinishedJobLabels {
    job_name: String,
    queue_name: String,
}

/// The values. The [`Exposition`] that is returned with them has the registry.
pub(super) struct Metrics {
    pod_groups: Vec<(&'static str, Family<QueueLabel, Gauge>)>,
    retries: Family<JobLabel, Gauge>,
    completed: Family<FinishedJobLabels, Counter>,
    failed: Family<FinishedJobLabels, Counter>,
    /// The last phase of each job.
    phases: HashMap<String, JobPhase>,
    /// Changes of the sources of HyperNodes that were refused.
    refused_confs: Counter,
}

impl Metrics {
    pub(super) fn new() -> (Self, Exposition) {
        let mut registry = Registry::with_prefix("volcano");
        let refused_confs = Counter::default();
        registry.register(
            "controller_hyper_node_conf_reload_failures",
            "Changes of the sources of HyperNodes that were refused",
            refused_confs.clone(),
        );
        let pod_groups = PHASES.map(|(phase, name)| {
            let family = Family::<QueueLabel, Gauge>::default();
            let help = format!("Pod groups of the queue in phase {phase}");
            registry.register(name, help, family.clone());
            (phase, family)
        });
        let retries = Family::<JobLabel, Gauge>::default();
        registry.register("job_retry_counts", "Restarts of the job", retries.clone());
        let completed = Family::<FinishedJobLabels, Counter>::default();
        registry.register(
            "job_completed_phase_count",
            "Jobs that completed",
            completed.clone(),
        );
        let failed = Family::<FinishedJobLabels, Counter>::default();
        registry.register("job_failed_phase_count", "Jobs that failed", failed.clone());
        let metrics = Self {
            pod_groups: pod_groups.into(),
            retries,
            completed,
            failed,
            phases: HashMap::new(),
            refused_confs,
        };
        (
            metrics,
            Exposition::new(registry).with_short_names(&SHORT_NAMES),
        )
    }

    /// The counter of the refused sources of HyperNodes.
    pub(super) fn refused_confs(&self) -> Counter {
        self.refused_confs.clone()
    }

    /// A job was added or changed.
    pub(super) fn job(&mut self, key: &str, job: &Job) {
        let status = &job.status;
        let label = JobLabel {
            job_id: key.to_owned(),
        };
        let retries = i64::from(status.retry_count);
        self.retries.get_or_create(&label).set(retries);
        let phase = status.state.phase.or_pending();
        let before = self.phases.insert(key.to_owned(), phase);
        // A job without an earlier phase is new, or finished before this process started and was counted then.
        if before.is_none_or(|before| before == phase) {
            return;
        }
        let labels = FinishedJobLabels {
            job_name: key.to_owned(),
            queue_name: job.spec.queue.clone(),
        };
        match phase {
            JobPhase::Completed => self.completed.get_or_create(&labels).inc(),
            JobPhase::Failed => self.failed.get_or_create(&labels).inc(),
            _ => 0,
        };
    }

    pub(super) fn remove_job(&mut self, key: &str) {
        self.phases.remove(key);
        self.retries.remove(&JobLabel {
            job_id: key.to_owned(),
        });
    }

    /// A pod group was added, changed or deleted.
    pub(super) fn pod_group(&self, old: Option<&PodGroup>, new: Option<&PodGroup>) {
        for (group, change) in [(old, -1), (new, 1)] {
            let Some(group) = group else { continue };
            let label = QueueLabel {
                queue_name: group.spec.queue.clone(),
            };
            for (phase, family) in &self.pod_groups {
                let gauge = family.get_or_create(&label);
                if *phase == group.status.phase.as_str() {
                    gauge.inc_by(change);
                }
            }
        }
    }

    pub(super) fn remove_queue(&self, queue: &str) {
        for (_, family) in &self.pod_groups {
            family.remove(&QueueLabel {
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
        metrics.pod_group(None, Some(&inqueue));
        metrics.pod_group(Some(&inqueue), Some(&running));
        metrics.pod_group(None, Some(&running));
        metrics.pod_group(Some(&running), None);
        let text = exposition.render(Format::Open).unwrap();
        let lines = [
            "volcano_job_retry_counts{job_id=\"ml/train\"} 2",
            "volcano_job_completed_phase_count_total{job_name=\"ml/train\",queue_name=\"q\"} 1",
            "volcano_queue_pod_group_running_count{queue_name=\"q\"} 1",
            "volcano_queue_pod_group_inqueue_count{queue_name=\"q\"} 0",
        ];
        assert!(lines.iter().all(|line| text.contains(line)), "{text}");
        assert!(!text.contains("ml/old\",queue_name"));
        let text = exposition.render(Format::Plain).unwrap();
        let line = "volcano_job_completed_phase_count{job_name=\"ml/train\",queue_name=\"q\"} 1";
        assert!(text.contains(line), "{text}");
        assert!(
            text.contains("# TYPE volcano_job_completed_phase_count counter"),
            "{text}"
        );
        metrics.remove_job("ml/train");
        assert!(
            !exposition
                .render(Format::Open)
                .unwrap()
                .contains("job_id=\"ml/train\"")
        );
    }
}
