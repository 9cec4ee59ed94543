//! Whose client certificates are taken.

use evictd_cluster_client::{Actions, ApiError, CALL_TIMEOUT};
use hyper::Request;
use serde_json::Value;
use std::path::PathBuf;
use tokio_rustls::rustls::RootCertStore;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tracing::warn;

/// Where the API server publishes the authorities that it takes itself, for servers beside it.
const PUBLISHED: &str =
    "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";

/// The authorities whose client certificates are taken.
#[derive(Debug, Clone)]
pub enum ClientCa {
    /// `--client-ca-file`.
    File(PathBuf),
    /// Those that the API server takes.
    Published(RootCertStore),
}

impl ClientCa {
    /// Asks the API server, once. `None`, with a warning, if it does not say them: then clients show tokens.
    pub async fn published(actions: &Actions) -> Option<Self> {
        let request = Request::get(PUBLISHED).body(Vec::new());
        let what = format!("GET {PUBLISHED}");
        let found: Result<Value, ApiError> = actions.request(&what, CALL_TIMEOUT, request).await;
        let roots = found.map_err(|error| error.to_string()).and_then(|found| {
            let text = found["data"]["client-ca-file"].as_str().unwrap_or("");
            let certificates: Result<Vec<_>, _> =
                CertificateDer::pem_slice_iter(text.as_bytes()).collect();
            let certificates = certificates.map_err(|error| error.to_string())?;
            roots(certificates).map_err(|error| format!("{PUBLISHED}: client-ca-file: {error}"))
        });
        roots
            .inspect_err(|problem| {
                warn!("client certificates are not taken at the secure port: {problem}");
            })
            .ok()
            .map(Self::Published)
    }
}

/// These authorities; an error if there is none.
pub(super) fn roots(
    certificates: Vec<CertificateDer<'static>>,
) -> Result<RootCertStore, tokio_rustls::rustls::Error> {
    let mut roots = RootCertStore::empty();
    if certificates.is_empty() {
        let none = "no certificate in PEM form";
        return Err(tokio_rustls::rustls::Error::General(none.to_owned()));
    }
    for certificate in certificates {
        roots.add(certificate)?;
    }
    Ok(roots)
}
