//! The scheduling loop. It owns cache and queue, takes watch events, decides, and hands writes to the writer. It never waits
//! for the API server.

mod evidence;
mod extender_request;
mod failure_handler;
mod gauges;
mod pending;
mod preempting;
mod sessions;
#[cfg(test)]
mod tests;

use super::api_retry::{Failure, FailureKind};
use super::batch::Batch;
use super::deadline::Deadline;
use super::events::Events;
use super::extenders::{ExtenderResponses, Extenders};
use super::gang_barriers::GangBarriers;
use super::groups;
use super::metrics::{BindingRecorder, Metrics, MetricsRecorder, attempts_label};
use super::pod_ref::PodRef;
use super::view::{Times, View};
use super::watches::{BATCH_KINDS, BatchChange, KINDS, WatchEvent};
use super::writer::{BindOptions, Outcome, Writer};
use crate::clock::MonotonicClock;
use evictd_cluster_client::NewsReceiver;
use evictd_cluster_client::lease::Role;
use evictd_pod::wire;
use evictd_scheduling::config::Point;
use evictd_scheduling::{
    Attempt, Change, Delta, Event, ExtenderResponse, Nomination, NotTried, Outcome as Decision,
    Recorder, Scheduler, USUAL_COST,
};
use evidence::evidence_of;
use failure_handler::FailureHandler;
use jiff::Timestamp;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// The most attempts between two reads of the watches.
const ATTEMPTS: usize = 64;
/// The most units of cost between two reads of the watches. Costly attempts must not delay watch events and results.
const MOST_COST: u64 = 2 * USUAL_COST;
/// The most watch events that are read at once.
const WATCH_EVENTS: usize = 4096;
/// The most bindings under way. Beyond it no pod is tried until some have ended.
const BINDINGS: usize = 512;

/// The loop with its state and ports.
pub(crate) struct Engine {
    scheduler: Scheduler,
    writer: Writer,
    events: Events,
    watch_events: NewsReceiver<WatchEvent>,
    outcomes: mpsc::UnboundedReceiver<Outcome>,
    metrics: Metrics,
    recorder: Arc<MetricsRecorder>,
    view: View,
    /// Only a leader decides.
    role: watch::Receiver<Role>,
    /// Whether all kinds are listed.
    synced: watch::Sender<bool>,
    /// How many of the watched kinds are listed.
    listed: usize,
    kinds: usize,
    gang_barriers: GangBarriers,
    failure_handler: FailureHandler,
    extenders: Extenders,
    responses: ExtenderResponses,
    /// Sessions, and whether this process may run them.
    batch: Option<(Batch, watch::Receiver<Role>)>,
    /// Wall-clock time, which is written into objects and compared with them.
    now: fn() -> Timestamp,
    /// Time for backoffs and timeouts, so that setting the clock does not change them.
    monotonic: MonotonicClock,
    deadline: Deadline,
}

/// Everything that an engine reads from and writes to.
pub(crate) struct Ports {
    pub(crate) writer: (Writer, mpsc::UnboundedReceiver<Outcome>),
    pub(crate) events: Events,
    pub(crate) watch_events: NewsReceiver<WatchEvent>,
    /// Only a leader decides.
    pub(crate) role: watch::Receiver<Role>,
    /// Becomes true when all kinds are listed.
    pub(crate) synced: watch::Sender<bool>,
    pub(crate) metrics: Metrics,
    /// The state that the secure port shows.
    pub(crate) view: View,
    pub(crate) extenders: (Extenders, ExtenderResponses),
    /// Batch sessions, and whether this process may run them. `None` without `--batch-conf`.
    pub(crate) batch: Option<(Batch, watch::Receiver<Role>)>,
    /// Reads the wall clock.
    pub(crate) now: fn() -> Timestamp,
    /// Measures plugins and hints.
    pub(crate) recorder: Arc<MetricsRecorder>,
    /// How long an attempt may take.
    pub(crate) deadline: Deadline,
}

