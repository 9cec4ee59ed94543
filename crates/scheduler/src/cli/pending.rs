//! `evictd-scheduler pending`: lists the pending pods of a running scheduler.

use super::secure_port::SecurePort;
use crate::explain::{blockers, obstacles, suggestions};
use clap::Args;
use evictd_command::{Colour, Column, Failure, Output, Table, View};
use indexmap::IndexMap;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

const EXAMPLE: &str = "Example:
  kubectl -n kube-system port-forward deploy/evictd-scheduler 10259 &
  evictd-scheduler pending --server https://127.0.0.1:10259 \\
    --insecure-skip-tls-verify

The request uses the token or client certificate of the kubeconfig's user, who
must be allowed to get the path /v1/pending.";

/// Lists the pending pods of a running scheduler, with the plugins that rejected them and their conditions.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// Only this pod, with suggestions: the fewest changes after which it would fit, each tried on the cluster.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = full_name)]
    pod: Option<String>,
    #[command(flatten)]
    port: SecurePort,
    #[command(flatten)]
    output: Output,
}

/// The response of the scheduler.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Pending {
    pub(super) time: Option<Timestamp>,
    pub(super) count: usize,
    pub(super) pods: Vec<PendingPod>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    resizes: Vec<PendingResize>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<Suggestions>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Suggestions {
    feasible: usize,
    #[serde(rename = "remedies")]
    by_node: IndexMap<String, Vec<Vec<String>>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    blockers: Vec<String>,
    #[serde(default)]
    obstacles: IndexMap<String, String>,
    #[serde(
        rename = "incomplete",
        default,
        skip_serializing_if = "std::ops::Not::not"
    )]
    is_incomplete: bool,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PendingPod {
    pub(super) pod: String,
    pub(super) pool: String,
    pub(super) since: Timestamp,
    attempts: u32,
    pub(super) plugins: Vec<String>,
    wakes: Vec<String>,
    pub(super) message: String,
    pub(super) nominated: Option<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct PendingResize {
    pod: String,
    node: String,
    since: Timestamp,
    attempts: u32,
    message: String,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let pending = runtime.block_on(self.get())?;
        match &self.pod {
            Some(pod) => self
                .output
                .print(&pending, |pending, view| one(pod, pending, view)),
            None => self.output.print(&pending, page),
        }
    }

    async fn get(&self) -> Result<Pending, Failure> {
        let port = self.port.open().await?;
        let path = match &self.pod {
            Some(pod) => format!("/v1/pending?pod={pod}"),
            None => "/v1/pending".to_owned(),
        };
        let text = port.get(&path).await?;
        serde_json::from_str(&text).map_err(|_| port.misunderstood("a scheduler"))
    }
}

/// Parses `shop/web`, or `web` for `default/web`.
fn full_name(text: &str) -> Result<String, String> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    let is_part = |part: &str| {
        let allowed = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.');
        !part.is_empty() && part.chars().all(allowed)
    };
    if is_part(namespace) && is_part(name) {
        return Ok(format!("{namespace}/{name}"));
    }
    Err("is not NAMESPACE/NAME".to_owned())
}

/// The page of one pod.
fn one(pod: &str, pending: &Pending, view: View) -> String {
    let Some(pod) = pending.pods.first() else {
        if !pending.resizes.is_empty() {
            return resizes(pending, view);
        }
        let why =
            "it has a node, was deleted, or no profile of this scheduler has its schedulerName.";
        return view.sentence(&format!("{pod} is not pending here: {why}"));
    };
    let mut parts = vec![table(pending, view)];
    match &pending.help {
        Some(help) if help.feasible > 0 => {
            let head = format!(
                "It fits on {} nodes and will be tried again.",
                help.feasible
            );
            parts.push(view.paint(Colour::Good, &view.sentence(&head)));
        }
        Some(help) => {
            parts.extend(blockers(&help.blockers, view));
            parts.extend(obstacles(&help.obstacles, view));
            parts.extend(suggestions(&help.by_node, view));
            if help.is_incomplete {
                let more = "What lets it fit was not found out: selectors of devices, or terms with many values, cost more than a look may.";
                parts.push(view.sentence(more));
            }
        }
        None => {}
    }
    if !pod.wakes.is_empty() {
        parts.push(view.hanging("These events try it again: ", &pod.wakes.join(", ")));
    }
    parts.join("\n\n")
}

fn page(pending: &Pending, view: View) -> String {
    let pods = pods(pending, view);
    if pending.resizes.is_empty() {
        return pods;
    }
    format!("{pods}\n\n{}", resizes(pending, view))
}

/// The in-place resizes that wait for room on the nodes of their pods.
fn resizes(pending: &Pending, view: View) -> String {
    let rows = pending.resizes.iter().map(|resize| {
        vec![
            resize.pod.clone(),
            resize.node.clone(),
            waited(pending, resize.since),
            resize.attempts.to_string(),
            resize.message.clone(),
        ]
    });
    let columns = [
        Column::name("RESIZE OF", 5),
        Column::name("NODE", 4),
        Column::figure("SINCE", 3),
        Column::figure("ATTEMPTS", 2),
        Column::sentence("WAITS FOR", 1),
    ];
    Table::new(columns, rows).shown(view)
}

/// Seconds since a moment, as `12s`.
fn waited(pending: &Pending, since: Timestamp) -> String {
    let now = pending.time.unwrap_or(Timestamp::UNIX_EPOCH);
    format!("{}s", now.duration_since(since).as_secs().max(0))
}

fn pods(pending: &Pending, view: View) -> String {
    if pending.count == 0 {
        return view.paint(Colour::Good, "No pod is pending.");
    }
    let table = table(pending, view);
    let more = pending.count.saturating_sub(pending.pods.len());
    match more {
        0 => table,
        more => format!("{table}\n{more} more are pending."),
    }
}

fn table(pending: &Pending, view: View) -> String {
    let rows = pending.pods.iter().map(|pod| {
        let message = match &pod.nominated {
            Some(node) => format!("{node} is being freed for it. {}", pod.message),
            None => pod.message.clone(),
        };
        vec![
            pod.pod.clone(),
            pod.pool.clone(),
            waited(pending, pod.since),
            pod.attempts.to_string(),
            pod.plugins.join(", "),
            message,
        ]
    });
    let columns = [
        Column::name("POD", 6),
        Column::words("QUEUE", 5),
        Column::figure("SINCE", 3),
        Column::figure("ATTEMPTS", 2),
        Column::sentence("REJECTED BY", 4),
        Column::sentence("MESSAGE", 1),
    ];
    Table::new(columns, rows).shown(view)
}
