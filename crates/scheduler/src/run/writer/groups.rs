//! Conditions of pod groups.

use super::calls::Calls;
use super::retry;
use super::write_queue::{Merge, WriteQueue};
use evictd_pod::wire::Condition;
use serde_json::json;

/// New conditions of a pod group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GroupStatus {
    /// Which of the two kinds: `v1beta1/podgroups`.
    pub(crate) kind: &'static str,
    pub(crate) namespace: String,
    pub(crate) name: String,
    /// A precondition of the write, unless it is empty.
    pub(crate) uid: String,
    /// At most one of each type.
    pub(crate) conditions: Vec<Condition>,
}

impl GroupStatus {
    pub(super) fn path(&self) -> String {
        let Self {
            kind,
            namespace,
            name,
            ..
        } = self;
        let (version, resource) = kind.split_once('/').unwrap_or_default();
        format!("/apis/scheduling.k8s.io/{version}/namespaces/{namespace}/{resource}/{name}/status")
    }
}

impl Merge for GroupStatus {
    fn merge(mut self, newer: Self) -> Self {
        // The older write was to a deleted group of the same name.
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

/// Writes one status after the other. Each is retried until the server has answered, because the scheduler assumes that it is
/// written.
pub(super) async fn write(calls: Calls, mut statuses: WriteQueue<GroupStatus>) {
    while let Some((path, status)) = statuses.next().await {
        let mut body = json!({"status": {"conditions": status.conditions}});
        if !status.uid.is_empty() {
            body["metadata"] = json!({"uid": status.uid});
        }
        retry::until_answered(&path, || calls.strategic_merge(&path, &body)).await;
    }
}
