//! The PodGroups of each queue, and the requests that follow from their changes (S6-063, S6-073).

use super::round::Request;
use super::view::View;
use evictd_batch_objects::PodGroup;
use evictd_batch_objects::bus::{Action, Event};
use std::collections::{BTreeMap, BTreeSet};

/// The PodGroups of each queue, as `namespace/name`.
#[derive(Debug, Clone, Default)]
pub struct Groups(BTreeMap<String, BTreeSet<String>>);

fn sync(queue: &str) -> Request {
    Request {
        queue: queue.to_owned(),
        event: Event::OutOfSync,
        action: Action::SyncQueue,
    }
}

/// The request of a queue that appears.
pub(crate) fn queue_added(queue: &View) -> Request {
    sync(queue.name())
}

/// The request of a queue that changed: only another queue above it is news.
pub(crate) fn queue_changed(old: &View, new: &View) -> Option<Request> {
    (old.spec.parent != new.spec.parent).then(|| sync(new.name()))
}

impl Groups {
    /// Takes a PodGroup that appears.
    pub fn group_added(&mut self, group: &PodGroup) -> Request {
        let queue = &group.spec.queue;
        self.0
            .entry(queue.clone())
            .or_default()
            .insert(group.metadata.full_name());
        sync(queue)
    }

    /// Takes a PodGroup that changed: only another phase is news. No group changes its queue.
    pub fn group_changed(&mut self, old: &PodGroup, new: &PodGroup) -> Option<Request> {
        (old.status.phase != new.status.phase).then(|| self.group_added(new))
    }

    /// A PodGroup was deleted.
    pub fn group_deleted(&mut self, group: &PodGroup) -> Request {
        let queue = &group.spec.queue;
        self.forget(queue, &group.metadata.full_name());
        sync(queue)
    }

    /// A queue was deleted.
    pub fn queue_deleted(&mut self, queue: &View) {
        self.0.remove(queue.name());
    }

    /// Forgets that a PodGroup is in the queue.
    pub fn forget(&mut self, queue: &str, key: &str) {
        if let Some(groups) = self.0.get_mut(queue) {
            groups.remove(key);
        }
    }

    /// The PodGroups in the queue.
    pub fn of(&self, queue: &str) -> impl Iterator<Item = &str> {
        let groups = self.0.get(queue).into_iter().flatten();
        groups.map(String::as_str)
    }

    /// Each queue that ever had a PodGroup, with those that it has.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &BTreeSet<String>)> {
        self.0.iter().map(|(queue, groups)| (&**queue, groups))
    }
}
