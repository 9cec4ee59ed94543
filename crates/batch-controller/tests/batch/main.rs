//! `evictd-batch` as its users run it.
#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]
#![allow(clippy::needless_pass_by_value, reason = "json! makes values")]

mod admit;
mod bad_input;
mod cluster;
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
mod webhook;
mod why;

use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The built program.
fn batch() -> Command {
    Command::new(env!("CARGO_BIN_EXE_evictd-batch"))
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
