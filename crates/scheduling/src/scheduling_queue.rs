//! The queue as a scheduler uses it: changes of objects go in, and the pods whose turn it is come out.

mod gangs;
mod pods;
mod view;

use crate::change::{Change, Delta, is_assigned, is_same, pod_key};
use crate::events::{self, ClusterEvent, Kind};
use crate::gang::{Groups, group_of};
use crate::hints;
use crate::nominations::Nominations;
use crate::plugins::{PluginName, PluginSet};
use crate::queue::{
    Event, Moved, Pool, Popped, Queue, QueueError, Requeueing, Scope, Settings, Updated,
};
use evictd_pod::wire;
use hashbrown::{HashMap, HashSet};
use jiff::Timestamp;
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) use gangs::Gang;
use pods::Pods;

/// Why an attempt failed (S5-052). Without any plugin it was an error.
#[derive(Debug, Clone, Default)]
pub struct Failure {
    /// The plugins that rejected the pod.
    pub rejectors: PluginSet,
    /// Those whose event sends it to the active pool without backoff (S5-033).
    pub pending: PluginSet,
    /// What becomes of its nomination.
    pub nomination: Nomination,
}

/// What a failed attempt says of the node that is being freed for the pod (S5-071, S5-109).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Nomination {
    /// Nothing: the one in the pod's status counts.
    #[default]
    OfStatus,
    /// This node is being freed for it.
    Node(Arc<str>),
    /// None is.
    Cleared,
}

/// The pods that wait for a node, those in flight with the events that came meanwhile, and the nominations.
///
/// Adding, popping and moving one pod is logarithmic. An event is asked only of the pods whose rejectors registered it.
/// At most [`MAX_IN_FLIGHT_EVENTS`](crate::MAX_IN_FLIGHT_EVENTS) events are kept, however long an attempt takes.
/// Of objects it keeps only the waiting pods, shared with the caller.
#[derive(Debug)]
pub struct SchedulingQueue {
    queue: Queue<ClusterEvent>,
    known: Known,
    nominations: Nominations,
    /// Pods that were given a node and are not bound yet, with the node's name.
    assumed: HashMap<Arc<str>, Arc<str>>,
}

/// What the hints know of the waiting pods.
#[derive(Debug, Default)]
struct Known {
    pods: Pods,
    /// Pods whose victims are being deleted in the background.
    preempting: HashSet<Arc<str>>,
    groups: Groups,
    /// In their order, by which profiles are numbered.
    scheduler_names: BTreeSet<String>,
    has_extenders: bool,
    settings: Settings,
}

impl Requeueing<ClusterEvent> for Known {
    fn registered(&self, event: &ClusterEvent) -> PluginSet {
        let registered = hints::registered(event.kind);
        let extender = self.has_extenders.then_some(PluginName::Extender);
        let other = self.settings.other_plugins.then_some(PluginName::Other);
        registered.or(extender.into_iter().chain(other).collect())
    }

    fn wakes(&self, plugin: PluginName, pod: &str, event: &ClusterEvent) -> bool {
        let wakes = if self.settings.as_kube_scheduler {
            hints::wakes_in_kube_scheduler
        } else {
            hints::wakes
        };
        let pod = self.pods.get(pod);
        pod.is_none_or(|pod| wakes(plugin, pod, event))
    }

    fn gate(&self, pod: &str) -> Option<PluginName> {
        let wire = self.pods.get(pod)?;
        if !wire.spec.scheduling_gates.is_empty() {
            return Some(PluginName::SchedulingGates);
        }
        if group_of(wire).is_some_and(|group| !self.groups.may_begin(&group)) {
            return Some(PluginName::GangScheduling);
        }
        let preempts = self.preempting.contains(pod);
        preempts.then_some(PluginName::DefaultPreemption)
    }

