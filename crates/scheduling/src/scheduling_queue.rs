//! The scheduling queue: changes of objects go in, and the next pods to try come out.

mod claims;
mod entities;
mod gangs;
mod hint_context;
mod lifecycle;
mod pods;

use crate::change::{Change, Delta, is_assigned, is_same};
use crate::events::{self, ClusterEvent, Kind};
use crate::gang::group_of;
use crate::plugins::PluginSet;
use crate::pod_lifecycle::{Command, Event as PodEvent, Phase, PodLifecycles};
use crate::queue::{Event, Moved, Pool, Popped, QueueError, QueuedPod, Scope, Settings};
use crate::recorder::SharedRecorder;
use evictd_pod::compatibility::Release;
use evictd_pod::wire;
use jiff::Timestamp;
use std::sync::Arc;

pub(crate) use gangs::Gang;
use hint_context::HintContext;
pub(crate) use lifecycle::BindingResult;

/// Why an attempt failed (S5-052). Without plugins it was an error.
#[derive(Debug, Clone, Default)]
pub struct Failure {
    /// The plugins that rejected the pod.
    pub rejectors: PluginSet,
    /// The plugins whose events activate the pod without backoff (S5-033).
    pub pending: PluginSet,
    /// The change of its nomination.
    pub nomination: Nomination,
}

/// How a failed attempt changes the nomination of the pod (S5-071, S5-109).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Nomination {
    /// The nomination in the pod's status counts.
    #[default]
    OfStatus,
    /// This node is nominated.
    Node(Arc<str>),
    /// No node is nominated.
    Cleared,
}

/// The pods that wait for a node, those in flight with the events that came meanwhile, and the nominations.
///
/// Adding, popping and moving one pod is logarithmic. An event is checked only for the pods whose rejectors registered it.
/// At most [`MAX_IN_FLIGHT_EVENTS`](crate::MAX_IN_FLIGHT_EVENTS) events are kept, however long an attempt takes.
/// It keeps only the objects of waiting pods, shared with the caller.
#[derive(Debug)]
pub struct SchedulingQueue {
    lifecycles: PodLifecycles<ClusterEvent>,
    hints: HintContext,
}

impl SchedulingQueue {
    /// An empty queue for the pods that name one of these schedulers. Pods that an extender rejected are woken by any
    /// event, but only if the configuration has extenders (S5-111).
    pub fn new(
        settings: Settings,
        scheduler_names: impl IntoIterator<Item = String>,
        has_extenders: bool,
    ) -> Self {
        Self {
            lifecycles: PodLifecycles::new(settings),
            hints: HintContext {
                has_extenders,
                settings,
                scheduler_names: scheduler_names.into_iter().collect(),
                ..HintContext::default()
            },
        }
    }

    /// Measures the queueing hints.
    pub(crate) fn set_recorder(&mut self, recorder: SharedRecorder) {
        self.hints.recorder = recorder;
    }

    /// Behaves as this release from now on.
    pub(crate) const fn set_release(&mut self, release: Release) {
        self.lifecycles.set_release(release);
    }

    /// The pods of these schedulers do not wait for their claims, because their profiles do not enable `DynamicResources`.
    pub(crate) fn ignore_claims(&mut self, schedulers: impl IntoIterator<Item = String>) {
        self.hints.without_claims.extend(schedulers);
    }

    /// An object was added, changed or deleted. Returns the pods that moved because of it.
    pub fn on(&mut self, now: Timestamp, change: &Change) -> Vec<Moved> {
        if let Change::Pod(pods) = change {
            return self.on_pod(now, pods);
        }
        if let Change::ResourceClaim(claims) = change {
            self.hints.claims.apply(claims);
        }
        events::of(change)
            .into_iter()
            .flat_map(|event| self.raise(now, event, Scope::All))
            .collect()
    }

    /// Pops the next pod, which is in flight from then on: the first active pod, else the first that backs off from a rejection
    /// (S5-038).
    pub fn pop(&mut self) -> Option<Popped> {
        self.lifecycles.pop()
    }

