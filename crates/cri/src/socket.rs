//! Finds and opens the runtime's socket.

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

/// A container runtime as a Kubernetes distribution installs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsualRuntime {
    /// The distribution.
    pub of: &'static str,
    /// The socket.
    pub socket: &'static str,
    /// The directory of images and writable layers.
    pub root: &'static str,
}

/// The usual runtimes in search order.
pub const USUAL_RUNTIMES: [UsualRuntime; 9] = [
    usual(
        "containerd, as with kubeadm, Talos, Bottlerocket and the clouds",
        "/run/containerd/containerd.sock",
        "/var/lib/containerd",
    ),
    usual(
        "k3s",
        "/run/k3s/containerd/containerd.sock",
        "/var/lib/rancher/k3s/agent/containerd",
    ),
    usual(
        "RKE2",
        "/run/k3s/containerd/containerd.sock",
        "/var/lib/rancher/rke2/agent/containerd",
    ),
    usual("k0s", "/run/k0s/containerd.sock", "/var/lib/k0s/containerd"),
    usual(
        "MicroK8s",
        "/var/snap/microk8s/common/run/containerd.sock",
        "/var/snap/microk8s/common/var/lib/containerd",
    ),
    usual(
        "Bottlerocket before 1.9",
        "/run/dockershim.sock",
        "/var/lib/containerd",
    ),
    usual(
        "CRI-O",
        "/run/crio/crio.sock",
        "/var/lib/containers/storage",
    ),
    usual("cri-dockerd", "/run/cri-dockerd.sock", "/var/lib/docker"),
    usual(
        "cri-dockerd",
        "/var/run/cri-dockerd.sock",
        "/var/lib/docker",
    ),
];

const fn usual(of: &'static str, socket: &'static str, root: &'static str) -> UsualRuntime {
    UsualRuntime { of, socket, root }
}

/// The sockets of the usual runtimes in search order.
pub fn usual_sockets() -> Vec<&'static str> {
    let mut sockets: Vec<&str> = Vec::new();
    for one in USUAL_RUNTIMES {
        if !sockets.contains(&one.socket) {
            sockets.push(one.socket);
        }
    }
    sockets
}

/// The data directory of the runtime at the first existing socket: the first of its usual directories for which
/// `is_there` holds. Without a socket all usual directories are searched.
pub fn usual_root(sockets: &[String], is_there: impl Fn(&Path) -> bool) -> Option<PathBuf> {
    // `/var/run` is a link to `/run`, so both ways to write a socket mean the same runtime.
    let socket = sockets.iter().find(|socket| is_there(Path::new(socket)));
    let at = |path: &str| {
        path.strip_prefix("/var/run/")
            .map_or_else(|| path.to_owned(), |rest| format!("/run/{rest}"))
    };
    let of_socket = |one: &&UsualRuntime| socket.is_some_and(|socket| at(socket) == at(one.socket));
    let all = USUAL_RUNTIMES.iter();
    let roots = all
        .clone()
        .filter(of_socket)
        .chain(all)
        .map(|one| Path::new(one.root));
    roots
        .into_iter()
        .find(|root| is_there(root))
        .map(Path::to_owned)
}

#[derive(Debug)]
pub(crate) struct Socket {
    candidates: Vec<PathBuf>,
    /// The socket that the first call found; it never changes.
    chosen: OnceLock<(PathBuf, Channel)>,
    /// Whether the last peer did not speak HTTP/2. The call itself only sees a closed connection.
    foreign: Arc<AtomicBool>,
}

