//! Conditions of pod groups.

use super::calls::Calls;
use super::latest::{Merge, Turns};
use super::patient;
use jiff::Timestamp;
use serde_json::{Value, json};

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

impl GroupStatus {
    pub(super) fn path(&self) -> String {
        let Self {
            namespace, name, ..
        } = self;
        format!("/apis/scheduling.k8s.io/v1beta1/namespaces/{namespace}/podgroups/{name}/status")
    }
}

impl Merge for GroupStatus {
    fn then(mut self, newer: Self) -> Self {
        if self.uid != newer.uid {
            return newer;
        }
        for condition in newer.conditions {
            self.conditions.retain(|older| older.kind != condition.kind);
            self.conditions.push(condition);
        }
        self
    }
}

/// Writes one status after the other. Each is tried until the server has answered, because the scheduler counts it as written.
pub(super) async fn write(calls: Calls, mut statuses: Turns<GroupStatus>) {
    while let Some((path, status)) = statuses.next().await {
        let conditions: Vec<Value> = status.conditions.iter().map(GroupCondition::body).collect();
        let mut body = json!({"status": {"conditions": conditions}});
        if !status.uid.is_empty() {
            body["metadata"] = json!({"uid": status.uid});
        }
        patient::until_answered(&path, || calls.merge_by_keys(&path, &body)).await;
    }
}
