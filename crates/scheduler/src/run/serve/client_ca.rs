//! Whose client certificates are taken.

use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT};
use evictd_daemon::tls::authorities;
use hyper::Request;
use serde_json::Value;
use tokio_rustls::rustls::RootCertStore;
use tracing::warn;

/// Where the API server publishes the authorities that it takes itself, for servers beside it.
const PUBLISHED: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// The authorities that the API server takes itself. `None`, with a warning, if it does not say them: then clients show
/// tokens.
pub async fn published_authorities(actions: &Actions) -> Option<RootCertStore> {
    let request = Request::get(PUBLISHED).body(Vec::new());
    let what = format!("GET {PUBLISHED}");
    let found: Result<Value, ApiError> = actions.request(&what, CALL_TIMEOUT, request).await;
    let roots = found.map_err(|error| error.to_string()).and_then(|found| {
        let text = found["data"]["client-ca-file"].as_str().unwrap_or("");
        authorities(text).map_err(|error| format!("{PUBLISHED}: client-ca-file: {error}"))
    });
    roots
        .inspect_err(|problem| {
            warn!("client certificates are not taken at the secure port: {problem}");
        })
        .ok()
}
