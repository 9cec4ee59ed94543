//! An election that a process takes part in as long as it runs.

use super::driver::{LeaseLock, run};
use super::election::{Election, Role, Settings};
use super::memo::Memo;
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
    memo: Option<Memo>,
    /// Without an election this process leads as long as this is there.
    _always: Option<watch::Sender<Role>>,
}

impl Elected {
    /// Leads at once and always: no other process does the same work.
    pub fn always() -> Self {
        let (always, role) = watch::channel(Role::Leader);
        Self {
            role,
            running: None,
            memo: None,
            _always: Some(always),
        }
    }

    /// Takes part in the election on the Lease of this namespace and name. Must be called inside the runtime.
    pub fn start(actions: Actions, lease: (&str, &str), settings: Settings) -> Self {
        let lock = lock(actions, lease, &settings);
        Self::run(lock, settings, None)
    }

    /// The same, with a text of the leader in this annotation of the Lease.
    pub fn start_with_memo(
        actions: Actions,
        lease: (&str, &str),
        settings: Settings,
        annotation: &'static str,
    ) -> Self {
        let (lock, memo) = lock(actions, lease, &settings).with_memo(annotation);
        Self::run(lock, settings, Some(memo))
    }

    fn run(lock: LeaseLock, settings: Settings, memo: Option<Memo>) -> Self {
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
            memo,
            _always: None,
        }
    }

    /// The role of this process, from now on.
    pub fn role(&self) -> watch::Receiver<Role> {
        self.role.clone()
    }

    /// The text that leaders keep with the Lease; `None` without an election, or where none is kept.
    pub fn memo(&self) -> Option<Memo> {
        self.memo.clone()
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

fn lock(actions: Actions, (namespace, name): (&str, &str), settings: &Settings) -> LeaseLock {
    LeaseLock::new(actions, namespace, name, settings.renew_deadline / 2)
}
