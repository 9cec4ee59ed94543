//! Writes of batch sessions: statuses of pod groups and queues, and evictions.

use super::calls::Calls;
use super::status::{of_pod, or_gone, patch_until_answered};
use super::write_queue::{Merge, WriteQueue};
use super::{Outcome, PodRef, Shared, retry};
use crate::run::api_retry::{ApiRetry, Failure};
use crate::run::batch::eviction_message;
use evictd_batch::session::{EvictionKind, GroupWrite};
use evictd_batch_objects::PodGroupStatus;
use evictd_pod::wire::{Condition, Generation, Metadata};
use jiff::Timestamp;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinSet;

/// A merge patch of an object's status.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BatchStatus {
    pub(super) path: String,
    body: Value,
    /// The group and the number of the write, for [`Outcome::GroupWritten`].
    group: Option<(String, u64)>,
}

impl Merge for BatchStatus {
    fn merge(mut self, newer: Self) -> Self {
        // The older write was to a deleted object of the same name.
        if self.body["metadata"] != newer.body["metadata"] {
            return newer;
        }
        merge_patches(&mut self.body, newer.body);
        self.group = newer.group;
        self
    }
}

/// Merges two JSON merge patches. A field that one of them removes stays removed, unless the newer one sets it.
fn merge_patches(older: &mut Value, newer: Value) {
    match (older, newer) {
        (Value::Object(older), Value::Object(newer)) => {
            for (key, value) in newer {
                match older.get_mut(&key) {
                    Some(older) => merge_patches(older, value),
                    None => {
                        older.insert(key, value);
                    }
                }
            }
        }
        (older, newer) => *older = newer,
    }
}

impl BatchStatus {
    /// A patch of a pod group. Its kind has no subresource for the status.
    /// It ends in [`Outcome::GroupWritten`] with this number.
    pub(crate) fn group(metadata: &Metadata, status: &PodGroupStatus, write: u64) -> Self {
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
            group: Some((metadata.full_name(), write)),
        }
    }

    /// A patch of a queue's allocated amounts. Resources that it held `before` and holds no more are removed.
    pub(crate) fn queue(
        name: &str,
        before: &BTreeMap<String, String>,
        allocated: BTreeMap<String, String>,
    ) -> Self {
        let removed = before.keys().filter(|name| !allocated.contains_key(*name));
        let removed = removed.map(|name| (name.clone(), Value::Null));
        let mut body: Map<String, Value> = removed.collect();
        body.extend(
            allocated
                .into_iter()
                .map(|(name, amount)| (name, amount.into())),
        );
        Self {
            path: format!("/apis/scheduling.volcano.sh/v1beta1/queues/{name}/status"),
            body: json!({ "status": { "allocated": body } }),
            group: None,
        }
    }
}

/// Writes one status after the other. Each is retried until the server has answered, because sessions assume that it is
/// written.
pub(super) async fn write(
    calls: Calls,
    mut statuses: WriteQueue<BatchStatus>,
    outcomes: UnboundedSender<Outcome>,
) {
    while let Some((path, BatchStatus { body, group, .. })) = statuses.next().await {
        let written = retry::until_answered(&path, || calls.merge_versioned(&path, &body)).await;
        if let Some((key, write)) = group {
            let answer = written.map_or(GroupWrite::Failed, GroupWrite::Written);
            // The receiver is dropped only when the scheduler ends.
            let _ = outcomes.send(Outcome::GroupWritten { key, write, answer });
        }
    }
}

/// The eviction of a pod for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Eviction {
    pub(crate) pod: PodRef,
    /// The generation of the pod that was evicted.
    pub(crate) generation: Generation,
    pub(crate) kind: EvictionKind,
    /// The scheduler name of the sessions.
    pub(crate) scheduler: String,
    /// The time of the decision.
    pub(crate) time: Timestamp,
}

/// Writes the conditions of an eviction (S6-119). Returns false if the pod is already deleted.
async fn mark(shared: &Shared, eviction: &Eviction) -> Result<bool, Failure> {
    let Ok(_turn) = shared.victims.acquire().await else {
        return Err(Failure::stopped());
    };
    let condition = |kind, holds, reason, message: String| {
        let condition = Condition::new(kind, holds, reason, message, eviction.time);
        of_pod(&condition.of_generation(eviction.generation))
    };
    let (scheduler, why) = (&eviction.scheduler, eviction.kind.as_str());
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
            eviction_message(scheduler, eviction.kind),
        ),
    ];
    let status = json!({ "conditions": conditions });
    let patched = patch_until_answered(&shared.calls, &eviction.pod, &status).await;
    Ok(!or_gone(patched)?)
}

/// Deletes the pod. A pod that is already deleted is no failure.
async fn delete(shared: &Shared, eviction: &Eviction) -> Result<(), Failure> {
    let Ok(_turn) = shared.victims.acquire().await else {
        return Err(Failure::stopped());
    };
    let mut retry = ApiRetry::default();
    while let Err(error) = shared.calls.delete(&eviction.pod).await {
        if or_gone(retry.after(&error).await)? {
            break;
        }
    }
    Ok(())
}

/// Writes the conditions of all pods before it deletes the first one. After a crash the next leader finds the remaining victims
/// by them and chooses no others. Reports [`Outcome::NotEvicted`] for each pod that it could not evict.
pub(super) async fn evict(shared: &Arc<Shared>, evictions: Vec<Eviction>) {
    let mut marks = JoinSet::new();
    for eviction in evictions {
        let shared = Arc::clone(shared);
        marks.spawn(async move { (mark(&shared, &eviction).await, eviction) });
    }
    let mut marked = Vec::new();
    // A task that is lost ends with the runtime.
    while let Some(Ok((result, eviction))) = marks.join_next().await {
        match result {
            Ok(true) => marked.push(eviction),
            Ok(false) => {}
            Err(failure) => report(shared, eviction, failure),
        }
    }
    for eviction in marked {
        let shared = Arc::clone(shared);
        tokio::spawn(async move {
            if let Err(failure) = delete(&shared, &eviction).await {
                report(&shared, eviction, failure);
            }
        });
    }
}

fn report(shared: &Shared, eviction: Eviction, failure: Failure) {
    let pod = eviction.pod;
    shared.report(Outcome::NotEvicted { pod, failure });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_patches_of_one_object_become_one_with_the_fields_of_both() {
        let amounts = |pairs: &[(&str, &str)]| -> BTreeMap<String, String> {
            let pairs = pairs.iter();
            pairs
                .map(|(name, amount)| ((*name).to_owned(), (*amount).to_owned()))
                .collect()
        };
        let [nothing, one, two] = [&[][..], &[("cpu", "1")], &[("memory", "2")]].map(amounts);
        let first = BatchStatus::queue("gold", &nothing, one.clone());
        let second = BatchStatus::queue("gold", &one, two.clone());
        let both = first.merge(second);
        let expected = json!({ "status": { "allocated": { "cpu": null, "memory": "2" } } });
        assert_eq!(both.body, expected);
        let group = |uid: &str, phase: &str| {
            let metadata = Metadata {
                uid: uid.into(),
                ..Metadata::default()
            };
            let status = PodGroupStatus {
                phase: evictd_batch_objects::PodGroupPhase::of(phase),
                ..PodGroupStatus::default()
            };
            BatchStatus::group(&metadata, &status, 1)
        };
        let other = group("1", "Running").merge(group("2", "Pending"));
        assert_eq!(other, group("2", "Pending"));
    }
}
