//! The queue as a value: events and the time go in, what moved comes out.
mod entry;
mod in_flight;
mod plugins;
mod pools;

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};

use entry::{Entry, whole_second};
use in_flight::InFlight;
pub use in_flight::MAX_IN_FLIGHT_EVENTS;
pub use plugins::{Plugin, PluginSet};
use pools::Pools;

/// How long pods wait.
#[derive(Debug, Clone, Copy)]
pub struct Settings {
    /// Backoff after the first failure; it doubles with each further one (`podInitialBackoffSeconds`).
    pub initial_backoff: SignedDuration,
    /// The longest backoff; zero turns backoff off (`podMaxBackoffSeconds`).
    pub max_backoff: SignedDuration,
    /// A pod that waited longer than this for an event is tried again without one.
    pub max_unschedulable: SignedDuration,
}

impl Default for Settings {
    /// 1 second, 10 seconds, 5 minutes.
    fn default() -> Self {
        Self {
            initial_backoff: SignedDuration::from_secs(1),
            max_backoff: SignedDuration::from_secs(10),
            max_unschedulable: SignedDuration::from_mins(5),
        }
    }
}

/// Where a pod waits (S5-004).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pool {
    /// It is tried as soon as its turn comes.
    Active,
    /// It was rejected not long ago.
    Backoff,
    /// Its last attempt ended in an error, not in a rejection.
    ErrorBackoff,
    /// It waits for an event that its rejectors registered.
    Unschedulable,
    /// A plugin does not let it enter the queue yet.
    Gated,
}

/// Something that happened in the cluster.
#[derive(Debug, Clone)]
pub struct Event<E> {
    /// Its name in metrics, as `AssignedPodAdd`.
    pub label: &'static str,
    /// What the hints look at; `None` is the wildcard, which wakes every pod that is not gated.
    pub object: Option<E>,
}

/// Whether another attempt is worth while (S5-032).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// The event changes nothing for the pod.
    Skip,
    /// The event may make room for the pod.
    Queue,
}

/// What the queue asks of the plugins. Pods are named by their uid; the objects stay with the caller.
pub trait Requeueing<E> {
    /// The plugins that registered this event.
    fn registered(&self, event: &E) -> PluginSet;
    /// The verdict of a plugin that rejected the pod and registered the event; one without a hint, or whose hint
    /// fails, says [`Hint::Queue`].
    fn hint(&self, plugin: Plugin, pod: &str, event: &E) -> Hint;
    /// The plugin that does not let the pod enter the queue, if any (`PreEnqueue`).
    fn gate(&self, pod: &str) -> Option<Plugin>;
}

/// A pod that entered a pool, as `queue_incoming_pods_total` counts it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moved {
    /// Its uid.
    pub pod: Arc<str>,
    /// Where it is now.
    pub pool: Pool,
    /// The event that brought it there.
    pub label: &'static str,
}

/// The next pod to try; it is in flight until [`Queue::failed`] or [`Queue::done`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Popped {
    /// Its uid.
    pub pod: Arc<str>,
    /// Which attempt this is, from 1.
    pub attempts: u32,
    /// It was taken out of backoff, since no pod was active.
    pub from_backoff: bool,
}

/// Why an attempt failed (S5-052). Without any plugin it was an error.
#[derive(Debug, Clone, Copy, Default)]
pub struct Failure {
    /// The plugins that rejected the pod.
    pub rejectors: PluginSet,
    /// Those whose event sends it to the active pool without backoff (S5-033).
    pub pending: PluginSet,
}

/// A failure was reported that cannot be.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum QueueError {
    /// It waits already: it was deleted and created again, or updated, during the attempt.
    #[error("pod {0} is already in the queue")]
    AlreadyQueued(Arc<str>),
    /// No attempt was under way.
    #[error("pod {0} is not in flight")]
    NotInFlight(Arc<str>),
}

/// How a woken pod is to go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wake {
    AfterBackoff,
    Immediately,
}

/// The pods that wait for a node, and those in flight with the events that came meanwhile.
///
/// Adding, popping and moving one pod is logarithmic. An event is asked only of the pods whose rejectors registered it.
/// At most [`MAX_IN_FLIGHT_EVENTS`] events are kept, however long an attempt takes.
#[derive(Debug)]
pub struct Queue<E> {
    settings: Settings,
    pools: Pools,
    in_flight: InFlight<E>,
}

