//! The process of the webhook: start and shutdown.

use super::ca_bundle::CaBundles;
use super::cache::{self, SharedCache};
use super::certificate_rotator::{CertificateRotator, Source};
use super::health::{Check, Health};
use super::objects::Objects;
use super::server::{self, Limits};
use evictd_batch_admission::{Endpoint, Settings};
use evictd_cluster_client::{ApiError, Credentials, Watches};
use evictd_daemon::cluster::Cluster;
use evictd_daemon::rate::RateFlags;
use evictd_daemon::server::{BindError, ListenAddress, bind};
use evictd_daemon::tasks::Daemon;
use evictd_daemon::tls::Serving;
use jiff::Timestamp;
use std::io;
use std::time::Duration;
use tracing::info;

/// The settings of the webhook process.
#[derive(Debug, Clone)]
pub struct Options {
    /// The access to the API server.
    pub credentials: Credentials,
    /// The address of the HTTPS server.
    pub address: ListenAddress,
    /// The address of a plain HTTP server for probes; `None` for no such server.
    pub health_address: Option<ListenAddress>,
    /// The source of the serving certificate.
    pub certificate: Source,
    /// How many calls to the API server are allowed.
    pub rate: RateFlags,
    /// The name of both webhook configurations.
    pub configuration: String,
    /// The paths that are served.
    pub endpoints: Vec<Endpoint>,
    /// The settings of the decisions.
    pub settings: Settings,
    /// The limits of the server.
    pub limits: Limits,
    /// How long the process waits for requests in flight when it shuts down.
    pub shutdown_timeout: Duration,
}

/// Why the webhook ended without a signal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The access to the API server is not configured correctly.
    #[error(transparent)]
    Access(#[from] ApiError),
    /// The process cannot listen on an address.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Runs until a signal arrives.
pub async fn run(options: Options) -> Result<(), RunError> {
    let daemon = Daemon::start()?;
    let cluster = Cluster::find("admits", &options.credentials).await?;
    let objects = Objects(cluster.calls_at(options.rate).writes);
    let watches = Watches::default();
    let health = Health::of(&watches);
    let (cache, serving) = (SharedCache::default(), Serving::default());
    let decisions = (options.settings, options.endpoints);
    let router = server::router((cache.clone(), health.clone()), decisions, options.limits);
    let listener = bind("--listen-address, --port", &options.address).await?;
    info!("listens on https://{}", listener.local_addr()?);
    let limits = options.limits.into();
    daemon.serve(listener, Some(serving.clone()), router, limits);
    let probes = options.health_address.as_ref();
    daemon
        .serve_probes("--healthz-address", probes, health.clone())
        .await?;
    let rotator = CertificateRotator {
        source: options.certificate,
        ca_bundles: CaBundles::new(objects.clone(), &options.configuration),
        objects,
        serving,
        health: health.clone(),
        now: Timestamp::now,
    };
    let cluster = (cluster.access, watches);
    daemon.spawn(cache::watch(cluster, cache, health.clone()));
    daemon.spawn(rotator.run());
    daemon.stop_requested().await;
    health.set(Check::Shutdown, false);
    daemon.end(options.shutdown_timeout).await;
    Ok(())
}
