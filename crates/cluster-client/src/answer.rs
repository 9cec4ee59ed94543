//! Answers that are read to their end, which may be too far away.

use http_body_util::{BodyExt, LengthLimitError, Limited};
use kube::{Client, core::Status};

/// How many characters of a foreign answer an error quotes.
const LONGEST_MESSAGE: usize = 1000;

/// Like `Client::request_text`, with a limit in bytes.
pub(crate) async fn text(
    client: Client,
    request: hyper::Request<Vec<u8>>,
    longest: usize,
) -> kube::Result<String> {
    let response = client.send(request.map(kube::client::Body::from)).await?;
    let code = response.status();
    let body = Limited::new(response.into_body(), longest)
        .collect()
        .await
        .map_err(|error| {
            if error.is::<LengthLimitError>() {
                let limit = longest >> 20;
                return kube::Error::Service(format!("an answer of more than {limit} MiB").into());
            }
            kube::Error::Service(error)
        })?;
    let text = String::from_utf8(body.to_bytes().into()).map_err(kube::Error::FromUtf8)?;
    if code.is_success() {
        return Ok(text);
    }
    let status = serde_json::from_str(&text).ok();
    let status = status.filter(|status: &Status| status.status.is_some());
    let status = status.unwrap_or_else(|| {
        let reason = code.canonical_reason().unwrap_or_default();
        // No `status`: that is the API server's alone.
        Status {
            status: None,
            ..Status::failure(beginning(text.trim()), reason)
        }
    });
    Err(kube::Error::Api(status.with_code(code.as_u16()).boxed()))
}

/// The quoted part of a text that may have no end.
fn beginning(text: &str) -> &str {
    let mut places = text.char_indices();
    places
        .nth(LONGEST_MESSAGE)
        .map_or(text, |(end, _)| &text[..end])
}
