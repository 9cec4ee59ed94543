//! Evicted pods of which the API server does not know yet: their kubelet starts their containers again.
//!
//! While the pressure that they went for lasts they are ended again; a pod that runs on after it is left alone, and what
//! was to be told of it is dropped, for told late it would end a pod that harms nobody.

use super::{Agent, Flight};
use crate::evict::{CgroupEvictor, GraceCut, Leave, Victim};
use evictd_eviction::NodeCondition;
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};
use tokio::task::JoinHandle;

/// How often it is looked whether one runs again.
const PERIOD: SignedDuration = SignedDuration::from_secs(1);

/// Why a notice is dropped.
pub(super) const RUNS_ON: &str = "the pod was started again and runs on after the pressure";

/// Pods that left and whose status is not told yet.
#[derive(Debug, Default)]
pub(super) struct Restarts {
    untold: Vec<Untold>,
    looked: Option<Timestamp>,
}

#[derive(Debug)]
struct Untold {
    id: String,
    pod: String,
    victim: Victim,
    grace: Duration,
    /// What holds as long as the pressure that it went for.
    condition: Option<NodeCondition>,
    /// When it was gone.
    gone: Option<Timestamp>,
    /// It is being ended again.
    again: Option<JoinHandle<()>>,
}

impl Restarts {
    /// This pod is on its way out, or `gone` since then, and its status on its way to the API server.
    pub(super) fn begin(
        &mut self,
        flight: &Flight,
        victim: &Victim,
        grace: Duration,
        gone: Option<Timestamp>,
    ) {
        self.untold.push(Untold {
            id: flight.id.clone(),
            pod: flight.pod.clone(),
            victim: victim.clone(),
            grace,
            condition: flight.errand.condition(),
            gone,
            again: None,
        });
    }

    /// Its last process is gone.
    pub(super) fn gone(&mut self, now: Timestamp, id: &str) {
        let this = |untold: &&mut Untold| untold.id == id;
        if let Some(untold) = self.untold.iter_mut().find(this) {
            untold.gone = Some(now);
        }
    }

    /// It is known what became of its notice.
    pub(super) fn told(&mut self, id: &str) {
        self.untold.retain(|untold| untold.id != id);
    }
}

impl Untold {
    fn is_ended_again(&self) -> bool {
        let ending = self.again.as_ref();
        ending.is_some_and(|ending| !ending.is_finished())
    }
}

/// Ends, beside the loop, what was started against its word.
pub(super) fn end(evictor: Arc<CgroupEvictor>, victim: Victim, grace: Duration) -> JoinHandle<()> {
    tokio::spawn(async move {
        let ended = evictor.leave(&victim, grace, &GraceCut::default()).await;
        if let Err(error) = ended {
            tracing::error!("pod {} was not ended again: {error}", victim.uid);
        }
    })
}

impl Agent {
    /// Looks after pods that were started again before their status was told.
    pub(super) fn look_for_restarts(&mut self, now: Timestamp) {
        let recent = |looked: Timestamp| now.duration_since(looked) < PERIOD;
        let Some(cluster) = &self.ports.cluster else {
            return;
        };
        if self.restarts.untold.is_empty() || self.restarts.looked.is_some_and(recent) {
            return;
        }
        self.restarts.looked = Some(now);
        let period = self.housekeeper.rules().pressure_transition_period;
        for untold in &mut self.restarts.untold {
            let Some(gone) = untold.gone.filter(|_| !untold.is_ended_again()) else {
                continue;
            };
            if !self.ports.evictor.hierarchies.runs(&untold.victim.cgroup)
                || self.flights.contains(&untold.victim.uid)
            {
                continue;
            }
            let presses = |condition| self.housekeeper.presses(condition);
            if untold.condition.is_some_and(presses) {
                if self.behaviour.dry_run {
                    continue;
                }
                tracing::warn!(
                    EVICTD_DECISION_ID = untold.id,
                    EVICTD_POD = untold.pod,
                    EVICTD_POD_UID = untold.victim.uid,
                    "{} was started again before its status was told; it is ended again",
                    untold.pod
                );
                for publisher in &mut self.ports.publishers {
                    publisher.restarted();
                }
                let evictor = Arc::clone(&self.ports.evictor);
                untold.again = Some(end(evictor, untold.victim.clone(), untold.grace));
            } else if now.duration_since(gone) >= period {
                cluster.outbox.withdraw(&untold.victim.uid, RUNS_ON);
            }
        }
    }
}
