//! `PreBind` of volumes (S5-094). An existing volume is bound to its claim. A claim without one gets the selected node, for which
//! its provisioner creates a volume. Then the binding waits until all claims are bound, while the pod and its node exist.

use super::PodRef;
use super::calls::Calls;
use super::retry::{read, write};
use crate::run::api_retry::{Failure, FailureKind};
use evictd_placement::VolumeChoice;
use evictd_pod::selector::NodeTerm;
use evictd_pod::wire::{TextMap, VolumeNodeAffinity};
use serde::Deserialize;
use serde_json::{Value, json};
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
    if volumes.is_empty() {
        return Ok(());
    }
    let bound = bind(&Volumes { calls, pod, node }, volumes, within).await;
    bound.map_err(|failure| match failure.kind {
        FailureKind::Stopped => failure,
        kind => Failure {
            kind,
            message: format!("running PreBind plugin \"VolumeBinding\": {failure}"),
        },
    })
}

async fn bind(
    volumes: &Volumes<'_>,
    choices: &[VolumeChoice],
    within: Duration,
) -> Result<(), Failure> {
    for choice in choices {
        volumes.write_choice(choice).await?;
    }
    let began = Instant::now();
    let mut pause = FIRST_PAUSE;
    loop {
        match volumes.are_bound(choices).await {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            // kube-scheduler looks into its caches, which it has also while the server fails.
            Err(failure) if failure.is_passing() => {}
            Err(failure) => return Err(failure),
        }
        if began.elapsed() >= within {
            return Err(not_bound("context deadline exceeded"));
        }
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Another attempt may choose other volumes.
fn not_bound(why: impl std::fmt::Display) -> Failure {
    Failure {
        kind: FailureKind::Conflict,
        message: format!("binding volumes: {why}"),
    }
}

fn claim_of(choice: &VolumeChoice) -> &str {
    match choice {
        VolumeChoice::Bind { claim, .. } | VolumeChoice::Provision { claim } => claim,
    }
}

fn volume_path(volume: &str) -> String {
    format!("/api/v1/persistentvolumes/{volume}")
}

/// The volumes of a pod for a node.
struct Volumes<'c> {
    calls: &'c Calls,
    pod: &'c PodRef,
    node: &'c str,
}

impl Volumes<'_> {
    fn claim_path(&self, claim: &str) -> String {
        let namespace = &self.pod.namespace;
        format!("/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
    }

    /// Writes the choice for one claim, unless that was done before.
    async fn write_choice(&self, choice: &VolumeChoice) -> Result<(), Failure> {
        let path = self.claim_path(claim_of(choice));
        let claim = read(self.calls, &path).await?;
        let VolumeChoice::Bind { volume, .. } = choice else {
            if claim["metadata"]["annotations"][SELECTED_NODE] == *self.node {
                return Ok(());
            }
            let body = json!({ "metadata": { "annotations": { SELECTED_NODE: self.node } } });
            return write(self.calls, &path, &body).await;
        };
        let path = volume_path(volume);
        let found = read(self.calls, &path).await?;
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
        write(self.calls, &path, &body).await
    }

    /// Whether every claim has its volume. Fails if the pod cannot be bound any more, or not to this node.
    async fn are_bound(&self, choices: &[VolumeChoice]) -> Result<bool, Failure> {
        for choice in choices {
            let claim = self.claim(choice).await?;
            let is_bound = claim["status"]["phase"] == "Bound";
            match choice {
                VolumeChoice::Bind { .. } if is_bound => continue,
                VolumeChoice::Bind { volume, .. } => self.check_promised(volume).await?,
                VolumeChoice::Provision { claim: name } => {
                    self.check_selected(name, &claim)?;
                    let volume = claim["spec"]["volumeName"].as_str().filter(|_| is_bound);
                    if let Some(volume) = volume
                        && self.is_reachable(volume).await?
                    {
                        continue;
                    }
                }
            }
            self.node_labels().await?;
            self.check_pod().await?;
            return Ok(false);
        }
        Ok(true)
    }

    /// The claim of a choice as it is now. One that was deleted can be bound no more.
    async fn claim(&self, choice: &VolumeChoice) -> Result<Value, Failure> {
        let (name, namespace) = (claim_of(choice), &self.pod.namespace);
        let what = match choice {
            VolumeChoice::Bind { .. } => "binding",
            VolumeChoice::Provision { .. } => "provisioning pvc",
        };
        let found = read(self.calls, &self.claim_path(name)).await;
        found.map_err(|failure| match failure.kind {
            FailureKind::Gone => not_bound(format_args!(
                "failed to check {what}: persistentvolumeclaims \"{namespace}/{name}\" not found"
            )),
            _ => failure,
        })
    }

    /// The volume controller withdraws a volume that it cannot bind.
    async fn check_promised(&self, volume: &str) -> Result<(), Failure> {
        let found = read(self.calls, &volume_path(volume)).await?;
        if found["spec"]["claimRef"]["uid"].is_string() {
            return Ok(());
        }
        Err(not_bound(format_args!(
            "ClaimRef got reset for pv \"{volume}\""
        )))
    }

    /// The provisioner removes the node if it cannot create a volume there.
    fn check_selected(&self, name: &str, claim: &Value) -> Result<(), Failure> {
        match claim["metadata"]["annotations"][SELECTED_NODE].as_str() {
            Some(selected) if selected == self.node => Ok(()),
            Some(_) => Err(not_bound(format_args!(
                "provisioning failed for PVC \"{name}\""
            ))),
            None => Err(not_bound(format_args!(
                "selectedNode annotation reset for PVC \"{name}\""
            ))),
        }
    }

    /// Whether the node can reach a new volume. Fails if its provisioner has created it elsewhere.
    async fn is_reachable(&self, volume: &str) -> Result<bool, Failure> {
        let found = match read(self.calls, &volume_path(volume)).await {
            // The claim may be written before the volume.
            Err(failure) if failure.kind == FailureKind::Gone => return Ok(false),
            found => found?,
        };
        let affinity = Option::<VolumeNodeAffinity>::deserialize(&found["spec"]["nodeAffinity"]);
        // The API server stores no other.
        let Ok(Some(affinity)) = affinity else {
            return Ok(true);
        };
        let Some(required) = affinity.required else {
            return Ok(true);
        };
        let labels = self.node_labels().await?;
        let mut terms = required.node_selector_terms.iter();
        let is_reachable = terms.any(|term| {
            let term = NodeTerm::new(term, &mut |text| text);
            term.is_ok_and(|term| term.matches(self.node, &&labels))
        });
        if is_reachable {
            return Ok(true);
        }
        let node = self.node;
        Err(not_bound(format_args!(
            "pv \"{volume}\" node affinity doesn't match node \"{node}\": no matching NodeSelectorTerms"
        )))
    }

    /// The labels of the node, which may have been deleted. It is listed, because that right is there for the watch.
    async fn node_labels(&self) -> Result<TextMap, Failure> {
        let node = self.node;
        let path = format!("/api/v1/nodes?fieldSelector=metadata.name%3D{node}");
        let found = read(self.calls, &path).await?;
        let Some(found) = found["items"].as_array().and_then(|items| items.first()) else {
            return Err(not_bound(format_args!(
                "failed to get node \"{node}\": node \"{node}\" not found"
            )));
        };
        let labels = TextMap::deserialize(&found["metadata"]["labels"]);
        Ok(labels.unwrap_or_default())
    }

    async fn check_pod(&self) -> Result<(), Failure> {
        let found = self.calls.get(self.pod).await;
        // Another look follows if the server does not answer.
        let is_gone = found.is_ok_and(|found| found.is_none_or(|found| !found.is(self.pod)));
        if !is_gone {
            return Ok(());
        }
        let name = &self.pod.name;
        Err(Failure {
            kind: FailureKind::Gone,
            ..not_bound(format_args!(
                "pod does not exist any more: pod \"{name}\" not found"
            ))
        })
    }
}
