//! The objects of one kind as they were last seen, and the changes by a list or an event.

use super::{Budget, Follow, Keyed, Parsed, Store, Table, Unreadable};
use std::collections::HashMap;
use tracing::warn;

/// Follows one kind of objects for a [`Store`].
#[derive(Debug)]
pub struct Reflector<S: Store> {
    store: S,
    known: S::Table,
    /// During a list: objects that the list has not contained yet. Those left at its end are deleted.
    unlisted: Option<S::Table>,
    /// Large objects, by their keys, and how many bytes of the budget each has.
    large: HashMap<[Box<str>; 2], usize>,
    budget: Budget,
    /// The path of the collection, for reports of an unreadable object.
    path: &'static str,
}

impl<S: Store> Reflector<S> {
    /// A reflector of the collection at this path, that knows nothing yet.
    pub fn new(path: &'static str, store: S, budget: &Budget) -> Self {
        Self {
            store,
            known: S::Table::default(),
            unlisted: None,
            large: HashMap::new(),
            budget: budget.clone(),
            path,
        }
    }

    /// Starts with objects kept from before a restart. Those that the first list lacks are deleted.
    #[must_use]
    pub fn with(mut self, kept: impl IntoIterator<Item = S::Kept>) -> Self {
        for kept in kept {
            self.known.insert(kept);
        }
        self
    }

    /// The store.
    pub const fn store(&self) -> &S {
        &self.store
    }

    /// The store.
    pub const fn store_mut(&mut self) -> &mut S {
        &mut self.store
    }

    /// The path of the collection.
    pub const fn path(&self) -> &'static str {
        self.path
    }

    /// How many objects are known.
    pub fn len(&self) -> usize {
        self.known.len() + self.unlisted.as_ref().map_or(0, Table::len)
    }

    /// Whether no object is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn take(&mut self, key: [&str; 2]) -> Option<S::Kept> {
        let unlisted = self.unlisted.as_mut();
        let known = self.known.remove(key);
        known.or_else(|| unlisted?.remove(key))
    }

    /// Gives back the object's part of the budget.
    fn release(&mut self, key: [&str; 2]) {
        if self.large.is_empty() {
            return;
        }
        let key = key.map(Box::from);
        if let Some(bytes) = self.large.remove(&key) {
            self.budget.give_back(&key[0], bytes);
        }
    }

    /// Has the object's bytes taken from the budget, instead of those that it had before; false if there are too few.
    fn fits(&mut self, object: &S::Object, bytes: usize) -> bool {
        let key = S::key(object);
        if !Budget::counts(bytes) {
            self.release(key);
            return true;
        }
        let bytes = S::size(object, bytes);
        let owned = key.map(Box::from);
        let before = self.large.remove(&owned).unwrap_or(0);
        self.budget.give_back(key[0], before);
        if self.budget.take(key[0], bytes) {
            if Budget::counts(bytes) {
                self.large.insert(owned, bytes);
            }
            return true;
        }
        // The kept part of it stays, with its bytes.
        if before > 0 && self.budget.take(key[0], before) {
            self.large.insert(owned, before);
        }
        false
    }

    fn cannot_read(&mut self, object: &Unreadable) {
        let (path, name) = (self.path, object.outline.full_name());
        let key = S::key_of(&object.outline);
        let mut old = self.take(key);
        let version = object.outline.version.as_str();
        if let Some(same) = old.take_if(|old| !version.is_empty() && S::has_version(old, version)) {
            self.known.insert(same);
            return;
        }
        let uid = object.outline.uid.as_str();
        // Nothing of the object before is true of its successor of the same name.
        if let Some(other) = old.take_if(|old| !uid.is_empty() && !S::has_uid(old, uid)) {
            self.release(key);
            self.store.gone(other, None);
        }
        let stays = if old.is_some() {
            "its last known state stays"
        } else {
            "it is left out"
        };
        if S::LOGS {
            warn!(
                "{path}: {name:?} cannot be read, {stays}: {}",
                object.problem
            );
        }
        if let Some(kept) = self.store.unreadable(old.as_ref(), object).or(old) {
            self.known.insert(kept);
        }
    }
}

impl<S: Store> Follow for Reflector<S> {
    type Object = S::Object;

    fn version(object: &S::Object) -> &str {
        S::version(object)
    }

    fn begin(&mut self) {
        let mut known = std::mem::take(&mut self.known);
        // Left by a list that was broken off.
        let unlisted = self.unlisted.take().into_iter();
        for kept in unlisted.flat_map(Table::into_objects) {
            known.insert(kept);
        }
        self.unlisted = Some(known);
        self.store.begin();
    }

    fn applied(&mut self, object: Parsed<S::Object>, bytes: usize) {
        let mut object = match object {
            Ok(object) => object,
            Err(object) => return self.cannot_read(&object),
        };
        self.store.tidy(&mut object);
        let mut old = self.take(S::key(&object));
        let version = S::version(&object);
        // A list repeats known objects. The shared object stays the same.
        if let Some(same) = old.take_if(|old| !version.is_empty() && S::has_version(old, version)) {
            self.known.insert(same);
            return;
        }
        if !self.fits(&object, bytes) {
            if let Some(old) = old {
                self.known.insert(old);
            }
            let problem = "the large objects of its namespace, or of all, take too much memory";
            return self.cannot_read(&Unreadable {
                outline: S::outline(&object).into(),
                problem: problem.to_owned(),
            });
        }
        let kept = self.store.applied(old, object);
        self.known.insert(kept);
    }

    fn deleted(&mut self, object: Parsed<S::Object>) {
        let (old, last) = match object {
            Ok(object) => {
                self.release(S::key(&object));
                (self.take(S::key(&object)), Some(object))
            }
            Err(object) => {
                let key = S::key_of(&object.outline);
                self.release(key);
                (self.take(key), None)
            }
        };
        // An object that was never seen is no change.
        if let Some(old) = old {
            self.store.gone(old, last);
        }
    }

    fn up_to_date(&mut self) {
        if let Some(gone) = self.unlisted.take() {
            for old in gone.into_objects() {
                self.release(old.key());
                self.store.gone(old, None);
            }
            tracing::debug!("{} known of {}", self.known.len(), self.path);
        }
        self.store.up_to_date();
    }

    fn room(&mut self) -> impl Future<Output = ()> + Send {
        self.store.room()
    }

    fn asked(&mut self) -> impl Future<Output = ()> + Send {
        self.store.asked()
    }

    fn answer(&mut self) {
        // During a list, an object that was not listed yet still counts.
        let tables: Vec<&S::Table> = [&self.known].into_iter().chain(&self.unlisted).collect();
        self.store.answer(&tables);
    }
}
