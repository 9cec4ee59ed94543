//! HTTP on the loopback.

use crate::access::User;
use crate::body::{self, Cut, Streamed};
use crate::call::Call;
use crate::cluster::Cluster;
use crate::fault::Effect;
use crate::log::Entry;
use crate::status::Status;
use crate::watch::Watch;
use crate::{connections, discovery, fault, webhooks};

use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::header::{self, HeaderName};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

type Body = BoxBody<Bytes, Cut>;

/// Whether the server is up, and where to say that it is so.
pub(crate) type Orders = mpsc::UnboundedReceiver<(bool, std::sync::mpsc::Sender<()>)>;

/// Serves until the sender of orders is dropped. While it is down its port refuses connections and has none open.
pub(crate) async fn serve(
    cluster: Arc<Cluster>,
    address: SocketAddr,
    listener: TcpListener,
    mut orders: Orders,
) {
    let mut listening = Some(listener);
    loop {
        let order = match listening.take() {
            Some(listener) => tokio::select! {
                // An order drops this branch, and with it the listener and every open connection.
                () = accept(&cluster, listener) => continue,
                order = orders.recv() => order,
            },
            None => orders.recv().await,
        };
        let Some((up, obeyed)) = order else { return };
        if up {
            listening = TcpListener::bind(address).await.ok();
        }
        // Who waits for it may have given up.
        let _ = obeyed.send(());
    }
}

