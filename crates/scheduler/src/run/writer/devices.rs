//! The claims of a pod on devices get what was decided for them before it is bound: first the finalizer that keeps a claim from
//! being deleted while it has devices, then the devices and the pod that may use them. Every write holds only for the version of
//! the claim that was looked at, so that nobody's devices are overwritten.

use super::PodRef;
use super::calls::Calls;
use super::patient::{read, write};
use crate::run::attempts::{Failure, FailureKind};
use evictd_placement::DeviceChoice;
use evictd_pod::wire::{Allocation, Consumer};
use evictd_scheduling::ClaimRef;
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::sleep;

const FINALIZER: &str = "resource.kubernetes.io/delete-protection";
/// How often somebody else may be faster.
const CONFLICTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);

/// What has to be written next.
enum Next {
    Nothing,
    Metadata(Value),
    Status(Value),
}

/// Writes all of it.
pub(super) async fn prepare(
    calls: &Calls,
    pod: &PodRef,
    devices: &[DeviceChoice],
) -> Result<(), Failure> {
    for choice in devices {
        let path = path(&pod.namespace, &choice.claim);
        let mut conflicts = 0;
        loop {
            let written = match next(pod, choice, &read(calls, &path).await?)? {
                Next::Nothing => break,
                Next::Metadata(body) => write(calls, &path, &body).await,
                Next::Status(body) => write(calls, &format!("{path}/status"), &body).await,
            };
            match written {
                Err(failure) if failure.kind == FailureKind::Conflict && conflicts < CONFLICTS => {
                    conflicts += 1;
                }
                other => other?,
            }
        }
    }
    Ok(())
}

fn path(namespace: &str, claim: &str) -> String {
    format!("/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims/{claim}")
}

fn next(pod: &PodRef, choice: &DeviceChoice, claim: &Value) -> Result<Next, Failure> {
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
    let version = &metadata["resourceVersion"];
    let reserved = consumers(status);
    let is_reserved = reserved.iter().any(|own| *own.uid == *pod.uid);
    let is_allocated = !status["allocation"].is_null();
    let mut new = json!({});
    match &choice.allocation {
        // An answer may have been lost.
        _ if is_allocated && is_reserved => return Ok(Next::Nothing),
        // A pod of the same gang may have been faster.
        Some(own) if has_devices_of(status, own) => {}
        Some(_) if is_allocated => return elsewhere("allocated elsewhere"),
        None if !is_allocated => return elsewhere("deallocated elsewhere"),
        Some(allocation) => {
            let finalizers = metadata["finalizers"].as_array();
            let mut finalizers = finalizers.cloned().unwrap_or_default();
            if !finalizers.iter().any(|own| own == FINALIZER) {
                finalizers.push(FINALIZER.into());
                return Ok(Next::Metadata(json!({
                    "metadata": { "resourceVersion": version, "finalizers": finalizers },
                })));
            }
            new["allocation"] = json!(allocation);
        }
        None => {}
    }
    let mut reserved = json!(reserved);
    if let Some(reserved) = reserved.as_array_mut() {
        reserved.push(json!({ "resource": "pods", "name": pod.name, "uid": *pod.uid }));
    }
    new["reservedFor"] = reserved;
    Ok(Next::Status(status_of(version, &new)))
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
    // What is no list of them is none, and the server refuses to have it replaced.
    Vec::deserialize(&status["reservedFor"]).unwrap_or_default()
}

/// The pod was not bound: it does not use the claims. Returns them as they are now, devices included that they have got, which
/// nobody else may be given. With `deallocates` a claim that nobody else uses gives those back that it has got for the pod.
/// Goes on until the server answers.
pub(super) async fn give_back(
    calls: &Calls,
    pod: &PodRef,
    devices: &[DeviceChoice],
    deallocates: bool,
) -> Vec<Value> {
    let mut claims = Vec::new();
    for choice in devices {
        let path = path(&pod.namespace, &choice.claim);
        let got = choice.allocation.as_ref().filter(|_| deallocates);
        let claim = loop {
            match unused(calls, pod, &path, got).await {
                Ok(claim) => break claim,
                Err(failure) if failure.kind == FailureKind::Refused => break None,
                Err(_) => sleep(PAUSE).await,
            }
        };
        claims.extend(claim);
    }
    claims
}

/// The claim at this path without the pod as its user, and without what it has got for the pod; `None` if it is gone.
async fn unused(
    calls: &Calls,
    pod: &PodRef,
    path: &str,
    got: Option<&Allocation>,
) -> Result<Option<Value>, Failure> {
    loop {
        let claim = match read(calls, path).await {
            Err(failure) if failure.kind == FailureKind::Gone => return Ok(None),
            other => other?,
        };
        let status = &claim["status"];
        let mut reserved = consumers(status);
        let count = reserved.len();
        reserved.retain(|own| *own.uid != *pod.uid);
        let idle = reserved.is_empty() && got.is_some_and(|got| has_devices_of(status, got));
        if reserved.len() == count && !idle {
            return Ok(Some(claim));
        }
        let mut new = json!({ "reservedFor": reserved });
        if idle {
            new = nothing();
        }
        let body = status_of(&claim["metadata"]["resourceVersion"], &new);
        write(calls, &format!("{path}/status"), &body).await?;
    }
}

fn nothing() -> Value {
    json!({ "allocation": null, "reservedFor": null, "devices": null })
}

/// A claim gives its devices back, if it is still as it was when that was decided.
pub(super) async fn deallocate(calls: &Calls, claim: &ClaimRef) -> Result<(), Failure> {
    let mut body = status_of(&json!(claim.resource_version), &nothing());
    body["metadata"]["uid"] = claim.uid.as_str().into();
    let path = format!("{}/status", path(&claim.namespace, &claim.name));
    write(calls, &path, &body).await
}
