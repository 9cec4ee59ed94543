//! One request to a job, or the requests that follow from one change.

use super::patch;
use crate::job::{
    Answer, Call, Done, JobInfo, KeyPair, Lister, Next, Request, Round, Task, decided,
    group_changed, job_changed, pod_added, pod_changed, pod_deleted,
};
use evictd_batch_objects::bus::{Action, Event};
use evictd_batch_objects::{Compat, Job, PodGroup, TaskPod};
use evictd_pod::wire::{PriorityClass, null_is_default};
use evictd_reconcile::{Notice, Refusal, Unanswerable, seconds};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Number, Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A job with its objects, and a request or a change.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct JobCase {
    /// The job.
    pub job: Option<Value>,
    /// Pods, in the cluster and, but for those in `notInCache`, known to the controller.
    #[serde(deserialize_with = "null_is_default")]
    pub pods: Vec<TaskPod>,
    /// The only PodGroup.
    pub pod_group: Option<Value>,
    /// The only queue.
    pub queue: Option<Value>,
    /// Classes that give priorities.
    #[serde(deserialize_with = "null_is_default")]
    pub priority_classes: Vec<PriorityClass>,
    /// The request.
    pub request: Option<Asked>,
    /// The change instead: `addPod`, `updatePod`, `deletePod`, `updatePodGroup`, `updateJob`.
    pub handler: Option<String>,
    /// The object before the change.
    pub old: Option<Value>,
    /// The object after the change.
    pub new: Option<Value>,
    /// Pods whose deletion fails.
    #[serde(deserialize_with = "null_is_default")]
    pub fail_delete: BTreeSet<String>,
    /// Pods whose creation fails.
    #[serde(deserialize_with = "null_is_default")]
    pub fail_create: BTreeSet<String>,
    /// Pods that the controller has not seen.
    #[serde(deserialize_with = "null_is_default")]
    pub not_in_cache: BTreeSet<String>,
}

/// A request, as the file has it.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Asked {
    /// The action; without one the policies decide.
    #[serde(deserialize_with = "null_is_default")]
    pub action: String,
    /// The event.
    #[serde(deserialize_with = "null_is_default")]
    pub event: String,
    /// The exit code of the pod's first container.
    #[serde(deserialize_with = "null_is_default")]
    pub exit_code: i32,
    /// The pod's task.
    #[serde(deserialize_with = "null_is_default")]
    pub task_name: String,
    /// The pod.
    #[serde(deserialize_with = "null_is_default")]
    pub pod_name: String,
    /// Its partition.
    #[serde(rename = "partitionID", deserialize_with = "null_is_default")]
    pub partition_id: String,
    /// The version of the job that the pod was made for.
    #[serde(deserialize_with = "null_is_default")]
    pub job_version: i32,
    /// The job's UID.
    #[serde(deserialize_with = "null_is_default")]
    pub job_uid: String,
}

/// The outcome for a job.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub enum JobOutcome {
    /// The requests that a change leads to.
    Requests {
        /// In order.
        requests: Vec<Value>,
    },
    /// An action that waits for its timeout.
    #[serde(rename_all = "camelCase")]
    Delayed {
        /// The action.
        action: String,
        /// Always true.
        delayed: bool,
        /// How long it waits.
        delay_seconds: Number,
    },
    /// An action that was taken.
    Taken(Box<Choices>),
}

/// The result of an action.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Choices {
    /// The action.
    pub action: String,
    /// The job's status as it is stored then.
    pub status: Value,
    /// Why the action failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The version that the controller knows, where it is not the stored one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cached_version: Option<i32>,
    /// Pods that are still there.
    pub kept_pods: Vec<String>,
    /// Deleted pods.
    pub deleted_pods: Vec<String>,
    /// Pods that are still there and whose end is no event.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub marked_out_of_sync: Vec<String>,
    /// Pods that were made, by name.
    pub created_pods: BTreeMap<String, Value>,
    /// PodGroups that are there then, by name.
    pub pod_groups: BTreeMap<String, Value>,
    /// Objects that plugins and volumes have made: `Kind/name`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    /// Events on the job: `namespace/name Type Reason message`.
    pub events: Vec<String>,
}

/// The API server, and the controller's listers.
struct Cluster<'a> {
    case: &'a JobCase,
    job: Value,
    queue: String,
    pods: BTreeMap<String, Arc<TaskPod>>,
    created: BTreeMap<String, Value>,
    groups: BTreeMap<String, Value>,
    resources: BTreeSet<String>,
}

