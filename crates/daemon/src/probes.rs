//! The endpoints that the kubelet probes.

use crate::server::{self, Accept, Limits};
use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode, header};
use axum::response::{IntoResponse, Response};
use tokio_util::sync::CancellationToken;

/// The questions of probes.
pub trait Probe: Clone + Send + Sync + 'static {
    /// The answer to `/livez`, `/readyz` and others; `None` where there is no such path.
    fn answer(&self, path: &str, query: &str) -> Option<(StatusCode, String)>;
}

/// Serves probes on a listener of their own until the future is dropped. The daemon's other servers cannot delay them.
pub async fn serve(listener: impl Accept, probe: impl Probe) {
    let never = CancellationToken::new();
    server::serve(listener, None, router(probe), Limits::PROBES, never).await;
}

/// The router of probes, for servers with more paths.
pub fn router<P: Probe>(probe: P) -> Router {
    Router::new().fallback(answer::<P>).with_state(probe)
}

async fn answer<P: Probe>(State(probe): State<P>, request: Request) -> Response {
    respond(&probe, &request).unwrap_or_else(not_found)
}

/// The answer to a request, if it is for a probe.
pub fn respond(probe: &impl Probe, request: &Request) -> Option<Response> {
    let uri = request.uri();
    let answer = probe.answer(uri.path(), uri.query().unwrap_or_default())?;
    if !matches!(*request.method(), Method::GET | Method::HEAD) {
        return Some(method_not_allowed());
    }
    // The answer repeats names from the query, so a browser must not take it for a page.
    let as_said = [(header::X_CONTENT_TYPE_OPTIONS, "nosniff")];
    Some((answer.0, as_said, answer.1).into_response())
}

/// 404.
pub fn not_found() -> Response {
    (StatusCode::NOT_FOUND, "404 page not found\n").into_response()
}

/// 405.
pub fn method_not_allowed() -> Response {
    (StatusCode::METHOD_NOT_ALLOWED, "method not allowed\n").into_response()
}
