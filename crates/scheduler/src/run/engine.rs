//! The owner of cache and queue: it takes what the watches tell, decides, and hands the writes over. It never waits for the
//! API server.

use super::events::Events;
use super::pod_ref::PodRef;
use super::watches::{KINDS, News};
use super::writer::{Condition, Failure, Outcome, Preemption, StatusPatch, Writer};
use evictd_pod::wire;
use evictd_preemption::Action;
use evictd_scheduling::{Attempt, Event, Outcome as Decision, Rejected, Scheduler, pod_key};
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{mpsc, watch};
use tokio::time::{Interval, MissedTickBehavior, interval};
use tracing::{debug, info, warn};

/// How many decisions are made before the watches are heard again.
const DECISIONS: usize = 64;
/// How much news is taken in at once.
const NEWS: usize = 4096;
/// So many bindings may be under way; then no further pod is decided about until some have ended.
const BINDINGS: usize = 2048;

/// What the engine works with.
pub struct Engine {
    scheduler: Scheduler,
    writer: Writer,
    events: Events,
    news: mpsc::UnboundedReceiver<News>,
    outcomes: mpsc::UnboundedReceiver<Outcome>,
    /// Whether this scheduler may decide.
    leads: watch::Receiver<bool>,
    /// Kinds that are known completely.
    listed: usize,
    /// Pods that were decided about and are not known to be bound yet, by UID.
    binding: HashMap<String, Arc<wire::Pod>>,
    /// Pods whose victims are being deleted, by UID, with what the queue knows them by.
    preempting: HashMap<String, Arc<str>>,
    now: fn() -> Timestamp,
}

impl Engine {
    /// An engine; `now` reads the clock.
    pub fn new(
        scheduler: Scheduler,
        (writer, outcomes): (Writer, mpsc::UnboundedReceiver<Outcome>),
        events: Events,
        news: mpsc::UnboundedReceiver<News>,
        leads: watch::Receiver<bool>,
        now: fn() -> Timestamp,
    ) -> Self {
        Self {
            scheduler,
            writer,
            events,
            news,
            outcomes,
            leads,
            listed: 0,
            binding: HashMap::new(),
            preempting: HashMap::new(),
            now,
        }
    }

    /// Runs until `stop` becomes true or the watches end.
    pub async fn run(mut self, mut stop: watch::Receiver<bool>) {
        let mut backoff = every(Duration::from_secs(1));
        let mut leftover = every(Duration::from_secs(30));
        loop {
            if *stop.borrow() {
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
                _ = self.leads.changed() => {}
                _ = stop.changed() => {}
                _ = backoff.tick() => { self.scheduler.flush_backoff((self.now)()); }
                _ = leftover.tick() => { self.scheduler.flush_unschedulable((self.now)()); }
            }
        }
    }

    /// Takes in what has been told; whether there was anything.
    fn hear(&mut self) -> bool {
        let mut heard = false;
        for _ in 0..NEWS {
            let Ok(news) = self.news.try_recv() else {
                break;
            };
            heard = true;
            self.on_news(news);
        }
        while let Ok(outcome) = self.outcomes.try_recv() {
            heard = true;
            self.on_outcome(outcome);
        }
        heard
    }

