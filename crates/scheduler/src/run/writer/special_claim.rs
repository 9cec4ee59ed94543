//! The special claim for extended resources that devices serve. It is created when its pod is bound, and deleted if that fails.

use super::PodRef;
use super::calls::Calls;
use super::retry::{create, delete, read, until_answered, write};
use crate::run::api_retry::{Failure, FailureKind};
use evictd_devices::SpecialRequests;
use evictd_placement::DeviceChoice;
use evictd_scheduling::simulation::claims::{SPECIAL, mappings};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Protects a claim with devices from deletion.
pub(super) const FINALIZER: &str = "resource.kubernetes.io/delete-protection";

/// The path of a claim.
pub(super) fn path(namespace: &str, claim: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{claim}")
}

/// The name of a claim. That of a special claim is made of its pod, so that a repeated write finds the claim of the first.
pub(super) fn name<'a>(pod: &PodRef, choice: &'a DeviceChoice) -> Cow<'a, str> {
    if choice.special.is_none() {
        return Cow::Borrowed(&choice.claim);
    }
    let mut hasher = DefaultHasher::new();
    pod.uid.hash(&mut hasher);
    Cow::Owned(format!(
        "{}{:05x}",
        prefix(&pod.name),
        hasher.finish() & 0xf_ffff
    ))
}

/// Names of objects have at most 253 bytes.
fn prefix(pod: &str) -> String {
    const SUFFIX: &str = "-extended-resources-";
    let longest = 253 - SUFFIX.len() - 5;
    let end = (0..=pod.len().min(longest)).rev();
    let mut end = end.filter(|end| pod.is_char_boundary(*end));
    let pod = &pod[..end.next().unwrap_or(0)];
    format!("{pod}{SUFFIX}")
}

/// Creates the special claim of a choice. Returns the choice with its name and UID; `None` for another claim. `report` receives
/// whether the API server created it.
pub(super) async fn created(
    calls: &Calls,
    pod: &PodRef,
    choice: &DeviceChoice,
    report: &impl Fn(bool),
) -> Result<Option<DeviceChoice>, Failure> {
    let Some(special) = &choice.special else {
        return Ok(None);
    };
    let name = name(pod, choice).into_owned();
    let requests = special.requests.iter().map(|(name, class, count)| {
        let exactly = json!({
            "deviceClassName": class, "allocationMode": "ExactCount", "count": count,
        });
        json!({ "name": name, "exactly": exactly })
    });
    let body = json!({
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {
            "name": name,
            "generateName": prefix(&pod.name),
            "namespace": pod.namespace,
            "annotations": { SPECIAL: "true" },
            "ownerReferences": [{
                "apiVersion": "v1", "kind": "Pod", "controller": true,
                "name": pod.name, "uid": *pod.uid,
            }],
        },
        "spec": { "devices": { "requests": requests.collect::<Vec<_>>() } },
    });
    let all = path(&pod.namespace, "");
    let stored = create(calls, all.trim_end_matches('/'), &body).await;
    report(stored.is_ok());
    let stored = match stored {
        // An earlier write whose answer was lost.
        Err(failure) if failure.kind == FailureKind::Conflict => {
            let found = read(calls, &path(&pod.namespace, &name)).await?;
            if !is_of(&found, pod) || found["spec"] != body["spec"] {
                return Err(failure);
            }
            found
        }
        other => other?,
    };
    Ok(Some(DeviceChoice {
        claim: name,
        uid: stored["metadata"]["uid"]
            .as_str()
            .unwrap_or_default()
            .to_owned(),
        ..choice.clone()
    }))
}

fn is_of(claim: &Value, pod: &PodRef) -> bool {
    claim["metadata"]["ownerReferences"][0]["uid"] == *pod.uid
}

/// Shows the claim in the status of its pod, for the kubelet.
pub(super) async fn show(
    calls: &Calls,
    pod: &PodRef,
    claim: &str,
    special: &SpecialRequests,
) -> Result<(), Failure> {
    let status = json!({ "extendedResourceClaimStatus": {
        "resourceClaimName": claim, "requestMappings": mappings(special),
    } });
    let what = format!("the status of pod {pod}");
    let answer = until_answered(&what, || calls.patch_status(pod, &status)).await;
    answer.ok_or_else(|| Failure {
        kind: FailureKind::Conflict,
        message: format!("pod {pod} cannot name its claim {claim}"),
    })
}

/// Deletes the special claim of a pod that was not bound.
pub(super) async fn remove_of(calls: &Calls, pod: &PodRef, path: &str) -> Result<(), Failure> {
    remove(calls, path, &|found| is_of(found, pod)).await
}

/// Deletes a special claim if it is still the same. The finalizer that protects its devices is taken away first.
pub(super) async fn remove(
    calls: &Calls,
    path: &str,
    is_same: &(dyn Fn(&Value) -> bool + Sync),
) -> Result<(), Failure> {
    let gone = |failure: Failure| match failure.kind {
        FailureKind::Gone => Ok(()),
        _ => Err(failure),
    };
    let found = match read(calls, path).await {
        Ok(found) if is_same(&found) => found,
        Ok(_) => return Ok(()),
        Err(failure) => return gone(failure),
    };
    let metadata = &found["metadata"];
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    let others: Vec<&Value> = finalizers.filter(|name| **name != FINALIZER).collect();
    let body = json!({ "metadata": {
        "resourceVersion": metadata["resourceVersion"], "finalizers": others,
    } });
    if let Err(failure) = write(calls, path, &body).await {
        return gone(failure);
    }
    let uid = metadata["uid"].as_str().unwrap_or_default();
    delete(calls, path, uid).await.or_else(gone)
}
