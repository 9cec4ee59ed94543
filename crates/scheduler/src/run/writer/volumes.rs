//! `PreBind` of volumes (S5-094). An existing volume is bound to its claim. A claim without one gets the selected node, for which
//! its provisioner creates a volume. Then the binding waits until all claims are bound.

use super::PodRef;
use super::calls::Calls;
use super::retry::{read, write};
use crate::run::api_retry::{Failure, FailureKind};
use evictd_placement::VolumeChoice;
use serde_json::json;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The annotation of a claim for its provisioner.
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// Binds or provisions the volumes of a pod. Fails if that takes longer than `within`.
pub(super) async fn pre_bind(
    calls: &Calls,
    pod: &PodRef,
    node: &str,
    volumes: &[VolumeChoice],
    within: Duration,
) -> Result<(), Failure> {
    for choice in volumes {
        write_choice(calls, pod, node, choice).await?;
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

/// Writes the choice for one claim, unless that was done before.
async fn write_choice(
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
    // The version is a precondition, so that only one of two schedulers gets the volume.
    // The annotation lets the volume controller undo the binding when the claim is deleted.
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
            // The provisioner removes the node if it cannot create a volume there.
            return Err(Failure {
                kind: FailureKind::Conflict,
                message: format!("no volume can be made for claim \"{name}\" on node {node}"),
            });
        }
        return Ok(false);
    }
    Ok(true)
}
