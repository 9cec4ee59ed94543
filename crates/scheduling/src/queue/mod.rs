//! The pools of waiting pods, and the pods in flight. The queue holds only the keys of pods; the caller keeps the objects, and
//! decides by [`QueueingHints`] which events wake a pod.
mod costly;
mod entry;
mod flush;
mod in_flight;
mod known_hints;
mod pool;
mod pools;
mod settings;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;

use crate::plugins::{PluginName, PluginSet};
pub use costly::USUAL_COST;
pub(crate) use entry::Entry;
use in_flight::InFlight;
pub use in_flight::MAX_IN_FLIGHT_EVENTS;
use known_hints::KnownHints;
pub use pool::Pool;
use pools::{Next, Pools};
pub use settings::Settings;

/// The pods that an event concerns.
#[derive(Debug, Clone)]
pub(crate) enum Scope {
    All,
    /// Waiting pods of at most this priority, and every pod in flight.
    UpTo(i32),
    /// Every pod but these.
    Except(Arc<[Arc<str>]>),
    /// This pod alone, which is in flight.
    Only(Arc<str>),
}

/// An event of the cluster.
#[derive(Debug, Clone)]
pub(crate) struct Event<E> {
    /// Its name in metrics, as `AssignedPodAdd`.
    pub(crate) label: &'static str,
    /// The object for the hints. `None` is the wildcard, which wakes every pod that is not gated.
    pub(crate) object: Option<E>,
    pub(crate) scope: Scope,
}

impl<E> Event<E> {
    fn wildcard(label: &'static str, scope: Scope) -> Self {
        Self {
            label,
            object: None,
            scope,
        }
    }
}

/// The plugins as the queue needs them.
pub(crate) trait QueueingHints<E> {
    /// The plugins that registered this event.
    fn registered(&self, event: &E) -> PluginSet;
    /// The queueing hint of a plugin that rejected the pod and registered the event: whether the event may make it schedulable.
    fn wakes(&self, plugin: PluginName, pod: &str, event: &E) -> bool;
    /// A number that pods share whose hints of this plugin are equal for the event, as long as no pod changes. `None` if it is not known
    /// which pods do.
    fn template(&self, _plugin: PluginName, _pod: &str, _event: &E) -> Option<usize> {
        None
    }
    /// The plugin that keeps the pod out of the queue, if any (`PreEnqueue`).
    fn gate(&self, pod: &str) -> Option<PluginName>;
    /// The result of a plugin's check at `PreEnqueue`, which may be measured.
    fn pre_enqueue(&self, _plugin: PluginName, check: &dyn Fn() -> bool) -> bool {
        check()
    }
    /// The index of the pod's profile.
    fn profile(&self, pod: &str) -> u16;
    /// Whether a flush checks the gates of overdue pods again, as from 1.37 on (S7-229).
    fn reopens_gated(&self) -> bool {
        false
    }
}

/// A pod that entered a pool, as `queue_incoming_pods_total` counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Its key.
    pub pod: Arc<str>,
    /// The pool that it entered.
    pub pool: Pool,
    /// The event that brought it there.
    pub label: &'static str,
}

/// The next pod to try; it is in flight until its attempt has failed or is done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Popped {
    /// Its key.
    pub pod: Arc<str>,
    /// Which attempt this is, from 1.
    pub attempts: u32,
    /// Whether it was popped from backoff, because no pod was active.
    pub from_backoff: bool,
    /// It is costly, and has its turn.
    pub(crate) has_turn: bool,
}

/// A failure of a pod that was not being tried.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QueueError {
    /// It waits already.
    #[error("pod {0} is already in the queue")]
    AlreadyQueued(Arc<str>),
    /// No attempt was under way.
    #[error("pod {0} is not in flight")]
    NotInFlight(Arc<str>),
}

/// A waiting pod in the queue (`QueuedPodInfo` in kube-scheduler).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueuedPod {
    /// Its pool.
    pub pool: Pool,
    /// When it was added or its last attempt ended.
    pub since: Timestamp,
    /// The number of attempts.
    pub attempts: u32,
    /// How many attempts ended in a rejection.
    pub unschedulable_count: u32,
    /// How many attempts in a row ended in an error.
    pub consecutive_errors: u32,
    /// The plugins that rejected or gate it.
    pub rejectors: PluginSet,
    /// When its backoff ends; `None` if it has none.
    pub backoff_until: Option<Timestamp>,
}

/// The effect of an update.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Updated {
    /// The pod is being tried. The update counts when that fails.
    InFlight,
    /// It stays where it is.
    InPlace,
    /// It moved to another pool.
    Woken(Moved),
    /// It was added.
    New(Moved),
}

