//! Events are the same objects in two groups, with other names of their fields.

use crate::resource::Resource;
use serde_json::Value;

/// In the core group, and in `events.k8s.io`.
const NAMES: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("reportingComponent", "reportingController"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
];

/// An object that is kept, as this kind shows it.
pub(crate) fn shown(object: &Value, resource: &Resource) -> Value {
    let mut object = object.clone();
    if resource.group == "events.k8s.io" {
        rename(&mut object, NAMES);
        object["apiVersion"] = resource.api_version().into();
    }
    object
}

/// An object of this kind, as it is kept.
pub(crate) fn kept(mut object: Value, resource: &Resource) -> Value {
    if resource.group == "events.k8s.io" {
        rename(&mut object, NAMES.map(|(core, new)| (new, core)));
        object["apiVersion"] = "v1".into();
    }
    object
}

/// Checks the fields that `events.k8s.io` requires of a new event.
pub(crate) fn check(object: &Value, resource: &Resource) -> Result<(), String> {
    if resource.group != "events.k8s.io" {
        return Ok(());
    }
    let text = |field: &str| object[field].as_str().unwrap_or_default();
    for field in [
        "eventTime",
        "reportingController",
        "reportingInstance",
        "action",
        "reason",
        "type",
    ] {
        if text(field).is_empty() {
            return Err(format!("{field}: Required value"));
        }
    }
    for (field, longest) in [
        ("reportingInstance", 128),
        ("action", 128),
        ("reason", 128),
        ("note", 1024),
    ] {
        if text(field).len() > longest {
            return Err(format!(
                "{field}: Invalid value: \"\": can have at most {longest} characters"
            ));
        }
    }
    if !matches!(text("type"), "Normal" | "Warning") {
        return Err(format!(
            "type: Invalid value: {:?}: has invalid value",
            text("type")
        ));
    }
    Ok(())
}

fn rename<'a>(object: &mut Value, names: impl IntoIterator<Item = (&'a str, &'a str)>) {
    let Some(fields) = object.as_object_mut() else {
        return;
    };
    for (from, to) in names {
        if let Some(value) = fields.remove(from) {
            fields.insert(to.to_owned(), value);
        }
    }
}
