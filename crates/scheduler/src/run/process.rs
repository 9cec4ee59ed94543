//! Connects the parts of the scheduler, runs it, and ends it in order.

use super::batch::{Batch, BatchSettings};
use super::batch_conf::{BatchError, ConfFile};
use super::batch_extender::HttpCalls;
use super::deadline::Deadline;
use super::engine::{self, Engine};
use super::events::Events;
use super::extenders::Extenders;
use super::frameworks::scheduler;
use super::metrics::{Metrics, MetricsRecorder};
use super::node_use;
use super::pages::{About, pages};
use super::resources::{Question, ResourceMetrics};
use super::serve::{Answers, Check, Health, LIMITS, OpenPort, Page, Port, PortError};
use super::view::View;
use super::watches::{self, Reflectors};
use super::writer::{Limits, Writer};
use super::{default_queues, groups, leases, release};
use evictd_cluster_client::events::Group;
use evictd_cluster_client::{Actions, ApiError, Budget, Credentials, Watches, news, pod_at_work};
use evictd_daemon::cluster::Cluster;
use evictd_daemon::leadership::{Leadership, LeaseSettings};
use evictd_daemon::metrics::Exposition;
use evictd_daemon::rate::{LimitedCalls, RateFlags};
use evictd_daemon::server::{BindError, ListenAddress};
use evictd_daemon::tasks::Daemon;
use evictd_pod::compatibility::{Compatibility, Gate, Release};
use evictd_scheduling::CustomPlugin;
use evictd_scheduling::config::{Configuration, Point};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tracing::info;

/// The memory for large objects in bytes, however many tenants create them.
const LARGE_OBJECTS: usize = 64 << 20;
/// How long writes under way may take after a signal to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(10);

