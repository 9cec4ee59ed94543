//! The webhook as a process: everything is connected here, and ends here.

use super::bundles::Bundles;
use super::certificate::Shown;
use super::health::Health;
use super::keeper::{Keeper, Source};
use super::known::{self, Shared};
use super::objects::Objects;
use super::server::{self, Answers, Limits};
use evictd_batch::admission::{Endpoint, Settings};
use evictd_cluster_client::{Access, ApiError, Credentials};
use jiff::Timestamp;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tracing::{info, warn};

/// How the webhook runs.
#[derive(Debug, Clone)]
pub struct Options {
    /// The API server, and who asks it.
    pub credentials: Credentials,
    /// Where reviews are taken.
    pub address: SocketAddr,
    /// Where plain HTTP answers probes, if it does.
    pub health_address: Option<SocketAddr>,
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
    /// The port cannot be opened.
    #[error("cannot listen on {address} ({flag}): {source}")]
    Bind {
        /// Where.
        address: SocketAddr,
        /// The flag that says so.
        flag: &'static str,
        /// Why not.
        source: io::Error,
    },
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
    let listener = bind(options.address, "--listen-address, --port").await?;
    let probes = match options.health_address {
        Some(address) => Some(bind(address, "--healthz-address").await?),
        None => None,
    };
    let (known, health, shown) = (Shared::default(), Health::default(), Shown::default());
    let keeper = Keeper {
        source: options.certificate,
        bundles: Bundles::new(objects.clone(), &options.configuration),
        objects,
        shown: shown.clone(),
        health: health.clone(),
        now: Timestamp::now,
    };
    let answers = Answers {
        known: known.clone(),
        health: health.clone(),
        settings: Arc::new(options.settings),
        endpoints: options.endpoints.into(),
        turns: Arc::new(Semaphore::new(options.limits.in_flight)),
        limits: options.limits,
    };
    info!("listens on https://{}", listener.local_addr()?);
    let (stop, stopped) = watch::channel(false);
    let following = tokio::spawn(known::follow(access, known, health));
    let keeping = tokio::spawn(keeper.run());
    if let Some(probes) = probes {
        info!("answers probes on http://{}", probes.local_addr()?);
        tokio::spawn(server::serve(
            probes,
            None,
            answers.clone(),
            stopped.clone(),
        ));
    }
    let mut serving = tokio::spawn(server::serve(listener, Some(shown), answers, stopped));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => info!("stops, by SIGTERM"),
        _ = interrupt.recv() => info!("stops, by SIGINT"),
    }
    // Its receivers live as long as the server does.
    let _ = stop.send(true);
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

async fn bind(address: SocketAddr, flag: &'static str) -> Result<TcpListener, RunError> {
    let bound = TcpListener::bind(address).await;
    bound.map_err(|source| RunError::Bind {
        address,
        flag,
        source,
    })
}
