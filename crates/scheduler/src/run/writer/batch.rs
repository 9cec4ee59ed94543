//! What batch sessions have written and deleted: statuses of pod groups and queues, and pods that go for others.

use super::calls::Calls;
use super::status::{Condition, or_gone, patch_until_answered};
use super::{Outcome, PodRef, Shared, patient};
use crate::run::attempts::{Attempts, Failure, FailureKind};
use evictd_batch::wire::PodGroupStatus;
use evictd_pod::wire::Metadata;
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use tokio::sync::mpsc;
use tracing::warn;

/// A status of an object that is merged into the one that is stored.
#[derive(Debug, Clone, PartialEq)]
pub struct BatchStatus {
    path: String,
    body: Value,
}

impl BatchStatus {
    /// Of a pod group. Its kind has no path of its own for the status.
    pub fn group(metadata: &Metadata, status: &PodGroupStatus) -> Self {
        let (namespace, name) = (metadata.namespace_or_default(), &metadata.name);
        let mut body = json!({ "status": status });
        if !metadata.uid.is_empty() {
            body["metadata"] = json!({ "uid": *metadata.uid });
        }
        Self {
            path: format!(
                "/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups/{name}"
            ),
            body,
        }
    }

    /// What the pods of a queue hold; what it does not hold any more is taken out.
    pub fn queue(
        name: &str,
        before: &BTreeMap<String, String>,
        allocated: BTreeMap<String, String>,
    ) -> Self {
        let gone = before.keys().filter(|name| !allocated.contains_key(*name));
        let mut body: Map<String, Value> = gone.map(|name| (name.clone(), Value::Null)).collect();
        body.extend(
            allocated
                .into_iter()
                .map(|(name, amount)| (name, amount.into())),
        );
        Self {
            path: format!("/apis/scheduling.volcano.sh/v1beta1/queues/{name}/status"),
            body: json!({ "status": { "allocated": body } }),
        }
    }
}

/// Writes one after the other, so that of two about one object the later one counts. Sessions take for written what they have
/// handed over, so that it is tried until the server has answered.
pub(super) async fn write(calls: Calls, mut statuses: mpsc::UnboundedReceiver<BatchStatus>) {
    while let Some(BatchStatus { path, body }) = statuses.recv().await {
        while let Err(failure) = patient::write(&calls, &path, &body).await {
            match failure.kind {
                FailureKind::Unanswered | FailureKind::Overloaded => {}
                FailureKind::Gone => break,
                FailureKind::Conflict | FailureKind::Refused | FailureKind::Stopped => {
                    warn!("{path} is not written: {failure}");
                    break;
                }
            }
        }
    }
}

/// A pod that goes for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Eviction {
    /// The pod.
    pub pod: PodRef,
    /// `preempt`, `reclaim`.
    pub reason: String,
    /// The name of the scheduler that decided.
    pub scheduler: String,
    /// When it was decided.
    pub time: Timestamp,
}

/// Conditions, then the deletion (S6-119). A pod that is gone already is as good as deleted.
async fn carry_out(shared: &Shared, eviction: &Eviction) -> Result<(), Failure> {
    let Ok(_turn) = shared.victims.acquire().await else {
        return Err(Failure::stopped());
    };
    let condition = |kind, holds, reason, message: String| {
        let condition = Condition {
            kind,
            holds,
            reason,
            message: message.into(),
            since: eviction.time,
            observed_generation: None,
        };
        condition.body()
    };
    let (scheduler, why) = (&eviction.scheduler, &eviction.reason);
    let conditions = [
        condition(
            "Ready",
            false,
            "Evict",
            format!("Pod is evicted, because of {why}"),
        ),
        condition(
            "DisruptionTarget",
            true,
            "PreemptionByScheduler",
            format!("{scheduler}: {why} for another job"),
        ),
    ];
    let status = json!({ "conditions": conditions });
    let patched = patch_until_answered(&shared.calls, &eviction.pod, &status).await;
    if or_gone(patched)? {
        return Ok(());
    }
    let mut attempts = Attempts::default();
    while let Err(error) = shared.calls.delete(&eviction.pod).await {
        or_gone(attempts.after(&error).await)?;
    }
    Ok(())
}

/// Ends in [`Outcome::NotEvicted`] if the pod stays.
pub(super) async fn evict(shared: &Shared, eviction: Eviction) {
    if let Err(failure) = carry_out(shared, &eviction).await {
        let pod = eviction.pod;
        shared.tell(Outcome::NotEvicted { pod, failure });
    }
}
