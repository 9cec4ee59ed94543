//! Pods on their way out: who, since when, and whether the next one may be chosen.

use crate::evict::{Departure, EvictError, GraceCut, Leave, Victim};
use evictd_eviction::{Cause, NodeCondition, Owner, Signal};
use jiff::{SignedDuration, Timestamp};
use std::{sync::Arc, time::Duration};
use tokio::sync::mpsc;

/// How long a killed pod is waited for before another is chosen.
const KILL_DEADLINE: SignedDuration = SignedDuration::from_secs(2);
/// And through how many looks at least: on a machine that stood still meanwhile it had no time to go.
const KILL_LOOKS: u32 = 20;
/// How long any pod is waited for before another is chosen (S1-059).
pub(super) const CLEANUP: SignedDuration = SignedDuration::from_secs(30);

/// What a pod is on its way out for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Errand {
    /// The node runs out of something, or the pod exceeds a limit of its own.
    Eviction {
        /// What brought it about.
        kind: Cause,
        /// The acting signal or limit.
        signal: String,
        /// When the threshold was first seen crossed.
        crossed_at: Timestamp,
        /// The last look that had not seen it crossed yet.
        clear_at: Timestamp,
    },
    /// It was not let in.
    Rejection,
    /// A critical pod needs its place.
    Preemption {
        /// The first resource that the critical pod lacks (S2-020).
        resource: String,
    },
}

impl Errand {
    /// What kind of eviction it is, if it is one.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Eviction { kind, .. } => Some(*kind),
            Self::Rejection | Self::Preemption { .. } => None,
        }
    }

    /// What holds as long as the pressure that the pod goes for, if that is one.
    pub fn condition(&self) -> Option<NodeCondition> {
        match self {
            Self::Eviction { signal, .. } => Signal::parse(signal)?.condition(),
            Self::Rejection | Self::Preemption { .. } => None,
        }
    }
}

/// One pod on its way out.
#[derive(Debug)]
pub struct Flight {
    /// Id of the decision.
    pub id: String,
    /// `namespace/name`.
    pub pod: String,
    /// The pod's UID.
    pub uid: String,
    /// What for.
    pub errand: Errand,
    /// When it was begun.
    pub since: Timestamp,
    /// When SIGKILL is due.
    pub kill_at: Timestamp,
    /// Who would make the pod again, and the condition that it goes for.
    pub owner: Option<(Owner, NodeCondition)>,
    cut: GraceCut,
    /// Looks since SIGKILL was due.
    looks: u32,
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
        errand: Errand,
        since: Timestamp,
        grace: Duration,
    ) -> Self {
        Self {
            id,
            pod,
            uid,
            errand,
            since,
            kill_at: end_of(since, grace),
            owner: None,
            cut: GraceCut::default(),
            looks: 0,
        }
    }

    /// What is left of its grace begins now: measuring and deciding may have taken long.
    pub(super) fn set_out(&mut self, now: Timestamp, left: Duration) {
        self.kill_at = end_of(now, left);
    }

    /// Whether its grace ends where a hard threshold acts: that of a soft victim which was on its way already, and that
    /// of any pod which goes for a critical one, for what it holds is needed now.
    fn is_polite(&self, now: Timestamp, hard_since: Timestamp) -> bool {
        let yields = match self.errand {
            Errand::Eviction { kind, .. } => kind == Cause::Soft && self.since <= hard_since,
            Errand::Preemption { .. } => true,
            Errand::Rejection => false,
        };
        yields && self.kill_at > now
    }

    /// At each look.
    fn blocks_others(&mut self, now: Timestamp) -> bool {
        let killed_for = now.duration_since(self.kill_at);
        if !killed_for.is_negative() {
            self.looks += 1;
        }
        let waits = killed_for < KILL_DEADLINE || self.looks < KILL_LOOKS;
        waits && now.duration_since(self.since) < CLEANUP
    }
}

fn end_of(begin: Timestamp, grace: Duration) -> Timestamp {
    let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
    begin.saturating_add(grace).unwrap_or(Timestamp::MAX)
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

    /// Ends now the grace of every pod that was asked politely when a hard threshold came to act; who they are.
    pub fn cut_soft_graces(
        &mut self,
        now: Timestamp,
        hard_since: Timestamp,
    ) -> impl Iterator<Item = &Flight> {
        let polite = move |flight: &&mut Flight| flight.is_polite(now, hard_since);
        self.aloft.iter_mut().filter(polite).map(move |flight| {
            flight.cut.cut_grace();
            flight.kill_at = now;
            &*flight
        })
    }

    /// Whether the next victim has to wait for one of these; to be asked once a look.
    pub fn block_others(&mut self, now: Timestamp) -> bool {
        let block = |any, flight: &mut Flight| flight.blocks_others(now) || any;
        self.aloft.iter_mut().fold(false, block)
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

#[cfg(test)]
mod tests {
    use super::*;

    fn at(milliseconds: i64) -> Timestamp {
        Timestamp::from_millisecond(milliseconds).unwrap()
    }

    fn decided_at_0(grace: Duration) -> Flight {
        let name = ("id".to_owned(), "a/b".to_owned(), "uid".to_owned());
        Flight::new(name, Errand::Rejection, at(0), grace)
    }

    /// Looks every `pause` milliseconds; the first one after `from` at which another may be chosen.
    fn frees_others(flight: &mut Flight, from: i64, pause: usize) -> i64 {
        let mut looks = (from..100_000).step_by(pause);
        looks.find(|now| !flight.blocks_others(at(*now))).unwrap()
    }

    #[test]
    fn the_next_one_waits_two_seconds_from_the_kill_however_long_it_took_to_decide() {
        let mut flight = decided_at_0(Duration::ZERO);
        flight.set_out(at(3500), Duration::ZERO);
        assert_eq!(frees_others(&mut flight, 3500, 50), 5500);
        let mut flight = decided_at_0(Duration::from_secs(5));
        flight.set_out(at(3500), Duration::from_secs(5));
        assert_eq!(frees_others(&mut flight, 3500, 50), 10_500);
    }

    #[test]
    fn on_a_machine_that_stood_still_the_next_one_waits_through_some_looks() {
        let mut flight = decided_at_0(Duration::ZERO);
        assert!(flight.blocks_others(at(0)));
        assert_eq!(frees_others(&mut flight, 20_000, 50), 20_900);
    }

    #[test]
    fn s1_059_no_pod_is_waited_for_longer_than_30_seconds() {
        let mut flight = decided_at_0(Duration::from_mins(1));
        assert_eq!(frees_others(&mut flight, 0, 50), 30_000);
    }
}
