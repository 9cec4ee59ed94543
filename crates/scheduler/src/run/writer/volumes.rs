//! The claims of a pod get their volumes before it is bound (S5-094): a volume that is there is promised to its claim, and
//! for others the node is written into the claim, so that a volume is made for it. Then it is waited until all are bound.

use super::PodRef;
use super::calls::Calls;
use super::patient::{read, write};
use crate::run::attempts::{Failure, FailureKind};
use evictd_placement::VolumeChoice;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The node for which a volume is made.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Does all of it; nobody waits for longer than `within`.
pub(super) async fn prepare(
    calls: &Calls,
    pod: &PodRef,
    node: &str,
    volumes: &[VolumeChoice],
    within: Duration,
) -> Result<(), Failure> {
    for choice in volumes {
        choose(calls, pod, node, choice).await?;
    }
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    while !are_bound(calls, pod, node, volumes).await? {
        if began.elapsed() >= within {
            return Err(Failure {
                kind: FailureKind::Conflict,
                message: format!("the claims of pod {pod} were not bound within {within:?}"),
            });
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
    Ok(())
}

fn claim_of(choice: &VolumeChoice) -> &str {
    match choice {
        VolumeChoice::Bind { claim, .. } | VolumeChoice::Provision { claim } => claim,
    }
}

fn claim_path(pod: &PodRef, claim: &str) -> String {
    let namespace = &pod.namespace;
    format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
}

/// Writes one choice, unless it is there already.
async fn choose(
    calls: &Calls,
    pod: &PodRef,
    node: &str,
    choice: &VolumeChoice,
) -> Result<(), Failure> {
    let path = claim_path(pod, claim_of(choice));
    let claim = read(calls, &path).await?;
    let VolumeChoice::Bind { volume, .. } = choice else {
        if claim["metadata"]["annotations"][SELECTED_NODE] == *node {
            return Ok(());
        }
        let body = json!({ "metadata": { "annotations": { SELECTED_NODE: node } } });
        return write(calls, &path, &body).await;
    };
    let path = format!("/api/v1/persistentvolumes/{volume}");
    let found = read(calls, &path).await?;
    let promised = &found["spec"]["claimRef"];
    let metadata = &claim["metadata"];
    if promised["uid"] == metadata["uid"] {
        return Ok(());
    }
    if promised["uid"].is_string() {
        return Err(Failure {
            kind: FailureKind::Conflict,
            message: format!("persistentvolume \"{volume}\" was given to another claim"),
        });
    }
    // The version is a precondition, so that of two schedulers only one gets the volume.
    let body = json!({
        "metadata": {
            "resourceVersion": found["metadata"]["resourceVersion"],
            "annotations": { "pv.kubernetes.io/bound-by-controller": "yes" },
        },
        "spec": { "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": metadata["namespace"],
            "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
        } },
    });
    write(calls, &path, &body).await
}

/// Whether every claim has its volume.
async fn are_bound(
    calls: &Calls,
    pod: &PodRef,
    node: &str,
    volumes: &[VolumeChoice],
) -> Result<bool, Failure> {
    for choice in volumes {
        let name = claim_of(choice);
        let claim = read(calls, &claim_path(pod, name)).await?;
        if claim["status"]["phase"] == "Bound" {
            continue;
        }
        let provisions = matches!(choice, VolumeChoice::Provision { .. });
        if provisions && claim["metadata"]["annotations"][SELECTED_NODE] != *node {
            // Whoever makes the volume takes the node away where it cannot.
            return Err(Failure {
                kind: FailureKind::Conflict,
                message: format!("no volume can be made for claim \"{name}\" on node {node}"),
            });
        }
        return Ok(false);
    }
    Ok(true)
}
