//! What the world is told: views of the same decisions and observations.

pub mod board;
pub mod events;
pub mod evicted;
pub mod heartbeat;
pub mod hurry;
pub mod journal;
pub mod ledger;
pub mod lines;
pub mod meter;
pub mod metrics;
pub mod node;
pub mod rehearsal;

use crate::{
    agent::{Landing, Ruling},
    config::Admission,
    delivery::Publication,
    logging::chain,
    pause::Pause,
    pods::PodSet,
};
use evictd_eviction::{
    Decision, Housekeeper, Returned,
    departures::Purpose,
    record::{Ended, Outcome, Record},
};
use evictd_kernel::{
    signals::{Layout, Sample},
    wake::WokenBy,
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Somebody who is told. Every method returns at once: nothing here may delay a decision.
pub trait Publish: Send {
    /// The loop has looked at the signals, and nobody is chosen by that yet: for what must be known before a pod goes.
    fn observed(&mut self, _: Timestamp, _: &Housekeeper, _dry_run: bool) {}
    /// The loop has looked.
    fn looked(&mut self, look: &Look<'_>);
    /// Something is decided, and nothing has followed from it yet: for what must be known if this process dies now.
    fn deciding(&mut self, _: &Decided<'_>) {}
    /// Something was decided; what follows from it has begun already.
    fn decided(&mut self, decided: &Decided<'_>);
    /// A new pod is not simply let in, or another one leaves for it, and nothing has followed from it yet.
    fn ruling(&mut self, _: &Ruling) {}
    /// The same; what follows from it has begun already.
    fn ruled(&mut self, _: &Ruling) {}
    /// A pod's departure has ended.
    fn landed(&mut self, landed: &Landed<'_>);
    /// A pod whose departure an earlier run has begun is gone, and nobody saw when.
    fn was_gone(&mut self, _: &Landed<'_>) {}
    /// A kubelet has started an evicted pod's containers again before it knew that the pod was evicted.
    fn restarted(&mut self) {}
    /// A pod that was evicted at this time was not its owner's first.
    fn returned(&mut self, _: Timestamp, _: &Returned) {}
    /// It is known whether the cluster was told of a decision.
    fn published(&mut self, _: &Publication) {}
}

/// One turn of the loop.
#[derive(Clone, Copy)]
pub struct Look<'a> {
    /// When.
    pub now: Timestamp,
    /// What it was woken by.
    pub woken_by: WokenBy,
    /// What was seen.
    pub sample: &'a Sample,
    /// What follows from it.
    pub housekeeper: &'a Housekeeper,
    /// How the watched directories are spread over filesystems, once that is known.
    pub layout: Option<&'a Layout>,
    /// The pods.
    pub pods: &'a PodSet,
    /// Why the usage of pods does not come from where it should.
    pub usage_problem: Option<&'a str>,
    /// How long until the next look at the latest.
    pub sleep: Duration,
    /// Whether nobody is ended.
    pub dry_run: bool,
    /// Why nobody is, where that is a pause.
    pub paused: Option<&'a Pause>,
    /// What is done about pods that should not be here.
    pub admission: Admission,
    /// How long the cycle took.
    pub took: SignedDuration,
}

/// A decision with its name.
#[derive(Clone, Copy)]
pub struct Decided<'a> {
    /// The decision.
    pub decision: &'a Decision,
    /// The same as it is kept.
    pub record: &'a Record,
    /// When the figures that decided were measured, where that is known.
    pub measured_at: Option<Timestamp>,
    /// Right before the pod was set on its way out.
    pub acted_at: Timestamp,
    /// Why nothing follows from it, where that is a pause.
    pub paused: Option<&'a Pause>,
    /// Whether the API server is asked for it: a disruption budget may keep the pod.
    pub asked: bool,
}

impl Decided<'_> {
    /// The decision's name.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Whether nothing follows from it.
    pub const fn dry_run(&self) -> bool {
        self.record.dry_run
    }
}

/// How a departure ended.
#[derive(Clone, Copy)]
pub struct Landed<'a> {
    /// When.
    pub now: Timestamp,
    /// Which one, and what became of it.
    pub landing: &'a Landing,
}

impl Landed<'_> {
    /// From the first look that saw the threshold crossed to the last process gone; `None` while some live on, or where
    /// there was none.
    pub fn reaction(&self) -> Option<SignedDuration> {
        let gone = self.landing.result.as_ref().ok()?.gone_at?;
        match self.landing.departure.purpose {
            Purpose::Eviction { crossed_at, .. } => Some(gone.duration_since(crossed_at)),
            _ => None,
        }
    }

    /// The outcome as the record has it; seconds count from the decision.
    pub fn outcome(&self) -> Outcome {
        let flight = &self.landing.departure;
        let departure = match &self.landing.result {
            Err(error) => {
                return Outcome::Failed {
                    error: chain(error),
                };
            }
            Ok(departure) => departure,
        };
        let since = |time: Option<Timestamp>| {
            time.map(|time| time.duration_since(flight.since).as_secs_f64())
        };
        let mut ended = Ended {
            first_signal_seconds: since(departure.first_signal_at),
            killed_seconds: since(departure.killed_at),
            last_process_gone_seconds: since(departure.gone_at),
            processes: departure.processes,
            method: departure.method,
            survivors: departure.survivors.clone(),
            ..Ended::default()
        };
        if let Purpose::Eviction {
            crossed_at,
            clear_at,
            ..
        } = flight.purpose
        {
            let until_decided = flight.since.duration_since(crossed_at).as_secs_f64();
            ended.crossed_to_decided_seconds = Some(until_decided);
            ended.reaction_seconds = self.reaction().map(|reaction| reaction.as_secs_f64());
            let from_clear = |gone: Timestamp| gone.duration_since(clear_at).as_secs_f64();
            ended.reaction_from_last_clear_look_seconds = departure.gone_at.map(from_clear);
        }
        Outcome::Ended(ended)
    }
}
