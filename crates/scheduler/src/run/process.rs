//! The scheduler as a process: everything is connected here, and ends here.

use super::batch::{Batch, BatchSettings, TURNS};
use super::batch_conf::{BatchError, ConfFile};
use super::engine::{self, Engine};
use super::events::Events;
use super::extenders::Extenders;
use super::groups;
use super::metrics::Metrics;
use super::queues;
use super::serve::{self, Answers, Check, Health, OpenPort, Page, Port, PortError};
use super::threads::Threads;
use super::view::View;
use super::watches::{self, Start};
use super::writer::{Limits, Writer};
use evictd_cluster_client::events::Group;
use evictd_cluster_client::lease::{self, Elected, Role};
use evictd_cluster_client::{Access, Actions, ApiError, Budget, Credentials, Watches, pod_at_work};
use evictd_daemon::metrics::Exposition;
use evictd_daemon::probes;
use evictd_daemon::server::{self, BindError, ListenAddress};
use evictd_scheduling::config::{Configuration, LeaderElection, Point};
use evictd_scheduling::{Framework, OwnPlugin, Scheduler, Settings, Ties, Workers};
use jiff::{SignedDuration, Timestamp};
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// Where Volcano's leases are.
const VOLCANO_NAMESPACE: &str = "volcano-system";

/// What the large objects may take that are kept, however many tenants make them.
const LARGE_OBJECTS: usize = 64 << 20;

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
    (config, own): (&Configuration, &[OwnPlugin]),
    asked: &Ports,
    batch: Option<BatchSettings>,
) -> Result<(), RunError> {
    let batch = batch.map(|settings| sessions_by(settings, config));
    let (mut batch, conf_file) = batch.transpose()?.unzip();
    let access = Access::find(credentials).await?;
    let actions = access.actions()?;
    // Volcano as it comes takes no lease, so that only its pods tell that it is there.
    if batch.is_some()
        && let Some(pod) =
            pod_at_work(&actions, "Volcano's scheduler", "app=volcano-scheduler").await
    {
        return Err(RunError::BesideVolcano(pod));
    }
    info!(
        "schedules for {} with the credentials of {access}",
        access.server()
    );
    if access.trusts_any_certificate() {
        warn!("the server's certificate is not checked: insecure-skip-tls-verify is set");
    }
    let watches = Watches::within(Budget::of(LARGE_OBJECTS));
    let extenders = Extenders::start(&config.extenders, &access, &watches).await?;
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let hostname = hostname.trim();
    let names = config
        .profiles
        .iter()
        .map(|own| (own.scheduler_name.as_str(), Group::Events))
        // Those of sessions as Volcano's: who waits for them looks at the time and the count of the core group.
        .chain(batch.as_ref().map(|batch| (batch.scheduler(), Group::Core)));
    let events = Events::new(&actions, hostname, names, Timestamp::now);
    let (send, news) = mpsc::unbounded_channel();
    let start = Start {
        access: &access,
        news: &send,
        watches: &watches,
    };
    follow(start, config, batch.as_ref().zip(conf_file));
    if let Some(batch) = &batch {
        let queue = batch.default_queue().to_owned();
        tokio::spawn(queues::ensure(actions.clone(), queue));
    }
    tokio::spawn(groups::look_for_older_kinds(actions.clone()));
    let (metrics, exposition) = Metrics::new();
    let exposition = exposition.with_watches("scheduler_", &watches);
    let view = View::default();
    let health = Health::of(&watches);
    let shown = (health.clone(), exposition, view.clone());
    let serving = match &asked.secure {
        Some(port) => Some(serve(port, hostname, shown).await?),
        None => None,
    };
    if let Some(address) = &asked.probes {
        let listener = server::bind("--healthz-address", address).await?;
        info!("answers probes on http://{}", listener.local_addr()?);
        tokio::spawn(probes::serve(listener, health.clone()));
    }
    let election = elected(&config.leader_election, actions.clone(), hostname, None);
    let sessions = batch.as_mut().map(|batch| {
        let settings = of_sessions(batch, &config.leader_election);
        let elected = elected(&settings, actions.clone(), hostname, Some(TURNS));
        batch.keep_turns(elected.memo());
        tokio::spawn(tell(
            elected.role(),
            metrics.clone(),
            settings.resource_name,
        ));
        elected
    });
    let (synced, known) = watch::channel(false);
    tokio::spawn(ready(known, health.clone()));
    tokio::spawn(tell(
        election.role(),
        metrics.clone(),
        config.leader_election.resource_name.clone(),
    ));
    let ports = engine::Ports {
        writer: Writer::new(actions, events.clone(), Limits::default()),
        events,
        news,
        role: election.role(),
        synced,
        metrics,
        view,
        extenders,
        batch: batch.zip(sessions.as_ref().map(Elected::role)),
        now: Timestamp::now,
    };
    let (stop, stopped) = watch::channel(false);
    let engine = Engine::new(scheduler(config, own).map_err(RunError::Plugin)?, ports);
    let mut engine = tokio::spawn(engine.run(stopped));
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => info!("stops, by SIGTERM"),
        _ = interrupt.recv() => info!("stops, by SIGINT"),
        _ = &mut engine => {
            error!("the lease is lost");
            return Err(RunError::LeaseLost);
        }
    }
    health.set(Check::Shutdown, false);
    // The engine may have ended in this moment, which is as good.
    let _ = stop.send(true);
    let _ = engine.await;
    election.release().await;
    if let Some(sessions) = sessions {
        sessions.release().await;
    }
    if let Some(serving) = serving {
        serving.abort();
    }
    Ok(())
}

