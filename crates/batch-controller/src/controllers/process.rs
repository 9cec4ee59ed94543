//! The process of the controllers: start, leadership and shutdown.

use super::calls::Calls;
use super::engine::{Engine, Ports};
use super::events::Events;
use super::health::{Check, Health};
use super::hyper_nodes::{self, DiscoveryFile, HyperNodes};
use super::metrics::Metrics;
use super::pod_groups;
use super::watches;
use super::workflows::{self, Workflows};
use evictd_batch_objects::Compat;
use evictd_batch_workflows::WorkflowMachine;
use evictd_cluster_client::events::Recorders;
use evictd_cluster_client::{ApiError, Budget, Credentials, Watches, news, pod_at_work};
use evictd_daemon::cluster::Cluster;
use evictd_daemon::leadership::{Leadership, LeaseSettings};
use evictd_daemon::metrics::Exposition;
use evictd_daemon::rate::{LimitedCalls, RateFlags};
use evictd_daemon::server::{self, BindError, Limits, ListenAddress};
use evictd_daemon::tasks::Daemon;
use evictd_hyper_nodes::DiscoveryConf;
use evictd_pod::wire::Metadata;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::watch;
use tracing::info;

/// The memory for large objects of all tenants together.
const LARGE_OBJECTS_BUDGET: usize = 256 << 20;
/// How long the process waits for a scrape in flight when it shuts down.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(1);

/// Why the controllers ended without a signal.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The access to the API server is not configured correctly.
    #[error(transparent)]
    Access(#[from] ApiError),
    /// A system call failed.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The process cannot listen on an address.
    #[error(transparent)]
    Port(#[from] BindError),
    /// Volcano's controllers run, and would create the same pods.
    #[error(
        "Volcano's controllers run in the pod {0}, and both would create the same pods: scale their Deployment to 0 first"
    )]
    BesideVolcano(String),
    /// The sources of HyperNodes are wrong: every mistake with its place.
    #[error("--hyper-node-conf: {0}")]
    HyperNodes(String),
    /// Another replica leads, or the lease could not be renewed in time.
    #[error("the lease is lost: another replica may lead now")]
    LeaseLost,
}

/// The settings of the controllers.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Whose rules apply.
    pub compat: Compat,
    /// How often a failed request is retried; `None` for no limit.
    pub max_requeues: Option<u32>,
    /// Bare pods of these schedulers get pod groups.
    pub bare_pod_schedulers: Vec<String>,
    /// The file with the sources of HyperNodes, which may be missing.
    pub hyper_node_conf: PathBuf,
    /// How many calls to the API server are allowed.
    pub rate: RateFlags,
    /// The address of the metrics; `None` for no metrics.
    pub listen: Option<ListenAddress>,
    /// The address of the health checks; `None` for no health checks.
    pub healthz: Option<ListenAddress>,
    /// The leader election. Volcano's controllers use the same Lease, so that only one of both works.
    pub lease: LeaseSettings,
}

/// Runs until a signal arrives or the lease is lost.
pub async fn run(credentials: &Credentials, settings: Settings) -> Result<(), RunError> {
    let daemon = Daemon::start()?;
    let (metrics, exposition) = Metrics::new();
    let hyper_nodes = open_hyper_node_conf(&settings, &metrics)?;
    let cluster = Cluster::find("works", credentials).await?;
    // By default Volcano elects no leader, so its pods are the only sign of it.
    let volcano = pod_at_work(
        &cluster.actions,
        "Volcano's controller",
        "app=volcano-controller",
    );
    if let Some(pod) = volcano.await {
        return Err(RunError::BesideVolcano(pod));
    }
    let watches = Watches::within(Budget::of(LARGE_OBJECTS_BUDGET));
    let exposition = exposition.with_watches("controller_", &watches);
    let health = Health::of(&watches);
    serve(&daemon, &settings, exposition, &health).await?;
    let recorders = Recorders::default();
    let leadership = Leadership::begin(&cluster, settings.lease.clone(), |_| {});
    let lost = tokio::select! {
        biased;
        () = daemon.stop_requested() => false,
        () = leadership.gained() => {
            start(
                &daemon,
                (&cluster, &watches),
                &recorders,
                settings,
                (metrics, hyper_nodes),
                &health,
            );
            tokio::select! {
                biased;
                () = daemon.stop_requested() => false,
                () = leadership.lost() => true,
            }
        }
    };
    health.set(Check::Shutdown, false);
    // The work has to end before another replica may lead.
    daemon.end(SHUTDOWN_TIMEOUT).await;
    leadership.release().await;
    recorders.flush_at_stop().await;
    if lost {
        Err(RunError::LeaseLost)
    } else {
        Ok(())
    }
}

/// Reads the sources of HyperNodes. Events about the file name the lease, because it is no object of the cluster.
fn open_hyper_node_conf(
    settings: &Settings,
    metrics: &Metrics,
) -> Result<(DiscoveryFile, DiscoveryConf), RunError> {
    let lease = Metadata {
        name: settings.lease.name.clone(),
        namespace: settings.lease.namespace.clone().into(),
        ..Metadata::default()
    };
    let path = settings.hyper_node_conf.clone();
    DiscoveryFile::open(path, metrics.refused_confs(), lease).map_err(RunError::HyperNodes)
}

/// Serves metrics and health checks.
async fn serve(
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

/// Starts the watches and the controllers.
fn start(
    daemon: &Daemon,
    (cluster, watches): (&Cluster, &Watches),
    recorders: &Recorders,
    settings: Settings,
    (metrics, hyper_nodes): (Metrics, (DiscoveryFile, DiscoveryConf)),
    health: &Health,
) {
    // Only a leader watches, so only a leader can fail this check.
    health.set(Check::Watches, false);
    let LimitedCalls { writes, events } = cluster.calls_at(settings.rate);
    let calls = Calls::new(writes);
    if !settings.bare_pod_schedulers.is_empty() {
        let cluster = (cluster.access.clone(), watches.clone());
        let schedulers = settings.bare_pod_schedulers;
        daemon.spawn(pod_groups::run(cluster, calls.clone(), schedulers));
    }
    let (synced, is_synced) = watch::channel(false);
    daemon.spawn(report_ready(is_synced, health.clone()));
    let events = Events::new(&events, &cluster.hostname, recorders);
    let machine = WorkflowMachine::new(settings.compat, settings.max_requeues);
    let (workflows, workflow_news) = news();
    let ports = Ports {
        events: events.clone(),
        calls: calls.clone(),
        workflows: workflows.clone(),
        metrics,
        synced,
    };
    let (hyper_node_sender, hyper_node_news) = news();
    hyper_nodes::watch(&cluster.access, &hyper_node_sender, watches);
    let (file, conf) = hyper_nodes;
    daemon.spawn(file.follow(events.clone(), hyper_node_sender));
    daemon.spawn(HyperNodes::run(conf.label, calls.clone(), hyper_node_news));
    let (engine, results) = Engine::new(settings.compat, settings.max_requeues, ports);
    let (sender, watch_events) = news();
    watches::start(&cluster.access, &sender, watches);
    daemon.spawn(engine.run(watch_events, results));
    workflows::watch(&cluster.access, &workflows, watches);
    daemon.spawn(Workflows::run(machine, (calls, events), workflow_news));
}

/// Passes the health check once all kinds are listed.
async fn report_ready(mut is_synced: watch::Receiver<bool>, health: Health) {
    // The channel closes if the engine ends first. Then the process is never ready.
    if is_synced.wait_for(|synced| *synced).await.is_ok() {
        health.set(Check::Watches, true);
        info!("ready");
    }
}
