//! A container runtime that answers from memory.

use super::grpc::{self, Behaviour, UNIMPLEMENTED};
use super::state::State;
use super::wire;
use crate::worker::Worker;
use hyper::body::{Bytes, Incoming};
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use std::collections::HashMap;
use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::net::UnixListener;
use tokio::sync::broadcast;
use tokio::task::JoinSet;

type Body = http_body_util::channel::Channel<Bytes, Infallible>;

/// A container runtime in memory, which ends when it is dropped. Calls have the names that they have in CRI.
#[derive(Debug)]
pub struct Double {
    directory: tempfile::TempDir,
    inner: Arc<Inner>,
    worker: Option<Worker>,
}

#[derive(Debug)]
struct Inner {
    known: Mutex<Known>,
    events: broadcast::Sender<Vec<u8>>,
}

#[derive(Debug)]
struct Known {
    /// The package of its services, `runtime.v1`.
    package: String,
    state: State,
    behaviours: HashMap<String, Behaviour>,
    calls: HashMap<String, usize>,
}

impl Inner {
    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Double {
    /// Starts a runtime on a socket of its own.
    pub fn start(state: State) -> io::Result<Self> {
        let known = Known {
            package: "runtime.v1".to_owned(),
            state,
            behaviours: HashMap::new(),
            calls: HashMap::new(),
        };
        let mut double = Self {
            directory: tempfile::tempdir()?,
            inner: Arc::new(Inner {
                known: Mutex::new(known),
                events: broadcast::Sender::new(64),
            }),
            worker: None,
        };
        double.restart()?;
        Ok(double)
    }

    /// Where it listens.
    pub fn socket(&self) -> PathBuf {
        self.directory.path().join("cri.sock")
    }

    /// Closes every connection and listens no more. The socket's file stays, as it does after a crash.
    pub fn stop(&mut self) {
        self.worker = None;
    }

    /// Closes every connection and listens anew.
    pub fn restart(&mut self) -> io::Result<()> {
        self.worker = None;
        let _ = std::fs::remove_file(self.socket());
        let listener = std::os::unix::net::UnixListener::bind(self.socket())?;
        listener.set_nonblocking(true)?;
        let inner = Arc::clone(&self.inner);
        self.worker = Some(Worker::start("cri", move || serve(listener, inner))?);
        Ok(())
    }

    /// Reads or changes its state.
    pub fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.inner.known().state)
    }

    /// From now on a call is answered like this.
    pub fn behave(&self, call: &str, behaviour: Behaviour) {
        self.inner
            .known()
            .behaviours
            .insert(call.to_owned(), behaviour);
    }

    /// From now on a call is answered as usual.
    pub fn recover(&self, call: &str) {
        self.inner.known().behaviours.remove(call);
    }

    /// From now on its services are in this package, `runtime.v1alpha2`, and in no other.
    pub fn speak(&self, package: &str) {
        package.clone_into(&mut self.inner.known().package);
    }

    /// How often a call came, whatever was answered.
    pub fn calls(&self, call: &str) -> usize {
        self.inner
            .known()
            .calls
            .get(call)
            .copied()
            .unwrap_or_default()
    }

    /// Sends an event to all followers. Returns whether there is one.
    pub fn tell(&self, event: &wire::ContainerEvent) -> bool {
        self.inner.events.send(event.encode_to_vec()).is_ok()
    }

    /// Answers each connection to `socket` with these bytes only, and keeps it open.
    pub fn impostor(socket: &Path, bytes: &'static [u8]) -> io::Result<impl Drop + use<>> {
        let listener = std::os::unix::net::UnixListener::bind(socket)?;
        listener.set_nonblocking(true)?;
        Worker::start("impostor", move || async move {
            let Ok(listener) = UnixListener::from_std(listener) else {
                return;
            };
            let mut kept = Vec::new();
            while let Ok((mut stream, _)) = listener.accept().await {
                let _ = tokio::io::AsyncWriteExt::write_all(&mut stream, bytes).await;
                kept.push(stream);
            }
        })
    }
}

async fn serve(listener: std::os::unix::net::UnixListener, inner: Arc<Inner>) {
    let Ok(listener) = UnixListener::from_std(listener) else {
        return;
    };
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let inner = Arc::clone(&inner);
        connections.spawn(async move {
            let service = service_fn(move |request| {
                let inner = Arc::clone(&inner);
                async move { Ok::<_, Infallible>(answer(&inner, request).await) }
            });
            let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            let _ = http2.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(inner: &Inner, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let (service, call) = path[1..].rsplit_once('/').unwrap_or_default();
    let behaviour = {
        let mut known = inner.known();
        *known.calls.entry(call.to_owned()).or_default() += 1;
        let services = ["RuntimeService", "ImageService"];
        let ours = services
            .iter()
            .any(|name| service == format!("{}.{name}", known.package));
        if ours {
            known.behaviours.get(call).cloned()
        } else {
            Some(Behaviour::Unimplemented)
        }
    };
    match behaviour {
        None => {}
        Some(Behaviour::Unimplemented) => {
            let words = format!("unknown method {call} for service {service}");
            return grpc::answer(Err((UNIMPLEMENTED, words)));
        }
        Some(Behaviour::Refuse(code, words)) => return grpc::answer(Err((code, words.to_owned()))),
        Some(Behaviour::Slow(time)) => tokio::time::sleep(time).await,
        Some(Behaviour::Hang) => pending().await,
        Some(Behaviour::Huge(bytes)) => return grpc::answer(Ok(vec![0; bytes])),
        Some(Behaviour::Bytes(bytes)) => return grpc::answer(Ok(bytes)),
        Some(Behaviour::Http(status)) => return grpc::http(status),
    }
    if call == "GetContainerEvents" {
        return follow(inner);
    }
    let Some(message) = grpc::message(request).await else {
        return grpc::http(400);
    };
    grpc::answer(inner.known().state.answer(call, message))
}

fn follow(inner: &Inner) -> Response<Body> {
    let mut events = inner.events.subscribe();
    let (mut sender, response) = grpc::stream();
    tokio::spawn(async move {
        while let Ok(event) = events.recv().await {
            if !grpc::send(&mut sender, &event).await {
                break;
            }
        }
    });
    response
}
