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
mod port;

pub use access::{Access, CacheTimes};
pub use client_ca::published_authorities;
pub use health::{Check, Health};
pub use port::{OpenPort, Port, PortError};

use access::{Credentials, Denied};
use axum::Router;
use axum::extract::{Extension, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use evictd_daemon::metrics::Exposition;
use evictd_daemon::probes;
use evictd_daemon::server::{Client, Limits};
use serde_json::json;
use std::collections::BTreeMap;
use std::pin::Pin;
use std::sync::Arc;

/// Limits of the secure port: operators and scrapers beside probes.
pub const LIMITS: Limits = Limits {
    connections: 64,
    per_peer: Some(16),
    ..Limits::METRICS
};

/// The JSON text of a page, from the query of the request.
pub type Page = Arc<dyn Fn(String) -> Pin<Box<dyn Future<Output = String> + Send>> + Send + Sync>;

/// What is answered. Clones share it.
#[derive(Clone)]
pub struct Answers {
    /// The checks.
    pub health: Health,
    /// The metrics.
    pub exposition: Exposition,
    /// Other pages by path: `/configz`.
    pub pages: BTreeMap<&'static str, Page>,
    /// Who may see what.
    pub access: Access,
}

impl Answers {
    /// Everything at the secure port.
    pub fn router(self) -> Router {
        Router::new().fallback(answer).with_state(Arc::new(self))
    }
}

async fn answer(
    State(answers): State<Arc<Answers>>,
    Extension(client): Extension<Client>,
    request: Request,
) -> Response {
    let mut response = checked(&answers, &client, request).await;
    let as_said = header::HeaderValue::from_static("nosniff");
    let headers = response.headers_mut();
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, as_said);
    response
}

async fn checked(answers: &Answers, client: &Client, request: Request) -> Response {
    let path = request.uri().path();
    let authorization = request.headers().get(header::AUTHORIZATION);
    let credentials = Credentials {
        presented: client.certificate.as_deref().and_then(certificate::subject),
        authorization: authorization
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default(),
    };
    let verb = request.method().as_str().to_ascii_lowercase();
    if let Err(denied) = answers.access.check(&credentials, &verb, path).await {
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
            let query = request.uri().query().unwrap_or_default();
            let text = page(query.to_owned()).await;
            ([(header::CONTENT_TYPE, "application/json")], text).into_response()
        }
        None => probes::not_found(),
    }
}

/// A `Status`, as every server of Kubernetes refuses.
fn refused(denied: &Denied) -> Response {
    let (code, reason) = match denied {
        Denied::Unknown => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        Denied::Forbidden { .. } => (StatusCode::FORBIDDEN, "Forbidden"),
        Denied::Undecided(_) => (StatusCode::INTERNAL_SERVER_ERROR, "InternalError"),
    };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": denied.to_string(), "reason": reason, "code": code.as_u16(),
    });
    let kind = [(header::CONTENT_TYPE, "application/json")];
    (code, kind, status.to_string()).into_response()
}
