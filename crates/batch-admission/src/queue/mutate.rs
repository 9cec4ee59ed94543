//! Defaults of a new queue (S6-083).

use super::hierarchy::{HIERARCHY, WEIGHTS};
use crate::patch::PatchOperation;
use evictd_batch_objects::Queue;

/// The changes.
pub(crate) fn patch(queue: &Queue) -> Vec<PatchOperation> {
    let mut changes = Vec::new();
    let annotation = |key: &str| {
        let value = queue.metadata.annotations.get(key);
        value.unwrap_or_default()
    };
    let (path, weights) = (annotation(HIERARCHY), annotation(WEIGHTS));
    // Also "rooted/a" stays as it is.
    if !path.is_empty() && !weights.is_empty() && !path.starts_with("root") {
        let mut set = |key: &str, value: String| {
            let path = format!("/metadata/annotations/{}", key.replace('/', "~1"));
            changes.push(PatchOperation::add(&path, value));
        };
        set(HIERARCHY, format!("root/{path}"));
        set(WEIGHTS, format!("1/{weights}"));
    }
    if queue.spec.reclaimable.is_none() {
        changes.push(PatchOperation::add("/spec/reclaimable", true));
    }
    if queue.spec.weight == 0 {
        changes.push(PatchOperation::add("/spec/weight", 1));
    }
    changes
}
