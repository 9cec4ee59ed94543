//! The cluster of a suite of tests: this crate, or a real one.

use crate::{ApiServer, Controllers, Kubelet, Runtime};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The length of a second of the testkit's kubelet.
const SECOND: Duration = Duration::from_millis(20);

/// A cluster with one node to work on. It is real where `EVICTD_E2E_KUBECONFIG` names a kubeconfig; then
/// `EVICTD_E2E_NODE` names the node and `EVICTD_E2E_IMAGE` the project's own image, as its kubelet finds it.
#[derive(Debug)]
pub struct SuiteCluster {
    kubeconfig: PathBuf,
    node: String,
    image: String,
    /// The servers of the testkit; `None` for a real cluster. They stop before the server does.
    testkit: Option<(Controllers, Kubelet, ApiServer)>,
}

impl SuiteCluster {
    /// Whether it will be a real one.
    pub fn is_real() -> bool {
        std::env::var_os("EVICTD_E2E_KUBECONFIG").is_some()
    }

    /// The real cluster, or one of our own, which runs its containers by this and whose kubeconfig is written into
    /// `directory`.
    pub fn find(directory: &Path, runtime: impl Runtime + 'static) -> io::Result<Self> {
        let variable = |name: &str| {
            let missing =
                || io::Error::other(format!("EVICTD_E2E_KUBECONFIG is set and {name} is not"));
            std::env::var(name).map_err(|_| missing())
        };
        if let Some(kubeconfig) = std::env::var_os("EVICTD_E2E_KUBECONFIG") {
            return Ok(Self {
                // A program under test may run elsewhere.
                kubeconfig: std::path::absolute(kubeconfig)?,
                node: variable("EVICTD_E2E_NODE")?,
                image: variable("EVICTD_E2E_IMAGE")?,
                testkit: None,
            });
        }
        let api = ApiServer::start()?;
        let node = "one".to_owned();
        let kubelet = Kubelet::start(&api, &node, SECOND, runtime)?;
        let controllers = Controllers::start(&api)?;
        let kubeconfig = directory.join("kubeconfig");
        std::fs::write(&kubeconfig, api.kubeconfig())?;
        Ok(Self {
            kubeconfig,
            node,
            image: "none".to_owned(),
            testkit: Some((controllers, kubelet, api)),
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

    /// An image whose entrypoint is `evictd`.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// How long a test waits here to see that a kubelet does not act within so many of its seconds.
    pub fn seconds(&self, seconds: u32) -> Duration {
        seconds
            * self
                .testkit
                .as_ref()
                .map_or(Duration::from_secs(1), |_| SECOND)
    }
}
