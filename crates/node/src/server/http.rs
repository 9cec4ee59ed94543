//! Metrics and health over TCP. Nothing here changes anything.
//!
//! Probes may have a door of their own, which scrapers and whoever else reaches the metrics cannot fill.

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

/// What the door of metrics holds: a scrape may be long, and its reader slow.
const METRICS: Limits = Limits {
    in_all: 16,
    of_one: 8,
    whole: Duration::from_secs(30),
};
/// What the door of probes holds: an answer is a line.
const PROBES: Limits = Limits {
    in_all: 16,
    of_one: 4,
    whole: Duration::from_secs(2),
};

/// The door could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address is not known.
    #[error("{key}: {source}")]
    Nowhere {
        /// Its setting.
        key: &'static str,
        /// Why.
        source: NoSuchAddress,
    },
    /// The address can't be had.
    #[error("cannot listen on {address} ({key}): {source}")]
    Bind {
        /// Its setting.
        key: &'static str,
        /// The address that was asked for.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
}

/// What the doors show.
#[derive(Debug, Clone)]
pub struct HttpDoor {
    /// The loop's health.
    pub shared: Arc<Shared>,
    /// The metrics.
    pub exposition: Arc<Exposition>,
    /// A loop that has not turned for longer than this is dead.
    pub longest_turn: SignedDuration,
}

/// Takes the address of the setting `key`.
pub async fn bind(key: &'static str, address: &Address) -> Result<TcpListener, HttpError> {
    let address = address
        .resolve()
        .map_err(|source| HttpError::Nowhere { key, source })?;
    TcpListener::bind(address)
        .await
        .map_err(|source| HttpError::Bind {
            key,
            address,
            source,
        })
}

impl HttpDoor {
    /// Serves `/metrics`, `/livez` and `/readyz`; never ends.
    pub async fn serve(self, listener: TcpListener) {
        let router = Self::probes().route("/metrics", get(metrics));
        serve(listener, router.with_state(self), METRICS, of).await;
    }

    /// Serves `/livez` and `/readyz`; never ends.
    pub async fn serve_probes(self, listener: TcpListener) {
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
    reason = "a door of another kind knows no addresses"
)]
fn of(peer: &SocketAddr) -> Option<IpAddr> {
    Some(peer.ip())
}

async fn metrics(State(door): State<HttpDoor>, headers: HeaderMap) -> Response {
    let accept = headers.get(header::ACCEPT);
    let format = Format::accepted(accept.and_then(|accept| accept.to_str().ok()));
    match door.exposition.render(format) {
        Ok(text) => ([(header::CONTENT_TYPE, format.content_type())], text).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}

async fn livez(State(door): State<HttpDoor>) -> Response {
    let age = door.shared.since_last_turn();
    if age <= door.longest_turn {
        return "ok\n".into_response();
    }
    let told = format!(
        "the sampling loop has not turned for {:.1} s (at most {:.1} s)\n",
        age.as_secs_f64(),
        door.longest_turn.as_secs_f64(),
    );
    (StatusCode::SERVICE_UNAVAILABLE, told).into_response()
}

async fn readyz(State(door): State<HttpDoor>) -> Response {
    match door.shared.not_ready() {
        None => "ok\n".into_response(),
        Some(missing) => (StatusCode::SERVICE_UNAVAILABLE, format!("{missing}\n")).into_response(),
    }
}
