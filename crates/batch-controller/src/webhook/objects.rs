//! Single objects of the API server.

use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT};
use http::{Method, header};
use serde_json::Value;

/// Reads and writes single objects.
#[derive(Clone)]
pub(super) struct Objects(pub(super) Actions);

impl Objects {
    /// The object at this path; `None` if there is none.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.ask(Method::GET, path, "", &Value::Null).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Makes an object in this collection; `false` if it is there already.
    pub(super) async fn create(&self, path: &str, object: &Value) -> Result<bool, ApiError> {
        written(self.ask(Method::POST, path, JSON, object).await)
    }

    /// Replaces the object at this path; `false` if somebody else changed it meanwhile.
    pub(super) async fn replace(&self, path: &str, object: &Value) -> Result<bool, ApiError> {
        written(self.ask(Method::PUT, path, JSON, object).await)
    }

    /// Changes the object at this path by a JSON patch; `false` if a test in it failed, or somebody else was faster.
    pub(super) async fn patch(&self, path: &str, operations: &Value) -> Result<bool, ApiError> {
        let kind = "application/json-patch+json";
        written(self.ask(Method::PATCH, path, kind, operations).await)
    }

    async fn ask(
        &self,
        method: Method,
        path: &str,
        kind: &str,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let what = format!("{method} {path}");
        let mut request = http::Request::builder().method(method).uri(path);
        let mut bytes = Vec::new();
        if !body.is_null() {
            request = request.header(header::CONTENT_TYPE, kind);
            bytes = body.to_string().into_bytes();
        }
        self.0
            .request(&what, CALL_TIMEOUT, request.body(bytes))
            .await
    }
}

const JSON: &str = "application/json";

fn code(error: &ApiError) -> Option<u16> {
    error.status().map(|status| status.code)
}

/// A conflict is for the next attempt.
fn written(answer: Result<Value, ApiError>) -> Result<bool, ApiError> {
    match answer {
        Ok(_) => Ok(true),
        Err(error) if matches!(code(&error), Some(409 | 422)) => Ok(false),
        Err(error) => Err(error),
    }
}
