//! Admission of jobs, queues, pod groups, pods, cron jobs, flows and hyper nodes: defaults and validation, in Volcano's words (S6-074 to S6-085, S6-246 to S6-248).
//! [`rules`] are those that need no other object, for the API server itself.
//!
//! ```
//! use evictd_batch_admission::{Endpoint, Known, Request, Settings, admit};
//! use serde_json::json;
//!
//! let job = json!({"metadata": {"name": "train", "namespace": "default"}, "spec": {"queue": "default"}});
//! let request = Request {
//!     endpoint: Endpoint::JobsValidate,
//!     operation: "CREATE",
//!     name: "train",
//!     namespace: "default",
//!     object: &job,
//!     old_object: None,
//! };
//! let verdict = admit(&request, &Known::default(), &Settings::default());
//! assert_eq!(verdict.denied.as_deref(), Some("No task specified in job spec"));
//! ```
#![forbid(unsafe_code)]

mod bounds;
mod cron_job;
mod field;
mod hyper_node;
mod job;
mod job_flow;
mod known;
mod patch;
mod pod;
mod pod_group;
mod question;
mod queue;
mod read;
pub mod rules;
mod template;

pub use bounds::{
    Excess, MOST_AMOUNTS, MOST_BYTES, MOST_CONTAINERS, MOST_PARTS, MOST_POLICIES, MOST_TASKS,
    MOST_VOLUMES, check_text,
};
pub use evictd_pod::names::dns_subdomain;
pub use known::Known;
pub use patch::{Op, PatchOperation, patched};
pub use question::{Answer, Namespace, Question, QuestionError};

use evictd_batch_objects::{Job, PodGroup, Queue};
use evictd_pod::wire::{Pod, PodSpec};
use serde::Deserialize;
use serde_json::Value;

/// The webhooks, each at its own path (S6-074).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Endpoint {
    /// Defaults of a job.
    JobsMutate,
    /// Whether a job is let in.
    JobsValidate,
    /// Defaults of a queue.
    QueuesMutate,
    /// Whether a queue is let in or may go.
    QueuesValidate,
    /// Changes of a pod; without groups of resources, which are not built, there are none.
    PodsMutate,
    /// Whether a pod is let in.
    PodsValidate,
    /// The queue of a pod group.
    PodGroupsMutate,
    /// Whether a pod group is let in.
    PodGroupsValidate,
    /// Admits a cron job.
    CronJobsValidate,
    /// Admits a flow.
    JobFlowsValidate,
    /// Admits a hyper node.
    HyperNodesValidate,
}

impl Endpoint {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::JobsMutate,
        Self::JobsValidate,
        Self::QueuesMutate,
        Self::QueuesValidate,
        Self::PodsMutate,
        Self::PodsValidate,
        Self::PodGroupsMutate,
        Self::PodGroupsValidate,
        Self::CronJobsValidate,
        Self::JobFlowsValidate,
        Self::HyperNodesValidate,
    ];

    /// The path of its requests.
    pub const fn path(self) -> &'static str {
        match self {
            Self::JobsMutate => "/jobs/mutate",
            Self::JobsValidate => "/jobs/validate",
            Self::QueuesMutate => "/queues/mutate",
            Self::QueuesValidate => "/queues/validate",
            Self::PodsMutate => "/pods/mutate",
            Self::PodsValidate => "/pods/validate",
            Self::PodGroupsMutate => "/podgroups/mutate",
            Self::PodGroupsValidate => "/podgroups/validate",
            Self::CronJobsValidate => "/cronjobs/validate",
            Self::JobFlowsValidate => "/jobflows/validate",
            Self::HyperNodesValidate => "/hypernodes/validate",
        }
    }

    /// The one at this path.
    pub fn at(path: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.path() == path)
    }

    /// The error for an operation that a webhook does not handle.
    fn refused(self, operation: &str) -> String {
        match self {
            Self::JobsMutate | Self::PodsMutate => "expect operation to be 'CREATE' ".to_owned(),
            Self::JobsValidate
            | Self::CronJobsValidate
            | Self::JobFlowsValidate
            | Self::HyperNodesValidate => "expect operation to be 'CREATE' or 'UPDATE'".to_owned(),
            Self::PodsValidate => "expect operation to be 'CREATE'".to_owned(),
            Self::QueuesMutate | Self::PodGroupsMutate => {
                format!("invalid operation `{operation}`, expect operation to be `CREATE`")
            }
            Self::QueuesValidate => format!(
                "invalid operation `{operation}`, expect operation to be `CREATE`, `UPDATE` or `DELETE`"
            ),
            Self::PodGroupsValidate => format!("unsupported operation {operation}"),
        }
    }
}

/// The administrator's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settings {
    /// Names of our scheduler; jobs that name none get the first.
    pub scheduler_names: Vec<String>,
    /// How deep a queue may be; those below the root are at 1.
    pub max_queue_depth: usize,
    /// Whether the root queue's resources are fixed.
    pub protect_root: bool,
    /// Whether a queue with pods cannot be deleted.
    pub check_allocated_pods: bool,
    /// Whether all tasks of a job are written back, in Volcano's canonical form, where one lacks a field. By default only
    /// the fields that are missing are named.
    pub writes_whole_tasks: bool,
}

impl Default for Settings {
    /// The values of Volcano's flags.
    fn default() -> Self {
        Self {
            scheduler_names: vec!["volcano".to_owned()],
            max_queue_depth: 5,
            protect_root: true,
            check_allocated_pods: false,
            writes_whole_tasks: false,
        }
    }
}

