//! Queues and namespaces as a watch tells them.

use super::health::{Check, Health};
use evictd_batch::admission::{Known, Namespace};
use evictd_batch::wire::Queue;
use evictd_cluster_client::{Access, Budget, ByKey, Key, Keyed, Reflector, Retry, Store, Watches};
use evictd_pod::wire::Metadata;
use serde::de::DeserializeOwned;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// What is known, for whoever decides and for the watches. Clones share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Shared(Arc<RwLock<Known>>);

impl Shared {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Known> {
        // Whoever panicked with the lock left complete entries behind.
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, Known> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Follows both kinds until the tasks are ended.
pub(super) async fn follow((access, watches): (Access, Watches), known: Shared, health: Health) {
    let queues = Kept::<Queues>::reflector(&known, &health, watches.budget());
    let namespaces = Kept::<Namespaces>::reflector(&known, &health, watches.budget());
    tokio::join!(
        queues.run(String::new(), access.clone(), &watches, Retry::soon()),
        namespaces.run(String::new(), access, &watches, Retry::soon()),
    );
}

/// One kind of objects.
trait Kind: Send + 'static {
    const PATH: &'static str;
    const CHECK: Check;
    type Object: DeserializeOwned + Send + 'static;
    fn metadata(object: &Self::Object) -> &Metadata;
    fn set(known: &mut Known, object: Self::Object);
    fn remove(known: &mut Known, name: &str);
}

struct Queues;

impl Kind for Queues {
    const PATH: &'static str = "/apis/scheduling.volcano.sh/v1beta1/queues";
    const CHECK: Check = Check::Queues;
    type Object = Queue;

    fn metadata(queue: &Queue) -> &Metadata {
        &queue.metadata
    }

    fn set(known: &mut Known, queue: Queue) {
        known.set_queue(queue);
    }

    fn remove(known: &mut Known, name: &str) {
        known.remove_queue(name);
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

    fn set(known: &mut Known, namespace: Namespace) {
        known.set_namespace(&namespace.metadata.name, namespace.queue());
    }

    fn remove(known: &mut Known, name: &str) {
        known.set_namespace(name, None);
    }
}

/// Which state of an object is known.
struct Version {
    name: String,
    version: Box<str>,
}

impl Keyed for Version {
    fn key(&self) -> Key<'_> {
        ["", &self.name]
    }
}

/// Keeps the objects of one kind where decisions read them.
struct Kept<K> {
    kind: PhantomData<K>,
    known: Shared,
    health: Health,
}

impl<K: Kind> Kept<K> {
    fn reflector(known: &Shared, health: &Health, budget: &Budget) -> Reflector<Self> {
        let kept = Self {
            kind: PhantomData,
            known: known.clone(),
            health: health.clone(),
        };
        Reflector::new(K::PATH, kept, budget)
    }
}

impl<K: Kind> Store for Kept<K> {
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

    /// An object made anew takes the place of the old one at once.
    fn has_uid(_: &Version, _: &str) -> bool {
        true
    }

    fn applied(&mut self, _: Option<Version>, object: K::Object) -> Version {
        let metadata = K::metadata(&object);
        let kept = Version {
            name: metadata.name.clone(),
            version: metadata.resource_version.clone(),
        };
        K::set(&mut self.known.write(), object);
        kept
    }

    fn gone(&mut self, old: Version, _: Option<K::Object>) {
        K::remove(&mut self.known.write(), &old.name);
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
    fn what_is_missing_from_a_list_is_gone() {
        let (known, health) = (Shared::default(), Health::default());
        let mut follower = Kept::<Queues>::reflector(&known, &health, &Budget::default());
        let queue = |name: &str| format!(r#"{{"metadata": {{"name": "{name}"}}}}"#);
        let names = || known.read().queue_names().collect::<Vec<_>>().join(" ");
        follower.begin();
        follower.applied(parse(&queue("a")), 0);
        follower.applied(parse(&queue("b")), 0);
        follower.applied(parse("{\"spec\": 1}"), 0);
        assert!(!health.is(Check::Queues));
        follower.up_to_date();
        assert!(health.is(Check::Queues));
        assert_eq!(names(), "a b");
        follower.begin();
        follower.applied(parse(&queue("c")), 0);
        follower.up_to_date();
        follower.applied(parse(&queue("d")), 0);
        follower.deleted(parse(&queue("c")));
        assert_eq!(names(), "d");
    }
}
