//! `evictd-batch crds` and `evictd-batch policies`: what a cluster has to know of, as manifests.

use crate::{definitions, manifests, policies};
use anyhow::Context;
use clap::Args;
use evictd_command::{Failure, write_to_stdout};
use serde_json::Value;

/// Prints the definitions of jobs, pod groups, queues and commands. Volcano's own, where they are, are left as they are.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  evictd-batch crds | kubectl create -f -")]
pub(super) struct Definitions {}

impl Definitions {
    pub(super) fn run() -> Result<(), Failure> {
        print(&definitions::all(), "crds")
    }
}

/// Prints the rules that need no other object as admission policies, which the API server keeps without the webhook.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  evictd-batch policies | kubectl apply -f -")]
pub(super) struct Policies {}

impl Policies {
    pub(super) fn run() -> Result<(), Failure> {
        print(&policies::all(), "policies")
    }
}

fn print(objects: &[Value], command: &str) -> Result<(), Failure> {
    let text = manifests::yaml(objects, command).context("cannot write YAML")?;
    write_to_stdout(&text)
}
