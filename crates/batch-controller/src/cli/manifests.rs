//! `evictd-batch crds` and `evictd-batch policies`: prints manifests for a cluster.

use crate::{definitions, manifests, policies};
use anyhow::Context;
use clap::Args;
use evictd_command::{Failure, write_to_stdout};
use serde_json::Value;

/// Prints the custom resource definitions of jobs, pod groups, queues and commands. `kubectl create` leaves existing ones.
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  evictd-batch crds | kubectl create -f -")]
pub(super) struct Definitions {}

impl Definitions {
    pub(super) fn run() -> Result<(), Failure> {
        print(&definitions::all(), "crds")
    }
}

/// Prints admission policies: the rules of the webhook that need no other object. The API server enforces them itself.
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
