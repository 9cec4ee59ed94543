//! From the choice of a node to the binding: plugins of one's own reserve what the pod needs there, say when it may be bound,
//! and check once more before it is.

use super::{Attempt, Outcome, Rejected, Scheduler};
use crate::change::{Delta, is_assigned, pod_key};
use crate::config::print_duration;
use crate::decider::Decided;
use crate::plugins::PluginSet;
use crate::preparations::Preparations;
use evictd_placement::{Chosen, Permit, Pod};
use evictd_pod::wire;
use hashbrown::HashMap;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The longest that a plugin can have a pod wait (S5-059).
const LONGEST: SignedDuration = SignedDuration::from_mins(15);

/// The pods that have a node and wait for plugins to permit their binding.
#[derive(Debug, Default)]
pub(super) struct Permits {
    waiting: HashMap<Arc<str>, Waiting>,
    /// After which change of the cluster the plugins were asked last.
    asked_at: u64,
}

#[derive(Debug)]
struct Waiting {
    pod: Arc<wire::Pod>,
    number: u32,
    profile: usize,
    node: Arc<str>,
    decided: Decided,
    prepares: Preparations,
    since: Timestamp,
    /// The plugins that have not permitted it yet, with how long they have it wait.
    by: Vec<(String, SignedDuration)>,
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
}

/// A pod that is being placed: what the queue knows it by, which attempt it is, and its profile.
pub(super) type Placing<'a> = (&'a Arc<str>, &'a Arc<wire::Pod>, u32, usize);

/// A plugin and what it says.
type Refusal = (String, String);

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
        let by = match self.permit(profile, wire, &node) {
            Ok(by) => by,
            Err(refusal) => {
                self.unreserve(profile, wire, &node);
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
        };
        if waiting.by.is_empty() {
            return self.go(now, key, waiting);
        }
        self.permits.waiting.insert(Arc::clone(key), waiting);
        Outcome::Waits { node }
    }

    /// Reserves, and asks for permits: who has the pod wait, and how long.
    fn permit(
        &self,
        profile: usize,
        pod: &wire::Pod,
        node: &str,
    ) -> Result<Vec<(String, SignedDuration)>, Refusal> {
        let framework = &self.frameworks[profile];
        let chosen = self.chosen(pod, node);
        for plugin in &framework.reserves {
            let reserved = plugin.reserve(chosen);
            reserved.map_err(|reason| (plugin.name().to_owned(), reason))?;
        }
        let mut by = Vec::new();
        for plugin in &framework.permits {
            match plugin.permit(chosen) {
                Permit::Allow => {}
                Permit::Wait(timeout) => by.push((plugin.name().to_owned(), timeout.min(LONGEST))),
                Permit::Reject(reason) => return Err((plugin.name().to_owned(), reason)),
            }
        }
        Ok(by)
    }

    const fn chosen<'c>(&'c self, pod: &'c wire::Pod, node: &'c str) -> Chosen<'c> {
        Chosen {
            cluster: &self.cluster,
            pod,
            node,
        }
    }

    /// Gives back what was reserved, the last plugin first (S5-058).
    fn unreserve(&self, profile: usize, pod: &wire::Pod, node: &str) {
        for plugin in self.frameworks[profile].reserves.iter().rev() {
            plugin.unreserve(self.chosen(pod, node));
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
        let mut plugins = self.frameworks[profile].pre_binds.iter();
        let wrong =
            plugins.find_map(|plugin| Some((plugin.name(), plugin.pre_bind(chosen).err()?)));
        if let Some((name, reason)) = wrong {
            let message = format!("running PreBind plugin {name:?}: {reason}");
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

    /// The same where plugins have rejected it.
    fn unbind(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        (pod, node): (&wire::Pod, &str),
        rejectors: PluginSet,
    ) {
        if let Some(profile) = self.profile_of(pod) {
            self.unreserve(profile, pod, node);
        }
        self.cluster.remove_pod(&pod.metadata);
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
            match refusal {
                Some(refusal) => self.withdraw(now, key, waiting, refusal),
                None if waiting.by.is_empty() => {
                    let (pod, number) = (Arc::clone(&waiting.pod), waiting.number);
                    let outcome = self.go(now, &key, waiting);
                    self.decided.push_back(Attempt {
                        key,
                        pod,
                        number,
                        outcome,
                    });
                }
                None => {
                    self.permits.waiting.insert(key, waiting);
                }
            }
        }
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
        let Some((key, waiting)) = self.permits.waiting.remove_entry(key) else {
            return false;
        };
        self.withdraw(
            now,
            key,
            waiting,
            ("DefaultPreemption".to_owned(), "preempted".to_owned()),
        );
        true
    }

    /// A pod that waits for a permit is gone, or somebody else has bound it: what was reserved is given back. Its place is
    /// the cluster's business.
    pub(super) fn end_waiting(&mut self, pods: &Delta<wire::Pod>) {
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
        if let Some(waiting) = self.permits.waiting.remove(&key) {
            self.unreserve(waiting.profile, &waiting.pod, &waiting.node);
            self.queue.done(&key);
        }
    }
}

fn too_long(plugin: &str, timeout: SignedDuration) -> String {
    let waited = print_duration(timeout);
    format!("rejected due to timeout after waiting {waited} at plugin {plugin}")
}

/// What a pod is told that a plugin refuses on the node that was chosen.
fn refused((plugin, reason): Refusal) -> Rejected {
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
