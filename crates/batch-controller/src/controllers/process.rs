//! The controllers as a process: everything is connected here, and ends here.

use super::calls::Calls;
use super::engine::{Engine, Ports};
use super::events::Events;
use super::health::{Check, Health};
use super::metrics::Metrics;
use super::plain;
use super::watches;
use evictd_batch::compat::Compat;
use evictd_cluster_client::{ApiError, Budget, Credentials, Watches, news, pod_at_work};
use evictd_daemon::cluster::Cluster;
use evictd_daemon::leadership::{Leadership, LeaseSettings};
use evictd_daemon::metrics::Exposition;
use evictd_daemon::server::{self, BindError, Limits, ListenAddress};
use evictd_daemon::tasks::Daemon;
use std::io;
use std::time::Duration;
use tokio::sync::watch;
use tracing::info;

/// What the large objects may take that are kept, however many tenants make them.
const LARGE_OBJECTS: usize = 256 << 20;
/// How long a scrape that is under way may take once the process is told to stop.
const FINISH: Duration = Duration::from_secs(1);

/// Why the controllers ended that should not have.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server cannot be reached as it is configured.
    #[error(transparent)]
    Access(#[from] ApiError),
    /// The system refuses something.
    #[error(transparent)]
    System(#[from] io::Error),
    /// An address cannot be used.
    #[error(transparent)]
    Port(#[from] BindError),
    /// Another program does the same work.
    #[error(
        "Volcano's controllers are at work as pod {0}, and both would make the same pods; scale their Deployment to 0 first"
    )]
    BesideVolcano(String),
    /// Another one leads now, or the API server could not be reached in time.
    #[error("the lease is lost; another controller may lead now")]
    LeaseLost,
}

/// How the controllers work.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Which differences from Volcano apply.
    pub compat: Compat,
    /// How often a request is tried; `None` without end.
    pub most_tries: Option<u32>,
    /// Names of schedulers whose plain pods get PodGroups; of none in our own form.
    pub plain_pods_of: Vec<String>,
    /// Where metrics are served, if they are.
    pub listen: Option<ListenAddress>,
    /// Where health is served, if it is.
    pub healthz: Option<ListenAddress>,
    /// Which of several works. Volcano's controllers have the same Lease, so that never both work.
    pub lease: LeaseSettings,
}

/// Works until a signal comes, or the lease is lost.
pub async fn run(credentials: &Credentials, settings: Settings) -> Result<(), RunError> {
    let daemon = Daemon::start()?;
    let cluster = Cluster::find("works", credentials).await?;
    // Volcano as it comes takes no lease, so that only its pods tell that it is there.
    let volcano = pod_at_work(
        &cluster.actions,
        "Volcano's controller",
        "app=volcano-controller",
    );
    if let Some(pod) = volcano.await {
        return Err(RunError::BesideVolcano(pod));
    }
    let watches = Watches::within(Budget::of(LARGE_OBJECTS));
    let (metrics, exposition) = Metrics::new();
    let exposition = exposition.with_watches("controller_", &watches);
    let health = Health::of(&watches);
    open(&daemon, &settings, exposition, &health).await?;
    let leadership = Leadership::begin(&cluster, settings.lease.clone(), |_| {});
    let lost = tokio::select! {
        biased;
        () = daemon.stop_requested() => false,
        () = leadership.gained() => {
            work(&daemon, (&cluster, &watches), settings, metrics, &health);
            tokio::select! {
                biased;
                () = daemon.stop_requested() => false,
                () = leadership.lost() => true,
            }
        }
    };
    health.set(Check::Shutdown, false);
    // Before another may lead.
    daemon.end(FINISH).await;
    leadership.release().await;
    if lost {
        Err(RunError::LeaseLost)
    } else {
        Ok(())
    }
}

/// Opens the ports at which the controllers are asked.
async fn open(
    daemon: &Daemon,
    settings: &Settings,
    exposition: Exposition,
    health: &Health,
) -> Result<(), RunError> {
    if let Some(address) = &settings.listen {
        let listener = server::bind("--listen-address", address).await?;
        let address = listener.local_addr()?;
        info!("serves metrics on http://{address}/metrics");
        daemon.serve(listener, None, exposition.router(), Limits::METRICS);
    }
    let probes = settings.healthz.as_ref();
    let serving = daemon.serve_probes("--healthz-address", probes, health.clone());
    Ok(serving.await?)
}

/// Begins to follow the cluster and to act on it.
fn work(
    daemon: &Daemon,
    (cluster, watches): (&Cluster, &Watches),
    settings: Settings,
    metrics: Metrics,
    health: &Health,
) {
    health.set(Check::Watches, false);
    let calls = Calls::new(cluster.actions.clone());
    if !settings.plain_pods_of.is_empty() {
        let followed = (cluster.access.clone(), watches.clone());
        let group = plain::run(followed, calls.clone(), settings.plain_pods_of);
        daemon.spawn(group);
    }
    let (synced, known) = watch::channel(false);
    daemon.spawn(ready(known, health.clone()));
    let ports = Ports {
        events: Events::new(&cluster.actions, &cluster.hostname),
        calls,
        metrics,
        synced,
    };
    let (engine, back) = Engine::new(settings.compat, settings.most_tries, ports);
    let (send, news) = news();
    watches::start(&cluster.access, &send, watches);
    daemon.spawn(engine.run(news, back));
}

/// Says that this process is ready as soon as the cluster is known.
async fn ready(mut known: watch::Receiver<bool>, health: Health) {
    // An engine that ends before never was.
    if known.wait_for(|known| *known).await.is_ok() {
        health.set(Check::Watches, true);
        info!("is ready");
    }
}
