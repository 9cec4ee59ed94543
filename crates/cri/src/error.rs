//! Errors of calls: the call, the socket and the remedy.

use std::error::Error as StdError;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonic::{Code, Status, TimeoutExpired};

use crate::codec::TOO_MANY;

/// Why a call to the container runtime failed. `call` is the call's CRI name (`ListContainers`).
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The configured endpoint is not a unix socket.
    #[error(
        "{endpoint:?} is no unix socket; write unix:///run/containerd/containerd.sock or an absolute path"
    )]
    NotASocket {
        /// The configured endpoint.
        endpoint: String,
    },
    /// The socket does not exist.
    #[error("{call}: no container runtime at {}; is it running, and is this the right path?", list(.sockets))]
    NotThere {
        /// The call.
        call: &'static str,
        /// The sockets that were tried.
        sockets: Vec<PathBuf>,
    },
    /// The process lacks permission for the socket or the call.
    #[error("{call}: no permission at {}; its owner is root as a rule", .socket.display())]
    NotPermitted {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
    },
    /// The server does not speak CRI.
    #[error("{call}: what answers at {} is no container runtime with CRI: {why}", .socket.display())]
    NotCri {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The symptom.
        why: String,
    },
    /// The runtime predates CRI v1: containerd before 1.6, CRI-O before 1.20.
    #[error("{call}: the runtime at {} speaks CRI v1alpha2 only; v1 came with containerd 1.6 and CRI-O 1.20", .socket.display())]
    OldVersion {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
    },
    /// The deadline passed, because the runtime is slow, frozen or hung.
    #[error("{call}: no answer from {} within {after:?}", .socket.display())]
    TimedOut {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The deadline.
        after: Duration,
    },
    /// The answer exceeds [`Settings::message_bytes`](crate::Settings::message_bytes); none of it was read.
    #[error("{call}: the answer of {} is longer than the {limit} bytes that are read", .socket.display())]
    TooLarge {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The limit, in bytes.
        limit: usize,
    },
    /// The list exceeds [`Settings::entries`](crate::Settings::entries); none of it was read.
    #[error("{call}: the list of {} has more than the {limit} entries that are read", .socket.display())]
    TooMany {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// The runtime is stopped or restarting, or the connection broke. The call may be repeated.
    #[error("{call}: the runtime at {} cannot be reached: {why}", .socket.display())]
    Unavailable {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The reason.
        why: String,
    },
    /// The runtime refused the call.
    #[error("{call}: the runtime at {} answers {code:?}: {message}", .socket.display())]
    Runtime {
        /// The call.
        call: &'static str,
        /// The socket.
        socket: PathBuf,
        /// The gRPC code; `NotFound` for a missing object.
        code: Code,
        /// The runtime's message.
        message: String,
    },
}

impl Error {
    /// Whether the runtime reports that the object does not exist.
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

/// A call in progress, with the details for its error.
pub(crate) struct Asked<'a> {
    pub(crate) call: &'static str,
    pub(crate) socket: &'a Path,
    pub(crate) deadline: Duration,
    pub(crate) message_bytes: usize,
    pub(crate) entries: usize,
    /// Whether the peer turned out not to speak HTTP/2.
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

    /// Converts a gRPC status. tonic also uses statuses for local failures.
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
            // The peer speaks HTTP/2 but not gRPC.
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

    /// A failure below gRPC: the connect or HTTP/2.
    fn below(&self, status: &Status) -> Option<Error> {
        let mut last = None;
        for cause in causes(status) {
            if cause.is::<TimeoutExpired>() {
                return Some(self.timed_out());
            }
            // The error of the socket says more than the status that wraps it.
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

/// Whether the connection broke during the call. The runtime did not answer, so the call may be repeated.
pub(crate) fn lost(status: &Status) -> bool {
    // A connection that could not be made was not lost, and a call that took too long may still be running.
    causes(status).last().is_some()
        && !causes(status)
            .any(|cause| cause.is::<tonic::ConnectError>() || cause.is::<TimeoutExpired>())
}

fn causes(status: &Status) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(status.source(), |&error| error.source())
}
