//! Pods on their way out: who, since when, and whether the next one may be chosen.

use crate::evict::{Departure, EvictError, GraceCut, Leave, Victim};
use evictd_eviction::{Cause, NodeCondition, Owner};
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How long a killed pod is waited for before another is chosen.
const KILL_DEADLINE: SignedDuration = SignedDuration::from_secs(2);
/// How long any pod is waited for before another is chosen (S1-059).
const CLEANUP: SignedDuration = SignedDuration::from_secs(30);

/// One pod on its way out.
#[derive(Debug)]
pub struct Flight {
    /// Id of the decision.
    pub id: String,
    /// `namespace/name`.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// What brought it about.
    pub kind: Cause,
    /// The acting signal or limit.
    pub signal: String,
    /// When it was begun.
    pub since: Timestamp,
    /// When SIGKILL is due.
    pub kill_at: Timestamp,
    /// When the threshold was first seen crossed.
    pub crossed_at: Timestamp,
    /// The last look that had not seen it crossed yet.
    pub clear_at: Timestamp,
    /// Who would make the pod again, and the condition that it goes for.
    pub owner: Option<(Owner, NodeCondition)>,
    cut: GraceCut,
}

/// How a flight ended.
#[derive(Debug)]
pub struct Landing {
    /// The flight.
    pub flight: Flight,
    /// What became of the pod.
    pub result: Result<Departure, EvictError>,
}

/// All pods on their way out.
#[derive(Debug)]
pub struct Flights {
    aloft: Vec<Flight>,
    landed: mpsc::Sender<(String, Result<Departure, EvictError>)>,
    landings: mpsc::Receiver<(String, Result<Departure, EvictError>)>,
}

impl Default for Flights {
    fn default() -> Self {
        let (landed, landings) = mpsc::channel(64);
        Self {
            aloft: Vec::new(),
            landed,
            landings,
        }
    }
}

impl Flight {
    /// A flight that begins now.
    pub fn new(
        (id, pod, uid): (String, String, String),
        (kind, signal): (Cause, &str),
        since: Timestamp,
        grace: Duration,
        (crossed_at, clear_at): (Timestamp, Timestamp),
    ) -> Self {
        let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
        Self {
            id,
            pod,
            uid,
            kind,
            signal: signal.to_owned(),
            since,
            kill_at: since.saturating_add(grace).unwrap_or(Timestamp::MAX),
            crossed_at,
            clear_at,
            owner: None,
            cut: GraceCut::default(),
        }
    }

    fn blocks_others(&self, now: Timestamp) -> bool {
        let killed_for = now.duration_since(self.kill_at);
        killed_for < KILL_DEADLINE && now.duration_since(self.since) < CLEANUP
    }
}

impl Flights {
    /// Sets a pod on its way out; it is signalled as soon as the caller next waits.
    pub fn begin<L: Leave + Send + Sync + 'static>(
        &mut self,
        evictor: &Arc<L>,
        victim: Victim,
        grace: Duration,
        flight: Flight,
    ) {
        let (evictor, landed) = (Arc::clone(evictor), self.landed.clone());
        let (cut, uid) = (flight.cut.clone(), flight.uid.clone());
        self.aloft.push(flight);
        tokio::spawn(async move {
            let result = evictor.leave(&victim, grace, &cut).await;
            // The receiver is only gone when the agent is.
            let _ = landed.send((uid, result)).await;
        });
    }

    /// Ends now the grace of every soft victim that was on its way when a hard threshold was crossed; who they are.
    pub fn cut_soft_graces(
        &mut self,
        now: Timestamp,
        crossed_at: Timestamp,
    ) -> impl Iterator<Item = &Flight> {
        let polite = move |flight: &&mut Flight| {
            flight.kind == Cause::Soft && flight.kill_at > now && flight.since <= crossed_at
        };
        self.aloft.iter_mut().filter(polite).map(move |flight| {
            flight.cut.cut_grace();
            flight.kill_at = now;
            &*flight
        })
    }

    /// Whether the next victim has to wait for one of these.
    pub fn block_others(&self, now: Timestamp) -> bool {
        self.aloft.iter().any(|flight| flight.blocks_others(now))
    }

    /// Whether nobody is on the way out.
    pub fn is_empty(&self) -> bool {
        self.aloft.is_empty()
    }

    /// Whether this pod is on its way out.
    pub fn contains(&self, uid: &str) -> bool {
        self.aloft.iter().any(|flight| flight.uid == uid)
    }

    /// The next pod whose departure has ended. Cancel safe.
    pub async fn landing(&mut self) -> Landing {
        loop {
            let Some((uid, result)) = self.landings.recv().await else {
                return std::future::pending().await;
            };
            if let Some(index) = self.aloft.iter().position(|flight| flight.uid == uid) {
                let flight = self.aloft.swap_remove(index);
                return Landing { flight, result };
            }
        }
    }
}
