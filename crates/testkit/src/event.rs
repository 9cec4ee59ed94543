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