impl Engine {
    /// An engine that does not run yet.
    pub(crate) fn new(mut scheduler: Scheduler, ports: Ports) -> Self {
        let deadline = ports.deadline.clone();
        scheduler.interrupt_where(move || deadline.is_over());
        scheduler.set_recorder(Arc::clone(&ports.recorder) as Arc<dyn Recorder>);
        let (writer, outcomes) = ports.writer;
        let (extenders, responses) = ports.extenders;
        Self {
            scheduler,
            failure_handler: FailureHandler::new(writer.clone(), ports.events.clone()),
            writer,
            events: ports.events,
            metrics: ports.metrics,
            recorder: ports.recorder,
            view: ports.view,
            watch_events: ports.watch_events,
            outcomes,
            role: ports.role,
            synced: ports.synced,
            listed: 0,
            kinds: KINDS + ports.batch.as_ref().map_or(0, |_| BATCH_KINDS),
            gang_barriers: GangBarriers::default(),
            extenders,
            responses,
            batch: ports.batch,
            now: ports.now,
            monotonic: MonotonicClock::start((ports.now)()),
            deadline: ports.deadline,
        }
    }

    /// Runs until `stop`, or until the watches end.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut backoff = every(Duration::from_secs(1));
        let mut leftover = every(Duration::from_secs(30));
        let period = self.batch.as_ref().map(|(batch, _)| batch.period());
        let mut sessions = period.map(every);
        loop {
            if stop.is_cancelled() {
                return self.finish_bindings().await;
            }
            if matches!(*self.role.borrow(), Role::Lost | Role::Released) {
                return self.writer.stop();
            }
            let received = self.drain();
            let scheduled = self.schedule_pods();
            if received || scheduled {
                // The tasks of watches and writer run only while this one yields.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                event = self.watch_events.recv() => match event {
                    Some(event) => self.on_watch_event(event),
                    None => return,
                },
                outcome = self.outcomes.recv() => match outcome {
                    Some(outcome) => self.on_outcome(outcome),
                    None => return,
                },
                Some((key, response)) = self.responses.recv() => self.on_response(&key, response),
                changed = self.role.changed() => if changed.is_err() {
                    // The election has ended, so there is no leader.
                    return self.writer.stop();
                },
                // The next turn of the loop handles both.
                () = stop.cancelled() => {}
                () = self.view.is_asked() => {}
                _ = backoff.tick() => {
                    self.scheduler.flush_backoff(self.monotonic.now());
                    self.scheduler.leave_stuck_victims((self.now)());
                    self.update_metrics();
                }
                () = tick(&mut sessions) => self.session(),
                _ = leftover.tick() => self.scheduler.flush_unschedulable(self.monotonic.now()),
            }
        }
    }

    /// Begins no further write, and waits for the bindings under way, so that each bound pod gets its event.
    async fn finish_bindings(&mut self) {
        self.writer.stop();
        self.writer.binding_calls_end().await;
        while let Ok(outcome) = self.outcomes.try_recv() {
            match outcome {
                // The next leader tries the pod. That this one stops is no failure of the pod.
                Outcome::NotBound { failure, .. } if failure.kind == FailureKind::Stopped => {}
                outcome => self.on_outcome(outcome),
            }
        }
    }

    /// Handles everything that has arrived. Returns whether anything had.
    fn drain(&mut self) -> bool {
        let mut received = false;
        let times = Times {
            now: (self.now)(),
            monotonic: self.monotonic.now(),
        };
        pending::answer(&self.view, &mut self.scheduler, &self.deadline, times);
        // A bound, so that a burst of events does not keep pods from being tried.
        for _ in 0..WATCH_EVENTS {
            let Some(event) = self.watch_events.try_recv() else {
                break;
            };
            received = true;
            self.on_watch_event(event);
        }
        while let Ok(outcome) = self.outcomes.try_recv() {
            received = true;
            self.on_outcome(outcome);
        }
        while let Ok((key, response)) = self.responses.try_recv() {
            received = true;
            self.on_response(&key, response);
        }
        received
    }

    fn on_watch_event(&mut self, event: WatchEvent) {
        match event {
            WatchEvent::Batch(BatchChange::InvalidConf(error)) => self.report_invalid_conf(&error),
            WatchEvent::Batch(change) => {
                if let Some((batch, _)) = &mut self.batch {
                    batch.on(change);
                }
            }
            WatchEvent::Cluster(event) => self.on_cluster_event(event),
            WatchEvent::Listed => {
                self.listed += 1;
                if self.listed == self.kinds {
                    self.synced.send_replace(true);
                    let cluster = self.scheduler.cluster().sizes();
                    let waiting = self.scheduler.queue().len();
                    info!(
                        "all kinds are listed: {} nodes, {} pods, {waiting} pending",
                        cluster.nodes, cluster.pods
                    );
                }
            }
        }
    }

    fn on_cluster_event(&mut self, event: Event) {
        if let (Event::PodGroup(groups), Some((batch, _))) = (&event, &mut self.batch) {
            batch.on_upstream(groups);
        }
        if let (Event::PodDisruptionBudget(budgets), Some((batch, _))) = (&event, &mut self.batch) {
            batch.on_budget(budgets);
        }
        if let (
            Event::Change(Change::ReplicaSet(owners) | Change::StatefulSet(owners)),
            Some((batch, _)),
        ) = (&event, &mut self.batch)
        {
            batch.on_owner(&mut self.scheduler, self.monotonic.now(), owners);
        }
        let Some(event) = self.of_living(event) else {
            return;
        };
        let began = Instant::now();
        self.scheduler.on(self.monotonic.now(), &event);
        let took = began.elapsed().as_secs_f64();
        let release = self.scheduler.cluster().compatibility().release();
        for label in event.labels(release) {
            self.metrics.event_handling_duration.observe([label], took);
        }
        if self.is_leader() {
            let queue = self.scheduler.queue();
            self.failure_handler
                .report_unreadable((self.now)(), &event, queue);
        }
        for mistake in self.scheduler.take_invalid_objects() {
            warn!("left out: {mistake}");
        }
    }

    fn is_leader(&self) -> bool {
        *self.role.borrow() == Role::Leader
    }

    /// Tries some of the active pods. Returns whether there was one.
    fn schedule_pods(&mut self) -> bool {
        // A decision that is made before all kinds are listed could put a pod on a node that is full.
        if self.listed < self.kinds || !self.is_leader() {
            return false;
        }
        let has_resizes = self.try_resizes();
        // Trees that can never be placed are found without an attempt.
        let results = self.scheduler.take_group_results();
        groups::decided((self.now)(), results, &self.writer);
        let mut cost = 0_u64;
        for count in 0..ATTEMPTS {
            let busy = self.writer.bindings_in_flight() >= BINDINGS || self.extenders.is_full();
            if busy && !self.gang_barriers.wait_for_others() {
                return false;
            }
            let (now, began) = ((self.now)(), Instant::now());
            self.deadline.begin();
            let Some(attempt) = self.scheduler.attempt(self.monotonic.now()) else {
                return count > 0 || has_resizes;
            };
            self.metrics
                .scheduling_algorithm_duration
                .observe([], began.elapsed().as_secs_f64());
            self.gang_barriers.add(self.scheduler.take_gang_bindings());
            let results = self.scheduler.take_group_results();
            groups::decided(now, results, &self.writer);
            self.finish_attempt(now, began, attempt);
            // Its binding is measured if the attempt was.
            self.recorder.on_attempt();
            cost = cost.saturating_add(self.scheduler.take_cost());
            if cost > MOST_COST {
                break;
            }
        }
        true
    }

    /// Continues an attempt with the response of the extenders.
    fn on_response(&mut self, key: &Arc<str>, response: ExtenderResponse) {
        if !self.is_leader() {
            return;
        }
        let (now, began) = ((self.now)(), Instant::now());
        self.deadline.begin();
        let attempt = self
            .scheduler
            .on_extender_response(self.monotonic.now(), key, response);
        if let Some(attempt) = attempt {
            self.finish_attempt(now, began, attempt);
        }
    }

    /// Carries out the decision of an attempt.
    fn finish_attempt(&mut self, now: Timestamp, began: Instant, attempt: Attempt) {
        let Attempt {
            key,
            pod,
            number,
            outcome,
        } = attempt;
        let reference = PodRef::of(&pod.metadata);
        let result = match &outcome {
            Decision::Unschedulable(_) => Some("unschedulable"),
            Decision::Error(_) => Some("error"),
            Decision::Placed { .. }
            | Decision::AskExtenders(_)
            | Decision::WaitsOnPermit { .. }
            | Decision::Deleting
            | Decision::PutOff(_)
            | Decision::NoProfile => None,
        };
        if let Some(result) = result {
            self.count_attempt(result, &pod, began.elapsed().as_secs_f64());
        }
        if let Decision::AskExtenders(request) = outcome {
            let cluster = self.scheduler.cluster();
            return extender_request::send(&self.extenders, cluster, (key, pod), request);
        }
        self.view.decided(evidence_of(now, &pod, number, &outcome));
        match outcome {
            Decision::AskExtenders(_) => {}
            Decision::Placed { node, pre_bind, .. } => {
                debug!("{reference} is assigned to {node}");
                if !pre_bind.is_empty() {
                    self.failure_handler.nominate(&reference, &node);
                }
                let gang_barrier = self.gang_barriers.take(&key);
                let options = BindOptions {
                    recorder: Some(BindingRecorder::new(&self.recorder, scheduler_of(&pod))),
                    scheduler: scheduler_of(&pod).to_owned(),
                    device_timeout: self.scheduler.device_timeout(&pod),
                    pre_bind,
                    binder: self.extenders.binder(&pod),
                    of_many: gang_barrier.is_some(),
                    gang_barrier: gang_barrier.clone(),
                };
                let bound = self
                    .writer
                    .bind(reference.clone(), node.to_string(), options);
                if let Err(busy) = bound {
                    // The queue tries the pod again after its backoff.
                    warn!("{reference} cannot be bound to {node}: {busy}");
                    gang_barrier.inspect(|barrier| barrier.fail(busy.into()));
                    self.scheduler.bind_failed(self.monotonic.now(), &key);
                }
            }
            Decision::WaitsOnPermit { node } => {
                debug!("{reference} waits in Permit for {node}");
                self.failure_handler.nominate(&reference, &node);
            }
            Decision::Unschedulable(rejected) => {
                let clears = rejected.nominated.is_none() && rejected.clears_nomination;
                let nomination = match &rejected.nominated {
                    Some(node) => Nomination::Node(node.as_str().into()),
                    None if clears => Nomination::Cleared,
                    None => Nomination::OfStatus,
                };
                let message = &rejected.message;
                self.failure_handler
                    .handle(now, &pod, "Unschedulable", message, nomination);
                if let Some(claim) = &rejected.deallocates {
                    self.writer.deallocate(reference, claim.clone());
                }
                self.preempt(now, (&key, &pod), &rejected);
            }
            Decision::Error(message) => {
                // As kube-scheduler: a cluster without nodes is no error of the scheduler.
                let reason = if message.starts_with("no nodes") {
                    "Unschedulable"
                } else {
                    "SchedulerError"
                };
                self.failure_handler
                    .handle(now, &pod, reason, &message, Nomination::Cleared);
            }
            Decision::PutOff(message) => {
                let nomination = Nomination::OfStatus;
                self.failure_handler
                    .handle(now, &pod, "SchedulerError", &message, nomination);
            }
            Decision::Deleting => {
                let message = NotTried::Deleting(reference.to_string()).to_string();
                self.events
                    .failed_scheduling(scheduler_of(&pod), &reference, &message);
            }
            Decision::NoProfile => warn!(
                "{reference}: no profile is named {:?}",
                pod.spec.scheduler_name
            ),
        }
    }

    fn on_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Bound { pod, node } => self.on_bound(&pod, &node),
            Outcome::NotBound { pod, node, failure } => self.on_not_bound(&pod, &node, &failure),
            Outcome::ClaimsRead(claims) => {
                let claims = claims.iter().map(wire::ResourceClaim::deserialize);
                for claim in claims.flatten() {
                    let (old, new) = (None, Some(Arc::new(claim)));
                    let change = Change::ResourceClaim(Delta { old, new });
                    self.scheduler
                        .on(self.monotonic.now(), &Event::Change(change));
                }
            }
            Outcome::Deallocated { pod, failure } => {
                if let Some(failure) = failure {
                    // Without the write no watch event wakes the pod.
                    debug!("a claim of {pod}: {}", failure.message);
                    self.scheduler.activate(self.monotonic.now(), [&*pod.uid]);
                }
            }
            Outcome::NotEvicted { pod, failure } => {
                warn!("{pod} was not evicted: {}", failure.message);
                self.session_not_evicted(&pod);
            }
            Outcome::GroupWritten { key, write, answer } => {
                if let Some((batch, _)) = &mut self.batch {
                    batch.group_written(&key, write, answer);
                }
            }
            Outcome::StatusNotWritten { pod, failure } => {
                debug!("status of {pod}: {}", failure.message);
                if let Some((batch, _)) = &mut self.batch {
                    batch.forget_condition(&pod.uid);
                }
            }
            Outcome::LastVictim { preemptor, victim } => self.last_victim(&preemptor, &victim),
            Outcome::Preempted { preemptor, failure } => self.preempted(&preemptor, failure),
        }
    }

    fn on_bound(&mut self, reference: &PodRef, node: &str) {
        let Some(binding) = self.scheduler.bound(self.monotonic.now(), &reference.uid) else {
            return;
        };
        let began = Instant::now();
        self.events
            .scheduled(scheduler_of(&binding.pod), reference, node);
        BindingRecorder::new(&self.recorder, scheduler_of(&binding.pod)).ran(
            Point::PostBind,
            true,
            began,
        );
        self.count_attempt("scheduled", &binding.pod, self.since(binding.began));
        self.metrics
            .pod_scheduling_attempts
            .observe([], f64::from(binding.attempts));
        let attempts = attempts_label(binding.attempts);
        let first = binding.arrived.unwrap_or(binding.began);
        self.metrics
            .pod_scheduling_sli_duration
            .observe([&attempts], self.since(first));
    }

    fn count_attempt(&self, result: &str, pod: &wire::Pod, seconds: f64) {
        let labels = [result, scheduler_of(pod)];
        self.metrics.schedule_attempts.add(labels, 1);
        self.metrics
            .scheduling_attempt_duration
            .observe(labels, seconds);
    }

    /// Seconds since this moment of the monotonic clock.
    fn since(&self, moment: Timestamp) -> f64 {
        self.monotonic.now().duration_since(moment).as_secs_f64()
    }

    /// The room that was assumed for the pod is free again, unless a watch shows that the pod has a node.
    fn on_not_bound(&mut self, reference: &PodRef, node: &str, failure: &Failure) {
        let key = &reference.uid;
        let Some(not_bound) = self.scheduler.bind_failed(self.monotonic.now(), key) else {
            return;
        };
        let binding = not_bound.binding;
        if failure.kind == FailureKind::DevicesLate {
            self.scheduler.devices_are_late(&binding.pod);
        }
        self.count_attempt("error", &binding.pod, self.since(binding.began));
        warn!("{reference} was not bound to {node}: {}", failure.message);
        if binding.is_of_session {
            if !not_bound.has_node {
                self.session_not_bound(reference);
            }
            return;
        }
        // A pod that was deleted or has a node needs no condition.
        if self.scheduler.queue().pod(key).is_some() {
            self.failure_handler.handle(
                (self.now)(),
                &binding.pod,
                "SchedulerError",
                &failure.message,
                Nomination::Cleared,
            );
        }
    }

    fn update_metrics(&mut self) {
        let dropped = self.events.take_dropped();
        self.metrics.events_dropped.add([], dropped);
        self.recorder.next_second();
        gauges::update(&self.metrics, &mut self.scheduler, &self.writer);
    }
}

/// `schedulerName` of a pod.
fn scheduler_of(pod: &wire::Pod) -> &str {
    pod.spec.scheduler_name_or_default()
}

/// The next tick of a timer, if there is one.
async fn tick(timer: &mut Option<Interval>) {
    match timer {
        Some(timer) => {
            timer.tick().await;
        }
        None => std::future::pending().await,
    }
}

/// A timer that skips missed ticks.
fn every(period: Duration) -> Interval {
    let mut timer = interval(period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    timer
}
