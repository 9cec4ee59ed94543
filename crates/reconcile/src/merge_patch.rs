//! Merge patches (RFC 7386).

use serde_json::{Map, Value};

/// The merge patch from `old` to `new`; `None` if they are equal.
pub fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Value::Object(old), Value::Object(new)) = (old, new) else {
        return Some(new.clone());
    };
    let removed = old.keys().filter(|key| !new.contains_key(*key));
    let mut patch: Map<String, Value> = removed.map(|key| (key.clone(), Value::Null)).collect();
    for (key, value) in new {
        let change = match old.get(key) {
            None => Some(value.clone()),
            Some(old) => difference(old, value),
        };
        if let Some(change) = change {
            patch.insert(key.clone(), change);
        }
    }
    Some(patch.into())
}

/// Applies a merge patch, as the API server does.
pub fn apply(document: &mut Value, patch: &Value) {
    let Value::Object(patch) = patch else {
        document.clone_from(patch);
        return;
    };
    if !document.is_object() {
        *document = Value::Object(Map::new());
    }
    let Some(object) = document.as_object_mut() else {
        return;
    };
    for (key, value) in patch {
        if value.is_null() {
            object.remove(key);
        } else {
            apply(object.entry(key.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_names_what_changed_and_what_is_gone() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": 0});
        let new = json!({"a": 1, "b": {"c": 1}, "e": [2], "g": 3});
        let patch = json!({"b": {"d": null}, "e": [2], "f": null, "g": 3});
        assert_eq!(difference(&old, &new), Some(patch.clone()));
        assert_eq!(difference(&old, &old), None);
        let mut patched = old;
        apply(&mut patched, &patch);
        assert_eq!(patched, new);
    }
}
