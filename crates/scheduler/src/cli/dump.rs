//! `evictd-scheduler dump`: the objects of a cluster that decide where pods run, for the commands that read files.

use crate::live::{Lists, Page};
use anyhow::{Context, anyhow};
use clap::Args;
use evictd_cluster_client::{ApiError, Credentials};
use evictd_command::{Failure, warn};
use serde::Deserialize;
use serde_json::value::RawValue;
use std::collections::BTreeMap;
use std::io::{self, BufWriter, Write};
use std::path::PathBuf;

const EXAMPLE: &str = "Example:
  evictd-scheduler dump --context prod > cluster.json
  evictd-scheduler explain --cluster cluster.json --pod shop/checkout

The user needs the RBAC verb list on the kinds that the output holds. One that
may not be listed is left out with a warning, but for nodes, namespaces, pods,
priorityclasses and poddisruptionbudgets.";

/// Writes the objects of a cluster that decide where pods run as a v1 List, which this program and kubectl read. Secrets are never
/// read.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLE)]
pub(super) struct Arguments {
    /// The context of the kubeconfig. Default: the current one, or in a pod its own cluster.
    #[arg(long, value_name = "NAME", default_value = "")]
    context: String,
    /// The kubeconfig. Default: as kubectl.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The API server at another address than in the kubeconfig.
    #[arg(long, value_name = "URL")]
    server: Option<String>,
}

/// A page of a list, whose items stay text.
#[derive(Deserialize)]
struct Items<'p> {
    #[serde(default, borrow)]
    items: Vec<BTreeMap<&'p str, &'p RawValue>>,
}

impl Arguments {
    pub(super) fn run(self) -> Result<(), Failure> {
        let server = self.server.as_deref().map(str::parse).transpose();
        let server = server.map_err(|error| {
            let server = self.server.as_deref().unwrap_or_default();
            Failure::Input(anyhow!("--server {server}: {error}"))
        })?;
        let credentials = Credentials {
            kubeconfig: self.kubeconfig,
            context: self.context,
        };
        let mut lists = Lists::new(&credentials, server, true)?;
        let omissions = lists.omissions();
        let mut output = BufWriter::new(io::stdout().lock());
        write!(
            output,
            "{{\"apiVersion\":\"v1\",\"kind\":\"List\",\"items\":["
        )?;
        let mut separator = "\n";
        while let Some(page) = lists.next_page().map_err(failure)? {
            for item in items(&page)? {
                write!(output, "{separator}{item}")?;
                separator = ",\n";
            }
        }
        writeln!(output, "\n]}}")?;
        output.flush()?;
        for omission in omissions.take() {
            warn("evictd-scheduler", &omission);
        }
        Ok(())
    }
}

fn failure(error: ApiError) -> Failure {
    match error {
        ApiError::Forbidden { .. } => Failure::not_permitted(error),
        _ => Failure::from(error),
    }
}

/// The objects of a page. Those of a typed list get the kind and version that only the list has. As with kubectl, they have no
/// managed fields.
fn items(page: &Page) -> Result<Vec<String>, Failure> {
    let kind = page.kind.as_str();
    let wrong = || format!("the list of {}", page.kind.resource());
    let read: Items<'_> = serde_json::from_str(&page.text).with_context(wrong)?;
    let text = |item: BTreeMap<&str, &RawValue>| -> Result<String, serde_json::Error> {
        let metadata = item.get("metadata").map(|metadata| metadata.get());
        let mut metadata: BTreeMap<&str, &RawValue> =
            serde_json::from_str(metadata.unwrap_or("{}"))?;
        metadata.remove("managedFields");
        let metadata = serde_json::value::to_raw_value(&metadata)?;
        let kind = serde_json::value::to_raw_value(kind)?;
        let version = serde_json::value::to_raw_value(&page.api_version)?;
        let identity = [
            ("metadata", &*metadata),
            ("kind", &*kind),
            ("apiVersion", &*version),
        ];
        let whole: BTreeMap<&str, &RawValue> = item.into_iter().chain(identity).collect();
        serde_json::to_string(&whole)
    };
    let items = read.items.into_iter().map(text).collect::<Result<_, _>>();
    Ok(items.with_context(wrong)?)
}
