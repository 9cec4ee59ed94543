//! Opens the socket for operators and the ports for metrics and probes.

use super::StartError;
use crate::{
    config::Effective,
    metrics::Exposition,
    server::{
        http::{self, Health},
        socket,
        state::Shared,
    },
};
use evictd_cluster_client::Watches;
use evictd_daemon::{
    server::{self, Limits},
    tasks::Daemon,
};
use jiff::SignedDuration;
use std::sync::Arc;

/// The main loop counts as stuck if no cycle has ended for this long.
const LONGEST_CYCLE: SignedDuration = SignedDuration::from_secs(30);

pub(super) async fn start(
    daemon: &Daemon,
    config: &Effective,
    shared: &Arc<Shared>,
    (exposition, watches): (Exposition, Watches),
) -> Result<(), StartError> {
    let socket = socket::bind(&config.socket).await?;
    daemon.spawn(socket.serve(Arc::clone(shared)));
    let health = Health {
        shared: Arc::clone(shared),
        watches,
        longest_cycle: LONGEST_CYCLE.max(config.housekeeping_interval * 3),
    };
    let setting = "metrics.address";
    if let Some(address) = http::resolve(setting, config.metrics.address.as_ref())? {
        let listener = server::bind(setting, &address).await?;
        if let Ok(address) = listener.local_addr() {
            tracing::info!("metrics and health are at http://{address}");
        }
        let router = http::router(exposition, health.clone());
        daemon.serve(listener, None, router, Limits::METRICS);
    }
    let setting = "probes.address";
    let address = http::resolve(setting, config.probes.address.as_ref())?;
    let serving = daemon.serve_probes(setting, address.as_ref(), health);
    Ok(serving.await?)
}
