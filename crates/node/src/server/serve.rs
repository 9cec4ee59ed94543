//! Serves one router on one listener with limits: anyone who can reach it may connect, and then send nothing.
//!
//! Every connection is accepted at once. If there are too many, the oldest one without a request is closed, first
//! one of the same peer. So many silent connections cannot keep others out.

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::task::AbortHandle;

/// The time limit from the start of a connection until its request is read.
const HEAD_TIMEOUT: Duration = Duration::from_secs(2);

/// The limits of one listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most connections at once; most file descriptors are needed for reading cgroups.
    pub(super) connections: usize,
    /// The most connections from one address.
    pub(super) per_address: usize,
    /// The time limit of a whole connection. Each connection serves one request.
    pub(super) duration: Duration,
}

struct Connection {
    peer: Option<IpAddr>,
    /// Whether its request was read.
    request_read: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Serves until the future is dropped, which closes the listener. `peer` gives the address of a connection, if it
/// has one.
pub(super) async fn serve<L: Listener>(
    mut listener: L,
    router: Router,
    limits: Limits,
    peer: impl Fn(&L::Addr) -> Option<IpAddr>,
) {
    // In the order of their start, oldest first.
    let mut connections: Vec<Connection> = Vec::new();
    loop {
        let (stream, address) = listener.accept().await;
        let peer = peer(&address);
        connections.retain(|one| !one.task.is_finished());
        if !make_room(&mut connections, limits, peer) {
            tracing::debug!("a connection was closed because there are too many");
            continue;
        }
        let request_read = Arc::new(AtomicBool::new(false));
        let answers = TowerToHyperService::new(router.clone());
        let mark_read = Arc::clone(&request_read);
        let service = service_fn(move |request| {
            mark_read.store(true, Ordering::Relaxed);
            answers.call(request)
        });
        let task = tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD_TIMEOUT)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(limits.duration, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection broke"),
                Err(_) => tracing::debug!("a connection was closed because it took too long"),
            }
        });
        connections.push(Connection {
            peer,
            request_read,
            task: task.abort_handle(),
        });
    }
}

/// Closes a connection without a request if there are too many; false if all of them are being answered.
fn make_room(connections: &mut Vec<Connection>, limits: Limits, peer: Option<IpAddr>) -> bool {
    let too_many_of_peer =
        connections.iter().filter(|one| one.peer == peer).count() >= limits.per_address;
    if !too_many_of_peer && connections.len() < limits.connections {
        return true;
    }
    let can_be_closed = |one: &Connection| {
        let has_no_request = !one.request_read.load(Ordering::Relaxed);
        has_no_request && (!too_many_of_peer || one.peer == peer)
    };
    let Some(oldest) = connections.iter().position(can_be_closed) else {
        return false;
    };
    connections.remove(oldest).task.abort();
    true
}
