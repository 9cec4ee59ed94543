use super::http::{self, Health};
use super::state::{Question, Shared, SignalStatus, Status, Unanswered};
use crate::config::Address;
use crate::history::Waiting;
use crate::metrics::{Format, Metrics};
use evictd_cluster_client::{Watch, Watches};
use evictd_daemon::{
    probes::{self, Probe},
    server::{self, BindError, Limits},
    tasks::Daemon,
};
use evictd_kernel::clock::Clock;
use evictd_signals::Signal;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper::{HeaderMap, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use jiff::SignedDuration;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio::time::timeout;

pub(super) struct Answered {
    pub(super) code: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) text: String,
}

impl Answered {
    pub(super) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {}", self.text))
    }
}

/// One request over `stream`.
pub(super) async fn request(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
    method: &str,
    path: &str,
    body: String,
) -> Answered {
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header(header::HOST, "evictd")
        .body(Full::new(Bytes::from(body)))
        .unwrap();
    let response = sender.send_request(request).await.unwrap();
    let (head, body) = response.into_parts();
    let text = body.collect().await.unwrap().to_bytes().to_vec();
    Answered {
        code: head.status,
        headers: head.headers,
        text: String::from_utf8(text).unwrap(),
    }
}

pub(super) fn shared(history: PathBuf) -> (Arc<Shared>, mpsc::Receiver<Question>) {
    let clock = Clock::start();
    let mut signal = SignalStatus::new(Signal::MemoryAvailable);
    signal.time = Some(clock.now() - SignedDuration::from_secs(5));
    let status = Status {
        node: "node-1".to_owned(),
        started_at: clock.now() - SignedDuration::from_secs(60),
        signals: vec![signal],
        ..Status::default()
    };
    Shared::new(clock, status, history, Waiting::default())
}

struct Http {
    _daemon: Daemon,
    address: SocketAddr,
    probe_address: SocketAddr,
    shared: Arc<Shared>,
}

impl Http {
    async fn open(longest_cycle: SignedDuration) -> Self {
        let (shared, _) = shared(PathBuf::new());
        let (figures, exposition) = Metrics::new();
        figures.eviction_failed("kill");
        let (metrics, probe_listener) = (free().await, free().await);
        let address = metrics.local_addr().unwrap();
        let probe_address = probe_listener.local_addr().unwrap();
        let health = Health {
            watches: Watches::default(),
            shared: Arc::clone(&shared),
            longest_cycle,
        };
        let daemon = Daemon::without_signals();
        let router = http::router(exposition, health.clone());
        daemon.serve(metrics, None, router, Limits::METRICS);
        daemon.spawn(probes::serve(probe_listener, health));
        Self {
            _daemon: daemon,
            address,
            probe_address,
            shared,
        }
    }

    async fn ask(&self, method: &str, path: &str) -> Answered {
        ask(self.address, method, path).await
    }
}

async fn free() -> TcpListener {
    listen("127.0.0.1:0".parse().unwrap()).await.unwrap()
}

async fn listen(address: SocketAddr) -> Result<TcpListener, BindError> {
    let setting = "metrics.address";
    let address = http::resolve(setting, Some(&Address::Socket(address)));
    server::bind(setting, &address.unwrap().unwrap()).await
}

async fn ask(address: SocketAddr, method: &str, path: &str) -> Answered {
    let stream = TcpStream::connect(address).await.unwrap();
    request(stream, method, path, String::new()).await
}

#[tokio::test]
async fn metrics_are_scraped() {
    let http = Http::open(SignedDuration::from_secs(10)).await;
    let scraped = http.ask("GET", "/metrics").await;
    assert_eq!(scraped.code, StatusCode::OK);
    assert_eq!(
        scraped.headers[header::CONTENT_TYPE],
        Format::Plain.content_type()
    );
    assert!(
        scraped
            .text
            .contains("evictd_eviction_failures_total{stage=\"kill\"} 1")
    );
}

#[tokio::test]
async fn nothing_on_tcp_changes_anything() {
    let http = Http::open(SignedDuration::from_secs(10)).await;
    for path in ["/v1/status", "/v1/admit", "/v1/history"] {
        assert_eq!(
            http.ask("POST", path).await.code,
            StatusCode::NOT_FOUND,
            "{path}"
        );
    }
    for path in ["/metrics", "/livez", "/readyz"] {
        assert_eq!(
            http.ask("POST", path).await.code,
            StatusCode::METHOD_NOT_ALLOWED,
            "{path}"
        );
    }
}

