//! Where a reflector keeps its objects.

use hashbrown::{DefaultHashBuilder, HashTable};
use std::hash::BuildHasher;

/// The key of an object: its namespace and name, or another pair of texts.
pub type Key<'k> = [&'k str; 2];

/// An object with a key.
pub trait Keyed {
    /// The key.
    fn key(&self) -> Key<'_>;
}

/// Kept objects of one kind, each with its own key.
pub trait Table<K>: Default + Send {
    /// How many there are.
    fn len(&self) -> usize;
    /// Whether there is none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Puts an object in the place of the one with its key, which is returned.
    fn insert(&mut self, kept: K) -> Option<K>;
    /// Takes out the object with this key.
    fn remove(&mut self, key: Key<'_>) -> Option<K>;
    /// All objects, in no order.
    fn into_objects(self) -> impl Iterator<Item = K>;
}

/// A hash table. A key takes no room beside the object that it is part of.
#[derive(Debug)]
pub struct ByKey<K> {
    objects: HashTable<K>,
    hasher: DefaultHashBuilder,
}

impl<K> Default for ByKey<K> {
    fn default() -> Self {
        Self {
            objects: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<K> ByKey<K> {
    /// All objects, in no order.
    pub fn iter(&self) -> impl Iterator<Item = &K> {
        self.objects.iter()
    }
}

impl<K: Keyed + Send> Table<K> for ByKey<K> {
    fn len(&self) -> usize {
        self.objects.len()
    }

    fn insert(&mut self, kept: K) -> Option<K> {
        let Self { objects, hasher } = self;
        let hash = hasher.hash_one(kept.key());
        if let Some(known) = objects.find_mut(hash, |known| known.key() == kept.key()) {
            return Some(std::mem::replace(known, kept));
        }
        objects.insert_unique(hash, kept, |known| hasher.hash_one(known.key()));
        None
    }

    fn remove(&mut self, key: Key<'_>) -> Option<K> {
        let hash = self.hasher.hash_one(key);
        let found = self.objects.find_entry(hash, |known| known.key() == key);
        found.ok().map(|entry| entry.remove().0)
    }

    fn into_objects(self) -> impl Iterator<Item = K> {
        self.objects.into_iter()
    }
}
