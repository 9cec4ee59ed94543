//! `evictd uninstall-node`: removes everything that evictd has written on Nodes.

use super::{daemon::Daemon, run};
use anyhow::{Context, anyhow};
use clap::Args;
use evictd_cluster_client::{Access, Actions, ApiError};
use evictd_command::{Column, Failure, Output, Table, View, note};
use evictd_kernel::clock::Clock;
use evictd_node::{NodeReporter, all_nodes, clean_pods, daemon_set_is_deleted, start::node_name};
use evictd_node_config::{ConditionTypes, Effective};
use serde::Serialize;
use serde_json::json;
use std::{path::PathBuf, time::Duration};
use tokio::time::timeout;

/// A container gets 30 s to stop, and the daemon needs some of them.
const DEADLINE: Duration = Duration::from_secs(15);

const EXAMPLE: &str = "Example:
  evictd uninstall-node --config /etc/evictd/evictd.yaml
  evictd uninstall-node --all -o json
  evictd uninstall-node --if-daemonset-deleted evictd/evictd   # a preStop hook";

/// Removes evictd's conditions, taints and annotations from this Node and its pods, or from all of them
///
/// Stop the daemons first: a running daemon adds them again.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// From every Node of the cluster
    #[arg(long, conflicts_with = "if_daemonset_deleted")]
    all: bool,
    /// Only if this DaemonSet is deleted or being deleted, and only from the Node; its daemon need not be stopped. For
    /// a preStop hook: if nothing is removed within 15 s, it says why on stderr and exits with 0
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = namespaced)]
    if_daemonset_deleted: Option<(String, String)>,
    /// The daemon's configuration, which names the API server and this node. Default: /etc/evictd/evictd.yaml if it
    /// exists
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
}

/// The removed conditions, taints and annotations of one Node.
#[derive(Debug, Serialize)]
struct Cleaned {
    node: String,
    removed: Vec<String>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let config = run::load(self.config.as_ref())?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("cannot start the runtime")?;
        let cleaned = match &self.if_daemonset_deleted {
            None => runtime.block_on(self.clean(&config))?,
            Some(set) => runtime.block_on(leave_in_time(set, &config)),
        };
        self.output
            .print(&cleaned, |cleaned, view| list(cleaned, view))
    }

    async fn clean(&self, config: &Effective) -> Result<Vec<Cleaned>, Failure> {
        let actions = Access::find(&config.kubernetes).await?.actions()?;
        let nodes = if self.all {
            all_nodes(&actions).await.map_err(refused)?
        } else {
            vec![node_name(config)]
        };
        let mut cleaned = Vec::new();
        for node in nodes {
            let pods = clean_pods(&actions, &node).await.map_err(refused)?;
            let mut one = clean_node(node, &actions).await?;
            one.removed.extend(pods);
            cleaned.push(one);
        }
        Ok(cleaned)
    }
}

/// For a preStop hook, whose failure would not help: only prints why the node was not cleaned.
async fn leave_in_time(set: &(String, String), config: &Effective) -> Vec<Cleaned> {
    let why = match timeout(DEADLINE, leave_with(set, config)).await {
        Ok(Ok(cleaned)) => return cleaned,
        Ok(Err(failure)) => failure.to_string(),
        Err(_) => format!("it took longer than {} s", DEADLINE.as_secs()),
    };
    note(
        "evictd",
        &format!("nothing was removed from this node: {why}"),
    );
    Vec::new()
}

/// Cleans this node if the daemon is being removed for good. The records on its pods stay. They do no harm, and are the
/// only explanation of those evictions.
async fn leave_with(
    (namespace, name): &(String, String),
    config: &Effective,
) -> Result<Vec<Cleaned>, Failure> {
    let actions = Access::find(&config.kubernetes).await?.actions()?;
    if !daemon_set_is_deleted(&actions, namespace, name).await? {
        return Err(anyhow!("DaemonSet {namespace}/{name} is not being deleted").into());
    }
    // The daemon still runs, and would write the removed entries again.
    let daemon = Daemon::at(config.socket.clone());
    if let Err(failure) = daemon.send("/v1/stop-node-updates", &json!({})).await {
        note("evictd", &format!("{failure}; this node is cleaned anyway"));
    }
    Ok(vec![clean_node(node_name(config), &actions).await?])
}

async fn clean_node(node: String, actions: &Actions) -> Result<Cleaned, Failure> {
    let (conditions, clock) = (ConditionTypes::Own, Clock::start());
    let reporter = NodeReporter::new(node.clone(), conditions, actions.clone(), clock);
    let removed = reporter.clean().await.map_err(refused)?;
    Ok(Cleaned { node, removed })
}

fn refused(error: ApiError) -> Failure {
    if error.status().is_some_and(|status| status.code == 403) {
        return Failure::not_permitted(anyhow!(error).context(
            "this needs the verbs get, list and patch on nodes, list on pods, and patch on nodes/status and pods/status",
        ));
    }
    Failure::from(error)
}

fn namespaced(text: &str) -> Result<(String, String), String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok((namespace.to_owned(), name.to_owned()))
        }
        _ => Err("a DaemonSet is named NAMESPACE/NAME".to_owned()),
    }
}

fn list(cleaned: &[Cleaned], view: View) -> String {
    let rows = cleaned.iter().map(|one| {
        let removed = match one.removed.as_slice() {
            [] => "nothing to remove".to_owned(),
            removed => removed.join(", "),
        };
        vec![one.node.clone(), removed]
    });
    let columns = [Column::name("NODE", 2), Column::sentence("REMOVED", 1)];
    Table::new(columns, rows).shown(view)
}
