//! The requests themselves, each sent once.

use super::PodRef;
use evictd_cluster_client::{Actions, ApiError};
use hyper::{Method, Request};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Value, json};
use std::time::Duration;

#[derive(Clone)]
pub(super) struct Calls {
    actions: Actions,
    within: Duration,
}

/// The fields of a pod that show whether it was bound.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Found {
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    uid: String,
    resource_version: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

impl Found {
    pub(super) fn node(&self) -> Option<&str> {
        self.spec
            .node_name
            .as_deref()
            .filter(|node| !node.is_empty())
    }

    pub(super) fn is(&self, pod: &PodRef) -> bool {
        *self.metadata.uid == *pod.uid
    }
}

impl Calls {
    pub(super) fn new(actions: Actions, within: Duration) -> Self {
        Self { actions, within }
    }

    /// Sends no call that the rate delays.
    pub(super) fn stop(&self) {
        self.actions.end_delays();
    }

    pub(super) async fn bind(&self, pod: &PodRef, node: &str) -> Result<(), ApiError> {
        let body = json!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": *pod.uid},
            "target": {"kind": "Node", "name": node},
        });
        let what = format!("binding pod {pod} to node {node}");
        let request = request(Method::POST, pod, "/binding", JSON, &body);
        self.sent(&what, request).await
    }

    /// Fails for another pod of the same name, because the UID is a precondition.
    pub(super) async fn patch_status(&self, pod: &PodRef, status: &Value) -> Result<(), ApiError> {
        let body = json!({"metadata": {"uid": *pod.uid}, "status": status});
        let what = format!("writing the status of pod {pod}");
        let request = request(Method::PATCH, pod, "/status", STRATEGIC, &body);
        self.sent(&what, request).await
    }

    /// Deletes the pod with its grace period. Fails for another pod of the same name.
    pub(super) async fn delete(&self, pod: &PodRef) -> Result<(), ApiError> {
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": *pod.uid},
        });
        let what = format!("deleting pod {pod}");
        let request = request(Method::DELETE, pod, "", JSON, &body);
        self.sent(&what, request).await
    }

    /// `None` if there is no pod of this name.
    pub(super) async fn get(&self, pod: &PodRef) -> Result<Option<Found>, ApiError> {
        let what = format!("reading pod {pod}");
        let request = request(Method::GET, pod, "", JSON, &Value::Null);
        match self.actions.request(&what, self.within, request).await {
            Err(error) if error.status().is_some_and(|status| status.code == 404) => Ok(None),
            answer => answer.map(Some),
        }
    }

    pub(super) async fn read(&self, path: &str) -> Result<Value, ApiError> {
        let what = format!("reading {path}");
        let request = at(Method::GET, path.to_owned(), JSON, &Value::Null);
        self.actions.request(&what, self.within, request).await
    }

    /// Sends a merge patch.
    pub(super) async fn merge(&self, path: &str, body: &Value) -> Result<(), ApiError> {
        let what = format!("writing {path}");
        let request = at(Method::PATCH, path.to_owned(), MERGE, body);
        self.sent(&what, request).await
    }

    /// Creates an object, and returns it as it was stored.
    pub(super) async fn create(&self, path: &str, body: &Value) -> Result<Value, ApiError> {
        let what = format!("creating an object of {path}");
        let request = at(Method::POST, path.to_owned(), JSON, body);
        self.actions.request(&what, self.within, request).await
    }

    /// Deletes the object with this UID.
    pub(super) async fn delete_at(&self, path: &str, uid: &str) -> Result<(), ApiError> {
        let body = json!({
            "apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": uid},
        });
        let what = format!("deleting {path}");
        let request = at(Method::DELETE, path.to_owned(), JSON, &body);
        self.sent(&what, request).await
    }

    /// Sends a merge patch. Returns the version of the object since then, if the answer names one.
    pub(super) async fn merge_versioned(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<Option<u64>, ApiError> {
        let what = format!("writing {path}");
        let request = at(Method::PATCH, path.to_owned(), MERGE, body);
        let answer: Versioned = self.actions.request(&what, self.within, request).await?;
        Ok(answer.metadata.resource_version.parse().ok())
    }

    /// Sends a strategic merge patch, which merges lists by their keys. Only built-in kinds allow it.
    pub(super) async fn strategic_merge(&self, path: &str, body: &Value) -> Result<(), ApiError> {
        let what = format!("writing {path}");
        let request = at(Method::PATCH, path.to_owned(), STRATEGIC, body);
        self.sent(&what, request).await
    }

    /// As [`Self::strategic_merge`]. Returns the object as it is afterwards.
    pub(super) async fn strategic_merge_and_read(
        &self,
        path: &str,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let what = format!("writing {path}");
        let request = at(Method::PATCH, path.to_owned(), STRATEGIC, body);
        self.actions.request(&what, self.within, request).await
    }

    async fn sent(
        &self,
        what: &str,
        request: hyper::http::Result<Request<Vec<u8>>>,
    ) -> Result<(), ApiError> {
        let answer = self.actions.request(what, self.within, request).await;
        answer.map(|_: IgnoredAny| ())
    }
}

/// An object of which only the version is read.
#[derive(Deserialize)]
struct Versioned {
    #[serde(default)]
    metadata: Metadata,
}

const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const STRATEGIC: &str = "application/strategic-merge-patch+json";

fn request(
    method: Method,
    pod: &PodRef,
    below: &str,
    content_type: &str,
    body: &Value,
) -> hyper::http::Result<Request<Vec<u8>>> {
    let PodRef {
        namespace, name, ..
    } = pod;
    let path = format!("/api/v1/namespaces/{namespace}/pods/{name}{below}");
    at(method, path, content_type, body)
}

fn at(
    method: Method,
    path: String,
    content_type: &str,
    body: &Value,
) -> hyper::http::Result<Request<Vec<u8>>> {
    let body = if body.is_null() {
        Vec::new()
    } else {
        body.to_string().into_bytes()
    };
    Request::builder()
        .method(method)
        .uri(path)
        .header(hyper::header::CONTENT_TYPE, content_type)
        .body(body)
}
