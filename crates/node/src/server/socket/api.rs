//! The routes of the socket.

use crate::history::{self, Records, Waiting};
use crate::pause::{By, Pause, one_line};
use crate::server::state::{Question, Shared, Unanswered};
use axum::body::{Body, Bytes};
use axum::extract::{Query, Request, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Extension, Json, Router};
use evictd_daemon::server::{Bodies, BodyError, BodyLimits};
use evictd_kernel::clock::Clock;
use evictd_signals::Signal;
use http_body_util::channel::{Channel, Sender};
use jiff::SignedDuration;
use kube::core::DynamicObject;
use kube::core::admission::{AdmissionRequest, AdmissionResponse, AdmissionReview, Operation};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;

/// The annotation in an admission review's response that contains the whole answer: the pods to preempt, and every
/// pod's QoS class.
pub const ANSWER_ANNOTATION: &str = "answer";

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// An API server stores no pod of more than 1.5 MiB. All reviews together must fit into the daemon's memory limit.
const BODIES: BodyLimits = BodyLimits {
    largest: 2 << 20,
    all: 4 << 20,
    time: Duration::from_secs(2),
};

pub(super) fn router(shared: Arc<Shared>) -> Router {
    Router::new()
        .route("/v1/status", get(status))
        .route("/v1/ranking", get(ranking))
        .route("/v1/disk", get(disk))
        .route("/v1/history", get(history))
        .route("/v1/near-misses", get(near_misses))
        .route("/v1/admit", post(admit))
        .route("/v1/stop-node-updates", post(stop_node_reports))
        .route("/v1/pause", post(pause))
        .route("/v1/resume", post(resume))
        .layer(Extension(Bodies::new(BODIES)))
        .with_state(shared)
}

/// `{ "error": ".." }` with a status code.
struct Failure(StatusCode, String);

impl IntoResponse for Failure {
    fn into_response(self) -> Response {
        (self.0, Json(json!({ "error": self.1 }))).into_response()
    }
}

impl From<BodyError> for Failure {
    fn from(error: BodyError) -> Self {
        Self(error.status(), error.to_string())
    }
}

impl From<Unanswered> for Failure {
    fn from(unanswered: Unanswered) -> Self {
        let code = match unanswered {
            Unanswered::Refused(_) => StatusCode::BAD_REQUEST,
            Unanswered::NotYet(_) | Unanswered::Busy | Unanswered::TimedOut | Unanswered::Ended => {
                StatusCode::SERVICE_UNAVAILABLE
            }
        };
        Self(code, unanswered.to_string())
    }
}

async fn status(State(shared): State<Arc<Shared>>) -> Response {
    Json(shared.status()).into_response()
}

#[derive(Deserialize)]
struct Ranking {
    signal: Option<String>,
}

async fn ranking(
    State(shared): State<Arc<Shared>>,
    Query(asked): Query<Ranking>,
) -> Result<Json<Value>, Failure> {
    let signal = asked.signal.map(|name| parse_signal(&name)).transpose()?;
    Ok(Json(
        shared
            .ask(|answer| Question::Ranking { signal, answer })
            .await?,
    ))
}

