//! PodGroups of plain pods, one for the pods of each owner (S6-059 to S6-062). Volcano's scheduler needs them; ours does not,
//! so that they are made in Volcano's form only.

use super::calls::{Calls, MERGE, refusal};
use super::watches::{Delta, Object, Start};
use evictd_batch::job::Refusal;
use evictd_batch::pod_group::{Call, Plain, Scaled, is_plain, plain_pod, scaled};
use evictd_cluster_client::{Access, ApiError, Backoff, Watches, chance, news};
use evictd_pod::wire::{Metadata, OwnerReference, Pod, TextMap, null_is_default};
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// How often a pod is tried.
const MOST_TRIES: u32 = 15;
/// The longest pause between two tries.
const LONGEST_PAUSE: Duration = Duration::from_mins(3);

enum News {
    Pod(Delta<Pod>),
    Set(Delta<Set>),
    Listed,
}

/// A `ReplicaSet` or a `StatefulSet`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Set {
    #[serde(deserialize_with = "null_is_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: SetSpec,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct SetSpec {
    replicas: Option<i32>,
}

/// Any object, for its annotations.
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

impl Object for Set {
    fn metadata(&self) -> &Metadata {
        &self.metadata
    }
}

/// Makes groups until the task is ended.
pub(super) async fn run(
    (access, watches): (Access, Watches),
    calls: Calls,
    schedulers: Vec<String>,
) {
    let (send, mut news) = news();
    let start = Start {
        access: &access,
        news: &send,
        watches: &watches,
        listed: || News::Listed,
    };
    start.follow("/api/v1/pods", News::Pod);
    start.follow("/apis/apps/v1/replicasets", News::Set);
    start.follow("/apis/apps/v1/statefulsets", News::Set);
    let schedulers: Arc<[String]> = schedulers.into();
    while let Some(news) = news.recv().await {
        match news {
            News::Pod(Delta {
                old: None,
                new: Some(pod),
            }) if is_plain(&pod, &schedulers) => {
                tokio::spawn(group(calls.clone(), pod, Arc::clone(&schedulers)));
            }
            News::Set(Delta { new: Some(set), .. }) => {
                let set = Scaled {
                    metadata: &set.metadata,
                    replicas: set.spec.replicas,
                };
                if let Some(call) = scaled(set) {
                    tokio::spawn(attempts(calls.clone(), vec![call]));
                }
            }
            News::Pod(_) | News::Set(_) | News::Listed => {}
        }
    }
}

/// Gives a pod its group, if it has none.
async fn group(calls: Calls, pod: Arc<Pod>, schedulers: Arc<[String]>) {
    let mut owners = Vec::new();
    for owner in pod.metadata.owner_references.iter() {
        let namespace = pod.metadata.namespace_or_default();
        owners.extend(annotations(&calls, namespace, owner).await);
    }
    let plain = Plain {
        pod: &pod,
        owners: &owners,
        // Making one that is there already is as good.
        group: None,
    };
    attempts(calls, plain_pod(plain, &schedulers)).await;
}

/// The annotations of an owner; `None` of one of another kind, or that is not found.
async fn annotations(calls: &Calls, namespace: &str, owner: &OwnerReference) -> Option<TextMap> {
    // A Job of Volcano's is another one.
    let (version, plural) = match (owner.api_version.as_str(), owner.kind.as_str()) {
        (version @ "apps/v1", "ReplicaSet") => (version, "replicasets"),
        (version @ "apps/v1", "DaemonSet") => (version, "daemonsets"),
        (version @ "apps/v1", "StatefulSet") => (version, "statefulsets"),
        (version @ "batch/v1", "Job") => (version, "jobs"),
        _ => return None,
    };
    let name = &owner.name;
    let path = format!("/apis/{version}/namespaces/{namespace}/{plural}/{name}");
    let found = calls.get::<Owner>(path).await;
    let found = found.inspect_err(|error| warn!("{error}")).ok()?;
    Some(found.metadata.annotations)
}

/// Makes the calls in their order, each until it succeeds.
async fn attempts(calls: Calls, wanted: Vec<Call>) {
    for call in wanted {
        let mut backoff = Backoff::new(Duration::from_millis(50), LONGEST_PAUSE);
        for _ in 0..MOST_TRIES {
            let Err(error) = make(&calls, &call).await else {
                break;
            };
            if matches!(refusal(&error), Refusal::NotFound | Refusal::AlreadyExists) {
                break;
            }
            warn!("{error}");
            tokio::time::sleep(backoff.next(chance())).await;
        }
    }
}

async fn make(calls: &Calls, call: &Call) -> Result<(), ApiError> {
    let groups = |namespace: &str| {
        format!("/apis/scheduling.volcano.sh/v1beta1/namespaces/{namespace}/podgroups")
    };
    match call {
        Call::CreateGroup { namespace, group } => {
            calls.create::<Value>(groups(namespace), group).await?;
        }
        Call::AnnotatePod {
            namespace,
            name,
            patch,
        } => {
            let path = format!("/api/v1/namespaces/{namespace}/pods/{name}");
            calls.patch::<Value>(path, MERGE, patch).await?;
        }
        Call::DeleteGroup { namespace, name } => {
            let path = format!("{}/{name}", groups(namespace));
            calls.delete(path, &Value::Null).await?;
        }
    }
    Ok(())
}
