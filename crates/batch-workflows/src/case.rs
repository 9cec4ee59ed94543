//! One sync of a cron job, a flow or a job template.

use crate::controller::{
    Answer, Call, Done, Input, Jobs, Next, Round, cron_job, job_flow, job_template,
};
use crate::objects::{CronJob, JobFlow, JobTemplate};
use evictd_batch_objects::{Compat, Job, written};
use evictd_pod::wire::null_is_default;
use evictd_reconcile::{Notice, Refusal, Unanswerable, seconds};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Number, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A cron job, a flow or a job template, with the jobs of its namespace.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct WorkflowCase {
    /// `cronjob`, `jobflow` or `jobtemplate`.
    pub kind: String,
    /// The time of the sync.
    pub now: Option<Timestamp>,
    /// The cron job.
    pub cron_job: Option<CronJob>,
    /// The flow.
    pub job_flow: Option<JobFlow>,
    /// The action on the flow; `SyncJobFlow` if absent.
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
    /// The namespace of the job template.
    #[serde(deserialize_with = "null_is_default")]
    pub namespace: String,
    /// The name of the job template.
    #[serde(deserialize_with = "null_is_default")]
    pub name: String,
    /// The job templates.
    #[serde(deserialize_with = "null_is_default")]
    pub job_templates: Vec<JobTemplate>,
    /// Jobs in the cluster that the controller knows.
    #[serde(deserialize_with = "null_is_default")]
    pub jobs: Vec<Job>,
    /// Jobs in the cluster that it has not seen.
    #[serde(deserialize_with = "null_is_default")]
    pub api_only_jobs: Vec<Job>,
    /// Jobs whose creation fails; `*` means all.
    #[serde(deserialize_with = "null_is_default")]
    pub fail_create: BTreeSet<String>,
    /// Jobs whose deletion fails; `*` means all.
    #[serde(deserialize_with = "null_is_default")]
    pub fail_delete: BTreeSet<String>,
}

/// The outcome of a sync.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum WorkflowOutcome {
    /// Of a cron job or a flow.
    #[serde(rename_all = "camelCase")]
    Jobs {
        /// The jobs that were created.
        created_jobs: Vec<Value>,
        /// The names of the jobs that were deleted.
        deleted_jobs: BTreeSet<String>,
        /// Why the sync failed.
        #[serde(skip_serializing_if = "Option::is_none")]
        error: Option<String>,
        /// Events on the object: `Type Reason message`.
        events: Vec<String>,
        /// When the object is synced again.
        #[serde(skip_serializing_if = "Option::is_none")]
        requeue_after_seconds: Option<Number>,
        /// The status, if it was written.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Value>,
    },
    /// Of a job template.
    Template {
        /// The status, if it was written.
        #[serde(skip_serializing_if = "Option::is_none")]
        status: Option<Value>,
    },
}

/// The API server.
struct Cluster<'c> {
    case: &'c WorkflowCase,
    jobs: BTreeMap<(String, String), Arc<Job>>,
    created: Vec<Value>,
    deleted: BTreeSet<String>,
    status: Option<Value>,
}

fn fails(names: &BTreeSet<String>, name: &str) -> bool {
    names.contains(name) || names.contains("*")
}

impl Cluster<'_> {
    fn answer(&mut self, call: Call) -> Answer {
        match call {
            Call::CreateJob { job } => self.create(&job),
            Call::ReadJob { namespace, name } => {
                let found = self.jobs.get(&(namespace, name));
                let found = found.ok_or(Refusal::NotFound)?;
                Ok(Done::Job(Arc::clone(found)))
            }
            Call::DeleteJob {
                namespace, name, ..
            } => {
                if fails(&self.case.fail_delete, &name) {
                    return Err(Refusal::Other("the deletion fails".to_owned()));
                }
                let key = (namespace, name);
                self.jobs.remove(&key).ok_or(Refusal::NotFound)?;
                self.deleted.insert(key.1);
                Ok(Done::Nothing)
            }
            Call::WriteStatus { status, .. } => {
                self.status = Some(status);
                Ok(Done::Nothing)
            }
        }
    }

    fn create(&mut self, job: &Value) -> Answer {
        let made = Job::deserialize(job);
        let mut made = made.map_err(|error| Refusal::Other(error.to_string()))?;
        let name = made.metadata.name.clone();
        if fails(&self.case.fail_create, &name) {
            return Err(Refusal::Other("the creation fails".to_owned()));
        }
        let key = (
            made.metadata.namespace_or_default().to_owned(),
            name.clone(),
        );
        if self.jobs.contains_key(&key) {
            return Err(Refusal::AlreadyExists);
        }
        let uid = format!("uid-{name}");
        made.metadata.uid = uid.as_str().into();
        let made = Arc::new(made);
        self.jobs.insert(key, Arc::clone(&made));
        let mut metadata = job["metadata"].clone();
        metadata["uid"] = uid.into();
        let spec = written::job_spec(&job["spec"]);
        self.created
            .push(json!({"metadata": metadata, "spec": spec}));
        Ok(Done::Job(made))
    }
}

