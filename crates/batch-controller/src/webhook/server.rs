//! The endpoints of the webhook. Each request has limits of time and size. A decision that takes too long is an error, which
//! the webhook configuration's failure policy handles.
//!
//! | path | what |
//! |---|---|
//! | `/jobs/mutate`, ... | an `AdmissionReview` in, one out |
//! | `/livez`, `/healthz` | the process runs |
//! | `/readyz` | it can decide, and the API server can reach it |
//!
//! ```text
//!   head -> body, within the budget of all bodies -> a turn -> the decision, on a thread for what may take long
//! ```

use super::health::{Health, can_decide};
use super::known::Shared;
use super::review;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evictd_batch::admission::{Endpoint, Settings};
use evictd_daemon::probes;
use evictd_daemon::server::{self, Bodies, BodyLimits, Whole};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::info;

/// What reviews may take before they are decided: the API server's own limit for an object is 3 MiB, and it sends it at once.
const BODIES: BodyLimits = BodyLimits {
    largest: 3 << 20,
    all: 64 << 20,
    time: Duration::from_secs(2),
};
/// A client of API servers keeps a connection for 90 s; it is the one that ends it, so that no request comes too late.
const KEEP_ALIVE: Duration = Duration::from_secs(100);
/// How long an answer may take to be sent.
const SENDING: Duration = Duration::from_secs(2);

/// How much is done at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Connections; for a further one the one that is idle for the longest time is closed.
    pub connections: usize,
    /// Requests that are decided; further ones wait within their time.
    pub in_flight: usize,
    /// How long a request may take from its head to its answer.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            in_flight: 2,
            time: Duration::from_secs(5),
        }
    }
}

impl From<Limits> for server::Limits {
    fn from(limits: Limits) -> Self {
        Self {
            connections: limits.connections,
            // All reviews come from the API servers.
            per_peer: None,
            request: limits.time + SENDING,
            idle: Some(KEEP_ALIVE),
        }
    }
}

/// What decides.
struct Reviews {
    known: Shared,
    health: Health,
    settings: Settings,
    endpoints: Vec<Endpoint>,
    bodies: Bodies,
    turns: Arc<Semaphore>,
    limits: Limits,
}

/// Everything that the webhook answers.
pub(super) fn router(
    (known, health): (Shared, Health),
    (settings, endpoints): (Settings, Vec<Endpoint>),
    limits: Limits,
) -> Router {
    let reviews = Reviews {
        known,
        health,
        settings,
        endpoints,
        bodies: Bodies::new(BODIES),
        turns: Arc::new(Semaphore::new(limits.in_flight)),
        limits,
    };
    Router::new()
        .fallback(within_time)
        .with_state(Arc::new(reviews))
}

async fn within_time(State(reviews): State<Arc<Reviews>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let time = reviews.limits.time;
    let answered = tokio::time::timeout(time, answer(&reviews, request)).await;
    answered.unwrap_or_else(|_| {
        info!("{path}: no decision within the time limit");
        let code = StatusCode::SERVICE_UNAVAILABLE;
        (code, "no decision within the time limit\n").into_response()
    })
}

async fn answer(reviews: &Arc<Reviews>, request: Request) -> Response {
    if let Some(health) = probes::respond(&reviews.health, &request) {
        return health;
    }
    let endpoint = match endpoint(reviews, &request) {
        Ok(endpoint) => endpoint,
        Err(refused) => return refused.into_response(),
    };
    let body = match reviews.bodies.read(request.into_body()).await {
        Ok(body) => body,
        Err(error) => return (error.status(), format!("{error}\n")).into_response(),
    };
    if !can_decide(&reviews.health) {
        let why = "queues and namespaces are not known yet\n";
        return (StatusCode::SERVICE_UNAVAILABLE, why).into_response();
    }
    // The semaphore is never closed.
    let Ok(turn) = Arc::clone(&reviews.turns).acquire_owned().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the webhook stops\n").into_response();
    };
    let reviews = Arc::clone(reviews);
    // A decision keeps its turn until its end, also after its request has timed out.
    let decided = spawn_blocking(move || {
        let answer = decide(&reviews, endpoint, &body);
        drop((turn, body));
        answer
    });
    match decided.await {
        Ok(answer) => answer,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// What is asked, or why it is refused before its body is read.
fn endpoint(reviews: &Reviews, request: &Request) -> Result<Endpoint, (StatusCode, &'static str)> {
    let endpoint = Endpoint::at(request.uri().path());
    let endpoint = endpoint.filter(|endpoint| reviews.endpoints.contains(endpoint));
    let endpoint = endpoint.ok_or((StatusCode::NOT_FOUND, "404 page not found\n"))?;
    if *request.method() != Method::POST {
        let why = "an AdmissionReview is posted\n";
        return Err((StatusCode::METHOD_NOT_ALLOWED, why));
    }
    let kind = request.headers().get(header::CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/json")) {
        let why = "an AdmissionReview is application/json\n";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, why));
    }
    Ok(endpoint)
}

fn decide(reviews: &Reviews, endpoint: Endpoint, body: &Whole) -> Response {
    let known = reviews.known.read();
    match review::answer(endpoint, body.as_ref(), &known, &reviews.settings) {
        Ok(answer) => {
            if let Some(denied) = answer.denied {
                info!("denied: {denied}");
            }
            let kind = [(header::CONTENT_TYPE, "application/json")];
            (kind, answer.text).into_response()
        }
        Err(wrong) => (StatusCode::BAD_REQUEST, format!("{wrong}\n")).into_response(),
    }
}
