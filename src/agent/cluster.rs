//! What a decision means to the cluster: the victim's status is told, and the loop hears what became of that.

use super::Agent;
use crate::{
    evict::{ClusterEvictor, Haste},
    outbox::{Notice, Outbox, Publication},
};
use evictd_eviction::{Cause, Decision};
use evictd_pod::Pod;
use jiff::Timestamp;
use std::{sync::Arc, time::Duration};
use tokio::sync::{mpsc, watch};

/// The longest that a hard eviction waits for the API server's answer.
const HARD_PATIENCE: Duration = Duration::from_millis(50);

/// How long notices are waited for when the agent ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// The way to tell the cluster of evictions.
pub struct Cluster {
    /// Takes notices.
    pub outbox: Outbox,
    /// Whether the Node shows its pressure.
    pub settled: watch::Receiver<bool>,
    /// Brings back what became of them.
    pub publications: mpsc::UnboundedReceiver<Publication>,
}

/// The next notice whose fate is known; never, where there is no cluster. Cancel safe.
pub(super) async fn publication(cluster: Option<&mut Cluster>) -> Publication {
    let next = match cluster {
        Some(cluster) => cluster.publications.recv().await,
        None => None,
    };
    match next {
        Some(publication) => publication,
        None => std::future::pending().await,
    }
}

impl Agent {
    /// How this pod leaves, where the API server is to know.
    pub(super) fn cluster_evictor(
        &self,
        now: Timestamp,
        id: &str,
        decision: &Decision,
        pod: &Pod,
    ) -> Option<ClusterEvictor> {
        let cluster = self.ports.cluster.as_ref()?;
        let haste = match decision.kind {
            Cause::Soft => Haste::Soft,
            Cause::Hard | Cause::LocalStorage => Haste::Hard(self.patience(now, decision)),
        };
        Some(ClusterEvictor {
            local: Arc::clone(&self.ports.evictor),
            outbox: cluster.outbox.clone(),
            notice: Notice::new(id, decision, pod),
            settled: cluster.settled.clone(),
            haste,
        })
    }

    /// A quarter of what is left until there is nothing left, at the present rate.
    fn patience(&self, now: Timestamp, decision: &Decision) -> Duration {
        let acting = decision.threshold.as_ref();
        let left = acting.and_then(|acting| {
            let signal = acting.threshold.signal;
            self.pace.exhausted_in(now, signal, &acting.observed)
        });
        left.map_or(HARD_PATIENCE, |left| HARD_PATIENCE.min(left / 4))
    }

    /// What has not landed by now is given up, and the history says so.
    pub(super) async fn close_cluster(&mut self) {
        let Some(mut cluster) = self.ports.cluster.take() else {
            return;
        };
        let busy = cluster.outbox.clone();
        let landed = async {
            while busy.is_busy()
                && let Some(publication) = cluster.publications.recv().await
            {
                self.published(&publication);
            }
        };
        if tokio::time::timeout(FAREWELL, landed).await.is_err() {
            busy.withdraw_all("evictd ended before the API server knew");
        }
        while busy.is_busy()
            && let Some(publication) = cluster.publications.recv().await
        {
            self.published(&publication);
        }
        while let Ok(publication) = cluster.publications.try_recv() {
            self.published(&publication);
        }
    }

    pub(super) fn published(&mut self, publication: &Publication) {
        self.restarts.told(&publication.id);
        for publisher in &mut self.ports.publishers {
            publisher.published(publication);
        }
    }
}
