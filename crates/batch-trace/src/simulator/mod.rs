//! Plays a trace: jobs come, sessions decide about them, pods run and end.

mod closing;
mod decisions;
mod events;

use super::objects::millis;
use super::report::Report;
use super::usage::{Amounts, UsageRecorder};
use super::wire::{Queue, Seconds, Trace};
use super::world::World;
use events::Event;
use evictd_batch::conf::Conf;
use evictd_batch::session::{Amounts as SessionAmounts, Outcome};
use evictd_batch_objects::{Compat, PodGroup};
use evictd_pod::wire::Pod;
use hashbrown::HashMap;
use jiff::SignedDuration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// After so many sessions in a row that change only conditions, the simulation stops.
const PATIENCE: u32 = 100;

/// How a trace is played.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// `volcano-scheduler.conf`.
    pub conf: Conf,
    /// How sessions decide.
    pub compat: Compat,
    /// How long after a session the next one begins, at least a millisecond.
    pub period: Seconds,
}

/// A trace that is being played. Times are in milliseconds since its beginning.
#[derive(Debug)]
pub struct Simulator<'t> {
    trace: &'t Trace,
    options: &'t SimulatorOptions,
    queues: Vec<Queue>,
    jobs: Vec<JobState>,
    /// The pods of jobs that have come and not ended: `namespace/name` to job and index.
    pods: HashMap<String, (usize, usize)>,
    /// Their groups: `namespace/name` to job.
    groups: HashMap<String, usize>,
    world: World,
    usage: UsageRecorder,
    events: BinaryHeap<Reverse<(u64, Event)>>,
    now: u64,
    /// The next session may not begin before.
    next_session: u64,
    /// Something has changed since the last session that could let a pod that waits start.
    changed: bool,
    /// The last session has bound or evicted pods, so that the phases of groups are settled by the next one only.
    unsettled: bool,
    /// Pods that wait for a node.
    waiting: usize,
    outcome: Outcome,
    /// The free amounts of the nodes that the last session reserved for a job.
    reserved_free: Option<SessionAmounts>,
    sessions: u64,
    /// Sessions in a row without a binding or an eviction.
    idle: u32,
    /// Evictions since a job came or a pod ended.
    evictions: usize,
    broken_off: bool,
    /// How many pods were ever made.
    made: u64,
    ended: usize,
    /// Jobs that have ended or were deleted, of which no pod is left.
    over: usize,
    /// Amounts times milliseconds of pods that came to their end, and of those that did not.
    work: Amounts,
    lost: Amounts,
}

/// A job, whether it has come or not.
#[derive(Debug, Default)]
struct JobState {
    queue: usize,
    live: Option<Live>,
    /// From its arrival until it started.
    wait: Option<u64>,
    ended: bool,
    /// Its owner has deleted it before its end.
    deleted: bool,
    /// Evicted pods by the word for it.
    preempted: u64,
    reclaimed: u64,
}

/// A job that has come and not ended.
#[derive(Debug)]
struct Live {
    group: PodGroup,
    pods: Vec<PodState>,
    /// The request of a pod by task.
    amounts: Vec<Amounts>,
    /// Pods that run, and pods that have ended.
    running: u32,
    done: usize,
}

#[derive(Debug)]
struct PodState {
    pod: Pod,
    task: usize,
    /// Its number within the task.
    index: u32,
    /// How often it was created or evicted; events of an earlier generation are ignored.
    made: u32,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Waits,
    /// Since when.
    Runs(u64),
    Goes,
    Ended,
}

