//! The objects of the cluster that the controllers look up, besides the jobs and their pods.

use super::watches::{Delta, PersistentVolumeClaim, WatchedQueue};
use evictd_batch_jobs::job;
use evictd_batch_jobs::queue::{self, View};
use evictd_batch_objects::{PodGroup, TaskPod};
use evictd_pod::wire::{Metadata, PriorityClass, full_name};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The listers of both state machines.
#[derive(Debug, Default)]
pub(super) struct Cache {
    queues: BTreeMap<String, CachedQueue>,
    priority_classes: HashMap<String, i32>,
    /// By `namespace/name`.
    claims: HashSet<String>,
    /// By `namespace/name`.
    pod_groups: HashMap<String, Arc<PodGroup>>,
    /// UIDs of pod groups that this process has deleted, until a watch shows their end. A restarted job must not take its old
    /// group, which was enqueued, for the new one.
    deleted_pod_groups: HashSet<Arc<str>>,
}

#[derive(Debug)]
struct CachedQueue {
    view: Arc<View>,
    metadata: Metadata,
}

impl Cache {
    pub(super) fn update_priority_class(&mut self, delta: &Delta<PriorityClass>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                self.priority_classes
                    .insert(new.metadata.name.clone(), new.value);
            }
            (Some(old), None) => {
                self.priority_classes.remove(&old.metadata.name);
            }
            (None, None) => {}
        }
    }

    pub(super) fn update_claim(&mut self, delta: &Delta<PersistentVolumeClaim>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                self.claims.insert(new.metadata.full_name());
            }
            (Some(old), None) => {
                self.claims.remove(&old.metadata.full_name());
            }
            (None, None) => {}
        }
    }

    pub(super) fn update_queue(&mut self, delta: &Delta<WatchedQueue>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                let queue = CachedQueue {
                    view: Arc::new(new.view()),
                    metadata: new.metadata.clone(),
                };
                self.queues.insert(new.metadata.name.clone(), queue);
            }
            (Some(old), None) => {
                self.queues.remove(&old.metadata.name);
            }
            (None, None) => {}
        }
    }

    /// Returns whether the change concerns the job. The end of a group that this process has deleted does not.
    pub(super) fn update_pod_group(&mut self, delta: &Delta<PodGroup>) -> bool {
        match (&delta.old, &delta.new) {
            (_, Some(new)) if self.deleted_pod_groups.contains(&new.metadata.uid) => return false,
            (_, Some(new)) => {
                self.pod_groups
                    .insert(new.metadata.full_name(), Arc::clone(new));
            }
            (Some(old), None) => {
                let ours = self.deleted_pod_groups.remove(&old.metadata.uid);
                let key = old.metadata.full_name();
                // A new group may have the name already.
                let same = |group: &Arc<PodGroup>| group.metadata.uid == old.metadata.uid;
                if self.pod_groups.get(&key).is_some_and(same) {
                    self.pod_groups.remove(&key);
                }
                return !ours;
            }
            (None, None) => return false,
        }
        true
    }

    /// This process has deleted a pod group.
    pub(super) fn pod_group_deleted(&mut self, namespace: &str, name: &str) {
        if let Some(group) = self.pod_groups.remove(&full_name(namespace, name)) {
            self.deleted_pod_groups
                .insert(Arc::clone(&group.metadata.uid));
        }
    }

    pub(super) fn queue_metadata(&self, name: &str) -> Option<&Metadata> {
        self.queues.get(name).map(|queue| &queue.metadata)
    }
}

impl job::Lister for Cache {
    fn has_queue(&self, name: &str) -> bool {
        self.queues.contains_key(name)
    }

    fn priority(&self, class: &str) -> Option<i32> {
        self.priority_classes.get(class).copied()
    }

    fn has_claim(&self, namespace: &str, name: &str) -> bool {
        self.claims.contains(&full_name(namespace, name))
    }

    fn pod_group(&self, namespace: &str, name: &str) -> Option<Arc<PodGroup>> {
        self.pod_groups.get(&full_name(namespace, name)).cloned()
    }

    /// The machine of a job has all its pods.
    fn pod(&self, _: &str, _: &str) -> Option<Arc<TaskPod>> {
        None
    }
}

impl queue::Lister for Cache {
    fn queue(&self, name: &str) -> Option<Arc<View>> {
        self.queues.get(name).map(|queue| Arc::clone(&queue.view))
    }

    fn children(&self, name: &str) -> Vec<Arc<View>> {
        self.queues
            .values()
            .map(|queue| &queue.view)
            .filter(|view| view.spec.parent == name)
            .cloned()
            .collect()
    }

    fn has_group(&self, key: &str) -> bool {
        self.pod_groups.contains_key(key)
    }
}
