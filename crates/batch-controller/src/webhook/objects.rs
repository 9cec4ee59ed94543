//! Reads and writes single objects of the API server.

use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT};
use http::{Method, header};
use serde_json::Value;

#[derive(Clone)]
pub(super) struct Objects(pub(super) Actions);

impl Objects {
    /// Returns `None` if there is no object at this path.
    pub(super) async fn get(&self, path: &str) -> Result<Option<Value>, ApiError> {
        match self.request(Method::GET, path, "", &Value::Null).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if code(&error) == Some(404) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Creates an object in the collection at this path. Returns false if it exists.
    pub(super) async fn create(&self, path: &str, object: &Value) -> Result<bool, ApiError> {
        written(self.request(Method::POST, path, JSON, object).await)
    }

    /// Replaces the object at this path. Returns false if it has changed meanwhile.
    pub(super) async fn replace(&self, path: &str, object: &Value) -> Result<bool, ApiError> {
        written(self.request(Method::PUT, path, JSON, object).await)
    }

    /// Applies a JSON patch to the object at this path. Returns false if a test of the patch fails.
    pub(super) async fn patch(&self, path: &str, operations: &Value) -> Result<bool, ApiError> {
        let content_type = "application/json-patch+json";
        written(
            self.request(Method::PATCH, path, content_type, operations)
                .await,
        )
    }

    async fn request(
        &self,
        method: Method,
        path: &str,
        content_type: &str,
        body: &Value,
    ) -> Result<Value, ApiError> {
        let what = format!("{method} {path}");
        let mut request = http::Request::builder().method(method).uri(path);
        let mut bytes = Vec::new();
        if !body.is_null() {
            request = request.header(header::CONTENT_TYPE, content_type);
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

/// A conflict is no error: the next attempt reads the object again.
fn written(response: Result<Value, ApiError>) -> Result<bool, ApiError> {
    match response {
        Ok(_) => Ok(true),
        Err(error) if matches!(code(&error), Some(409 | 422)) => Ok(false),
        Err(error) => Err(error),
    }
}
