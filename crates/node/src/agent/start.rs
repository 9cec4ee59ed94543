//! Builds an agent from a configuration: chooses a source for each port.

mod cluster;
mod history;
mod kubelet;
mod kubelet_directories;
mod pods;
mod reload;
mod servers;
mod signals;
mod status;
mod usage;

pub(crate) use reload::Reload;

use super::{
    Agent, Allocatable, Behaviour, NodeReclaim, Pauses, Ports, Terminations, Timer, Unfinished,
};
use crate::agent::Cluster;
use crate::delivery::Notice;
use crate::{
    config::{self, Admission, Effective, EvictMethod, Kind, PodsSource},
    filesystems::WatchedPaths,
    history::{HistoryError, Recorder},
    hook::Hook,
    kept::KeptFile,
    metrics::Metrics,
    near_misses::NearMissLog,
    notify::Notifier,
    pause::PauseFile,
    pods::{Binder, PodCache},
    publish::{
        Publish, Publishers, history::HistoryPublisher, journal::Journal, kept::KeptPublisher,
        metrics::MetricsPublisher, status::StatusPage, urgency::UrgencyPublisher,
        watchdog::Watchdog,
    },
    reclaim::{CriRuntime, MemoryReclaimer, Places, Reclaimer, missing_socket},
    server::{
        http::HttpError,
        socket::SocketError,
        state::{Question, Shared},
    },
};
use evictd_cluster_client::events::Recorders;
use evictd_cluster_client::{ApiError, Fleet, Watches};
use evictd_daemon::{server::BindError, tasks::Daemon};
use evictd_kernel::{
    cgroup::{CgroupError, Hierarchies},
    clock::Clock,
    kill::{CgroupEvictor, SpareFiles},
    signals::SourceError,
};
use std::{
    error::Error,
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};
use tokio::{sync::mpsc, time::timeout};

/// Protected if the source of the pods does not tell which of them are critical.
const SYSTEM_NAMESPACE: &str = "kube-system";
/// How often to retry opening the history while the disk fails.
const HISTORY_RETRY: Duration = Duration::from_secs(5);
/// How long to wait for the last process after SIGKILL.
const KILL_DEADLINE: Duration = Duration::from_secs(30);
/// The error for `admission: reject` if only the kubelet is known.
const REJECT_NEEDS_API_SERVER: &str = "admission: reject needs an API server, because only that \
    keeps the kubelet from starting a pod; configure it under kubernetes. Until then new pods are only reported";
/// A runtime that does not say where it keeps its files holds up the start for no longer.
const RUNTIME_PATIENCE: Duration = Duration::from_secs(1);
/// The kubelet's container runtime leaves at least two seconds between SIGTERM and SIGKILL (S1-049).
const KUBELET_LEAST_GRACE: Duration = Duration::from_secs(2);

