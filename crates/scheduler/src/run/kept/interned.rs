//! Values of which equal ones are kept once.

use evictd_pod::wire::{self, Shared};
use serde::Serialize;
use std::collections::HashMap;
use std::hash::{BuildHasher, DefaultHasher, Hasher, RandomState};
use std::io;

/// What is kept once, however many pods have it.
#[derive(Default)]
pub(in crate::run) struct Texts {
    pub(super) specs: Interned<wire::PodSpec>,
    pub(super) statuses: Interned<wire::PodStatus>,
    pub(super) owners: Interned<Vec<wire::OwnerReference>>,
    pub(super) labels: Interned<wire::TextMap>,
    /// Namespaces, nodes and phases.
    pub(super) names: Interned<String>,
}

/// Values of which equal ones are kept once, by what identifies them.
pub(super) struct Interned<T> {
    pub(super) values: HashMap<u128, Shared<T>>,
    /// How many were left when those of nobody were last forgotten.
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
    /// Has equal values share one.
    pub(super) fn share(&mut self, value: &mut Shared<T>) {
        let id = self.id(&**value);
        if let Some(known) = self.values.get(&id) {
            *value = known.clone();
            return;
        }
        if self.values.len() > 2 * self.left + 1024 {
            self.values.retain(|_, value| !Shared::is_sole(value));
            self.left = self.values.len();
        }
        self.values.insert(id, value.clone());
    }

    /// The same value as others have.
    pub(super) fn shared(&mut self, value: T) -> Shared<T> {
        let mut value = Shared::from(value);
        self.share(&mut value);
        value
    }

    /// 128 bits of a hash with keys of this process, so that no author of a pod can have two values taken for one.
    fn id(&self, value: &T) -> u128 {
        let mut hashed = Hashed(self.keys.each_ref().map(BuildHasher::build_hasher));
        // Nothing of a pod fails to become JSON: its keys are texts.
        let _ = serde_json::to_writer(&mut hashed, value);
        let [high, low] = hashed.0.map(|hasher| u128::from(hasher.finish()));
        high << 64 | low
    }
}

/// Hashes what is written.
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
