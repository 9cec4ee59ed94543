//! `status.conditions` of pods and nodes.

use serde_json::{Value, json};

/// Whether the object has a condition of this type that is true.
pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    let conditions = object["status"]["conditions"].as_array();
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| condition["type"] == kind && condition["status"] == "True")
}

/// Sets one, without reason and message where they are empty. The time of its last transition stays when its status does.
pub(crate) fn set(object: &mut Value, kind: &str, holds: bool, reason: (&str, &str), now: &Value) {
    let status = if holds { "True" } else { "False" };
    if !object["status"]["conditions"].is_array() {
        object["status"]["conditions"] = json!([]);
    }
    let Some(conditions) = object["status"]["conditions"].as_array_mut() else {
        return;
    };
    let known = conditions
        .iter()
        .position(|condition| condition["type"] == kind);
    let since = known
        .map(|at| &conditions[at])
        .filter(|old| old["status"] == status);
    let since = since.map_or(now, |old| &old["lastTransitionTime"]).clone();
    let mut condition = json!({"type": kind, "status": status, "lastTransitionTime": since});
    for (field, text) in [("reason", reason.0), ("message", reason.1)] {
        if !text.is_empty() {
            condition[field] = text.into();
        }
    }
    match known {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
}
