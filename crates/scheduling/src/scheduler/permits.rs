//! From the choice of a node to the binding: plugins of one's own reserve what the pod needs there, say when it may be bound,
//! and check once more before it is.

use super::{Attempt, Outcome, Rejected, Scheduler};
use crate::change::{Delta, is_assigned, pod_key};
use crate::config::print_duration;
use crate::decider::Decided;
use crate::framework::{Refusal, Waits};
use crate::plugins::{PluginName, PluginSet};
use crate::preparations::Preparations;
use evictd_placement::{Chosen, Permit, Pod};
use evictd_pod::wire;
use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The pods that have a node and wait for plugins to permit their binding.
#[derive(Debug, Default)]
pub(super) struct Permits {
    waiting: HashMap<Arc<str>, Waiting>,
    /// After which change of the cluster the plugins were asked last.
    asked_at: u64,
}

/// A pod that waits for permits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) pod: Arc<wire::Pod>,
    pub(super) number: u32,
    pub(super) profile: usize,
    pub(super) node: Arc<str>,
    pub(super) decided: Decided,
    pub(super) prepares: Preparations,
    pub(super) since: Timestamp,
    /// The plugins that have not permitted it yet, with how long they have it wait.
    pub(super) by: Waits,
    /// The group with which it is bound or gives its node back.
    pub(super) gang: Option<Arc<str>>,
}

impl Waiting {
    /// The timer that fires first, if one has: whose, and how long it was.
    fn expired(&self, now: Timestamp) -> Option<(String, SignedDuration)> {
        let waited = now.duration_since(self.since);
        let expired = self.by.iter().filter(|(_, timeout)| waited >= *timeout);
        expired.min_by_key(|(_, timeout)| *timeout).cloned()
    }
}

impl Permits {
    /// What the queue knows the waiting pods by.
    pub(super) fn keys(&self) -> Vec<Arc<str>> {
        self.waiting.keys().cloned().collect()
    }

    pub(super) fn insert(&mut self, key: Arc<str>, waiting: Waiting) {
        self.waiting.insert(key, waiting);
    }

    /// Whether pods of a gang wait.
    pub(super) fn holds(&self, gang: &str) -> bool {
        let mut waiting = self.waiting.values();
        waiting.any(|own| own.gang.as_deref() == Some(gang))
    }

    /// The gangs that nobody has wait any more.
    pub(super) fn permitted_gangs(&self) -> Vec<Arc<str>> {
        let mut gangs: BTreeMap<&Arc<str>, bool> = BTreeMap::new();
        for own in self.waiting.values() {
            if let Some(gang) = &own.gang {
                *gangs.entry(gang).or_insert(true) &= own.by.is_empty();
            }
        }
        let gangs = gangs.into_iter().filter(|(_, permitted)| *permitted);
        gangs.map(|(gang, _)| Arc::clone(gang)).collect()
    }

    /// Takes the pods of a gang out, by key.
    pub(super) fn take_gang(&mut self, gang: &str) -> Vec<(Arc<str>, Waiting)> {
        let taken = self
            .waiting
            .extract_if(|_, own| own.gang.as_deref() == Some(gang));
        let mut taken: Vec<(Arc<str>, Waiting)> = taken.collect();
        taken.sort_by(|(one, _), (other, _)| one.cmp(other));
        taken
    }
}

/// A pod that is being placed: what the queue knows it by, which attempt it is, and its profile.
pub(super) type Placing<'a> = (&'a Arc<str>, &'a Arc<wire::Pod>, u32, usize);

