//! Health and metrics over plain HTTP, as Volcano's controllers serve them (S6-144).

use super::metrics::Exposition;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;

/// Connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 64;
/// How long the head of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may last.
const LONGEST: Duration = Duration::from_mins(5);

/// What is served at an address.
#[derive(Clone)]
pub(super) enum Page {
    Metrics(Exposition),
    Health,
}

/// An address that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {source}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// Serves until the runtime ends; returns where.
pub(super) async fn serve(address: SocketAddr, page: Page) -> Result<SocketAddr, BindError> {
    let wrong = |source| BindError { address, source };
    let listener = TcpListener::bind(address).await.map_err(wrong)?;
    let local = listener.local_addr().map_err(wrong)?;
    tokio::spawn(accept(listener, page));
    Ok(local)
}

async fn accept(listener: TcpListener, page: Page) {
    let limit = Arc::new(Semaphore::new(CONNECTIONS));
    // The semaphore is never closed.
    while let Ok(turn) = Arc::clone(&limit).acquire_owned().await {
        let Ok((stream, _)) = listener.accept().await else {
            // Out of file descriptors, for example.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let page = page.clone();
        tokio::spawn(async move {
            let _turn = turn;
            let service = service_fn(move |request| {
                let answer = answer(&page, &request);
                async move { Ok::<_, Infallible>(answer) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(PATIENCE)
                .serve_connection(TokioIo::new(stream), service);
            // What becomes of one connection is the client's own affair.
            let _ = tokio::time::timeout(LONGEST, connection).await;
        });
    }
}

fn answer(page: &Page, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let (code, kind, text) = match (page, request.uri().path()) {
        (Page::Metrics(exposition), "/metrics") => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            (StatusCode::OK, kind, exposition.text())
        }
        (Page::Health, "/healthz" | "/livez" | "/readyz") => {
            (StatusCode::OK, "text/plain", "ok".to_owned())
        }
        _ => (
            StatusCode::NOT_FOUND,
            "text/plain",
            "not found\n".to_owned(),
        ),
    };
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    let kind = hyper::header::HeaderValue::from_static(kind);
    response
        .headers_mut()
        .insert(hyper::header::CONTENT_TYPE, kind);
    response
}
