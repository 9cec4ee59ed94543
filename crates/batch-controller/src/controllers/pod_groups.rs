//! The pod group controller: creates a pod group for bare pods, one for the pods of each owner (S6-059 to S6-062).
//!
//! It runs with `--form volcano` only. Volcano's scheduler needs the groups, and the sessions of `evictd-scheduler` do not.

use super::calls::{Calls, MERGE_PATCH, pod_groups_path, refusal};
use super::watches::{Delta, Object, WatchSet};
use evictd_batch_jobs::pod_group::{Call, Plain, Scaled, is_plain, plain_pod, scaled};
use evictd_cluster_client::{Access, ApiError, Backoff, Watches, chance, news};
use evictd_pod::wire::{Metadata, OwnerReference, Pod, TextMap, null_is_default};
use evictd_reconcile::Refusal;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// The number of attempts for a call.
const MAX_ATTEMPTS: u32 = 15;
/// The longest pause between two attempts.
const MAX_BACKOFF: Duration = Duration::from_mins(3);

enum WatchEvent {
    Pod(Delta<Pod>),
    Workload(Delta<Workload>),
    Listed,
}

/// A `ReplicaSet` or a `StatefulSet`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Workload {
    #[serde(deserialize_with = "null_is_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: WorkloadSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct WorkloadSpec {
    replicas: Option<i32>,
}

/// The owner of a pod.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Owner {
    #[serde(deserialize_with = "null_is_default")]
    metadata: Metadata,
}

impl Object for Pod {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

impl Object for Workload {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// Runs until the task is aborted.
pub(super) async fn run(
    (access, watches): (Access, Watches),
    calls: Calls,
    schedulers: Vec<String>,
) {
    let (sender, mut watch_events) = news();
    let set = WatchSet::new(&access, &sender, &watches, || WatchEvent::Listed);
    set.watch("/api/v1/pods", WatchEvent::Pod);
    set.watch("/apis/apps/v1/replicasets", WatchEvent::Workload);
    set.watch("/apis/apps/v1/statefulsets", WatchEvent::Workload);
    let schedulers: Arc<[String]> = schedulers.into();
    while let Some(event) = watch_events.recv().await {
        match event {
            WatchEvent::Pod(Delta {
                old: None,
                new: Some(pod),
            }) if is_plain(&pod, &schedulers) => {
                tokio::spawn(create_pod_group(
                    calls.clone(),
                    pod,
                    Arc::clone(&schedulers),
                ));
            }
            WatchEvent::Workload(Delta {
                new: Some(workload),
                ..
            }) => {
                let workload = Scaled {
                    metadata: &workload.metadata,
                    replicas: workload.spec.replicas,
                };
                if let Some(call) = scaled(workload) {
                    tokio::spawn(carry_out(calls.clone(), vec![call]));
                }
            }
            WatchEvent::Pod(_) | WatchEvent::Workload(_) | WatchEvent::Listed => {}
        }
    }
}

async fn create_pod_group(calls: Calls, pod: Arc<Pod>, schedulers: Arc<[String]>) {
    let mut owners = Vec::new();
    for owner in pod.metadata.owner_references.iter() {
        let namespace = pod.metadata.namespace_or_default();
        owners.extend(annotations(&calls, namespace, owner).await);
    }
    let plain = Plain {
        pod: &pod,
        owners: &owners,
        // The group need not be looked up: creating one that exists counts as a success.
        group: None,
    };
    carry_out(calls, plain_pod(plain, &schedulers)).await;
}

/// The annotations of an owner, if it is of a known kind and exists.
async fn annotations(calls: &Calls, namespace: &str, owner: &OwnerReference) -> Option<TextMap> {
    // A Job of Volcano has another API version.
    let (version, plural) = match (owner.api_version.as_str(), owner.kind.as_str()) {
        (version @ "apps/v1", "ReplicaSet") => (version, "replicasets"),
        (version @ "apps/v1", "DaemonSet") => (version, "daemonsets"),
        (version @ "apps/v1", "StatefulSet") => (version, "statefulsets"),
        (version @ "batch/v1", "Job") => (version, "jobs"),
        _ => return None,
    };
    let name = &owner.name;
    let path = format!("/apis/{version}/namespaces/{namespace}/{plural}/{name}");
    let owner: Owner = calls
        .get(path)
        .await
        .inspect_err(|error| warn!("{error}"))
        .ok()?;
    Some(owner.metadata.annotations)
}

/// Carries out calls in order, each until it succeeds.
async fn carry_out(calls: Calls, steps: Vec<Call>) {
    for step in steps {
        let mut backoff = Backoff::new(Duration::from_millis(50), MAX_BACKOFF);
        for _ in 0..MAX_ATTEMPTS {
            let Err(error) = attempt(&calls, &step).await else {
                break;
            };
            // The object was deleted, or another pod of the owner has created the group.
            if matches!(refusal(&error), Refusal::NotFound | Refusal::AlreadyExists) {
                break;
            }
            warn!("{error}");
            tokio::time::sleep(backoff.next(chance())).await;
        }
    }
}

async fn attempt(calls: &Calls, call: &Call) -> Result<(), ApiError> {
    match call {
        Call::CreateGroup { namespace, group } => {
            calls
                .create::<Value>(pod_groups_path(namespace), group)
                .await?;
        }
        Call::AnnotatePod {
            namespace,
            name,
            patch,
        } => {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
            calls.patch::<Value>(path, MERGE_PATCH, patch).await?;
        }
        Call::DeleteGroup { namespace, name } => {
            let path = format!("{}/{name}", pod_groups_path(namespace));
            calls.delete(path, &Value::Null).await?;
        }
    }
    Ok(())
}