/// Never ends; dropped, it ends every connection.
async fn accept(cluster: &Arc<Cluster>, listener: TcpListener) {
    connections::serve(listener, |stream| {
        let cluster = Arc::clone(cluster);
        async move {
            let service = service_fn(|request| answer(Arc::clone(&cluster), request));
            // How a connection ends is its client's business.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await;
}

fn text(request: &Request<Incoming>, name: &HeaderName) -> String {
    let value = request
        .headers()
        .get(name)
        .and_then(|value| value.to_str().ok());
    value.unwrap_or_default().to_owned()
}

/// Bytes of a request as it was sent.
fn length(request: &Request<Incoming>) -> u64 {
    let headers = request.headers().iter();
    let head: usize = headers
        .map(|(name, value)| name.as_str().len() + value.len() + ": \r\n".len())
        .sum();
    let line = format!("{} {} HTTP/1.1\r\n\r\n", request.method(), request.uri());
    let body: u64 = text(request, &header::CONTENT_LENGTH).parse().unwrap_or(0);
    (head + line.len()) as u64 + body
}

fn call(request: &Request<Incoming>) -> Option<Call> {
    let uri = request.uri();
    let call = Call::parse(
        request.method(),
        uri.path(),
        uri.query().unwrap_or_default(),
    )?;
    let agent = text(request, &header::USER_AGENT);
    // A real server derives the field manager from the user agent in the same way.
    let manager = agent.split('/').next().unwrap_or_default().to_owned();
    let kind = text(request, &header::CONTENT_TYPE);
    Some(Call {
        content_type: kind.split(';').next().unwrap_or_default().to_owned(),
        manager: if call.manager.is_empty() {
            manager
        } else {
            call.manager
        },
        ..call
    })
}

/// The fault of one answer.
#[derive(Default)]
struct Met {
    refused: Option<Status>,
    cut: Option<usize>,
    garbage: bool,
}

async fn meet(effects: Vec<Effect>) -> Met {
    let mut met = Met::default();
    for effect in effects {
        match effect {
            Effect::Delay(by) => tokio::time::sleep(by).await,
            Effect::Answer(status) => met.refused = Some(status),
            Effect::CutAfter(bytes) => met.cut = Some(bytes),
            Effect::Garbage => met.garbage = true,
        }
    }
    met
}

async fn answer(cluster: Arc<Cluster>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let call = call(&request);
    let metadata_only = text(&request, &header::ACCEPT).contains("as=PartialObjectMetadata");
    let authorization = text(&request, &header::AUTHORIZATION);
    let (user, allowed) = cluster.access().check(&authorization, call.as_ref());
    let mut entry = Entry {
        time: cluster.now(),
        method: request.method().to_string(),
        path: request.uri().to_string(),
        verb: call.as_ref().map_or("", |call| call.verb),
        group: call.as_ref().map_or("", |call| call.resource.group),
        what: call.as_ref().map(Call::what).unwrap_or_default(),
        status: 0,
        user_agent: text(&request, &header::USER_AGENT),
        user: user.name.clone(),
        asked: length(&request),
        answered: 0,
    };
    // Faults come after authentication, so that a test can tell a refused client from an injected answer.
    let effects = fault::met(&mut cluster.faults(), call.as_ref());
    let met = meet(effects).await;
    let unknown_kinds = cluster.settings().unknown_kinds.clone();
    let is_unknown = |call: &Call| unknown_kinds.contains(&call.resource.stored);
    let answered = match (allowed.and(met.refused.map_or(Ok(()), Err)), &call) {
        (Err(status), _) => Err(status),
        // A client without the right to a kind must not learn whether the kind exists.
        (Ok(()), Some(call)) if is_unknown(call) => Err(Status::no_such_path()),
        (Ok(()), Some(call)) if call.verb == "watch" => match Watch::new(&cluster, call, met.cut) {
            Ok(watch) => {
                // The log has a watch from its beginning, because it may never end.
                entry.status = 200;
                cluster.logged(entry);
                return Ok(streamed(cluster, watch));
            }
            Err(status) => Err(status),
        },
        (Ok(()), None) => {
            let found = discovery::answer(request.uri().path(), &cluster.settings());
            found
                .map(|found| (200, found))
                .ok_or_else(Status::no_such_path)
        }
        (Ok(()), Some(call)) => carry_out(&cluster, &user, call, request).await,
    };
    let (code, mut object, retry_after) = match answered {
        Ok((code, object)) => (code, object, None),
        Err(status) => (status.code, status.object(), status.retry_after),
    };
    if let Some(items) = object
        .get_mut("items")
        .and_then(Value::as_array_mut)
        .filter(|_| met.garbage)
    {
        items.insert(
            0,
            json!({"metadata": {"name": 7}, "spec": "garbage", "status": []}),
        );
    }
    // The client of a cut answer may not have received the code.
    entry.status = if met.cut.is_some() { 0 } else { code };
    if metadata_only && code < 300 {
        keep_metadata(&mut object);
    }
    let text = match object {
        Value::String(text) => text,
        other => body::encoded(&other),
    };
    entry.answered = text.len() as u64;
    cluster.logged(entry);
    whole(&cluster, code, text, retry_after, met.cut)
}

async fn carry_out(
    cluster: &Cluster,
    user: &User,
    call: &Call,
    request: Request<Incoming>,
) -> Result<(u16, Value), Status> {
    let body = webhooks::admit(cluster, user, call, body(request).await?).await?;
    cluster.answer_to(user, call, body)
}

/// Of an object, or of each in a list, as who asks for no more gets it.
fn keep_metadata(object: &mut Value) {
    if let Some(items) = object.get_mut("items").and_then(Value::as_array_mut) {
        items.iter_mut().for_each(keep_metadata);
    } else if let Some(fields) = object.as_object_mut() {
        fields.retain(|field, _| field == "metadata");
        fields.insert("kind".to_owned(), "PartialObjectMetadata".into());
        fields.insert("apiVersion".to_owned(), "meta.k8s.io/v1".into());
    }
}

async fn body(request: Request<Incoming>) -> Result<Value, Status> {
    let wrong = |error: &dyn std::fmt::Display| Status::bad_request(format!("body: {error}"));
    let bytes = request
        .into_body()
        .collect()
        .await
        .map_err(|error| wrong(&error))?
        .to_bytes();
    if bytes.is_empty() {
        return Ok(Value::Null);
    }
    serde_json::from_slice(&bytes).map_err(|error| wrong(&error))
}

fn whole(
    cluster: &Cluster,
    code: u16,
    text: String,
    retry_after: Option<u32>,
    cut: Option<usize>,
) -> Result<Response<Body>, Cut> {
    cluster.count(|counters| counters.bytes += text.len() as u64);
    let mut bytes = Bytes::from(text);
    let mut response = match cut {
        None => json_response(Full::new(bytes).map_err(|never| match never {}).boxed()),
        Some(0) => return Err(Cut),
        Some(length) => {
            let (lines, body) = Streamed::new();
            bytes.truncate(length);
            // There is room for two.
            let _ = lines.try_send(Ok(bytes));
            let _ = lines.try_send(Err(Cut));
            json_response(body.boxed())
        }
    };
    *response.status_mut() = hyper::StatusCode::from_u16(code).unwrap_or_default();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    Ok(response)
}

fn json_response(body: Body) -> Response<Body> {
    let mut response = Response::new(body);
    let json = header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(header::CONTENT_TYPE, json);
    response
}

fn streamed(cluster: Arc<Cluster>, watch: Watch) -> Response<Body> {
    let (lines, body) = Streamed::new();
    tokio::spawn(async move {
        cluster.count(|counters| counters.watches += 1);
        watch.run(&cluster, &lines).await;
        cluster.count(|counters| counters.watches -= 1);
    });
    json_response(body.boxed())
}