    /// The attempt failed. The events during the attempt decide where the pod waits (S5-016). A pod that was deleted or has a
    /// node does not come back (S5-070).
    ///
    /// # Errors
    /// The pod was not in flight, or waits already (S5-017).
    pub fn failed(
        &mut self,
        now: Timestamp,
        pod: &str,
        failure: &Failure,
    ) -> Result<Option<Moved>, QueueError> {
        let wire = self.hints.pods.get(pod).map(Arc::clone);
        let nominated = wire.as_ref().map(|wire| match &failure.nomination {
            Nomination::OfStatus => &*wire.status.nominated_node_name,
            Nomination::Node(node) => node,
            Nomination::Cleared => "",
        });
        let event = PodEvent::Failed {
            pod,
            rejectors: failure.rejectors,
            pending: failure.pending,
            nominated,
        };
        let mut moved = None;
        for command in self.advance(now, event) {
            match command {
                Command::Refuse(error) => return Err(error),
                Command::Count(step) => moved = Some(step),
                _ => {}
            }
        }
        Ok(moved)
    }

    /// The pod counts on this node from now on (S5-057).
    pub fn assume(&mut self, now: Timestamp, pod: &str, node: &str) {
        if let Some(pod) = self.hints.pods.key(pod) {
            self.advance(now, PodEvent::Assumed { pod: &pod, node });
        }
    }

    /// Whether pods of this namespace take turns, because their attempts are costly.
    pub(crate) fn takes_turns(&self, namespace: &str) -> bool {
        self.lifecycles.queue().takes_turns(namespace)
    }

    /// The pod in flight waits for a turn of its namespace, because its attempt is costly.
    pub(crate) fn put_off(&mut self, now: Timestamp, pod: &str, namespace: &Arc<str>) {
        self.advance(now, PodEvent::PutOff { pod, namespace });
    }

    /// Counts the cost of an attempt.
    pub(crate) fn count_cost(&mut self, namespace: &Arc<str>, cost: u64, had_turn: bool) {
        self.lifecycles.count_cost(namespace, cost, had_turn);
    }

    /// The attempt is over: the pod is being bound, or is not tried any more.
    pub fn done(&mut self, now: Timestamp, pod: &str) {
        let binding = None;
        self.advance(now, PodEvent::Done { pod, binding });
    }

    /// An assumed pod was not bound: after an error, or because plugins rejected it while it waited for a permit (S5-065). The room
    /// that it frees is an event for other pods.
    ///
    /// # Errors
    /// As [`Self::failed`].
    pub fn binding_failed(
        &mut self,
        now: Timestamp,
        pod: &str,
        rejectors: PluginSet,
    ) -> Result<Vec<Moved>, QueueError> {
        let failure = Failure {
            rejectors,
            nomination: Nomination::Cleared,
            ..Failure::default()
        };
        let pod_deleted = self.forget(now, pod);
        let mut moved = Vec::new();
        if rejectors.is_empty() {
            moved.extend(pod_deleted.map(|pod_deleted| self.raise(now, pod_deleted, Scope::All)));
            moved.push(self.failed(now, pod, &failure)?.into_iter().collect());
        } else {
            moved.push(self.failed(now, pod, &failure)?.into_iter().collect());
            let this: [Arc<str>; 1] = [pod.into()];
            moved.extend(
                pod_deleted
                    .map(|pod_deleted| self.raise(now, pod_deleted, Scope::Except(this.into()))),
            );
        }
        Ok(moved.concat())
    }

    /// Ends the backoffs whose second has passed; to be called every second (S5-009).
    pub fn flush_backoff(&mut self, now: Timestamp) -> Vec<Moved> {
        self.lifecycles.flush_backoff(now)
    }

    /// Wakes the pods that have waited too long for an event; to be called every 30 seconds (S5-010).
    pub fn flush_unschedulable(&mut self, now: Timestamp) -> Vec<Moved> {
        self.lifecycles.flush_unschedulable(now, &self.hints)
    }

    /// Removes the nomination of a pod, whatever its status says.
    pub(crate) fn leave_nomination(&mut self, now: Timestamp, pod: &str) {
        self.advance(now, PodEvent::NominationLeft { pod });
    }

    /// Applies an event of one pod.
    fn advance(&mut self, now: Timestamp, event: PodEvent<'_, ClusterEvent>) -> Vec<Command> {
        self.lifecycles.on_event(now, event, &self.hints)
    }

