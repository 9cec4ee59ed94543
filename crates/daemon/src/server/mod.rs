//! Serves one router on one listener with limits: anyone who can reach it may connect, and then send nothing.
//!
//! Every connection is accepted at once. If there are too many, the one that is idle for the longest time is closed.
//! So many silent connections cannot keep others out.

mod accept;
mod body;
mod connection;
mod room;
#[cfg(test)]
mod tests;

pub use accept::{Accept, BindError, ListenAddress, bind};
pub use body::{Bodies, BodyError, BodyLimits, Whole};
pub use connection::Client;

use crate::tls::Serving;
use axum::Router;
use connection::Connection;
use room::Places;
use std::io;
use std::time::Duration;
use tokio::task::{JoinSet, yield_now};
use tokio_util::sync::CancellationToken;

/// The longest time from the start of a connection until the head of its request is read, with the TLS handshake.
/// For a later request the time begins with its first byte.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(2);
/// The pause after the system refused a connection, for lack of file descriptors for example.
const AFTER_ERROR: Duration = Duration::from_millis(100);

/// The limits of one listener.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The most connections at once.
    pub connections: usize,
    /// The most connections from one address. `None`: where all requests come from few addresses, such as API servers.
    pub per_peer: Option<usize>,
    /// The time limit from the head of a request to the last byte of its answer.
    pub request: Duration,
    /// How long a connection may wait for its next request. `None`: each connection serves one request.
    pub idle: Option<Duration>,
}

impl Limits {
    /// For probes: an answer is one line.
    pub const PROBES: Self = Self {
        connections: 16,
        per_peer: Some(4),
        request: Duration::from_secs(2),
        idle: None,
    };
    /// For metrics: an answer may be long, and its reader slow.
    pub const METRICS: Self = Self {
        connections: 16,
        per_peer: Some(8),
        request: Duration::from_secs(30),
        idle: None,
    };
}

/// Serves until `stop`; then the listener is closed, and the requests that are under way are answered. Dropping the
/// future ends all of them. With `tls` a connection that comes before there is a certificate is closed.
pub async fn serve(
    mut listener: impl Accept,
    tls: Option<Serving>,
    router: Router,
    limits: Limits,
    stop: CancellationToken,
) {
    let mut running = JoinSet::new();
    let mut places = Places::new(limits);
    loop {
        while running.try_join_next().is_some() {}
        let accepted = tokio::select! {
            biased;
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                after_error(&mut places, &error).await;
                continue;
            }
        };
        let tls = match tls.as_ref().map(Serving::current) {
            Some(None) => continue,
            tls => tls.flatten(),
        };
        if !places.make_room(peer) {
            tracing::debug!("a connection was closed because there are too many");
            continue;
        }
        let (connection, phase) = Connection::new(tls, peer, router.clone(), limits);
        let task = running.spawn(connection.run(stream, stop.clone()));
        places.add(peer, phase, task);
        // Data that the new connection has sent already is read before it could be closed for the next one.
        yield_now().await;
    }
    drop(listener);
    while running.join_next().await.is_some() {}
}

async fn after_error(places: &mut Places, error: &io::Error) {
    let of_client = matches!(
        error.kind(),
        io::ErrorKind::ConnectionRefused
            | io::ErrorKind::ConnectionAborted
            | io::ErrorKind::ConnectionReset
    );
    if of_client {
        return;
    }
    tracing::warn!("a connection cannot be accepted: {error}");
    places.close_oldest();
    tokio::time::sleep(AFTER_ERROR).await;
}