impl Lister for Cluster<'_> {
    fn has_queue(&self, name: &str) -> bool {
        self.queue == name
    }

    fn priority(&self, class: &str) -> Option<i32> {
        let mut classes = self.case.priority_classes.iter();
        let class = classes.find(|known| known.metadata.name == class)?;
        Some(class.value)
    }

    fn has_claim(&self, _: &str, name: &str) -> bool {
        self.resources
            .contains(&format!("PersistentVolumeClaim/{name}"))
    }

    fn pod_group(&self, _: &str, name: &str) -> Option<Arc<PodGroup>> {
        let group = PodGroup::deserialize(self.groups.get(name)?);
        group.ok().map(Arc::new)
    }

    fn pod(&self, _: &str, name: &str) -> Option<Arc<TaskPod>> {
        self.pods.get(name).cloned()
    }
}

impl Cluster<'_> {
    fn answer(&mut self, call: Call) -> Answer {
        match call {
            Call::MarkPod { name, annotations } => {
                let pod = self.pods.get_mut(&name).ok_or(Refusal::NotFound)?;
                let of_pod = &mut Arc::make_mut(pod).metadata.annotations;
                for (name, value) in annotations {
                    of_pod.insert(name, &value);
                }
            }
            Call::DeletePod { name, .. } => return self.delete_pod(&name),
            Call::CreatePod { pod } => return self.create_pod(pod.pod()),
            Call::WriteStatus { patch } => {
                evictd_reconcile::apply(&mut self.job["status"], &patch["status"]);
                return self.job();
            }
            Call::PatchJob { patch } => {
                patch::add(&mut self.job, &patch).map_err(Refusal::Other)?;
                return self.job();
            }
            Call::CreatePodGroup { group } => {
                let name = text(&group["metadata"]["name"]);
                self.groups.insert(name, group);
            }
            Call::UpdatePodGroup { name, patch } => {
                let group = self.groups.get_mut(&name).ok_or(Refusal::NotFound)?;
                evictd_reconcile::apply(group, &patch);
            }
            Call::DeletePodGroup { name } => {
                self.groups.remove(&name).ok_or(Refusal::NotFound)?;
            }
            Call::CreateObject { resource, object } | Call::ApplyObject { resource, object } => {
                let name = text(&object["metadata"]["name"]);
                self.resources.insert(format!("{}/{name}", resource.kind()));
            }
            Call::DeleteObject { resource, name } => {
                self.resources
                    .remove(&format!("{}/{name}", resource.kind()));
            }
            Call::MakeKeys => {
                return Ok(Done::Keys(KeyPair {
                    private: "a private key".to_owned(),
                    public: "its public key".to_owned(),
                }));
            }
        }
        Ok(Done::Nothing)
    }

    fn delete_pod(&mut self, name: &str) -> Answer {
        if self.case.fail_delete.contains(name) {
            return Err(Refusal::Other("the deletion fails".to_owned()));
        }
        let pod = self.pods.get(name).ok_or(Refusal::NotFound)?;
        if pod.metadata.deletion_timestamp.is_none() {
            self.pods.remove(name);
        }
        Ok(Done::Nothing)
    }

    fn create_pod(&mut self, pod: Value) -> Answer {
        let name = text(&pod["metadata"]["name"]);
        if self.case.fail_create.contains(&name) {
            return Err(Refusal::Other("the creation fails".to_owned()));
        }
        // A pod that the cache does not know yet: the API server refuses a second one.
        if self.pods.contains_key(&name) {
            return Err(Refusal::AlreadyExists);
        }
        let made = TaskPod::deserialize(&pod);
        let made = made.map_err(|error| Refusal::Other(error.to_string()))?;
        self.created.insert(name, pod);
        Ok(Done::Pod(Box::new(made)))
    }

    fn job(&self) -> Answer {
        let job = Job::deserialize(&self.job);
        let job = job.map_err(|error| Refusal::Other(error.to_string()))?;
        Ok(Done::Job(Box::new(job)))
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

impl JobCase {
    /// The outcome; `now` stands for every time.
    pub fn answer(&self, compat: Compat, now: Timestamp) -> Result<JobOutcome, Unanswerable> {
        let wrong = |error: serde_json::Error| Unanswerable::new("job", error.to_string());
        let job = self.job.clone().unwrap_or_default();
        let mut info = JobInfo::default();
        if self.job.is_some() {
            if !job.is_object() {
                return Err(Unanswerable::new("job", "it has to be an object"));
            }
            let job = Job::deserialize(&job).map_err(wrong)?;
            if job.metadata.name.is_empty() {
                return Err(Unanswerable::new("job", "it needs metadata.name"));
            }
            info.set_job(job);
        }
        for pod in &self.pods {
            if !self.not_in_cache.contains(&pod.metadata.name) {
                info.set_pod(Arc::new(pod.clone()));
            }
        }
        match (&self.handler, &self.request) {
            (Some(handler), _) => self.handle(handler, &mut info, compat),
            (None, Some(asked)) => {
                let Some(job) = info.job.clone() else {
                    return Err(Unanswerable::new("job", "the request needs one"));
                };
                Ok(self.act(&mut info, &job, &asked.request(&job), compat, now))
            }
            (None, None) => Err(Unanswerable::new(
                "request",
                "missing; what is to be answered is a request or a handler",
            )),
        }
    }

    fn object<'de, T: Deserialize<'de>>(
        value: Option<&'de Value>,
        field: &'static str,
    ) -> Result<T, Unanswerable> {
        let value = value.ok_or_else(|| Unanswerable::new(field, "the handler needs it"))?;
        let object = T::deserialize(value);
        object.map_err(|error| Unanswerable::new(field, error.to_string()))
    }

    fn handle(
        &self,
        handler: &str,
        info: &mut JobInfo,
        compat: Compat,
    ) -> Result<JobOutcome, Unanswerable> {
        let (old, new) = (self.old.as_ref(), self.new.as_ref());
        let request = match handler {
            "addPod" => pod_added(info, &Self::object(new, "new")?, compat),
            "updatePod" => {
                let (old, new) = (Self::object(old, "old")?, Self::object(new, "new")?);
                let new: Arc<TaskPod> = Arc::new(new);
                if info.has_pod(&new) {
                    info.set_pod(Arc::clone(&new));
                }
                pod_changed(info, &old, &new)
            }
            "deletePod" => pod_deleted(info, &Self::object(old.or(new), "old")?, compat),
            "updatePodGroup" => {
                group_changed(&Self::object(old, "old")?, &Self::object(new, "new")?)
            }
            "updateJob" => job_changed(&Self::object(old, "old")?, &Self::object(new, "new")?),
            other => {
                let message = format!(
                    "\"{other}\" is none; there are addPod, updatePod, deletePod, updatePodGroup and updateJob"
                );
                return Err(Unanswerable::new("handler", message));
            }
        };
        let requests = request.iter().map(shown).collect();
        Ok(JobOutcome::Requests { requests })
    }

    fn act(
        &self,
        info: &mut JobInfo,
        job: &Job,
        request: &Request,
        compat: Compat,
        now: Timestamp,
    ) -> JobOutcome {
        let choice = decided(info, job, request, compat);
        let action = choice.action.as_str().to_owned();
        if let Some(delay) = choice.delay {
            return JobOutcome::Delayed {
                action,
                delayed: true,
                delay_seconds: seconds(delay),
            };
        }
        let mut cluster = self.cluster();
        let task = Task {
            action: &choice.action,
            request,
            compat,
        };
        let (mut round, mut step) = Round::start(info, task, now, &cluster);
        let mut notices = Vec::new();
        let result = loop {
            notices.append(&mut step.notices);
            if let Some(job) = step.stored {
                info.set_job(*job);
            }
            match step.next {
                Next::Done(result) => break result,
                Next::Calls(calls) => {
                    let answers = calls.into_iter().map(|call| cluster.answer(call)).collect();
                    step = round.answered(answers, now, &cluster);
                }
            }
        };
        let error = result.err().map(|error| cut(&error.to_string()));
        let mut choices = cluster.choices(action, job, &notices);
        choices.error = error;
        let stored = choices.status["version"].as_i64();
        let cached = info.job.as_ref().map(|job| job.status.version);
        choices.cached_version = cached.filter(|version| Some(i64::from(*version)) != stored);
        JobOutcome::Taken(Box::new(choices))
    }

    fn cluster(&self) -> Cluster<'_> {
        let pods = self.pods.iter();
        let pods = pods.map(|pod| (pod.metadata.name.clone(), Arc::new(pod.clone())));
        let group = self.pod_group.iter();
        let groups = group.map(|group| (text(&group["metadata"]["name"]), group.clone()));
        let queue = self
            .queue
            .as_ref()
            .map(|queue| text(&queue["metadata"]["name"]));
        Cluster {
            case: self,
            job: self.job.clone().unwrap_or_default(),
            queue: queue.unwrap_or_default(),
            pods: pods.collect(),
            created: BTreeMap::new(),
            groups: groups.collect(),
            resources: BTreeSet::new(),
        }
    }
}