    fn raise(&mut self, now: Timestamp, object: ClusterEvent, scope: Scope) -> Vec<Moved> {
        let event = Event {
            label: object.label(),
            object: Some(object),
            scope,
        };
        self.lifecycles.wake(event, now, &self.hints)
    }

    fn on_pod(&mut self, now: Timestamp, pods: &Delta<wire::Pod>) -> Vec<Moved> {
        let old = pods.old.as_ref().filter(|pod| is_alive(pod));
        let new = pods.new.as_ref().filter(|pod| is_alive(pod));
        match (old, new) {
            (None, None) => Vec::new(),
            (None, Some(new)) => self.on_new_pod(now, new),
            (Some(old), None) => self.on_deleted_pod(now, old),
            (Some(old), Some(new)) if is_same(&old.metadata, &new.metadata) => {
                self.on_changed_pod(now, old, new)
            }
            (Some(old), Some(new)) => {
                // The watch has missed that a pod was deleted and another of its name created.
                let mut moved = self.on_deleted_pod(now, old);
                moved.extend(self.on_new_pod(now, new));
                moved
            }
        }
    }

    /// S5-001, S5-002, S5-003.
    fn on_new_pod(&mut self, now: Timestamp, new: &Arc<wire::Pod>) -> Vec<Moved> {
        if is_assigned(new) {
            let key = new.metadata.key();
            let (pod, node) = (&*key, &*new.spec.node_name);
            self.advance(now, PodEvent::Assigned { pod, node });
            self.drop(&key);
            let mut moved = self.on_new_member(now, new);
            moved.extend(self.raise(now, pod_added(new), Scope::All));
            return moved;
        }
        if !self.is_responsible_for(new) {
            return Vec::new();
        }
        let group = group_of(new);
        let was_ready = self.is_ready(group.as_ref());
        let key = self.keep(new);
        let event = PodEvent::Pending {
            pod: &key,
            priority: priority(new),
            nominated: &new.status.nominated_node_name,
        };
        let mut moved = counted(self.advance(now, event));
        if !was_ready {
            moved.extend(self.retry_ready(now, group.as_ref()));
        }
        moved
    }

    /// S5-027, S5-029.
    fn on_deleted_pod(&mut self, now: Timestamp, old: &Arc<wire::Pod>) -> Vec<Moved> {
        let key = old.metadata.key();
        let assumed = self.end(now, &key);
        if is_assigned(old) {
            if let Some(group) = group_of(old) {
                self.hints.groups.leave(&group, &key);
            }
            return self.raise(now, pod_deleted(old), Scope::All);
        }
        if !self.is_responsible_for(old) {
            return Vec::new();
        }
        if let Some(assumed) = assumed {
            return self.raise(now, assumed, Scope::All);
        }
        if old.status.nominated_node_name.is_empty() {
            return Vec::new();
        }
        self.raise(now, pod_deleted(old), Scope::UpTo(priority(old)))
    }

    fn on_changed_pod(
        &mut self,
        now: Timestamp,
        old: &Arc<wire::Pod>,
        new: &Arc<wire::Pod>,
    ) -> Vec<Moved> {
        if is_assigned(old) {
            return self.on_changed_assigned_pod(now, old, new);
        }
        if is_assigned(new) {
            return self.on_bound_pod(now, old, new);
        }
        if !self.is_responsible_for(new) {
            return Vec::new();
        }
        self.on_changed_waiting_pod(now, old, new)
    }

    /// A pod was bound. If it was assumed or nominated on another node, that node has room again. kube-scheduler overlooks
    /// that.
    fn on_bound_pod(
        &mut self,
        now: Timestamp,
        old: &Arc<wire::Pod>,
        new: &Arc<wire::Pod>,
    ) -> Vec<Moved> {
        let key = new.metadata.key();
        let mut moved = self.raise(now, pod_added(new), Scope::All);
        let (pod, node) = (&*key, &*new.spec.node_name);
        let commands = self.advance(now, PodEvent::Assigned { pod, node });
        self.drop(&key);
        if let Some(group) = group_of(new) {
            self.hints
                .groups
                .bind(group, &key, new, &new.spec.node_name);
        }
        let freed_node = freed(commands).filter(|_| !self.hints.settings.as_kube_scheduler);
        if let Some(node) = freed_node {
            moved.extend(self.raise(now, pod_left(old, &node), Scope::All));
        }
        moved
    }

