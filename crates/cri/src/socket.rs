//! Where the runtime listens.

use crate::Error;
use hyper_util::rt::TokioIo;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};

/// Where runtimes listen, in the order in which they are looked for: containerd, that of k3s, k0s and `MicroK8s`, CRI-O,
/// cri-dockerd.
pub const USUAL_SOCKETS: [&str; 6] = [
    "/run/containerd/containerd.sock",
    "/run/k3s/containerd/containerd.sock",
    "/run/k0s/containerd.sock",
    "/var/snap/microk8s/common/run/containerd.sock",
    "/run/crio/crio.sock",
    "/var/run/cri-dockerd.sock",
];

#[derive(Debug)]
pub(crate) struct Socket {
    candidates: Vec<PathBuf>,
    /// The one of them that was there at the first call; it stays.
    chosen: OnceLock<(PathBuf, Channel)>,
    /// Whether what answered last does not speak HTTP/2, which the call cannot see: for it the connection was closed.
    foreign: Arc<AtomicBool>,
}

impl Socket {
    pub(crate) fn new(endpoint: Option<&str>) -> Result<Self, Error> {
        let candidates = match endpoint {
            None => USUAL_SOCKETS.map(PathBuf::from).into(),
            Some(endpoint) => {
                let path = Path::new(endpoint.strip_prefix("unix://").unwrap_or(endpoint));
                if !path.is_absolute() {
                    let endpoint = endpoint.to_owned();
                    return Err(Error::NotASocket { endpoint });
                }
                vec![path.to_owned()]
            }
        };
        Ok(Self {
            candidates,
            chosen: OnceLock::new(),
            foreign: Arc::default(),
        })
    }

    pub(crate) fn path(&self) -> Option<&Path> {
        match &self.candidates[..] {
            [only] => Some(only),
            _ => self.chosen.get().map(|(path, _)| path.as_path()),
        }
    }

    pub(crate) fn foreign(&self) -> &AtomicBool {
        &self.foreign
    }

    /// The socket and the way to it, on which nothing was sent yet.
    pub(crate) fn channel(&self, call: &'static str) -> Result<(&Path, &Channel), Error> {
        if self.chosen.get().is_none() {
            // What cannot be seen may be there; connecting says why.
            let there = |path: &&PathBuf| path.try_exists().unwrap_or(true);
            let there = self.candidates.iter().find(there);
            let Some(path) = there else {
                let sockets = self.candidates.clone();
                return Err(Error::NotThere { call, sockets });
            };
            let _ = self.chosen.set((
                path.clone(),
                connect(path.clone(), Arc::clone(&self.foreign)),
            ));
        }
        match self.chosen.get() {
            Some((path, channel)) => Ok((path, channel)),
            None => Err(Error::NotThere {
                call,
                sockets: self.candidates.clone(),
            }),
        }
    }
}

/// Connects at the first call, and again after the connection was lost.
fn connect(path: PathBuf, foreign: Arc<AtomicBool>) -> Channel {
    // The address is not used, but goes to the runtime as the name of whom was asked.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(
        move |_| {
            let (path, foreign) = (path.clone(), Arc::clone(&foreign));
            async move {
                let stream = UnixStream::connect(path).await?;
                foreign.store(false, Ordering::Relaxed);
                let first = Some(foreign);
                Ok::<_, io::Error>(TokioIo::new(Connection { stream, first }))
            }
        },
    ))
}

/// A connection of which the first bytes are looked at: a server's first frame in HTTP/2 is its settings.
struct Connection {
    stream: UnixStream,
    /// Told if they are not; taken after the first bytes.
    first: Option<Arc<AtomicBool>>,
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        const SETTINGS: u8 = 4;
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(context, buffer))?;
        if let Some(foreign) = self.first.take() {
            // After the three bytes of the frame's length.
            let kind = buffer.filled()[before..].get(3);
            foreign.store(
                kind.is_some_and(|kind| *kind != SETTINGS),
                Ordering::Relaxed,
            );
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_a_unix_address_are_the_same_socket() {
        for endpoint in ["/run/a.sock", "unix:///run/a.sock"] {
            let socket = Socket::new(Some(endpoint)).unwrap();
            assert_eq!(socket.path(), Some(Path::new("/run/a.sock")));
        }
    }

    #[test]
    fn what_names_no_socket_is_refused() {
        for endpoint in [
            "",
            "run/a.sock",
            "unix://run/a.sock",
            "tcp://127.0.0.1:1",
            "http://a/",
        ] {
            let error = Socket::new(Some(endpoint)).unwrap_err();
            assert!(
                matches!(error, Error::NotASocket { .. }),
                "{endpoint}: {error}"
            );
        }
    }
}
