//! Rights as `get pods` and `patch queues/status scheduling.volcano.sh`: those that are granted, and those that were used.

use crate::log::Entry;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// The rules of all roles in a manifest below `packaging/kubernetes`.
///
/// # Panics
/// If there is no such manifest.
pub fn packaged(manifest: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes");
    let text = fs::read_to_string(folder.join(manifest)).unwrap_or_default();
    let documents = text.split("\n---\n");
    let documents = documents.filter_map(|text| serde_saphyr::from_str::<Value>(text).ok());
    let rules: Vec<Value> = documents
        .flat_map(|document| document["rules"].as_array().cloned().unwrap_or_default())
        .collect();
    assert!(!rules.is_empty(), "no rules in {manifest}");
    rules.into()
}

/// The rights that rules grant.
pub fn granted(rules: &Value) -> BTreeSet<String> {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.filter_map(|text| Some(text.as_str()?.to_owned()))
            .collect()
    };
    let mut all = BTreeSet::new();
    for rule in rules.as_array().into_iter().flatten() {
        for group in texts(&rule["apiGroups"]) {
            for resource in texts(&rule["resources"]) {
                for verb in texts(&rule["verbs"]) {
                    all.insert(format!("{verb} {resource} {group}"));
                }
            }
        }
    }
    all
}

/// The rights that this user has used.
///
/// # Panics
/// If something was refused.
pub fn used(log: &[Entry], user: &str) -> BTreeSet<String> {
    let requests = log
        .iter()
        .filter(|entry| entry.user == user && !entry.verb.is_empty());
    let refused: Vec<_> = requests
        .clone()
        .filter(|entry| entry.status == 403)
        .collect();
    assert!(refused.is_empty(), "{refused:?}");
    requests
        .map(|entry| format!("{} {} {}", entry.verb, entry.what, entry.group))
        .collect()
}
