//! Serves one router on one listener within bounds, since any local process may knock.

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// Connections served at once at one door: file descriptors belong to the readers of cgroups first.
const CONNECTIONS: usize = 16;

/// From a connection's beginning to its end. Each serves one request, so nobody sits on a connection.
const DEADLINE: Duration = Duration::from_secs(30);

/// Never ends; dropping the future closes the door.
pub(super) async fn serve<L: Listener>(mut listener: L, router: Router) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        let (stream, _) = listener.accept().await;
        let service = TowerToHyperService::new(router.clone());
        tokio::spawn(async move {
            let mut http = http1::Builder::new();
            let connection = http
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            match tokio::time::timeout(DEADLINE, connection).await {
                Ok(Ok(())) => {}
                Ok(Err(error)) => tracing::debug!(%error, "a connection broke"),
                Err(_) => tracing::debug!("a connection took too long and was closed"),
            }
            drop(place);
        });
    }
}
