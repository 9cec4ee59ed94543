//! The objects, and every change that they went through.

use crate::resource::Resource;
use crate::select::Selection;
use serde_json::Value;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

/// Changes that are remembered; watches that are further behind get 410.
const REMEMBERED: usize = 20_000;

/// Where an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) stored: &'static str,
    /// Empty for objects without a namespace.
    pub(crate) namespace: String,
    pub(crate) name: String,
}

/// One change.
#[derive(Debug, Clone)]
pub(crate) struct Change {
    pub(crate) version: u64,
    pub(crate) key: Key,
    pub(crate) before: Option<Arc<Value>>,
    /// As it is now, or was at last with the version of its end.
    pub(crate) object: Arc<Value>,
    pub(crate) gone: bool,
}

impl Change {
    /// The event of this change for a watch of this selection. An object that is no longer selected looks deleted.
    pub(crate) fn seen(&self, selection: &Selection) -> Option<(&'static str, Arc<Value>)> {
        let was = self
            .before
            .as_ref()
            .filter(|before| selection.matches(before));
        let is = !self.gone && selection.matches(&self.object);
        match (was, is) {
            (None, false) => None,
            (None, true) => Some(("ADDED", Arc::clone(&self.object))),
            (Some(_), true) => Some(("MODIFIED", Arc::clone(&self.object))),
            (Some(before), false) => Some(("DELETED", Arc::new(stamped(before, self.version)))),
        }
    }
}

fn stamped(object: &Value, version: u64) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = version.to_string().into();
    object
}

#[derive(Debug)]
pub(crate) struct Store {
    /// Of the last change.
    pub(crate) version: u64,
    /// Changes up to this version are forgotten.
    pub(crate) compacted: u64,
    objects: BTreeMap<Key, Arc<Value>>,
    changes: VecDeque<Change>,
}

impl Store {
    pub(crate) fn new() -> Self {
        // 0 means "any version" to a client.
        Self {
            version: 1,
            compacted: 0,
            objects: BTreeMap::new(),
            changes: VecDeque::new(),
        }
    }

    pub(crate) fn get(&self, key: &Key) -> Option<&Arc<Value>> {
        self.objects.get(key)
    }

    /// Every object of a kind in a namespace (`""`: in all) in the order of their keys.
    pub(crate) fn list<'a>(
        &'a self,
        stored: &'static str,
        namespace: &'a str,
    ) -> impl Iterator<Item = (&'a Key, &'a Arc<Value>)> {
        let first = Key {
            stored,
            namespace: namespace.to_owned(),
            name: String::new(),
        };
        self.objects
            .range((Bound::Included(first), Bound::Unbounded))
            .take_while(move |(key, _)| {
                key.stored == stored && (namespace.is_empty() || key.namespace == namespace)
            })
    }

    /// The same as it was at a version that is remembered.
    pub(crate) fn list_at(
        &self,
        resource: &Resource,
        namespace: &str,
        version: u64,
    ) -> BTreeMap<Key, Arc<Value>> {
        let mut objects: BTreeMap<Key, Arc<Value>> = self
            .list(resource.stored, namespace)
            .map(|(key, object)| (key.clone(), Arc::clone(object)))
            .collect();
        for change in self
            .changes
            .iter()
            .rev()
            .take_while(|change| change.version > version)
        {
            let elsewhere = !namespace.is_empty() && change.key.namespace != namespace;
            if change.key.stored != resource.stored || elsewhere {
                continue;
            }
            match &change.before {
                Some(before) => objects.insert(change.key.clone(), Arc::clone(before)),
                None => objects.remove(&change.key),
            };
        }
        objects
    }

    /// Sets or, with `None`, removes an object. Returns it with its new version.
    pub(crate) fn commit(&mut self, key: Key, object: Option<Value>) -> Arc<Value> {
        self.version += 1;
        let before = self.objects.get(&key).map(Arc::clone);
        let gone = object.is_none();
        let object = object
            .or_else(|| before.as_deref().cloned())
            .unwrap_or_default();
        let object = Arc::new(stamped(&object, self.version));
        if gone {
            self.objects.remove(&key);
        } else {
            self.objects.insert(key.clone(), Arc::clone(&object));
        }
        self.changes.push_back(Change {
            version: self.version,
            key,
            before,
            object: Arc::clone(&object),
            gone,
        });
        if self.changes.len() > REMEMBERED {
            let forgotten = self.changes.pop_front();
            self.compacted = forgotten.map_or(self.compacted, |change| change.version);
        }
        object
    }

    /// Changes after a version; `None` when some of them are forgotten.
    pub(crate) fn since(&self, version: u64) -> Option<impl Iterator<Item = &Change>> {
        let first = self
            .changes
            .partition_point(|change| change.version <= version);
        (version >= self.compacted).then(|| self.changes.range(first..))
    }

    /// Forgets all changes up to now.
    pub(crate) fn compact(&mut self) {
        self.compacted = self.version;
        self.changes.clear();
    }
}
