//! An election that a process takes part in as long as it runs.

use super::driver::{LeaseLock, run};
use super::election::{Election, Role, Settings};
use crate::Actions;
use jiff::Timestamp;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

/// How long giving the Lease back may take.
const RELEASE: Duration = Duration::from_secs(5);

/// Takes part in an election in the background, or leads without one. Dropped, it gives the Lease back as soon as the
/// runtime lets it.
pub struct Elected {
    role: watch::Receiver<Role>,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
    /// Without an election this process leads as long as this is there.
    _always: Option<watch::Sender<Role>>,
}

impl Elected {
    /// Leads at once and always: nobody else does the same work.
    pub fn always() -> Self {
        let (always, role) = watch::channel(Role::Leader);
        Self {
            role,
            running: None,
            _always: Some(always),
        }
    }

    /// Takes part in the election on the Lease of this namespace and name. Must be called inside the runtime.
    pub fn start(actions: Actions, (namespace, name): (&str, &str), settings: Settings) -> Self {
        let lock = LeaseLock::new(actions, namespace, name, settings.renew_deadline / 2);
        let election = Election::new(settings);
        let (roles, role) = watch::channel(Role::Candidate(String::new()));
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            // A sender that was dropped means the same as a word to stop.
            let stopped = async { drop(stopped.await) };
            run(election, lock, &roles, stopped, Timestamp::now).await;
        });
        Self {
            role,
            running: Some((stop, task)),
            _always: None,
        }
    }

    /// The role of this process, from now on.
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    /// Gives the Lease back, so that another may lead at once.
    pub async fn release(self) {
        if let Some((stop, task)) = self.running {
            // It may have ended already.
            let _ = stop.send(());
            let _ = tokio::time::timeout(RELEASE, task).await;
        }
    }
}