impl Socket {
    pub(crate) fn new(endpoint: Option<&str>) -> Result<Self, Error> {
        let candidates = match endpoint {
            None => usual_sockets().into_iter().map(PathBuf::from).collect(),
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

    /// The socket and an unused channel to it.
    pub(crate) fn channel(&self, call: &'static str) -> Result<(&Path, &Channel), Error> {
        if self.chosen.get().is_none() {
            // A path that cannot be checked may exist; the connect reports why.
            let there = |path: &&PathBuf| path.try_exists().unwrap_or(true);
            let there = self.candidates.iter().find(there);
            let Some(path) = there else {
                let sockets = self.candidates.clone();
                return Err(Error::NotThere { call, sockets });
            };
            // Of two calls at the same time the first one chooses; both then use that channel.
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

/// Connects on the first call and reconnects after the connection is lost.
fn connect(path: PathBuf, foreign: Arc<AtomicBool>) -> Channel {
    // The runtime receives this address as the authority, but nothing resolves it.
    Endpoint::from_static("http://localhost").connect_with_connector_lazy(tower::service_fn(
        move |_| {
            let (path, foreign) = (path.clone(), Arc::clone(&foreign));
            async move {
                let stream = UnixStream::connect(path).await?;
                // Another program may listen there since the last connection.
                foreign.store(false, Ordering::Relaxed);
                let first = Some(foreign);
                Ok::<_, io::Error>(TokioIo::new(Connection { stream, first }))
            }
        },
    ))
}

/// A connection whose first bytes are checked: an HTTP/2 server starts with a settings frame.
struct Connection {
    stream: UnixStream,
    /// Set if the check fails; `None` after the first bytes.
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
            // The frame type follows the three bytes of the length.
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
    fn the_files_of_each_usual_runtime_are_found_by_its_socket() {
        const K3S: &str = "/run/k3s/containerd/containerd.sock";
        let table: [(&[&str], Option<&str>); 9] = [
            (
                &["/run/containerd/containerd.sock", "/var/lib/containerd"],
                Some("/var/lib/containerd"),
            ),
            // Docker's containerd has left its directory, but k3s runs.
            (
                &[
                    K3S,
                    "/var/lib/containerd",
                    "/var/lib/rancher/k3s/agent/containerd",
                ],
                Some("/var/lib/rancher/k3s/agent/containerd"),
            ),
            (
                &[
                    K3S,
                    "/var/lib/docker",
                    "/var/lib/rancher/rke2/agent/containerd",
                ],
                Some("/var/lib/rancher/rke2/agent/containerd"),
            ),
            (
                &["/run/k0s/containerd.sock", "/var/lib/k0s/containerd"],
                Some("/var/lib/k0s/containerd"),
            ),
            (
                &[
                    "/var/snap/microk8s/common/run/containerd.sock",
                    "/var/snap/microk8s/common/var/lib/containerd",
                ],
                Some("/var/snap/microk8s/common/var/lib/containerd"),
            ),
            (
                &[
                    "/run/crio/crio.sock",
                    "/var/lib/containers/storage",
                    "/var/lib/containerd",
                ],
                Some("/var/lib/containers/storage"),
            ),
            (
                &["/run/dockershim.sock", "/var/lib/containerd"],
                Some("/var/lib/containerd"),
            ),
            // No runtime runs yet.
            (&["/var/lib/docker"], Some("/var/lib/docker")),
            (&[K3S], None),
        ];
        let sockets: Vec<String> = usual_sockets().into_iter().map(str::to_owned).collect();
        for (there, root) in table {
            let is_there = |path: &Path| there.iter().any(|one| Path::new(one) == path);
            let found = usual_root(&sockets, is_there);
            assert_eq!(found.as_deref(), root.map(Path::new), "{there:?}");
        }
        // The socket of another runtime gives no hint about the usual directories.
        let configured = ["/srv/containerd.sock".to_owned()];
        let found = usual_root(&configured, |path| {
            path == Path::new(&configured[0]) || path == Path::new("/var/lib/containerd")
        });
        assert_eq!(found.as_deref(), Some(Path::new("/var/lib/containerd")));
        // The socket is the same whether or not the path uses /var/run.
        let dockerd = ["/var/run/crio/crio.sock".to_owned()];
        let found = usual_root(&dockerd, |path| {
            path == Path::new(&dockerd[0]) || path.starts_with("/var/lib")
        });
        assert_eq!(
            found.as_deref(),
            Some(Path::new("/var/lib/containers/storage"))
        );
    }

    #[test]
    fn an_endpoint_that_is_not_a_socket_is_rejected() {
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