impl Scheduler {
    /// The pod is on its way, or waits for a permit, unless a plugin refuses (S5-058, S5-059).
    pub(super) fn place(
        &mut self,
        now: Timestamp,
        placing: Placing<'_>,
        pod: Pod,
        decided: Decided,
    ) -> Outcome {
        let (key, wire, number, profile) = placing;
        let node: Arc<str> = self.cluster.node_name(decided.chosen).into();
        let chosen = self.chosen(wire, &node);
        let by = match self.frameworks[profile].reserve_and_permit(chosen) {
            Ok(by) => by,
            Err(refusal) => {
                self.cluster.release(pod);
                let rejected = refused(refusal);
                self.failed(now, key, &rejected.failure());
                return Outcome::Unschedulable(rejected);
            }
        };
        self.nominated.remove(key);
        let prepares = Preparations::begin(&mut self.cluster, &pod, decided.chosen);
        self.cluster.assume(pod, decided.chosen);
        self.queue.assume(key, &node);
        let waiting = Waiting {
            pod: Arc::clone(wire),
            number,
            profile,
            node: Arc::clone(&node),
            decided,
            prepares,
            since: now,
            by,
            gang: None,
        };
        if waiting.by.is_empty() {
            return self.go(now, key, waiting);
        }
        self.permits.waiting.insert(Arc::clone(key), waiting);
        Outcome::Waits { node }
    }

