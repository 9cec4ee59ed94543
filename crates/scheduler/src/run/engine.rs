//! The scheduling loop. It owns cache and queue, takes watch events, decides, and hands writes to the writer. It never waits
//! for the API server.

mod conditions;
mod evidence;
mod extender_calls;
mod gauges;
mod preempting;
mod sessions;

use super::attempts::Failure;
use super::batch::Batch;
use super::deadline::Deadline;
use super::events::Events;
use super::extenders::{Extenders, Replies};
use super::gangs::Gangs;
use super::groups::GroupStatuses;
use super::metrics::{Metrics, attempts_label};
use super::pod_ref::PodRef;
use super::view::View;
use super::watches::{BATCH_KINDS, KINDS, News};
use super::writer::{Condition, Outcome, With, Writer};
use crate::clock::Steady;
use evictd_cluster_client::NewsReceiver;
use evictd_cluster_client::lease::Role;
use evictd_pod::wire;
use evictd_scheduling::{
    Attempt, Change, Delta, Event, Nomination, Outcome as Decision, Scheduler, USUAL_COST,
};
use evidence::decision;
use jiff::Timestamp;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};
use tokio_util::sync::CancellationToken;
use tracing::{debug, info, warn};

/// Decisions between two reads of the watches.
const DECISIONS: usize = 64;
/// Attempts of more units of cost than this end the round of decisions, so that costly ones do not delay what the watches
/// and the API server report.
const MOST_COST: u64 = 2 * USUAL_COST;
/// The most watch events that are read at once.
const NEWS: usize = 4096;
/// The most bindings under way. Beyond it no pod is tried until some have ended.
const BINDINGS: usize = 512;

/// The loop with its state and ports.
pub struct Engine {
    scheduler: Scheduler,
    writer: Writer,
    events: Events,
    news: NewsReceiver<News>,
    outcomes: mpsc::UnboundedReceiver<Outcome>,
    metrics: Metrics,
    view: View,
    /// Only a leader decides.
    role: watch::Receiver<Role>,
    /// Whether all kinds are listed.
    synced: watch::Sender<bool>,
    /// How many of the watched kinds are listed.
    listed: usize,
    kinds: usize,
    groups: GroupStatuses,
    gangs: Gangs,
    /// The last condition that was written. The next pod often gets the same one.
    last_condition: Option<Arc<Condition>>,
    extenders: Extenders,
    replies: Replies,
    /// Sessions, and whether this process may run them.
    batch: Option<(Batch, watch::Receiver<Role>)>,
    /// Wall-clock time, which is written into objects and compared with them.
    now: fn() -> Timestamp,
    /// Monotonic time for backoffs and timeouts, so that setting the clock does not change them.
    steady: Steady,
    deadline: Deadline,
}

/// How an engine is connected.
pub struct Ports {
    /// The writer, and its results.
    pub writer: (Writer, mpsc::UnboundedReceiver<Outcome>),
    /// Events of Kubernetes.
    pub events: Events,
    /// Watch events.
    pub news: NewsReceiver<News>,
    /// Only a leader decides.
    pub role: watch::Receiver<Role>,
    /// Becomes true when all kinds are listed.
    pub synced: watch::Sender<bool>,
    /// Metrics.
    pub metrics: Metrics,
    /// The state that the server shows.
    pub view: View,
    /// The extenders, and their answers.
    pub extenders: (Extenders, Replies),
    /// Batch sessions, if there are to be any, and whether this process may run them.
    pub batch: Option<(Batch, watch::Receiver<Role>)>,
    /// Reads the clock.
    pub now: fn() -> Timestamp,
    /// How long an attempt may take.
    pub deadline: Deadline,
}

impl Engine {
    /// An engine that does not run yet.
    pub fn new(mut scheduler: Scheduler, ports: Ports) -> Self {
        let deadline = ports.deadline.clone();
        scheduler.interrupt_where(move || deadline.is_over());
        let (writer, outcomes) = ports.writer;
        let (extenders, replies) = ports.extenders;
        Self {
            scheduler,
            writer,
            events: ports.events,
            metrics: ports.metrics,
            view: ports.view,
            news: ports.news,
            outcomes,
            role: ports.role,
            synced: ports.synced,
            listed: 0,
            kinds: KINDS + ports.batch.as_ref().map_or(0, |_| BATCH_KINDS),
            groups: GroupStatuses::default(),
            gangs: Gangs::default(),
            last_condition: None,
            extenders,
            replies,
            batch: ports.batch,
            now: ports.now,
            steady: Steady::start((ports.now)()),
            deadline: ports.deadline,
        }
    }

