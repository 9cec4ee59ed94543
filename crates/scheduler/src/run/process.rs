//! The scheduler as a process: everything is connected here, and ends here.

use super::batch::{Batch, BatchSettings};
use super::batch_conf::{BatchError, ConfFile};
use super::deadline::Deadline;
use super::engine::{self, Engine};
use super::events::Events;
use super::extenders::Extenders;
use super::frameworks::scheduler;
use super::metrics::Metrics;
use super::pages::pages;
use super::serve::{self, Answers, Check, Health, OpenPort, Port, PortError};
use super::view::View;
use super::watches::{self, Start};
use super::writer::{Limits, Writer};
use super::{groups, leases, queues};
use evictd_cluster_client::events::Group;
use evictd_cluster_client::{ApiError, Budget, Credentials, Watches, news, pod_at_work};
use evictd_daemon::cluster::Cluster;
use evictd_daemon::leadership::{Leadership, LeaseSettings};
use evictd_daemon::metrics::Exposition;
use evictd_daemon::server::{BindError, ListenAddress};
use evictd_daemon::tasks::Daemon;
use evictd_scheduling::CustomPlugin;
use evictd_scheduling::config::{Configuration, Point};
use jiff::Timestamp;
use std::io;
use std::time::Duration;
use tokio::sync::watch;
use tracing::info;

/// What the large objects may take that are kept, however many tenants make them.
const LARGE_OBJECTS: usize = 64 << 20;
/// How long writes that are under way may take once the process is told to stop.
const FINISH: Duration = Duration::from_secs(20);

