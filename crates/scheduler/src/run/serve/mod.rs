//! The secure port: health, metrics and pages of the running scheduler over HTTPS, for those who may see them.
//!
//! | path | who may |
//! |---|---|
//! | `/healthz`, `/livez`, `/readyz`, also `?verbose`, `?exclude=CHECK` and `/healthz/CHECK` | everybody |
//! | `/metrics`, `/configz` and other pages | whom the API server's authorization allows to get that path |
//!
//! Who asks is told by a client certificate of `--client-ca-file` or by a bearer token, which the API server reviews.

mod access;
mod certificate;
mod client_ca;
mod health;
mod tls;

pub use access::{Access, CacheTimes};
pub use client_ca::ClientCa;
pub use health::{Check, Health};
pub use tls::{Certificate, Tls, TlsError};

use super::metrics::Exposition;
use access::{Credentials, Denied};
use evictd_command::scrape::Format;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

/// Connections at a time; further ones wait to be accepted.
const CONNECTIONS: usize = 128;
/// How long the handshake and the head of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a connection may last.
const LONGEST: Duration = Duration::from_mins(5);

/// The JSON text of a page, from the query of the request.
pub type Page = Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

/// What is answered. Clones share it.
#[derive(Clone)]
pub struct Answers {
    /// The checks.
    pub health: Health,
    /// The metrics.
    pub exposition: Arc<Exposition>,
    /// Other pages by path: `/configz`.
    pub pages: BTreeMap<&'static str, Page>,
    /// Who may see what.
    pub access: Access,
}

/// Why the port could not be opened.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address} (--bind-address, --secure-port): {source}")]
pub struct BindError {
    address: SocketAddr,
    source: io::Error,
}

/// A port that listens; dropped, it is closed.
pub struct SecurePort {
    listener: TcpListener,
    acceptor: TlsAcceptor,
}

impl SecurePort {
    /// Opens the port. Whoever has port 0 configured does not call this: the scheduler then serves nothing.
    pub async fn bind(address: SocketAddr, tls: &Tls) -> Result<Self, BindError> {
        let listener = TcpListener::bind(address).await;
        Ok(Self {
            listener: listener.map_err(|source| BindError { address, source })?,
            acceptor: tls.acceptor(),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until the future is dropped, which ends every connection.
    pub async fn serve(self, answers: Answers) {
        let turns = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(turn) = Arc::clone(&turns).acquire_owned().await else {
                return;
            };
            let Ok((stream, _)) = self.listener.accept().await else {
                // No descriptors are left, for example: the next attempt comes after others had their turn.
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (acceptor, answers) = (self.acceptor.clone(), answers.clone());
            connections.spawn(async move {
                let served = tokio::time::timeout(LONGEST, connection(stream, &acceptor, &answers));
                // How a connection ends is its client's business.
                let _ = served.await;
                drop(turn);
            });
        }
    }
}

async fn connection(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    answers: &Answers,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await??;
    let certificates = stream.get_ref().1.peer_certificates();
    let presented = certificates.and_then(|chain| certificate::subject(chain.first()?));
    let service = service_fn(|request| {
        let presented = presented.clone();
        async move { Ok::<_, Infallible>(answer(answers, presented, request).await) }
    });
    http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service)
        .await?;
    Ok(())
}

type Answer = Response<Full<Bytes>>;

async fn answer(
    answers: &Answers,
    presented: Option<certificate::Subject>,
    request: Request<Incoming>,
) -> Answer {
    let path = request.uri().path();
    let header = |name| {
        let value = request.headers().get(name);
        value.and_then(|value: &HeaderValue| value.to_str().ok())
    };
    let credentials = Credentials {
        presented,
        authorization: header(header::AUTHORIZATION).unwrap_or_default(),
    };
    let verb = request.method().as_str().to_ascii_lowercase();
    if let Err(denied) = answers.access.check(&credentials, &verb, path).await {
        return refused(&denied);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n");
    }
    let query = request.uri().query().unwrap_or_default();
    if let Some((healthy, text)) = answers.health.answer(path, query) {
        let code = if healthy {
            StatusCode::OK
        } else {
            StatusCode::INTERNAL_SERVER_ERROR
        };
        return plain(code, text);
    }
    if path == "/metrics" {
        return metrics(answers, header(header::ACCEPT));
    }
    match answers.pages.get(path) {
        Some(page) => {
            let text = page(query.to_owned()).await;
            respond(StatusCode::OK, "application/json", text)
        }
        None => plain(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}

fn metrics(answers: &Answers, accept: Option<&str>) -> Answer {
    let format = Format::accepted(accept);
    match answers.exposition.render(format) {
        Ok(text) => respond(StatusCode::OK, format.content_type(), text),
        Err(error) => plain(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()),
    }
}

/// A `Status`, as every server of Kubernetes refuses.
fn refused(denied: &Denied) -> Answer {
    let (code, reason) = match denied {
        Denied::Unknown => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        Denied::Forbidden { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
        Denied::Undecided(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": denied.to_string(), "reason": reason, "code": code.as_u16(),
    });
    respond(code, "application/json", status.to_string())
}

fn plain(code: StatusCode, text: impl Into<String>) -> Answer {
    respond(code, "text/plain; charset=utf-8", text.into())
}

fn respond(code: StatusCode, content_type: &'static str, text: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    let headers = response.headers_mut();
    let content_type = HeaderValue::from_static(content_type);
    headers.insert(header::CONTENT_TYPE, content_type);
    let as_said = HeaderValue::from_static("nosniff");
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, as_said);
    response
}
