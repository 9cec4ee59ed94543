//! Why a call failed: what was asked of which socket, and what to do.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonic::{Code, Status, TimeoutExpired};

use crate::codec::TOO_MANY;

/// Why a call to the container runtime failed. `call` is the name of the call in CRI (`ListContainers`).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is configured names no unix socket.
    #[error(
        "{endpoint:?} is no unix socket; write unix:///run/containerd/containerd.sock or an absolute path"
    )]
    NotASocket {
        /// What is configured.
        endpoint: String,
    },
    /// There is no such file.
    #[error("{call}: no container runtime at {}; is it running, and is this the right path?", list(.sockets))]
    NotThere {
        /// What was asked.
        call: &'static str,
        /// Where it was looked for.
        sockets: Vec<PathBuf>,
    },
    /// This process may not use the socket, or not make this call.
    #[error("{call}: no permission at {}; its owner is root as a rule", .socket.display())]
    NotPermitted {
        /// What was asked.
        call: &'static str,
        /// Whom.
        socket: PathBuf,
    },
    /// Something answers, but not CRI.
    #[error("{call}: what answers at {} is no container runtime with CRI: {why}", .socket.display())]
    NotCri {
        /// What was asked.
        call: &'static str,
        /// Whom.
        socket: PathBuf,
        /// How it shows.
        why: String,
    },
    /// A runtime from before CRI v1: containerd before 1.6, CRI-O before 1.20.
    #[error("{call}: the runtime at {} speaks CRI v1alpha2 only; v1 came with containerd 1.6 and CRI-O 1.20", .socket.display())]
    OldVersion {
        /// What was asked.
        call: &'static str,
        /// Whom.
        socket: PathBuf,
    },
    /// No answer came in time: the runtime is slow, frozen, or hangs.
    #[error("{call}: no answer from {} within {after:?}", .socket.display())]
    TimedOut {
        /// What was asked.
        call: &'static str,
        /// Whom.
        socket: PathBuf,
        /// How long was waited.
        after: Duration,
    },
    /// The answer is longer than [`Settings::message_bytes`](crate::Settings::message_bytes); nothing of it was read.
    #[error("{call}: the answer of {} is longer than the {limit} bytes that are read", .socket.display())]
    TooLarge {
        /// What was asked.
        call: &'static str,
        /// Whom.
        socket: PathBuf,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The list is longer than [`Settings::entries`](crate::Settings::entries); nothing of it was read.
    #[error("{call}: the list of {} has more than the {limit} entries that are read", .socket.display())]
    TooMany {
        /// What was asked.
        call: &'static str,
        /// Whom.
        socket: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The runtime is stopped, restarting, or went away during the call; it can be asked again.
    #[error("{call}: the runtime at {} cannot be reached: {why}", .socket.display())]
    Unavailable {
        /// What was asked.
        call: &'static str,
        /// Whom.
        socket: PathBuf,
        /// The reason in words.
        why: String,
    },
    /// The runtime's own refusal.
    #[error("{call}: the runtime at {} answers {code:?}: {message}", .socket.display())]
    Runtime {
        /// What was asked.
        call: &'static str,
        /// Whom.
        socket: PathBuf,
        /// The kind of refusal; `NotFound` where the object is not there.
        code: Code,
        /// The runtime's words.
        message: String,
    },
}

impl Error {
    /// Whether the runtime says that there is no such object.
    pub fn is_not_found(&self) -> bool {
        matches!(
            self,
            Self::Runtime {
                code: Code::NotFound,
                ..
            }
        )
    }
}

fn list(sockets: &[PathBuf]) -> String {
    let names: Vec<_> = sockets
        .iter()
        .map(|path| path.display().to_string())
        .collect();
    names.join(", ")
}

/// One call as it was made, for the error that it may end with.
pub(crate) struct Asked<'a> {
    pub(crate) call: &'static str,
    pub(crate) socket: &'a Path,
    pub(crate) deadline: Duration,
    pub(crate) message_bytes: usize,
    pub(crate) entries: usize,
    /// Whether what answered does not speak HTTP/2, as far as is known.
    pub(crate) foreign: &'a AtomicBool,
}

impl Asked<'_> {
    pub(crate) fn timed_out(&self) -> Error {
        Error::TimedOut {
            call: self.call,
            socket: self.socket.into(),
            after: self.deadline,
        }
    }

    pub(crate) fn unavailable(&self, why: impl Into<String>) -> Error {
        Error::Unavailable {
            call: self.call,
            socket: self.socket.into(),
            why: why.into(),
        }
    }

    pub(crate) fn not_cri(&self, why: impl Into<String>) -> Error {
        Error::NotCri {
            call: self.call,
            socket: self.socket.into(),
            why: why.into(),
        }
    }

    /// The error that this status stands for. tonic has statuses of its own for what happens on this side.
    pub(crate) fn error(&self, status: &Status) -> Error {
        let (call, socket) = (self.call, self.socket.into());
        if let Some(error) = self.below(status) {
            return error;
        }
        let message = status.message();
        match status.code() {
            Code::DeadlineExceeded => self.timed_out(),
            Code::PermissionDenied => Error::NotPermitted { call, socket },
            Code::OutOfRange if message.starts_with("Error, decoded message length too large") => {
                Error::TooLarge {
                    call,
                    socket,
                    limit: self.message_bytes,
                }
            }
            Code::ResourceExhausted if message == TOO_MANY => Error::TooMany {
                call,
                socket,
                limit: self.entries,
            },
            Code::DataLoss => self.not_cri(format!("its answer cannot be decoded: {message}")),
            // HTTP/2, but nothing of gRPC in it.
            _ if message.starts_with("grpc-status header missing")
                || message.starts_with("protocol error: ") =>
            {
                self.not_cri(message)
            }
            Code::Unavailable => self.unavailable(message),
            code => Error::Runtime {
                call,
                socket,
                code,
                message: message.to_owned(),
            },
        }
    }

    /// What failed below gRPC: the connect, or HTTP/2.
    fn below(&self, status: &Status) -> Option<Error> {
        let mut last = None;
        for cause in causes(status) {
            if cause.is::<TimeoutExpired>() {
                return Some(self.timed_out());
            }
            if let Some(error) = cause.downcast_ref::<std::io::Error>() {
                return Some(match error.kind() {
                    std::io::ErrorKind::NotFound => Error::NotThere {
                        call: self.call,
                        sockets: vec![self.socket.into()],
                    },
                    std::io::ErrorKind::PermissionDenied => Error::NotPermitted {
                        call: self.call,
                        socket: self.socket.into(),
                    },
                    _ => self.unavailable(error.to_string()),
                });
            }
            last = Some(cause);
        }
        last.map(|cause| {
            if self.foreign.load(Ordering::Relaxed) {
                self.not_cri("it does not speak HTTP/2")
            } else {
                self.unavailable(cause.to_string())
            }
        })
    }
}

/// Whether the connection was lost with the call on it: the runtime said nothing, so the call may be made again.
pub(crate) fn lost(status: &Status) -> bool {
    causes(status).last().is_some()
        && !causes(status)
            .any(|cause| cause.is::<tonic::ConnectError>() || cause.is::<TimeoutExpired>())
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(status.source(), |&error| error.source())
}
