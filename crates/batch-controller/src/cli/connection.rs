//! The options of commands that access a cluster.

use super::cluster::Cluster;
use super::credentials::CredentialFlags;
use anyhow::anyhow;
use clap::Args;
use evictd_cluster_client::{Access, ApiError, Credentials};
use evictd_command::Failure;
use serde_json::{Value, json};

/// vcctl's two options, and the context of the kubeconfig.
#[derive(Debug, Args)]
pub(super) struct Connection {
    #[command(flatten)]
    credentials: CredentialFlags,
    /// The address of the API server, instead of that in the kubeconfig.
    #[arg(short = 's', long, value_name = "URL")]
    master: Option<String>,
}

impl Connection {
    /// Reads the credentials. Sends nothing yet.
    pub(super) fn open(&self) -> Result<Cluster, Failure> {
        // A command sends one request at a time.
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (actions, reader) = runtime.block_on(async {
            let access = self.access().await?;
            let reader = access.reader(super::cluster::TIMEOUT);
            access
                .actions()
                .and_then(|actions| Ok((actions, reader?)))
                .map_err(Failure::input)
        })?;
        Ok(Cluster::new(runtime, actions, reader))
    }

    /// The credentials, also for other servers than the API server.
    pub(super) fn credentials(&self) -> Credentials {
        Credentials::from(&self.credentials)
    }

    async fn access(&self) -> Result<Access, Failure> {
        let found = Access::find(&self.credentials()).await;
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
            // With --master no kubeconfig is needed.
            Err(ApiError::Unknown) => {
                let cluster = json!({ "server": master });
                Access::to_server("--master", &cluster, &Value::Null).await
            }
            found => found.map(|access| access.at(server)),
        };
        access.map_err(Failure::input)
    }
}
