//! The HTTPS endpoints of the webhook. Requests are limited in time and size. A request that takes too long gets an error, and
//! the failure policy of the webhook configuration applies.
//!
//! | path | response |
//! |---|---|
//! | `/jobs/mutate`, ... | an `AdmissionReview` |
//! | `/livez`, `/healthz` | whether the process runs |
//! | `/readyz` | whether it can decide, and the API server trusts it |
//!
//! ```text
//!   head -> body, within the budget of all bodies -> permit -> decision, on a blocking thread
//! ```

use super::cache::SharedCache;
use super::health::{Health, can_decide};
use super::review;
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evictd_batch_admission::{Endpoint, Settings};
use evictd_daemon::probes;
use evictd_daemon::server::{self, Bodies, BodyLimits, Whole};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tracing::info;

/// The limits of bodies. The API server accepts objects of up to 3 MiB, and sends a body without pauses.
const BODIES: BodyLimits = BodyLimits {
    largest: 3 << 20,
    all: 64 << 20,
    time: Duration::from_secs(2),
};
/// API servers close an idle connection after 90 s. The webhook waits longer, so that no request meets a closing connection.
const KEEP_ALIVE: Duration = Duration::from_secs(100);
/// How long the response may take to be sent.
const SEND_TIMEOUT: Duration = Duration::from_secs(2);

/// The limits of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The number of connections. A new one closes the one that is idle for the longest time.
    pub connections: usize,
    /// The number of concurrent decisions. Further requests wait, until their time is over.
    pub in_flight: usize,
    /// The time of a request, from its head to the response.
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
            // All reviews come from a few API servers.
            per_peer: None,
            request: limits.time + SEND_TIMEOUT,
            idle: Some(KEEP_ALIVE),
        }
    }
}

struct Reviews {
    cache: SharedCache,
    health: Health,
    settings: Settings,
    endpoints: Vec<Endpoint>,
    bodies: Bodies,
    permits: Arc<Semaphore>,
    limits: Limits,
}

pub(super) fn router(
    (cache, health): (SharedCache, Health),
    (settings, endpoints): (Settings, Vec<Endpoint>),
    limits: Limits,
) -> Router {
    let reviews = Reviews {
        cache,
        health,
        settings,
        endpoints,
        bodies: Bodies::new(BODIES),
        permits: Arc::new(Semaphore::new(limits.in_flight)),
        limits,
    };
    Router::new()
        .fallback(within_time)
        .with_state(Arc::new(reviews))
}

async fn within_time(State(reviews): State<Arc<Reviews>>, request: Request) -> Response {
    let path = request.uri().path().to_owned();
    let time = reviews.limits.time;
    let response = tokio::time::timeout(time, respond(&reviews, request)).await;
    response.unwrap_or_else(|_| {
        info!("{path}: no decision within the time limit");
        let code = StatusCode::SERVICE_UNAVAILABLE;
        (code, "no decision within the time limit\n").into_response()
    })
}

async fn respond(reviews: &Arc<Reviews>, request: Request) -> Response {
    if let Some(health) = probes::respond(&reviews.health, &request) {
        return health;
    }
    let endpoint = match endpoint(reviews, &request) {
        Ok(endpoint) => endpoint,
        Err(refused) => return refused.into_response(),
    };
    // The body is read without a permit, so that slow clients delay no decision.
    let body = match reviews.bodies.read(request.into_body()).await {
        Ok(body) => body,
        Err(error) => return (error.status(), format!("{error}\n")).into_response(),
    };
    // Before the queues are listed, jobs of existing queues would be denied.
    if !can_decide(&reviews.health) {
        let message = "queues and namespaces are not listed yet\n";
        return (StatusCode::SERVICE_UNAVAILABLE, message).into_response();
    }
    // The semaphore is never closed.
    let Ok(permit) = Arc::clone(&reviews.permits).acquire_owned().await else {
        return (StatusCode::SERVICE_UNAVAILABLE, "the webhook stops\n").into_response();
    };
    let reviews = Arc::clone(reviews);
    // A decision cannot be cancelled. It keeps its permit after a timeout, so that slow ones do not pile up.
    let decision = spawn_blocking(move || {
        let response = decide(&reviews, endpoint, &body);
        drop((permit, body));
        response
    });
    match decision.await {
        Ok(response) => response,
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

/// The endpoint of a request, or an error that needs no body.
fn endpoint(reviews: &Reviews, request: &Request) -> Result<Endpoint, (StatusCode, &'static str)> {
    let endpoint = Endpoint::at(request.uri().path());
    let endpoint = endpoint.filter(|endpoint| reviews.endpoints.contains(endpoint));
    let endpoint = endpoint.ok_or((StatusCode::NOT_FOUND, "404 page not found\n"))?;
    if *request.method() != Method::POST {
        let message = "an AdmissionReview is posted\n";
        return Err((StatusCode::METHOD_NOT_ALLOWED, message));
    }
    let content_type = request.headers().get(header::CONTENT_TYPE);
    if !content_type.is_some_and(|text| text.as_bytes().starts_with(b"application/json")) {
        let message = "an AdmissionReview is application/json\n";
        return Err((StatusCode::UNSUPPORTED_MEDIA_TYPE, message));
    }
    Ok(endpoint)
}

fn decide(reviews: &Reviews, endpoint: Endpoint, body: &Whole) -> Response {
    let cache = reviews.cache.read();
    match review::review(endpoint, body.as_ref(), &cache, &reviews.settings) {
        Ok(reviewed) => {
            if let Some(denied) = reviewed.denied {
                info!("denied: {denied}");
            }
            let content_type = [(header::CONTENT_TYPE, "application/json")];
            (content_type, reviewed.text).into_response()
        }
        Err(error) => (StatusCode::BAD_REQUEST, format!("{error}\n")).into_response(),
    }
}