impl<'t> Simulator<'t> {
    /// Before the first job comes. The trace has no [mistakes](Trace::mistakes).
    pub fn new(trace: &'t Trace, options: &'t SimulatorOptions) -> Self {
        let queues = trace.queue_list();
        let arrivals = trace.jobs.iter().map(|job| job.arrival.as_millis());
        // An empty time before the first job would blur every average.
        let began = arrivals.clone().min().unwrap_or(0);
        let usage = UsageRecorder::new(trace, &queues, began);
        let jobs = trace.jobs.iter().map(|job| JobState {
            queue: queues
                .iter()
                .position(|queue| queue.name == job.queue_name())
                .unwrap_or(0),
            ..JobState::default()
        });
        let comes = arrivals.enumerate();
        let comes = comes.map(|(job, at)| (at, Event::Comes { job }));
        let deletions = trace.jobs.iter().enumerate().filter_map(|(job, traced)| {
            Some((traced.deleted?.as_millis(), Event::Deleted { job }))
        });
        let nodes = trace.nodes.iter().enumerate().flat_map(|(nodes, traced)| {
            let joins = (traced.joins.as_millis(), Event::Join { nodes });
            let leaves = |at: Seconds| (at.as_millis(), Event::Leave { nodes });
            [joins].into_iter().chain(traced.leaves.map(leaves))
        });
        let events = comes.chain(deletions).chain(nodes).map(Reverse);
        let nothing = || vec![0; usage.resources().len()].into();
        let mut simulator = Self {
            trace,
            options,
            jobs: jobs.collect(),
            pods: HashMap::new(),
            groups: HashMap::new(),
            world: World::new(trace, &queues),
            events: events.collect(),
            now: began,
            next_session: 0,
            changed: false,
            unsettled: false,
            waiting: 0,
            outcome: Outcome::default(),
            reserved_free: None,
            sessions: 0,
            idle: 0,
            evictions: 0,
            broken_off: false,
            made: 0,
            ended: 0,
            over: 0,
            work: nothing(),
            lost: nothing(),
            usage,
            queues,
        };
        // Nodes that are there from the beginning take no time of the figures.
        simulator.happen_until(0);
        simulator.now = began;
        simulator
    }

    /// Advances to the end of the next session; false if there is none.
    pub fn step(&mut self) -> bool {
        while !self.is_due() {
            let next = self.events.peek().map(|Reverse((at, _))| *at);
            let again = self.again_at();
            let at = next.into_iter().chain(again).min();
            let goes_on = !self.broken_off && self.over < self.jobs.len();
            let Some(at) = at.filter(|_| goes_on) else {
                return false;
            };
            self.happen_until(at);
            // A reservation ends, which no event announces.
            if again == Some(at) {
                self.now = at;
                self.changed = true;
            }
        }
        let period = self.options.period.as_millis().max(1);
        let at = self.now.max(self.next_session);
        // Sessions are a fixed grid, so that a quiet time can be skipped without a shift of the later ones.
        let at = at.div_ceil(period).saturating_mul(period);
        self.happen_until(at);
        self.now = at;
        self.next_session = at.saturating_add(period);
        self.outcome = self
            .world
            .session(self.now, &self.options.conf, self.options.compat);
        self.sessions += 1;
        self.carry_out();
        true
    }

    /// Whether a session could come to something new. Where no pod waits there is nothing to decide.
    const fn is_due(&self) -> bool {
        // A session without a pending pod decides nothing.
        !self.broken_off && (self.unsettled || (self.changed && self.waiting > 0))
    }

    /// When a session is due although nothing has happened, as the last one said.
    fn again_at(&self) -> Option<u64> {
        let waits = self.waiting > 0 && self.idle < PATIENCE;
        let at = self.outcome.again_at.filter(|_| waits)?;
        Some(millis(at)?.max(self.now))
    }

    /// The time since the trace's beginning.
    pub fn now(&self) -> SignedDuration {
        SignedDuration::from_millis(i64::try_from(self.now).unwrap_or(i64::MAX))
    }

    /// The report of the sessions so far.
    pub fn report(&self) -> Report {
        closing::report(self)
    }

    /// The outcome of the last session.
    pub const fn outcome(&self) -> &Outcome {
        &self.outcome
    }

    /// How many jobs have come to their end.
    pub const fn ended(&self) -> usize {
        self.ended
    }

    /// The pods of all jobs that have come and not ended, in the order of the trace.
    pub fn pods(&self) -> impl Iterator<Item = &Pod> {
        let live = self.jobs.iter().filter_map(|job| job.live.as_ref());
        live.flat_map(|live| live.pods.iter().map(|pod| &pod.pod))
    }
}

/// Plays a trace without [errors](Trace::mistakes) to its end. After each session `progress` gets the number of
/// finished jobs and of all jobs.
pub fn play(
    trace: &Trace,
    options: &SimulatorOptions,
    progress: &mut dyn FnMut(usize, usize),
) -> Report {
    let mut simulator = Simulator::new(trace, options);
    while simulator.step() {
        progress(simulator.ended(), trace.jobs.len());
    }
    simulator.report()
}
