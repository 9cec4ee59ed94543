//! The webhook as a process: everything is connected here, and ends here.

use super::bundles::Bundles;
use super::health::{Check, Health};
use super::keeper::{Keeper, Source};
use super::known::{self, Shared};
use super::objects::Objects;
use super::server::{self, Limits};
use evictd_batch::admission::{Endpoint, Settings};
use evictd_cluster_client::{Access, ApiError, Credentials, Watches};
use evictd_daemon::probes;
use evictd_daemon::server::{self as ports, BindError, ListenAddress};
use evictd_daemon::tls::Serving;
use jiff::Timestamp;
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

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
    let access = Access::find(&options.credentials).await?;
    let objects = Objects(access.actions()?);
    info!("admits for {}", access);
    if access.trusts_any_certificate() {
        warn!("the server's certificate is not checked: insecure-skip-tls-verify is set");
    }
    let listener = ports::bind("--listen-address, --port", &options.address).await?;
    let probes = match &options.health_address {
        Some(address) => Some(ports::bind("--healthz-address", address).await?),
        None => None,
    };
    let watches = Watches::default();
    let health = Health::of(&watches);
    let (known, shown) = (Shared::default(), Serving::default());
    let keeper = Keeper {
        source: options.certificate,
        bundles: Bundles::new(objects.clone(), &options.configuration),
        objects,
        shown: shown.clone(),
        health: health.clone(),
        now: Timestamp::now,
    };
    let decides = (options.settings, options.endpoints);
    let router = server::router((known.clone(), health.clone()), decides, options.limits);
    info!("listens on https://{}", listener.local_addr()?);
    let following = tokio::spawn(known::follow((access, watches), known, health.clone()));
    let keeping = tokio::spawn(keeper.run());
    if let Some(probes) = probes {
        info!("answers probes on http://{}", probes.local_addr()?);
        tokio::spawn(probes::serve(probes, health.clone()));
    }
    let stop = CancellationToken::new();
    let limits = options.limits.into();
    let serving = ports::serve(listener, Some(shown), router, limits, stop.clone());
    let mut serving = tokio::spawn(serving);
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => info!("stops, by SIGTERM"),
        _ = interrupt.recv() => info!("stops, by SIGINT"),
    }
    health.set(Check::Shutdown, false);
    stop.cancel();
    if tokio::time::timeout(options.farewell, &mut serving)
        .await
        .is_err()
    {
        warn!("requests that are under way are given up");
        serving.abort();
    }
    following.abort();
    keeping.abort();
    Ok(())
}
