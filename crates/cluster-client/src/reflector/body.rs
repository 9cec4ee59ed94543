//! Bodies of answers, as far as they have come.

use super::WatchError;
use super::incoming::Incoming;
use crate::message::{self, Peer, answer};
use http_body_util::{BodyExt, Limited};
use hyper::body::Bytes;
use hyper::header::RETRY_AFTER;
use kube::Client;
use kube::client::Body;
use kube::core::Status;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::timeout;

/// A refusal is one object with a sentence in it.
const LONGEST_REFUSAL: usize = 1 << 20;
/// The longest that the rest of a long object may take: others wait for it to be parsed.
const STALLED: Duration = Duration::from_secs(20);
/// The next bytes of a body; `None` at its end.
pub(super) async fn next_data<T: DeserializeOwned + Send + 'static>(
    body: &mut Body,
    incoming: &Incoming<T>,
) -> Result<Option<Result<Bytes, kube::Error>>, WatchError> {
    let frame = if incoming.is_long() {
        let frame = timeout(STALLED, body.frame()).await;
        frame.map_err(|_| {
            let seconds = STALLED.as_secs();
            watch_error(&format!(
                "the rest of an object did not come within {seconds} s"
            ))
        })?
    } else {
        body.frame().await
    };
    Ok(frame.map(|frame| frame.map(|frame| frame.into_data().unwrap_or_default())))
}

/// The body of a successful answer.
pub(super) async fn open(
    client: &Client,
    request: hyper::Request<Vec<u8>>,
    peer: Peer,
) -> Result<Body, WatchError> {
    let response = client
        .send(request.map(Body::from))
        .await
        .map_err(|error| watch_error(&message::of(&error, peer)))?;
    let code = response.status();
    if code.is_success() {
        return Ok(response.into_body());
    }
    let header = response.headers().get(RETRY_AFTER);
    let seconds = header.and_then(|value| value.to_str().ok()?.parse().ok());
    let text = whole(response.into_body()).await.unwrap_or_default();
    let status = serde_json::from_str::<Status>(&text).unwrap_or_default();
    let refused = refused(&status.with_code(code.as_u16()));
    Err(WatchError {
        code: Some(code.as_u16()),
        // API priority and fairness has only the header.
        retry_after: refused.retry_after.or(seconds.and_then(asked_pause)),
        ..refused
    })
}

/// The pause that a server asks for. Zero is none.
fn asked_pause(seconds: u64) -> Option<Duration> {
    (seconds > 0).then_some(Duration::from_secs(seconds))
}

async fn whole(body: Body) -> Result<String, WatchError> {
    let bytes = Limited::new(body, LONGEST_REFUSAL)
        .collect()
        .await
        .map_err(|error| watch_error(&error))?
        .to_bytes();
    String::from_utf8(bytes.into()).map_err(|error| watch_error(&error))
}

pub(super) fn refused(status: &Status) -> WatchError {
    let details = status.details.as_ref();
    let seconds = details.map_or(0, |details| details.retry_after_seconds);
    WatchError {
        problem: answer(status),
        code: Some(status.code),
        retry_after: asked_pause(seconds.into()),
    }
}

pub(super) fn watch_error(problem: &dyn ToString) -> WatchError {
    WatchError {
        problem: problem.to_string(),
        ..WatchError::default()
    }
}

pub(super) fn unparsable(error: &serde_json::Error) -> WatchError {
    watch_error(&format!("an answer that cannot be parsed: {error}"))
}