/// Why a scheduler ended that should not have.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server cannot be reached as it is configured.
    #[error(transparent)]
    Access(#[from] ApiError),
    /// The configuration cannot be used with this cluster.
    #[error("--config: {0}")]
    Plugin(String),
    /// The configuration of batch sessions cannot be used.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// Another program places the same pods.
    #[error(
        "Volcano's scheduler is at work as pod {0}, and both would place the same pods; scale its Deployment to 0 first"
    )]
    BesideVolcano(String),
    /// The system refuses something.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Another one leads now, or the API server could not be reached in time.
    #[error("the lease is lost; another scheduler may lead now")]
    LeaseLost,
    /// The secure port cannot be opened.
    #[error(transparent)]
    Port(#[from] PortError),
    /// The port of probes cannot be opened.
    #[error(transparent)]
    Probes(#[from] BindError),
}

/// Where the scheduler is asked.
#[derive(Debug, Clone, Default)]
pub struct Ports {
    /// Health, metrics and pages over TLS.
    pub secure: Option<Port>,
    /// Health alone, over plain HTTP.
    pub probes: Option<ListenAddress>,
}

/// Schedules until a signal comes, or the lease is lost. The configuration may name these plugins.
pub async fn run(
    credentials: &Credentials,
    (config, own): (&Configuration, &[CustomPlugin]),
    asked: &Ports,
    batch: Option<BatchSettings>,
) -> Result<(), RunError> {
    let batch = batch.map(|settings| sessions_by(settings, config));
    let (mut batch, conf_file) = batch.transpose()?.unzip();
    let scheduler = scheduler(config, own).map_err(RunError::Plugin)?;
    let daemon = Daemon::start()?;
    let cluster = Cluster::find("schedules", credentials).await?;
    if batch.is_some() {
        not_beside_volcano(&cluster).await?;
    }
    let actions = cluster.actions.clone();
    let watches = Watches::within(Budget::of(LARGE_OBJECTS));
    let extenders = Extenders::start(&config.extenders, &cluster.access, &watches).await?;
    let events = events(&cluster, config, batch.as_ref());
    let (send, news) = news();
    let start = Start {
        access: &cluster.access,
        news: &send,
        watches: &watches,
    };
    follow(&daemon, start, config, batch.as_ref().zip(conf_file));
    if let Some(batch) = &batch {
        let queue = batch.default_queue().to_owned();
        daemon.spawn(queues::ensure(actions.clone(), queue));
    }
    daemon.spawn(groups::look_for_older_kinds(actions.clone()));
    let (metrics, exposition) = Metrics::new();
    let exposition = exposition.with_watches("scheduler_", &watches);
    let (view, health) = (View::default(), Health::of(&watches));
    open(&daemon, &cluster, asked, (&health, exposition, &view)).await?;
    let pods = leads(&cluster, &metrics, leases::of_pods(&config.leader_election));
    let sessions = batch.as_mut().map(|batch| {
        let lease = leases::of_sessions(batch.scheduler(), &config.leader_election);
        let sessions = leads(&cluster, &metrics, lease);
        batch.keep_turns(sessions.memo());
        sessions
    });
    let (synced, known) = watch::channel(false);
    daemon.spawn(ready(known, health.clone()));
    let ports = engine::Ports {
        writer: Writer::new(actions, events.clone(), Limits::default()),
        events,
        news,
        role: pods.role(),
        synced,
        metrics,
        view,
        extenders,
        batch: batch.zip(sessions.as_ref().map(Leadership::role)),
        now: Timestamp::now,
        deadline: Deadline::default(),
    };
    let mut engine = tokio::spawn(Engine::new(scheduler, ports).run(daemon.stopping()));
    tokio::select! {
        biased;
        () = daemon.stop_requested() => {}
        _ = &mut engine => return Err(RunError::LeaseLost),
    }
    health.set(Check::Shutdown, false);
    // The engine may have ended in this moment, which is as good.
    let _ = tokio::time::timeout(FINISH, engine).await;
    pods.release().await;
    if let Some(sessions) = sessions {
        sessions.release().await;
    }
    daemon.end(Duration::from_secs(1)).await;
    Ok(())
}

/// Volcano as it comes takes no lease, so that only its pods tell that it is there.
async fn not_beside_volcano(cluster: &Cluster) -> Result<(), RunError> {
    let volcano = pod_at_work(
        &cluster.actions,
        "Volcano's scheduler",
        "app=volcano-scheduler",
    );
    volcano
        .await
        .map_or(Ok(()), |pod| Err(RunError::BesideVolcano(pod)))
}

fn events(cluster: &Cluster, config: &Configuration, batch: Option<&Batch>) -> Events {
    let names = config
        .profiles
        .iter()
        .map(|own| (own.scheduler_name.as_str(), Group::Events))
        // Those of sessions as Volcano's: who waits for them looks at the time and the count of the core group.
        .chain(batch.map(|batch| (batch.scheduler(), Group::Core)));
    Events::new(&cluster.actions, &cluster.hostname, names, Timestamp::now)
}

/// Begins to follow all that is decided by.
fn follow(
    daemon: &Daemon,
    start: Start<'_>,
    config: &Configuration,
    batch: Option<(&Batch, ConfFile)>,
) {
    watches::start(start, batch.is_some());
    if let Some((batch, file)) = batch {
        watches::start_batch(start);
        daemon.spawn(file.follow(batch.period(), start.news.clone()));
    }
    let profiles = config.profiles.iter();
    let mut filters = profiles.flat_map(|own| own.points.at(Point::Filter));
    if filters.any(|name| name == "EvictdReturn") {
        watches::start_failed(start);
    }
}

/// Opens the ports at which the scheduler is asked.
async fn open(
    daemon: &Daemon,
    cluster: &Cluster,
    asked: &Ports,
    (health, exposition, view): (&Health, Exposition, &View),
) -> Result<(), RunError> {
    if let Some(port) = &asked.secure {
        let open = port.open(&cluster.hostname, Timestamp::now()).await?;
        let OpenPort {
            listener,
            tls,
            access,
        } = open;
        let answers = Answers {
            health: health.clone(),
            exposition,
            pages: pages(view),
            access,
        };
        info!(
            "serves health and metrics on https://{}",
            listener.local_addr()?
        );
        daemon.serve(listener, Some(tls), answers.router(), serve::LIMITS);
    }
    let probes = asked.probes.as_ref();
    let serving = daemon.serve_probes("--healthz-address", probes, health.clone());
    Ok(serving.await?)
}

/// Takes part in an election, and measures whether this process leads.
fn leads(cluster: &Cluster, metrics: &Metrics, lease: LeaseSettings) -> Leadership {
    let (name, metrics) = (lease.name.clone(), metrics.clone());
    Leadership::begin(cluster, lease, move |leads| {
        let gauge = &metrics.leader_election_master_status;
        gauge.set([&name], i64::from(leads));
    })
}

/// Says that this process is ready as soon as the cluster is known.
async fn ready(mut known: watch::Receiver<bool>, health: Health) {
    // An engine that ends before never was.
    if known.wait_for(|known| *known).await.is_ok() {
        health.set(Check::HandlerSync, true);
    }
}

/// Batch sessions by their file.
fn sessions_by(
    settings: BatchSettings,
    config: &Configuration,
) -> Result<(Batch, ConfFile), BatchError> {
    let name = &settings.setting.scheduler;
    if config
        .profiles
        .iter()
        .any(|own| own.scheduler_name == *name)
    {
        return Err(BatchError::Profile(name.clone()));
    }
    let (file, conf) = ConfFile::open(settings.file.clone())?;
    Ok((Batch::new(settings, conf), file))
}
