//! Access to a Kubernetes API server, for agents that must not overload it and must not wait for it.
//!
//! ```text
//!   in the cluster, or a kubeconfig  ->  Access  --.-> Reader: one document, or a collection page by page
//!                                                  |-> Watch: a collection, and every change from then on
//!                                                  `-> Actions: calls that change something
//! ```
//!
//! - [`Access`] finds the server and the credentials. It alone decides on proxies, connect timeouts and retries. Finding it
//!   sends nothing. After a refusal find it again, because the credentials on disk may have been renewed.
//! - [`Reader`] returns answers as text. [`ApiError::Forbidden`] names the verb and the resource that a role must allow.
//! - [`Watch`] passes each object to a [`Follow`], parsed into its own type and one at a time, however long the list is. A
//!   long object is parsed while it arrives. An unreadable one is reported by its [`Outline`], and the watch continues.
//! - [`Watches`] says which watches work, and holds the [`Budget`] for large objects.
//! - [`Actions`] gives each call a time limit, and delays calls that exceed a [`CallRate`]. No client retries by itself: a refused eviction would be repeated for minutes,
//!   although the decision is out of date. The caller knows better when to retry.
//! - [`events`] records `events.k8s.io/v1`, counts repeats, and limits the rate.
//! - [`lease`] elects one of several processes as the leader.
//! - [`KubeletClient`] sends requests to this node's kubelet, which is another server with another certificate.
//! - [`Fleet`] and [`Stagger`] compute when to retry, so that the agents of a whole cluster do not do so at once.
//!
//! ```no_run
//! use evictd_cluster_client::{Access, ApiError, Credentials};
//! use std::time::Duration;
//!
//! # async fn nodes() -> Result<(), ApiError> {
//! // The first that exists: this pod's service account, $KUBECONFIG, ~/.kube/config.
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
mod answer;
mod backoff;
mod beside;
mod blocking;
pub mod discovery;
pub mod events;
mod kubelet;
pub mod lease;
mod message;
mod reader;
mod reflector;
mod requests;
mod right;
mod stagger;
mod token_bucket;

pub use access::{Access, Credentials};
pub use actions::{Actions, CALL_TIMEOUT};
pub use backoff::Backoff;
pub use beside::pod_at_work;
pub use blocking::BlockingCalls;
pub use kubelet::{KubeletClient, KubeletSettings};
pub use message::Peer;
pub use reader::{Pages, Reader};
pub use reflector::{
    Budget, ByKey, Connect, Follow, Key, Keyed, NewsReceiver, NewsSender, Outline, Parsed,
    Reflector, Retry, Store, Table, Unreadable, WATCH_LIFE, Watch, WatchError, WatchMetrics,
    WatchState, Watches, news, parse,
};
pub use requests::Requests;
pub use right::Right;
pub use stagger::{Delay, Fleet, Stagger, chance};
pub use token_bucket::CallRate;

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
        "no API server is known: not in a cluster, no $KUBECONFIG, no ~/.kube/config; set KUBECONFIG; for evictd's service also kubernetes.kubeconfig in its configuration"
    )]
    Unknown,
    /// This is a pod, but without a usable service account.
    #[error("cannot use this pod's service account")]
    ServiceAccount(#[source] InClusterError),
    /// A kubeconfig that can't be used.
    #[error("cannot use {origin}")]
    Kubeconfig {
        /// The file, or the setting that names it.
        origin: String,
        /// The error in it.
        source: Box<KubeconfigError>,
    },
    /// No client can be made with these credentials or certificates.
    #[error("cannot make a client for {server}: {}", message::of(cause, *peer))]
    Client {
        /// The URL of the server.
        server: String,
        /// The error. It is part of the message, so it is not a `source`, which would show it twice.
        cause: Box<kube::Error>,
        /// The kind of the server, because each kind is configured in another place.
        peer: Peer,
    },
    /// No answer in time.
    #[error("{what}: no answer within {} s", within.as_secs_f64())]
    TimedOut {
        /// The request in an operator's words.
        what: String,
        /// How long the answer was waited for.
        within: Duration,
    },
    /// The program stopped while the limit of the rate delayed the call. It was not sent.
    #[error("{what}: not sent, because the program stops")]
    Stopped {
        /// The request in an operator's words.
        what: String,
    },
    /// The request could not be sent, or the server refused it.
    #[error("{what}: {}", message::of(cause, *peer))]
    Call {
        /// The request in an operator's words.
        what: String,
        /// The answer, or why there is none; as for [`Self::Client`].
        cause: Box<kube::Error>,
        /// Which server was asked.
        peer: Peer,
    },
    /// The server knows the user, and the user lacks a right.
    #[error("{what}: not permitted; {right}")]
    Forbidden {
        /// The request: `GET /api/v1/nodes`.
        what: String,
        /// The right that a role must grant.
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

    /// Whether the same call may succeed later: there was no answer, the server is overloaded or failing, or it refused
    /// the client. An API server that has just started refuses every client until it has loaded its roles.
    pub fn may_pass(&self) -> bool {
        let code = self.status().map(|status| status.code);
        !matches!(self, Self::Stopped { .. })
            && code.is_none_or(|code| matches!(code, 401 | 403 | 408 | 429) || code >= 500)
    }

    /// Whether the server refused the client.
    pub(crate) fn is_refusal(&self) -> bool {
        matches!(self.status().map(|status| status.code), Some(401 | 403))
    }
}

/// Runs `find` on another thread, because it reads files and may run a plugin for credentials.
pub async fn on_other_thread<T: Send + 'static>(
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
