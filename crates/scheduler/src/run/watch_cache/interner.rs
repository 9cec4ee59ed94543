//! Equal values of different objects are stored once.

use evictd_pod::wire::{self, Shared};
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io;

#[derive(Default)]
pub(in crate::run) struct Interner {
    pub(super) specs: Interned<wire::PodSpec>,
    pub(super) statuses: Interned<wire::PodStatus>,
    pub(super) owners: Interned<Vec<wire::OwnerReference>>,
    pub(super) labels: Interned<wire::TextMap>,
    /// Namespaces and nodes.
    pub(super) names: Interned<String>,
}

pub(super) struct Interned<T> {
    /// By their hash, see [`Interned::id`].
    pub(super) values: HashMap<u128, Shared<T>>,
    /// How many values were in use when unused ones were last dropped.
    left: usize,
    keys: [RandomState; 2],
}

impl<T> Default for Interned<T> {
    fn default() -> Self {
        Self {
            values: HashMap::new(),
            left: 0,
            keys: Default::default(),
        }
    }
}

impl<T: Serialize> Interned<T> {
    /// Replaces a value by an equal one that is known.
    pub(super) fn share(&mut self, value: &mut Shared<T>) {
        let id = self.id(&**value);
        if let Some(known) = self.values.get(&id) {
            *value = known.clone();
            return;
        }
        // Only when the number has doubled, so that the cost of each value stays constant.
        if self.values.len() > 2 * self.left + 1024 {
            self.values.retain(|_, value| !Shared::is_sole(value));
            self.left = self.values.len();
        }
        self.values.insert(id, value.clone());
    }

    pub(super) fn shared(&mut self, value: T) -> Shared<T> {
        let mut value = Shared::from(value);
        self.share(&mut value);
        value
    }

    /// A hash of 128 bits. Its keys are random for each process, so that the author of a pod cannot make two values collide.
    fn id(&self, value: &T) -> u128 {
        let mut hashed = Hashed(self.keys.each_ref().map(BuildHasher::build_hasher));
        // This cannot fail, because the keys of all maps are texts.
        let _ = serde_json::to_writer(&mut hashed, value);
        let [high, low] = hashed.0.map(|hasher| u128::from(hasher.finish()));
        high << 64 | low
    }
}

/// A writer that hashes.
struct Hashed([DefaultHasher; 2]);

impl io::Write for Hashed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for hasher in &mut self.0 {
            hasher.write(bytes);
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
