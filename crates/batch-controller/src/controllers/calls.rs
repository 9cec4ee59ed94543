//! The calls of rounds, carried out against the API server.

use super::keys;
use evictd_batch::job::{Answer, Call, Creation, Done, Refusal, Resource};
use evictd_batch::queue::{self, View};
use evictd_batch::wire::{Job, TaskPod};
use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT, FIELD_MANAGER};
use http::{Method, Request};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Calls at a time; further ones wait. One that sends much counts as several.
const AT_A_TIME: u32 = 64;
/// Bytes of a call that counts as one.
const BYTES_OF_TURN: usize = 256 << 10;
/// Calls of one job at a time, so that each job has its turn soon, however many calls the others want.
const OF_A_JOB: usize = 8;
pub(super) const MERGE: &str = "application/merge-patch+json";
const JSON_PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";
const PLAIN: &str = "application/json";

/// Makes calls. Clones share the limit.
#[derive(Clone)]
pub(super) struct Calls {
    actions: Actions,
    limit: Arc<Semaphore>,
}

/// The job that calls are made for.
#[derive(Debug, Clone)]
pub(super) struct Owner {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
}

/// What is sent. A pod is put together once its turn has come.
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
    fn turns(&self) -> u32 {
        let bytes = match self {
            Self::Object(_) => 0,
            Self::Pod(pod) => pod.least_bytes(),
        };
        let more = u32::try_from(bytes / BYTES_OF_TURN).unwrap_or(AT_A_TIME);
        more.saturating_add(1).min(AT_A_TIME)
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
    let Some(status) = error.status() else {
        return Refusal::Other(error.to_string());
    };
    match (status.code, status.reason.as_str()) {
        (404, _) => Refusal::NotFound,
        (409, "AlreadyExists") => Refusal::AlreadyExists,
        _ => Refusal::Other(error.to_string()),
    }
}

impl Calls {
    pub(super) fn new(actions: Actions) -> Self {
        Self {
            actions,
            limit: Arc::new(Semaphore::new(AT_A_TIME as usize)),
        }
    }

    /// Makes a request of this content type; the body may be null.
    async fn ask<T: DeserializeOwned>(
        &self,
        method: Method,
        path: String,
        kind: &'static str,
        body: impl Into<Body<'_>>,
    ) -> Result<T, ApiError> {
        let body = body.into();
        // The semaphore is never closed.
        let _turn = self.limit.acquire_many(body.turns()).await;
        let what = format!("{method} {path}");
        let body = body.bytes();
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(http::header::CONTENT_TYPE, kind)
            .body(body);
        self.actions.request(&what, CALL_TIMEOUT, request).await
    }

