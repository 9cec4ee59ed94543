//! The HTTP endpoints of a kubelet.

use crate::actor::Actor;
use crate::cluster::{Proxied, lock};
use crate::connections;
use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;

#[derive(Debug)]
pub(super) struct Endpoints {
    actor: Actor,
    node: String,
    /// `summary`, `config` and `token`, where a test has set them.
    set: Mutex<BTreeMap<&'static str, Value>>,
}

impl Endpoints {
    pub(super) fn new(actor: Actor, node: &str) -> Self {
        Self {
            actor,
            node: node.to_owned(),
            set: Mutex::default(),
        }
    }

    pub(super) fn set(&self, what: &'static str, value: Value) {
        lock(&self.set).insert(what, value);
    }

    fn answer(&self, path: &str, authorization: Option<&str>) -> (StatusCode, Value) {
        let set = lock(&self.set);
        let token = set
            .get("token")
            .and_then(Value::as_str)
            .map(|token| format!("Bearer {token}"));
        if token.is_some() && token.as_deref() != authorization {
            return (StatusCode::UNAUTHORIZED, "Unauthorized".into());
        }
        drop(set);
        self.at(path)
    }

    /// The answer to a caller who is let in.
    fn at(&self, path: &str) -> (StatusCode, Value) {
        let set = |what: &str| lock(&self.set).get(what).cloned();
        let found = match path {
            "/pods" | "/pods/" => self.pods(),
            "/stats/summary" => set("summary")
                .unwrap_or_else(|| json!({"node": {"nodeName": self.node}, "pods": []})),
            "/configz" => match set("config") {
                Some(Value::Null) => return Self::nothing(),
                config => {
                    json!({"kubeletconfig": config.unwrap_or_else(|| json!({"enableServer": true}))})
                }
            },
            "/healthz" => "ok".into(),
            _ => return Self::nothing(),
        };
        (StatusCode::OK, found)
    }

    fn nothing() -> (StatusCode, Value) {
        (StatusCode::NOT_FOUND, "404 page not found".into())
    }

    fn pods(&self) -> Value {
        let mut pods = self.actor.list("pods");
        pods.retain(|pod| pod["spec"]["nodeName"] == *self.node);
        json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": pods})
    }
}

impl Proxied for Endpoints {
    fn found(&self, path: &str) -> (u16, Value) {
        let (code, answer) = self.at(path);
        (code.as_u16(), answer)
    }
}

/// Never ends; dropped, it ends every connection.
pub(super) async fn serve(endpoints: Arc<Endpoints>, listener: TcpListener) {
    connections::serve(listener, |stream| {
        let endpoints = Arc::clone(&endpoints);
        async move {
            let service = service_fn(|request| {
                let response = response(&endpoints, &request);
                async move { Ok::<_, Infallible>(response) }
            });
            // How a connection ends is its client's business.
            let _ = http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        }
    })
    .await;
}

fn response(endpoints: &Endpoints, request: &Request<Incoming>) -> Response<Full<Bytes>> {
    let authorization = request.headers().get(header::AUTHORIZATION);
    let authorization = authorization.and_then(|value| value.to_str().ok());
    let (code, object) = endpoints.answer(request.uri().path(), authorization);
    let text = match object {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = code;
    response
}