async fn disk(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Failure> {
    let ledger = shared.ask(|answer| Question::Disk { answer }).await?;
    Ok(Json(ledger))
}

async fn near_misses(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Failure> {
    let kept = shared.ask(|answer| Question::NearMisses { answer }).await?;
    Ok(Json(kept))
}

fn parse_signal(name: &str) -> Result<Signal, Failure> {
    Signal::parse(name).ok_or_else(|| {
        let known = Signal::ALL.map(Signal::as_str).join(", ");
        let message = format!("there is no signal {name:?}; the signals are {known}");
        Failure(StatusCode::BAD_REQUEST, message)
    })
}

/// The path keeps its old name for an `evictd uninstall-node` of another version.
async fn stop_node_reports(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Failure> {
    Ok(Json(
        shared
            .ask(|answer| Question::StopNodeReports { answer })
            .await?,
    ))
}

/// The body of `POST /v1/pause`; every field is optional.
#[derive(Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct PauseRequest {
    /// Length of the pause in seconds; without it the pause has no end.
    seconds: Option<u32>,
    reason: String,
}

async fn pause(
    State(shared): State<Arc<Shared>>,
    Extension(bodies): Extension<Bodies>,
    request: Request,
) -> Result<Json<Value>, Failure> {
    let body = bodies.read(request.into_body()).await?;
    let asked: PauseRequest = serde_json::from_slice(body.as_ref()).map_err(|error| {
        let message = format!("this takes {{ \"seconds\": 90, \"reason\": \"..\" }}: {error}");
        Failure(StatusCode::BAD_REQUEST, message)
    })?;
    let since = shared.now();
    let until = |seconds: u32| Clock::after(since, SignedDuration::from_secs(seconds.into()));
    let pause = Pause {
        since,
        until: asked.seconds.map(until),
        reason: one_line(&asked.reason),
        by: By::Command,
    };
    let question = |answer| Question::Pause { pause, answer };
    Ok(Json(shared.ask(question).await?))
}

async fn resume(State(shared): State<Arc<Shared>>) -> Result<Json<Value>, Failure> {
    let question = |answer| Question::Resume { answer };
    Ok(Json(shared.ask(question).await?))
}

/// A JSON array of the records, oldest first. They are streamed, because all of them may be larger than the
/// daemon's memory limit.
async fn history(State(shared): State<Arc<Shared>>) -> Result<Response, Failure> {
    let directory = shared.history().to_owned();
    let records = on_other_thread(move || history::read(&directory))
        .await
        .and_then(|opened| Ok(opened?))
        .map_err(|error| Failure(StatusCode::INTERNAL_SERVER_ERROR, error.to_string()))?;
    let (sender, body) = Channel::<Bytes, BoxError>::new(1);
    tokio::spawn(async move {
        if let Err((sender, error)) = send_records(sender, records, shared.waiting()).await {
            tracing::warn!(%error, "the history could not be sent completely");
            // Breaks the connection, so that the client does not take a part for the whole.
            sender.abort(error);
        }
    });
    Ok((
        [(header::CONTENT_TYPE, "application/json")],
        Body::new(body),
    )
        .into_response())
}

async fn send_records(
    mut sender: Sender<Bytes, BoxError>,
    mut records: Records,
    waiting: &Waiting,
) -> Result<(), (Sender<Bytes, BoxError>, BoxError)> {
    let mut before = "[";
    // Read after the records on disk, so that records still waiting for the disk are not missed.
    let mut in_memory = None;
    loop {
        let read = on_other_thread(move || (records.next(), records)).await;
        let next = match read {
            Ok((next, rest)) => {
                records = rest;
                let next = next.transpose().map_err(BoxError::from);
                let refused = || waiting.records().into_iter();
                next.map(|next| next.or_else(|| in_memory.get_or_insert_with(refused).next()))
            }
            Err(error) => return Err((sender, error)),
        };
        let (text, last) = match next {
            Ok(Some(record)) => (format!("{before}{record}"), false),
            Ok(None) if before == "[" => ("[]".to_owned(), true),
            Ok(None) => ("]".to_owned(), true),
            Err(error) => return Err((sender, error)),
        };
        before = ",";
        if sender.send_data(text.into()).await.is_err() || last {
            return Ok(());
        }
    }
}

/// At most one thread is occupied by a disk that hangs, however many requests there are.
static ONE_AT_A_TIME: Semaphore = Semaphore::const_new(1);

/// Runs a call that may be slow or hang on another thread than the main loop's.
async fn on_other_thread<T: Send + 'static>(
    read: impl FnOnce() -> T + Send + 'static,
) -> Result<T, BoxError> {
    let permit = ONE_AT_A_TIME.acquire().await?;
    let read = move || {
        let _until_it_is_read = permit;
        read()
    };
    Ok(tokio::task::spawn_blocking(read).await?)
}

async fn admit(
    State(shared): State<Arc<Shared>>,
    Extension(bodies): Extension<Bodies>,
    request: Request,
) -> Response {
    let body = match bodies.read(request.into_body()).await {
        Ok(body) => body,
        Err(error) => return Failure::from(error).into_response(),
    };
    let request = match read_review(body.as_ref()) {
        Ok(request) => request,
        Err(error) => {
            let review = AdmissionResponse::invalid(error).into_review();
            return (StatusCode::BAD_REQUEST, Json(review)).into_response();
        }
    };
    match answer(&shared, &request).await {
        Ok(response) => Json(response.into_review()).into_response(),
        Err(failure) => failure.into_response(),
    }
}

fn read_review(body: &[u8]) -> Result<AdmissionRequest<DynamicObject>, String> {
    let review: AdmissionReview<DynamicObject> =
        serde_json::from_slice(body).map_err(|error| format!("not an AdmissionReview: {error}"))?;
    review
        .try_into()
        .map_err(|_| "the AdmissionReview holds no request".to_owned())
}

async fn answer(
    shared: &Shared,
    request: &AdmissionRequest<DynamicObject>,
) -> Result<AdmissionResponse, Failure> {
    let response = AdmissionResponse::from(request);
    let new_pod = request.operation == Operation::Create
        && request.kind.group.is_empty()
        && request.kind.kind == "Pod"
        && request
            .sub_resource
            .as_deref()
            .unwrap_or_default()
            .is_empty();
    let Some(object) = request.object.as_ref().filter(|_| new_pod) else {
        return Ok(response);
    };
    let pod = serde_json::to_value(object)
        .map_err(|error| Failure(StatusCode::BAD_REQUEST, error.to_string()))?;
    let answer = shared.ask(|answer| Question::Admit { pod, answer }).await?;
    Ok(respond(response, &answer))
}

fn respond(mut response: AdmissionResponse, answer: &Value) -> AdmissionResponse {
    let text = |name: &str| answer[name].as_str().unwrap_or_default().to_owned();
    if answer["allowed"] != true {
        response = response.deny(text("message"));
        response.result.reason = text("reason");
        response.result.code = StatusCode::FORBIDDEN.as_u16();
    }
    response
        .audit_annotations
        .insert(ANSWER_ANNOTATION.to_owned(), answer.to_string());
    response
}
