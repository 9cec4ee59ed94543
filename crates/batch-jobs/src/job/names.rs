//! Annotations and labels of pods and groups, by Volcano's names.

pub(super) const JOB_NAME: &str = "volcano.sh/job-name";
pub(super) const JOB_NAMESPACE: &str = "volcano.sh/job-namespace";
pub(super) const JOB_VERSION: &str = "volcano.sh/job-version";
pub(super) const JOB_RETRY_COUNT: &str = "volcano.sh/job-retry-count";
pub(super) const TASK_INDEX: &str = "volcano.sh/task-index";
pub(super) const TEMPLATE_UID: &str = "volcano.sh/template-uid";
pub(super) const QUEUE_NAME: &str = "volcano.sh/queue-name";
pub(super) const PARTITION: &str = "volcano.sh/partition-id";
pub(super) const NUMA_POLICY: &str = "volcano.sh/numa-topology-policy";
pub(super) const PREEMPTABLE: &str = "volcano.sh/preemptable";
pub(super) const COOLDOWN_TIME: &str = "volcano.sh/cooldown-time";
pub(super) const REVOCABLE_ZONE: &str = "volcano.sh/revocable-zone";
/// The mark of a pod whose end is no event (S6-035).
pub(super) const OUT_OF_SYNC: &str = "volcano.sh/controller-out-of-sync";
/// On a job: the action in place of `RestartJob` when a pod is evicted and the gang is complete without it; of our own.
pub(super) const ABOVE_MINIMUM: &str = "batch.evictd.dev/evicted-above-min-available";
/// By which termination the pod was marked; of our own.
pub(super) const ENDING: &str = "batch.evictd.dev/ending";

/// `apiVersion` of jobs.
pub(super) const JOB_API: &str = "batch.volcano.sh/v1alpha1";
/// `kind` of jobs.
pub(super) const JOB_KIND: &str = "Job";
