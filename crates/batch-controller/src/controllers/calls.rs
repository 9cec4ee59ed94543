//! Carries out the calls of jobs and queues against the API server.

use super::ssh_keys;
use evictd_batch_jobs::job::{Answer, Call, Creation, Done, Resource};
use evictd_batch_jobs::queue::{self, View};
use evictd_batch_objects::{Job, TaskPod};
use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT, FIELD_MANAGER};
use evictd_pod::wire::Metadata;
use evictd_reconcile::Refusal;
use http::{Method, Request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::fmt;
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The number of concurrent calls. A call with a large body counts as several.
const MAX_IN_FLIGHT: u32 = 64;
/// The size of a body that counts as one call.
const BYTES_PER_PERMIT: usize = 256 << 10;
/// The number of concurrent calls of one job, so that a job with few calls does not wait for jobs with thousands.
const MAX_IN_FLIGHT_PER_JOB: usize = 8;
pub(super) const MERGE_PATCH: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY_PATCH: &str = "application/apply-patch+yaml";
const JSON: &str = "application/json";

/// A client for the calls of the controllers. Clones share the limit.
#[derive(Clone)]
pub(super) struct Calls {
    actions: Actions,
    permits: Arc<Semaphore>,
}

/// One object, and no other of the same name.
#[derive(Debug, Clone)]
pub(super) struct ObjectId {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

impl ObjectId {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            namespace: metadata.namespace_or_default().to_owned(),
            name: metadata.name.clone(),
            uid: metadata.uid.to_string(),
        }
    }

    fn path_of_job(&self) -> String {
        job_path(&self.namespace, &self.name)
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// The body of a request. A pod is built only once the call has its permits, because thousands may wait.
pub(super) enum Body<'a> {
    Object(&'a Value),
    Pod(&'a Creation),
}

impl<'a> From<&'a Value> for Body<'a> {
    fn from(object: &'a Value) -> Self {
        Self::Object(object)
    }
}

impl<'a> From<&'a Creation> for Body<'a> {
    fn from(pod: &'a Creation) -> Self {
        Self::Pod(pod)
    }
}

impl Body<'_> {
    fn permits(&self) -> u32 {
        let bytes = match self {
            Self::Object(_) => 0,
            Self::Pod(pod) => pod.least_bytes(),
        };
        let more = u32::try_from(bytes / BYTES_PER_PERMIT).unwrap_or(MAX_IN_FLIGHT);
        // More than all permits would wait for ever.
        more.saturating_add(1).min(MAX_IN_FLIGHT)
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Object(Value::Null) => Vec::new(),
            Self::Object(object) => object.to_string().into_bytes(),
            Self::Pod(pod) => pod.pod().to_string().into_bytes(),
        }
    }
}

pub(super) fn refusal(error: &ApiError) -> Refusal {
    let text = error.to_string();
    let Some(status) = error.status() else {
        return Refusal::Other(text);
    };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    let mut reasons = causes.map(|cause| cause.reason.as_str());
    match (status.code, status.reason.as_str()) {
        (404, _) => Refusal::NotFound,
        // A 409 is also the answer to a conflict, which is retried.
        (409, "AlreadyExists") => Refusal::AlreadyExists,
        (403, _) if reasons.any(|reason| reason == "NamespaceTerminating") => {
            Refusal::NamespaceTerminating(text)
        }
        _ => Refusal::Other(text),
    }
}

impl Calls {
    pub(super) fn new(actions: Actions) -> Self {
        Self {
            actions,
            permits: Arc::new(Semaphore::new(MAX_IN_FLIGHT as usize)),
        }
    }

