//! `PreBind` and Unreserve of resource claims.
//!
//! A claim first gets the finalizer that prevents its deletion while it has devices. Then it gets the devices, and the pod that
//! may use them, or the group of the pod (S7-101). The resource version is a precondition of every status, so that devices of
//! another pod are never overwritten.

use super::PodRef;
use super::calls::Calls;
use super::retry::{read, write, write_and_read};
use super::special_claim::{self, FINALIZER, path};
use crate::run::api_retry::{Failure, FailureKind};
use evictd_devices::{Binding, binding};
use evictd_placement::DeviceChoice;
use evictd_pod::wire::{Allocation, Consumer, ResourceClaim};
use evictd_scheduling::ClaimRef;
use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The most retries after a write of another client.
const CONFLICTS: u32 = 5;
const PAUSE: Duration = Duration::from_secs(1);
/// The interval between two looks at the conditions of devices.
const LOOK: Duration = Duration::from_secs(5);
/// The clocks of schedulers may differ by this.
const LATE: SignedDuration = SignedDuration::from_secs(1);

/// Allocates and reserves the devices of a pod, with two requests for each claim, as kube-scheduler does. Then waits until
/// drivers have bound those that need it, but not longer than `within`; `announce` is called before. `created` receives whether
/// a special claim could be created.
pub(super) async fn pre_bind(
    calls: &Calls,
    pod: &PodRef,
    devices: &[DeviceChoice],
    within: Duration,
    (announce, created): (impl FnOnce(), impl Fn(bool)),
) -> Result<(), Failure> {
    let mut waits = Vec::new();
    for choice in devices {
        let special = special_claim::created(calls, pod, choice, &created).await?;
        let choice = special.as_ref().unwrap_or(choice);
        let path = path(&pod.namespace, &choice.claim);
        write_status(calls, pod, choice, &path).await?;
        if let Some(special) = &choice.special {
            special_claim::show(calls, pod, &choice.claim, special).await?;
        }
        if choice.needs_binding {
            waits.push(path);
        }
    }
    if waits.is_empty() {
        return Ok(());
    }
    announce();
    wait_until_bound(calls, &waits, within).await
}

