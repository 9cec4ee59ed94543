//! What each of our daemons needs and none should write again.
//!
//! ```text
//!   listener -> server::serve -> axum::Router of the daemon
//!                 |- room: places, a limit for each peer, the oldest idle connection makes room
//!                 |- connection: a head within 2 s, idle and busy times
//!                 |- body: read within a budget of bytes and time, before a decision takes a turn
//!                 `- tls: the certificate that is shown now
//! ```
//!
//! - [`server`] serves a router on a port that strangers may reach. They cannot occupy it.
//! - [`probes`] answers `/livez`, `/readyz` and `/healthz`, on a port of its own where one is configured.
//! - [`health`] is what they are answered by, in the words of Kubernetes.
//! - [`metrics`] renders a registry for a scrape.
//! - [`tls`] reads, makes and shows certificates.
//!
//! ```
//! use axum::{Router, routing::get};
//! use evictd_daemon::server::{self, Limits, ListenAddress};
//! use tokio_util::sync::CancellationToken;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let address: ListenAddress = "127.0.0.1:0".parse()?;
//! let listener = server::bind("--listen-address", &address).await?;
//! let router = Router::new().route("/", get(|| async { "hello" }));
//! let stop = CancellationToken::new();
//! let serving = tokio::spawn(server::serve(listener, None, router, Limits::PROBES, stop.clone()));
//! // It ends when all requests that are under way are answered.
//! stop.cancel();
//! serving.await?;
//! # Ok(()) }
//! ```

pub mod health;
pub mod metrics;
pub mod probes;
pub mod server;
pub mod tls;
