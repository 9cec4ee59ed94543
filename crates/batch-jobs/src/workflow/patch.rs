//! The merge patch from one document to another.

use serde_json::{Map, Value};

/// The merge patch from `old` to `new`; `None` if they are equal.
pub(super) fn difference(old: &Value, new: &Value) -> Option<Value> {
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

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_patch_names_what_changed_and_what_is_gone() {
        let old = json!({"a": 1, "b": {"c": 1, "d": 2}, "e": [1], "f": 0});
        let new = json!({"a": 1, "b": {"c": 1}, "e": [2], "g": 3});
        let patch = json!({"b": {"d": null}, "e": [2], "f": null, "g": 3});
        assert_eq!(difference(&old, &new), Some(patch));
        assert_eq!(difference(&old, &old), None);
    }
}
