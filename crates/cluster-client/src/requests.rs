//! Counts and measures requests, as clients of Kubernetes do (`rest_client_requests_total`).

use http::{Request, Response};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::time::Instant;
use tower::{Layer, Service};

type Labels = Vec<(&'static str, String)>;

/// The bounds of `rest_client_request_duration_seconds`.
const BUCKETS: [f64; 12] = [
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
];

#[derive(Debug, Clone, Copy)]
struct Seconds;

impl MetricConstructor<Histogram> for Seconds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(BUCKETS)
    }
}

/// The requests to one server. Clones share them.
#[derive(Clone)]
pub struct Requests {
    host: Arc<str>,
    total: Family<Labels, Counter>,
    duration: Family<Labels, Histogram, Seconds>,
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Requests({})", self.host)
    }
}

impl Requests {
    pub(crate) fn new(host: &str) -> Self {
        Self {
            host: host.into(),
            total: Family::default(),
            duration: Family::new_with_constructor(Seconds),
        }
    }

    /// Registers the metrics.
    pub fn register(&self, registry: &mut Registry) {
        registry.register(
            "rest_client_requests",
            "[ALPHA] Requests by status code, method and host",
            self.total.clone(),
        );
        registry.register(
            "rest_client_request_duration_seconds",
            "[ALPHA] Time until the headers of an answer, by verb and host",
            self.duration.clone(),
        );
    }

    /// A request was answered with this status code, or not at all.
    fn ended(&self, method: &str, code: Option<u16>, began: Instant) {
        let host = ("host", self.host.to_string());
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let method = method.to_owned();
        let labels = vec![("code", code), host.clone(), ("method", method.clone())];
        self.total.get_or_create(&labels).inc();
        self.duration
            .get_or_create(&vec![host, ("verb", method)])
            .observe(began.elapsed().as_secs_f64());
    }
}

impl<S> Layer<S> for Requests {
    type Service = Counted<S>;

    fn layer(&self, inner: S) -> Counted<S> {
        Counted {
            inner,
            requests: self.clone(),
        }
    }
}

/// A service whose requests are counted.
#[derive(Debug, Clone)]
pub struct Counted<S> {
    inner: S,
    requests: Requests,
}

impl<S, B, A> Service<Request<B>> for Counted<S>
where
    S: Service<Request<B>, Response = Response<A>>,
    S::Future: Send + 'static,
{
    type Response = S::Response;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<S::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (requests, began) = (self.requests.clone(), Instant::now());
        let method = request.method().clone();
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            requests.ended(method.as_str(), code, began);
            answer
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use prometheus_client::encoding::text::encode;

    #[tokio::test]
    async fn requests_are_counted_by_code_method_and_host() {
        let requests = Requests::new("10.0.0.1:6443");
        let answer = |request: Request<()>| async move {
            let code = if request.uri().path() == "/none" {
                404
            } else {
                200
            };
            Response::builder().status(code).body(())
        };
        let mut service = requests.layer(tower::service_fn(answer));
        for path in ["/api", "/api", "/none"] {
            let request = Request::get(path).body(()).unwrap();
            service.call(request).await.unwrap();
        }
        let mut registry = Registry::default();
        requests.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        for line in [
            r#"rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 2"#,
            r#"rest_client_requests_total{code="404",host="10.0.0.1:6443",method="GET"} 1"#,
            r#"rest_client_request_duration_seconds_count{host="10.0.0.1:6443",verb="GET"} 3"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }
}
