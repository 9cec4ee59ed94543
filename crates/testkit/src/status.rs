//! The answer to a refused request: a `Status` object in the words of a real API server.

use crate::resource::Resource;
use serde_json::{Value, json};

/// A refusal.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[error("{code} {reason}: {message}")]
pub struct Status {
    /// HTTP status code.
    pub code: u16,
    /// The machine's word: `NotFound`, `Conflict`.
    pub reason: &'static str,
    /// The human's.
    pub message: String,
    /// `details` of the object; null for none.
    pub details: Value,
    /// Sent as the header `Retry-After`, in seconds.
    pub retry_after: Option<u32>,
    /// The token with which a list continues, from the present objects, after its own has expired.
    pub continue_at: Option<String>,
}

impl Status {
    /// A refusal without details.
    pub fn new(code: u16, reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            code,
            reason,
            message: message.into(),
            details: Value::Null,
            retry_after: None,
            continue_at: None,
        }
    }

    fn about(mut self, resource: &Resource, name: &str) -> Self {
        let mut details = json!({"name": name, "kind": resource.plural});
        if !resource.group.is_empty() {
            details["group"] = resource.group.into();
        }
        self.details = details;
        self
    }

    /// 400: the request makes no sense.
    pub fn bad_request(message: impl Into<String>) -> Self {
        Self::new(400, "BadRequest", message)
    }

    /// 401: no valid token.
    pub fn unauthorized() -> Self {
        Self::new(401, "Unauthorized", "Unauthorized")
    }

    /// 404: there is no such path.
    pub fn no_such_path() -> Self {
        Self::new(
            404,
            "NotFound",
            "the server could not find the requested resource",
        )
    }

    /// 404: there is no such object.
    pub fn not_found(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" not found", resource.qualified());
        Self::new(404, "NotFound", message).about(resource, name)
    }

    /// 409: an object of this name is there.
    pub fn already_exists(resource: &Resource, name: &str) -> Self {
        let message = format!("{} \"{name}\" already exists", resource.qualified());
        Self::new(409, "AlreadyExists", message).about(resource, name)
    }

    /// 409: the object has another UID or version than the request names.
    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!(
            "Operation cannot be fulfilled on {} \"{name}\": {why}",
            resource.qualified()
        );
        Self::new(409, "Conflict", message).about(resource, name)
    }

    /// 409: the pod can have no node.
    pub fn not_bound(pod: &str, why: &str) -> Self {
        let message = format!("Operation cannot be fulfilled on pods/binding \"{pod}\": {why}");
        Self {
            details: json!({"name": pod, "kind": "pods/binding"}),
            ..Self::new(409, "Conflict", message)
        }
    }

    /// 405: such objects can't be asked for so.
    pub fn not_allowed() -> Self {
        let message = "the server does not allow this method on the requested resource";
        Self::new(405, "MethodNotAllowed", message)
    }

    /// 422: the object breaks a rule.
    pub fn invalid(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is invalid: {why}", resource.kind);
        Self::new(422, "Invalid", message).about(resource, name)
    }

    /// 403: the object may not be written so.
    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Self {
        let message = format!("{} \"{name}\" is forbidden: {why}", resource.qualified());
        Self::new(403, "Forbidden", message).about(resource, name)
    }

    /// 410: that version is no longer remembered.
    pub fn expired(message: impl Into<String>) -> Self {
        Self::new(410, "Expired", message)
    }

    /// 503: a node's kubelet takes no connections.
    pub fn unreachable(node: &str) -> Self {
        let message = format!(
            "error trying to reach service: dial tcp: lookup {node}: connect: connection refused"
        );
        Self::new(503, "ServiceUnavailable", message)
    }

    /// 504: that version is of the future.
    pub fn too_large(asked: u64, current: u64) -> Self {
        let message = format!("Timeout: Too large resource version: {asked}, current: {current}");
        Self {
            details: json!({
                "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
                "retryAfterSeconds": 1,
            }),
            retry_after: Some(1),
            ..Self::new(504, "Timeout", message)
        }
    }

    /// The object itself.
    pub fn object(&self) -> Value {
        let mut object = json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": self.message, "code": self.code,
        });
        if !self.reason.is_empty() {
            object["reason"] = self.reason.into();
        }

        if !self.details.is_null() {
            object["details"] = self.details.clone();
        }
        if let Some(seconds) = self.retry_after {
            object["details"]["retryAfterSeconds"] = seconds.into();
        }
        if let Some(token) = &self.continue_at {
            object["metadata"]["continue"] = token.as_str().into();
        }
        object
    }
}