    /// Runs until `stop`, or until the watches end.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut backoff = every(Duration::from_secs(1));
        let mut leftover = every(Duration::from_secs(30));
        let period = self.batch.as_ref().map(|(batch, _)| batch.period());
        let mut sessions = period.map(every);
        loop {
            if stop.is_cancelled() || matches!(*self.role.borrow(), Role::Lost | Role::Released) {
                self.writer.stop();
                return;
            }
            let heard = self.hear();
            let decided = self.decide();
            if heard || decided {
                // The watches and the writers have their turn.
                tokio::task::yield_now().await;
                continue;
            }
            tokio::select! {
                news = self.news.recv() => match news {
                    Some(news) => self.on_news(news),
                    None => return,
                },
                outcome = self.outcomes.recv() => match outcome {
                    Some(outcome) => self.on_outcome(outcome),
                    None => return,
                },
                Some((key, reply)) = self.replies.recv() => self.answered(&key, reply),
                changed = self.role.changed() => if changed.is_err() {
                    // The election has ended, so there is no leader.
                    return self.writer.stop();
                },
                () = stop.cancelled() => {}
                () = self.view.is_asked() => {}
                _ = backoff.tick() => {
                    self.scheduler.flush_backoff(self.steady.now());
                    self.scheduler.leave_stuck_victims((self.now)());
                    self.measure();
                }
                () = tick(&mut sessions) => self.session(),
                _ = leftover.tick() => self.scheduler.flush_unschedulable(self.steady.now()),
            }
        }
    }

    /// Reads pending events, results and answers. Returns whether there were any.
    fn hear(&mut self) -> bool {
        let mut heard = false;
        self.answer();
        for _ in 0..NEWS {
            let Some(news) = self.news.try_recv() else {
                break;
            };
            heard = true;
            self.on_news(news);
        }
        while let Ok(outcome) = self.outcomes.try_recv() {
            heard = true;
            self.on_outcome(outcome);
        }
        while let Ok((key, reply)) = self.replies.try_recv() {
            heard = true;
            self.answered(&key, reply);
        }
        heard
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::Batch(change) => {
                if let Some((batch, _)) = &mut self.batch {
                    batch.on(change);
                }
            }
            News::Event(event) => {
                if let (Event::PodGroup(groups), Some((batch, _))) = (&event, &mut self.batch) {
                    batch.on_upstream(groups);
                }
                let Some(event) = self.of_living(event) else {
                    return;
                };
                self.scheduler.on(self.steady.now(), &event);
                self.report_unreadable(&event);
                for mistake in self.scheduler.take_invalid_objects() {
                    warn!("left out: {mistake}");
                }
            }
            News::Listed => {
                self.listed += 1;
                if self.listed == self.kinds {
                    self.synced.send_replace(true);
                    let cluster = self.scheduler.cluster().sizes();
                    let waiting = self.scheduler.queue().len();
                    info!(
                        "the cluster is known: {} nodes, {} pods, {waiting} waiting",
                        cluster.nodes, cluster.pods
                    );
                }
            }
        }
    }

    /// Decides about pods that wait; whether there was one.
    fn decide(&mut self) -> bool {
        if self.listed < self.kinds || *self.role.borrow() != Role::Leader {
            return false;
        }
        let mut cost = 0_u64;
        for count in 0..DECISIONS {
            let busy = self.writer.bindings_in_flight() >= BINDINGS || self.extenders.is_full();
            if busy && !self.gangs.wait_for_others() {
                return false;
            }
            let (now, began) = ((self.now)(), Instant::now());
            self.deadline.begin();
            let Some(attempt) = self.scheduler.attempt(self.steady.now()) else {
                return count > 0;
            };
            self.metrics
                .scheduling_algorithm_duration
                .observe([], began.elapsed().as_secs_f64());
            self.gangs.decided(self.scheduler.take_gang_bindings());
            let news = self.scheduler.take_group_results();
            self.groups.decided(now, news, &self.writer);
            self.carry_out(now, began, attempt);
            cost = cost.saturating_add(self.scheduler.take_cost());
            if cost > MOST_COST {
                break;
            }
        }
        true
    }

    fn carry_out(&mut self, now: Timestamp, began: Instant, attempt: Attempt) {
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
            return self.ask(key, pod, request);
        }
        self.view.decided(decision(now, &pod, number, &outcome));
        match outcome {
            Decision::AskExtenders(_) => {}
            Decision::Placed { node, pre_bind, .. } => {
                debug!("{reference} goes to {node}");
                if !pre_bind.is_empty() {
                    self.expect(&reference, &node);
                }
                let together = self.gangs.of(&key);
                let with = With {
                    prepares: pre_bind,
                    binder: self.extenders.binder(&pod),
                    of_many: together.is_some(),
                    together: together.clone(),
                };
                let bound = self
                    .writer
                    .bind_as(reference.clone(), node.to_string(), with);
                if let Err(busy) = bound {
                    // It is tried again later.
                    warn!("{reference} cannot be bound to {node}: {busy}");
                    together.inspect(|together| together.fail(busy.into()));
                    self.scheduler.bind_failed(self.steady.now(), &key);
                }
            }
            Decision::WaitsOnPermit { node } => {
                debug!("{reference} waits for a permit on {node}");
                self.expect(&reference, &node);
            }
            Decision::Unschedulable(rejected) => {
                let clears = rejected.nominated.is_none() && rejected.clears_nomination;
                let nomination = match &rejected.nominated {
                    Some(node) => Nomination::Node(node.as_str().into()),
                    None if clears => Nomination::Cleared,
                    None => Nomination::OfStatus,
                };
                self.report_waiting(now, &pod, "Unschedulable", &rejected.message, nomination);
                if let Some(claim) = &rejected.deallocates {
                    self.writer.deallocate(reference, claim.clone());
                }
                self.preempt(now, (&key, &pod), &rejected);
            }
            Decision::Error(message) => {
                let reason = if message.starts_with("no nodes") {
                    "Unschedulable"
                } else {
                    "SchedulerError"
                };
                self.report_waiting(now, &pod, reason, &message, Nomination::Cleared);
            }
            Decision::PutOff(message) => {
                let nomination = Nomination::OfStatus;
                self.report_waiting(now, &pod, "SchedulerError", &message, nomination);
            }
            Decision::Deleting => {
                let message = format!("skip schedule deleting pod: {reference}");
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
            Outcome::Bound { pod, node } => self.bound(&pod, &node),
            Outcome::NotBound { pod, node, failure } => self.not_bound(&pod, &node, &failure),
            Outcome::ClaimsRead(claims) => {
                let claims = claims.iter().map(wire::ResourceClaim::deserialize);
                for claim in claims.flatten() {
                    let (old, new) = (None, Some(Arc::new(claim)));
                    let change = Change::ResourceClaim(Delta { old, new });
                    self.scheduler.on(self.steady.now(), &Event::Change(change));
                }
            }
            Outcome::Deallocated { pod, failure } => {
                if let Some(failure) = failure {
                    // It is tried again.
                    debug!("a claim of {pod}: {}", failure.message);
                    self.scheduler.activate([&*pod.uid]);
                }
            }
            Outcome::NotEvicted { pod, failure } => {
                warn!("{pod} was not evicted: {}", failure.message);
                self.session_not_evicted(&pod);
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

    /// A pod has its node now.
    fn bound(&mut self, reference: &PodRef, node: &str) {
        let Some(binding) = self.scheduler.bound(self.steady.now(), &reference.uid) else {
            return;
        };
        let others = self.scheduler.bindings().map(|own| &*own.pod);
        self.groups
            .bound((self.now)(), &binding.pod, others, &self.writer);
        self.events
            .scheduled(scheduler_of(&binding.pod), reference, node);
        self.count_attempt("scheduled", &binding.pod, self.since(binding.began));
        self.metrics
            .pod_scheduling_attempts
            .observe([], f64::from(binding.attempts));
        let attempts = attempts_label(binding.attempts);
        let since = |first| (self.now)().duration_since(first).as_secs_f64();
        let took = binding.first_failure.map(since);
        let took = took.unwrap_or_else(|| self.since(binding.began));
        self.metrics
            .pod_scheduling_sli_duration
            .observe([&attempts], took);
    }

    fn count_attempt(&self, result: &str, pod: &wire::Pod, seconds: f64) {
        let labels = [result, scheduler_of(pod)];
        self.metrics.schedule_attempts.add(labels, 1);
        self.metrics
            .scheduling_attempt_duration
            .observe(labels, seconds);
    }

    /// Seconds since this moment of the steady clock.
    fn since(&self, moment: Timestamp) -> f64 {
        self.steady.now().duration_since(moment).as_secs_f64()
    }

    /// The place of a pod that was not bound is free again, unless a watch shows that the pod has a node.
    fn not_bound(&mut self, reference: &PodRef, node: &str, failure: &Failure) {
        let key = &reference.uid;
        let Some(not_bound) = self.scheduler.bind_failed(self.steady.now(), key) else {
            return;
        };
        let binding = not_bound.binding;
        self.groups.not_bound(&binding.pod);
        self.count_attempt("error", &binding.pod, self.since(binding.began));
        warn!("{reference} was not bound to {node}: {}", failure.message);
        let now = (self.now)();
        if binding.is_of_session {
            if !not_bound.has_node {
                self.session_not_bound(reference);
            }
            return;
        }
        // A pod that was deleted or has a node needs no condition.
        if self.scheduler.queue().pod(key).is_some() {
            self.report_waiting(
                now,
                &binding.pod,
                "SchedulerError",
                &failure.message,
                Nomination::Cleared,
            );
        }
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

/// A timer that skips what it missed.
fn every(period: Duration) -> Interval {
    let mut timer = interval(period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    timer
}
