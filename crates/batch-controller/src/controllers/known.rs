//! What is known of the cluster beside the jobs and their pods.

use super::watches::{Claim, Delta, WatchedQueue};
use evictd_batch::job;
use evictd_batch::queue::{self, View};
use evictd_batch::wire::{PodGroup, TaskPod};
use evictd_pod::wire::{Metadata, PriorityClass};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The lookups of both kinds of rounds.
#[derive(Debug, Default)]
pub(super) struct Known {
    queues: BTreeMap<String, (Arc<View>, Metadata)>,
    classes: HashMap<String, i32>,
    /// `namespace/name`.
    claims: HashSet<String>,
    /// `namespace/name`.
    groups: HashMap<String, Arc<PodGroup>>,
    /// UIDs of groups that were deleted here, until their end is seen: a job that restarts must not take its old group,
    /// which was let in, for its new one.
    deleted: HashSet<Arc<str>>,
}

pub(super) fn key(metadata: &Metadata) -> String {
    metadata.full_name()
}

impl Known {
    pub(super) fn class(&mut self, delta: &Delta<PriorityClass>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                self.classes.insert(new.metadata.name.clone(), new.value);
            }
            (Some(old), None) => {
                self.classes.remove(&old.metadata.name);
            }
            (None, None) => {}
        }
    }

    pub(super) fn claim(&mut self, delta: &Delta<Claim>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                self.claims.insert(key(&new.metadata));
            }
            (Some(old), None) => {
                self.claims.remove(&key(&old.metadata));
            }
            (None, None) => {}
        }
    }

    pub(super) fn queue(&mut self, delta: &Delta<WatchedQueue>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                let view = Arc::new(new.view());
                let queue = (view, new.metadata.clone());
                self.queues.insert(new.metadata.name.clone(), queue);
            }
            (Some(old), None) => {
                self.queues.remove(&old.metadata.name);
            }
            (None, None) => {}
        }
    }

    /// Takes a change of a group; returns whether a job should hear of it: of one that was deleted here it should not.
    pub(super) fn group(&mut self, delta: &Delta<PodGroup>) -> bool {
        match (&delta.old, &delta.new) {
            (_, Some(new)) if self.deleted.contains(&new.metadata.uid) => return false,
            (_, Some(new)) => {
                self.groups.insert(key(&new.metadata), Arc::clone(new));
            }
            (Some(old), None) => {
                let ours = self.deleted.remove(&old.metadata.uid);
                let key = key(&old.metadata);
                let same = |group: &Arc<PodGroup>| group.metadata.uid == old.metadata.uid;
                if self.groups.get(&key).is_some_and(same) {
                    self.groups.remove(&key);
                }
                return !ours;
            }
            (None, None) => return false,
        }
        true
    }

    /// A group was deleted here.
    pub(super) fn group_deleted(&mut self, namespace: &str, name: &str) {
        if let Some(group) = self.groups.remove(&format!("{namespace}/{name}")) {
            self.deleted.insert(Arc::clone(&group.metadata.uid));
        }
    }

    /// What identifies a queue.
    pub(super) fn queue_metadata(&self, name: &str) -> Option<&Metadata> {
        self.queues.get(name).map(|(_, metadata)| metadata)
    }
}

impl job::Lister for Known {
    fn has_queue(&self, name: &str) -> bool {
        self.queues.contains_key(name)
    }

    fn priority(&self, class: &str) -> Option<i32> {
        self.classes.get(class).copied()
    }

    fn has_claim(&self, namespace: &str, name: &str) -> bool {
        self.claims.contains(&format!("{namespace}/{name}"))
    }

    fn pod_group(&self, namespace: &str, name: &str) -> Option<Arc<PodGroup>> {
        self.groups.get(&format!("{namespace}/{name}")).cloned()
    }

    /// A job knows all its pods itself.
    fn pod(&self, _: &str, _: &str) -> Option<Arc<TaskPod>> {
        None
    }
}

impl queue::Lister for Known {
    fn queue(&self, name: &str) -> Option<Arc<View>> {
        self.queues.get(name).map(|(view, _)| Arc::clone(view))
    }

    fn children(&self, name: &str) -> Vec<Arc<View>> {
        let queues = self.queues.values().map(|(view, _)| view);
        queues
            .filter(|view| view.spec.parent == name)
            .cloned()
            .collect()
    }

    fn has_group(&self, key: &str) -> bool {
        self.groups.contains_key(key)
    }
}
