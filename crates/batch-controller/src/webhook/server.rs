//! The HTTPS server: so many requests at a time, each with a limit of time and size. What cannot be decided in time is told as
//! an error, and the webhook configuration says what that means.
//!
//! | path | what |
//! |---|---|
//! | `/jobs/mutate`, ... | an `AdmissionReview` in, one out |
//! | `/livez`, `/healthz` | the process runs |
//! | `/readyz` | it can decide, and the API server can reach it |

use super::certificate::Shown;
use super::health::Health;
use super::known::Shared;
use super::review;
use evictd_batch::admission::{Endpoint, Settings};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tracing::{debug, info};

/// The largest review; the API server's own limit for objects is the same.
const LARGEST: usize = 3 << 20;
/// How long the handshake and the head of a request may take.
const PATIENCE: Duration = Duration::from_secs(10);

/// How much is done at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections; further ones wait to be accepted.
    pub connections: usize,
    /// Requests that are read and decided; further ones wait within their time.
    pub in_flight: usize,
    /// How long a request may take from its head to its answer.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            in_flight: 64,
            time: Duration::from_secs(5),
        }
    }
}

/// What decides. Clones share it.
#[derive(Clone)]
pub(super) struct Answers {
    pub(super) known: Shared,
    pub(super) health: Health,
    pub(super) settings: Arc<Settings>,
    pub(super) endpoints: Arc<[Endpoint]>,
    pub(super) turns: Arc<Semaphore>,
    pub(super) limits: Limits,
}

/// Serves until told to stop; then no new connection is taken, and those that are open end with their present request. Without
/// a certificate it is plain HTTP, for probes.
pub(super) async fn serve(
    listener: TcpListener,
    shown: Option<Shown>,
    answers: Answers,
    mut stop: watch::Receiver<bool>,
) {
    let places = Arc::new(Semaphore::new(answers.limits.connections));
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        let next = async {
            let place = Arc::clone(&places).acquire_owned().await.ok()?;
            Some((place, listener.accept().await))
        };
        let accepted = tokio::select! {
            accepted = next => accepted,
            _ = stop.wait_for(|stop| *stop) => None,
        };
        let Some((place, accepted)) = accepted else {
            break;
        };
        let Ok((stream, _)) = accepted else {
            // No descriptors are left, for example: the next attempt comes after others had their turn.
            tokio::time::sleep(Duration::from_millis(100)).await;
            continue;
        };
        let acceptor = match &shown {
            None => None,
            Some(shown) => match shown.acceptor() {
                None => continue,
                acceptor => acceptor,
            },
        };
        let (answers, stop) = (answers.clone(), stop.clone());
        connections.spawn(async move {
            match acceptor {
                None => connection(stream, answers, stop).await,
                Some(acceptor) => {
                    let hands = tokio::time::timeout(PATIENCE, acceptor.accept(stream)).await;
                    match hands {
                        Ok(Ok(stream)) => connection(stream, answers, stop).await,
                        Ok(Err(error)) => debug!("a handshake failed: {error}"),
                        Err(_) => debug!("a handshake took too long"),
                    }
                }
            }
            drop(place);
        });
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    answers: Answers,
    mut stop: watch::Receiver<bool>,
) {
    let service = service_fn(|request| {
        let answers = answers.clone();
        async move { Ok::<_, Infallible>(within_time(&answers, request).await) }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(PATIENCE)
        .serve_connection(TokioIo::new(stream), service);
    let mut served = pin!(served);
    // How a connection ends is its client's business.
    tokio::select! {
        _ = served.as_mut() => return,
        _ = stop.wait_for(|stop| *stop) => served.as_mut().graceful_shutdown(),
    }
    let _ = served.await;
}

type Answer = Response<Full<Bytes>>;

async fn within_time(answers: &Answers, request: Request<Incoming>) -> Answer {
    let path = request.uri().path().to_owned();
    let answered = tokio::time::timeout(answers.limits.time, answer(answers, request)).await;
    answered.unwrap_or_else(|_| {
        info!("{path}: no decision within the time limit");
        let code = StatusCode::SERVICE_UNAVAILABLE;
        plain(code, "no decision within the time limit\n")
    })
}

async fn answer(answers: &Answers, request: Request<Incoming>) -> Answer {
    let path = request.uri().path();
    match path {
        "/livez" | "/healthz" => return plain(StatusCode::OK, "ok\n"),
        "/readyz" => {
            let (ready, page) = answers.health.page();
            let code = if ready {
                StatusCode::OK
            } else {
                StatusCode::SERVICE_UNAVAILABLE
            };
            return plain(code, page);
        }
        _ => {}
    }
    let endpoint = Endpoint::at(path).filter(|endpoint| answers.endpoints.contains(endpoint));
    let Some(endpoint) = endpoint else {
        return plain(StatusCode::NOT_FOUND, "404 page not found\n");
    };
    if *request.method() != Method::POST {
        return plain(
            StatusCode::METHOD_NOT_ALLOWED,
            "an AdmissionReview is posted\n",
        );
    }
    let kind = request.headers().get(header::CONTENT_TYPE);
    let is_json = |kind: &HeaderValue| kind.as_bytes().starts_with(b"application/json");
    if !kind.is_some_and(is_json) {
        let code = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return plain(code, "an AdmissionReview is application/json\n");
    }
    let Ok(_turn) = answers.turns.acquire().await else {
        return plain(StatusCode::SERVICE_UNAVAILABLE, "the webhook stops\n");
    };
    let body = match Limited::new(request.into_body(), LARGEST).collect().await {
        Ok(body) => body.to_bytes(),
        Err(error) if error.is::<LengthLimitError>() => {
            return plain(StatusCode::PAYLOAD_TOO_LARGE, "request body too large\n");
        }
        Err(error) => return plain(StatusCode::BAD_REQUEST, format!("{error}\n")),
    };
    if !answers.health.knows() {
        let why = "queues and namespaces are not known yet\n";
        return plain(StatusCode::SERVICE_UNAVAILABLE, why);
    }
    decide(answers, endpoint, &body)
}

fn decide(answers: &Answers, endpoint: Endpoint, body: &[u8]) -> Answer {
    let decided = review::answer(endpoint, body, &answers.known.read(), &answers.settings);
    match decided {
        Ok(answer) => {
            if let Some(denied) = answer.denied {
                info!("denied: {denied}");
            }
            respond(StatusCode::OK, "application/json", answer.text)
        }
        Err(wrong) => plain(StatusCode::BAD_REQUEST, format!("{wrong}\n")),
    }
}

fn plain(code: StatusCode, text: impl Into<Bytes>) -> Answer {
    respond(code, "text/plain; charset=utf-8", text)
}

fn respond(code: StatusCode, kind: &'static str, text: impl Into<Bytes>) -> Answer {
    let mut response = Response::new(Full::new(text.into()));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}