/// Begins to follow all that is decided by.
fn follow(start: Start<'_>, config: &Configuration, batch: Option<(&Batch, ConfFile)>) {
    watches::start(start, batch.is_some());
    if let Some((batch, file)) = batch {
        watches::start_batch(start);
        tokio::spawn(file.follow(batch.period(), start.news.clone()));
    }
    let profiles = config.profiles.iter();
    let mut filters = profiles.flat_map(|own| own.points.at(Point::Filter));
    if filters.any(|name| name == "EvictdReturn") {
        watches::start_failed(start);
    }
}

/// Serves the secure port until the task is ended.
async fn serve(
    port: &Port,
    hostname: &str,
    (health, exposition, view): (Health, Exposition, View),
) -> Result<JoinHandle<()>, RunError> {
    let OpenPort {
        listener,
        tls,
        access,
    } = port.open(hostname, Timestamp::now()).await?;
    let (pending, decisions) = (view.clone(), view);
    let pending: Page = Arc::new(move |query| {
        let view = pending.clone();
        Box::pin(async move { view.pending(&query).await })
    });
    let decisions: Page = Arc::new(move |query| {
        let view = decisions.clone();
        Box::pin(async move { view.decisions(&query) })
    });
    let pages = [("/v1/pending", pending), ("/v1/decisions", decisions)];
    let answers = Answers {
        health,
        exposition,
        pages: pages.into_iter().collect(),
        access,
    };
    info!(
        "serves health and metrics on https://{}",
        listener.local_addr()?
    );
    let never = CancellationToken::new();
    let serving = server::serve(listener, Some(tls), answers.router(), serve::LIMITS, never);
    Ok(tokio::spawn(serving))
}

/// Says that this process is ready as soon as the cluster is known.
async fn ready(mut known: watch::Receiver<bool>, health: Health) {
    // An engine that ends before never was.
    if known.wait_for(|known| *known).await.is_ok() {
        health.set(Check::HandlerSync, true);
    }
}

fn scheduler(config: &Configuration, own: &[OwnPlugin]) -> Result<Scheduler, String> {
    let settings = Settings {
        initial_backoff: config.pod_initial_backoff,
        max_backoff: config.pod_max_backoff,
        max_unschedulable: config.pod_max_unschedulable,
        ..Settings::default()
    };
    let scheduler = Scheduler::new(settings, !config.extenders.is_empty(), |cluster| {
        let threads = Arc::new(Threads::new());
        let profiles = config.profiles.iter();
        let frameworks = profiles.map(|profile| {
            let mut framework = Framework::new(cluster, profile, own)?;
            framework.workers = Arc::clone(&threads) as Arc<dyn Workers>;
            framework.ties = Ties::FewestPods;
            Ok(framework)
        });
        frameworks.collect::<Result<Vec<Framework>, String>>()
    });
    let mut scheduler = scheduler?;
    scheduler.set_extenders(config.extenders.clone());
    Ok(scheduler)
}

/// The election that this process takes part in, if it does; with a text of the leader in an annotation.
fn elected(
    settings: &LeaderElection,
    actions: Actions,
    hostname: &str,
    memo: Option<&'static str>,
) -> Elected {
    if !settings.leader_elect {
        return Elected::always();
    }
    let duration = |own: SignedDuration| Duration::try_from(own).unwrap_or_default();
    let lease = (&*settings.resource_namespace, &*settings.resource_name);
    let settings = lease::Settings {
        identity: lease::identity(hostname),
        lease_duration: duration(settings.lease_duration),
        renew_deadline: duration(settings.renew_deadline),
        retry_period: duration(settings.retry_period),
    };
    match memo {
        Some(annotation) => Elected::start_with_memo(actions, lease, settings, annotation),
        None => Elected::start(actions, lease, settings),
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

/// The election that says who runs sessions. Volcano's scheduler takes part in it, too: both never place the same pods.
fn of_sessions(batch: &Batch, settings: &LeaderElection) -> LeaderElection {
    LeaderElection {
        resource_namespace: VOLCANO_NAMESPACE.to_owned(),
        resource_name: batch.scheduler().to_owned(),
        ..settings.clone()
    }
}

/// Logs who leads, and measures whether this process does.
async fn tell(mut role: watch::Receiver<Role>, metrics: Metrics, lease: String) {
    role.mark_changed();
    while role.changed().await.is_ok() {
        let role = role.borrow_and_update();
        let leads = i64::from(*role == Role::Leader);
        metrics.leader_election_master_status.set([&lease], leads);
        match &*role {
            Role::Leader => info!("leads by the lease {lease}"),
            Role::Releasing => {}
            Role::Candidate(holder) if holder.is_empty() => {}
            Role::Candidate(holder) => info!("waits for the lease {lease}, which {holder} holds"),
            Role::Lost => error!("does not lead by the lease {lease} any more"),
            Role::Released => info!("has given the lease {lease} back"),
        }
    }
}