/// Why the agent cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The process may not signal other processes: it would run, but fail at its first eviction.
    #[error(
        "this process may not terminate processes of other users (CAP_KILL is missing); with --dry-run it decides and reports, and terminates nothing"
    )]
    MayNotKill,
    /// Without cgroups no pod can be found or terminated.
    #[error(transparent)]
    Cgroups(#[from] CgroupError),
    /// The sources of the signals are missing.
    #[error(transparent)]
    Signals(#[from] SourceError),
    /// The history cannot be opened.
    #[error(transparent)]
    History(#[from] HistoryError),
    /// The main loop's timer cannot be created.
    #[error("the kernel provides no timer (timerfd)")]
    Timer(#[source] io::Error),
    /// The socket cannot be opened.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The address for metrics cannot be opened.
    #[error(transparent)]
    Address(#[from] HttpError),
    /// A port cannot be listened on.
    #[error(transparent)]
    Port(#[from] BindError),
    /// The configured way to evict needs an API server.
    #[error(
        "evict.method: delete and eviction need an API server: configure it under kubernetes, or take the pods from it"
    )]
    NoCluster,
    /// The container runtime's socket is configured wrong.
    #[error("containerRuntimeEndpoint: {0}")]
    Runtime(#[from] evictd_cri::Error),
    /// The access to the API server is wrong.
    #[error(transparent)]
    Api(#[from] ApiError),
}

impl StartError {
    /// Whether a permission is missing (exit code 3).
    pub fn is_not_permitted(&self) -> bool {
        if matches!(self, Self::MayNotKill) {
            return true;
        }
        let this: &(dyn Error + 'static) = self;
        std::iter::successors(Some(this), |error: &&(dyn Error + 'static)| {
            (*error).source()
        })
        .filter_map(|error| error.downcast_ref::<io::Error>())
        .any(|error| error.kind() == io::ErrorKind::PermissionDenied)
    }
}

/// An agent that is ready to run, and its channels.
pub struct Ready {
    /// The main loop, before its first cycle.
    pub agent: Agent,
    /// Applies a configuration that is read while the agent runs.
    pub reload: Reload,
    /// To pass to the agent's `run`.
    pub questions: mpsc::Receiver<Question>,
    /// To pass to the agent's `run`.
    pub changes: mpsc::Receiver<Box<Behaviour>>,
    /// Sends changed settings to the agent.
    pub change: mpsc::Sender<Box<Behaviour>>,
    /// The state for the status page.
    pub shared: Arc<Shared>,
    /// The recorders of events, which are flushed at the end.
    pub recorders: Recorders,
}

/// The settings that may change while the agent runs, with pods from this source.
pub fn behaviour(config: &Effective, pods_source: PodsSource) -> Behaviour {
    let mut rules = config.rules();
    if pods_source != PodsSource::Manifests {
        rules.withhold_disk_evictions = missing_socket(config, pods_source).map(Into::into);
    }
    if pods_source == PodsSource::Cri {
        rules.protect.namespaces.push(SYSTEM_NAMESPACE.to_owned());
    }
    Behaviour {
        rules,
        housekeeping_interval: longest_sleep(config),
        dry_run: config.is_dry(pods_source),
        admission: config.admission,
        priority_classes: config.priority_classes.clone(),
        least_grace: match config.kind {
            Kind::Evictd => Duration::ZERO,
            Kind::Kubelet => KUBELET_LEAST_GRACE,
        },
        hook: Hook::of(&config.pre_kill_hook),
        command_lines: config.record.command_lines,
    }
}

/// The longest sleep of the main loop: shorter than configured if the systemd watchdog demands it.
fn longest_sleep(config: &Effective) -> Duration {
    let watchdog = Notifier::from_environment().longest_sleep();
    config
        .housekeeping_interval
        .unsigned_abs()
        .min(watchdog.unwrap_or(Duration::MAX))
}

/// The cgroup that acts as the node; empty for the machine.
fn node_cgroup(config: &Effective) -> PathBuf {
    let node = config.node_cgroup.as_ref();
    node.map_or_else(PathBuf::new, |node| node.as_path().to_owned())
}

/// Opens all sources, the socket and the metrics address of this configuration. `watcher` receives everything that
/// is published.
pub async fn ready(
    config: &Effective,
    (daemon, clock): (&Daemon, Clock),
    watcher: Option<Box<dyn Publish>>,
) -> Result<Ready, StartError> {
    check_can_run(config)?;
    let hierarchies = Hierarchies::detect(&config.roots.cgroup)?
        .with_namespace_of_this_process(&config.roots.proc)?;
    let pod_roots = pod_roots(config);
    let directories = kubelet_directories::find(config, &hierarchies, &pod_roots).await;
    let runtime = crate::runtime::client(config)?;
    let filesystems = WatchedPaths::new(config, &directories.root, places(&runtime).await);
    let mut sampler = signals::sampler(config, &hierarchies, filesystems.paths().clone())?;
    let huge_pages = signals::huge_pages(config, &mut sampler);
    let (fleet, reflected) = (Fleet::default(), Watches::default());
    let pods = pods::start(
        config,
        (fleet.clone(), &runtime),
        (clock, reflected.clone()),
    )
    .await;
    let usage = usage::find(config, pods.source, &hierarchies).await;
    let boot_id = boot_id(&config.roots.proc);
    let found = history::find(config, clock, &boot_id)?;
    let (earlier, intents) = (found.earlier, found.intents);
    let unfinished = earlier.open.values().filter_map(Unfinished::read).collect();
    let (past, published) = (earlier.evictions(), earlier.published_notices());
    let mut first_status = status::first(config, (&pods, &usage), &directories, clock);
    first_status.last_decision = earlier.last;
    let waiting = found.history.in_memory();
    let recorder = Recorder::start(found.history, HISTORY_RETRY);
    let (shared, questions) =
        Shared::new(clock, first_status, config.state_directory.clone(), waiting);
    let ((metrics, exposition), recorders) = (Metrics::new(), Recorders::default());
    let heartbeat = metrics.node_heartbeat();
    let reload = Reload::new(config, pods.source, &shared, metrics.configuration());
    let exposition = exposition.with_watches("", &reflected);
    servers::start(daemon, config, &shared, (exposition, reflected)).await?;
    shared.pods_loaded();
    let machine = (&hierarchies, huge_pages);
    status::warn_at_start(config, (pods.source, usage.source), machine, &shared);
    compare_with_kubelet(daemon, config, pods.source, &shared);
    let kept_file = KeptFile::new(config.runtime_directory.clone());
    let kept = kept_file.read(&boot_id);
    let history = HistoryPublisher::new(recorder, intents, &shared, earlier.open);
    let mut publishers: Vec<Box<dyn Publish>> = vec![
        Box::new(StatusPage::new(Arc::clone(&shared), hierarchies.clone())),
        Box::new(MetricsPublisher::new(metrics)),
        Box::new(Journal),
        Box::new(history),
        Box::new(Watchdog::new(Notifier::from_environment())),
        Box::new(UrgencyPublisher(fleet.clone())),
        Box::new(KeptPublisher::new(kept_file, boot_id.clone(), &kept)),
    ];
    publishers.extend(watcher);
    let shared_api = (fleet, heartbeat, &recorders);
    let cluster =
        cluster::start(config, &pods, (daemon, clock), shared_api, &mut publishers).await?;
    let (cluster, node) = cluster.unzip();
    watch_reasons(cluster.as_ref(), published);
    let pauses = pauses(config, clock, node.as_ref());
    let allocatable = allocatable(config, pods.source, node, &shared);
    let ports = Ports {
        timer: Timer::new().map_err(StartError::Timer)?,
        wake_listeners: signals::wake_listeners(config, &hierarchies),
        sampler,
        filesystems,
        pod_cache: pod_cache(config, pods.listings, (&hierarchies, &pod_roots)),
        allocatable,
        usage: usage
            .reader(config, &directories, (hierarchies.clone(), &runtime), clock)
            .with_runtime(runtime.clone())
            .beside(node_cgroup(config), pod_roots.clone()),
        reclaim: NodeReclaim::new(
            reclaimer(config, pods.source, &runtime, clock),
            MemoryReclaimer::new(config, &hierarchies, clock),
        ),
        terminations: Terminations::new(
            evictor(config, hierarchies, pod_roots, clock),
            Some(runtime).filter(|_| config.evict.method == EvictMethod::Cri),
            cluster,
        ),
        pauses,
        publishers: Publishers(publishers),
        unfinished,
        kept,
        near_misses: NearMissLog::open(&config.state_directory),
        boot_id,
    };
    let mut agent = Agent::new(clock, behaviour(config, pods.source), ports);
    agent.remember(&past);
    let (change, changes) = mpsc::channel(4);
    Ok(Ready {
        agent,
        reload,
        questions,
        changes,
        change,
        shared,
        recorders,
    })
}

/// Goes on watching the reasons that were published before a restart.
fn watch_reasons(cluster: Option<&Cluster>, published: Vec<Notice>) {
    if let Some(cluster) = cluster {
        for notice in published {
            cluster.delivery_queue.watch_reason(notice);
        }
    }
}

/// Compares the configuration with the kubelet's, where there is one.
fn compare_with_kubelet(
    daemon: &Daemon,
    config: &Effective,
    source: PodsSource,
    shared: &Arc<Shared>,
) {
    if source != PodsSource::Manifests {
        daemon.spawn(kubelet::compare(config.clone(), Arc::clone(shared)));
    }
}

fn pod_cache(
    config: &Effective,
    listings: tokio::sync::watch::Receiver<Arc<crate::pods::Listing>>,
    (hierarchies, pod_roots): (&Hierarchies, &[PathBuf]),
) -> PodCache {
    let binder = Binder::new(
        hierarchies.clone(),
        config.roots.proc.clone(),
        pod_roots.to_vec(),
    );
    let ranks_unknown = config.unknown_pods == config::UnknownPods::Rank;
    PodCache::new(listings, binder).ranking_unknown(ranks_unknown)
}

fn evictor(
    config: &Effective,
    hierarchies: Hierarchies,
    pod_roots: Vec<PathBuf>,
    clock: Clock,
) -> Arc<CgroupEvictor> {
    Arc::new(CgroupEvictor {
        hierarchies,
        proc_root: config.roots.proc.clone(),
        pod_roots,
        kill_deadline: KILL_DEADLINE,
        clock,
        spare: Arc::new(SpareFiles::filled()),
    })
}

fn allocatable(
    config: &Effective,
    pods_source: PodsSource,
    node: Option<cluster::ReadNode>,
    shared: &Shared,
) -> Allocatable {
    let allocatable = match (pods_source, node) {
        (PodsSource::Manifests, _) => Allocatable::of_machine(&config.roots.proc),
        (_, Some(read)) => Allocatable::Node(read.node),
        (_, None) => Allocatable::Unknown,
    };
    if config.admission == Admission::Reject && matches!(allocatable, Allocatable::Unknown) {
        shared.add_warnings(vec![REJECT_NEEDS_API_SERVER.to_owned()]);
    }
    allocatable
}

fn reclaimer(
    config: &Effective,
    pods_source: PodsSource,
    runtime: &evictd_cri::Client,
    clock: Clock,
) -> Reclaimer {
    let runtime = CriRuntime::new(runtime.clone(), config.runtime_directory.clone(), clock);
    Reclaimer::start(config, pods_source, Arc::new(runtime), clock)
}

/// An error if no process could be terminated.
fn check_can_run(config: &Effective) -> Result<(), StartError> {
    if !config.is_dry(config.pods.source) && !evictd_kernel::protect::may_signal_others() {
        return Err(StartError::MayNotKill);
    }
    Ok(())
}

fn pauses(config: &Effective, clock: Clock, node: Option<&cluster::ReadNode>) -> Pauses {
    let kept = PauseFile::new(config.runtime_directory.clone());
    Pauses::new(kept, node.map(|node| node.paused.clone()), clock.now())
}

/// The cgroups that may contain pods: nothing outside of them is watched, counted, bound to a pod or terminated.
fn pod_roots(config: &Effective) -> Vec<PathBuf> {
    let roots = config.cgroup_roots.iter();
    roots.map(|root| root.as_path().to_owned()).collect()
}

fn boot_id(proc_root: &Path) -> String {
    let file = proc_root.join("sys/kernel/random/boot_id");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.trim().to_owned()
}

/// Where the runtime keeps its files, if it answers now; later it is asked again.
async fn places(runtime: &evictd_cri::Client) -> Option<Places> {
    let reported = timeout(RUNTIME_PATIENCE, runtime.filesystems()).await;
    Places::of(&reported.ok()?.ok()??)
}

/// The node name: as configured; else from the environment of this pod; else as a kubelet computes it.
pub fn node_name(config: &Effective) -> String {
    let from_environment = || std::env::var("NODE_NAME").ok();
    let host = || {
        sysinfo::System::host_name()
            .ok()
            .map(|name| name.to_lowercase())
    };
    Some(config.node_name.clone())
        .filter(|name| !name.is_empty())
        .or_else(|| from_environment().filter(|name| !name.is_empty()))
        .or_else(host)
        .unwrap_or_else(|| "localhost".to_owned())
}
