//! Leader election by a Lease, which kube-scheduler or Volcano may hold as well.

use crate::cluster::Cluster;
use evictd_cluster_client::lease::{self, Elected, Memo, Role};
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tracing::{error, info};

/// How a leader is elected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseSettings {
    /// Whether there is an election; without one this process always leads.
    pub elect: bool,
    /// The Lease's namespace.
    pub namespace: String,
    /// The Lease's name.
    pub name: String,
    /// How long a Lease holds that is not renewed.
    pub lease_duration: Duration,
    /// How long a leader tries to renew it.
    pub renew_deadline: Duration,
    /// The pause between two tries.
    pub retry_period: Duration,
    /// The annotation of the Lease in which leaders keep a text.
    pub memo: Option<&'static str>,
}

/// An election that this process takes part in.
pub struct Leadership {
    elected: Elected,
    name: String,
    reporting: JoinHandle<()>,
}

impl Leadership {
    /// Takes part from now on, logs the leader, and reports each change to `leads`. Must be called inside the runtime.
    pub fn begin(
        cluster: &Cluster,
        settings: LeaseSettings,
        leads: impl Fn(bool) + Send + 'static,
    ) -> Self {
        let elected = elected(cluster, &settings);
        let lease = settings.elect.then(|| settings.name.clone());
        let reporting = report(elected.role(), lease, leads);
        Self {
            elected,
            name: settings.name,
            reporting: tokio::spawn(reporting),
        }
    }

    /// The role of this process, from now on.
    pub fn role(&self) -> watch::Receiver<Role> {
        self.elected.role()
    }

    /// The text that leaders keep with the Lease; `None` without an election, or where none is kept.
    pub fn memo(&self) -> Option<Memo> {
        self.elected.memo()
    }

    /// Waits until this process leads.
    pub async fn gained(&self) {
        // Without a sender there is no election any more, and nothing to wait for but the end.
        if self
            .role()
            .wait_for(|role| *role == Role::Leader)
            .await
            .is_err()
        {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until this process, which leads, leads no longer.
    pub async fn lost(&self) {
        // A dropped sender leads no more.
        let _ = self.role().wait_for(|role| *role != Role::Leader).await;
        error!("the lease {} is lost", self.name);
    }

    /// Gives the Lease back, so that another may lead at once.
    pub async fn release(self) {
        self.elected.release().await;
        // It ends with the election.
        let _ = self.reporting.await;
    }
}

fn elected(cluster: &Cluster, settings: &LeaseSettings) -> Elected {
    if !settings.elect {
        return Elected::always();
    }
    let actions = cluster.actions.clone();
    let lease = (&*settings.namespace, &*settings.name);
    let of_lease = lease::Settings {
        identity: lease::identity(&cluster.hostname),
        lease_duration: settings.lease_duration,
        renew_deadline: settings.renew_deadline,
        retry_period: settings.retry_period,
    };
    match settings.memo {
        Some(annotation) => Elected::start_with_memo(actions, lease, of_lease, annotation),
        None => Elected::start(actions, lease, of_lease),
    }
}

/// Without a lease there is no election.
async fn report(mut role: watch::Receiver<Role>, lease: Option<String>, leads: impl Fn(bool)) {
    role.mark_changed();
    while role.changed().await.is_ok() {
        let role = role.borrow_and_update();
        leads(*role == Role::Leader);
        let Some(lease) = &lease else {
            continue;
        };
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
