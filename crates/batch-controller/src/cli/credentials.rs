//! The access to a cluster that all commands share, and the runtime of `controllers` and `webhook`.

use clap::Args;
use evictd_cluster_client::Credentials;
use std::io;
use std::path::PathBuf;
use tokio::runtime::{Builder, Runtime};

/// The access to the cluster.
#[derive(Debug, Args)]
pub(super) struct CredentialFlags {
    /// The kubeconfig. Default: the service account of this pod, $KUBECONFIG, ~/.kube/config.
    #[arg(short, long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: the current one.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    context: String,
}

impl From<&CredentialFlags> for Credentials {
    fn from(flags: &CredentialFlags) -> Self {
        Self {
            kubeconfig: flags.kubeconfig.clone(),
            context: flags.context.clone(),
        }
    }
}

/// Two threads are enough: both programs wait for the network most of the time.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}
