//! The controllers as a process: everything is connected here, and ends here.

use super::calls::Calls;
use super::engine::{Engine, Ports};
use super::events::Events;
use super::health::{Check, Health};
use super::metrics::Metrics;
use super::plain;
use super::watches;
use evictd_batch::job::Rules;
use evictd_cluster_client::lease::{self, Elected, Role};
use evictd_cluster_client::{Access, Actions, ApiError, Budget, Credentials, Watches, pod_at_work};
use evictd_daemon::probes;
use evictd_daemon::server::{self, BindError, Limits, ListenAddress};
use std::io;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

/// What the large objects may take that are kept, however many tenants make them.
const LARGE_OBJECTS: usize = 256 << 20;

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
    /// Whose rules decide.
    pub rules: Rules,
    /// How often a request is tried; `None` without end.
    pub most_tries: Option<u32>,
    /// Names of schedulers whose plain pods get PodGroups; of none in our own form.
    pub plain_pods_of: Vec<String>,
    /// Where metrics are served, if they are.
    pub listen: Option<ListenAddress>,
    /// Where health is served, if it is.
    pub healthz: Option<ListenAddress>,
    /// Whether others may do the same work, so that one is elected.
    pub leader_elect: bool,
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name: Volcano's controllers have the same, so that never both work.
    pub lease: String,
    /// How long a Lease holds that is not renewed.
    pub lease_duration: Duration,
    /// How long a leader tries to renew it.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry_period: Duration,
}

/// Works until a signal comes, or the lease is lost.
pub async fn run(credentials: &Credentials, settings: Settings) -> Result<(), RunError> {
    let access = Access::find(credentials).await?;
    let actions = access.actions()?;
    // Volcano as it comes takes no lease, so that only its pods tell that it is there.
    let volcano = pod_at_work(&actions, "Volcano's controller", "app=volcano-controller");
    if let Some(pod) = volcano.await {
        return Err(RunError::BesideVolcano(pod));
    }
    info!(
        "works for {} with the credentials of {access}",
        access.server()
    );
    if access.trusts_any_certificate() {
        warn!("the server's certificate is not checked: insecure-skip-tls-verify is set");
    }
    let hostname = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let watches = Watches::within(Budget::of(LARGE_OBJECTS));
    let (metrics, exposition) = Metrics::new();
    let exposition = exposition.with_watches("controller_", &watches);
    let health = Health::of(&watches);
    if let Some(address) = &settings.listen {
        let listener = server::bind("--listen-address", address).await?;
        let address = listener.local_addr()?;
        info!("serves metrics on http://{address}/metrics");
        let never = CancellationToken::new();
        let router = exposition.router();
        tokio::spawn(server::serve(
            listener,
            None,
            router,
            Limits::METRICS,
            never,
        ));
    }
    if let Some(address) = &settings.healthz {
        let listener = server::bind("--healthz-address", address).await?;
        let address = listener.local_addr()?;
        info!("serves health on http://{address}/healthz");
        tokio::spawn(probes::serve(listener, health.clone()));
    }
    let mut stop = Stop::new()?;
    let election = elected(&settings, actions.clone(), hostname.trim());
    let mut role = election.role();
    tokio::select! {
        () = stop.signalled() => {
            election.release().await;
            return Ok(());
        }
        () = leads(&mut role) => {}
    }
    info!("leads");
    health.set(Check::Watches, false);
    let calls = Calls::new(actions.clone());
    let plain = settings.plain_pods_of;
    let plain = (!plain.is_empty()).then(|| {
        tokio::spawn(plain::run(
            (access.clone(), watches.clone()),
            calls.clone(),
            plain,
        ))
    });
    let (synced, mut known) = watch::channel(false);
    let ports = Ports {
        events: Events::new(&actions, hostname.trim()),
        calls,
        metrics,
        synced,
    };
    let (engine, back) = Engine::new(settings.rules, settings.most_tries, ports);
    let (send, news) = mpsc::unbounded_channel();
    watches::start(&access, &send, &watches);
    let engine = tokio::spawn(engine.run(news, back));
    let ready = health.clone();
    let ready = tokio::spawn(async move {
        if known.wait_for(|known| *known).await.is_ok() {
            ready.set(Check::Watches, true);
            info!("is ready");
        }
    });
    let result = tokio::select! {
        () = stop.signalled() => Ok(()),
        () = lost(&mut role) => {
            error!("the lease is lost");
            Err(RunError::LeaseLost)
        }
    };
    health.set(Check::Shutdown, false);
    engine.abort();
    if let Some(plain) = plain {
        plain.abort();
    }
    ready.abort();
    election.release().await;
    result
}

/// Signals that end the process.
struct Stop {
    terminate: Signal,
    interrupt: Signal,
}

impl Stop {
    fn new() -> io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
        })
    }

    async fn signalled(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => info!("stops, by SIGTERM"),
            _ = self.interrupt.recv() => info!("stops, by SIGINT"),
        }
    }
}

/// The election that this process takes part in, if it does.
fn elected(settings: &Settings, actions: Actions, hostname: &str) -> Elected {
    if !settings.leader_elect {
        return Elected::always();
    }
    let lease = (&*settings.namespace, &*settings.lease);
    let settings = lease::Settings {
        identity: lease::identity(hostname),
        lease_duration: settings.lease_duration,
        renew_deadline: settings.renew_deadline,
        retry_period: settings.retry_period,
    };
    Elected::start(actions, lease, settings)
}

/// Waits until this process leads, and says for whom it waits.
async fn leads(role: &mut watch::Receiver<Role>) {
    role.mark_changed();
    while role.changed().await.is_ok() {
        match &*role.borrow_and_update() {
            Role::Leader => return,
            Role::Candidate(holder) if !holder.is_empty() => {
                info!("waits for the lease of {holder}");
            }
            _ => {}
        }
    }
    std::future::pending::<()>().await;
}

/// Waits until this process leads no longer.
async fn lost(role: &mut watch::Receiver<Role>) {
    let lost = |role: &Role| *role != Role::Leader;
    // A sender that is gone leads no more.
    let _ = role.wait_for(lost).await;
}
