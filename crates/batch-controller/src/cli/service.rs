//! What `controllers` and `webhook` have in common: they run in a cluster until they are told to stop.

use clap::Args;
use evictd_cluster_client::Credentials;
use std::io;
use std::path::PathBuf;
use tokio::runtime::{Builder, Runtime};

/// Which cluster is served.
#[derive(Debug, Args)]
pub(super) struct Served {
    /// Access to the cluster. Default: this pod's service account, $KUBECONFIG, ~/.kube/config.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The context of the kubeconfig. Default: its current one.
    #[arg(
        long,
        value_name = "NAME",
        default_value = "",
        hide_default_value = true
    )]
    context: String,
}

impl From<Served> for Credentials {
    fn from(served: Served) -> Self {
        Self {
            kubeconfig: served.kubeconfig,
            context: served.context,
        }
    }
}

/// What everything runs on.
pub(super) fn runtime() -> io::Result<Runtime> {
    Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
}