    fn on_news(&mut self, news: News) {
        match news {
            News::Event(event) => {
                self.scheduler.on((self.now)(), &event);
                self.confirm(&event);
                for mistake in self.scheduler.take_mistakes() {
                    warn!("left out: {mistake}");
                }
            }
            News::Listed => {
                self.listed += 1;
                if self.listed == KINDS {
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

    /// A pod that has a node now, or is gone, is not being bound any more.
    fn confirm(&mut self, event: &Event) {
        if let Event::Change(evictd_scheduling::Change::Pod(pods)) = event {
            let has_node = |pod: &Arc<wire::Pod>| !pod.spec.node_name.is_empty();
            match (&pods.old, &pods.new) {
                (_, Some(new)) if has_node(new) => {
                    self.binding.remove(&new.metadata.uid);
                }
                (Some(old), None) => {
                    self.binding.remove(&old.metadata.uid);
                }
                _ => {}
            }
        }
    }

    /// Decides about pods that wait; whether there was one.
    fn decide(&mut self) -> bool {
        if self.listed < KINDS || !*self.leads.borrow() {
            return false;
        }
        for count in 0..DECISIONS {
            if self.writer.bindings_in_flight() >= BINDINGS {
                return false;
            }
            let now = (self.now)();
            let binding = &self.binding;
            let waiting = |pod: &evictd_placement::Pod| binding.contains_key(pod.uid());
            let Some(attempt) = self.scheduler.attempt(now, &waiting) else {
                return count > 0;
            };
            self.carry_out(now, attempt);
        }
        true
    }

    fn carry_out(&mut self, now: Timestamp, attempt: Attempt) {
        let Attempt {
            key, pod, outcome, ..
        } = attempt;
        let reference = PodRef::of(&pod.metadata);
        match outcome {
            Decision::Placed { node, .. } => {
                debug!("{reference} goes to {node}");
                self.binding
                    .insert(pod.metadata.uid.clone(), Arc::clone(&pod));
                if let Err(busy) = self.writer.bind(reference.clone(), node.to_string()) {
                    // It is tried again later.
                    warn!("{reference} cannot be bound to {node}: {busy}");
                    self.binding.remove(&pod.metadata.uid);
                    self.scheduler.bind_failed(now, &key, &pod);
                }
            }
            Decision::Unschedulable(rejected) => {
                let clears = rejected.nominated.is_none() && rejected.clears_nomination;
                let nominated = rejected.nominated.clone();
                let nomination = nominated.map(Some).or_else(|| clears.then_some(None));
                self.tell(now, &pod, "Unschedulable", &rejected.message, nomination);
                self.preempt(now, (&key, &pod), &rejected);
            }
            Decision::Error(message) => {
                let reason = if message.starts_with("no nodes") {
                    "Unschedulable"
                } else {
                    "SchedulerError"
                };
                self.tell(now, &pod, reason, &message, Some(None));
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

    /// Tells users why a pod waits, in its condition and in an event (S5-069); what its status says already is not
    /// written again (S5-071).
    fn tell(
        &self,
        now: Timestamp,
        pod: &wire::Pod,
        reason: &'static str,
        message: &str,
        nomination: Option<Option<String>>,
    ) {
        let reference = PodRef::of(&pod.metadata);
        self.events
            .failed_scheduling(scheduler_of(pod), &reference, message);
        let mut conditions = pod.status.conditions.iter();
        let old = conditions.find(|own| own.kind == "PodScheduled");
        let told = old.is_some_and(|own| {
            own.status == "False" && own.reason == reason && own.message == message
        });
        let had = &pod.status.nominated_node_name;
        let nominated_node = nomination.filter(|node| node.as_deref().unwrap_or("") != had);
        if told && nominated_node.is_none() {
            return;
        }
        let since = old
            .filter(|own| own.status == "False")
            .and_then(|own| own.last_transition_time);
        let condition = (!told).then(|| Condition {
            kind: "PodScheduled",
            holds: false,
            reason,
            message: message.to_owned(),
            since: since.unwrap_or(now),
            observed_generation: None,
        });
        let patch = StatusPatch {
            condition,
            nominated_node,
        };
        self.writer.status(reference, patch);
    }

    /// Has the victims deleted; until then the pod is not tried (S5-112).
    fn preempt(
        &mut self,
        now: Timestamp,
        (key, pod): (&Arc<str>, &wire::Pod),
        rejected: &Rejected,
    ) {
        let Some(node) = &rejected.nominated else {
            return;
        };
        let reference = |name: &str, uid: &str| {
            let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
            PodRef {
                namespace: namespace.to_owned(),
                name: name.to_owned(),
                uid: uid.to_owned(),
            }
        };
        let mut victims: Vec<PodRef> = Vec::new();
        for action in &rejected.actions {
            if let Action::Delete { pod, uid } | Action::RejectWaiting { pod, uid } = action {
                victims.push(reference(pod, uid));
            }
        }
        let names: HashSet<&String> = rejected.nominations_cleared.iter().collect();
        let nominated = self.scheduler.cluster().nominated().iter();
        let cluster = self.scheduler.cluster();
        let cleared = nominated.filter_map(|pod| {
            let name = cluster.full_name(pod);
            names.contains(&name).then(|| reference(&name, pod.uid()))
        });
        let preemption = Preemption {
            time: now,
            preemptor: PodRef::of(&pod.metadata),
            scheduler: scheduler_of(pod).to_owned(),
            node: node.clone(),
            cleared: cleared.collect(),
            victims,
        };
        info!(
            "{} preempts {} pods on {node}",
            preemption.preemptor,
            preemption.victims.len()
        );
        if preemption.victims.is_empty() {
            return;
        }
        match self.writer.preempt(preemption) {
            Ok(()) => {
                self.preempting
                    .insert(pod.metadata.uid.clone(), Arc::clone(key));
                self.scheduler.set_preempting(key, true);
            }
            Err(busy) => debug!("{}: {busy}", pod.metadata.name),
        }
    }

    fn on_outcome(&mut self, outcome: Outcome) {
        match outcome {
            Outcome::Bound { pod, node } => {
                let known = self.binding.get(&pod.uid);
                let scheduler = known
                    .map_or("default-scheduler", |known| scheduler_of(known))
                    .to_owned();
                self.events.scheduled(&scheduler, &pod, &node);
            }
            Outcome::NotBound { pod, node, failure } => self.not_bound(&pod, &node, &failure),
            Outcome::StatusNotWritten { pod, failure } => {
                debug!("status of {pod}: {}", failure.message)
            }
            Outcome::LastVictim { preemptor } => {
                if let Some(key) = self.preempting.get(&preemptor.uid) {
                    self.scheduler.set_preempting(key, false);
                }
            }
            Outcome::Preempted { preemptor, failure } => {
                let Some(key) = self.preempting.remove(&preemptor.uid) else {
                    return;
                };
                self.scheduler.set_preempting(&key, false);
                if let Some(failure) = failure {
                    warn!("preemption for {preemptor}: {}", failure.message);
                    self.scheduler.activate([&*key]);
                }
            }
        }
    }

    /// The place of a pod that was not bound is free again, unless the watch has said meanwhile where it is.
    fn not_bound(&mut self, reference: &PodRef, node: &str, failure: &Failure) {
        let Some(pod) = self.binding.remove(&reference.uid) else {
            return;
        };
        warn!("{reference} was not bound to {node}: {}", failure.message);
        let now = (self.now)();
        let key = pod_key(&pod.metadata);
        self.scheduler.bind_failed(now, &key, &pod);
        // Of a pod that is gone nothing can be told.
        if self.scheduler.queue().pod(&key).is_some() {
            self.tell(now, &pod, "SchedulerError", &failure.message, Some(None));
        }
    }
}

/// `schedulerName` of a pod.
fn scheduler_of(pod: &wire::Pod) -> &str {
    match pod.spec.scheduler_name.as_str() {
        "" => "default-scheduler",
        name => name,
    }
}

/// A timer that skips what it missed.
fn every(period: Duration) -> Interval {
    let mut timer = interval(period);
    timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
    timer
}
