//! The release of Kubernetes that `run` behaves as: that of the API server.

use crate::emulation::{Emulation, of_server};
use evictd_cluster_client::{Actions, ApiError, Backoff, CALL_TIMEOUT, chance};
use evictd_pod::compatibility::Release;
use hyper::Request;
use serde_json::Value;
use std::time::Duration;
use tokio::time::sleep;
use tracing::{info, warn};

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

/// The release that was asked for, or that of the API server, which is asked until it answers.
pub(super) async fn wanted(emulation: &Emulation, actions: &Actions) -> Release {
    if let Some(release) = emulation.release() {
        info!("behaves as kube-scheduler {}", release.as_str());
        return release;
    }
    let mut backoff = Backoff::new(FIRST_PAUSE, LONGEST_PAUSE);
    loop {
        match version(actions).await {
            Ok(version) => return nearest(&version),
            // The server answers, but not about its version.
            Err(error)
                if error.status().is_some_and(|status| {
                    (400..500).contains(&status.code) && status.code != 429
                }) =>
            {
                let release = Release::default();
                warn!(
                    "behaves as kube-scheduler {}, because the version of the API server is unknown: {error}",
                    release.as_str()
                );
                return release;
            }
            Err(error) => {
                warn!("the version of the API server is not known yet: {error}");
                sleep(backoff.next(chance())).await;
            }
        }
    }
}

async fn version(actions: &Actions) -> Result<Value, ApiError> {
    let request = Request::get("/version").body(Vec::new());
    actions
        .request("reading /version", CALL_TIMEOUT, request)
        .await
}

fn nearest(version: &Value) -> Release {
    let release = of_server(version);
    let known = release.unwrap_or_default();
    let (of, named) = (known.as_str(), &version["gitVersion"]);
    match release {
        Some(_) => info!("behaves as kube-scheduler {of}, because the API server is {named}"),
        None => {
            warn!("behaves as kube-scheduler {of}, because {named} is no version of an API server");
        }
    }
    known
}
