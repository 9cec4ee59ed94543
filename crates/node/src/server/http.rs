//! Metrics and health over TCP; read only.
//!
//! Health probes may have a separate address, so that connections of metrics clients cannot use up its limits.

use super::state::Shared;
use crate::config::{Address, NoSuchAddress};
use axum::Router;
use axum::http::StatusCode;
use evictd_cluster_client::Watches;
use evictd_daemon::metrics::Exposition;
use evictd_daemon::probes::{self, Probe};
use evictd_daemon::server::ListenAddress;
use jiff::SignedDuration;
use std::sync::Arc;

/// The address of a setting cannot be resolved.
#[derive(Debug, thiserror::Error)]
#[error("{key}: {source}")]
pub struct HttpError {
    key: &'static str,
    source: NoSuchAddress,
}

/// The health of the main loop.
#[derive(Debug, Clone)]
pub(crate) struct Health {
    /// The state that the loop has published.
    pub shared: Arc<Shared>,
    /// How the watches of the API server are.
    pub watches: Watches,
    /// The main loop counts as stuck if no cycle has ended for this long.
    pub longest_cycle: SignedDuration,
}

/// The address of the setting `key`, if there is one.
pub(crate) fn resolve(
    key: &'static str,
    address: Option<&Address>,
) -> Result<Option<ListenAddress>, HttpError> {
    let resolved = address.map(Address::resolve).transpose();
    let address = resolved.map_err(|source| HttpError { key, source })?;
    Ok(address.map(ListenAddress::from))
}

/// Answers `/metrics`, `/livez` and `/readyz`.
pub(crate) fn router(exposition: Exposition, health: Health) -> Router {
    exposition.router().merge(probes::router(health))
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
