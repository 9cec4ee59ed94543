//! Pods whose in-place resize their node has deferred (S7-240, S7-245). They have a node, so they are in no queue of pods: each is
//! tried, and then parked until something changes on its node.

use crate::change::{Change, Delta, is_assigned, is_same};
use crate::events::counted;
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
    /// What it waits for; empty before the first attempt.
    pub message: String,
    /// Whether it is tried next.
    pub is_active: bool,
    /// Whether its victims could not be deleted.
    has_failed: bool,
}

/// The deferred resizes by the keys of their pods.
#[derive(Debug, Default)]
pub(crate) struct DeferredResizes {
    pods: BTreeMap<Arc<str>, DeferredResize>,
    /// The nodes that do not allow preemption for resizes.
    disabled: BTreeSet<Box<str>>,
}

/// Whether the node of a pod has deferred its resize and allows preemption for it (S7-240, S7-246).
fn is_deferred(pod: &wire::Pod) -> bool {
    let holds = |kind: &str, reason: &str| {
        let mut conditions = pod.status.conditions.iter();
        conditions.any(|condition| {
            condition.holds(kind) && (reason.is_empty() || condition.reason == reason)
        })
    };
    is_assigned(pod)
        && !pod.status.phase.has_ended()
        && pod.metadata.deletion_timestamp.is_none()
        && holds("PodResizePending", "Deferred")
        && !holds("PodResizePreemptionDisabled", "")
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
            self.pods.remove(&old.metadata.key());
        }
        let Some(new) = &pods.new else {
            return;
        };
        let key = new.metadata.key();
        if !is_deferred(new) || !is_responsible(new) {
            self.pods.remove(&key);
            return;
        }
        let desired = |pod: &wire::Pod| Requests::of(pod, Counted::Desired).list();
        if let Some(known) = self.pods.get_mut(&key) {
            known.is_active |= desired(&known.pod) != desired(new);
            known.pod = Arc::clone(new);
        } else {
            let resize = DeferredResize {
                pod: Arc::clone(new),
                since: now,
                attempts: 0,
                message: String::new(),
                is_active: true,
                has_failed: false,
            };
            self.pods.insert(key, resize);
        }
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
            Some(new) => counted(old) == counted(new),
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
        for (key, resize) in &mut self.pods {
            if resize.pod.spec.node_name == node && **key != *except {
                resize.is_active = true;
            }
        }
    }

    /// The next resize to try, the highest priority first. It is parked from then on.
    pub(crate) fn next(&mut self) -> Option<(Arc<str>, Arc<wire::Pod>)> {
        let active = self.pods.iter_mut().filter(|(_, resize)| resize.is_active);
        let (key, resize) = active.min_by_key(|(_, resize)| {
            let priority = resize.pod.spec.priority.unwrap_or(0);
            (Reverse(priority), resize.since)
        })?;
        resize.is_active = false;
        resize.has_failed = false;
        Some((Arc::clone(key), Arc::clone(&resize.pod)))
    }

    /// Notes what a resize waits for. Returns how often it was tried.
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
        for resize in self.pods.values_mut() {
            let has_waited = now.duration_since(resize.since) > longest;
            resize.is_active |= has_waited || resize.has_failed;
        }
    }

    pub(crate) fn is_disabled(&self, node: &str) -> bool {
        self.disabled.contains(node)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &DeferredResize> {
        self.pods.values()
    }
}