/// When a woken pod is tried.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wake {
    AfterBackoff,
    Immediately,
}

/// The pods that wait for a node, and those in flight with the events that came meanwhile.
#[derive(Debug)]
pub(crate) struct Queue<E> {
    settings: Settings,
    pools: Pools,
    in_flight: InFlight<E>,
}

impl<E> Queue<E> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            pools: Pools::default(),
            in_flight: InFlight::new(),
        }
    }

    /// How many pods wait.
    pub(crate) fn len(&self) -> usize {
        self.pools.len()
    }

    pub(crate) fn count(&self, pool: Pool) -> usize {
        self.pools.count(pool)
    }

    pub(crate) fn queued_pod(&self, pod: &str) -> Option<QueuedPod> {
        let entry = self.pools.get(pod)?;
        Some(QueuedPod {
            pool: entry.pool,
            since: entry.timestamp.timestamp(),
            attempts: entry.attempts,
            unschedulable_count: entry.unschedulable_count,
            consecutive_errors: entry.consecutive_errors,
            rejectors: entry.rejectors,
            backoff_until: entry.end_of_backoff(),
        })
    }

    /// When a pod that waits or is in flight was active for the first time.
    pub(crate) fn arrived(&self, pod: &str) -> Option<Timestamp> {
        self.in_flight
            .entry(pod)
            .or_else(|| self.pools.get(pod))?
            .arrived()
    }

    /// The pool in which a pod waits.
    pub(crate) fn pool(&self, pod: &str) -> Option<Pool> {
        self.pools.get(pod).map(|entry| entry.pool)
    }

    pub(crate) fn is_in_flight(&self, pod: &str) -> bool {
        self.in_flight.contains(pod)
    }

    /// The pods of a pool: of the first three in the order in which they leave it, of the others by key.
    pub(crate) fn pods_in(&self, pool: Pool) -> Vec<Arc<str>> {
        self.pools.list(pool)
    }

    /// The number of waiting pods that each plugin has rejected, by plugin and profile.
    pub(crate) fn rejected_counts(&self) -> impl Iterator<Item = (PluginName, u16, usize)> {
        self.pools.rejected_counts()
    }

    /// The pods in flight in the order of popping.
    pub(crate) fn in_flight(&self) -> impl Iterator<Item = &Arc<str>> {
        self.in_flight.pods()
    }

    /// The labels of the events kept for the pods in flight.
    pub(crate) fn in_flight_events(&self) -> impl Iterator<Item = &'static str> {
        self.in_flight.labels()
    }

    /// Adds a pod without a node (S5-003). A pod that waits already only takes the priority.
    pub(crate) fn add(
        &mut self,
        pod: Arc<str>,
        priority: i32,
        label: &'static str,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Option<Moved> {
        if let Some((pod, mut entry)) = self.pools.take(&pod) {
            entry.priority = priority;
            self.pools.put(pod, entry, &self.settings);
            return None;
        }
        Some(self.enter(
            pod,
            Entry::new(priority, now),
            Pool::Active,
            (label, now),
            hints,
        ))
    }

    /// A pod that waits or is in flight was changed. The events describe the change (S5-028).
    pub(crate) fn update(
        &mut self,
        pod: &Arc<str>,
        priority: i32,
        events: Vec<Event<E>>,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Updated {
        if self.in_flight.contains(pod) {
            for event in events {
                self.in_flight.record(event);
            }
            // Only a failed attempt looks at the update.
            return Updated::InFlight;
        }
        let Some((key, mut entry)) = self.pools.take(pod) else {
            let entry = Entry::new(priority, now);
            let label = "UnschedulablePodUpdate";
            return Updated::New(self.enter(
                Arc::clone(pod),
                entry,
                Pool::Active,
                (label, now),
                hints,
            ));
        };
        entry.priority = priority;
        let is_kept_out = matches!(entry.pool, Pool::Unschedulable | Pool::Gated);
        self.pools.put(key, entry, &self.settings);
        for event in events.iter().filter(|_| is_kept_out) {
            let moved = self.wake(vec![Arc::clone(pod)], event, now, hints).pop();
            if let Some(moved) = moved.filter(|moved| moved.pool != Pool::Gated) {
                return Updated::Woken(moved);
            }
        }
        Updated::InPlace
    }

    /// A pod was deleted or has its node. An attempt under way continues until [`Self::done`] (S5-029).
    pub(crate) fn delete(&mut self, pod: &str) {
        self.pools.take(pod);
        self.pools.costly.forget(pod);
    }

    /// The next pod: the first active one, else the first that backs off from a rejection (S5-038).
    pub(crate) fn pop(&mut self) -> Option<Popped> {
        loop {
            let (pod, next) = self.pools.next()?;
            let (pod, entry) = self.pools.take(&pod)?;
            // It was deleted and created again during its attempt, whose end counts for the new pod, too (S5-106).
            if !self.in_flight.contains(&pod) {
                return Some(self.start_attempt(pod, entry, next));
            }
        }
    }

    /// Pops this pod together with another one of its gang, from any pool. `None` if it does not wait or is gated.
    pub(crate) fn take(&mut self, pod: &str) -> Option<Popped> {
        let entry = self.pools.get(pod)?;
        if entry.pool == Pool::Gated || self.in_flight.contains(pod) {
            return None;
        }
        let (pod, entry) = self.pools.take(pod)?;
        Some(self.start_attempt(pod, entry, Next::Active))
    }

    fn start_attempt(&mut self, pod: Arc<str>, mut entry: Entry, next: Next) -> Popped {
        entry.attempts = entry.attempts.saturating_add(1);
        let attempts = entry.attempts;
        self.in_flight.start(Arc::clone(&pod), entry);
        Popped {
            pod,
            attempts,
            from_backoff: next == Next::Backoff,
            has_turn: next == Next::Costly,
        }
    }

    /// The attempt is over. Returns the entry of a pod that was in flight: if its binding fails, it comes back with it.
    pub(crate) fn done(&mut self, pod: &str) -> Option<Entry> {
        self.pools.costly.forget(pod);
        let (_, attempt) = self.in_flight.end(pod)?;
        self.in_flight.trim();
        Some(attempt.entry)
    }

    /// The attempt failed, with the plugins that rejected the pod and those whose event skips the backoff. The events that
    /// came meanwhile decide where the pod waits (S5-016).
    ///
    /// # Errors
    /// The pod was not in flight, or waits already (S5-017); it is not in flight afterwards.
    pub(crate) fn failed(
        &mut self,
        pod: &str,
        failure: (PluginSet, PluginSet),
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Result<Moved, QueueError> {
        let Some((pod, attempt)) = self.in_flight.end(pod) else {
            return Err(QueueError::NotInFlight(pod.into()));
        };
        let tried = (attempt.entry, Some(attempt.position));
        let moved = self.requeue(pod, tried, failure, now, hints);
        self.in_flight.trim();
        moved
    }

    /// Puts a pod back after a failed attempt or a failed binding. The position is that of the first event of its attempt. After
    /// a failed binding there is none.
    ///
    /// # Errors
    /// It waits already.
    pub(crate) fn requeue(
        &mut self,
        pod: Arc<str>,
        (mut entry, position): (Entry, Option<u64>),
        (rejectors, pending): (PluginSet, PluginSet),
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Result<Moved, QueueError> {
        if self.pools.get(&pod).is_some() {
            return Err(QueueError::AlreadyQueued(pod));
        }
        // So that the gate is checked again, also for a pod that was popped from backoff.
        entry.pool = Pool::Unschedulable;
        entry.fail(rejectors, pending, now);
        let wake = self.replayed(&pod, &entry, position, hints);
        let pool = wake.map_or(Pool::Unschedulable, |wake| {
            self.destination(&mut entry, wake, now)
        });
        Ok(self.enter(pod, entry, pool, ("ScheduleAttemptFailure", now), hints))
    }

    /// Replays the events since the attempt of a pod began. If some were dropped, the pod is tried again.
    fn replayed(
        &self,
        pod: &str,
        entry: &Entry,
        position: Option<u64>,
        hints: &impl QueueingHints<E>,
    ) -> Option<Wake> {
        let events = position.and_then(|position| self.in_flight.since(position));
        let Some(events) = events.filter(|_| !entry.rejectors.is_empty()) else {
            return Some(Wake::AfterBackoff);
        };
        let concerns_pod = |event: &&Event<E>| match &event.scope {
            Scope::Only(other) => **other == *pod,
            _ => true,
        };
        let mut wake = None;
        for event in events.filter(concerns_pod) {
            match woken(pod, entry, event, hints, &mut KnownHints::default()) {
                Some(Wake::Immediately) => return Some(Wake::Immediately),
                Some(Wake::AfterBackoff) => wake = Some(Wake::AfterBackoff),
                None => {}
            }
        }
        wake
    }

    /// Wakes the pods whose rejectors registered this event of the cluster (S5-012).
    pub(crate) fn event(
        &mut self,
        event: Event<E>,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Vec<Moved> {
        let mut pods = match &event.object {
            None => self.pools.list(Pool::Unschedulable),
            Some(object) => {
                let registered = hints.registered(object);
                if registered.is_empty() {
                    return Vec::new();
                }
                self.pools.rejected_by(registered)
            }
        };
        match &event.scope {
            Scope::All | Scope::Only(_) => {}
            Scope::Except(these) => pods.retain(|other| !these.contains(other)),
            Scope::UpTo(priority) => pods.retain(|pod| {
                let entry = self.pools.get(pod);
                entry.is_some_and(|entry| entry.priority <= *priority)
            }),
        }
        let moved = self.wake(pods, &event, now, hints);
        // Pods in flight decide after their attempt, when their rejectors are known.
        self.in_flight.record(event);
        moved
    }

    /// Activates this pod, whatever it waits for (S5-034).
    pub(crate) fn activate(
        &mut self,
        pod: &str,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Option<Moved> {
        let label = "ForceActivate";
        if let Some(pod) = self.in_flight.key(pod) {
            self.in_flight
                .record(Event::wildcard(label, Scope::Only(pod)));
            return None;
        }
        if self.pools.get(pod)?.pool == Pool::Active {
            return None;
        }
        let (pod, entry) = self.pools.take(pod)?;
        let moved = self.enter(pod, entry, Pool::Active, (label, now), hints);
        (moved.pool == Pool::Active).then_some(moved)
    }

    pub(super) fn wake(
        &mut self,
        pods: Vec<Arc<str>>,
        event: &Event<E>,
        now: Timestamp,
        hints: &impl QueueingHints<E>,
    ) -> Vec<Moved> {
        let mut moved = Vec::new();
        let mut known = KnownHints::default();
        for pod in pods {
            let entry = self.pools.get(&pod);
            let wake = entry.and_then(|entry| woken(&pod, entry, event, hints, &mut known));
            let Some(wake) = wake else {
                continue;
            };
            let Some((pod, mut entry)) = self.pools.take(&pod) else {
                continue;
            };
            let pool = self.destination(&mut entry, wake, now);
            moved.push(self.enter(pod, entry, pool, (event.label, now), hints));
        }
        moved
    }

    /// The pool of a woken pod (S5-011).
    fn destination(&self, entry: &mut Entry, wake: Wake, now: Timestamp) -> Pool {
        if wake == Wake::Immediately || !entry.backs_off(now, &self.settings) {
            Pool::Active
        } else if entry.rejectors.is_empty() {
            Pool::ErrorBackoff
        } else {
            Pool::Backoff
        }
    }

    /// Puts the pod into a pool, unless it is gated (S5-036). The gate is not checked after a backoff.
    fn enter(
        &mut self,
        pod: Arc<str>,
        mut entry: Entry,
        pool: Pool,
        (label, now): (&'static str, Timestamp),
        hints: &impl QueueingHints<E>,
    ) -> Moved {
        let from_backoff = matches!(entry.pool, Pool::Backoff | Pool::ErrorBackoff);
        entry.profile = hints.profile(&pod);
        entry.gate = if from_backoff || pool == Pool::Unschedulable {
            None
        } else {
            hints.gate(&pod)
        };
        entry.rejectors = entry.rejectors.or(entry.gate.into_iter().collect());
        entry.pool = entry.gate.map_or(pool, |_| Pool::Gated);
        let pool = entry.pool;
        if pool != Pool::Gated {
            entry.arrive(now);
        }
        self.pools.put(Arc::clone(&pod), entry, &self.settings);
        Moved { pod, pool, label }
    }
}

/// Whether the event wakes the pod. The hints of those rejectors decide that registered the event (S5-012, S5-033). For a gated
/// pod the plugin that gates it must have registered the event, too (S5-110).
fn woken<E>(
    pod: &str,
    entry: &Entry,
    event: &Event<E>,
    hints: &impl QueueingHints<E>,
    known: &mut KnownHints,
) -> Option<Wake> {
    let registered = event.object.as_ref().map(|object| hints.registered(object));
    if let Some(gate) = entry.gate {
        let is_registered = registered.is_some_and(|registered| registered.contains(gate));
        let is_open =
            || event.object.is_none() && hints.reopens_gated() && hints.gate(pod).is_none();
        if !is_registered && !is_open() {
            return None;
        }
    }
    let (Some(object), Some(registered)) = (&event.object, registered) else {
        return Some(Wake::AfterBackoff);
    };
    if entry.rejectors.is_empty() {
        return Some(Wake::AfterBackoff);
    }
    let mut wake = None;
    for plugin in entry.rejectors.and(registered).iter() {
        if known.wakes(hints, (plugin, pod), object) {
            if entry.pending.contains(plugin) {
                return Some(Wake::Immediately);
            }
            wake = Some(Wake::AfterBackoff);
        }
    }
    wake
}
