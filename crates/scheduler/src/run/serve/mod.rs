//! The secure port: health, metrics and pages of the running scheduler over HTTPS.
//!
//! | path | access |
//! |---|---|
//! | `/healthz`, `/livez`, `/readyz`, also `?verbose`, `?exclude=CHECK` and `/healthz/CHECK` | everybody |
//! | `/metrics`, `/configz` and other pages | users that the API server authorizes to get that path |
//!
//! A client authenticates with a certificate of `--client-ca-file` or with a bearer token, which the API server reviews.

mod certificate;
mod client_ca;
mod delegated_auth;
mod health;
mod negotiation;
mod port;
#[cfg(test)]
mod tests;

pub(crate) use client_ca::published_authorities;
pub(crate) use delegated_auth::{CacheTimes, DelegatedAuth};
pub(crate) use health::{Check, Health};
pub(crate) use negotiation::{DEPRECATED, Form, negotiate};
pub(crate) use port::{OpenPort, Port, PortError};

use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use delegated_auth::{Credentials, Denied};
use evictd_daemon::metrics::Exposition;
use evictd_daemon::probes;
use evictd_daemon::server::{Client, Limits};
use serde_json::json;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

/// Operators and scrapers use the port beside probes.
pub(crate) const LIMITS: Limits = Limits {
    connections: 64,
    per_peer: Some(16),
    ..Limits::METRICS
};

/// A request for a page.
#[derive(Debug, Default)]
pub(crate) struct PageRequest {
    pub(crate) query: String,
    /// The header `Accept`. Empty without one.
    pub(crate) accept: String,
}

/// Answers requests for a page.
pub(crate) type Page =
    Arc<dyn Fn(PageRequest) -> Pin<Box<dyn Future<Output = Response> + Send>> + Send + Sync>;

/// The content of the port. Clones share it.
#[derive(Clone)]
pub(crate) struct Answers {
    pub(crate) health: Health,
    pub(crate) exposition: Exposition,
    /// Other pages by path.
    pub(crate) pages: BTreeMap<&'static str, Page>,
    pub(crate) auth: DelegatedAuth,
}

impl Answers {
    pub(crate) fn router(self) -> Router {
        Router::new().fallback(answer).with_state(Arc::new(self))
    }
}

async fn answer(
    State(answers): State<Arc<Answers>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let mut response = authorized(&answers, &client, request).await;
    let nosniff = header::HeaderValue::from_static("nosniff");
    response
        .headers_mut()
        .insert(header::X_CONTENT_TYPE_OPTIONS, nosniff);
    response
}

async fn authorized(answers: &Answers, client: &Client, request: Request) -> Response {
    let path = request.uri().path();
    let authorization = request.headers().get(header::AUTHORIZATION);
    let credentials = Credentials {
        presented: client.certificate.as_deref().and_then(certificate::subject),
        authorization: authorization
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default(),
    };
    let verb = request.method().as_str().to_ascii_lowercase();
    // Before the path is looked up: a client without access learns nothing about which paths exist.
    if let Err(denied) = answers.auth.check(&credentials, &verb, path).await {
        return refused(&denied);
    }
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return probes::method_not_allowed();
    }
    if let Some(health) = probes::respond(&answers.health, &request) {
        return health;
    }
    if path == "/metrics" {
        return answers.exposition.answer(request.headers());
    }
    match answers.pages.get(path) {
        Some(page) => {
            let accept = request.headers().get(header::ACCEPT);
            let accept = accept.and_then(|accept| accept.to_str().ok());
            let wanted = PageRequest {
                query: request.uri().query().unwrap_or_default().to_owned(),
                accept: accept.unwrap_or_default().to_owned(),
            };
            page(wanted).await
        }
        None => probes::not_found(),
    }
}

fn refused(denied: &Denied) -> Response {
    let (code, reason) = match denied {
        Denied::Unknown => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        Denied::Forbidden { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
        Denied::Undecided(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    };
    status(code, reason, &denied.to_string())
}

/// A `Status`, as the API server refuses a request.
pub(crate) fn status(code: StatusCode, reason: &str, message: &str) -> Response {
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": reason, "code": code.as_u16(),
    });
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (code, kind, status.to_string()).into_response()
}
