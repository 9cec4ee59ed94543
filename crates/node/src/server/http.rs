//! Metrics and health over TCP; read only.
//!
//! Health probes may have a separate address, so that connections of metrics clients cannot use up its limits.

use super::state::Shared;
use crate::config::{Address, NoSuchAddress};
use axum::http::StatusCode;
use evictd_cluster_client::Watches;
use evictd_daemon::metrics::Exposition;
use evictd_daemon::probes::{self, Probe};
use evictd_daemon::server::{self, BindError, Limits};
use jiff::SignedDuration;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Why the address could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum HttpError {
    /// The address cannot be resolved.
    #[error("{key}: {source}")]
    Unresolved {
        /// The name of its setting.
        key: &'static str,
        /// Which part of the address is wrong.
        source: NoSuchAddress,
    },
    /// The address cannot be listened on.
    #[error(transparent)]
    Bind(#[from] BindError),
}

/// The health of the main loop.
#[derive(Debug, Clone)]
pub struct Health {
    /// What the loop has published.
    pub shared: Arc<Shared>,
    /// How the watches of the API server are.
    pub watches: Watches,
    /// The main loop counts as stuck if no cycle has ended for this long.
    pub longest_cycle: SignedDuration,
}

/// Listens on the address of the setting `key`.
pub async fn bind(key: &'static str, address: &Address) -> Result<TcpListener, HttpError> {
    let address = address
        .resolve()
        .map_err(|source| HttpError::Unresolved { key, source })?;
    Ok(server::bind(key, &address.into()).await?)
}

/// Serves `/metrics`, `/livez` and `/readyz` until the future is dropped.
pub async fn serve(listener: TcpListener, exposition: Exposition, health: Health) {
    let router = exposition.router().merge(probes::router(health));
    let never = CancellationToken::new();
    server::serve(listener, None, router, Limits::METRICS, never).await;
}

impl Probe for Health {
    fn answer(&self, path: &str, _query: &str) -> Option<(StatusCode, String)> {
        let failed = match path {
            "/livez" => self.stuck(),
            "/readyz" => {
                let missing = self.shared.not_ready().map(str::to_owned);
                missing.or_else(|| self.watches.broken())
            }
            _ => return None,
        };
        Some(match failed {
            None => (StatusCode::OK, "ok\n".to_owned()),
            Some(why) => (StatusCode::SERVICE_UNAVAILABLE, format!("{why}\n")),
        })
    }
}

impl Health {
    fn stuck(&self) -> Option<String> {
        let age = self.shared.since_last_cycle();
        (age > self.longest_cycle).then(|| {
            format!(
                "the sampling loop has not completed a cycle for {:.1} s (limit {:.1} s)",
                age.as_secs_f64(),
                self.longest_cycle.as_secs_f64(),
            )
        })
    }
}
