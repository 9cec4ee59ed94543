//! HTTP on the loopback.

use crate::body::{Cut, Streamed};
use crate::call::Call;
use crate::cluster::Cluster;
use crate::discovery;
use crate::log::Entry;
use crate::status::Status;
use crate::watch::Watch;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use std::sync::Arc;
use tokio::net::TcpListener;

type Body = BoxBody<Bytes, Cut>;

/// Serves until it is dropped, which also ends every connection.
pub(crate) async fn serve(cluster: Arc<Cluster>, listener: TcpListener) {
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
        };
        let Ok((stream, _)) = accepted else { continue };
        // Else a small answer in two pieces waits for the client's delayed acknowledgement.
        let _ = stream.set_nodelay(true);
        let cluster = Arc::clone(&cluster);
        connections.spawn(async move {
            cluster.count(|counters| counters.connections += 1);
            let service = service_fn(|request| answer(Arc::clone(&cluster), request));
            // How a connection ends is its client's business.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
            cluster.count(|counters| counters.connections -= 1);
        });
    }
}

async fn answer(cluster: Arc<Cluster>, request: Request<Incoming>) -> Result<Response<Body>, Cut> {
    let path = request.uri().path().to_owned();
    let text = |name| {
        let value = request
            .headers()
            .get(name)
            .and_then(|value| value.to_str().ok());
        value.unwrap_or_default().to_owned()
    };
    let call = Call::parse(
        request.method(),
        &path,
        request.uri().query().unwrap_or_default(),
    );
    let call = call.map(|call| {
        let agent = text(header::USER_AGENT);
        let manager = agent.split('/').next().unwrap_or_default().to_owned();
        let kind = text(header::CONTENT_TYPE);
        Call {
            content_type: kind.split(';').next().unwrap_or_default().to_owned(),
            manager: if call.manager.is_empty() {
                manager
            } else {
                call.manager
            },
            ..call
        }
    });
    let mut entry = Entry {
        time: cluster.now(),
        method: request.method().to_string(),
        path: request.uri().to_string(),
        verb: call.as_ref().map_or("", |call| call.verb),
        status: 0,
        user_agent: text(header::USER_AGENT),
        user: String::new(),
    };
    let answered = match &call {
        None => discovery::answer(&path)
            .map(|found| (200, found))
            .ok_or_else(Status::no_such_path),
        Some(call) if call.verb == "watch" => match Watch::new(&cluster, call) {
            Ok(watch) => {
                entry.status = 200;
                cluster.logged(entry);
                return Ok(streamed(cluster, watch));
            }
            Err(status) => Err(status),
        },
        Some(call) => match body(request).await {
            Ok(body) => cluster.answer(call, body),
            Err(status) => Err(status),
        },
    };
    let response = match answered {
        Ok((code, object)) => whole(&cluster, code, &object, None),
        Err(status) => whole(&cluster, status.code, &status.object(), status.retry_after),
    };
    entry.status = response.status().as_u16();
    cluster.logged(entry);
    Ok(response)
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

fn whole(cluster: &Cluster, code: u16, object: &Value, retry_after: Option<u32>) -> Response<Body> {
    let text = match object {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    cluster.count(|counters| counters.bytes += text.len() as u64);
    let body = Full::new(Bytes::from(text))
        .map_err(|never| match never {})
        .boxed();
    let mut response = json_response(body);
    *response.status_mut() = hyper::StatusCode::from_u16(code).unwrap_or_default();
    if let Some(seconds) = retry_after {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, seconds.into());
    }
    response
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
