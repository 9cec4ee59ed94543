//! Reads a value as a type and finds all mistakes at once: it removes the offending value and reads the rest again.

use super::place::Step;
use evictd_spelling::with_nearest_field;
use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_path_to_error::{Path, Segment};

/// A value that prevents reading.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrongField {
    /// The path to it; empty for the whole.
    pub way: Vec<Step>,
    /// The path in print, with the parts that serde does not know as steps.
    pub key: String,
    /// The problem, with the nearest known field.
    pub message: String,
}

/// Reads a value as a type, and returns up to `most` mistakes in the order of the type's fields. The value without them is
/// returned too, if the type allows that.
pub fn read_typed<T: DeserializeOwned>(
    mut value: Value,
    most: usize,
) -> (Option<T>, Vec<WrongField>) {
    let mut found: Vec<WrongField> = Vec::new();
    loop {
        let error = match serde_path_to_error::deserialize::<_, T>(&value) {
            Ok(read) => return (Some(read), found),
            Err(error) => error,
        };
        let way = steps(error.path());
        // A mistake at the removed value or its parent follows from the removal.
        let follows = found.last().is_some_and(|last| last.way.starts_with(&way));
        if follows {
            return (None, found);
        }
        let root = way.is_empty();
        let key = if root {
            String::new()
        } else {
            error.path().to_string()
        };
        let message = with_nearest_field(&error.inner().to_string());
        // A mistake about the whole value cannot be removed to look for the next one.
        let is_last = root || found.len() + 1 >= most || !take_away(&mut value, &way);
        found.push(WrongField { way, key, message });
        if is_last {
            return (None, found);
        }
    }
}

/// The path to the wrong value, as far as serde knows it.
fn steps(path: &Path) -> Vec<Step> {
    let step = |segment: &Segment| match segment {
        Segment::Seq { index } => Some(Step::Index(*index)),
        Segment::Map { key } => Some(Step::Key(key.clone())),
        Segment::Enum { .. } | Segment::Unknown => None,
    };
    path.iter().map_while(step).collect()
}

/// Removes the value at `way` from its map. In a list it leaves an empty value, so that the others keep their indices.
/// Returns false if there is no such value.
fn take_away(value: &mut Value, way: &[Step]) -> bool {
    let Some((target, way)) = way.split_last() else {
        return false;
    };
    let holder = way.iter().try_fold(value, |value, step| match step {
        Step::Key(key) => value.get_mut(key),
        Step::Index(index) => value.get_mut(index),
    });
    match (holder, target) {
        (Some(Value::Object(map)), Step::Key(key)) => map.remove(key).is_some(),
        (Some(Value::Array(list)), Step::Index(index)) => list
            .get_mut(*index)
            // The entry stays, so that the indices of those after it remain true.
            .map(|value| *value = Value::Object(serde_json::Map::new()))
            .is_some(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default, deny_unknown_fields)]
    struct Server {
        port: u16,
        threads: Vec<u8>,
    }

    #[test]
    fn every_wrong_field_is_found_and_the_rest_is_read() {
        let value = json!({ "port": "many", "threds": 3, "threads": [1] });
        let (read, wrong) = read_typed::<Server>(value, 100);
        let threads = vec![1];
        assert_eq!(read, Some(Server { port: 0, threads }));
        let keys: Vec<&str> = wrong.iter().map(|wrong| wrong.key.as_str()).collect();
        assert_eq!(keys.len(), 2, "{wrong:?}");
        assert!(keys.contains(&"port") && keys.contains(&"threds"));
        let (read, wrong) = read_typed::<Server>(json!([]), 100);
        assert!(read.is_some() || wrong[0].way.is_empty(), "{wrong:?}");
    }
}
