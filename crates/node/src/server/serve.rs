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
const HEAD: Duration = Duration::from_secs(2);

/// The limits of one listener.
#[derive(Debug, Clone, Copy)]
pub(super) struct Limits {
    /// The most connections at once; most file descriptors are needed for reading cgroups.
    pub(super) in_all: usize,
    /// The most connections from one address.
    pub(super) of_one: usize,
    /// The time limit of a whole connection. Each connection serves one request.
    pub(super) whole: Duration,
}

/// An open connection.
struct Held {
    peer: Option<IpAddr>,
    /// Whether its request was read.
    asked: Arc<AtomicBool>,
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
    let mut held: Vec<Held> = Vec::new();
    loop {
        let (stream, address) = listener.accept().await;
        let peer = peer(&address);
        held.retain(|one| !one.task.is_finished());
        if !make_room(&mut held, limits, peer) {
            tracing::debug!("a connection was closed because there are too many");
            continue;
        }
        let asked = Arc::new(AtomicBool::new(false));
        let answers = TowerToHyperService::new(router.clone());
        let asks = Arc::clone(&asked);
        let service = service_fn(move |request| {
            asks.store(true, Ordering::Relaxed);
            answers.call(request)
        });
        let task = tokio::spawn(async move {
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEAD)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(limits.whole, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection broke"),
                Err(_) => tracing::debug!("a connection was closed because it took too long"),
            }
        });
        held.push(Held {
            peer,
            asked,
            task: task.abort_handle(),
        });
    }
}

/// Closes a connection without a request if there are too many; false if all of them are being answered.
fn make_room(held: &mut Vec<Held>, limits: Limits, peer: Option<IpAddr>) -> bool {
    let of_one = held.iter().filter(|one| one.peer == peer).count() >= limits.of_one;
    if !of_one && held.len() < limits.in_all {
        return true;
    }
    let gives_way = |one: &Held| {
        let is_silent = !one.asked.load(Ordering::Relaxed);
        is_silent && (!of_one || one.peer == peer)
    };
    let Some(oldest) = held.iter().position(gives_way) else {
        return false;
    };
    held.remove(oldest).task.abort();
    true
}
