//! Conditions of pod groups.

use super::calls::Calls;
use super::patient;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc;

/// Conditions that a pod group gets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupStatus {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID, so that no other one of that name is meant; empty where it is not known.
    pub uid: String,
    /// The conditions, of different types.
    pub conditions: Vec<GroupCondition>,
}

/// A condition of a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupCondition {
    /// Its type.
    pub kind: &'static str,
    /// Whether its status is True.
    pub holds: bool,
    /// One word.
    pub reason: &'static str,
    /// A sentence.
    pub message: String,
    /// When its status changed last.
    pub since: Timestamp,
}

impl GroupCondition {
    fn body(&self) -> Value {
        json!({
            "type": self.kind, "status": if self.holds { "True" } else { "False" },
            "reason": self.reason, "message": self.message,
            "lastTransitionTime": format!("{:.0}", self.since),
        })
    }
}

/// Writes one after the other, so that of two about one group the later one counts. What was handed over is taken for
/// written, so that it is tried until the server has answered.
pub(super) async fn write(calls: Calls, mut statuses: mpsc::UnboundedReceiver<GroupStatus>) {
    while let Some(status) = statuses.recv().await {
        let GroupStatus {
            namespace, name, ..
        } = &status;
        let path = format!(
            "/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups/{name}/status"
        );
        let conditions: Vec<Value> = status.conditions.iter().map(GroupCondition::body).collect();
        let mut body = json!({"status": {"conditions": conditions}});
        if !status.uid.is_empty() {
            body["metadata"] = json!({"uid": status.uid});
        }
        patient::until_answered(&path, || calls.merge_by_keys(&path, &body)).await;
    }
}