    /// Sends a request. A null body is sent as none.
    async fn request<T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        content_type: &'static str,
        body: impl Into<Body<'_>>,
    ) -> Result<T, ApiError> {
        let body = body.into();
        // The semaphore is never closed.
        let _permits = self.permits.acquire_many(body.permits()).await;
        let what = format!("{method} {path}");
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, content_type)
            .body(body.bytes());
        self.actions.request(&what, CALL_TIMEOUT, request).await
    }

    pub(super) async fn patch<T: DeserializeOwned>(
        &self,
        path: String,
        content_type: &'static str,
        body: &Value,
    ) -> Result<T, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.request(Method::PATCH, path, content_type, body).await
    }

    /// Creates an object in the collection at this path.
    pub(super) async fn create<'b, T: DeserializeOwned>(
        &self,
        path: String,
        body: impl Into<Body<'b>>,
    ) -> Result<T, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.request(Method::POST, path, JSON, body).await
    }

    pub(super) async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, ApiError> {
        self.request(Method::GET, path, JSON, &Value::Null).await
    }

    pub(super) async fn delete(&self, path: String, options: &Value) -> Result<(), ApiError> {
        let deleted: Result<Value, _> = self.request(Method::DELETE, path, JSON, options).await;
        deleted.map(|_| ())
    }

    /// Carries out the calls of one step, some at a time. The answers are in the order of the calls.
    pub(super) async fn carry_out(&self, job: ObjectId, calls: Vec<Call>) -> Vec<Answer> {
        // The answer to a call whose task has panicked.
        let lost = || Err(Refusal::Other("the call was lost".to_owned()));
        let mut answers: Vec<Answer> = (0..calls.len()).map(|_| lost()).collect();
        let mut waiting = calls.into_iter().enumerate();
        let mut running = JoinSet::new();
        loop {
            while running.len() < MAX_IN_FLIGHT_PER_JOB
                && let Some((index, call)) = waiting.next()
            {
                let (client, job) = (self.clone(), job.clone());
                running.spawn(async move { (index, client.call(&job, call).await) });
            }
            let Some(done) = running.join_next().await else {
                return answers;
            };
            if let Ok((index, answer)) = done
                && let Some(entry) = answers.get_mut(index)
            {
                *entry = answer;
            }
        }
    }

    async fn call(&self, job: &ObjectId, call: Call) -> Answer {
        match call {
            Call::CreateObject { resource, object } => {
                self.create_object(job, resource, &object).await
            }
            Call::ApplyObject { resource, object } => {
                self.apply_object(job, resource, &object).await
            }
            Call::MakeKeys => {
                let keys = ssh_keys::generate(&job.to_string());
                keys.map(Done::Keys)
                    .map_err(|error| Refusal::Other(error.to_string()))
            }
            call => self.write(job, call).await.map_err(|error| refusal(&error)),
        }
    }

    async fn write(&self, job: &ObjectId, call: Call) -> Result<Done, ApiError> {
        let namespace = &job.namespace;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let job = job.path_of_job();
        let groups = pod_groups_path(namespace);
        match call {
            Call::MarkPod { name, annotations } => {
                let patch = json!({"metadata": {"annotations": annotations}});
                self.patch::<Value>(format!("{pods}/{name}"), MERGE_PATCH, &patch)
                    .await?;
            }
            Call::DeletePod { name, uid } => {
                self.delete_pod(format!("{pods}/{name}"), &uid).await?;
            }
            Call::CreatePod { pod } => {
                let created: TaskPod = self.create(pods, &pod).await?;
                return Ok(Done::Pod(Box::new(created)));
            }
            Call::WriteStatus { patch } => {
                let stored: Job = self
                    .patch(format!("{job}/status"), MERGE_PATCH, &patch)
                    .await?;
                return Ok(Done::Job(Box::new(stored)));
            }
            Call::PatchJob { patch } => {
                let stored: Job = self.patch(job, JSON_PATCH, &patch).await?;
                return Ok(Done::Job(Box::new(stored)));
            }
            Call::CreatePodGroup { group } => {
                self.create::<Value>(groups, &group).await?;
            }
            Call::UpdatePodGroup { name, patch } => {
                self.patch::<Value>(format!("{groups}/{name}"), MERGE_PATCH, &patch)
                    .await?;
            }
            Call::DeletePodGroup { name } => {
                self.delete(format!("{groups}/{name}"), &Value::Null)
                    .await?;
            }
            Call::DeleteObject { resource, name } => {
                let path = format!("{}/{name}", path(resource, namespace));
                self.delete(path, &Value::Null).await?;
            }
            // `call` handles them.
            Call::CreateObject { .. } | Call::ApplyObject { .. } | Call::MakeKeys => {}
        }
        Ok(Done::Nothing)
    }

    /// Deletes this pod only. If another one has its name, this one is deleted already.
    async fn delete_pod(&self, path: String, uid: &str) -> Result<(), ApiError> {
        let options = json!({"preconditions": {"uid": uid}});
        match self.delete(path, &options).await {
            Err(error) if is_conflict(&error) => Ok(()),
            deleted => deleted,
        }
    }

    /// Creates an object of the job. An existing object of the job is a success. An object of an earlier job of the same name
    /// is not: the garbage collector of Kubernetes will delete it.
    async fn create_object(&self, job: &ObjectId, resource: Resource, object: &Value) -> Answer {
        let path = path(resource, &job.namespace);
        match self.create::<Value>(path.clone(), object).await {
            Ok(_) => Ok(Done::Nothing),
            Err(error) if refusal(&error) == Refusal::AlreadyExists => {
                self.check_owner(job, resource, path, object).await
            }
            Err(error) => Err(refusal(&error)),
        }
    }

    async fn check_owner(
        &self,
        job: &ObjectId,
        resource: Resource,
        path: String,
        object: &Value,
    ) -> Answer {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let existing: Value = self
            .get(format!("{path}/{name}"))
            .await
            .map_err(|error| refusal(&error))?;
        belongs(job, resource, &existing, name)?;
        Ok(Done::Nothing)
    }

    async fn apply_object(&self, job: &ObjectId, resource: Resource, object: &Value) -> Answer {
        let path = path(resource, &job.namespace);
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        // Each sync applies the object, which exists and is equal mostly.
        let existing: Option<Value> = self
            .find(format!("{path}/{name}"))
            .await
            .map_err(|error| refusal(&error))?;
        let Some(existing) = existing else {
            return match self.create::<Value>(path, object).await {
                Ok(_) => Ok(Done::Nothing),
                Err(error) => Err(refusal(&error)),
            };
        };
        // A patch must not overwrite an object that another user created.
        belongs(job, resource, &existing, name)?;
        if existing["data"] == object["data"] {
            return Ok(Done::Nothing);
        }
        let data = json!({"data": object["data"]});
        self.patch::<Value>(format!("{path}/{name}"), MERGE_PATCH, &data)
            .await
            .map(|_| Done::Nothing)
            .map_err(|error| refusal(&error))
    }

    /// Returns `None` if there is no pod of this name.
    pub(super) async fn pod(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<TaskPod>, ApiError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        self.find(path).await
    }

    /// Returns `None` if there is no job of this name.
    pub(super) async fn job(&self, namespace: &str, name: &str) -> Result<Option<Job>, ApiError> {
        self.find(job_path(namespace, name)).await
    }

    async fn find<T: DeserializeOwned>(&self, path: String) -> Result<Option<T>, ApiError> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if refusal(&error) == Refusal::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes a job after its dependents (S6-054), unless another job has its name.
    pub(super) async fn delete_job(&self, job: &ObjectId) -> Result<(), ApiError> {
        let options = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": job.uid}});
        self.delete(job.path_of_job(), &options).await
    }

    /// Deletes a Command (S6-012). If another one has its name, this one is deleted already.
    pub(super) async fn delete_command(&self, command: &ObjectId) -> Result<(), Refusal> {
        let ObjectId {
            namespace,
            name,
            uid,
        } = command;
        let path = format!("/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands/{name}");
        let options = json!({"preconditions": {"uid": uid}});
        match self.delete(path, &options).await {
            Ok(()) => Ok(()),
            Err(error) if is_conflict(&error) => Err(Refusal::NotFound),
            Err(error) => Err(refusal(&error)),
        }
    }

    /// Carries out the call of a queue's step.
    pub(super) async fn queue(&self, call: queue::Call) -> queue::Answer {
        let path = |queue: &str| format!("/apis/scheduling.volcano.sh/v1beta1/queues/{queue}");
        let stored: Result<View, ApiError> = match &call {
            queue::Call::Patch { queue, patch } => self.patch(path(queue), JSON_PATCH, patch).await,
            queue::Call::ApplyState { queue, state } => {
                let applied = json!({
                    "apiVersion": "scheduling.volcano.sh/v1beta1",
                    "kind": "Queue",
                    "metadata": {"name": queue},
                    "status": {"state": state.as_str()},
                });
                // Another field manager may own the field, such as Volcano's controller.
                let path = format!(
                    "{}/status?fieldManager={FIELD_MANAGER}&force=true",
                    path(queue)
                );
                self.request(Method::PATCH, path, APPLY_PATCH, &applied)
                    .await
            }
        };
        stored.map(Arc::new).map_err(|error| error.to_string())
    }
}