impl Cluster<'_> {
    fn choices(self, action: String, job: &Job, notices: &[Notice]) -> Choices {
        let namespace = job.metadata.namespace_or_default();
        let name = &job.metadata.name;
        let event = |notice: &Notice| {
            let (tone, reason) = (notice.tone.as_str(), notice.reason);
            format!(
                "{namespace}/{name} {tone} {reason} {}",
                cut(&notice.message)
            )
        };
        let names = self.case.pods.iter().map(|pod| pod.metadata.name.clone());
        let names: BTreeSet<String> = names.collect();
        let (kept, deleted) = names
            .into_iter()
            .partition(|name| self.pods.contains_key(name));
        let marked = self
            .pods
            .iter()
            .filter(|(_, pod)| crate::job::is_marked(pod));
        let marked = marked.map(|(name, _)| name.clone()).collect();
        let created = self
            .created
            .iter()
            .map(|(name, pod)| (name.clone(), pod_shown(pod)));
        let groups = self.groups.iter();
        Choices {
            action,
            status: status_shown(&self.job["status"]),
            error: None,
            cached_version: None,
            kept_pods: kept,
            deleted_pods: deleted,
            marked_out_of_sync: marked,
            created_pods: created.collect(),
            pod_groups: groups
                .map(|(name, group)| (name.clone(), group_shown(group)))
                .collect(),
            resources: self.resources.iter().cloned().collect(),
            events: notices.iter().map(event).collect(),
        }
    }
}

