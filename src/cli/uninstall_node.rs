//! `evictd uninstall-node`: leaves no trace on Nodes.

use super::run;
use crate::{
    agent::start::node_name,
    api::{Access, ApiError},
    clock::Clock,
    config::ConditionTypes,
    outbox::{NodeReporter, all_nodes},
};
use anyhow::{Context, anyhow};
use clap::Args;
use evictd_command::{Failure, Output, table};
use serde::Serialize;
use std::path::PathBuf;

const EXAMPLE: &str = "Example:
  evictd uninstall-node --config /etc/evictd/evictd.yaml
  evictd uninstall-node --all -o json";

/// Removes our conditions, taints and annotations from this Node, or from every one. Stop the daemons first: one that
/// runs puts them back.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// From every Node of the cluster
    #[arg(long)]
    all: bool,
    /// The daemon's configuration, for the way to the API server and this node's name; /etc/evictd/evictd.yaml where it exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// What was done to one Node.
#[derive(Debug, Serialize)]
struct Cleaned {
    node: String,
    removed: Vec<String>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let cleaned = runtime.block_on(self.clean())?;
        self.output.print(&cleaned, |cleaned| list(cleaned))
    }

    async fn clean(&self) -> Result<Vec<Cleaned>, Failure> {
        let config = run::load(self.config.as_ref())?;
        let access = Access::find(&config.kubernetes).await?;
        let actions = access.actions()?;
        let nodes = if self.all {
            all_nodes(&actions).await.map_err(refused)?
        } else {
            vec![node_name(&config)]
        };
        let mut cleaned = Vec::new();
        for node in nodes {
            let (own, clock) = (ConditionTypes::Own, Clock::start());
            let reporter = NodeReporter::new(node.clone(), own, actions.clone(), clock);
            let removed = reporter.clean().await.map_err(refused)?;
            cleaned.push(Cleaned { node, removed });
        }
        Ok(cleaned)
    }
}

fn refused(error: ApiError) -> Failure {
    if error.status().is_some_and(|status| status.code == 403) {
        return Failure::not_permitted(anyhow!(error).context(
            "this needs the verbs get, list and patch on nodes, and patch on nodes/status",
        ));
    }
    Failure::from(error)
}

fn list(cleaned: &[Cleaned]) -> String {
    let rows = cleaned.iter().map(|one| {
        let removed = match one.removed.as_slice() {
            [] => "nothing was there".to_owned(),
            removed => removed.join(", "),
        };
        vec![one.node.clone(), removed]
    });
    table(&["NODE", "REMOVED"], rows)
}
