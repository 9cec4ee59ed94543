//! A cron job: it creates a job at each of its times (S6-234).

use evictd_batch_objects::schema::{Anything, ObjectMeta, Time};
use evictd_batch_objects::{JobSpec, KnownValues, OpenEnum};
use evictd_pod::wire::{Metadata, null_is_default};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A batch.volcano.sh/v1alpha1 `CronJob`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJob {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "ObjectMeta")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: CronJobSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: CronJobStatus,
}

/// The desired state of a cron job.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["jobTemplate", "schedule"]))]
pub struct CronJobSpec {
    /// The times, as five fields of cron or a descriptor such as @daily.
    #[serde(deserialize_with = "null_is_default")]
    pub schedule: String,
    /// The time zone of the schedule by its name in the database of time zones; UTC if absent.
    pub time_zone: Option<String>,
    /// A job that is late by more seconds is not created.
    #[schemars(range(min = 0))]
    pub starting_deadline_seconds: Option<i64>,
    /// The rule for a time at which an earlier job is still active.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(extend("x-default" = "Allow"))]
    pub concurrency_policy: OpenEnum<ConcurrencyPolicy>,
    /// Whether no jobs are created.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(extend("x-default" = false))]
    pub suspend: bool,
    /// Labels, annotations and spec of the jobs.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "JobTemplateSpec")]
    pub job_template: Value,
    /// How many completed jobs are kept.
    #[schemars(range(min = 0), extend("x-default" = 3))]
    pub successful_jobs_history_limit: Option<i32>,
    /// How many failed jobs are kept.
    #[schemars(range(min = 0), extend("x-default" = 1))]
    pub failed_jobs_history_limit: Option<i32>,
}

/// The rule for a time at which an earlier job is still active.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConcurrencyPolicy {
    /// The jobs run beside each other.
    Allow,
    /// No job is created.
    Forbid,
    /// The earlier jobs are deleted.
    Replace,
}

impl KnownValues for ConcurrencyPolicy {
    const ALL: &'static [Self] = &[Self::Allow, Self::Forbid, Self::Replace];

    fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "Allow",
            Self::Forbid => "Forbid",
            Self::Replace => "Replace",
        }
    }
}

/// The schema of a job template. Its fields are read where a job is made of it.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
struct JobTemplateSpec {
    /// Labels and annotations of the jobs.
    #[schemars(with = "Anything")]
    metadata: Value,
    /// The spec of the jobs.
    spec: JobSpec,
}

/// The observed state of a cron job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct CronJobStatus {
    /// The jobs that have not ended.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub active: Vec<JobReference>,
    /// The time of the last job that was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub last_schedule_time: Option<Timestamp>,
    /// When the last job completed.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub last_successful_time: Option<Timestamp>,
}

/// A job of a cron job.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobReference {
    /// `batch.volcano.sh/v1alpha1`.
    #[serde(deserialize_with = "null_is_default")]
    pub api_version: String,
    /// `Job`.
    #[serde(deserialize_with = "null_is_default")]
    pub kind: String,
    /// The name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The namespace.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// The UID. A later job of the same name has another one.
    #[serde(deserialize_with = "null_is_default")]
    pub uid: String,
}
