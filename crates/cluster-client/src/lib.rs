//! The one way to a Kubernetes API server, for agents that must not burden it and must not wait for it.
//!
//! ```text
//!   in the cluster, or a kubeconfig  ->  Access  --.-> Reader: one document, or a collection page by page
//!                                                  |-> Watch: a collection, and every change from then on
//!                                                  `-> Actions: calls that change something
//! ```
//!
//! - [`Access`] finds the server and the credentials, and is the one place where proxies, connect timeouts and retries are
//!   decided. Nothing is sent by finding it; where credentials are refused it is found anew, since those on disk may be fresh.
//! - [`Reader`] gives the text that came. [`ApiError::Forbidden`] names the verb and the resource that a role must allow.
//! - [`Watch`] tells a [`Follow`] of each object, read into a type of its own, one at a time, however long the list is.
//! - [`Actions`] gives each call a limited time. No client asks twice by itself: a refused eviction would be asked again
//!   for minutes, by a decision that is stale. Whoever asks knows better when to ask again.
//! - [`events`] records `events.k8s.io/v1` with repeats counted, and never more than a few.
//! - [`KubeletClient`] asks this node's kubelet, which is another server with another certificate.
//! - [`Fleet`] and [`Turn`] say when to ask again, so that the agents of a whole cluster do not come at once.
//!
//! ```no_run
//! use evictd_cluster_client::{Access, ApiError, Credentials};
//! use std::time::Duration;
//!
//! # async fn nodes() -> Result<(), ApiError> {
//! // Of this pod's service account, $KUBECONFIG or ~/.kube/config the first that is there.
//! let access = Access::find(&Credentials::default()).await?;
//! let mut pages = access.reader(Duration::from_secs(10))?.pages("/api/v1/nodes");
//! while let Some(page) = pages.next().await? {
//!     // A v1 NodeList of up to 500 nodes, as JSON.
//!     assert!(page.contains("items"));
//! }
//! # Ok(()) }
//! ```
//!
//! `cargo run -p evictd-cluster-client --example follow_pods` runs without a cluster.

mod access;
mod actions;
mod backoff;
pub mod events;
mod kubelet;
mod reader;
mod right;
mod split;
mod turn;
mod watch;
mod words;

pub use access::{Access, Credentials};
pub use actions::{Actions, CALL_TIMEOUT};
pub use backoff::Backoff;
pub use kubelet::{KubeletClient, KubeletSettings};
pub use reader::{Pages, Reader};
pub use right::Right;
pub use turn::{Fleet, Turn, Wait, chance};
pub use watch::{Broken, Follow, NotUnderstood, Parsed, Watch, parse};
pub use words::Peer;

use kube::config::{InClusterError, KubeconfigError};
use std::time::Duration;
use tokio::{runtime::Handle, task::spawn_blocking};

/// The field manager that the API server records for every field that evictd writes.
pub const FIELD_MANAGER: &str = "evictd";

/// Why a request to the API server failed.
#[derive(Debug, thiserror::Error)]
pub enum ApiError {
    /// No API server is configured or found.
    #[error(
        "no API server is known: not in a cluster, no $KUBECONFIG, no ~/.kube/config; set KUBECONFIG, or kubernetes.kubeconfig in evictd's configuration"
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
    #[error("cannot make a client for {server}: {}", words::of(cause, *peer))]
    Client {
        /// The server's address.
        server: String,
        /// Why not; part of the message, and no `source`, so that it is told once.
        cause: Box<kube::Error>,
        /// Who is there.
        peer: Peer,
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
    #[error("{what}: {}", words::of(cause, *peer))]
    Call {
        /// The request in an operator's words.
        what: String,
        /// The answer, or why there is none; as for [`Self::Client`].
        cause: Box<kube::Error>,
        /// Who was asked.
        peer: Peer,
    },
    /// It knows who asks, and that they may not.
    #[error("{what}: not permitted; {right}")]
    Forbidden {
        /// What was asked: `GET /api/v1/nodes`.
        what: String,
        /// What is missing.
        right: Right,
    },
}

impl ApiError {
    /// The server's status object, if it sent one.
    pub fn status(&self) -> Option<&kube::core::Status> {
        match self {
            Self::Call { cause, .. } => match cause.as_ref() {
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

#[cfg(test)]
mod tests;
