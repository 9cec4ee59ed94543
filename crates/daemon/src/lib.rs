//! The parts that every daemon of this project needs, written once.
//!
//! ```text
//!   listener -> server::serve -> axum::Router of the daemon
//!                 |- room: places, a limit for each peer, the oldest idle connection makes room
//!                 |- connection: a head within 2 s, idle and busy times
//!                 |- body: read within a budget of bytes and time, before a decision takes a turn
//!                 `- tls: the certificate that is shown now
//! ```
//!
//! - [`tasks`] runs the daemon: signals stop it, requests under way are finished, everything else ends with it.
//! - [`cluster`] finds the API server; [`leadership`] is the election of one of several processes.
//! - [`client`] reads the pages of another daemon's secure port.
//! - [`server`] serves a router on a port that strangers may reach. They cannot occupy it.
//! - [`probes`] answers `/livez`, `/readyz` and `/healthz`, on a port of its own where one is configured.
//! - [`health`] gives their answers, in the words of Kubernetes.
//! - [`metrics`] renders a registry for a scrape.
//! - [`followed_file`] reads a configuration again when it changes.
//! - [`logging`] is the flag `-v`, and one line an event whatever a tenant writes into a name.
//! - [`tls`] reads, makes and shows certificates.
//!
//! ```
//! use axum::{Router, routing::get};
//! use evictd_daemon::server::{self, Limits, ListenAddress};
//! use evictd_daemon::tasks::Daemon;
//! use std::time::Duration;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let daemon = Daemon::start()?;
//! let address: ListenAddress = "127.0.0.1:0".parse()?;
//! let listener = server::bind("--listen-address", &address).await?;
//! let router = Router::new().route("/", get(|| async { "hello" }));
//! daemon.serve(listener, None, router, Limits::METRICS);
//! // Here it would wait: `daemon.stop_requested().await`. Then all requests that are under way are answered.
//! daemon.end(Duration::from_secs(30)).await;
//! # Ok(()) }
//! ```

pub mod client;
pub mod cluster;
pub mod followed_file;
pub mod health;
pub mod leadership;
pub mod logging;
pub mod metrics;
pub mod probes;
pub mod rate;
pub mod server;
mod signals;
pub mod tasks;
pub mod tls;
