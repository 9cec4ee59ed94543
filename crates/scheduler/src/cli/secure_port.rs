//! The options of commands that read the pages of a running scheduler.

use clap::Args;
use evictd_cluster_client::Credentials;
use evictd_command::Failure;
use evictd_daemon::client::PortClient;
use std::path::PathBuf;

/// The secure port of a running scheduler.
#[derive(Debug, Args)]
pub(super) struct SecurePort {
    /// The scheduler's secure port.
    #[arg(long, value_name = "URL", default_value = "https://127.0.0.1:10259")]
    pub(super) server: String,
    /// The kubeconfig with the token or certificate. Default: as kubectl.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig.
    #[arg(long, value_name = "NAME", default_value = "")]
    context: String,
    /// Do not verify the scheduler's certificate, which it may have made itself. Only for a connection that no other program can
    /// answer.
    #[arg(long)]
    insecure_skip_tls_verify: bool,
}

impl SecurePort {
    /// Sends nothing yet.
    pub(super) async fn open(&self) -> Result<PortClient, Failure> {
        let credentials = Credentials {
            kubeconfig: self.kubeconfig.clone(),
            context: self.context.clone(),
        };
        PortClient::open(&credentials, &self.server, self.insecure_skip_tls_verify).await
    }
}
