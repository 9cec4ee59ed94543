//! What the world is told: each fact once, and publishers make their views of it.

mod admission;

pub use admission::{AdmissionAction, AdmissionDecision};

use crate::{
    config::Admission, delivery::Publication, evict::EvictError, logging::chain, pause::Pause,
    pods::PodSet,
};
use evictd_eviction::{
    Decision, Housekeeper, Returned,
    departures::{Departure, Purpose},
    record::{Ended, Outcome, Record},
};
use evictd_kernel::{
    kill::Termination,
    signals::{Layout, Sample},
    wake::WokenBy,
};
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Something that the loop has seen, decided or done.
#[derive(Clone, Copy)]
pub enum Fact<'a> {
    /// The loop has looked at the signals, and nobody is chosen by that yet: for what must be known before a pod goes.
    Observed {
        /// When.
        now: Timestamp,
        /// What follows from it.
        housekeeper: &'a Housekeeper,
        /// Whether nobody is ended.
        dry_run: bool,
    },
    /// The loop has looked, and done what followed.
    Looked(&'a Look<'a>),
    /// Something is decided, and nothing has followed from it yet: for what must be known if this process dies now.
    Deciding(&'a Decided<'a>),
    /// Something was decided; what follows from it has begun already.
    Decided(&'a Decided<'a>),
    /// A new pod is not simply let in, or another one leaves for it, and nothing has followed from it yet.
    Admitting(&'a AdmissionDecision),
    /// The same; what follows from it has begun already.
    Admitted(&'a AdmissionDecision),
    /// The termination of a pod has ended.
    Terminated(&'a Terminated<'a>),
    /// A pod whose termination an earlier run has begun is gone, and nobody saw when.
    FoundGone(&'a Terminated<'a>),
    /// A kubelet has started an evicted pod's containers again before it knew that the pod was evicted.
    Restarted,
    /// A pod that was evicted at this time was not its owner's first.
    Returned(Timestamp, &'a Returned),
    /// It is known whether the cluster was told of a decision.
    Published(&'a Publication),
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

/// How the termination of a pod ended.
#[derive(Clone, Copy)]
pub struct Terminated<'a> {
    /// When.
    pub now: Timestamp,
    /// The pod, as it was decided.
    pub departure: &'a Departure,
    /// What became of it.
    pub result: &'a Result<Termination, EvictError>,
}

impl Terminated<'_> {
    /// From the first look that saw the threshold crossed to the last process gone; `None` while some live on, or where
    /// there was none.
    pub fn reaction(&self) -> Option<SignedDuration> {
        let gone = self.result.as_ref().ok()?.gone_at?;
        match self.departure.purpose {
            Purpose::Eviction { crossed_at, .. } => Some(gone.duration_since(crossed_at)),
            _ => None,
        }
    }

    /// The outcome as the record has it; seconds count from the decision.
    pub fn outcome(&self) -> Outcome {
        let departure = self.departure;
        let termination = match self.result {
            Err(error) => {
                return Outcome::Failed {
                    error: chain(error),
                };
            }
            Ok(termination) => termination,
        };
        let since = |time: Option<Timestamp>| {
            time.map(|time| time.duration_since(departure.since).as_secs_f64())
        };
        let mut ended = Ended {
            first_signal_seconds: since(termination.first_signal_at),
            killed_seconds: since(termination.killed_at),
            last_process_gone_seconds: since(termination.gone_at),
            processes: termination.processes,
            method: termination.method,
            survivors: termination.survivors.clone(),
            ..Ended::default()
        };
        if let Purpose::Eviction {
            crossed_at,
            clear_at,
            ..
        } = departure.purpose
        {
            let until_decided = departure.since.duration_since(crossed_at).as_secs_f64();
            ended.crossed_to_decided_seconds = Some(until_decided);
            ended.reaction_seconds = self.reaction().map(|reaction| reaction.as_secs_f64());
            let from_clear = |gone: Timestamp| gone.duration_since(clear_at).as_secs_f64();
            ended.reaction_from_last_clear_look_seconds = termination.gone_at.map(from_clear);
        }
        Outcome::Ended(ended)
    }
}
