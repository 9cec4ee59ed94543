//! Metrics and health over TCP; read only.
//!
//! Health probes may have a separate address, so that connections of metrics clients cannot use up its limits.

use super::serve::{Limits, serve};
use super::state::Shared;
use crate::config::{Address, NoSuchAddress};
use crate::metrics::{Exposition, Format};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::SignedDuration;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// Limits of the metrics address: an answer may be long, and its reader slow.
const METRICS: Limits = Limits {
    connections: 16,
    per_address: 8,
    duration: Duration::from_secs(30),
};
/// Limits of the address for probes: an answer is one line.
const PROBES: Limits = Limits {
    connections: 16,
    per_address: 4,
    duration: Duration::from_secs(2),
};

/// Why the address could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be resolved.
    #[error("{key}: {source}")]
    Unresolved {
        /// The name of its setting.
        key: &'static str,
        /// Which part of the address is wrong.
        source: NoSuchAddress,
    },
    /// The address cannot be listened on.
    #[error("cannot listen on {address} ({key}): {source}")]
    Bind {
        /// The name of its setting.
        key: &'static str,
        /// The address and port.
        address: SocketAddr,
        /// The error of the system call.
        source: io::Error,
    },
}

/// The data of the answers.
#[derive(Debug, Clone)]
pub struct HttpServer {
    /// The health of the main loop.
    pub shared: Arc<Shared>,
    /// The metrics to render.
    pub exposition: Arc<Exposition>,
    /// The main loop counts as stuck if no cycle has ended for this long.
    pub longest_cycle: SignedDuration,
}

/// Listens on the address of the setting `key`.
pub async fn bind(key: &'static str, address: &Address) -> Result<TcpListener, HttpError> {
    let address = address
        .resolve()
        .map_err(|source| HttpError::Unresolved { key, source })?;
    TcpListener::bind(address)
        .await
        .map_err(|source| HttpError::Bind {
            key,
            address,
            source,
        })
}

impl HttpServer {
    /// Serves `/metrics`, `/livez` and `/readyz`; never ends.
    pub async fn serve(self, listener: TcpListener) {
        let router = Self::probes().route("/metrics", get(metrics));
        serve(listener, router.with_state(self), METRICS, of).await;
    }

    /// Serves `/livez` and `/readyz`; never ends.
    pub(crate) async fn serve_probes(self, listener: TcpListener) {
        serve(listener, Self::probes().with_state(self), PROBES, of).await;
    }

    fn probes() -> Router<Self> {
        Router::new()
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
    }
}

#[allow(
    clippy::unnecessary_wraps,
    reason = "only TCP connections have addresses"
)]
fn of(peer: &SocketAddr) -> Option<IpAddr> {
    Some(peer.ip())
}

async fn metrics(State(server): State<HttpServer>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT);
    let format = Format::accepted(accept.and_then(|accept| accept.to_str().ok()));
    match server.exposition.render(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn livez(State(server): State<HttpServer>) -> Response {
    let age = server.shared.since_last_cycle();
    if age <= server.longest_cycle {
        return "ok\n".into_response();
    }
    let message = format!(
        "the sampling loop has not completed a cycle for {:.1} s (limit {:.1} s)\n",
        age.as_secs_f64(),
        server.longest_cycle.as_secs_f64(),
    );
    (StatusCode::SERVICE_UNAVAILABLE, message).into_response()
}

async fn readyz(State(server): State<HttpServer>) -> Response {
    match server.shared.not_ready() {
        None => "ok\n".into_response(),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("{missing}\n")).into_response(),
    }
}