impl WorkflowCase {
    /// Whether files of this kind are such cases.
    pub fn has_kind(kind: &str) -> bool {
        matches!(kind, "cronjob" | "jobflow" | "jobtemplate")
    }

    /// The outcome. `now` counts where the file has no time.
    pub fn answer(&self, compat: Compat, now: Timestamp) -> Result<WorkflowOutcome, Unanswerable> {
        let now = self.now.unwrap_or(now);
        let mut known = Jobs::default();
        for job in &self.jobs {
            known.set(&Arc::new(job.clone()));
        }
        let Some(input) = self.input(&known)? else {
            return Ok(WorkflowOutcome::Template { status: None });
        };
        let jobs = self.jobs.iter().chain(&self.api_only_jobs).map(|job| {
            let metadata = &job.metadata;
            let namespace = metadata.namespace_or_default().to_owned();
            ((namespace, metadata.name.clone()), Arc::new(job.clone()))
        });
        let mut cluster = Cluster {
            case: self,
            jobs: jobs.collect(),
            created: Vec::new(),
            deleted: BTreeSet::new(),
            status: None,
        };
        let mut round = Round::new(input, now, compat);
        let mut events = Vec::new();
        let result = loop {
            let (notices, next) = round.step();
            events.extend(notices.iter().map(event));
            match next {
                Next::Call(call) => round.answered(cluster.answer(call)),
                Next::Done(result) => break result,
            }
        };
        events.sort();
        let (created_jobs, deleted_jobs) = (cluster.created, cluster.deleted);
        let status = cluster.status.map(shown);
        if self.kind == "jobtemplate" {
            return Ok(WorkflowOutcome::Template { status });
        }
        let (due, error) = match result {
            Ok(due) => (due, None),
            Err(error) => (None, Some(error)),
        };
        Ok(WorkflowOutcome::Jobs {
            created_jobs,
            deleted_jobs,
            error,
            events,
            requeue_after_seconds: due.map(seconds),
            status,
        })
    }

    fn input(&self, jobs: &Jobs) -> Result<Option<Input>, Unanswerable> {
        let template = |namespace: &str, name: &str| {
            let mut templates = self.job_templates.iter();
            let template = templates.find(|template| {
                let metadata = &template.metadata;
                metadata.namespace_or_default() == namespace && metadata.name == name
            });
            template.map(|template| Arc::new(template.clone()))
        };
        let missing = |field| Unanswerable::new(field, "missing; the kind of the file needs it");
        Ok(Some(match self.kind.as_str() {
            "cronjob" => {
                let cron = self.cron_job.clone().ok_or_else(|| missing("cronJob"))?;
                Input::CronJob(cron_job::Input::new(&Arc::new(cron), jobs))
            }
            "jobflow" => {
                let flow = self.job_flow.clone().ok_or_else(|| missing("jobFlow"))?;
                let namespace = flow.metadata.namespace_or_default().to_owned();
                let action = match self.action.as_str() {
                    "" => job_flow::SYNC,
                    action => action,
                };
                let of_flow = |name: &str| template(&namespace, name);
                let flow = Arc::new(flow);
                Input::JobFlow(job_flow::Input::new(&flow, action, jobs, of_flow))
            }
            "jobtemplate" => {
                let namespace = match self.namespace.as_str() {
                    "" => "default",
                    namespace => namespace,
                };
                let Some(template) = template(namespace, &self.name) else {
                    return Ok(None);
                };
                Input::JobTemplate(job_template::Input::new(&template, jobs))
            }
            other => {
                let message =
                    format!("{other:?} is none; there are cronjob, jobflow and jobtemplate");
                return Err(Unanswerable::new("kind", message));
            }
        }))
    }
}

fn event(notice: &Notice) -> String {
    let Notice {
        tone,
        reason,
        message,
    } = notice;
    format!("{} {reason} {message}", tone.as_str())
}

/// A status with its lists in order, and without the times that depend on the moment of the sync.
fn shown(status: Value) -> Value {
    let mut status = status;
    let list = status.get_mut("jobStatusList");
    if let Some(list) = list.and_then(Value::as_array_mut) {
        list.sort_by_key(|entry| entry["name"].to_string());
        let histories = list
            .iter_mut()
            .filter_map(|entry| entry.get_mut("runningHistories")?.as_array_mut());
        for history in histories.flatten().filter_map(Value::as_object_mut) {
            history.remove("startTimestamp");
            history.remove("endTimestamp");
        }
    }
    status
}
