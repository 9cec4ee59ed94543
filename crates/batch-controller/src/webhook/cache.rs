//! The queues and namespaces, kept up to date by watches.

use super::health::{Check, Health};
use evictd_batch_admission::{Known, Namespace};
use evictd_batch_objects::Queue;
use evictd_cluster_client::{Access, Budget, ByKey, Key, Keyed, Reflector, Retry, Store, Watches};
use evictd_pod::wire::Metadata;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// The objects that decisions read and watches write. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct SharedCache(Arc<RwLock<Known>>);

impl SharedCache {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Known> {
        // A thread that panics with the lock leaves whole entries behind.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Watches both kinds until the task is aborted.
pub(super) async fn watch(
    (access, watches): (Access, Watches),
    cache: SharedCache,
    health: Health,
) {
    let queues = CacheStore::<Queues>::reflector(&cache, &health, watches.budget());
    let namespaces = CacheStore::<Namespaces>::reflector(&cache, &health, watches.budget());
    tokio::join!(
        queues.run(String::new(), access.clone(), &watches, Retry::soon()),
        namespaces.run(String::new(), access, &watches, Retry::soon()),
    );
}

/// A watched kind.
trait Kind: Send + 'static {
    const PATH: &'static str;
    const CHECK: Check;
    type Object: DeserializeOwned + Send + 'static;
    fn metadata(object: &Self::Object) -> &Metadata;
    fn set(cache: &mut Known, object: Self::Object);
    fn remove(cache: &mut Known, name: &str);
}

struct Queues;

impl Kind for Queues {
    const PATH: &'static str = "/apis/scheduling.volcano.sh/v1beta1/queues";
    const CHECK: Check = Check::Queues;
    type Object = Queue;

    fn metadata(queue: &Queue) -> &Metadata {
        &queue.metadata
    }

    fn set(cache: &mut Known, queue: Queue) {
        cache.set_queue(queue);
    }

    fn remove(cache: &mut Known, name: &str) {
        cache.remove_queue(name);
    }
}

struct Namespaces;

impl Kind for Namespaces {
    const PATH: &'static str = "/api/v1/namespaces";
    const CHECK: Check = Check::Namespaces;
    type Object = Namespace;

    fn metadata(namespace: &Namespace) -> &Metadata {
        &namespace.metadata
    }

    fn set(cache: &mut Known, namespace: Namespace) {
        cache.set_namespace(&namespace.metadata.name, namespace.queue());
    }

    fn remove(cache: &mut Known, name: &str) {
        cache.set_namespace(name, None);
    }
}

/// The cached version of an object.
struct Version {
    name: String,
    version: Box<str>,
}

impl Keyed for Version {
    fn key(&self) -> Key<'_> {
        ["", &self.name]
    }
}

/// The store of one kind, which writes to the cache.
struct CacheStore<K> {
    kind: PhantomData<K>,
    cache: SharedCache,
    health: Health,
}

impl<K: Kind> CacheStore<K> {
    fn reflector(cache: &SharedCache, health: &Health, budget: &Budget) -> Reflector<Self> {
        let store = Self {
            kind: PhantomData,
            cache: cache.clone(),
            health: health.clone(),
        };
        Reflector::new(K::PATH, store, budget)
    }
}

impl<K: Kind> Store for CacheStore<K> {
    type Object = K::Object;
    type Kept = Version;
    type Table = ByKey<Version>;

    fn key(object: &K::Object) -> Key<'_> {
        ["", &K::metadata(object).name]
    }

    fn version(object: &K::Object) -> &str {
        &K::metadata(object).resource_version
    }

    fn has_version(kept: &Version, version: &str) -> bool {
        *kept.version == *version
    }

    /// Nothing depends on the UID: a new object of the same name replaces the old one.
    fn has_uid(_: &Version, _: &str) -> bool {
        true
    }

    fn applied(&mut self, _: Option<Version>, object: K::Object) -> Version {
        let metadata = K::metadata(&object);
        let version = Version {
            name: metadata.name.clone(),
            version: metadata.resource_version.clone(),
        };
        // The lock is held for one entry only, so that reviews do not wait for a list.
        K::set(&mut self.cache.write(), object);
        version
    }

    fn gone(&mut self, old: Version, _: Option<K::Object>) {
        K::remove(&mut self.cache.write(), &old.name);
    }

    fn up_to_date(&mut self) {
        self.health.set(K::CHECK, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cluster_client::{Follow, parse};

    #[test]
    fn an_object_that_a_new_list_lacks_is_removed() {
        let (cache, health) = (SharedCache::default(), Health::default());
        let mut reflector = CacheStore::<Queues>::reflector(&cache, &health, &Budget::default());
        let queue = |name: &str| format!(r#"{{"metadata": {{"name": "{name}"}}}}"#);
        let names = || cache.read().queue_names().collect::<Vec<_>>().join(" ");
        reflector.begin();
        reflector.applied(parse(&queue("a")), 0);
        reflector.applied(parse(&queue("b")), 0);
        reflector.applied(parse("{\"spec\": 1}"), 0);
        assert!(!health.is(Check::Queues));
        reflector.up_to_date();
        assert!(health.is(Check::Queues));
        assert_eq!(names(), "a b");
        reflector.begin();
        reflector.applied(parse(&queue("c")), 0);
        reflector.up_to_date();
        reflector.applied(parse(&queue("d")), 0);
        reflector.deleted(parse(&queue("c")));
        assert_eq!(names(), "d");
    }
}
