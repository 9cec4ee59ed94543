//! Patches of three kinds; the fourth, apply, is a story of its own.

use crate::status::Status;
use serde_json::{Map, Value};

/// Lists that are merged by a key of their elements; every other one is replaced.
const KEYS: [(&str, &[&str]); 12] = [
    ("conditions", &["type"]),
    ("containers", &["name"]),
    ("initContainers", &["name"]),
    ("ephemeralContainers", &["name"]),
    ("volumes", &["name"]),
    ("env", &["name"]),
    ("volumeMounts", &["mountPath"]),
    ("ports", &["containerPort", "protocol"]),
    ("ownerReferences", &["uid"]),
    ("imagePullSecrets", &["name"]),
    ("podIPs", &["ip"]),
    ("addresses", &["type"]),
];

/// The keys that distinguish the elements of this list.
pub(crate) fn keys(list: &str) -> Option<&'static [&'static str]> {
    KEYS.iter()
        .find(|(name, _)| *name == list)
        .map(|(_, keys)| *keys)
}

/// RFC 7386: null removes, objects merge, everything else replaces.
pub(crate) fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        target.clone_from(patch);
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if value.is_null() {
            fields.remove(name);
        } else {
            merge(fields.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

/// RFC 6902, except that a missing field passes a test for null, as in the library of the real API server.
pub(crate) fn json(target: &mut Value, mut patch: Value) -> Result<(), Status> {
    if let Some(operations) = patch.as_array_mut() {
        operations.retain(|one| {
            let place = one["path"].as_str().unwrap_or_default();
            let for_nothing = one["op"] == "test" && one.get("value") == Some(&Value::Null);
            !for_nothing || target.pointer(place).is_some()
        });
    }
    let wrong = |error: &dyn std::fmt::Display| Status::bad_request(format!("json patch: {error}"));
    let patch: json_patch::Patch = serde_json::from_value(patch).map_err(|error| wrong(&error))?;
    json_patch::patch(target, &patch)
        .map_err(|error| Status::new(422, "Invalid", format!("json patch: {error}")))
}

/// Kubernetes' own: like a merge, but lists that have keys are merged by them, and `$patch` and
/// `$deleteFromPrimitiveList` take away. The order that `$setElementOrder` asks for is not kept.
pub(crate) fn strategic(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        target.clone_from(patch);
        return;
    };
    if patch
        .get("$patch")
        .is_some_and(|directive| directive == "replace")
        || !target.is_object()
    {
        *target = Value::Object(Map::new());
    }
    let Some(fields) = target.as_object_mut() else {
        return;
    };
    for (name, value) in patch {
        if let Some(list) = name.strip_prefix("$deleteFromPrimitiveList/") {
            if let Some(Value::Array(list)) = fields.get_mut(list) {
                list.retain(|element| !value.as_array().is_some_and(|gone| gone.contains(element)));
            }
        } else if name.starts_with('$') {
        } else if value.is_null() {
            fields.remove(name);
        } else {
            let field = fields.entry(name.clone()).or_insert(Value::Null);
            match (name.as_str(), value) {
                ("finalizers", Value::Array(more)) => union(field, more),
                (_, Value::Array(elements)) => match keys(name) {
                    Some(keys) => merge_list(field, elements, keys[0]),
                    None => field.clone_from(value),
                },
                _ => strategic(field, value),
            }
        }
    }
}

fn union(field: &mut Value, more: &[Value]) {
    let mut all = field.as_array().cloned().unwrap_or_default();
    for element in more {
        if !all.contains(element) {
            all.push(element.clone());
        }
    }
    *field = Value::Array(all);
}

fn merge_list(field: &mut Value, patch: &[Value], key: &str) {
    let replaces = |element: &Value| element["$patch"] == "replace";
    let mut all = field.as_array().cloned().unwrap_or_default();
    if patch.iter().any(replaces) {
        all.clear();
    }
    for element in patch.iter().filter(|element| !replaces(element)) {
        let found = all.iter().position(|known| known[key] == element[key]);
        match (element["$patch"] == "delete", found) {
            (true, Some(at)) => drop(all.remove(at)),
            (true, None) => {}
            (false, Some(at)) => strategic(&mut all[at], element),
            (false, None) => {
                let mut new = Value::Null;
                strategic(&mut new, element);
                all.push(new);
            }
        }
    }
    *field = Value::Array(all);
}