    /// A patch of this content type.
    pub(super) async fn patch<T: DeserializeOwned>(
        &self,
        path: String,
        kind: &'static str,
        body: &Value,
    ) -> Result<T, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.ask(Method::PATCH, path, kind, body).await
    }

    /// Makes an object in this collection.
    pub(super) async fn create<'b, T: DeserializeOwned>(
        &self,
        path: String,
        body: impl Into<Body<'b>>,
    ) -> Result<T, ApiError> {
        let path = format!("{path}?fieldManager={FIELD_MANAGER}");
        self.ask(Method::POST, path, PLAIN, body).await
    }

    /// Reads an object.
    pub(super) async fn get<T: DeserializeOwned>(&self, path: String) -> Result<T, ApiError> {
        self.ask(Method::GET, path, PLAIN, &Value::Null).await
    }

    /// Deletes an object.
    pub(super) async fn delete(&self, path: String, body: &Value) -> Result<(), ApiError> {
        let deleted: Result<Value, _> = self.ask(Method::DELETE, path, PLAIN, body).await;
        deleted.map(|_| ())
    }

    /// Makes the calls of one step, a few at once; the answers are in the order of the calls.
    pub(super) async fn make(&self, owner: Owner, calls: Vec<Call>) -> Vec<Answer> {
        // A task that is lost, lost its call with it.
        let lost = || Err(Refusal::Other("the call was lost".to_owned()));
        let mut answers: Vec<Answer> = (0..calls.len()).map(|_| lost()).collect();
        let mut waiting = calls.into_iter().enumerate();
        let mut running = JoinSet::new();
        loop {
            while running.len() < OF_A_JOB
                && let Some((index, call)) = waiting.next()
            {
                let (own, owner) = (self.clone(), owner.clone());
                running.spawn(async move { (index, own.one(&owner, call).await) });
            }
            let Some(done) = running.join_next().await else {
                return answers;
            };
            if let Ok((index, answer)) = done
                && let Some(place) = answers.get_mut(index)
            {
                *place = answer;
            }
        }
    }

    async fn one(&self, owner: &Owner, call: Call) -> Answer {
        match call {
            Call::CreateObject { resource, object } => {
                self.create_object(owner, resource, &object).await
            }
            Call::ApplyObject { resource, object } => {
                self.apply_object(owner, resource, &object).await
            }
            Call::MakeKeys => {
                let comment = format!("{}/{}", owner.namespace, owner.name);
                let keys = keys::new(&comment);
                keys.map(Done::Keys)
                    .map_err(|error| Refusal::Other(error.to_string()))
            }
            call => self
                .plain(owner, call)
                .await
                .map_err(|error| refusal(&error)),
        }
    }

    async fn plain(&self, owner: &Owner, call: Call) -> Result<Done, ApiError> {
        let Owner {
            namespace, name, ..
        } = owner;
        let pods = format!("/api/v1/namespaces/{namespace}/pods");
        let job = format!("/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}");
        let groups =
            format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups");
        match call {
            Call::MarkPod { name, annotations } => {
                let patch = json!({"metadata": {"annotations": annotations}});
                self.patch::<Value>(format!("{pods}/{name}"), MERGE, &patch)
                    .await?;
            }
            Call::DeletePod { name, uid } => {
                self.delete_pod(format!("{pods}/{name}"), &uid).await?;
            }
            Call::CreatePod { pod } => {
                let made: TaskPod = self.create(pods, &pod).await?;
                return Ok(Done::Pod(Box::new(made)));
            }
            Call::WriteStatus { patch } => {
                let stored: Job = self.patch(format!("{job}/status"), MERGE, &patch).await?;
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
                self.patch::<Value>(format!("{groups}/{name}"), MERGE, &patch)
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
            // Above.
            Call::CreateObject { .. } | Call::ApplyObject { .. } | Call::MakeKeys => {}
        }
        Ok(Done::Nothing)
    }

    /// A pod of another UID stays: the one that is meant is gone then.
    async fn delete_pod(&self, path: String, uid: &str) -> Result<(), ApiError> {
        let options = json!({"preconditions": {"uid": uid}});
        let another = |error: &ApiError| error.status().is_some_and(|status| status.code == 409);
        match self.delete(path, &options).await {
            Err(error) if another(&error) => Ok(()),
            deleted => deleted,
        }
    }

    /// One that is there already is as good if it belongs to the job. One of a job before, which is being deleted, is not.
    async fn create_object(&self, owner: &Owner, resource: Resource, object: &Value) -> Answer {
        let path = path(resource, &owner.namespace);
        match self.create::<Value>(path.clone(), object).await {
            Ok(_) => Ok(Done::Nothing),
            Err(error) if refusal(&error) == Refusal::AlreadyExists => {
                self.check_owner(owner, resource, path, object).await
            }
            Err(error) => Err(refusal(&error)),
        }
    }

    async fn check_owner(
        &self,
        owner: &Owner,
        resource: Resource,
        path: String,
        object: &Value,
    ) -> Answer {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let there = self.get::<Value>(format!("{path}/{name}")).await;
        let there = there.map_err(|error| refusal(&error))?;
        let owners = there["metadata"]["ownerReferences"].as_array();
        let ours = |reference: &Value| reference["uid"] == owner.uid.as_str();
        if owners.is_some_and(|owners| owners.iter().any(ours)) {
            return Ok(Done::Nothing);
        }
        let kind = resource.kind();
        Err(Refusal::Other(format!(
            "there is a {kind} {name} that does not belong to this job; it is in the way"
        )))
    }

    async fn apply_object(&self, owner: &Owner, resource: Resource, object: &Value) -> Answer {
        let path = path(resource, &owner.namespace);
        match self.create::<Value>(path.clone(), object).await {
            Ok(_) => return Ok(Done::Nothing),
            Err(error) if refusal(&error) == Refusal::AlreadyExists => {}
            Err(error) => return Err(refusal(&error)),
        }
        self.check_owner(owner, resource, path.clone(), object)
            .await?;
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        let data = json!({"data": object["data"]});
        let patched = self
            .patch::<Value>(format!("{path}/{name}"), MERGE, &data)
            .await;
        patched
            .map(|_| Done::Nothing)
            .map_err(|error| refusal(&error))
    }

    /// A pod; `None` if there is none of this name.
    pub(super) async fn pod(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<TaskPod>, ApiError> {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
        self.find(path).await
    }

    /// A job; `None` if there is none of this name.
    pub(super) async fn job(&self, namespace: &str, name: &str) -> Result<Option<Job>, ApiError> {
        let path = format!("/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}");
        self.find(path).await
    }

    async fn find<T: DeserializeOwned>(&self, path: String) -> Result<Option<T>, ApiError> {
        match self.get(path).await {
            Ok(found) => Ok(Some(found)),
            Err(error) if refusal(&error) == Refusal::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Deletes this very job, after all that belongs to it (S6-054).
    pub(super) async fn delete_job(&self, owner: &Owner) -> Result<(), ApiError> {
        let Owner {
            namespace,
            name,
            uid,
        } = owner;
        let path = format!("/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs/{name}");
        let options = json!({"propagationPolicy": "Foreground", "preconditions": {"uid": uid}});
        self.delete(path, &options).await
    }

    /// Deletes this very Command (S6-012).
    pub(super) async fn delete_command(&self, owner: &Owner) -> Result<(), Refusal> {
        let Owner {
            namespace,
            name,
            uid,
        } = owner;
        let path = format!("/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands/{name}");
        let options = json!({"preconditions": {"uid": uid}});
        match self.delete(path, &options).await {
            Ok(()) => Ok(()),
            // Another one of the name: this one is gone.
            Err(error) if error.status().is_some_and(|status| status.code == 409) => {
                Err(Refusal::NotFound)
            }
            Err(error) => Err(refusal(&error)),
        }
    }

    /// Makes the call of a queue's round.
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
                // The field may have had another owner before.
                let path = format!(
                    "{}/status?fieldManager={FIELD_MANAGER}&force=true",
                    path(queue)
                );
                self.ask(Method::PATCH, path, APPLY, &applied).await
            }
        };
        stored.map(Arc::new).map_err(|error| error.to_string())
    }
}

/// Where the objects of a resource are.
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

    fn owner(namespace: &str) -> Owner {
        Owner {
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

    /// A server that takes a while for each call.
    #[tokio::test(start_paused = true)]
    async fn each_job_has_its_turn_however_many_calls_the_others_want() {
        let done: Arc<Mutex<HashMap<String, usize>>> = Arc::default();
        let counted = Arc::clone(&done);
        let server = service_fn(move |request: Request<Body>| {
            let done = Arc::clone(&counted);
            async move {
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
                let owner = owner(&format!("large-{index}"));
                calls.make(owner, deletions(1000)).await
            });
        }
        // All of them have begun.
        tokio::time::sleep(Duration::from_millis(25)).await;
        let answers = calls.make(owner("small"), deletions(2)).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        let done = done.lock().unwrap();
        assert_eq!(done["small"], 2);
        // Meanwhile each of the others had two turns at most.
        let most = done.values().max().copied();
        assert!(most <= Some(3 * OF_A_JOB), "{done:?}");
    }
}
