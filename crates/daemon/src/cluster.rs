//! The cluster that a daemon works for.

use evictd_cluster_client::{Access, Actions, ApiError, Credentials};
use tracing::{info, warn};

/// The access to a cluster, and the name of this host there.
pub struct Cluster {
    /// For watches.
    pub access: Access,
    /// For calls.
    pub actions: Actions,
    /// The kernel's name of this host; in a pod that of the pod.
    pub hostname: String,
}

impl Cluster {
    /// Finds the cluster, which sends nothing, and logs its address: `does` is the daemon's purpose for it.
    pub async fn find(does: &str, credentials: &Credentials) -> Result<Self, ApiError> {
        let access = Access::find(credentials).await?;
        let actions = access.actions()?;
        info!(
            "{does} for {} with the credentials of {access}",
            access.server()
        );
        if access.trusts_any_certificate() {
            warn!("the server's certificate is not checked: insecure-skip-tls-verify is set");
        }
        let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        Ok(Self {
            access,
            actions,
            hostname: hostname.trim().to_owned(),
        })
    }
}