impl<E> Queue<E> {
    /// An empty queue.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            pools: Pools::default(),
            in_flight: InFlight::new(),
        }
    }

    /// Where the pod waits; `None` if it does not.
    pub fn pool(&self, pod: &str) -> Option<Pool> {
        self.pools.get(pod).map(|entry| entry.pool)
    }

    /// How many pods wait.
    pub fn waiting(&self) -> usize {
        self.pools.len()
    }

    /// How many pods are in flight.
    pub fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// How many events are kept for the pods in flight.
    pub fn in_flight_events(&self) -> usize {
        self.in_flight.events()
    }

    /// A pod without a node appeared (S5-003). One that waits already keeps its place and takes the priority.
    pub fn add(
        &mut self,
        pod: Arc<str>,
        priority: i32,
        now: Timestamp,
        hints: &impl Requeueing<E>,
    ) -> Option<Moved> {
        if let Some(mut entry) = self.pools.take(&pod) {
            entry.priority = priority;
            self.pools.put(pod, entry, &self.settings);
            return None;
        }
        Some(self.enter(
            pod,
            Entry::new(priority, now),
            Pool::Active,
            "UnschedulablePodAdd",
            hints,
        ))
    }

    /// A pod is gone. An attempt under way goes on and ends with [`Self::done`] (S5-029).
    pub fn delete(&mut self, pod: &str) {
        self.pools.take(pod);
    }

    /// The next pod: the first active one, else the first that backs off from a rejection (S5-038).
    pub fn pop(&mut self) -> Option<Popped> {
        loop {
            let (pod, from_backoff) = self.pools.next()?;
            let mut entry = self.pools.take(&pod)?;
            // Deleted and created again during its attempt: the end of that attempt speaks for it (S5-106).
            if self.in_flight.contains(&pod) {
                continue;
            }
            entry.attempts = entry.attempts.saturating_add(1);
            let attempts = entry.attempts;
            self.in_flight.start(Arc::clone(&pod), entry);
            return Some(Popped {
                pod,
                attempts,
                from_backoff,
            });
        }
    }

    /// The attempt is over and the pod does not come back: it found its node or is gone.
    pub fn done(&mut self, pod: &str) {
        self.in_flight.end(pod);
        self.in_flight.trim();
    }

    /// The attempt failed: the events that came meanwhile decide where the pod waits (S5-016).
    ///
    /// # Errors
    /// The pod was not in flight, or waits already (S5-017); it is not in flight afterwards either way.
    pub fn failed(
        &mut self,
        pod: &str,
        failure: Failure,
        now: Timestamp,
        hints: &impl Requeueing<E>,
    ) -> Result<Moved, QueueError> {
        let pod: Arc<str> = pod.into();
        let Some(mut flight) = self.in_flight.end(&pod) else {
            return Err(QueueError::NotInFlight(pod));
        };
        if self.pools.get(&pod).is_some() {
            self.in_flight.trim();
            return Err(QueueError::AlreadyQueued(pod));
        }
        // Its gate is asked again, also if it was popped from backoff.
        flight.entry.pool = Pool::Unschedulable;
        flight.entry.fail(failure.rejectors, failure.pending, now);
        let activated = flight.activated.then_some(Wake::AfterBackoff);
        let wake = match self.in_flight.since(flight.position) {
            None => Some(Wake::AfterBackoff),
            Some(events) => events
                .filter_map(|event| woken(&pod, &flight.entry, event, hints))
                .fold(activated, |wake, next| {
                    if wake == Some(Wake::Immediately) {
                        wake
                    } else {
                        Some(next)
                    }
                }),
        };
        self.in_flight.trim();
        let wake = if flight.entry.rejectors.is_empty() {
            Some(Wake::AfterBackoff)
        } else {
            wake
        };
        let pool = wake.map_or(Pool::Unschedulable, |wake| {
            self.destination(&mut flight.entry, wake, now)
        });
        Ok(self.enter(pod, flight.entry, pool, "ScheduleAttemptFailure", hints))
    }

    /// Something happened in the cluster: wakes the pods whose rejectors ask for it (S5-012).
    pub fn event(
        &mut self,
        event: Event<E>,
        now: Timestamp,
        hints: &impl Requeueing<E>,
    ) -> Vec<Moved> {
        let candidates = match &event.object {
            None => self.pools.not_gated(),
            Some(object) => {
                let registered = hints.registered(object);
                if registered.is_empty() {
                    return Vec::new();
                }
                self.pools.rejected_by(registered)
            }
        };
        let moved = self.wake(candidates, &event, now, hints);
        self.in_flight.record(event);
        moved
    }

    /// A plugin asks for this pod alone (S5-034).
    pub fn activate(&mut self, pod: &str, hints: &impl Requeueing<E>) -> Option<Moved> {
        if let Some(flight) = self.in_flight.flight(pod) {
            flight.activated = true;
            return None;
        }
        if self.pool(pod)? == Pool::Active {
            return None;
        }
        let pod: Arc<str> = pod.into();
        let entry = self.pools.take(&pod)?;
        let moved = self.enter(pod, entry, Pool::Active, "ForceActivate", hints);
        (moved.pool == Pool::Active).then_some(moved)
    }

    /// Ends the backoffs whose second has passed; to be called every second (S5-009, S5-108).
    pub fn flush_backoff(&mut self, now: Timestamp) -> Vec<Moved> {
        let mut moved = Vec::new();
        for pod in self.pools.expired(whole_second(now)) {
            if let Some(mut entry) = self.pools.take(&pod) {
                entry.pool = Pool::Active;
                self.pools.put(Arc::clone(&pod), entry, &self.settings);
                moved.push(Moved {
                    pod,
                    pool: Pool::Active,
                    label: "BackoffComplete",
                });
            }
        }
        moved
    }

    /// Wakes the pods that have waited too long for an event; to be called every 30 seconds (S5-010).
    pub fn flush_unschedulable(
        &mut self,
        now: Timestamp,
        hints: &impl Requeueing<E>,
    ) -> Vec<Moved> {
        let limit = self.settings.max_unschedulable;
        let mut waiting = self.pools.not_gated();
        waiting.retain(|pod| {
            self.pools
                .get(pod)
                .is_some_and(|entry| entry.over_age(now, limit))
        });
        if waiting.is_empty() {
            return Vec::new();
        }
        let event = Event {
            label: "UnschedulableTimeout",
            object: None,
        };
        let moved = self.wake(waiting, &event, now, hints);
        self.in_flight.record(event);
        moved
    }

    fn wake(
        &mut self,
        pods: Vec<Arc<str>>,
        event: &Event<E>,
        now: Timestamp,
        hints: &impl Requeueing<E>,
    ) -> Vec<Moved> {
        let mut moved = Vec::new();
        for pod in pods {
            let Some(wake) = self
                .pools
                .get(&pod)
                .and_then(|entry| woken(&pod, entry, event, hints))
            else {
                continue;
            };
            let Some(mut entry) = self.pools.take(&pod) else {
                continue;
            };
            let was = entry.pool;
            let pool = self.destination(&mut entry, wake, now);
            let step = self.enter(pod, entry, pool, event.label, hints);
            if step.pool != was {
                moved.push(step);
            }
        }
        moved
    }

    /// Where a woken pod goes (S5-011).
    fn destination(&self, entry: &mut Entry, wake: Wake, now: Timestamp) -> Pool {
        if wake == Wake::Immediately || !entry.backs_off(now, &self.settings) {
            Pool::Active
        } else if entry.rejectors.is_empty() {
            Pool::ErrorBackoff
        } else {
            Pool::Backoff
        }
    }

    /// Puts the pod into a pool, unless its gate keeps it out (S5-036). It is not asked again on the way from backoff.
    fn enter(
        &mut self,
        pod: Arc<str>,
        mut entry: Entry,
        pool: Pool,
        label: &'static str,
        hints: &impl Requeueing<E>,
    ) -> Moved {
        let asked =
            matches!(entry.pool, Pool::Backoff | Pool::ErrorBackoff) || pool == Pool::Unschedulable;
        entry.gate = if asked { None } else { hints.gate(&pod) };
        entry.pool = if entry.gate.is_some() {
            Pool::Gated
        } else {
            pool
        };
        let pool = entry.pool;
        self.pools.put(Arc::clone(&pod), entry, &self.settings);
        Moved { pod, pool, label }
    }
}

/// Whether the event wakes the pod: the hints of its rejectors that registered it decide (S5-012, S5-033).
fn woken<E>(
    pod: &str,
    entry: &Entry,
    event: &Event<E>,
    hints: &impl Requeueing<E>,
) -> Option<Wake> {
    let Some(object) = &event.object else {
        return Some(Wake::AfterBackoff);
    };
    let rejectors = entry
        .gate
        .map_or(entry.rejectors, |gate| PluginSet::from_iter([gate]));
    if rejectors.is_empty() {
        return Some(Wake::AfterBackoff);
    }
    let asked = rejectors.and(hints.registered(object));
    let mut wake = None;
    for plugin in asked.iter() {
        if hints.hint(plugin, pod, object) == Hint::Queue {
            if entry.pending.contains(plugin) {
                return Some(Wake::Immediately);
            }
            wake = Some(Wake::AfterBackoff);
        }
    }
    wake
}
