//! The changes by admission: a JSON patch (RFC 6902) of additions and replacements.

use serde::Serialize;
use serde_json::Value;

/// One operation of a JSON patch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PatchOperation {
    /// The operation at the path.
    pub op: Op,
    /// A JSON pointer (RFC 6901).
    pub path: String,
    /// The new value.
    pub value: Value,
}

/// The kind of operation; both set a field of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// The field may be there already.
    Add,
    /// The field has to be there.
    Replace,
}

impl PatchOperation {
    pub(super) fn add(path: &str, value: impl Into<Value>) -> Self {
        Self::new(Op::Add, path, value)
    }

    pub(super) fn replace(path: &str, value: impl Into<Value>) -> Self {
        Self::new(Op::Replace, path, value)
    }

    fn new(op: Op, path: &str, value: impl Into<Value>) -> Self {
        Self {
            op,
            path: path.to_owned(),
            value: value.into(),
        }
    }
}

/// The object after these operations; `None` if the object that a field belongs to is not there, or the field that is
/// replaced.
pub fn patched(object: &Value, patch: &[PatchOperation]) -> Option<Value> {
    let mut object = object.clone();
    for PatchOperation { op, path, value } in patch {
        let (parent, field) = path.rsplit_once('/')?;
        let fields = object.pointer_mut(parent)?.as_object_mut()?;
        let field = field.replace("~1", "/").replace("~0", "~");
        if *op == Op::Replace && !fields.contains_key(&field) {
            return None;
        }
        fields.insert(field, value.clone());
    }
    Some(object)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn fields_are_set_and_escaped_names_are_read() {
        let object = json!({"spec": {"a": 1}, "metadata": {"annotations": {}}});
        let patch = [
            PatchOperation::add("/spec/b", 2),
            PatchOperation::replace("/spec/a", 3),
            PatchOperation::add("/metadata/annotations/x~1y~0", "z"),
        ];
        let expected =
            json!({"spec": {"a": 3, "b": 2}, "metadata": {"annotations": {"x/y~": "z"}}});
        assert_eq!(patched(&object, &patch), Some(expected));
        for misplaced in ["/status/a", "/spec/a/b", "nothing"] {
            assert_eq!(patched(&object, &[PatchOperation::add(misplaced, 1)]), None);
        }
        let absent = [PatchOperation::replace("/spec/c", 1)];
        assert_eq!(patched(&object, &absent), None);
        let reported = serde_json::to_value(&patch[1]).unwrap();
        assert_eq!(
            reported,
            json!({"op": "replace", "path": "/spec/a", "value": 3})
        );
    }
}