    /// S5-026.
    fn on_changed_assigned_pod(
        &mut self,
        now: Timestamp,
        old: &Arc<wire::Pod>,
        new: &Arc<wire::Pod>,
    ) -> Vec<Moved> {
        events::of(&changed(old, new))
            .into_iter()
            .flat_map(|event| self.raise(now, event, Scope::All))
            .collect()
    }

    /// S5-028, S5-030.
    fn on_changed_waiting_pod(
        &mut self,
        now: Timestamp,
        old: &Arc<wire::Pod>,
        new: &Arc<wire::Pod>,
    ) -> Vec<Moved> {
        let version = &new.metadata.resource_version;
        // A resync of the watch reports unchanged pods.
        if !version.is_empty() && *version == old.metadata.resource_version {
            return Vec::new();
        }
        let key = self.keep(new);
        if self.lifecycles.is_assumed(&key) {
            let terminates = |pod: &wire::Pod| pod.metadata.deletion_timestamp.is_some();
            // Its attempt continues with the old pod; only the begin of its deletion counts.
            if terminates(old) || !terminates(new) {
                return Vec::new();
            }
            let commands = self.advance(now, PodEvent::Terminating { pod: &key });
            return freed(commands).map_or(Vec::new(), |node| {
                self.raise(now, pod_left(new, &node), Scope::All)
            });
        }
        let events = events::of(&changed(old, new))
            .into_iter()
            .map(|event| Event {
                label: event.label(),
                object: Some(event),
                scope: Scope::All,
            });
        let event = PodEvent::Updated {
            pod: &key,
            priority: priority(new),
            nominated: (
                &old.status.nominated_node_name,
                &new.status.nominated_node_name,
            ),
            events: events.collect(),
        };
        let mut moved = counted(self.advance(now, event));
        let nominated = &old.status.nominated_node_name;
        if !nominated.is_empty() && *nominated != new.status.nominated_node_name {
            moved.extend(self.raise(now, pod_deleted(old), Scope::UpTo(priority(old))));
        }
        moved
    }

    /// An assumed pod no longer counts on its node. Returns that as an event.
    fn forget(&mut self, now: Timestamp, pod: &str) -> Option<ClusterEvent> {
        let node = freed(self.advance(now, PodEvent::Forgotten { pod }))?;
        Some(pod_left(self.hints.pods.get(pod)?, &node))
    }

    /// A pod was deleted or has ended. Returns an event if it counted on a node.
    fn end(&mut self, now: Timestamp, pod: &str) -> Option<ClusterEvent> {
        let freed = freed(self.advance(now, PodEvent::Gone { pod }));
        let wire = self.drop(pod)?;
        Some(pod_left(&wire, &freed?))
    }

    fn is_responsible_for(&self, pod: &wire::Pod) -> bool {
        self.hints
            .scheduler_names
            .contains(pod.spec.scheduler_name_or_default())
    }

    fn keep(&mut self, pod: &Arc<wire::Pod>) -> Arc<str> {
        let key = pod.metadata.key();
        self.hints.pods.insert(Arc::clone(pod));
        if let Some(group) = group_of(pod) {
            self.hints.groups.wait(group, &key);
        }
        key
    }

    /// Removes the object of a pod that was deleted, has ended or has a node.
    fn drop(&mut self, key: &str) -> Option<Arc<wire::Pod>> {
        let pod = self.hints.pods.remove(key)?;
        if let Some(group) = group_of(&pod) {
            self.hints.groups.leave(&group, key);
        }
        Some(pod)
    }
}

/// Views.
impl SchedulingQueue {
    /// The pod as it was last seen, while it waits or is in flight.
    pub fn pod(&self, pod: &str) -> Option<&Arc<wire::Pod>> {
        self.hints.pods.get(pod)
    }

    /// The phase of a pod, while it is scheduled or its binding is not answered.
    pub fn phase(&self, pod: &str) -> Option<Phase> {
        self.lifecycles.phase(pod)
    }

    /// The node on which a pod counts although no watch shows it there yet.
    pub fn assumed_node(&self, pod: &str) -> Option<&Arc<str>> {
        self.lifecycles.assumed_node(pod)
    }

