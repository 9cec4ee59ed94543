//! One connection: its present phase, and how long that may last.

use super::{HEAD_TIMEOUT, Limits};
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::{Request, Response};
use hyper::body::{Frame, Incoming, SizeHint};
use hyper::server::conn::http1;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use std::io::{self, IoSlice};
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::CertificateDer;
use tokio_util::sync::CancellationToken;

/// hyper's buffer for a request's head and body before they are processed; a longer head is refused.
const BUFFER: usize = 32 << 10;

type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The client that sent a request; an extension of it.
#[derive(Debug, Clone)]
pub struct Client {
    /// `None`: there are no addresses on this kind of listener.
    pub address: Option<IpAddr>,
    /// The client certificate, if the listener asks for one. Its chain was verified.
    pub certificate: Option<CertificateDer<'static>>,
}

/// The present phase of a connection, and since when.
#[derive(Debug, Clone, Copy)]
pub(super) enum Phase {
    /// Its handshake, or the head of a request, is being read.
    Head(Instant),
    /// A request is being answered.
    Busy(Instant),
    /// It waits for its next request.
    Idle(Instant),
}

impl Phase {
    /// `None` while a request is being answered.
    pub(super) const fn idle_since(self) -> Option<Instant> {
        match self {
            Self::Head(since) | Self::Idle(since) => Some(since),
            Self::Busy(_) => None,
        }
    }

    fn deadline(self, limits: Limits) -> Instant {
        match self {
            Self::Head(since) => since + HEAD_TIMEOUT,
            Self::Busy(since) => since + limits.request,
            Self::Idle(since) => since + limits.idle.unwrap_or_default(),
        }
    }
}

type Phases = Arc<watch::Sender<Phase>>;

/// A connection before its first byte.
pub(super) struct Connection {
    tls: Option<Arc<ServerConfig>>,
    address: Option<IpAddr>,
    router: Router,
    limits: Limits,
    phases: Phases,
}

impl Connection {
    pub(super) fn new(
        tls: Option<Arc<ServerConfig>>,
        address: Option<IpAddr>,
        router: Router,
        limits: Limits,
    ) -> (Self, watch::Receiver<Phase>) {
        let (phases, phase) = watch::channel(Phase::Head(Instant::now()));
        let connection = Self {
            tls,
            address,
            router,
            limits,
            phases: Arc::new(phases),
        };
        (connection, phase)
    }

    /// Serves until its end, or until one of its times is over.
    pub(super) async fn run<S>(self, stream: S, stop: CancellationToken)
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let over = expired(self.phases.subscribe(), self.limits);
        tokio::select! {
            served = self.shake_hands(stream, stop) => if let Err(error) = served {
                tracing::debug!("a connection broke: {error}");
            },
            phase = over => tracing::debug!("a connection was closed because it took too long: {phase:?}"),
        }
    }

    async fn shake_hands<S>(self, stream: S, stop: CancellationToken) -> Result<(), BoxError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let Some(config) = self.tls.clone() else {
            return self.http(stream, None, stop).await;
        };
        let stream = TlsAcceptor::from(config).accept(stream).await?;
        let chain = stream.get_ref().1.peer_certificates();
        let certificate = chain.and_then(|chain| chain.first());
        let certificate = certificate.map(|one| one.clone().into_owned());
        self.http(stream, certificate, stop).await
    }

    async fn http<S>(
        self,
        stream: S,
        certificate: Option<CertificateDer<'static>>,
        stop: CancellationToken,
    ) -> Result<(), BoxError>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let client = Client {
            address: self.address,
            certificate,
        };
        let router = TowerToHyperService::new(self.router);
        let keeps_alive = self.limits.idle.is_some();
        let phases = Arc::clone(&self.phases);
        let service = service_fn(move |mut request: Request<Incoming>| {
            phases.send_replace(Phase::Busy(Instant::now()));
            request.extensions_mut().insert(client.clone());
            let answered = router.call(request);
            let until_sent = keeps_alive.then(|| Idler(Arc::clone(&phases)));
            async move {
                let response: Response<Body> = answered.await?;
                Ok::<_, std::convert::Infallible>(response.map(|body| Answer {
                    body,
                    _until_sent: until_sent,
                }))
            }
        });
        let stream = Noticed {
            stream,
            phases: self.phases,
        };
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            // Its time for a head begins with the end of the request before.
            .header_read_timeout(None)
            .max_buf_size(BUFFER)
            .keep_alive(keeps_alive)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        tokio::select! {
            served = connection.as_mut() => return Ok(served?),
            () = stop.cancelled() => connection.as_mut().graceful_shutdown(),
        }
        Ok(connection.await?)
    }
}

/// Waits until a phase has lasted too long.
async fn expired(mut phases: watch::Receiver<Phase>, limits: Limits) -> Phase {
    loop {
        let phase = *phases.borrow_and_update();
        tokio::select! {
            () = sleep_until(phase.deadline(limits)) => return phase,
            changed = phases.changed() => if changed.is_err() {
                return phase;
            },
        }
    }
}

/// Says that a connection is idle again when its answer has been handed over.
struct Idler(Phases);

impl Drop for Idler {
    fn drop(&mut self) {
        self.0.send_replace(Phase::Idle(Instant::now()));
    }
}

/// The body of an answer.
struct Answer {
    body: Body,
    _until_sent: Option<Idler>,
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// A stream that notices the first byte of the next request.
struct Noticed<S> {
    stream: S,
    phases: Phases,
}

impl<S: AsyncRead + Unpin> AsyncRead for Noticed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            // A connection may be idle for long, so the time of a request begins with its first byte.
            self.phases.send_if_modified(|phase| {
                let begins = matches!(phase, Phase::Idle(_));
                if begins {
                    *phase = Phase::Head(Instant::now());
                }
                begins
            });
        }
        read
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Noticed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
