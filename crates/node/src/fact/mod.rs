//! The facts that are published: each is published once, and the publishers turn it into their views.

mod admission;

pub(crate) use admission::{AdmissionAction, AdmissionDecision};

use crate::{
    config::Admission, delivery::Publication, evict::EvictError, logging::chain, pause::Pause,
    pods::PodSet, usage::ledger::Reclaimable,
};
use evictd_decision::{
    Decision,
    record::{Contents, Ended, Hook, Outcome, Record},
};
use evictd_departures::{Departure, Purpose};
use evictd_eviction::{Housekeeper, Returned};
use evictd_kernel::{
    kill::Termination,
    signals::{Layout, Sample},
    wake::WokenBy,
};
use evictd_signals::StarvedResource;
use jiff::{SignedDuration, Timestamp};
use std::time::Duration;

/// Something that the main loop has observed, decided or done.
#[derive(Clone, Copy)]
pub enum Fact<'a> {
    /// The signals were observed, and no pod was chosen yet. For publishers that must act before a pod is evicted.
    Observed {
        /// The time of the observation.
        now: Timestamp,
        /// The housekeeper after the observation.
        housekeeper: &'a Housekeeper,
        /// Whether no pod is terminated.
        dry_run: bool,
    },
    /// A cycle has ended.
    CycleEnded(&'a Cycle<'a>),
    /// A decision that is not carried out yet. For publishers that must write it down in case this process dies
    /// now.
    Deciding(&'a Decided<'a>),
    /// A decision that is being carried out.
    Decided(&'a Decided<'a>),
    /// A decision on a new pod, or on one that is preempted for it, that is not carried out yet.
    Admitting(&'a AdmissionDecision),
    /// The same, being carried out.
    Admitted(&'a AdmissionDecision),
    /// A pod gets its first signal now; its contents, if they were read in time.
    Terminating(&'a Departure, Option<&'a Contents>),
    /// The termination of a pod has ended.
    Terminated(&'a Terminated<'a>),
    /// A pod whose termination an earlier run began does not exist any more; the time of its end is unknown.
    FoundGone(&'a Terminated<'a>),
    /// A kubelet has restarted an evicted pod's containers before it knew of the eviction.
    Restarted,
    /// A pod was evicted at this time whose owner had lost others before.
    Returned(Timestamp, &'a Returned),
    /// A node-level reclaim is over; the record has its result.
    Reclaimed(&'a Record),
    /// The result of informing the cluster of a decision.
    Published(&'a Publication),
}

/// One cycle of the main loop.
#[derive(Clone, Copy)]
pub struct Cycle<'a> {
    /// The time at the start of the cycle, or at the end of the termination.
    pub now: Timestamp,
    /// The event that woke the main loop.
    pub woken_by: WokenBy,
    /// The available amount of each signal.
    pub sample: &'a Sample,
    /// The housekeeper after the cycle.
    pub housekeeper: &'a Housekeeper,
    /// Which watched directories share a filesystem, once known.
    pub layout: Option<&'a Layout>,
    /// The objects that could be removed without evicting a pod, if known.
    pub reclaimable: Option<Reclaimable>,
    /// The pods of the node in this cycle.
    pub pods: &'a PodSet,
    /// Why usage does not come from the configured source.
    pub usage_problem: Option<&'a str>,
    /// The longest time until the next cycle.
    pub sleep: Duration,
    /// Whether no pod is terminated.
    pub dry_run: bool,
    /// The pause in force, if there is one.
    pub paused: Option<&'a Pause>,
    /// The action on new pods that should not be on this node.
    pub admission: Admission,
    /// How long the cycle took.
    pub took: SignedDuration,
}

/// A decision with its record.
#[derive(Clone, Copy)]
pub struct Decided<'a> {
    /// The decision with all its evidence.
    pub decision: &'a Decision,
    /// Its record for the history.
    pub record: &'a Record,
    /// When the usage figures of the decision were measured, if known.
    pub measured_at: Option<Timestamp>,
    /// When the termination was about to begin.
    pub acted_at: Timestamp,
    /// The pause because of which it is not carried out, if there is one.
    pub paused: Option<&'a Pause>,
    /// Whether the API server is asked for permission: a disruption budget may forbid the eviction.
    pub asked: bool,
    /// Whether a termination has begun, so that [`Fact::Terminating`] or [`Fact::Terminated`] follows.
    pub terminates: bool,
}

impl Decided<'_> {
    /// Id of the decision.
    pub fn id(&self) -> &str {
        &self.record.id
    }

    /// Whether the decision is not carried out.
    pub const fn dry_run(&self) -> bool {
        self.record.dry_run
    }
}

/// How the termination of a pod ended.
#[derive(Clone, Copy)]
pub struct Terminated<'a> {
    /// The time at the start of the cycle, or at the end of the termination.
    pub now: Timestamp,
    /// The pod, and why it had to leave.
    pub departure: &'a Departure,
    /// How the termination went, or why it failed.
    pub result: &'a Result<Termination, EvictError>,
    /// How the pre-kill hook went, if one ran.
    pub hook: Option<&'a Hook>,
    /// The contents of the pod before its first signal, if they were read in time.
    pub contents: Option<&'a Contents>,
}

/// `java 2.9Gi of 3.1Gi in container app`: the largest process of a pod that is evicted for lack of memory. For other
/// resources it would mislead.
pub(crate) fn largest_process(
    departure: &Departure,
    contents: Option<&Contents>,
) -> Option<String> {
    let signal = departure.purpose.signal()?;
    let is_memory = signal.resource() == StarvedResource::Memory;
    contents.filter(|_| is_memory)?.largest()
}

impl Terminated<'_> {
    /// From the first cycle that saw the threshold crossed to the exit of the last process; `None` if some process
    /// lives or if there was no threshold.
    pub fn reaction(&self) -> Option<SignedDuration> {
        let gone = self.result.as_ref().ok()?.gone_at?;
        match self.departure.purpose {
            Purpose::Eviction { crossed_at, .. } => Some(gone.duration_since(crossed_at)),
            _ => None,
        }
    }

    /// The outcome for the record; seconds count from the decision.
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
            contents: self.contents.cloned().map(Box::new),
            hook: self.hook.cloned().map(Box::new),
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