/// A request of the API server.
#[derive(Debug, Clone, Copy)]
pub struct Request<'a> {
    /// The request.
    pub endpoint: Endpoint,
    /// `CREATE`, `UPDATE`, `DELETE`.
    pub operation: &'a str,
    /// Name of the object; its own may be missing.
    pub name: &'a str,
    /// Namespace of the object; its own may be missing.
    pub namespace: &'a str,
    /// The new object; null when it is deleted.
    pub object: &'a Value,
    /// The object as it is, where there is one.
    pub old_object: Option<&'a Value>,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Verdict {
    /// Why not; `None` lets it in.
    pub denied: Option<String>,
    /// The patch of the object.
    pub patch: Vec<PatchOperation>,
}

impl Verdict {
    fn patch(patch: Vec<PatchOperation>) -> Self {
        Self {
            denied: None,
            patch,
        }
    }
}

impl From<Excess> for Verdict {
    fn from(excess: Excess) -> Self {
        Self {
            denied: Some(field::bounded(excess.to_string())),
            patch: Vec::new(),
        }
    }
}

/// Decides on one request.
pub fn admit(request: &Request<'_>, known: &Known, settings: &Settings) -> Verdict {
    let verdict = match decide(request, known, settings) {
        Ok(verdict) => return verdict,
        Err(denied) => denied,
    };
    Verdict {
        denied: Some(field::bounded(verdict)),
        patch: Vec::new(),
    }
}

fn decide(request: &Request<'_>, known: &Known, settings: &Settings) -> Result<Verdict, String> {
    let Request {
        endpoint,
        operation,
        object,
        ..
    } = *request;
    match (endpoint, operation) {
        (Endpoint::JobsMutate, "CREATE") => {
            let job = read_job(object)?;
            return Ok(Verdict::patch(job::mutate::patch(object, &job, settings)));
        }
        (Endpoint::JobsValidate, "CREATE") => {
            let job = read_job(object)?;
            job::policies::check_timeouts(&job.spec)?;
            right(job::validate::check(&job, known).trim())?;
        }
        (Endpoint::JobsValidate, "UPDATE") => {
            let old = read_job(request.old_object.unwrap_or(&Value::Null))?;
            job::update::check(&old, &read_job(object)?)?;
        }
        (Endpoint::QueuesMutate, "CREATE") => {
            return Ok(Verdict::patch(queue::mutate::patch(&read(object)?)));
        }
        (Endpoint::QueuesValidate, "CREATE") => {
            queue::validate::check(&read(object)?, None, known, settings)?;
        }
        (Endpoint::QueuesValidate, "UPDATE") => {
            let old: Queue = read(request.old_object.unwrap_or(&Value::Null))?;
            queue::validate::check(&read(object)?, Some(&old), known, settings)?;
        }
        (Endpoint::QueuesValidate, "DELETE") => {
            queue::validate::check_deletion(request.name, known, settings)?;
        }
        (Endpoint::PodsValidate, "CREATE") => {
            pod::check(&read::<Pod>(object)?, settings)?;
        }
        (Endpoint::PodGroupsMutate, "CREATE") => {
            let group: PodGroup = read(object)?;
            let namespace = group.metadata.namespace.as_str();
            let namespace = if namespace.is_empty() {
                request.namespace
            } else {
                namespace
            };
            return Ok(Verdict::patch(pod_group::patch(&group, namespace, known)));
        }
        (Endpoint::PodGroupsValidate, "CREATE") => {
            right(&pod_group::check(&read(object)?, known))?;
        }
        (Endpoint::CronJobsValidate, "CREATE" | "UPDATE") => {
            right(&cron_job::check(&read(object)?))?;
        }
        (Endpoint::JobFlowsValidate, "CREATE" | "UPDATE") => job_flow::check(&read(object)?)?,
        (Endpoint::HyperNodesValidate, "CREATE" | "UPDATE") => hyper_node::check(object)?,
        // Volcano mutates pods only for resource groups, and allows all other operations on hyper nodes (S6-248).
        (Endpoint::PodsMutate, "CREATE") | (Endpoint::HyperNodesValidate, _) => {}
        (endpoint, operation) => return Err(endpoint.refused(operation)),
    }
    Ok(Verdict::default())
}

fn right(wrong: &str) -> Result<(), String> {
    match wrong {
        "" => Ok(()),
        wrong => Err(wrong.to_owned()),
    }
}

fn read<'v, T: Deserialize<'v>>(object: &'v Value) -> Result<T, String> {
    if !object.is_object() {
        return Err("the request has no object of the kind that it is about".to_owned());
    }
    serde_path_to_error::deserialize(object)
        .map_err(|error| format!("cannot read the object: {error}"))
}

/// A job; its pod templates are looked at, too, because whatever reads them later relies on their form.
fn read_job(object: &Value) -> Result<Job, String> {
    let job: Job = read(object)?;
    let tasks = read::list(&object["spec"], "tasks");
    for (index, (task, given)) in job.spec.tasks.iter().zip(tasks).enumerate() {
        // Jobs keep templates as JSON, so their form is not checked by reading the job.
        let spec = &task.template["spec"];
        let parts = [given, &task.template, &task.template["metadata"], spec];
        let is_map = |part: &&Value| part.is_object() || part.is_null();
        if !parts.iter().all(is_map) {
            return Err(format!(
                "cannot read the object: spec.tasks[{index}]: a task, its template, and metadata and spec of it have to be maps"
            ));
        }
        if spec.is_object() {
            PodSpec::deserialize(spec).map_err(|error| {
                format!("cannot read the object: spec.tasks[{index}].template.spec: {error}")
            })?;
        }
    }
    Ok(job)
}
