use super::{Accept, Bodies, BodyError, BodyLimits, Limits, ListenAddress, bind, serve};
use crate::probes::{self, Probe};
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, duplex};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};
use tokio_util::sync::CancellationToken;

/// More than anything here takes.
const DEADLINE: Duration = Duration::from_secs(30);

/// For requests of API servers.
const KEPT: Limits = Limits {
    connections: 64,
    per_peer: None,
    request: Duration::from_secs(7),
    idle: Some(Duration::from_secs(100)),
};

/// Connections in memory, so that time can be paused.
struct Memory(mpsc::UnboundedReceiver<(DuplexStream, IpAddr)>);

impl Accept for Memory {
    type Stream = DuplexStream;

    async fn accept(&mut self) -> io::Result<(DuplexStream, Option<IpAddr>)> {
        match self.0.recv().await {
            Some((stream, peer)) => Ok((stream, Some(peer))),
            None => std::future::pending().await,
        }
    }
}

struct Server {
    connect: mpsc::UnboundedSender<(DuplexStream, IpAddr)>,
    stop: CancellationToken,
    serving: JoinHandle<()>,
}

impl Server {
    fn start(router: Router, limits: Limits) -> Self {
        let (connect, connections) = mpsc::unbounded_channel();
        let stop = CancellationToken::new();
        let serving = serve(Memory(connections), None, router, limits, stop.clone());
        Self {
            connect,
            stop,
            serving: tokio::spawn(serving),
        }
    }

    fn connect(&self, last: u8) -> DuplexStream {
        let (client, server) = duplex(1 << 20);
        let peer = Ipv4Addr::new(192, 0, 2, last).into();
        self.connect.send((server, peer)).unwrap();
        client
    }
}

const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n";

/// The code of the next answer on this connection, read to the end of its head and its short body.
async fn code(stream: &mut (impl AsyncRead + Unpin)) -> Option<u16> {
    let mut text = Vec::new();
    let whole = |text: &[u8]| {
        let text = String::from_utf8_lossy(text).into_owned();
        let (head, body) = text.split_once("\r\n\r\n")?;
        let head = head.to_ascii_lowercase();
        let (_, length) = head.split_once("content-length: ")?;
        let length: usize = length.lines().next()?.parse().ok()?;
        (body.len() >= length).then(|| head[9..12].parse().ok())?
    };
    let read = async {
        loop {
            if let Some(code) = whole(&text) {
                return Some(code);
            }
            let mut bytes = [0; 4096];
            match stream.read(&mut bytes).await {
                Ok(0) | Err(_) => return None,
                Ok(count) => text.extend_from_slice(&bytes[..count]),
            }
        }
    };
    timeout(DEADLINE, read).await.expect("nothing is answered")
}

async fn ask(stream: &mut (impl AsyncRead + AsyncWrite + Unpin), request: &[u8]) -> Option<u16> {
    stream.write_all(request).await.ok()?;
    code(stream).await
}

fn hello() -> Router {
    Router::new().route("/", get(|| async { "hello" }))
}

