//! Metrics and health over TCP, on the loopback. Nothing here changes anything.

use super::serve::serve;
use super::state::Shared;
use crate::publish::metrics::{Exposition, Format};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use jiff::SignedDuration;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;

/// The door could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (metrics.address): {source}")]
pub struct HttpError {
    /// The address that was asked for.
    pub address: SocketAddr,
    /// Why.
    pub source: io::Error,
}

/// What the door shows.
#[derive(Debug, Clone)]
pub struct HttpDoor {
    /// The loop's health.
    pub shared: Arc<Shared>,
    /// The metrics.
    pub exposition: Arc<Exposition>,
    /// A loop that has not turned for longer than this is dead.
    pub longest_turn: SignedDuration,
}

/// Takes the address.
pub async fn bind(address: SocketAddr) -> Result<TcpListener, HttpError> {
    TcpListener::bind(address)
        .await
        .map_err(|source| HttpError { address, source })
}

impl HttpDoor {
    /// Serves `/metrics`, `/livez` and `/readyz`; never ends.
    pub async fn serve(self, listener: TcpListener) {
        let router = Router::new()
            .route("/metrics", get(metrics))
            .route("/livez", get(livez))
            .route("/readyz", get(readyz))
            .with_state(self);
        serve(listener, router).await;
    }
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
