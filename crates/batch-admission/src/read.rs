//! Fields of objects that are kept as they were written.

use evictd_pod::wire::ResourceList;
use serde::Deserialize;
use serde_json::Value;

/// The text of a field; absent is empty.
pub(super) fn text<'v>(object: &'v Value, field: &str) -> &'v str {
    object[field].as_str().unwrap_or_default()
}

/// The items of a field; absent is none.
pub(super) fn list<'v>(object: &'v Value, field: &str) -> &'v [Value] {
    object[field].as_array().map_or(&[], Vec::as_slice)
}

/// The number of a field; absent is 0.
pub(super) fn number(object: &Value, field: &str) -> i64 {
    object[field].as_i64().unwrap_or_default()
}

/// Whether a field has a value.
pub(super) fn has(object: &Value, field: &str) -> bool {
    !object[field].is_null()
}

/// Keys and values of a map of texts, sorted by key.
pub(super) fn texts<'v>(object: &'v Value, field: &str) -> Vec<(&'v str, &'v str)> {
    let map = object[field].as_object().into_iter().flatten();
    let mut entries: Vec<_> = map
        .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
        .collect();
    entries.sort_unstable();
    entries
}

/// The amounts of a field. Whether they are amounts was checked when the object was read.
pub(super) fn amounts(object: &Value, field: &str) -> ResourceList {
    ResourceList::deserialize(&object[field]).unwrap_or_default()
}
