//! gRPC over HTTP/2, as much of it as a test needs: a length before each message, and the outcome in the trailers.

use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{HeaderMap, HeaderValue};
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::convert::Infallible;
use std::io;
use std::path::Path;
use std::time::Duration;
use tokio::net::UnixStream;

/// How a call is answered instead of as usual.
#[derive(Debug, Clone)]
pub enum Behaviour {
    /// As a runtime that does not have this call.
    Unimplemented,
    /// With this status code of gRPC (5 is `NotFound`) and these words.
    Refuse(u8, &'static str),
    /// As usual, but so much later.
    Slow(Duration),
    /// Not at all, while the connection stays.
    Hang,
    /// With one message of this many zero bytes.
    Huge(usize),
    /// With one message of these bytes.
    Bytes(Vec<u8>),
    /// With this HTTP status and no gRPC.
    Http(u16),
}

/// A gRPC status other than success.
pub(crate) type Refusal = (u8, String);

pub(crate) const UNIMPLEMENTED: u8 = 12;

type Body = Channel<Bytes, Infallible>;

/// The request's one message, without its length.
pub(crate) async fn message(request: Request<Incoming>) -> Option<Bytes> {
    let body = request.into_body().collect().await.ok()?.to_bytes();
    (body.len() >= 5).then(|| body.slice(5..))
}

fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
    let mut framed = Vec::with_capacity(message.len() + 5);
    framed.push(0);
    framed.extend(length.to_be_bytes());
    framed.extend(message);
    framed.into()
}

/// An answer to which messages can be added as long as its sender is kept.
pub(crate) fn stream() -> (Sender<Bytes, Infallible>, Response<Body>) {
    let (sender, body) = Channel::new(16);
    let mut response = Response::new(body);
    let grpc = HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", grpc);
    (sender, response)
}

pub(crate) async fn send(sender: &mut Sender<Bytes, Infallible>, message: &[u8]) -> bool {
    sender.send_data(framed(message)).await.is_ok()
}

/// One message, or a refusal.
pub(crate) fn answer(outcome: Result<Vec<u8>, Refusal>) -> Response<Body> {
    let (mut sender, response) = stream();
    tokio::spawn(async move {
        let (code, words) = match outcome {
            Ok(message) => {
                send(&mut sender, &message).await;
                (0, String::new())
            }
            Err(refusal) => refusal,
        };
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from(u16::from(code)));
        if let Ok(words) = HeaderValue::from_str(&words) {
            trailers.insert("grpc-message", words);
        }
        let _ = sender.send_trailers(trailers).await;
    });
    response
}

pub(crate) fn http(status: u16) -> Response<Body> {
    let (_, body) = Channel::new(1);
    let mut response = Response::new(body);
    *response.status_mut() = status.try_into().unwrap_or_default();
    response
}

/// Asks a runtime for one thing, within a minute.
pub(crate) fn call<Answer: Message + Default>(
    socket: &Path,
    call: &str,
    request: &impl Message,
) -> io::Result<Answer> {
    let message = request.encode_to_vec();
    let asking = || -> io::Result<Bytes> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        runtime.block_on(async {
            tokio::time::timeout(Duration::from_mins(1), ask(socket, call, message)).await?
        })
    };
    // On a thread of its own, for the test may have a runtime on this one.
    let asked = std::thread::scope(|scope| scope.spawn(asking).join());
    let answer = asked.map_err(|_| io::Error::other("the driver panicked"))??;
    Answer::decode(answer).map_err(io::Error::other)
}

async fn ask(socket: &Path, call: &str, message: Vec<u8>) -> io::Result<Bytes> {
    let stream = TokioIo::new(UnixStream::connect(socket).await?);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake(TokioExecutor::new(), stream)
            .await
            .map_err(io::Error::other)?;
    let connection = tokio::spawn(connection);
    let of_images = call.contains("Image");
    let service = if of_images {
        "ImageService"
    } else {
        "RuntimeService"
    };
    let request = Request::post(format!("http://localhost/runtime.v1.{service}/{call}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(Full::new(framed(&message)))
        .map_err(io::Error::other)?;
    let response = sender
        .send_request(request)
        .await
        .map_err(io::Error::other)?;
    let headers = response.headers().clone();
    let body = response
        .into_body()
        .collect()
        .await
        .map_err(io::Error::other)?;
    connection.abort();
    let trailers = body.trailers().cloned().unwrap_or_default();
    let outcome = |name: &str| {
        let value = trailers.get(name).or_else(|| headers.get(name));
        value
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned()
    };
    let (status, words) = (outcome("grpc-status"), outcome("grpc-message"));
    if status != "0" {
        return Err(io::Error::other(format!("{call}: {status}: {words}")));
    }
    let body = body.to_bytes();
    Ok(body.slice(body.len().min(5)..))
}