    /// How many pods wait.
    pub fn len(&self) -> usize {
        self.lifecycles.queue().len()
    }

    /// How many pods are in a pool.
    pub fn count(&self, pool: Pool) -> usize {
        self.lifecycles.queue().count(pool)
    }

    /// Whether no pod waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A waiting pod.
    pub fn queued_pod(&self, pod: &str) -> Option<QueuedPod> {
        self.lifecycles.queue().queued_pod(pod)
    }

    /// When a pod was active for the first time that waits, is in flight or is being bound (S5-099).
    pub fn arrived(&self, pod: &str) -> Option<Timestamp> {
        self.lifecycles.arrived(pod)
    }

    /// The pods of a pool. Active pods and those that back off are in the order in which they leave it, others by key.
    pub fn pods_in(&self, pool: Pool) -> Vec<Arc<str>> {
        self.lifecycles.queue().pods_in(pool)
    }

    /// The number of waiting pods that each plugin has rejected, by plugin and scheduler name. A pod counts until it is tried
    /// again (S5-039). A count that has fallen to zero stays.
    pub fn rejected_counts(&self) -> impl Iterator<Item = (&'static str, &str, usize)> {
        let names: Vec<&str> = self
            .hints
            .scheduler_names
            .iter()
            .map(String::as_str)
            .collect();
        self.lifecycles
            .queue()
            .rejected_counts()
            .filter_map(move |(plugin, profile, count)| {
                Some((plugin.as_str(), *names.get(usize::from(profile))?, count))
            })
    }

    /// The pods in flight in the order of popping.
    pub fn in_flight(&self) -> impl Iterator<Item = &Arc<str>> {
        self.lifecycles.queue().in_flight()
    }

    /// The labels of the events that are kept for the pods in flight.
    pub fn in_flight_events(&self) -> impl Iterator<Item = &'static str> {
        self.lifecycles.queue().in_flight_events()
    }

    /// The nominated node of a pod.
    pub fn nominated_node(&self, pod: &str) -> Option<Arc<str>> {
        self.lifecycles.nominated_node(pod).cloned()
    }

    /// The pods that are nominated on this node, in the order of nomination.
    pub fn nominated_on(&self, node: &str) -> &[Arc<str>] {
        self.lifecycles.nominated_on(node)
    }

    /// All nominations: nodes by name, with their pods.
    pub fn nominated(&self) -> impl Iterator<Item = (&str, &[Arc<str>])> {
        self.lifecycles.nominations()
    }
}

/// The moves among the commands.
fn counted(commands: Vec<Command>) -> Vec<Moved> {
    commands
        .into_iter()
        .filter_map(|command| match command {
            Command::Count(moved) => Some(moved),
            _ => None,
        })
        .collect()
}

/// The freed node among the commands.
fn freed(commands: Vec<Command>) -> Option<Arc<str>> {
    commands.into_iter().find_map(|command| match command {
        Command::Free { node } => Some(node),
        _ => None,
    })
}

/// kube-scheduler does not watch pods that have ended (S5-001).
fn is_alive(pod: &wire::Pod) -> bool {
    !pod.status.phase.has_ended()
}

fn priority(pod: &wire::Pod) -> i32 {
    pod.spec.priority.unwrap_or(0)
}

fn pod_added(pod: &Arc<wire::Pod>) -> ClusterEvent {
    ClusterEvent {
        kind: Kind::PodAdd,
        change: Change::Pod(Delta {
            old: None,
            new: Some(Arc::clone(pod)),
        }),
    }
}

fn pod_deleted(pod: &Arc<wire::Pod>) -> ClusterEvent {
    ClusterEvent {
        kind: Kind::PodDelete,
        change: Change::Pod(Delta {
            old: Some(Arc::clone(pod)),
            new: None,
        }),
    }
}

/// The event that a pod no longer counts on this node.
fn pod_left(pod: &wire::Pod, node: &str) -> ClusterEvent {
    let mut pod = pod.clone();
    node.clone_into(&mut pod.spec.node_name);
    pod_deleted(&Arc::new(pod))
}

fn changed(old: &Arc<wire::Pod>, new: &Arc<wire::Pod>) -> Change {
    Change::Pod(Delta {
        old: Some(Arc::clone(old)),
        new: Some(Arc::clone(new)),
    })
}