/// Why the scheduler did not start, or ended without a signal.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RunError {
    #[error(transparent)]
    Access(#[from] ApiError),
    /// A plugin refuses its arguments.
    #[error("--config: {0}")]
    Plugin(String),
    /// The release of the API server does not have a gate that is set, a line for each.
    #[error("{0}")]
    Gates(String),
    #[error(transparent)]
    Batch(#[from] BatchError),
    #[error(
        "Volcano's scheduler is running as pod {0}, and both would place the same pods; scale its Deployment to 0 first"
    )]
    BesideVolcano(String),
    #[error(transparent)]
    System(#[from] io::Error),
    /// Another process leads now, or the API server could not be reached in time.
    #[error("the lease is lost; another scheduler may lead now")]
    LeaseLost,
    #[error(transparent)]
    Port(#[from] PortError),
    #[error(transparent)]
    Probes(#[from] BindError),
}

/// The ports that the scheduler opens.
#[derive(Debug, Clone, Default)]
pub(crate) struct Ports {
    /// Health, metrics and pages over TLS.
    pub(crate) secure: Option<Port>,
    /// Health alone, over plain HTTP.
    pub(crate) probes: Option<ListenAddress>,
}

/// Schedules until a signal arrives or the lease is lost. The configuration may name `plugins`.
pub(crate) async fn run(
    credentials: &Credentials,
    (config, plugins): (&Configuration, &[CustomPlugin]),
    ports: &Ports,
    batch: Option<BatchSettings>,
    about: &About,
) -> Result<(), RunError> {
    let batch = batch.map(|settings| open_batch(settings, config));
    let (mut batch, conf_file) = batch.transpose()?.unzip();
    let (metrics, exposition) = Metrics::new(batch.is_some());
    let recorder = Arc::new(MetricsRecorder::new(metrics.clone()));
    let mut scheduler = scheduler(config, plugins, &recorder).map_err(RunError::Plugin)?;
    let (daemon, started) = (Daemon::start()?, Timestamp::now());
    let cluster = Cluster::find("schedules", credentials).await?;
    if batch.is_some() {
        not_beside_volcano(&cluster).await?;
    }
    let rate = RateFlags {
        qps: config.client_connection.qps,
        burst: config.client_connection.burst,
    };
    let LimitedCalls {
        writes: actions,
        events: calls_for_events,
    } = cluster.calls_at(rate);
    let watches = Watches::within(Budget::of(LARGE_OBJECTS));
    let extenders = Extenders::start(&config.extenders, &cluster.access, &watches).await?;
    let events = events((&cluster, &calls_for_events), config, batch.as_ref());
    let (send, watch_events) = news();
    let reflectors = Reflectors {
        access: &cluster.access,
        events: &send,
        watches: &watches,
    };
    let leads = Arc::new(AtomicBool::new(false));
    let (resources, questions) =
        ResourceMetrics::new(Arc::clone(&leads), Arc::clone(&about.release));
    let of_batch = batch.as_ref().zip(conf_file);
    follow(&daemon, reflectors, config, of_batch, questions);
    if let Some(batch) = &batch {
        let queue = batch.default_queue().to_owned();
        daemon.spawn(default_queues::ensure(actions.clone(), queue));
    }
    daemon.spawn(groups::look_for_older_kinds(actions.clone()));
    let exposition = exposition
        .with_watches("scheduler_", &watches)
        .with_process()
        .with_requests(&cluster.access);
    let (view, health) = (View::default(), Health::of(&watches));
    let answers = PortAnswers {
        exposition,
        metrics: metrics.clone(),
        pages: pages(&view, config, about, (started, resources)),
    };
    serve(&daemon, &cluster, ports, &health, answers).await?;
    let release = tokio::select! {
        () = daemon.stop_requested() => return Ok(()),
        release = release::wanted(&about.emulation, &cluster.actions) => release,
    };
    let compatibility = emulate(release, about, &metrics)?;
    scheduler.set_compatibility(compatibility);
    if release >= Release::V1_37 {
        report_single_pod_plugins(config);
    }
    watches::start_taint_rules(reflectors, compatibility.is_on(Gate::DRADeviceTaintRules));
    let election = &config.leader_election;
    let pods = take_part(&cluster, &metrics, leases::of_pods(election), leads);
    let sessions = batch.as_mut().map(|batch| {
        let lease = leases::of_sessions(batch.scheduler(), election);
        let sessions = take_part(&cluster, &metrics, lease, Arc::default());
        batch.keep_reservations(sessions.memo());
        sessions
    });
    let (synced, is_synced) = watch::channel(false);
    daemon.spawn(report_synced(is_synced, health.clone()));
    let events_at_stop = events.clone();
    let ports = engine::Ports {
        writer: Writer::new(actions, events.clone(), Limits::default(), &metrics),
        events,
        watch_events,
        role: pods.role(),
        synced,
        recorder,
        metrics,
        view,
        extenders,
        batch: batch.zip(sessions.as_ref().map(Leadership::role)),
        now: Timestamp::now,
        deadline: Deadline::default(),
    };
    let mut engine = tokio::spawn(Engine::new(scheduler, ports).run(daemon.stopping()));
    tokio::select! {
        // A stop also ends the engine. Without an order it could be taken for a lost lease.
        biased;
        () = daemon.stop_requested() => {}
        _ = &mut engine => return Err(RunError::LeaseLost),
    }
    health.set(Check::Shutdown, false);
    // The engine may have ended at this moment, which is no error either.
    let _ = tokio::time::timeout(SHUTDOWN_TIMEOUT, engine).await;
    // After the engine, so that the next leader does not write beside it.
    pods.release().await;
    if let Some(sessions) = sessions {
        sessions.release().await;
    }
    events_at_stop.flush_at_stop().await;
    // The remaining tasks are servers and watches, which have nothing to finish.
    daemon.end(Duration::from_secs(1)).await;
    Ok(())
}

/// Groups have post-filter plugins of their own (S7-264).
fn report_single_pod_plugins(config: &Configuration) {
    for profile in &config.profiles {
        for plugin in profile.points.post_filters_without_groups() {
            tracing::error!(
                "profile {}: {plugin} is enabled at postFilter, but not at podGroupPostFilter, so that it does nothing for pod groups",
                profile.scheduler_name
            );
        }
    }
}

/// The compatibility with a release, which pages and metrics show from now on.
fn emulate(release: Release, about: &About, metrics: &Metrics) -> Result<Compatibility, RunError> {
    let compatibility = about.emulation.with(release).map_err(RunError::Gates)?;
    // It is set once.
    let _ = about.release.set(release);
    metrics.release.set(release);
    for gate in Gate::ALL {
        let Some(state) = gate.state(release) else {
            continue;
        };
        let labels = [gate.as_str(), state.stage.as_str()];
        let is_on = i64::from(compatibility.is_on(*gate));
        metrics.feature_enabled.set(labels, is_on);
    }
    Ok(compatibility)
}

/// Fails if Volcano's scheduler runs in the cluster. It takes no lease by default, so that only its pods show that.
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

fn events(
    (cluster, calls): (&Cluster, &Actions),
    config: &Configuration,
    batch: Option<&Batch>,
) -> Events {
    let names = config
        .profiles
        .iter()
        .map(|profile| (profile.scheduler_name.as_str(), Group::Events))
        // Volcano's events are of the core group, and its users read the time and the count there.
        .chain(batch.map(|batch| (batch.scheduler(), Group::Core)));
    Events::new(calls, &cluster.hostname, names, Timestamp::now)
}

/// Begins to follow every input of a decision.
fn follow(
    daemon: &Daemon,
    reflectors: Reflectors<'_>,
    config: &Configuration,
    batch: Option<(&Batch, ConfFile)>,
    questions: mpsc::Receiver<Question>,
) {
    watches::start(reflectors, batch.is_some(), questions);
    if let Some((batch, file)) = batch {
        watches::start_batch(reflectors);
        let (access, events) = (reflectors.access.clone(), reflectors.events.clone());
        daemon.spawn(node_use::follow(access, file.measures(), events));
        daemon.spawn(file.follow(batch.period(), reflectors.events.clone()));
    }
    // Failed pods may be many. Only the plugin that delays evicted pods needs them.
    let profiles = config.profiles.iter();
    let mut filters = profiles.flat_map(|profile| profile.points.at(Point::Filter));
    if filters.any(|name| name == "EvictdReturn") {
        watches::start_failed(reflectors);
    }
}

/// The pages of the secure port beside health.
struct PortAnswers {
    exposition: Exposition,
    metrics: Metrics,
    pages: BTreeMap<&'static str, Page>,
}

/// Opens the ports and serves on them.
async fn serve(
    daemon: &Daemon,
    cluster: &Cluster,
    ports: &Ports,
    health: &Health,
    answers: PortAnswers,
) -> Result<(), RunError> {
    if let Some(port) = &ports.secure {
        let OpenPort {
            listener,
            tls,
            auth,
        } = port.open(&cluster.hostname, Timestamp::now()).await?;
        let answers = Answers {
            health: health.clone(),
            exposition: answers.exposition,
            pages: answers.pages,
            auth: auth.counted(answers.metrics),
        };
        info!(
            "serves health and metrics on https://{}",
            listener.local_addr()?
        );
        daemon.serve(listener, Some(tls), answers.router(), LIMITS);
    }
    let probes = ports.probes.as_ref();
    let serving = daemon.serve_probes("--healthz-address", probes, health.clone());
    Ok(serving.await?)
}

/// Takes part in an election. A gauge and `is_leader` show whether this process leads.
fn take_part(
    cluster: &Cluster,
    metrics: &Metrics,
    lease: LeaseSettings,
    is_leader: Arc<AtomicBool>,
) -> Leadership {
    let (name, metrics) = (lease.name.clone(), metrics.clone());
    Leadership::begin(cluster, lease, move |leads| {
        is_leader.store(leads, Ordering::Relaxed);
        let gauge = &metrics.leader_election_master_status;
        gauge.set([&name], i64::from(leads));
    })
}

/// Makes the process ready when all kinds are listed.
async fn report_synced(mut synced: watch::Receiver<bool>, health: Health) {
    // An error means that the engine has ended before that.
    if synced.wait_for(|synced| *synced).await.is_ok() {
        health.set(Check::HandlerSync, true);
    }
}

/// Reads the configuration of batch sessions.
fn open_batch(
    mut settings: BatchSettings,
    config: &Configuration,
) -> Result<(Batch, ConfFile), BatchError> {
    let name = &settings.setting.scheduler;
    if config
        .profiles
        .iter()
        .any(|profile| profile.scheduler_name == *name)
    {
        return Err(BatchError::Profile(name.clone()));
    }
    // A changed configuration may name an extender later.
    settings.setting.extender = Some(Arc::new(HttpCalls::new()));
    let (file, conf) = ConfFile::open(settings.file.clone())?;
    Ok((Batch::new(settings, conf), file))
}
