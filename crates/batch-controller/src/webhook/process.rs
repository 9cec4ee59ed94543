//! The webhook as a process: everything is connected here, and ends here.

use super::bundles::Bundles;
use super::health::{Check, Health};
use super::keeper::{Keeper, Source};
use super::known::{self, Shared};
use super::objects::Objects;
use super::server::{self, Limits};
use evictd_batch::admission::{Endpoint, Settings};
use evictd_cluster_client::{ApiError, Credentials, Watches};
use evictd_daemon::cluster::Cluster;
use evictd_daemon::server::{BindError, ListenAddress, bind};
use evictd_daemon::tasks::Daemon;
use evictd_daemon::tls::Serving;
use jiff::Timestamp;
use std::io;
use std::time::Duration;
use tracing::info;

/// How the webhook runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The API server, and who asks it.
    pub credentials: Credentials,
    /// Where reviews are taken.
    pub address: ListenAddress,
    /// Where plain HTTP answers probes, if it does.
    pub health_address: Option<ListenAddress>,
    /// The certificate.
    pub certificate: Source,
    /// Name of both webhook configurations.
    pub configuration: String,
    /// What is decided here.
    pub endpoints: Vec<Endpoint>,
    /// What decisions go by.
    pub settings: Settings,
    /// How much is done at a time.
    pub limits: Limits,
    /// How long requests that are under way may take once the process is told to stop.
    pub farewell: Duration,
}

/// Why the webhook cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server cannot be reached as it is configured.
    #[error(transparent)]
    Access(#[from] ApiError),
    /// A port cannot be opened.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The system refuses something.
    #[error(transparent)]
    System(#[from] io::Error),
}

/// Answers reviews until a signal comes.
pub async fn run(options: Options) -> Result<(), RunError> {
    let daemon = Daemon::start()?;
    let cluster = Cluster::find("admits", &options.credentials).await?;
    let objects = Objects(cluster.actions.clone());
    let watches = Watches::default();
    let health = Health::of(&watches);
    let (known, shown) = (Shared::default(), Serving::default());
    let decides = (options.settings, options.endpoints);
    let router = server::router((known.clone(), health.clone()), decides, options.limits);
    let listener = bind("--listen-address, --port", &options.address).await?;
    info!("listens on https://{}", listener.local_addr()?);
    let limits = options.limits.into();
    daemon.serve(listener, Some(shown.clone()), router, limits);
    let probes = options.health_address.as_ref();
    let serving = daemon.serve_probes("--healthz-address", probes, health.clone());
    serving.await?;
    let keeper = Keeper {
        source: options.certificate,
        bundles: Bundles::new(objects.clone(), &options.configuration),
        objects,
        shown,
        health: health.clone(),
        now: Timestamp::now,
    };
    let followed = (cluster.access, watches);
    daemon.spawn(known::follow(followed, known, health.clone()));
    daemon.spawn(keeper.run());
    daemon.stop_requested().await;
    health.set(Check::Shutdown, false);
    daemon.end(options.farewell).await;
    Ok(())
}
