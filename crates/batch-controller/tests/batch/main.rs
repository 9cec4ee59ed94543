//! `evictd-batch` as its users run it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod admit;
mod bad_input;
mod cluster;
mod commands;
mod crashes;
mod definitions;
mod demo;
mod guards;
mod jobs;
mod killed;
mod live;
mod manifests;
mod pages;
mod ports;
mod queues;
mod reconcile;
mod rights;
mod served;
mod short;
mod simulate;
mod trace;
mod used_rights;
mod webhook;
mod why;

use evictd_testkit::Entry;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The built program.
fn batch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evictd-batch"))
}

/// Verbs and resources, as `get pods` and `patch queues.scheduling.volcano.sh/status`, that rules grant.
fn granted(rules: &Value) -> BTreeSet<String> {
    let texts = |list: &Value| -> Vec<String> {
        let list = list.as_array().into_iter().flatten();
        list.map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let mut all = BTreeSet::new();
    for rule in rules.as_array().unwrap() {
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

/// The same that this user has used; nothing may have been refused.
fn used(log: &[Entry], user: &str) -> BTreeSet<String> {
    let own = log
        .iter()
        .filter(|entry| entry.user == user && !entry.verb.is_empty());
    let refused: Vec<_> = own.clone().filter(|entry| entry.status == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    own.map(|entry| format!("{} {} {}", entry.verb, entry.what, entry.group))
        .collect()
}

/// The rules of all roles in a manifest of the package.
fn packaged_rules(manifest: &str) -> Value {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/kubernetes/batch");
    let text = fs::read_to_string(folder.join(manifest)).unwrap();
    let documents = text.split("\n---\n");
    let documents = documents.map(|text| serde_saphyr::from_str::<Value>(text).unwrap());
    documents
        .flat_map(|document| document["rules"].as_array().cloned().unwrap_or_default())
        .collect()
}
