//! Create, update and patch: validation of writes, and the fields that the server adds.

use crate::apply::APPLY;
use crate::call::Call;
use crate::status::Status;
use crate::store::{Key, Store};
use crate::time::time;
use crate::{apply, defaults, event, patch};
use jiff::Timestamp;
use serde_json::{Value, json};

/// A written object must have metadata.
fn checked(mut object: Value, call: &Call) -> Result<Value, Status> {
    let resource = call.resource;
    if !object.is_object() || !(object["metadata"].is_null() || object["metadata"].is_object()) {
        let message = format!(
            "{} in version \"{}\" cannot be handled",
            resource.kind, resource.version
        );
        return Err(Status::bad_request(message));
    }
    for (field, expected) in [
        ("apiVersion", resource.api_version()),
        ("kind", resource.kind.to_owned()),
    ] {
        if object[field]
            .as_str()
            .is_some_and(|given| given != expected)
        {
            let message = format!(
                "the {field} in the data ({}) does not match the expected one ({expected})",
                object[field]
            );
            return Err(Status::bad_request(message));
        }
        object[field] = expected.into();
    }
    Ok(event::kept(object, resource))
}

pub(crate) fn create(
    store: &mut Store,
    call: &Call,
    object: Value,
    now: Timestamp,
) -> Result<Value, Status> {
    if let Err(why) = event::check(&object, call.resource) {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        return Err(Status::invalid(call.resource, name, &why));
    }
    let mut object = checked(object, call)?;
    let resource = call.resource;
    let version = store.version;
    let metadata = &mut object["metadata"];
    if metadata["name"].is_null() {
        let Some(prefix) = metadata["generateName"].as_str() else {
            let why = "metadata.name: Required value: name or generateName is required";
            return Err(Status::invalid(resource, "", why));
        };
        // The version makes the name unique and the same in each run of a test.
        metadata["name"] = format!("{prefix}{version:05x}").into();
    }
    let name = metadata["name"].as_str().unwrap_or_default().to_owned();
    if resource.namespaced {
        let given = metadata["namespace"].as_str().unwrap_or(&call.namespace);
        if given != call.namespace {
            let message = "the namespace of the provided object does not match the namespace sent on the request";
            return Err(Status::bad_request(message));
        }
        let space = Key {
            stored: "namespaces",
            namespace: String::new(),
            name: call.namespace.clone(),
        };
        if store.get(&space).is_none() {
            return Err(Status::new(
                404,
                "NotFound",
                format!("namespaces \"{}\" not found", call.namespace),
            ));
        }
        metadata["namespace"] = call.namespace.clone().into();
    }
    metadata["uid"] = uid(now, version).into();
    metadata["creationTimestamp"] = time(now);
    metadata["generation"] = 1.into();
    if let Some(fields) = metadata.as_object_mut() {
        fields.remove("deletionTimestamp");
        fields.remove("resourceVersion");
    }
    let key = Key {
        name: name.clone(),
        ..call.key()
    };
    if store.get(&key).is_some() {
        return Err(Status::already_exists(resource, &name));
    }
    if call.content_type != APPLY {
        apply::record(call, &Value::Null, &mut object, now);
    }
    // A real server drops the status of a new custom object, which has a subresource for it.
    if resource.is_custom() && resource.has_status() {
        object.as_object_mut().map(|fields| fields.remove("status"));
    }
    defaults::fill(store, resource, &mut object);
    if call.asks("dryRun") {
        return Ok(event::shown(&object, resource));
    }
    Ok(event::shown(&store.commit(key, Some(object)), resource))
}

/// Unique within a server, and between servers that were not started in the same nanosecond. An older object has a smaller one.
fn uid(now: Timestamp, version: u64) -> String {
    let nanoseconds = now.as_nanosecond().unsigned_abs() & 0xffff_ffff_ffff;
    format!("{version:08x}-0000-4000-8000-{nanoseconds:012x}")
}

pub(crate) fn update(
    store: &mut Store,
    call: &Call,
    object: Value,
    now: Timestamp,
) -> Result<Value, Status> {
    let object = checked(object, call)?;
    let old = existing(store, call)?;
    let version = object["metadata"]["resourceVersion"].as_str();
    // Two candidates must not both win an election by an update without a version.
    if call.resource.plural == "leases" && version.is_none_or(str::is_empty) {
        let why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update";
        return Err(Status::invalid(call.resource, &call.name, why));
    }
    put(store, call, &old, object, now)
}

pub(crate) fn patch(
    store: &mut Store,
    call: &Call,
    patch: Value,
    now: Timestamp,
) -> Result<Value, Status> {
    if call.content_type == APPLY {
        return apply(store, call, patch, now);
    }
    let old = existing(store, call)?;
    let mut object = event::shown(&old, call.resource);
    // A patch without a version applies to whatever version is stored; a JSON patch may test it.
    let shown_version = object["metadata"]["resourceVersion"].take();
    match call.content_type.as_str() {
        "application/merge-patch+json" => patch::merge(&mut object, &patch),
        // Who knows a kind by its definition only does not know which lists have keys.
        "application/strategic-merge-patch+json" if !call.resource.is_custom() => {
            patch::strategic(&mut object, &patch);
        }
        "application/json-patch+json" => {
            object["metadata"]["resourceVersion"] = shown_version;
            patch::json(&mut object, patch)?;
        }
        other => {
            let message = format!("the body of the request was in an unknown format - {other}");
            return Err(Status::new(415, "UnsupportedMediaType", message));
        }
    }
    put(store, call, &old, checked(object, call)?, now)
}