/// Without the error of a call, which every API server words in its own way.
fn cut(message: &str) -> String {
    let (text, _) = message.split_once(", err ").unwrap_or((message, ""));
    text.to_owned()
}

impl Asked {
    fn request(&self, job: &Job) -> Request {
        let metadata = &job.metadata;
        let event = Event::of(&self.event);
        let of_job = Request::of_job(metadata.namespace_or_default(), &metadata.name, event);
        Request {
            job_uid: self.job_uid.clone(),
            task_name: self.task_name.clone(),
            pod_name: self.pod_name.clone(),
            partition_id: self.partition_id.clone(),
            exit_code: self.exit_code,
            action: (!self.action.is_empty()).then(|| Action::of(&self.action)),
            job_version: self.job_version,
            ..of_job
        }
    }
}

fn shown(request: &Request) -> Value {
    json!({
        "namespace": request.namespace,
        "jobName": request.job_name,
        "jobUid": request.job_uid,
        "taskName": request.task_name,
        "podName": request.pod_name,
        "partitionID": request.partition_id,
        "event": request.event.as_str(),
        "exitCode": request.exit_code,
        "action": request.action.as_ref().map_or("", Action::as_str),
        "jobVersion": request.job_version,
    })
}

fn pod_shown(pod: &Value) -> Value {
    let (metadata, spec) = (&pod["metadata"], &pod["spec"]);
    let owner = &metadata["ownerReferences"][0];
    json!({
        "annotations": metadata["annotations"],
        "labels": metadata["labels"],
        "owner": format!("{}/{}", text(&owner["kind"]), text(&owner["name"])),
        "hostname": text(&spec["hostname"]),
        "subdomain": text(&spec["subdomain"]),
        "schedulerName": text(&spec["schedulerName"]),
        "priorityClassName": text(&spec["priorityClassName"]),
    })
}

fn group_shown(group: &Value) -> Value {
    let spec = &group["spec"];
    let resources = spec["minResources"].as_object().cloned();
    json!({
        "minMember": spec["minMember"].as_i64().unwrap_or_default(),
        "minTaskMember": spec["minTaskMember"],
        "minResources": resources.unwrap_or_default(),
        "queue": text(&spec["queue"]),
        "priorityClassName": text(&spec["priorityClassName"]),
    })
}

fn status_shown(status: &Value) -> Value {
    let number = |key: &str| status[key].as_i64().unwrap_or_default();
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let phases: Vec<&Value> = conditions.map(|condition| &condition["status"]).collect();
    let tasks = status["taskStatusCount"].as_object().into_iter().flatten();
    let tasks = tasks.map(|(task, count)| (task.clone(), count["phase"].clone()));
    let tasks: Map<String, Value> = tasks.collect();
    let state = &status["state"];
    json!({
        "phase": text(&state["phase"]),
        "reason": text(&state["reason"]),
        "message": text(&state["message"]),
        "conditions": phases,
        "minAvailable": number("minAvailable"),
        "pending": number("pending"),
        "running": number("running"),
        "succeeded": number("succeeded"),
        "failed": number("failed"),
        "terminating": number("terminating"),
        "unknown": number("unknown"),
        "version": number("version"),
        "retryCount": number("retryCount"),
        "taskStatusCount": tasks,
        "controlledResources": status["controlledResources"],
    })
}