#[tokio::test(start_paused = true)]
async fn six_hundred_silent_connections_of_many_peers_keep_no_client_out() {
    let server = Server::start(hello(), Limits::PROBES);
    let silent: Vec<_> = (0..600_u16)
        .map(|index| server.connect((index % 200) as u8))
        .collect();
    let before = Instant::now();
    let mut next = server.connect(251);
    assert_eq!(ask(&mut next, GET).await, Some(200));
    assert_eq!(before.elapsed(), Duration::ZERO, "nothing was waited for");
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn a_peer_with_many_connections_does_not_close_those_of_others() {
    let limits = Limits {
        per_peer: Some(8),
        ..Limits::PROBES
    };
    let server = Server::start(hello(), limits);
    let mut probe = server.connect(250);
    let silent: Vec<_> = (0..200).map(|index| server.connect(index % 4)).collect();
    assert_eq!(ask(&mut probe, GET).await, Some(200));
    drop(silent);
}

#[tokio::test(start_paused = true)]
async fn a_head_has_two_seconds_and_a_later_one_has_them_from_its_first_byte() {
    let server = Server::start(hello(), KEPT);
    let mut slow = server.connect(1);
    slow.write_all(b"GET / HTTP/1.1\r\n").await.unwrap();
    let began = Instant::now();
    assert_eq!(code(&mut slow).await, None);
    assert_eq!(began.elapsed(), super::HEAD_TIMEOUT);

    let mut kept = server.connect(1);
    assert_eq!(ask(&mut kept, GET).await, Some(200));
    // A client that reuses its connections may do so for a long time.
    tokio::time::advance(Duration::from_secs(90)).await;
    assert_eq!(ask(&mut kept, GET).await, Some(200));
    tokio::time::advance(Duration::from_secs(90)).await;
    kept.write_all(b"G").await.unwrap();
    let began = Instant::now();
    assert_eq!(code(&mut kept).await, None);
    assert_eq!(began.elapsed(), super::HEAD_TIMEOUT);
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_reader_or_a_writer_has_an_end() {
    let stuck = get(|| async { std::future::pending::<()>().await });
    let server = Server::start(Router::new().route("/", stuck), Limits::PROBES);
    let mut client = server.connect(1);
    let began = Instant::now();
    assert_eq!(ask(&mut client, GET).await, None);
    assert_eq!(began.elapsed(), Limits::PROBES.request);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_being_answered_is_not_closed_for_another() {
    let release = Arc::new(Notify::new());
    let until = Arc::clone(&release);
    let wait = get(move || async move {
        until.notified().await;
        "hello"
    });
    let limits = Limits {
        connections: 1,
        ..Limits::METRICS
    };
    let server = Server::start(Router::new().route("/", wait), limits);
    let mut busy = server.connect(1);
    busy.write_all(GET).await.unwrap();
    tokio::task::yield_now().await;
    let mut refused = server.connect(2);
    assert_eq!(code(&mut refused).await, None);
    release.notify_one();
    assert_eq!(code(&mut busy).await, Some(200));
}

/// As the webhook reads: the body, then a turn, then the decision.
#[derive(Clone)]
struct Reviews {
    bodies: Bodies,
    turns: Arc<tokio::sync::Semaphore>,
}

async fn review(State(own): State<Reviews>, request: Request) -> impl IntoResponse {
    match own.bodies.read(request.into_body()).await {
        Ok(body) => {
            let _turn = own.turns.acquire().await;
            (StatusCode::OK, body.as_ref().len().to_string())
        }
        Err(error) => (error.status(), error.to_string()),
    }
}

fn reviews(all: usize) -> (Reviews, Server) {
    let limits = BodyLimits {
        largest: 3 << 20,
        all,
        time: Duration::from_secs(2),
    };
    let reviews = Reviews {
        bodies: Bodies::new(limits),
        turns: Arc::new(tokio::sync::Semaphore::new(1)),
    };
    let router = Router::new().route("/", post(review));
    let limits = Limits {
        connections: 1024,
        ..KEPT
    };
    let server = Server::start(router.with_state(reviews.clone()), limits);
    (reviews, server)
}

fn begun(length: usize, sent: usize) -> Vec<u8> {
    let mut request =
        format!("POST / HTTP/1.1\r\nhost: x\r\ncontent-length: {length}\r\n\r\n").into_bytes();
    request.resize(request.len() + sent, b' ');
    request
}

#[tokio::test(start_paused = true)]
async fn two_hundred_slow_bodies_take_no_turn_and_are_given_up_for_the_next_review() {
    let (reviews, server) = reviews(64 << 20);
    let mut slow = Vec::new();
    for index in 0..200 {
        let mut client = server.connect(index);
        // Together they are ten times the budget.
        client.write_all(&begun(3 << 20, 700 << 10)).await.unwrap();
        slow.push(client);
        tokio::task::yield_now().await;
        assert!(reviews.bodies.used() <= 64 << 20, "the budget is exceeded");
    }
    let before = Instant::now();
    let mut client = server.connect(250);
    // More than what the slow ones have left.
    let review = begun(1 << 20, 1 << 20);
    assert_eq!(ask(&mut client, &review).await, Some(200));
    assert_eq!(before.elapsed(), Duration::ZERO, "nothing was waited for");
    for mut client in slow {
        let code = code(&mut client).await;
        assert!(
            code.is_none_or(|code| code == 408 || code == 503),
            "{code:?}"
        );
    }
    assert_eq!(reviews.bodies.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_body_that_is_too_large_or_broken_is_refused_and_its_bytes_are_free_again() {
    let (reviews, _server) = reviews(4 << 20);
    let read = async |length: usize| {
        let body = Body::from(vec![0; length]);
        reviews.bodies.read(body).await
    };
    let whole = read(3 << 20).await.unwrap();
    assert_eq!(reviews.bodies.used(), 3 << 20);
    assert!(matches!(
        read((3 << 20) + 1).await,
        Err(BodyError::TooLarge)
    ));
    // What is complete is never given up for another.
    assert!(matches!(read(2 << 20).await, Err(BodyError::TooMany)));
    drop(whole);
    assert_eq!(reviews.bodies.used(), 0);
    assert_eq!(read(2 << 20).await.unwrap().as_ref().len(), 2 << 20);
    assert_eq!(reviews.bodies.used(), 0);
}

#[tokio::test(start_paused = true)]
async fn at_the_end_requests_that_are_under_way_are_answered_and_no_other() {
    let release = Arc::new(Notify::new());
    let until = Arc::clone(&release);
    let wait = get(move || async move {
        until.notified().await;
        "hello"
    });
    let server = Server::start(Router::new().route("/", wait), KEPT);
    let mut busy = server.connect(1);
    busy.write_all(GET).await.unwrap();
    tokio::task::yield_now().await;
    let mut silent = server.connect(1);
    tokio::task::yield_now().await;
    server.stop.cancel();
    release.notify_one();
    assert_eq!(code(&mut busy).await, Some(200));
    assert_eq!(code(&mut busy).await, None);
    assert_eq!(code(&mut silent).await, None);
    timeout(DEADLINE, server.serving).await.unwrap().unwrap();
}

#[derive(Clone)]
struct Lives;

impl Probe for Lives {
    fn answer(&self, path: &str, _query: &str) -> Option<(StatusCode, String)> {
        (path == "/livez").then(|| (StatusCode::OK, "ok\n".to_owned()))
    }
}

#[tokio::test]
async fn probes_over_tcp_are_answered_beside_hundreds_of_silent_connections() {
    let any: ListenAddress = "127.0.0.1:0".parse().unwrap();
    let listener = bind("--healthz-address", &any).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(probes::serve(listener, Lives));
    let from = async |host: [u8; 4]| -> TcpStream {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind(SocketAddr::from((host, 0))).unwrap();
        socket.connect(address).await.unwrap()
    };
    let mut silent = Vec::new();
    for index in 0..300_u16 {
        silent.push(from([127, 0, 1, (index % 16) as u8]).await);
        silent.push(from([127, 0, 0, 1]).await);
    }
    for (request, expected) in [
        ("GET /livez", 200),
        ("POST /livez", 405),
        ("GET /metrics", 404),
    ] {
        let mut client = from([127, 0, 0, 1]).await;
        let request = format!("{request} HTTP/1.1\r\nhost: x\r\n\r\n");
        let answered = ask(&mut client, request.as_bytes());
        let answered = timeout(Duration::from_secs(1), answered).await;
        assert_eq!(answered, Ok(Some(expected)), "{request}");
    }
}

#[tokio::test]
async fn an_address_in_use_is_named_with_its_setting() {
    let any: ListenAddress = ":0".parse().unwrap();
    let listener = bind("--port", &any).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let taken: ListenAddress = format!(":{port}").parse().unwrap();
    let error = bind("--port", &taken).await.unwrap_err().to_string();
    let expected = format!("cannot listen on :{port} (--port): ");
    assert!(
        error.starts_with(&expected) && error.contains("in use"),
        "{error}"
    );
    assert!("localhost".parse::<ListenAddress>().is_err());
}
