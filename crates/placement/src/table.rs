//! Tables of values with the references that they hold: shared values by index, and objects by name.

use crate::symbol::{Held, Symbols};
use hashbrown::{DefaultHashBuilder, HashMap, HashTable};
use std::hash::{BuildHasher, Hash};

/// Values that are interned: each is kept once, as long as it has references.
#[derive(Debug)]
pub(crate) struct Table<T> {
    /// By index. A free entry is the default value and has no references.
    items: Vec<T>,
    uses: Vec<Use>,
    free: Vec<u32>,
    known: HashTable<u32>,
    hasher: DefaultHashBuilder,
}

#[derive(Debug, Default)]
struct Use {
    references: usize,
    held: Held,
}

impl<T> Default for Table<T> {
    fn default() -> Self {
        Self {
            items: Vec::new(),
            uses: Vec::new(),
            free: Vec::new(),
            known: HashTable::new(),
            hasher: DefaultHashBuilder::default(),
        }
    }
}

impl<T: Hash + Eq + Default> Table<T> {
    /// Interns a value that was just built from these symbols and takes a reference.
    pub(crate) fn intern(&mut self, symbols: &mut Symbols, item: T) -> u32 {
        let hash = self.hasher.hash_one(&item);
        let items = &self.items;
        if let Some(index) = self
            .known
            .find(hash, |known| items[*known as usize] == item)
        {
            // The first value holds references to the same symbols.
            symbols.give_back();
            self.uses[*index as usize].references += 1;
            return *index;
        }
        let new = Use {
            references: 1,
            held: symbols.hold(),
        };
        let index = if let Some(index) = self.free.pop() {
            self.items[index as usize] = item;
            self.uses[index as usize] = new;
            index
        } else {
            self.items.push(item);
            self.uses.push(new);
            // The machine cannot hold 2^32 values in memory, so the fallback is never used.
            u32::try_from(self.items.len() - 1).unwrap_or(u32::MAX)
        };
        let (items, hasher) = (&self.items, &self.hasher);
        self.known.insert_unique(hash, index, |known| {
            hasher.hash_one(&items[*known as usize])
        });
        index
    }

    /// Whether the next release frees the value.
    pub(crate) fn is_last(&self, index: u32) -> bool {
        self.uses[index as usize].references == 1
    }

    /// Releases a reference; the last one frees the value.
    pub(crate) fn release(&mut self, symbols: &mut Symbols, index: u32) {
        let slot = &mut self.uses[index as usize];
        slot.references -= 1;
        if slot.references > 0 {
            return;
        }
        symbols.release_held(&std::mem::take(slot).held);
        let item = std::mem::take(&mut self.items[index as usize]);
        let entry = self
            .known
            .find_entry(self.hasher.hash_one(&item), |known| *known == index);
        if let Ok(entry) = entry {
            entry.remove();
        }
        self.free.push(index);
    }

    /// All values by index; a free entry is the default value.
    pub(crate) fn items(&self) -> &[T] {
        &self.items
    }

    /// How many values are in use.
    pub(crate) fn count(&self) -> usize {
        self.items.len() - self.free.len()
    }
}

/// Objects of one kind by their key.
#[derive(Debug)]
pub(crate) struct Objects<K, V>(HashMap<K, (V, Held)>);

impl<K, V> Default for Objects<K, V> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<K: Hash + Eq, V> Objects<K, V> {
    /// Adds or replaces an object that was just built from these symbols.
    pub(crate) fn put(&mut self, symbols: &mut Symbols, key: K, value: V) {
        if let Some((_, held)) = self.0.insert(key, (value, symbols.hold())) {
            symbols.release_held(&held);
        }
    }

    /// Removes an object. Returns whether it existed.
    pub(crate) fn remove(&mut self, symbols: &mut Symbols, key: &K) -> bool {
        let removed = self.0.remove(key);
        if let Some((_, held)) = &removed {
            symbols.release_held(held);
        }
        removed.is_some()
    }

    pub(crate) fn get(&self, key: &K) -> Option<&V> {
        self.0.get(key).map(|(value, _)| value)
    }

    pub(crate) fn contains_key(&self, key: &K) -> bool {
        self.0.contains_key(key)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&K, &V)> {
        self.0.iter().map(|(key, (value, _))| (key, value))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