    fn profile(&self, pod: &str) -> u16 {
        let name = self.pods.get(pod).map(|pod| scheduler_name(pod));
        let mut names = self.scheduler_names.iter();
        let at = name.and_then(|name| names.position(|own| own == name));
        // Nobody has so many profiles.
        u16::try_from(at.unwrap_or(0)).unwrap_or(u16::MAX)
    }
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
            queue: Queue::new(settings),
            known: Known {
                has_extenders,
                settings,
                scheduler_names: scheduler_names.into_iter().collect(),
                ..Known::default()
            },
            nominations: Nominations::default(),
            assumed: HashMap::new(),
        }
    }

    /// An object appeared, changed or went. Returns the pods that moved because of it.
    pub fn on(&mut self, now: Timestamp, change: &Change) -> Vec<Moved> {
        if let Change::Pod(pods) = change {
            return self.on_pod(now, pods);
        }
        let events = events::of(change).into_iter();
        events
            .flat_map(|event| self.raise(now, event, Scope::All))
            .collect()
    }

    /// The next pod to try, which is in flight from then on: the first active one, else the first of those that back off
    /// from a rejection (S5-038).
    pub fn pop(&mut self) -> Option<Popped> {
        self.queue.pop()
    }

    /// The attempt failed. The events that came meanwhile decide where the pod waits (S5-016); one that is gone or has its
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
        self.assumed.remove(pod);
        let Some(wire) = self.known.pods.get(pod) else {
            let was_in_flight = self.queue.done(pod, false);
            let unknown = || QueueError::NotInFlight(pod.into());
            return was_in_flight.then_some(None).ok_or_else(unknown);
        };
        let (key, wire) = (pod_key(&wire.metadata), Arc::clone(wire));
        let (rejectors, pending) = (failure.rejectors, failure.pending);
        let moved = self.queue.failed(pod, rejectors, pending, now, &self.known);
        let node = match &failure.nomination {
            Nomination::OfStatus => &wire.status.nominated_node_name,
            Nomination::Node(node) => &**node,
            Nomination::Cleared => "",
        };
        self.nominations.set(&key, node);
        moved.map(Some)
    }

    /// The pod was given a node; until it is bound it counts as there (S5-057).
    pub fn assume(&mut self, pod: &str, node: &str) {
        if let Some(key) = self.known.pods.key(pod) {
            self.nominations.remove(pod);
            self.assumed.insert(key, node.into());
        }
    }

    /// The attempt is over: the pod is being bound, or is dropped.
    pub fn done(&mut self, pod: &str) {
        let is_binding = self.assumed.contains_key(pod);
        self.queue.done(pod, is_binding);
    }

    /// An assumed pod was not bound: an error, or plugins rejected it while it waited for a permit (S5-065). Its place is
    /// free again, which is an event for the others.
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
        let gone = self.forget(pod);
        let mut moved = Vec::new();
        if rejectors.is_empty() {
            moved.extend(gone.map(|gone| self.raise(now, gone, Scope::All)));
            moved.push(self.failed(now, pod, &failure)?.into_iter().collect());
        } else {
            moved.push(self.failed(now, pod, &failure)?.into_iter().collect());
            let this: [Arc<str>; 1] = [pod.into()];
            moved.extend(gone.map(|gone| self.raise(now, gone, Scope::Except(this.into()))));
        }
        Ok(moved.concat())
    }

    /// A plugin asks for these pods, whatever they wait for (S5-034).
    pub fn activate<'p>(&mut self, pods: impl IntoIterator<Item = &'p str>) -> Vec<Moved> {
        let pods = pods.into_iter();
        pods.filter_map(|pod| self.queue.activate(pod, &self.known))
            .collect()
    }

    /// The victims of a pod are being deleted in the background, or no longer: until then the pod is gated (S5-112). Where
    /// a deletion failed the caller also activates the pod.
    pub fn set_preempting(&mut self, pod: &str, preempts: bool) {
        if let Some(key) = self.known.pods.key(pod).filter(|_| preempts) {
            self.known.preempting.insert(key);
        } else {
            self.known.preempting.remove(pod);
        }
    }

    /// Ends the backoffs whose second has passed; to be called every second (S5-009).
    pub fn flush_backoff(&mut self, now: Timestamp) -> Vec<Moved> {
        self.queue.flush_backoff(now)
    }

    /// Wakes the pods that have waited too long for an event; to be called every 30 seconds (S5-010).
    pub fn flush_unschedulable(&mut self, now: Timestamp) -> Vec<Moved> {
        self.queue.flush_unschedulable(now, &self.known)
    }

    /// No node is being freed for a pod any more, whatever its status says.
    pub(crate) fn leave_nomination(&mut self, pod: &str) {
        self.nominations.remove(pod);
    }

    fn raise(&mut self, now: Timestamp, object: ClusterEvent, scope: Scope) -> Vec<Moved> {
        let event = Event {
            label: object.label(),
            object: Some(object),
            scope,
        };
        self.queue.event(event, now, &self.known)
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
                let mut moved = self.on_deleted_pod(now, old);
                moved.extend(self.on_new_pod(now, new));
                moved
            }
        }
    }

    /// S5-001, S5-002, S5-003.
    fn on_new_pod(&mut self, now: Timestamp, new: &Arc<wire::Pod>) -> Vec<Moved> {
        if is_assigned(new) {
            let key = pod_key(&new.metadata);
            self.assumed.remove(&key);
            if let Some(group) = group_of(new) {
                self.known.groups.bind(group, &key, &new.spec.node_name);
            }
            return self.raise(now, appeared(new), Scope::All);
        }
        if !self.is_ours(new) {
            return Vec::new();
        }
        let key = self.keep(new);
        let label = "UnschedulablePodAdd";
        let moved = self
            .queue
            .add(Arc::clone(&key), priority(new), label, now, &self.known);
        self.nominate_active(&key, new, moved.as_ref());
        let mut moved: Vec<Moved> = moved.into_iter().collect();
        if let Some(group) = group_of(new) {
            moved.extend(self.retry_group(&group));
        }
        moved
    }

    /// S5-027, S5-029.
    fn on_deleted_pod(&mut self, now: Timestamp, old: &Arc<wire::Pod>) -> Vec<Moved> {
        let key = pod_key(&old.metadata);
        if is_assigned(old) {
            self.assumed.remove(&key);
            if let Some(group) = group_of(old) {
                self.known.groups.leave(&group, &key);
            }
            return self.raise(now, gone(old), Scope::All);
        }
        if !self.is_ours(old) {
            return Vec::new();
        }
        let assumed = self.forget(&key);
        self.drop(&key);
        if let Some(assumed) = assumed {
            return self.raise(now, assumed, Scope::All);
        }
        if old.status.nominated_node_name.is_empty() {
            return Vec::new();
        }
        self.raise(now, gone(old), Scope::UpTo(priority(old)))
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
        if !self.is_ours(new) {
            return Vec::new();
        }
        self.on_changed_waiting_pod(now, old, new)
    }

    /// A pod got its node. If that is not the one that was held for it, the latter's room is free, which kube-scheduler
    /// overlooks.
    fn on_bound_pod(
        &mut self,
        now: Timestamp,
        old: &Arc<wire::Pod>,
        new: &Arc<wire::Pod>,
    ) -> Vec<Moved> {
        let key = pod_key(&new.metadata);
        let held = self.assumed.remove(&key);
        let held = held.or_else(|| self.nominations.node_of(&key));
        let mut moved = self.raise(now, appeared(new), Scope::All);
        self.drop(&key);
        if let Some(group) = group_of(new) {
            self.known.groups.bind(group, &key, &new.spec.node_name);
        }
        let elsewhere = held.filter(|held| **held != *new.spec.node_name);
        if let Some(held) = elsewhere.filter(|_| !self.known.settings.as_kube_scheduler) {
            let mut gone_from = wire::Pod::clone(old);
            gone_from.spec.node_name = held.to_string();
            moved.extend(self.raise(now, gone(&Arc::new(gone_from)), Scope::All));
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
        let events = events::of(&changed(old, new)).into_iter();
        events
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
        if !version.is_empty() && *version == old.metadata.resource_version {
            return Vec::new();
        }
        let key = self.keep(new);
        if self.assumed.contains_key(&key) {
            let begins = |pod: &wire::Pod| pod.metadata.deletion_timestamp.is_some();
            let gone = (begins(new) && !begins(old)).then(|| self.forget(&key));
            return gone
                .flatten()
                .map_or(Vec::new(), |gone| self.raise(now, gone, Scope::All));
        }
        let events = events::of(&changed(old, new)).into_iter();
        let events = events.map(|event| Event {
            label: event.label(),
            object: Some(event),
            scope: Scope::All,
        });
        let updated = self
            .queue
            .update(&key, priority(new), events.collect(), now, &self.known);
        let mut moved = Vec::new();
        match updated {
            Updated::InFlight => {}
            Updated::InPlace => self.renominate(&key, old, new),
            Updated::Woken(step) => {
                self.renominate(&key, old, new);
                moved.push(step);
            }
            Updated::New(step) => {
                self.nominate_active(&key, new, Some(&step));
                moved.push(step);
            }
        }
        let nominated = &old.status.nominated_node_name;
        if !nominated.is_empty() && *nominated != new.status.nominated_node_name {
            moved.extend(self.raise(now, gone(old), Scope::UpTo(priority(old))));
        }
        moved
    }

    /// A pod that has become active is nominated as its status says; a gated one is not (S5-109).
    fn nominate_active(&mut self, key: &Arc<str>, pod: &wire::Pod, moved: Option<&Moved>) {
        if moved.is_some_and(|moved| moved.pool == Pool::Active) {
            self.nominations.set(key, &pod.status.nominated_node_name);
        }
    }

    /// An update without a nomination before and after keeps the one in memory (S5-109).
    fn renominate(&mut self, key: &Arc<str>, old: &wire::Pod, new: &wire::Pod) {
        let (before, after) = (
            &old.status.nominated_node_name,
            &new.status.nominated_node_name,
        );
        if before.is_empty() && after.is_empty() {
            if let Some(node) = self.nominations.node_of(key) {
                self.nominations.set(key, &node);
            }
        } else {
            self.nominations.set(key, after);
        }
    }

    /// An assumed pod no longer counts as being on its node; returns that as an event.
    fn forget(&mut self, pod: &str) -> Option<ClusterEvent> {
        let node = self.assumed.remove(pod)?;
        let mut assumed = wire::Pod::clone(self.known.pods.get(pod)?);
        assumed.spec.node_name = node.to_string();
        Some(gone(&Arc::new(assumed)))
    }

    fn is_ours(&self, pod: &wire::Pod) -> bool {
        self.known.scheduler_names.contains(scheduler_name(pod))
    }

    fn keep(&mut self, pod: &Arc<wire::Pod>) -> Arc<str> {
        let key = pod_key(&pod.metadata);
        self.known.pods.insert(Arc::clone(pod));
        if let Some(group) = group_of(pod) {
            self.known.groups.wait(group, &key);
        }
        key
    }

    fn drop(&mut self, key: &str) {
        self.queue.delete(key);
        self.nominations.remove(key);
        if let Some(group) = self.known.pods.remove(key).as_deref().and_then(group_of) {
            self.known.groups.leave(&group, key);
        }
        self.known.preempting.remove(key);
    }
}

fn scheduler_name(pod: &wire::Pod) -> &str {
    match pod.spec.scheduler_name.as_str() {
        "" => "default-scheduler",
        name => name,
    }
}

/// Pods that have ended are not watched (S5-001).
fn is_alive(pod: &wire::Pod) -> bool {
    !matches!(pod.status.phase.as_str(), "Succeeded" | "Failed")
}

fn priority(pod: &wire::Pod) -> i32 {
    pod.spec.priority.unwrap_or(0)
}

fn appeared(pod: &Arc<wire::Pod>) -> ClusterEvent {
    ClusterEvent {
        kind: Kind::PodAdd,
        change: Change::Pod(Delta {
            old: None,
            new: Some(Arc::clone(pod)),
        }),
    }
}

fn gone(pod: &Arc<wire::Pod>) -> ClusterEvent {
    ClusterEvent {
        kind: Kind::PodDelete,
        change: Change::Pod(Delta {
            old: Some(Arc::clone(pod)),
            new: None,
        }),
    }
}

fn changed(old: &Arc<wire::Pod>, new: &Arc<wire::Pod>) -> Change {
    Change::Pod(Delta {
        old: Some(Arc::clone(old)),
        new: Some(Arc::clone(new)),
    })
}