    pub(super) const fn chosen<'c>(&'c self, pod: &'c wire::Pod, node: &'c str) -> Chosen<'c> {
        Chosen {
            cluster: &self.cluster,
            pod,
            node,
        }
    }

    /// Everybody permits it: it is bound, unless a plugin finds something wrong.
    fn go(&mut self, now: Timestamp, key: &Arc<str>, waiting: Waiting) -> Outcome {
        let Waiting {
            pod,
            profile,
            node,
            decided,
            prepares,
            ..
        } = waiting;
        let chosen = self.chosen(&pod, &node);
        if let Some(message) = self.frameworks[profile].wrong_before_binding(chosen) {
            self.bind_failed(now, key, &pod, &node);
            return Outcome::Error(message);
        }
        self.queue.done(key);
        Outcome::Placed {
            node,
            decided,
            prepares,
        }
    }

    /// A pod that was placed could not be bound: its place is free again, and it is tried later (S5-065).
    pub fn bind_failed(&mut self, now: Timestamp, key: &Arc<str>, pod: &wire::Pod, node: &str) {
        self.unbind(now, key, (pod, node), PluginSet::default());
    }

    /// A pod that was placed gives back all that it has on its node.
    pub(super) fn leave_node(&mut self, pod: &wire::Pod, node: &str) {
        if let Some(profile) = self.profile_of(pod) {
            self.frameworks[profile].unreserve(self.chosen(pod, node));
        }
        self.cluster.remove_pod(&pod.metadata);
    }

    /// The same where plugins have rejected it.
    fn unbind(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        (pod, node): (&wire::Pod, &str),
        rejectors: PluginSet,
    ) {
        self.leave_node(pod, node);
        // What is not in flight any more has been deleted meanwhile.
        let moved = self.queue.binding_failed(now, key, rejectors);
        self.moved.extend(moved.into_iter().flatten());
        self.nominate(key);
    }

    /// Asks the plugins again about the pods that wait for them, if the cluster has changed since, and rejects those that
    /// have waited too long (S5-060). What becomes of them comes out of [`Scheduler::attempt`].
    pub(super) fn review_permits(&mut self, now: Timestamp) {
        if self.permits.waiting.is_empty() {
            return;
        }
        let changes = self.cluster.changes().now();
        let asks = std::mem::replace(&mut self.permits.asked_at, changes) != changes;
        let mut keys = self.permits.keys();
        keys.sort();
        for key in keys {
            let Some(mut waiting) = self.permits.waiting.remove(&key) else {
                continue;
            };
            let refusal = match waiting.expired(now) {
                Some((plugin, timeout)) => Some((plugin.clone(), too_long(&plugin, timeout))),
                None if asks => self.permit_again(&mut waiting),
                None => None,
            };
            match (refusal, waiting.gang.clone()) {
                (Some(refusal), None) => self.withdraw(now, key, waiting, refusal),
                (None, None) if waiting.by.is_empty() => {
                    let (pod, number) = (Arc::clone(&waiting.pod), waiting.number);
                    let outcome = self.go(now, &key, waiting);
                    self.decided.push_back(Attempt {
                        key,
                        pod,
                        number,
                        outcome,
                    });
                }
                (refusal, gang) => {
                    self.permits.waiting.insert(key, waiting);
                    if let (Some(refusal), Some(gang)) = (refusal, gang) {
                        self.withdraw_gang(now, &gang, &refusal);
                    }
                }
            }
        }
        self.bind_permitted_gangs(now);
    }

    /// Asks those for whom a pod waits. A single one that rejects it counts.
    fn permit_again(&self, waiting: &mut Waiting) -> Option<Refusal> {
        let chosen = self.chosen(&waiting.pod, &waiting.node);
        let mut refusal = None;
        for plugin in &self.frameworks[waiting.profile].permits {
            let name = plugin.name();
            if !waiting.by.iter().any(|(own, _)| own == name) {
                continue;
            }
            match plugin.permit(chosen) {
                Permit::Allow => waiting.by.retain(|(own, _)| own != name),
                Permit::Wait(_) => {}
                Permit::Reject(reason) => {
                    refusal.get_or_insert((name.to_owned(), reason));
                }
            }
        }
        refusal
    }

    /// Takes a pod that waited for a permit from its node.
    fn withdraw(&mut self, now: Timestamp, key: Arc<str>, waiting: Waiting, refusal: Refusal) {
        let rejected = refused(refusal);
        let placed = (&*waiting.pod, &*waiting.node);
        self.unbind(now, &key, placed, rejected.failure().rejectors);
        self.decided.push_back(Attempt {
            key,
            pod: waiting.pod,
            number: waiting.number,
            outcome: Outcome::Unschedulable(rejected),
        });
    }

    /// A pod that waits for a permit has to give way: it goes back into the queue, and need not be deleted (S4-022). Whether
    /// it did wait.
    pub fn reject_waiting(&mut self, now: Timestamp, key: &str) -> bool {
        let Some(waiting) = self.permits.waiting.get(key) else {
            return false;
        };
        let refusal = ("DefaultPreemption".to_owned(), "preempted".to_owned());
        if let Some(gang) = waiting.gang.clone() {
            self.withdraw_gang(now, &gang, &refusal);
        } else if let Some((key, waiting)) = self.permits.waiting.remove_entry(key) {
            self.withdraw(now, key, waiting, refusal);
        }
        true
    }

    /// A pod that waits for a permit is gone, or somebody else has bound it: what was reserved is given back. Its place is
    /// the cluster's business.
    pub(super) fn end_waiting(&mut self, now: Timestamp, pods: &Delta<wire::Pod>) {
        let Some(old) = pods
            .old
            .as_ref()
            .filter(|_| !self.permits.waiting.is_empty())
        else {
            return;
        };
        if pods.new.as_ref().is_some_and(|new| !is_assigned(new)) {
            return;
        }
        let key = pod_key(&old.metadata);
        let Some(waiting) = self.permits.waiting.remove(&key) else {
            return;
        };
        let chosen = self.chosen(&waiting.pod, &waiting.node);
        self.frameworks[waiting.profile].unreserve(chosen);
        self.queue.done(&key);
        if let Some(gang) = waiting.gang.filter(|gang| !self.queue.is_whole(gang)) {
            let plugin = PluginName::GangScheduling.as_str().to_owned();
            let reason = format!("pod {:?} of its group is gone", old.metadata.name);
            self.withdraw_gang(now, &gang, &(plugin, reason));
        }
    }
}

fn too_long(plugin: &str, timeout: SignedDuration) -> String {
    let waited = print_duration(timeout);
    format!("rejected due to timeout after waiting {waited} at plugin {plugin}")
}

/// What a pod is told that a plugin refuses on the node that was chosen.
pub(super) fn refused((plugin, reason): Refusal) -> Rejected {
    Rejected {
        message: format!("0/1 nodes are available: 1 {reason}."),
        plugins: BTreeSet::from([plugin]),
        rejections: Arc::default(),
        preempts: false,
        nominated: None,
        deallocates: None,
        victims: Vec::new(),
        actions: Vec::new(),
        nominations_cleared: Vec::new(),
        clears_nomination: true,
    }
}
