//! Counts and measures requests, as clients of Kubernetes do (`rest_client_requests_total`).

use http::{Method, Request, Response};
use hyper::body::{Body, Buf, Frame, SizeHint};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Instant;
use tower::{Layer, Service};

type Labels = Vec<(&'static str, String)>;

/// The bounds of durations, in seconds.
const SECONDS: Bounds = Bounds(&[
    0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0,
]);
/// The bounds of sizes, in bytes: 64 B to 16 MiB.
const BYTES: Bounds = Bounds(&[
    64.0,
    256.0,
    512.0,
    1024.0,
    4096.0,
    16384.0,
    65536.0,
    262_144.0,
    1_048_576.0,
    4_194_304.0,
    16_777_216.0,
]);

/// The upper bounds of the buckets of a histogram.
#[derive(Debug, Clone, Copy)]
struct Bounds(&'static [f64]);

impl MetricConstructor<Histogram> for Bounds {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

type Histograms = Family<Labels, Histogram, Bounds>;

/// The requests to one server. Clones share them.
#[derive(Clone)]
pub struct Requests {
    host: Arc<str>,
    total: Family<Labels, Counter>,
    duration: Histograms,
    limiter: Histograms,
    request_size: Histograms,
    response_size: Histograms,
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
            duration: Family::new_with_constructor(SECONDS),
            limiter: Family::new_with_constructor(SECONDS),
            request_size: Family::new_with_constructor(BYTES),
            response_size: Family::new_with_constructor(BYTES),
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
        registry.register(
            "rest_client_rate_limiter_duration_seconds",
            "[ALPHA] How long the limit of the rate delayed requests, by verb and host",
            self.limiter.clone(),
        );
        registry.register(
            "rest_client_request_size_bytes",
            "[ALPHA] Bytes of the bodies of requests but watches, by verb and host",
            self.request_size.clone(),
        );
        registry.register(
            "rest_client_response_size_bytes",
            "[ALPHA] Bytes of the bodies of answers that were read to their end, but of watches, by verb and host",
            self.response_size.clone(),
        );
    }

    fn host(&self) -> (&'static str, String) {
        ("host", self.host.to_string())
    }

    fn observe(&self, histograms: &Histograms, verb: &Method, value: f64) {
        let labels = vec![self.host(), ("verb", verb.as_str().to_owned())];
        histograms.get_or_create(&labels).observe(value);
    }

    /// A request was answered with this status code, or not at all.
    fn ended(&self, method: &Method, code: Option<u16>, began: Instant) {
        let code = code.map_or_else(|| "<error>".to_owned(), |code| code.to_string());
        let method_label = ("method", method.as_str().to_owned());
        let labels = vec![("code", code), self.host(), method_label];
        self.total.get_or_create(&labels).inc();
        self.observe(&self.duration, method, began.elapsed().as_secs_f64());
    }

    /// The limit of the rate let a request through after this time.
    pub(crate) fn delayed(&self, verb: &Method, by: Duration) {
        self.observe(&self.limiter, verb, by.as_secs_f64());
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
    B: Body,
    A: Body,
{
    type Response = Response<Measured<A>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (requests, began) = (self.requests.clone(), Instant::now());
        let method = request.method().clone();
        // As in client-go. The events of a watch are no answer that ends.
        let is_sized = !is_watch(&request);
        if is_sized && let Some(length) = request.body().size_hint().exact() {
            requests.observe(&requests.request_size, &method, bytes(length));
        }
        let answer = self.inner.call(request);
        Box::pin(async move {
            let answer = answer.await;
            let code = answer.as_ref().ok().map(|answer| answer.status().as_u16());
            requests.ended(&method, code, began);
            let size = is_sized.then_some(Size {
                requests,
                method,
                read: 0,
            });
            answer.map(|answer| answer.map(|body| Measured { body, size }))
        })
    }
}

fn is_watch<B>(request: &Request<B>) -> bool {
    let mut pairs = request.uri().query().unwrap_or_default().split('&');
    pairs.any(|pair| matches!(pair, "watch" | "watch=true" | "watch=1"))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "the size of a body is exact enough"
)]
fn bytes(count: u64) -> f64 {
    count as f64
}

/// The bytes of an answer that were read so far.
#[derive(Debug)]
struct Size {
    requests: Requests,
    method: Method,
    read: u64,
}

/// The body of an answer, whose size is observed once it was read to its end.
#[derive(Debug)]
pub struct Measured<B: Body> {
    body: B,
    size: Option<Size>,
}

impl<B: Body> Measured<B> {
    fn observe(&mut self) {
        if let Some(Size {
            requests,
            method,
            read,
        }) = self.size.take()
        {
            requests.observe(&requests.response_size, &method, bytes(read));
        }
    }
}

impl<B: Body + Unpin> Body for Measured<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        match &polled {
            Poll::Ready(Some(Ok(frame))) => {
                if let (Some(size), Some(data)) = (&mut self.size, frame.data_ref()) {
                    let more = u64::try_from(data.remaining()).unwrap_or(u64::MAX);
                    size.read = size.read.saturating_add(more);
                }
            }
            // A broken answer has no size.
            Poll::Ready(Some(Err(_))) => self.size = None,
            Poll::Ready(None) => self.observe(),
            Poll::Pending => {}
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B: Body> Drop for Measured<B> {
    /// A reader that knows the length of the answer may stop before it sees the end of the body.
    fn drop(&mut self) {
        if self.body.is_end_stream() {
            self.observe();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http_body_util::{BodyExt, Full};
    use hyper::body::Bytes;
    use prometheus_client::encoding::text::encode;

    fn shown(requests: &Requests) -> String {
        let mut registry = Registry::default();
        requests.register(&mut registry);
        let mut text = String::new();
        encode(&mut text, &registry).unwrap();
        text
    }

    async fn answer(request: Request<Full<Bytes>>) -> Result<Response<Full<Bytes>>, http::Error> {
        let code = if request.uri().path() == "/none" {
            404
        } else {
            200
        };
        let body = Full::new(Bytes::from_static(&[b'a'; 300]));
        Response::builder().status(code).body(body)
    }

    fn request(method: Method, path: &str, length: usize) -> Request<Full<Bytes>> {
        let body = Full::new(Bytes::from(vec![b'a'; length]));
        let request = Request::builder().method(method).uri(path);
        request.body(body).unwrap()
    }

    #[tokio::test]
    async fn requests_are_counted_by_code_method_and_host() {
        let requests = Requests::new("10.0.0.1:6443");
        let mut service = requests.layer(tower::service_fn(answer));
        for path in ["/api", "/api", "/none"] {
            service.call(request(Method::GET, path, 0)).await.unwrap();
        }
        let text = shown(&requests);
        for line in [
            r#"rest_client_requests_total{code="200",host="10.0.0.1:6443",method="GET"} 2"#,
            r#"rest_client_requests_total{code="404",host="10.0.0.1:6443",method="GET"} 1"#,
            r#"rest_client_request_duration_seconds_count{host="10.0.0.1:6443",verb="GET"} 3"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
    }

    #[tokio::test]
    async fn sizes_are_those_of_whole_bodies_and_not_of_watches() {
        let requests = Requests::new("h");
        let mut service = requests.layer(tower::service_fn(answer));
        let watch = request(Method::GET, "/api?watch=true&allowWatchBookmarks=true", 0);
        let watch = service.call(watch).await.unwrap();
        watch.into_body().collect().await.unwrap();
        let patch = request(Method::PATCH, "/api", 100);
        let patch = service.call(patch).await.unwrap();
        // This answer is not read, so that its size is not known.
        drop(service.call(request(Method::PATCH, "/api", 50)).await);
        let text = shown(&requests);
        assert!(!text.contains("response_size_bytes_count"), "{text}");
        patch.into_body().collect().await.unwrap();
        let text = shown(&requests);
        for line in [
            r#"request_size_bytes_sum{host="h",verb="PATCH"} 150.0"#,
            r#"request_size_bytes_count{host="h",verb="PATCH"} 2"#,
            r#"response_size_bytes_sum{host="h",verb="PATCH"} 300.0"#,
            r#"response_size_bytes_count{host="h",verb="PATCH"} 1"#,
            r#"response_size_bytes_bucket{le="512.0",host="h",verb="PATCH"} 1"#,
            r#"response_size_bytes_bucket{le="256.0",host="h",verb="PATCH"} 0"#,
        ] {
            assert!(text.contains(line), "{line} not in {text}");
        }
        assert!(!text.contains(r#"size_bytes_count{host="h",verb="GET"}"#));
    }
}
