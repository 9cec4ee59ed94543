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

/// The form in which objects are requested.
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
        let go_on = after.map(|key| format!("{}:{}/{}", store.version, key.namespace, key.name));
        return Err(Status {
            continue_at: go_on,
            ..Status::expired(
                "The provided continue parameter is too old to display a consistent list result.",
            )
        });
    }
    let objects = store.list_at(call.resource, &call.namespace, version);
    let limit = call.number("limit")?.filter(|limit| *limit > 0);
    let (items, more) = page(&objects, after.as_ref(), &selection, limit);
    let mut metadata = json!({"resourceVersion": version.to_string()});
    if let Some((last, remaining)) = more {
        metadata["continue"] = format!("{version}:{}/{}", last.namespace, last.name).into();
        // With a selector the real one does not count, either.
        if call.option("fieldSelector").is_empty() && call.option("labelSelector").is_empty() {
            metadata["remainingItemCount"] = remaining.into();
        }
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

/// One page, and where others follow, its last key and how many they are.
fn page<'a>(
    objects: &'a BTreeMap<Key, Arc<Value>>,
    after: Option<&Key>,
    selection: &Selection,
    limit: Option<u64>,
) -> (Vec<&'a Value>, Option<(&'a Key, usize)>) {
    let found: Vec<(&Key, &Value)> = objects
        .iter()
        .filter(|(key, object)| after.is_none_or(|after| *key > after) && selection.matches(object))
        .map(|(key, object)| (key, &**object))
        .collect();
    let limit = limit.and_then(|limit| usize::try_from(limit).ok());
    let taken = limit.unwrap_or(found.len()).min(found.len());
    let (items, rest) = found.split_at(taken);
    let last = items.last().filter(|_| !rest.is_empty());
    let items = items.iter().map(|(_, object)| *object).collect();
    (items, last.map(|(key, _)| (*key, rest.len())))
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
            stored: call.resource.stored,
            namespace: namespace.to_owned(),
            name: name.to_owned(),
        };
        Some((version.parse().ok()?, key))
    });
    let wrong = || Status::bad_request("continue key is not valid");
    parsed.map(Some).ok_or_else(wrong)
}