/// An object of this name that the job does not own is an error.
fn belongs(
    job: &ObjectId,
    resource: Resource,
    existing: &Value,
    name: &str,
) -> Result<(), Refusal> {
    let owners = existing["metadata"]["ownerReferences"].as_array();
    let is_job = |owner: &Value| owner["uid"] == job.uid.as_str();
    if owners.is_some_and(|owners| owners.iter().any(is_job)) {
        return Ok(());
    }
    let kind = resource.kind();
    Err(Refusal::Other(format!(
        "there is a {kind} {name} that does not belong to this job; it is in the way"
    )))
}

fn is_conflict(error: &ApiError) -> bool {
    error.status().is_some_and(|status| status.code == 409)
}

fn job_path(namespace: &str, name: &str) -> String {
    format!("/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}")
}

pub(super) fn pod_groups_path(namespace: &str) -> String {
    format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups")
}

/// The path of the collection.
fn path(resource: Resource, namespace: &str) -> String {
    let plural = match resource {
        Resource::ConfigMap => "configmaps",
        Resource::Secret => "secrets",
        Resource::Service => "services",
        Resource::NetworkPolicy => "networkpolicies",
        Resource::PersistentVolumeClaim => "persistentvolumeclaims",
    };
    let root = match resource {
        Resource::NetworkPolicy => "/apis/networking.k8s.io/v1",
        _ => "/api/v1",
    };
    format!("{root}/namespaces/{namespace}/{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use kube::client::Body;
    use std::collections::HashMap;
    use std::convert::Infallible;
    use std::sync::Mutex;
    use std::time::Duration;
    use tower::service_fn;

    fn job(namespace: &str) -> ObjectId {
        ObjectId {
            namespace: namespace.to_owned(),
            name: "train".to_owned(),
            uid: String::new(),
        }
    }

    fn deletions(count: usize) -> Vec<Call> {
        let calls = (0..count).map(|index| Call::DeletePod {
            name: format!("train-{index}"),
            uid: "u".to_owned(),
        });
        calls.collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_job_with_few_calls_does_not_wait_for_jobs_with_thousands() {
        let done: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let counted = Arc::clone(&done);
        let server = service_fn(move |request: Request<Body>| {
            let done = Arc::clone(&counted);
            async move {
                // A server that takes a while for each call.
                tokio::time::sleep(Duration::from_millis(10)).await;
                let namespace = request.uri().path().split('/').nth(4).unwrap_or_default();
                *done
                    .lock()
                    .unwrap()
                    .entry(namespace.to_owned())
                    .or_default() += 1;
                let body = Body::from(b"{}".to_vec());
                Ok::<_, Infallible>(Response::new(body))
            }
        });
        let calls = Calls::new(Actions::new(kube::Client::new(server, "default")));
        for index in 0..20 {
            let calls = calls.clone();
            tokio::spawn(async move {
                let job = job(&format!("large-{index}"));
                calls.carry_out(job, deletions(1000)).await
            });
        }
        // By now the calls of all large jobs are in flight.
        tokio::time::sleep(Duration::from_millis(25)).await;
        let answers = calls.carry_out(job("small"), deletions(2)).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let done = done.lock().unwrap();
        assert_eq!(done["small"], 2);
        // Meanwhile each large job had at most two batches of calls.
        let most = done.values().max().copied();
        assert!(most <= Some(3 * MAX_IN_FLIGHT_PER_JOB), "{done:?}");
    }
}