/// A missing object is created, unless only its status is applied.
fn apply(store: &mut Store, call: &Call, config: Value, now: Timestamp) -> Result<Value, Status> {
    let mut config = checked(config, call)?;
    let metadata = config["metadata"].as_object_mut();
    let version = metadata.and_then(|metadata| metadata.remove("resourceVersion"));
    let version = version.unwrap_or_default();
    if store.get(&call.key()).is_none() && call.subresource.is_empty() {
        config["metadata"]["name"] = call.name.clone().into();
        let made = apply::apply(call, &json!({}), &config, now)?;
        config["metadata"]["managedFields"] = made["metadata"]["managedFields"].clone();
        return create(store, call, config, now);
    }
    let old = existing(store, call)?;
    let mut new = apply::apply(call, &old, &config, now)?;
    // An apply without a version never conflicts with a concurrent write.
    let known = if version.is_null() {
        old["metadata"]["resourceVersion"].clone()
    } else {
        version
    };
    new["metadata"]["resourceVersion"] = known;
    put(store, call, &old, new, now)
}

pub(crate) fn existing(store: &Store, call: &Call) -> Result<Value, Status> {
    let object = store.get(&call.key());
    object
        .map(|object| Value::clone(object))
        .ok_or_else(|| Status::not_found(call.resource, &call.name))
}

/// Replaces an object, if it is still the one that the writer knew, in those parts that this path may write.
pub(crate) fn put(
    store: &mut Store,
    call: &Call,
    old: &Value,
    mut new: Value,
    now: Timestamp,
) -> Result<Value, Status> {
    let resource = call.resource;
    let known = &new["metadata"]["resourceVersion"];
    if known.as_str().is_some_and(|known| !known.is_empty())
        && *known != old["metadata"]["resourceVersion"]
    {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        return Err(Status::conflict(resource, &call.name, why));
    }
    let uid = &new["metadata"]["uid"];
    if !uid.is_null() && *uid != old["metadata"]["uid"] {
        let why = format!(
            "Precondition failed: UID in precondition: {}, UID in object meta: {}",
            uid.as_str().unwrap_or_default(),
            old["metadata"]["uid"].as_str().unwrap_or_default()
        );
        return Err(Status::conflict(resource, &call.name, &why));
    }
    if new["metadata"]["name"] != old["metadata"]["name"] {
        let why = "metadata.name: Invalid value: field is immutable";
        return Err(Status::invalid(resource, &call.name, why));
    }
    keep_what_this_path_may_not_write(call, old, &mut new);
    // A write without a change makes no new version and no event, as on a real server.
    if new == *old {
        return Ok(event::shown(old, resource));
    }
    if call.content_type != APPLY {
        apply::record(call, old, &mut new, now);
    }
    // Controllers compare the generation with their observed one, so that status writes must not raise it.
    if new["spec"] != old["spec"] {
        let generation = old["metadata"]["generation"].as_u64().unwrap_or(0);
        new["metadata"]["generation"] = (generation + 1).into();
    }
    if call.asks("dryRun") {
        return Ok(event::shown(&new, resource));
    }
    // Watches see the last change before the deletion, as two events.
    let finished = finished(&new);
    let kept = store.commit(call.key(), Some(new));
    if finished {
        store.commit(call.key(), None);
    }
    Ok(event::shown(&kept, resource))
}

/// Whether its deletion waited only for the last finalizer, which is removed now.
fn finished(object: &Value) -> bool {
    let metadata = &object["metadata"];
    let waits = metadata["deletionGracePeriodSeconds"].as_u64().unwrap_or(0) > 0;
    !metadata["deletionTimestamp"].is_null() && !waits && !has_finalizers(object)
}

pub(crate) fn has_finalizers(object: &Value) -> bool {
    let finalizers = object["metadata"]["finalizers"].as_array();
    finalizers.is_some_and(|finalizers| !finalizers.is_empty())
}

fn keep_what_this_path_may_not_write(call: &Call, old: &Value, new: &mut Value) {
    let keep = |new: &mut Value, old: &Value, field: &str| {
        if old[field].is_null() {
            if let Some(fields) = new.as_object_mut() {
                fields.remove(field);
            }
        } else {
            new[field] = old[field].clone();
        }
    };
    let metadata = &old["metadata"];
    for field in [
        "uid",
        "namespace",
        "creationTimestamp",
        "generation",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    ] {
        keep(&mut new["metadata"], metadata, field);
    }
    if call.subresource == "status" {
        keep(new, old, "spec");
        // Annotations and labels may be written along with a pod's or a node's status.
        match call.resource.plural {
            "pods" => keep(&mut new["metadata"], metadata, "ownerReferences"),
            "nodes" => {}
            _ => keep(new, old, "metadata"),
        }
    } else if call.resource.has_status() {
        keep(new, old, "status");
    }
}
