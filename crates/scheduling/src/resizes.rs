//! Pods whose in-place resize their node has deferred (S7-240, S7-245). Their life as pods without a node has ended, so they are
//! in no queue of pods. Each resize is tried, and then parked until something changes on its node.

use crate::change::{Change, Delta, is_assigned, is_same};
use crate::events::counted_both;
use evictd_pod::{Counted, Node, Requests, wire};
use jiff::{SignedDuration, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A deferred resize.
#[derive(Debug)]
pub struct DeferredResize {
    /// The pod as it was last seen.
    pub pod: Arc<wire::Pod>,
    /// Since when it waits, or when it was last tried.
    pub since: Timestamp,
    /// How often it was tried.
    pub attempts: u32,
    /// The reason that it waits; empty before the first attempt.
    pub message: String,
    /// Whether its victims could not be deleted.
    has_failed: bool,
}

impl DeferredResize {
    fn new(now: Timestamp, pod: &Arc<wire::Pod>) -> Self {
        Self {
            pod: Arc::clone(pod),
            since: now,
            attempts: 0,
            message: String::new(),
            has_failed: false,
        }
    }

    fn turn(&self, key: &Arc<str>) -> Turn {
        let priority = self.pod.spec.priority.unwrap_or(0);
        (Reverse(priority), self.since, Arc::clone(key))
    }
}

/// When a resize is tried: the highest priority first, then the one that waits longest.
type Turn = (Reverse<i32>, Timestamp, Arc<str>);

/// The deferred resizes by the keys of their pods.
///
/// A tenant can have any number of them, so neither an event nor an attempt visits all.
#[derive(Debug, Default)]
pub(crate) struct DeferredResizes {
    pods: BTreeMap<Arc<str>, DeferredResize>,
    /// The keys by node.
    on_node: BTreeMap<Box<str>, BTreeSet<Arc<str>>>,
    /// Those that are not parked.
    active: BTreeSet<Turn>,
    /// The nodes that do not allow preemption for resizes.
    disabled: BTreeSet<Box<str>>,
}

/// Whether the node of a pod has deferred its resize and allows preemption for it (S7-240, S7-246).
fn is_deferred(pod: &wire::Pod) -> bool {
    let condition = |kind: &str| {
        let mut conditions = pod.status.conditions.iter();
        conditions.find(|condition| condition.holds(kind))
    };
    is_assigned(pod)
        && !pod.status.phase.has_ended()
        && pod.metadata.deletion_timestamp.is_none()
        && condition("PodResizePending").is_some_and(|pending| pending.reason == "Deferred")
        && condition("PodResizePreemptionDisabled").is_none()
}

impl DeferredResizes {
    /// An object was added, changed or deleted. `is_responsible` says whether the scheduler has a profile for a pod.
    pub(crate) fn on(
        &mut self,
        now: Timestamp,
        change: &Change,
        is_responsible: impl Fn(&wire::Pod) -> bool,
    ) {
        match change {
            Change::Pod(pods) => {
                self.track(now, pods, is_responsible);
                self.on_pod(pods);
            }
            Change::Node(nodes) => self.on_node(nodes),
            _ => {}
        }
    }

    /// Adds, updates or removes the resize of a pod.
    fn track(
        &mut self,
        now: Timestamp,
        pods: &Delta<wire::Pod>,
        is_responsible: impl Fn(&wire::Pod) -> bool,
    ) {
        if let Some(old) = &pods.old
            && pods
                .new
                .as_ref()
                .is_none_or(|new| !is_same(&old.metadata, &new.metadata))
        {
            self.remove(&old.metadata.key());
        }
        let Some(new) = &pods.new else {
            return;
        };
        let key = new.metadata.key();
        let old = self.remove(&key);
        if !is_deferred(new) || !is_responsible(new) {
            return;
        }
        let desired = |pod: &wire::Pod| Requests::of(pod, Counted::Desired).list();
        let (resize, is_active) = match old {
            Some((old, was_active)) => {
                let is_changed = desired(&old.pod) != desired(new);
                let pod = Arc::clone(new);
                (DeferredResize { pod, ..old }, was_active || is_changed)
            }
            None => (DeferredResize::new(now, new), true),
        };
        if is_active {
            self.active.insert(resize.turn(&key));
        }
        let node = new.spec.node_name.as_str().into();
        let on_node = self.on_node.entry(node).or_default();
        on_node.insert(Arc::clone(&key));
        self.pods.insert(key, resize);
    }

    /// Removes a resize. Returns it, and whether it was active.
    fn remove(&mut self, key: &Arc<str>) -> Option<(DeferredResize, bool)> {
        let resize = self.pods.remove(key)?;
        let node = resize.pod.spec.node_name.as_str();
        if let Some(on_node) = self.on_node.get_mut(node) {
            on_node.remove(key);
            if on_node.is_empty() {
                self.on_node.remove(node);
            }
        }
        let was_active = self.active.remove(&resize.turn(key));
        Some((resize, was_active))
    }

    /// A pod that leaves a node or is resized wakes the others there.
    fn on_pod(&mut self, pods: &Delta<wire::Pod>) {
        let Some(old) = pods.old.as_ref().filter(|old| is_assigned(old)) else {
            return;
        };
        if self.pods.is_empty() {
            return;
        }
        let stays = |new: &&Arc<wire::Pod>| {
            is_same(&old.metadata, &new.metadata) && !new.status.phase.has_ended()
        };
        let is_unchanged = match pods.new.as_ref().filter(stays) {
            Some(new) => counted_both(old, new).all(|[old, new]| old == new),
            None => old.status.phase.has_ended(),
        };
        if !is_unchanged {
            self.wake(&old.spec.node_name, &old.metadata.key());
        }
    }

    fn on_node(&mut self, nodes: &Delta<Node>) {
        let disables = |node: &Node| {
            !node
                .spec
                .pod_preemption_policy
                .disable_resize_preemption
                .is_empty()
        };
        let Some(new) = &nodes.new else {
            if let Some(old) = &nodes.old {
                self.disabled.remove(&*old.metadata.name);
            }
            return;
        };
        let name = new.metadata.name.as_str();
        let was_disabled = self.disabled.contains(name);
        if disables(new) {
            self.disabled.insert(name.into());
        } else {
            self.disabled.remove(name);
        }
        let has_more = |old: &Node| {
            let mut amounts = new.status.allocatable.iter();
            amounts.any(|(name, amount)| {
                old.status
                    .allocatable
                    .get(name)
                    .is_none_or(|old| old < amount)
            })
        };
        let wakes = nodes
            .old
            .as_ref()
            .is_none_or(|old| was_disabled || has_more(old));
        if wakes && !disables(new) {
            self.wake(name, "");
        }
    }

    /// Tries the resizes on a node again, except that of one pod.
    fn wake(&mut self, node: &str, except: &str) {
        let keys = self.on_node.get(node).into_iter().flatten();
        for key in keys.filter(|key| ***key != *except) {
            if let Some(resize) = self.pods.get(key) {
                self.active.insert(resize.turn(key));
            }
        }
    }

    /// The next resize to try. It is parked from then on.
    pub(crate) fn next(&mut self) -> Option<(Arc<str>, Arc<wire::Pod>)> {
        let (.., key) = self.active.pop_first()?;
        let resize = self.pods.get_mut(&key)?;
        resize.has_failed = false;
        let pod = Arc::clone(&resize.pod);
        Some((key, pod))
    }

    /// Stores the reason for which the attempt of a resize just failed. Returns the number of its attempts.
    pub(crate) fn park(&mut self, now: Timestamp, key: &str, message: &str) -> u32 {
        let Some(resize) = self.pods.get_mut(key) else {
            return 1;
        };
        resize.since = now;
        resize.attempts = resize.attempts.saturating_add(1);
        message.clone_into(&mut resize.message);
        resize.attempts
    }

    /// Notes that the victims of a resize could not be deleted. It is not tried at once, because that may fail again and again.
    pub(crate) fn failed(&mut self, key: &str, why: &str) {
        if let Some(resize) = self.pods.get_mut(key) {
            resize.has_failed = true;
            resize.message = format!("its victims could not be deleted: {why}");
        }
    }

    /// Tries those again that have failed, or have waited longer than this in case an event was missed.
    pub(crate) fn flush(&mut self, now: Timestamp, longest: SignedDuration) {
        for (key, resize) in &self.pods {
            if resize.has_failed || now.duration_since(resize.since) > longest {
                self.active.insert(resize.turn(key));
            }
        }
    }

    pub(crate) fn is_disabled(&self, node: &str) -> bool {
        self.disabled.contains(node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &DeferredResize> {
        self.pods.values()
    }
}
