//! The options that say which cluster is meant.

use super::cluster::Cluster;
use anyhow::anyhow;
use clap::Args;
use evictd_cluster_client::{Access, ApiError, Credentials};
use evictd_command::Failure;
use serde_json::{Value, json};
use std::path::PathBuf;

/// How the API server is found: Volcano's two options, and the kubeconfig's context.
#[derive(Debug, Args)]
pub(super) struct Connection {
    /// The kubeconfig. Default: as kubectl, or this pod's service account.
    #[arg(short, long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The kubeconfig's context. Default: its current one.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    context: String,
    /// The address of the API server, in place of the kubeconfig's.
    #[arg(short = 's', long, value_name = "URL")]
    master: Option<String>,
}

impl Connection {
    /// Finds the server; nothing is sent yet.
    pub(super) fn open(&self) -> Result<Cluster, Failure> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (actions, reader) = runtime.block_on(async {
            let access = self.access().await?;
            let reader = access.reader(super::cluster::TIMEOUT);
            let both = access.actions().and_then(|actions| Ok((actions, reader?)));
            both.map_err(Failure::input)
        })?;
        Ok(Cluster::new(runtime, actions, reader))
    }

    async fn access(&self) -> Result<Access, Failure> {
        let credentials = Credentials {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        };
        let found = Access::find(&credentials).await;
        let Some(master) = &self.master else {
            return found.map_err(Failure::input);
        };
        let server: http::Uri = master
            .parse()
            .map_err(|error| Failure::Input(anyhow!("--master {master}: {error}")))?;
        if server.scheme().is_none() || server.host().is_none() {
            return Err(Failure::Input(anyhow!(
                "--master {master}: is not a URL like https://10.0.0.1:6443"
            )));
        }
        let access = match found {
            // Who names the server needs no kubeconfig.
            Err(ApiError::Unknown) => {
                let cluster = json!({ "server": master });
                Access::to_server("--master", &cluster, &Value::Null).await
            }
            found => found.map(|access| access.at(server)),
        };
        access.map_err(Failure::input)
    }
}
