//! The authorities of client certificates.

use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT};
use evictd_daemon::tls::authorities;
use hyper::Request;
use serde_json::Value;
use tokio_rustls::rustls::RootCertStore;
use tracing::warn;

/// The API server publishes its authorities here for other servers.
const PUBLISHED: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// The authorities that the API server publishes. `None`, with a warning, if it publishes none: clients then need tokens.
pub(crate) async fn published_authorities(actions: &Actions) -> Option<RootCertStore> {
    let request = Request::get(PUBLISHED).body(Vec::new());
    let what = format!("GET {PUBLISHED}");
    let found: Result<Value, ApiError> = actions.request(&what, CALL_TIMEOUT, request).await;
    let roots = found.map_err(|error| error.to_string()).and_then(|found| {
        let text = found["data"]["client-ca-file"].as_str().unwrap_or("");
        authorities(text).map_err(|error| format!("{PUBLISHED}: client-ca-file: {error}"))
    });
    roots
        .inspect_err(|problem| {
            warn!("the secure port accepts no client certificates: {problem}");
        })
        .ok()
}
