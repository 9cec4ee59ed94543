//! What packaging/kubernetes ships, as its files have it.

use serde_json::Value;
use std::fs;
use std::path::Path;

/// Who the agents are.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:evictd:evictd";

/// Every object in a file below packaging/kubernetes.
pub(crate) fn objects(file: &str) -> Vec<Value> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("packaging/kubernetes")
        .join(file);
    documents(&fs::read_to_string(path).unwrap())
}

/// The documents of a YAML stream.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let documents = text.split("\n---\n");
    documents
        .map(|document| serde_saphyr::from_str(document).unwrap())
        // One that has comments only holds nothing.
        .filter(|document: &Value| !document.is_null())
        .collect()
}

/// The rules of every role in these files.
pub(crate) fn rules(files: &[&str]) -> Vec<Value> {
    let all = files.iter().flat_map(|file| objects(file));
    all.flat_map(|object| object["rules"].as_array().cloned().unwrap_or_default())
        .collect()
}

/// What guards the writes.
pub(crate) fn policies() -> Vec<Value> {
    objects("base/policies.yaml")
}
