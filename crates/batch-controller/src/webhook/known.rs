//! Queues and namespaces as a watch tells them.

use super::health::{Check, Health};
use evictd_batch::admission::{Known, Namespace};
use evictd_batch::wire::Queue;
use evictd_cluster_client::{Access, Backoff, Follow, Parsed, Watch, chance};
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;
use tracing::warn;

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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
pub(super) async fn follow(access: Access, known: Shared, health: Health) {
    let queues = Follower {
        kind: PhantomData::<Queues>,
        known: known.clone(),
        health: health.clone(),
        listing: None,
    };
    let namespaces = Follower {
        kind: PhantomData::<Namespaces>,
        known,
        health,
        listing: None,
    };
    tokio::join!(run(&access, queues), run(&access, namespaces));
}

/// One kind of objects.
trait Kind {
    const PATH: &'static str;
    const CHECK: Check;
    type Object: serde::de::DeserializeOwned;
    fn version(object: &Self::Object) -> &str;
    fn name(object: &Self::Object) -> &str;
    fn set(known: &mut Known, object: Self::Object);
    fn remove(known: &mut Known, name: &str);
    fn names(known: &Known) -> Vec<String>;
}

struct Queues;

impl Kind for Queues {
    const PATH: &'static str = "/apis/scheduling.volcano.sh/v1beta1/queues";
    const CHECK: Check = Check::Queues;
    type Object = Queue;

    fn version(queue: &Queue) -> &str {
        &queue.metadata.resource_version
    }

    fn name(queue: &Queue) -> &str {
        &queue.metadata.name
    }

    fn set(known: &mut Known, queue: Queue) {
        known.set_queue(queue);
    }

    fn remove(known: &mut Known, name: &str) {
        known.remove_queue(name);
    }

    fn names(known: &Known) -> Vec<String> {
        known.queue_names().map(str::to_owned).collect()
    }
}

struct Namespaces;

impl Kind for Namespaces {
    const PATH: &'static str = "/api/v1/namespaces";
    const CHECK: Check = Check::Namespaces;
    type Object = Namespace;

    fn version(namespace: &Namespace) -> &str {
        &namespace.metadata.resource_version
    }

    fn name(namespace: &Namespace) -> &str {
        &namespace.metadata.name
    }

    fn set(known: &mut Known, namespace: Namespace) {
        known.set_namespace(&namespace.metadata.name, namespace.queue());
    }

    fn remove(known: &mut Known, name: &str) {
        known.set_namespace(name, None);
    }

    fn names(known: &Known) -> Vec<String> {
        known.namespace_names().map(str::to_owned).collect()
    }
}

async fn run<K: Kind>(access: &Access, mut follower: Follower<K>) {
    let mut watch = Watch::new(K::PATH, String::new());
    let mut backoff = Backoff::new(Duration::from_millis(250), LONGEST_PAUSE);
    let mut client = None;
    loop {
        if client.is_none() {
            let made = access.watch_client();
            client = made.inspect_err(|error| warn!("{error}")).ok();
        }
        let lifetime = Duration::from_mins(5).mul_f64(1.0 + chance());
        let ended = match &client {
            Some(client) => watch.follow(client, lifetime, &mut follower).await,
            None => Ok(()),
        };
        match ended {
            Ok(()) if client.is_some() => {
                backoff.reset();
                continue;
            }
            Ok(()) => {}
            Err(error) => {
                warn!("cannot watch {}: {}", K::PATH, error.problem);
                if error.code == Some(401) {
                    // Credentials on disk may have been renewed.
                    client = None;
                }
            }
        }
        tokio::time::sleep(backoff.next(chance())).await;
    }
}

struct Follower<K> {
    kind: PhantomData<K>,
    known: Shared,
    health: Health,
    /// During a list: the names that are part of it.
    listing: Option<BTreeSet<String>>,
}

impl<K: Kind> Follow for Follower<K> {
    type Object = K::Object;

    fn version(object: &K::Object) -> &str {
        K::version(object)
    }

    fn begin(&mut self) {
        self.listing = Some(BTreeSet::new());
    }

    fn applied(&mut self, object: Parsed<'_, K::Object>) {
        match object {
            Ok(object) => {
                if let Some(listing) = &mut self.listing {
                    listing.insert(K::name(&object).to_owned());
                }
                K::set(&mut self.known.write(), object);
            }
            Err(wrong) => warn!("{}: an object cannot be read: {}", K::PATH, wrong.error),
        }
    }

    fn deleted(&mut self, object: Parsed<'_, K::Object>) {
        match object {
            Ok(object) => K::remove(&mut self.known.write(), K::name(&object)),
            Err(wrong) => warn!("{}: an object cannot be read: {}", K::PATH, wrong.error),
        }
    }

    fn up_to_date(&mut self) {
        if let Some(listing) = self.listing.take() {
            let mut known = self.known.write();
            for name in K::names(&known) {
                if !listing.contains(&name) {
                    K::remove(&mut known, &name);
                }
            }
        }
        self.health.set(K::CHECK, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_cluster_client::parse;

    #[test]
    fn what_is_missing_from_a_list_is_gone() {
        let (known, health) = (Shared::default(), Health::default());
        let mut follower = Follower {
            kind: PhantomData::<Queues>,
            known: known.clone(),
            health: health.clone(),
            listing: None,
        };
        let queue = |name: &str| format!(r#"{{"metadata": {{"name": "{name}"}}}}"#);
        let names = || known.read().queue_names().collect::<Vec<_>>().join(" ");
        follower.begin();
        follower.applied(parse(&queue("a")));
        follower.applied(parse(&queue("b")));
        follower.applied(parse("{\"spec\": 1}"));
        assert!(!health.is(Check::Queues));
        follower.up_to_date();
        assert!(health.is(Check::Queues));
        assert_eq!(names(), "a b");
        follower.begin();
        follower.applied(parse(&queue("c")));
        follower.up_to_date();
        follower.applied(parse(&queue("d")));
        follower.deleted(parse(&queue("c")));
        assert_eq!(names(), "d");
    }
}
