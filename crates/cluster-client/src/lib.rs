//! Access to the API server: its address, the credentials, and a client for each kind of request.
//!
//! ```text
//!   in the cluster, or a kubeconfig  ->  Access  --.-> a client to watch through: calls that last
//!                                                   `-> Actions: calls that end soon, and are asked once
//! ```
//!
//! No client retries by itself: a refused eviction would be repeated for minutes after the decision is out of date.
//! The caller knows better when to retry.

mod access;
mod actions;
mod backoff;
pub mod events;
mod kubelet;
mod split;
mod turn;
mod watch;

pub use access::{Access, Credentials};
pub use actions::{Actions, CALL_TIMEOUT};
pub use backoff::Backoff;
pub use kubelet::{KubeletClient, KubeletSettings};
pub use turn::{Crowd, Turn, Wait, chance};
pub use watch::{Broken, Follow, NotUnderstood, Parsed, Watch, parse};

use kube::config::{InClusterError, KubeconfigError};
use std::{error::Error, time::Duration};
use tokio::{runtime::Handle, task::spawn_blocking};

/// The field manager that the API server records for every field that evictd writes.
pub const FIELD_MANAGER: &str = "evictd";

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No API server is configured or found.
    #[error(
        "no API server is known: not in a cluster, no $KUBECONFIG, no ~/.kube/config; name a kubeconfig under kubernetes.kubeconfig"
    )]
    Unknown,
    /// This is a pod, but without a usable service account.
    #[error("cannot use this pod's service account")]
    ServiceAccount(#[source] InClusterError),
    /// A kubeconfig that can't be used.
    #[error("cannot use {origin}")]
    Kubeconfig {
        /// The file, or what names it.
        origin: String,
        /// Why not.
        source: Box<KubeconfigError>,
    },
    /// No client can be made with these credentials or certificates.
    #[error("cannot make a client for {server}: {}", words(source))]
    Client {
        /// The server's address.
        server: String,
        /// Why not.
        source: Box<kube::Error>,
    },
    /// No answer in time.
    #[error("{what}: no answer within {} s", within.as_secs_f64())]
    TimedOut {
        /// The request in an operator's words.
        what: String,
        /// How long was waited.
        within: Duration,
    },
    /// The request could not be sent, or the server refused it.
    #[error("{what}: {}", words(source))]
    Call {
        /// The request in an operator's words.
        what: String,
        /// The server's refusal, or why there is no answer.
        source: Box<kube::Error>,
    },
}

impl ApiError {
    /// The server's status object, if it sent one.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Call { source, .. } => match source.as_ref() {
                kube::Error::Api(status) => Some(status),
                _ => None,
            },
            _ => None,
        }
    }
}

/// Runs `find` on another thread: it reads files, and may run a plugin for credentials.
pub async fn beside_the_loop<T: Send + 'static>(
    find: impl Future<Output = Result<T, ApiError>> + Send + 'static,
) -> Result<T, ApiError> {
    let runtime = Handle::current();
    match spawn_blocking(move || runtime.block_on(find)).await {
        Ok(found) => found,
        // The task is lost only when the runtime ends, which ends this task as well.
        Err(_) => std::future::pending().await,
    }
}

/// An error of the client in one line: the server's own message, else the innermost cause.
pub fn words(error: &kube::Error) -> String {
    if let kube::Error::Api(status) = error {
        return answer(status);
    }
    let first: &(dyn Error + 'static) = error;
    let causes = std::iter::successors(Some(first), |error: &&(dyn Error + 'static)| {
        (*error).source()
    });
    let cause = causes.last().unwrap_or(first).to_string();
    match what_to_do(&cause) {
        Some(advice) => format!("{cause}: {advice}"),
        None => cause,
    }
}

/// Advice for errors of TLS.
fn what_to_do(cause: &str) -> Option<&'static str> {
    let known = [
        (
            "certificate: UnknownIssuer",
            "nobody trusted here vouches for that server; name who signed its certificate by certificate-authority in the \
             kubeconfig, or for the kubelet by kubelet.certificateAuthority (kubelet.insecure trusts whoever answers)",
        ),
        (
            "certificate: BadSignature",
            "it was signed by another authority of the same name; the authority named for it is of another time or cluster",
        ),
        (
            "certificate expired",
            "renew that server's certificate, or set this machine's clock",
        ),
        (
            "certificate not valid yet",
            "set this machine's clock, or that server's",
        ),
        (
            "certificate not valid for name",
            "ask that server by a name that it has; a kubelet's certificate must be for nodeName",
        ),
        (
            "fatal alert: CertificateRequired",
            "it takes none without a client certificate; name one in the kubeconfig, or for the kubelet by \
             kubelet.clientCertificate and kubelet.clientKey",
        ),
    ];
    let found = known.iter().find(|(words, _)| cause.contains(words));
    found.map(|(_, advice)| *advice)
}

/// A refusal in one line.
pub fn answer(status: &kube::core::Status) -> String {
    let (code, reason) = (status.code, status.reason.as_str());
    match status.message.trim() {
        "" => format!("{code} {reason}"),
        message => format!("{code} {reason}: {message}"),
    }
}

#[cfg(test)]
mod tests;
