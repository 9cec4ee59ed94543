//! `evictd-scheduler pending`: asks the running scheduler which pods wait, and on what.

use crate::explain::remedies;
use anyhow::{Context, anyhow};
use clap::Args;
use evictd_cluster_client::{Access, ApiError, CALL_TIMEOUT, Credentials};
use evictd_command::{Colour, Column, Failure, Output, Table, View};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

const EXAMPLE: &str = "Example:
  kubectl -n kube-system port-forward deploy/evictd-scheduler 10259 &
  evictd-scheduler pending --server https://127.0.0.1:10259 \\
    --insecure-skip-tls-verify

The kubeconfig's user is shown to it, by token or client certificate; it must be
allowed to get the path /v1/pending.";

/// Which pods wait, since when, on what, and what they were told.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The scheduler's secure port.
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:10259")]
    server: String,
    /// Only this pod, and what would help it: for the nearest nodes the fewest changes, each tried on the cluster.
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = full_name)]
    pod: Option<String>,
    /// Whose token or certificate is shown to it. Default: as kubectl.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context.
    #[arg(long, value_name = "NAME", default_value = "")]
    context: String,
    /// Do not verify the scheduler's certificate, because it has made its own. Only where nobody else can answer.
    #[arg(long)]
    insecure_skip_tls_verify: bool,
    #[command(flatten)]
    output: Output,
}

/// As the scheduler answers.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pending {
    time: Option<Timestamp>,
    count: usize,
    pods: Vec<Waiting>,
    #[serde(skip_serializing_if = "Option::is_none")]
    help: Option<Help>,
}

/// What would help the pod that was asked about.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Help {
    feasible: usize,
    remedies: BTreeMap<String, Vec<Vec<String>>>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    pod: String,
    pool: String,
    since: Timestamp,
    attempts: u32,
    plugins: Vec<String>,
    wakes: Vec<String>,
    message: String,
    nominated: Option<String>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let pending = runtime.block_on(self.ask())?;
        match &self.pod {
            Some(pod) => self
                .output
                .print(&pending, |pending, view| one(pod, pending, view)),
            None => self.output.print(&pending, page),
        }
    }

    async fn ask(&self) -> Result<Pending, Failure> {
        let credentials = Credentials {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        };
        let server: hyper::Uri = self
            .server
            .parse()
            .map_err(|error| Failure::Input(anyhow!("--server {}: {error}", self.server)))?;
        let access = Access::find(&credentials).await.map_err(Failure::input)?;
        let access = access.towards(server, self.insecure_skip_tls_verify);
        let reader = access.reader(CALL_TIMEOUT).map_err(Failure::input)?;
        let path = match &self.pod {
            Some(pod) => format!("/v1/pending?pod={pod}"),
            None => "/v1/pending".to_owned(),
        };
        let text = reader.get(&path).await.map_err(|error| match error {
            ApiError::Forbidden { .. } => Failure::not_permitted(error),
            _ => Failure::from(error),
        })?;
        let read = serde_json::from_str(&text);
        Ok(read.with_context(|| format!("{} does not answer as a scheduler", self.server))?)
    }
}

/// `shop/web`, and `web` for `default/web`.
fn full_name(text: &str) -> Result<String, String> {
    let (namespace, name) = text.split_once('/').unwrap_or(("default", text));
    let is_part = |part: &str| {
        let allowed = |own: char| own.is_ascii_alphanumeric() || matches!(own, '-' | '.');
        !part.is_empty() && part.chars().all(allowed)
    };
    if is_part(namespace) && is_part(name) {
        return Ok(format!("{namespace}/{name}"));
    }
    Err("is not NAMESPACE/NAME".to_owned())
}

/// One pod.
fn one(pod: &str, pending: &Pending, view: View) -> String {
    let Some(own) = pending.pods.first() else {
        let why = "it has a node, is gone, or its schedulerName is that of no profile of this one.";
        return view.sentence(&format!("{pod} does not wait here: {why}"));
    };
    let mut parts = vec![table(pending, view)];
    match &pending.help {
        Some(help) if help.feasible > 0 => {
            let head = format!("It fits on {} nodes now, and has its turn.", help.feasible);
            parts.push(view.paint(Colour::Good, &view.sentence(&head)));
        }
        Some(help) => parts.extend(remedies(&help.remedies, view)),
        None => {}
    }
    if !own.wakes.is_empty() {
        parts.push(view.hanging("These events try it again: ", &own.wakes.join(", ")));
    }
    parts.join("\n\n")
}

fn page(pending: &Pending, view: View) -> String {
    if pending.count == 0 {
        return view.paint(Colour::Good, "No pod waits.");
    }
    let table = table(pending, view);
    let more = pending.count.saturating_sub(pending.pods.len());
    match more {
        0 => table,
        more => format!("{table}\n{more} more wait."),
    }
}

fn table(pending: &Pending, view: View) -> String {
    let now = pending.time.unwrap_or(Timestamp::UNIX_EPOCH);
    let rows = pending.pods.iter().map(|own| {
        let seconds = now.duration_since(own.since).as_secs().max(0);
        let told = match &own.nominated {
            Some(node) => format!("{node} is being freed for it. {}", own.message),
            None => own.message.clone(),
        };
        vec![
            own.pod.clone(),
            own.pool.clone(),
            format!("{seconds}s"),
            own.attempts.to_string(),
            own.plugins.join(", "),
            told,
        ]
    });
    let columns = [
        Column::name("POD", 6),
        Column::words("IN", 5),
        Column::figure("SINCE", 3),
        Column::figure("TRIED", 2),
        Column::sentence("WAITS ON", 4),
        Column::sentence("WAS TOLD", 1),
    ];
    Table::new(columns, rows).shown(view)
}
