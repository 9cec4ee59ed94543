//! `PreBind` and Unreserve of resource claims.
//!
//! A claim first gets the finalizer that prevents its deletion while it has devices. Then it gets the devices, and the pod that
//! may use them. The resource version is a precondition of every status, so that devices of another pod are never overwritten.

use super::PodRef;
use super::calls::Calls;
use super::retry::{read, write, write_and_read};
use crate::run::api_retry::{Failure, FailureKind};
use evictd_placement::DeviceChoice;
use evictd_pod::wire::{Allocation, Consumer};
use evictd_scheduling::ClaimRef;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// The most retries after a write of another client.
const CONFLICTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// Allocates and reserves the devices of a pod, with two requests for each claim, as kube-scheduler does.
pub(super) async fn pre_bind(
    calls: &Calls,
    pod: &PodRef,
    devices: &[DeviceChoice],
) -> Result<(), Failure> {
    for choice in devices {
        let path = path(&pod.namespace, &choice.claim);
        let mut conflicts = 0;
        while let Some(body) = status_to_write(pod, choice, &present(calls, &path, choice).await?)?
        {
            match write(calls, &format!("{path}/status"), &body).await {
                Ok(()) => break,
                Err(failure) if failure.kind == FailureKind::Conflict && conflicts < CONFLICTS => {
                    // Another client has changed the claim.
                    conflicts += 1;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
    Ok(())
}

/// The claim as it is now. Before it gets devices it gets the finalizer, so that it cannot be deleted while they are in use. The
/// answer to that write is the claim, which saves a read.
async fn present(calls: &Calls, path: &str, choice: &DeviceChoice) -> Result<Value, Failure> {
    if choice.allocation.is_none() {
        return read(calls, path).await;
    }
    // A strategic merge adds to the finalizers of other clients.
    let metadata = json!({ "uid": choice.uid, "finalizers": [FINALIZER] });
    write_and_read(calls, path, &json!({ "metadata": metadata })).await
}

fn path(namespace: &str, claim: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{claim}")
}

/// The status with which the pod has the devices of its claim. `None` if the claim has it.
fn status_to_write(
    pod: &PodRef,
    choice: &DeviceChoice,
    claim: &Value,
) -> Result<Option<Value>, Failure> {
    let (metadata, status) = (&claim["metadata"], &claim["status"]);
    let name = format!("{}/{}", pod.namespace, choice.claim);
    let elsewhere = |what: &str| {
        Err(Failure {
            kind: FailureKind::Conflict,
            message: format!("claim {name} got {what} in the meantime"),
        })
    };
    if metadata["uid"] != *choice.uid || !metadata["deletionTimestamp"].is_null() {
        return elsewhere("deleted");
    }
    let reserved = consumers(status);
    let is_reserved = reserved.iter().any(|consumer| *consumer.uid == *pod.uid);
    let is_allocated = !status["allocation"].is_null();
    let mut new = json!({});
    match &choice.allocation {
        // An earlier write whose answer was lost.
        _ if is_allocated && is_reserved => return Ok(None),
        // Another pod of the gang has written the same allocation.
        Some(allocation) if has_devices_of(status, allocation) => {}
        Some(_) if is_allocated => return elsewhere("allocated elsewhere"),
        None if !is_allocated => return elsewhere("deallocated elsewhere"),
        Some(allocation) => new["allocation"] = json!(allocation),
        None => {}
    }
    let mut reserved = json!(reserved);
    if let Some(reserved) = reserved.as_array_mut() {
        reserved.push(json!({ "resource": "pods", "name": pod.name, "uid": *pod.uid }));
    }
    new["reservedFor"] = reserved;
    Ok(Some(status_of(&metadata["resourceVersion"], &new)))
}

/// Whether a claim of this status has these devices.
fn has_devices_of(status: &Value, allocation: &Allocation) -> bool {
    let found = Allocation::deserialize(&status["allocation"]);
    found.is_ok_and(|found| found.has_devices_of(allocation))
}

fn status_of(version: &Value, status: &Value) -> Value {
    json!({ "metadata": { "resourceVersion": version }, "status": status })
}

fn consumers(status: &Value) -> Vec<Consumer> {
    // Anything but a list counts as empty. The server then refuses the write that would replace it.
    Vec::deserialize(&status["reservedFor"]).unwrap_or_default()
}

/// Removes a pod that was not bound from its claims. Returns the present claims: their devices belong to them and are not free.
/// With `deallocates`, a claim without other users also loses the devices that it got for the pod. Retries until the server
/// answers.
pub(super) async fn unreserve(
    calls: &Calls,
    pod: &PodRef,
    devices: &[DeviceChoice],
    deallocates: bool,
) -> Vec<Value> {
    let mut claims = Vec::new();
    for choice in devices {
        let path = path(&pod.namespace, &choice.claim);
        let allocation = choice.allocation.as_ref().filter(|_| deallocates);
        let claim = loop {
            match unreserve_claim(calls, pod, &path, allocation).await {
                Ok(claim) => break claim,
                // A refused write would be refused again, and after a stop none is sent.
                Err(failure)
                    if matches!(failure.kind, FailureKind::Refused | FailureKind::Stopped) =>
                {
                    break None;
                }
                Err(_) => sleep(PAUSE).await,
            }
        };
        claims.extend(claim);
    }
    claims
}

/// Removes the pod and this allocation from a claim, and returns the claim. `None` if it was deleted.
async fn unreserve_claim(
    calls: &Calls,
    pod: &PodRef,
    path: &str,
    allocation: Option<&Allocation>,
) -> Result<Option<Value>, Failure> {
    loop {
        let claim = match read(calls, path).await {
            Err(failure) if failure.kind == FailureKind::Gone => return Ok(None),
            other => other?,
        };
        let status = &claim["status"];
        let mut reserved = consumers(status);
        let count = reserved.len();
        reserved.retain(|consumer| *consumer.uid != *pod.uid);
        let deallocates = reserved.is_empty()
            && allocation.is_some_and(|allocation| has_devices_of(status, allocation));
        if reserved.len() == count && !deallocates {
            return Ok(Some(claim));
        }
        let mut new = json!({ "reservedFor": reserved });
        if deallocates {
            new = unallocated();
        }
        let body = status_of(&claim["metadata"]["resourceVersion"], &new);
        write(calls, &format!("{path}/status"), &body).await?;
    }
}

fn unallocated() -> Value {
    json!({ "allocation": null, "reservedFor": null, "devices": null })
}

/// Deallocates a claim, unless it has changed since the decision.
pub(super) async fn deallocate(calls: &Calls, claim: &ClaimRef) -> Result<(), Failure> {
    let mut body = status_of(&json!(claim.resource_version), &unallocated());
    body["metadata"]["uid"] = claim.uid.as_str().into();
    let path = format!("{}/status", path(&claim.namespace, &claim.name));
    write(calls, &path, &body).await
}
