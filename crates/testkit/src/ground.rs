//! Where a suite of tests runs: against this crate, or unchanged against a real cluster.

use crate::{ApiServer, Controllers, Imagined, Kubelet};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a second of our own kubelet lasts here.
const SECOND: Duration = Duration::from_millis(20);

/// A cluster with one node to work on. It is real where `EVICTD_E2E_KUBECONFIG` names a kubeconfig; then
/// `EVICTD_E2E_NODE` names the node and `EVICTD_E2E_IMAGE` an image with a `sleep` that its kubelet can run.
#[derive(Debug)]
pub struct Ground {
    kubeconfig: PathBuf,
    node: String,
    image: String,
    /// Of our own, none of a real cluster. They stop before the server does.
    own: Option<(Controllers, Kubelet, ApiServer)>,
}

impl Ground {
    /// The real cluster, or one of our own, whose kubeconfig is written into `directory`.
    pub fn find(directory: &Path) -> io::Result<Self> {
        let variable = |name: &str| {
            let missing =
                || io::Error::other(format!("EVICTD_E2E_KUBECONFIG is set and {name} is not"));
            std::env::var(name).map_err(|_| missing())
        };
        if let Some(kubeconfig) = std::env::var_os("EVICTD_E2E_KUBECONFIG") {
            return Ok(Self {
                kubeconfig: kubeconfig.into(),
                node: variable("EVICTD_E2E_NODE")?,
                image: variable("EVICTD_E2E_IMAGE")?,
                own: None,
            });
        }
        let api = ApiServer::start()?;
        let node = "one".to_owned();
        let kubelet = Kubelet::start(&api, &node, SECOND, Imagined::default())?;
        let controllers = Controllers::start(&api)?;
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(&kubeconfig, api.kubeconfig())?;
        Ok(Self {
            kubeconfig,
            node,
            image: "none".to_owned(),
            own: Some((controllers, kubelet, api)),
        })
    }

    /// How to reach it.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// The node that the suite may use.
    pub fn node(&self) -> &str {
        &self.node
    }

    /// An image with a `sleep`.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// How long what takes so many seconds by a real kubelet takes here.
    pub fn seconds(&self, seconds: u32) -> Duration {
        seconds * self.own.as_ref().map_or(Duration::from_secs(1), |_| SECOND)
    }
}
