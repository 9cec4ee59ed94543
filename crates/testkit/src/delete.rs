//! Deletion: at once, after a grace period that a kubelet ends, or with the last finalizer.

use crate::call::Call;
use crate::status::Status;
use crate::store::Store;
use crate::time::time;
use crate::write::{existing, has_finalizers};
use crate::{event, read};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// `options` is a `DeleteOptions` or null.
pub(crate) fn delete(
    store: &mut Store,
    call: &Call,
    options: &Value,
    now: Timestamp,
) -> Result<Value, Status> {
    let mut object = existing(store, call)?;
    check_preconditions(call, options, &object)?;
    let dry = is_dry(call, options);
    let asked = call
        .number("gracePeriodSeconds")?
        .or(options["gracePeriodSeconds"].as_u64());
    let grace = grace(call, &object, asked);
    let metadata = &object["metadata"];
    let running = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0);
    let leaving = !metadata["deletionTimestamp"].is_null();
    let waits = grace > 0 || has_finalizers(&object);
    if leaving && waits && running <= grace {
        // A second request may shorten the first one's grace, never lengthen it.
        return Ok(event::shown(&object, call.resource));
    }
    // A pod carries the grace that its deletion was asked with even where that is none.
    if waits || call.resource.plural == "pods" {
        let metadata = &mut object["metadata"];
        let seconds = SignedDuration::from_secs(i64::try_from(grace).unwrap_or(i64::MAX));
        metadata["deletionTimestamp"] = time(now.saturating_add(seconds).unwrap_or(now));
        metadata["deletionGracePeriodSeconds"] = grace.into();
    }
    // Watches see the deletion timestamp as a change of its own before the object vanishes.
    if !dry && object != existing(store, call)? {
        object = Value::clone(&store.commit(call.key(), Some(object)));
    }
    if !dry && !waits {
        object = Value::clone(&store.commit(call.key(), None));
    }
    if waits || call.resource.plural == "pods" {
        return Ok(event::shown(&object, call.resource));
    }
    Ok(json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success",
        "details": {"name": call.name, "kind": call.resource.plural, "uid": object["metadata"]["uid"]},
    }))
}

/// Every object that a list of the same call would hold.
pub(crate) fn delete_all(
    store: &mut Store,
    call: &Call,
    options: &Value,
    now: Timestamp,
) -> Result<Value, Status> {
    let list = read::list(store, call)?;
    for item in list["items"].as_array().into_iter().flatten() {
        let text = |field: &str| {
            item["metadata"][field]
                .as_str()
                .unwrap_or_default()
                .to_owned()
        };
        let one = Call {
            namespace: text("namespace"),
            name: text("name"),
            ..call.clone()
        };
        delete(store, &one, options, now)?;
    }
    Ok(list)
}

pub(crate) fn check_preconditions(
    call: &Call,
    options: &Value,
    object: &Value,
) -> Result<(), Status> {
    for (field, name) in [("uid", "UID"), ("resourceVersion", "ResourceVersion")] {
        let wanted = &options["preconditions"][field];
        let found = &object["metadata"][field];
        if !wanted.is_null() && wanted != found {
            let why = format!(
                "Precondition failed: {name} in precondition: {}, {name} in object meta: {}",
                wanted.as_str().unwrap_or_default(),
                found.as_str().unwrap_or_default()
            );
            return Err(Status::conflict(call.resource, &call.name, &why));
        }
    }
    Ok(())
}

pub(crate) fn is_dry(call: &Call, options: &Value) -> bool {
    let dry = options["dryRun"].as_array();
    call.asks("dryRun") || dry.is_some_and(|all| !all.is_empty())
}

/// Seconds. Only pods that a kubelet runs have any.
fn grace(call: &Call, object: &Value, asked: Option<u64>) -> u64 {
    if call.resource.plural != "pods" {
        return 0;
    }
    let ended = matches!(
        object["status"]["phase"].as_str(),
        Some("Succeeded" | "Failed")
    );
    let placed = object["spec"]["nodeName"]
        .as_str()
        .is_some_and(|node| !node.is_empty());
    if ended || !placed {
        return 0;
    }
    let in_spec = object["spec"]["terminationGracePeriodSeconds"].as_u64();
    asked.or(in_spec).unwrap_or(30)
}
