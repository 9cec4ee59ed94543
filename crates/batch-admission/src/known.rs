//! The objects that admission reads: queues, and the queue annotation of namespaces.

use evictd_batch_objects::Queue;
use std::collections::{BTreeMap, BTreeSet};

/// The queues and namespaces of a cluster. Changes may come in any order.
#[derive(Debug, Clone, Default)]
pub struct Known {
    queues: BTreeMap<String, Queue>,
    children: BTreeMap<String, BTreeSet<String>>,
    namespaces: BTreeMap<String, String>,
}

impl Known {
    /// A queue as it is now.
    pub fn set_queue(&mut self, queue: Queue) {
        self.remove_queue(&queue.metadata.name);
        let name = queue.metadata.name.clone();
        if !queue.spec.parent.is_empty() {
            let siblings = self.children.entry(queue.spec.parent.clone());
            siblings.or_default().insert(name.clone());
        }
        self.queues.insert(name, queue);
    }

    /// A queue was deleted.
    pub fn remove_queue(&mut self, name: &str) {
        let Some(queue) = self.queues.remove(name) else {
            return;
        };
        if let Some(siblings) = self.children.get_mut(&queue.spec.parent) {
            siblings.remove(name);
            if siblings.is_empty() {
                self.children.remove(&queue.spec.parent);
            }
        }
    }

    /// A namespace with its queue annotation; `None` without one, or if the namespace was deleted.
    pub fn set_namespace(&mut self, name: &str, queue: Option<String>) {
        match queue {
            Some(queue) => self.namespaces.insert(name.to_owned(), queue),
            None => self.namespaces.remove(name),
        };
    }

    /// Names of all queues, sorted.
    pub fn queue_names(&self) -> impl Iterator<Item = &str> {
        self.queues.keys().map(String::as_str)
    }

    /// Names of all namespaces that name a queue, sorted.
    pub fn namespace_names(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// The queue, or that it does not exist, as an API server says it.
    pub(super) fn queue(&self, name: &str) -> Result<&Queue, String> {
        let found = self.queues.get(name);
        found.ok_or_else(|| format!("queue.scheduling.volcano.sh \"{name}\" not found"))
    }

    pub(super) fn queues(&self) -> impl Iterator<Item = &Queue> {
        self.queues.values()
    }

    /// The names of the queues whose parent it is. A queue without a parent is no child, although `root` is above it.
    pub(super) fn children(&self, parent: &str) -> Vec<&Queue> {
        let names = self.children.get(parent).into_iter().flatten();
        names.filter_map(|name| self.queues.get(name)).collect()
    }

    pub(super) fn queue_of_namespace(&self, namespace: &str) -> Option<&str> {
        self.namespaces.get(namespace).map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{from_value, json};

    fn queue(name: &str, parent: &str) -> Queue {
        from_value(json!({"metadata": {"name": name}, "spec": {"parent": parent}})).unwrap()
    }

    fn children<'k>(known: &'k Known, parent: &str) -> Vec<&'k str> {
        let children = known.children(parent).into_iter();
        children.map(|queue| queue.metadata.name.as_str()).collect()
    }

    #[test]
    fn children_follow_their_queues() {
        let mut known = Known::default();
        known.set_queue(queue("b", "a"));
        known.set_queue(queue("c", "a"));
        known.set_queue(queue("d", ""));
        assert_eq!(children(&known, "a"), ["b", "c"]);
        assert!(children(&known, "").is_empty());
        known.set_queue(queue("b", "c"));
        assert_eq!(children(&known, "a"), ["c"]);
        assert_eq!(children(&known, "c"), ["b"]);
        known.remove_queue("b");
        known.remove_queue("b");
        assert!(children(&known, "c").is_empty());
        assert_eq!(known.queue_names().collect::<Vec<_>>(), ["c", "d"]);
        assert_eq!(
            known.queue("b").unwrap_err(),
            "queue.scheduling.volcano.sh \"b\" not found"
        );
    }

    #[test]
    fn a_namespace_names_a_queue_until_it_does_not() {
        let mut known = Known::default();
        known.set_namespace("ns1", Some("team".to_owned()));
        assert_eq!(known.queue_of_namespace("ns1"), Some("team"));
        assert_eq!(known.namespace_names().collect::<Vec<_>>(), ["ns1"]);
        known.set_namespace("ns1", None);
        assert_eq!(known.queue_of_namespace("ns1"), None);
    }
}
