//! Get and list.

use crate::call::Call;
use crate::event;
use crate::select::Selection;
use crate::status::Status;
use crate::store::{Key, Store};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(crate) fn get(store: &Store, call: &Call) -> Result<Value, Status> {
    let object = store
        .get(&call.key())
        .ok_or_else(|| Status::not_found(call.resource, &call.name))?;
    Ok(event::shown(object, call.resource))
}

/// What of the objects is asked for.
pub(crate) fn selection(call: &Call) -> Result<Selection, Status> {
    let mut fields = call.option("fieldSelector").to_owned();
    if call.verb == "watch" && !call.name.is_empty() {
        fields = format!("metadata.name={},{fields}", call.name);
    }
    Selection::parse(&fields, call.option("labelSelector"))
}

/// Refuses a version that is not reached yet.
pub(crate) fn known_version(store: &Store, call: &Call) -> Result<u64, Status> {
    let version = call.number("resourceVersion")?.unwrap_or(0);
    if version > store.version {
        return Err(Status::too_large(version, store.version));
    }
    Ok(version)
}

pub(crate) fn list(store: &Store, call: &Call) -> Result<Value, Status> {
    let selection = selection(call)?;
    let mut version = store.version;
    let asked = known_version(store, call)?;
    if call.option("resourceVersionMatch") == "Exact" {
        version = asked;
    }
    let mut after = None;
    if let Some((at, key)) = resumed(call)? {
        version = at;
        after = Some(key);
    }
    if version < store.compacted {
        return Err(Status::expired(
            "The provided continue parameter is too old to display a consistent list result.",
        ));
    }
    let objects = store.list_at(call.resource, &call.namespace, version);
    let limit = call.number("limit")?.filter(|limit| *limit > 0);
    let (items, more) = page(&objects, after.as_ref(), &selection, limit);
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some(last) = more {
        metadata["continue"] = format!("{version}:{}/{}", last.namespace, last.name).into();
    }
    let items: Vec<Value> = items
        .into_iter()
        .map(|object| {
            // Items of a list don't repeat its kind.
            let mut item = event::shown(object, call.resource);
            if let Some(fields) = item.as_object_mut() {
                fields.remove("kind");
                fields.remove("apiVersion");
            }
            item
        })
        .collect();
    Ok(json!({
        "kind": format!("{}List", call.resource.kind),
        "apiVersion": call.resource.api_version(),
        "metadata": metadata,
        "items": items,
    }))
}

/// One page, and its last key when others follow.
fn page<'a>(
    objects: &'a BTreeMap<Key, Arc<Value>>,
    after: Option<&Key>,
    selection: &Selection,
    limit: Option<u64>,
) -> (Vec<&'a Value>, Option<&'a Key>) {
    let mut items = Vec::new();
    let mut last = None;
    for (key, object) in objects {
        if after.is_some_and(|after| key <= after) || !selection.matches(object) {
            continue;
        }
        if limit.is_some_and(|limit| items.len() as u64 >= limit) {
            return (items, last);
        }
        items.push(&**object);
        last = Some(key);
    }
    (items, None)
}

/// The version and the last key that a `continue` holds.
fn resumed(call: &Call) -> Result<Option<(u64, Key)>, Status> {
    let token = call.option("continue");
    if token.is_empty() {
        return Ok(None);
    }
    let parsed = token.split_once(':').and_then(|(version, key)| {
        let (namespace, name) = key.split_once('/')?;
        let key = Key {
            plural: call.resource.plural,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        Some((version.parse().ok()?, key))
    });
    let wrong = || Status::bad_request("continue key is not valid");
    parsed.map(Some).ok_or_else(wrong)
}
