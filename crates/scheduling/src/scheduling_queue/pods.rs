//! The objects of waiting pods by key. The key is not stored beside the pod, because 100 000 pods may wait.

use evictd_pod::wire;
use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;
use std::sync::Arc;

#[derive(Debug, Default)]
pub(super) struct Pods {
    pods: HashTable<Arc<wire::Pod>>,
    hasher: DefaultHashBuilder,
}

impl Pods {
    pub(super) fn get(&self, key: &str) -> Option<&Arc<wire::Pod>> {
        let hash = self.hasher.hash_one(key);
        self.pods.find(hash, |pod| pod.metadata.has_key(key))
    }

    /// The key of a pod, shared with the pod.
    pub(super) fn key(&self, key: &str) -> Option<Arc<str>> {
        self.get(key).map(|pod| pod.metadata.key())
    }

    /// Adds a pod, or replaces the one with its key.
    pub(super) fn insert(&mut self, pod: Arc<wire::Pod>) {
        let Self { pods, hasher } = self;
        let key = pod.metadata.key();
        let hash = hasher.hash_one(&*key);
        match pods.find_mut(hash, |pod| pod.metadata.has_key(&key)) {
            Some(known) => *known = pod,
            None => {
                pods.insert_unique(hash, pod, |pod| hasher.hash_one(&*pod.metadata.key()));
            }
        }
    }

    pub(super) fn remove(&mut self, key: &str) -> Option<Arc<wire::Pod>> {
        // In a cluster without waiting pods this saves hashing every UID.
        if self.pods.is_empty() {
            return None;
        }
        let hash = self.hasher.hash_one(key);
        self.pods
            .find_entry(hash, |pod| pod.metadata.has_key(key))
            .ok()
            .map(|entry| entry.remove().0)
    }
}
