//! A flow creates jobs from templates, each once the jobs before it have completed (S6-226 to S6-233).

use evictd_batch_objects::schema::{ObjectMeta, Time};
use evictd_batch_objects::{JobSpec, KnownValues, OpenEnum, TaskState};
use evictd_pod::wire::{Metadata, null_is_default};
use jiff::Timestamp;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// A flow.volcano.sh/v1alpha1 `JobFlow`.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobFlow {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "ObjectMeta")]
    pub metadata: Metadata,
    /// The desired state.
    #[serde(deserialize_with = "null_is_default")]
    pub spec: JobFlowSpec,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: JobFlowStatus,
}

/// The desired state of a flow.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobFlowSpec {
    /// The jobs, each by the name of its template.
    #[serde(deserialize_with = "null_is_default")]
    pub flows: Vec<Flow>,
    /// Whether the jobs are deleted once the flow has succeeded; they are kept if absent.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(extend("enum" = ["retain", "delete"]))]
    pub job_retain_policy: String,
}

/// A job of a flow.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["name"]))]
pub struct Flow {
    /// The name of the template, which is in the namespace of the flow.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(length(min = 1))]
    pub name: String,
    /// The jobs that have to complete first.
    pub depends_on: Option<FlowDependsOn>,
    /// Changes of the template, which Volcano defines and does not apply.
    #[schemars(with = "Option<Patch>")]
    pub patch: Option<Value>,
}

/// The jobs that have to complete before a job of a flow.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FlowDependsOn {
    /// The names of their templates.
    #[serde(deserialize_with = "null_is_default")]
    pub targets: Vec<String>,
    /// Checks of running jobs, which Volcano defines and does not make.
    #[schemars(with = "Option<Probe>")]
    pub probe: Option<Value>,
}

/// The schema of changes of a template.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct Patch {
    /// Fields of the spec.
    job_spec: JobSpec,
}

/// The schema of checks of running jobs.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
struct Probe {
    /// Checks by HTTP.
    #[serde(rename = "httpGetList")]
    http_get: Vec<HttpGet>,
    /// Checks by TCP.
    #[serde(rename = "tcpSocketList")]
    tcp_socket: Vec<TcpSocket>,
    /// Checks of the phase of a task.
    #[serde(rename = "taskStatusList")]
    task_status: Vec<TaskStatus>,
}

/// A check by HTTP.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct HttpGet {
    /// The task.
    #[schemars(length(max = 253))]
    task_name: String,
    /// The path.
    path: String,
    /// The port.
    #[schemars(range(min = 0, max = 65535))]
    port: i32,
    /// A header.
    http_header: HttpHeader,
}

/// A header of a check by HTTP.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
#[schemars(extend("required" = ["name", "value"]))]
struct HttpHeader {
    /// The name.
    name: String,
    /// The value.
    value: String,
}

/// A check by TCP.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
#[schemars(extend("required" = ["port"]))]
struct TcpSocket {
    /// The task.
    #[schemars(length(max = 253))]
    task_name: String,
    /// The port.
    #[schemars(range(min = 0, max = 65535))]
    port: i32,
}

/// A check of the phase of a task.
#[derive(Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
struct TaskStatus {
    /// The task.
    #[schemars(length(max = 253))]
    task_name: String,
    /// The phase.
    #[schemars(length(max = 63))]
    phase: String,
}

/// The phase of a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JobFlowPhase {
    /// Final: all its jobs have completed.
    Succeed,
    /// It is being deleted.
    Terminating,
    /// Final: one of its jobs has failed.
    Failed,
    /// At least one of its jobs runs or has completed.
    Running,
    /// None of its jobs has started.
    Pending,
}

impl KnownValues for JobFlowPhase {
    const ALL: &'static [Self] = &[
        Self::Succeed,
        Self::Terminating,
        Self::Failed,
        Self::Running,
        Self::Pending,
    ];

    fn as_str(self) -> &'static str {
        match self {
            Self::Succeed => "Succeed",
            Self::Terminating => "Terminating",
            Self::Failed => "Failed",
            Self::Running => "Running",
            Self::Pending => "Pending",
        }
    }
}

/// The observed state of a flow.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobFlowStatus {
    /// Names of pending jobs.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub pending_jobs: Vec<String>,
    /// Names of running jobs.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub running_jobs: Vec<String>,
    /// Names of failed jobs.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub failed_jobs: Vec<String>,
    /// Names of completed jobs.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub completed_jobs: Vec<String>,
    /// Names of terminated jobs.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub terminated_jobs: Vec<String>,
    /// Names of jobs in other phases. The field has Volcano's spelling.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub un_know_jobs: Vec<String>,
    /// The jobs so far, also deleted ones.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub job_status_list: Vec<FlowJobStatus>,
    /// The jobs that exist, by name.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub conditions: BTreeMap<String, FlowCondition>,
    /// The phase.
    #[serde(deserialize_with = "null_is_default")]
    pub state: JobFlowState,
}

/// The phase of a flow.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default)]
pub struct JobFlowState {
    /// The phase.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "OpenEnum::is_empty"
    )]
    pub phase: OpenEnum<JobFlowPhase>,
}

/// A job of a flow, and its phases so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FlowJobStatus {
    /// The name.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The phase.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub state: String,
    /// When it was created.
    #[schemars(with = "Option<Time>")]
    pub start_timestamp: Option<Timestamp>,
    /// The start and the running time.
    #[schemars(with = "Option<Time>")]
    pub end_timestamp: Option<Timestamp>,
    /// The number of restarts.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "is_zero")]
    #[schemars(range(min = 0))]
    pub restart_count: i32,
    /// The phases so far.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub running_histories: Vec<RunningHistory>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(count: &i32) -> bool {
    *count == 0
}

/// A phase that a job of a flow was in.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct RunningHistory {
    /// When the controller saw it first.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub start_timestamp: Option<Timestamp>,
    /// When the controller saw the next one.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub end_timestamp: Option<Timestamp>,
    /// The phase.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub state: String,
}

/// A job of a flow that exists.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct FlowCondition {
    /// The phase.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "String::is_empty"
    )]
    pub phase: String,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<Time>")]
    pub create_time: Option<Timestamp>,
    /// The running time, such as 1h30m.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub running_duration: Option<String>,
    /// Numbers of pods by task and phase.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "BTreeMap::is_empty"
    )]
    pub task_status_count: BTreeMap<String, TaskState>,
}

/// A flow.volcano.sh/v1alpha1 `JobTemplate`: the spec of the jobs of flows.
#[derive(Debug, Clone, Default, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobTemplate {
    /// Namespace and name.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "ObjectMeta")]
    pub metadata: Metadata,
    /// The spec of the jobs, as it was written.
    #[serde(deserialize_with = "null_is_default")]
    #[schemars(with = "JobSpec")]
    pub spec: Value,
    /// The observed state.
    #[serde(deserialize_with = "null_is_default")]
    pub status: JobTemplateStatus,
}

/// The observed state of a job template.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(default, rename_all = "camelCase")]
pub struct JobTemplateStatus {
    /// Names of the jobs that were made of it.
    #[serde(
        deserialize_with = "null_is_default",
        skip_serializing_if = "Vec::is_empty"
    )]
    pub job_depends_on_list: Vec<String>,
}
