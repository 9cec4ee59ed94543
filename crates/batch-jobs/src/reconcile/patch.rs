//! JSON patches, as the API server applies them.

use serde_json::Value;

/// Applies the operations `add` of a JSON patch whose path leads to a member of an object. An object that is empty counts
/// as missing: that is how the API server stores it.
pub(super) fn add(document: &mut Value, patch: &Value) -> Result<(), String> {
    for operation in patch.as_array().into_iter().flatten() {
        let pointer = operation["path"].as_str().unwrap_or_default();
        let (parent, key) = pointer.rsplit_once('/').unwrap_or_default();
        let object = document.pointer_mut(parent).and_then(Value::as_object_mut);
        let object = object.filter(|object| !object.is_empty() || parent == "/spec");
        let object = object.ok_or_else(|| {
            format!(
                "add operation does not apply: doc is missing path: \"{pointer}\": missing value"
            )
        })?;
        object.insert(key.replace("~1", "/"), operation["value"].clone());
    }
    Ok(())
}
