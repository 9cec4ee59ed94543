//! The scheduler as a process: everything is connected here, and ends here.

use super::engine::{Engine, Ports};
use super::events::Events;
use super::metrics::Metrics;
use super::watches;
use super::writer::{Limits, Writer};
use evictd_cluster_client::lease::{self, Election, LeaseLock, Role};
use evictd_cluster_client::{Access, Actions, ApiError, Credentials};
use evictd_scheduling::config::{Configuration, LeaderElection};
use evictd_scheduling::{Framework, Scheduler, Settings};
use jiff::{SignedDuration, Timestamp};
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tracing::{error, info};

/// Why a scheduler ended that should not have.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The API server cannot be reached as it is configured.
    #[error(transparent)]
    Access(#[from] ApiError),
    /// The configuration cannot be used with this cluster.
    #[error("--config: {0}")]
    Plugin(String),
    /// The system refuses something.
    #[error(transparent)]
    System(#[from] io::Error),
    /// Another one leads now, or the API server could not be reached in time.
    #[error("the lease is lost; another scheduler may lead now")]
    LeaseLost,
}

/// Schedules until a signal comes, or the lease is lost.
pub async fn run(credentials: &Credentials, config: &Configuration) -> Result<(), RunError> {
    let access = Access::find(credentials).await?;
    let actions = access.actions()?;
    info!(
        "schedules for {} with the credentials of {access}",
        access.server()
    );
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let hostname = hostname.trim();
    let names = config
        .profiles
        .iter()
        .map(|own| own.scheduler_name.as_str());
    let events = Events::new(&actions, hostname, names, Timestamp::now);
    let (send, news) = mpsc::unbounded_channel();
    watches::start(&access, &send);
    let (metrics, _exposition) = Metrics::new();
    let mut election = Elected::start(&config.leader_election, actions.clone(), hostname);
    let (synced, _) = watch::channel(false);
    let ports = Ports {
        writer: Writer::new(actions, events.clone(), Limits::default()),
        events,
        news,
        role: election.role.clone(),
        synced,
        metrics,
        now: Timestamp::now,
    };
    let (stop, stopped) = watch::channel(false);
    let engine = Engine::new(scheduler(config).map_err(RunError::Plugin)?, ports);
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
    // The engine may have ended in this moment, which is as good.
    let _ = stop.send(true);
    let _ = engine.await;
    election.release().await;
    Ok(())
}

fn scheduler(config: &Configuration) -> Result<Scheduler, String> {
    let settings = Settings {
        initial_backoff: config.pod_initial_backoff,
        max_backoff: config.pod_max_backoff,
        ..Settings::default()
    };
    Scheduler::new(settings, !config.extenders.is_empty(), |cluster| {
        let profiles = config.profiles.iter();
        profiles
            .map(|profile| Framework::new(cluster, profile, &[]))
            .collect()
    })
}

/// The election that this process takes part in, if it does.
struct Elected {
    role: watch::Receiver<Role>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    /// Without an election this process leads as long as this is there.
    _always: Option<watch::Sender<Role>>,
}

impl Elected {
    fn start(settings: &LeaderElection, actions: Actions, hostname: &str) -> Self {
        if !settings.leader_elect {
            let (always, role) = watch::channel(Role::Leader);
            return Self {
                role,
                running: None,
                _always: Some(always),
            };
        }
        let duration = |own: SignedDuration| Duration::try_from(own).unwrap_or_default();
        let election = Election::new(lease::Settings {
            identity: lease::identity(hostname),
            lease_duration: duration(settings.lease_duration),
            renew_deadline: duration(settings.renew_deadline),
            retry_period: duration(settings.retry_period),
        });
        let (namespace, name) = (&settings.resource_namespace, &settings.resource_name);
        let lock = LeaseLock::new(
            actions,
            namespace,
            name,
            duration(settings.renew_deadline) / 2,
        );
        let (roles, role) = watch::channel(Role::Candidate(String::new()));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            // A sender that was dropped means the same as a word to stop.
            let stopped = async { drop(stopped.await) };
            lease::run(election, lock, &roles, stopped, Timestamp::now).await;
        });
        tokio::spawn(tell(role.clone()));
        Self {
            role,
            running: Some((stop, task)),
            _always: None,
        }
    }

    /// Gives the lease back, so that another may lead at once.
    async fn release(&mut self) {
        if let Some((stop, task)) = self.running.take() {
            // It may have ended already.
            let _ = stop.send(());
            let _ = tokio::time::timeout(Duration::from_secs(5), task).await;
        }
    }
}

/// Logs who leads.
async fn tell(mut role: watch::Receiver<Role>) {
    while role.changed().await.is_ok() {
        match &*role.borrow_and_update() {
            Role::Leader => info!("leads"),
            Role::Candidate(holder) if holder.is_empty() => {}
            Role::Candidate(holder) => info!("waits for the lease of {holder}"),
            Role::Lost => error!("does not lead any more"),
            Role::Released => info!("has given the lease back"),
        }
    }
}