#[tokio::test]
async fn alive_while_the_loop_turns() {
    let http = Http::open(SignedDuration::from_secs(10)).await;
    assert_eq!(http.ask("GET", "/livez").await.code, StatusCode::OK);
    let long_ago = Clock::start().now() - SignedDuration::from_secs(20);
    http.shared.cycle_finished(long_ago);
    let dead = http.ask("GET", "/livez").await;
    assert_eq!(dead.code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(
        dead.text.contains("has not completed a cycle for 20."),
        "{}",
        dead.text
    );
    http.shared.cycle_finished(Clock::start().now());
    assert_eq!(http.ask("GET", "/livez").await.code, StatusCode::OK);
}

#[tokio::test]
async fn ready_with_signals_and_pods() {
    let http = Http::open(SignedDuration::from_secs(10)).await;
    let early = http.ask("GET", "/readyz").await;
    assert_eq!(early.code, StatusCode::SERVICE_UNAVAILABLE);
    assert!(early.text.contains("signals"));
    http.shared.sampled();
    assert!(http.ask("GET", "/readyz").await.text.contains("pods"));
    http.shared.pods_loaded();
    assert_eq!(http.ask("GET", "/readyz").await.code, StatusCode::OK);
}

#[tokio::test]
async fn an_address_in_use_is_named() {
    let http = Http::open(SignedDuration::from_secs(10)).await;
    let error = listen(http.address).await.unwrap_err();
    let error = error.to_string();
    let expected = format!("cannot listen on {} (metrics.address): ", http.address);
    assert!(
        error.starts_with(&expected) && error.contains("in use"),
        "{error}"
    );
}

#[tokio::test]
async fn silent_connections_keep_no_probe_and_no_scrape_waiting() {
    let http = Http::open(SignedDuration::from_secs(10)).await;
    let mut silent = Vec::new();
    for _ in 0..145 {
        for address in [http.address, http.probe_address] {
            silent.push(TcpStream::connect(address).await.unwrap());
        }
    }
    for (address, path) in [
        (http.probe_address, "/livez"),
        (http.address, "/livez"),
        (http.address, "/metrics"),
    ] {
        let asked = ask(address, "GET", path);
        let answered = timeout(Duration::from_secs(1), asked).await;
        let answered = answered.unwrap_or_else(|_| panic!("{path} waits"));
        assert_eq!(answered.code, StatusCode::OK, "{path}");
    }
}

#[tokio::test]
async fn probes_have_a_door_of_their_own_without_metrics() {
    let http = Http::open(SignedDuration::from_secs(10)).await;
    let code = async |path: &str| ask(http.probe_address, "GET", path).await.code;
    assert_eq!(code("/livez").await, StatusCode::OK);
    assert_eq!(code("/readyz").await, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(code("/metrics").await, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_connection_that_says_nothing_is_closed_within_seconds() {
    let http = Http::open(SignedDuration::from_secs(10)).await;
    for address in [http.address, http.probe_address] {
        let mut silent = TcpStream::connect(address).await.unwrap();
        silent.write_all(b"GET /livez HTTP/1.1\r\n").await.unwrap();
        let mut answer = Vec::new();
        let closed = timeout(Duration::from_secs(10), silent.read_to_end(&mut answer)).await;
        assert!(closed.is_ok(), "it is still open");
    }
}

#[tokio::test]
async fn the_status_has_ages_as_of_now() {
    let (shared, _questions) = shared(PathBuf::new());
    shared.update(|status| status.dry_run = true);
    let status = shared.status();
    assert!(status.dry_run);
    assert_eq!(status.uptime_seconds, 60);
    let age = status.signals[0].age_seconds.unwrap();
    assert!((5.0..6.0).contains(&age), "{age}");
    let document = serde_json::to_value(&status).unwrap();
    assert_eq!(document["signals"][0]["signal"], "memory.available");
    assert_eq!(serde_json::from_value::<Status>(document).unwrap(), status);
    let older: Status = serde_json::from_value(json!({ "node": "n", "new": 1 })).unwrap();
    assert_eq!(
        older.node, "n",
        "a client of another version still reads it"
    );
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_question_to_the_loop_is_an_error() {
    let (shared, questions) = shared(PathBuf::new());
    let ask = || {
        shared.ask(|answer| Question::Ranking {
            signal: None,
            answer,
        })
    };
    assert_eq!(ask().await, Err(Unanswered::TimedOut));
    for _ in 1..8 {
        assert_eq!(ask().await, Err(Unanswered::TimedOut));
    }
    assert_eq!(ask().await, Err(Unanswered::Busy));
    drop(questions);
    assert_eq!(ask().await, Err(Unanswered::Ended));
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_stays_broken_fails_the_readiness_of_the_agent() {
    let (shared, _) = shared(PathBuf::new());
    shared.pods_loaded();
    shared.sampled();
    let health = Health {
        watches: Watches::default(),
        shared,
        longest_cycle: SignedDuration::from_secs(30),
    };
    let _watch = Watch::new("/api/v1/pods", String::new(), &health.watches);
    let ready = |health: &Health| health.answer("/readyz", "").unwrap();
    assert_eq!(ready(&health).0, StatusCode::OK);
    tokio::time::advance(Duration::from_secs(61)).await;
    let broken = "cannot watch /api/v1/pods: it has not answered yet\n";
    assert_eq!(
        ready(&health),
        (StatusCode::SERVICE_UNAVAILABLE, broken.to_owned())
    );
}