async fn write_status(
    calls: &Calls,
    pod: &PodRef,
    choice: &DeviceChoice,
    path: &str,
) -> Result<(), Failure> {
    let mut conflicts = 0;
    while let Some(body) = status_to_write(pod, choice, &present(calls, path, choice).await?)? {
        match write(calls, &format!("{path}/status"), &body).await {
            Ok(()) => break,
            Err(failure) if failure.kind == FailureKind::Conflict && conflicts < CONFLICTS => {
                // Another client has changed the claim.
                conflicts += 1;
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// Waits for the conditions of devices, as kube-scheduler does with a look every five seconds, the first at once.
async fn wait_until_bound(
    calls: &Calls,
    claims: &[String],
    within: Duration,
) -> Result<(), Failure> {
    let began = Instant::now();
    loop {
        let mut is_ready = true;
        for path in claims {
            is_ready &= is_bound(calls, path, within).await?;
        }
        if is_ready {
            return Ok(());
        }
        if began.elapsed() + LOOK > within {
            return Err(late("timeout: context deadline exceeded"));
        }
        sleep(LOOK).await;
    }
}

fn not_bound(why: &str) -> Failure {
    Failure {
        kind: FailureKind::Conflict,
        message: format!("running PreBind plugin \"DynamicResources\": device binding {why}"),
    }
}

fn late(why: &str) -> Failure {
    Failure {
        kind: FailureKind::DevicesLate,
        ..not_bound(why)
    }
}

/// Whether the devices of a claim are bound. Fails if a driver says that they cannot be, or if another pod has waited for
/// them too long.
async fn is_bound(calls: &Calls, path: &str, within: Duration) -> Result<bool, Failure> {
    let claim = read(calls, path).await?;
    let claim = ResourceClaim::deserialize(&claim).map_err(|error| Failure {
        kind: FailureKind::Refused,
        message: format!("{path}: {error}"),
    })?;
    let name = &claim.metadata.name;
    let Some(allocation) = &claim.status.allocation else {
        return Err(not_bound(&format!("failed: claim={name} was deallocated")));
    };
    match binding(allocation, &claim.status) {
        Binding::Ready => return Ok(true),
        Binding::Failed(reason, message) => {
            return Err(not_bound(&format!(
                "failed: claim={name}, reason={reason}, message={message:?}"
            )));
        }
        Binding::Pending => {}
    }
    let since = allocation.allocation_timestamp.as_deref();
    let since = since.and_then(|since| since.parse::<Timestamp>().ok());
    let limit = SignedDuration::try_from(within).unwrap_or(SignedDuration::MAX);
    let is_late = |since: Timestamp| Timestamp::now().duration_since(since) > limit + LATE;
    if since.is_some_and(is_late) {
        return Err(late(&format!("timeout: claim={name}")));
    }
    Ok(false)
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
    let is_reserved = reserved.iter().any(|consumer| match &choice.group {
        Some(group) => consumer.is_group(&group.name),
        None => *consumer.uid == *pod.uid,
    });
    let is_allocated = !status["allocation"].is_null();
    let mut new = json!({});
    match &choice.allocation {
        // An earlier write whose answer was lost.
        _ if is_allocated && is_reserved && choice.group.is_none() => return Ok(None),
        // Another pod of the gang has written the same allocation.
        Some(allocation) if is_reserved && has_devices_of(status, allocation) => return Ok(None),
        Some(allocation) if has_devices_of(status, allocation) => {}
        Some(_) if is_allocated => return elsewhere("allocated elsewhere"),
        None if !is_allocated => return elsewhere("deallocated elsewhere"),
        Some(allocation) => new["allocation"] = json!(allocation),
        None if is_reserved => return Ok(None),
        None => {}
    }
    if status["allocation"]["allocationTimestamp"].is_null() {
        let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        new["allocation"]["allocationTimestamp"] = now.into();
    }
    let mut reserved = json!(reserved);
    if let Some(reserved) = reserved.as_array_mut().filter(|_| !is_reserved) {
        reserved.push(match &choice.group {
            Some(group) => json!(group),
            None => json!({ "resource": "pods", "name": pod.name, "uid": *pod.uid }),
        });
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
/// With `deallocates`, a claim without other users also loses the devices that it got for the pod. A claim of its group stays
/// as it is, because other pods of the group may use it. Retries until the server answers.
pub(super) async fn unreserve(
    calls: &Calls,
    pod: &PodRef,
    devices: &[DeviceChoice],
    deallocates: bool,
) -> Vec<Value> {
    let mut claims = Vec::new();
    for choice in devices {
        let path = path(&pod.namespace, &special_claim::name(pod, choice));
        let allocation = choice.allocation.as_ref().filter(|_| deallocates);
        let claim = loop {
            let answer = if choice.special.is_some() {
                special_claim::remove_of(calls, pod, &path)
                    .await
                    .map(|()| None)
            } else if choice.group.is_some() {
                read(calls, &path).await.map(Some)
            } else {
                unreserve_claim(calls, pod, &path, allocation).await
            };
            match answer {
                Ok(claim) => break claim,
                // A refused write would be refused again, and after a stop none is sent.
                Err(failure)
                    if matches!(
                        failure.kind,
                        FailureKind::Refused | FailureKind::Stopped | FailureKind::Gone
                    ) =>
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

/// Deallocates a claim, or deletes a special one, unless it has changed since the decision.
pub(super) async fn deallocate(calls: &Calls, claim: &ClaimRef) -> Result<(), Failure> {
    if claim.is_special {
        let path = path(&claim.namespace, &claim.name);
        return special_claim::remove(calls, &path, &|found| {
            found["metadata"]["uid"] == *claim.uid
        })
        .await;
    }
    let mut body = status_of(&json!(claim.resource_version), &unallocated());
    body["metadata"]["uid"] = claim.uid.as_str().into();
    let path = format!("{}/status", path(&claim.namespace, &claim.name));
    write(calls, &path, &body).await
}
