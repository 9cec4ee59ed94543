//! `evictd-scheduler pending`: asks the running scheduler which pods wait, and on what.

use anyhow::{Context, anyhow};
use clap::Args;
use evictd_cluster_client::{Access, ApiError, CALL_TIMEOUT, Credentials};
use evictd_command::{Colour, Column, Failure, Output, Table, View};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
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
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Waiting {
    pod: String,
    pool: String,
    since: Timestamp,
    attempts: u32,
    plugins: Vec<String>,
    message: String,
    nominated: Option<String>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let pending = runtime.block_on(self.ask())?;
        self.output.print(&pending, page)
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
        let text = reader
            .get("/v1/pending")
            .await
            .map_err(|error| match error {
                ApiError::Forbidden { .. } => Failure::not_permitted(error),
                _ => Failure::from(error),
            })?;
        let read = serde_json::from_str(&text);
        Ok(read.with_context(|| format!("{} does not answer as a scheduler", self.server))?)
    }
}

fn page(pending: &Pending, view: View) -> String {
    if pending.count == 0 {
        return view.paint(Colour::Good, "No pod waits.");
    }
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
    let table = Table::new(columns, rows).shown(view);
    let more = pending.count.saturating_sub(pending.pods.len());
    match more {
        0 => table,
        more => format!("{table}\n{more} more wait."),
    }
}
