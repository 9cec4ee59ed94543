//! Follows everything that a scheduler decides by, and tells each change with the state before it. What vanished during a
//! gap counts as deleted, in its last known state.

use super::discovery::serves;
use super::kept::{Name, Object, Store, Texts, name};
use evictd_batch::conf::Conf;
use evictd_batch::wire::{PodGroup, Queue, Workload};
use evictd_cluster_client::{Access, Actions, Backoff, Follow, Parsed, Watch, WatchError, chance};
use evictd_pod::wire;
use evictd_scheduling::{Change, Delta, Event};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{debug, warn};

/// What the watches tell.
#[derive(Debug)]
pub enum News {
    /// Something appeared, changed or went.
    Event(Event),
    /// The same of jobs' objects, and of how sessions go.
    Batch(BatchChange),
    /// One more kind is known completely.
    Listed,
}

/// A change of what batch sessions go by.
#[derive(Debug)]
#[allow(missing_docs, reason = "they are the kinds of the API")]
pub enum BatchChange {
    Group(Delta<PodGroup>),
    Queue(Delta<Queue>),
    PriorityClass(Delta<wire::PriorityClass>),
    Workload(Delta<Workload>),
    Conf(Box<Conf>),
}

/// How many kinds are followed, and have to be known before the first decision.
pub const KINDS: usize = 19;

/// Where groups of pods are. A server older than Kubernetes 1.37 has none.
pub(super) const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/podgroups";

/// What such groups are made from.
const WORKLOADS: &str = "/apis/scheduling.k8s.io/v1beta1/workloads";

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// How many kinds more are followed for batch sessions.
pub(super) const BATCH_KINDS: usize = 4;

/// Begins to follow every kind. Must be called inside the runtime; the tasks end with the receiver. `ended`: whether pods
/// are followed after their end, too.
pub fn start(access: &Access, news: &UnboundedSender<News>, ended: bool) {
    let follow = Start { access, news };
    let living = "status.phase!=Succeeded,status.phase!=Failed";
    let living = if ended { "" } else { living };
    follow.kind("/api/v1/nodes", "", |delta| {
        Event::Change(Change::Node(delta))
    });
    follow.kind("/api/v1/namespaces", "", Event::Namespace);
    follow.kind("/api/v1/pods", living, |delta| {
        Event::Change(Change::Pod(delta))
    });
    follow.kind("/api/v1/services", "", Event::Service);
    follow.kind(
        "/api/v1/replicationcontrollers",
        "",
        Event::ReplicationController,
    );
    follow.kind("/apis/apps/v1/replicasets", "", Event::ReplicaSet);
    follow.kind("/apis/apps/v1/statefulsets", "", Event::StatefulSet);
    follow.kind(
        "/apis/policy/v1/poddisruptionbudgets",
        "",
        Event::PodDisruptionBudget,
    );
    follow.kind(POD_GROUPS, "", Event::PodGroup);
    follow.kind("/api/v1/persistentvolumeclaims", "", |delta| {
        Event::Change(Change::PersistentVolumeClaim(delta))
    });
    follow.kind("/api/v1/persistentvolumes", "", |delta| {
        Event::Change(Change::PersistentVolume(delta))
    });
    follow.kind("/apis/storage.k8s.io/v1/storageclasses", "", |delta| {
        Event::Change(Change::StorageClass(delta))
    });
    follow.kind("/apis/storage.k8s.io/v1/csinodes", "", |delta| {
        Event::Change(Change::CsiNode(delta))
    });
    follow.kind("/apis/storage.k8s.io/v1/csidrivers", "", |delta| {
        Event::Change(Change::CsiDriver(delta))
    });
    follow.kind(
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        "",
        |delta| Event::Change(Change::CsiStorageCapacity(delta)),
    );
    follow.kind("/apis/storage.k8s.io/v1/volumeattachments", "", |delta| {
        Event::Change(Change::VolumeAttachment(delta))
    });
    follow.kind("/apis/resource.k8s.io/v1/resourceclaims", "", |delta| {
        Event::Change(Change::ResourceClaim(delta))
    });
    follow.kind("/apis/resource.k8s.io/v1/resourceslices", "", |delta| {
        Event::Change(Change::ResourceSlice(delta))
    });
    follow.kind("/apis/resource.k8s.io/v1/deviceclasses", "", |delta| {
        Event::Change(Change::DeviceClass(delta))
    });
}

/// Begins to follow what batch sessions go by.
pub(super) fn start_batch(access: &Access, news: &UnboundedSender<News>) {
    let follow = Start { access, news };
    follow.from(
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
        "",
        false,
        |delta| News::Batch(BatchChange::Group(delta)),
    );
    follow.from(
        "/apis/scheduling.volcano.sh/v1beta1/queues",
        "",
        false,
        |delta| News::Batch(BatchChange::Queue(delta)),
    );
    follow.from(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "",
        false,
        |delta| News::Batch(BatchChange::PriorityClass(delta)),
    );
    follow.from(WORKLOADS, "", false, |delta| {
        News::Batch(BatchChange::Workload(delta))
    });
}

/// Begins to follow the pods that have failed, the evicted ones among them. Nobody waits until they are known.
pub(super) fn start_failed(access: &Access, news: &UnboundedSender<News>) {
    let follow = Start { access, news };
    let failed = "status.phase=Failed";
    follow.from("/api/v1/pods", failed, true, |delta| {
        News::Event(Event::FailedPod(delta))
    });
}

struct Start<'a> {
    access: &'a Access,
    news: &'a UnboundedSender<News>,
}

impl Start<'_> {
    fn kind<T: Object>(&self, path: &'static str, fields: &str, event: fn(Delta<T>) -> Event) {
        self.from(path, fields, false, move |delta| News::Event(event(delta)));
    }

    /// `listed`: whether it is taken for known completely from the beginning.
    fn from<T: Object>(
        &self,
        path: &'static str,
        fields: &str,
        listed: bool,
        told: impl Fn(Delta<T>) -> News + Send + 'static,
    ) {
        let follower = Follower {
            known: T::Known::default(),
            unlisted: None,
            texts: Texts::default(),
            listed,
            path,
            told: Box::new(told),
            news: self.news.clone(),
        };
        let (access, watch) = (self.access.clone(), Watch::new(path, fields.to_owned()));
        tokio::spawn(run(access, watch, follower));
    }
}

/// Follows one kind until nobody listens any more.
async fn run<T: Object>(access: Access, mut watch: Watch, mut follower: Follower<T>) {
    let mut backoff = Backoff::new(Duration::from_millis(250), LONGEST_PAUSE);
    let mut client = None;
    while !follower.news.is_closed() {
        if client.is_none() {
            client = access
                .watch_client()
                .inspect_err(|error| warn!("{error}"))
                .ok();
        }
        // Not all at once, where many schedulers were started together.
        let lifetime = Duration::from_mins(5).mul_f64(1.0 + chance());
        let Some(open) = &client else {
            tokio::time::sleep(backoff.next(chance())).await;
            continue;
        };
        match watch.follow(open, lifetime, &mut follower).await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                if is_absent(&error, Actions::new(open.clone()), follower.path).await {
                    // The server has no such kind, so that there is none of it; it may get it by an update.
                    debug!("{}: the server has no such kind", follower.path);
                    follower.begin();
                    follower.up_to_date();
                } else {
                    warn!("cannot watch {}: {}", follower.path, error.problem);
                }
                if error.code == Some(401) {
                    // Credentials on disk may have been renewed.
                    client = None;
                }
                tokio::time::sleep(backoff.next(chance())).await;
            }
        }
    }
}

/// Whether the server has no such kind. One that does not say so before it has looked for the right to watch it answers with
/// 403: the role of kube-scheduler has no right to kinds that came after it.
async fn is_absent(error: &WatchError, actions: Actions, path: &str) -> bool {
    match error.code {
        Some(404) => true,
        Some(403) => serves(&actions, path).await.ok() == Some(false),
        _ => false,
    }
}

/// The objects of one kind as they were last seen.
struct Follower<T: Object> {
    known: T::Known,
    /// During a list: those that it has not named yet. What is left at its end is gone.
    unlisted: Option<T::Known>,
    texts: Texts,
    listed: bool,
    path: &'static str,
    told: Box<dyn Fn(Delta<T>) -> News + Send>,
    news: UnboundedSender<News>,
}

impl<T: Object> Follower<T> {
    fn tell(&self, old: Option<Arc<T>>, new: Option<Arc<T>>) {
        // The receiver is dropped when the scheduler ends.
        let _ = self.news.send((self.told)(Delta { old, new }));
    }

    /// Takes out what is known of an object.
    fn take(&mut self, name: Name<'_>) -> Option<T::Kept> {
        let unlisted = || self.unlisted.as_mut()?.remove(name);
        self.known.remove(name).or_else(unlisted)
    }

    fn complain(&self, object: &evictd_cluster_client::Unparsable<'_>) {
        let start: String = object.text.chars().take(200).collect();
        warn!(
            "{}: an object cannot be read and is left out: {}: {start}",
            self.path, object.error
        );
    }
}

impl<T: Object> Follow for Follower<T> {
    type Object = T;

    fn version(object: &T) -> &str {
        &object.metadata().resource_version
    }

    fn begin(&mut self) {
        let mut known = std::mem::take(&mut self.known);
        // Left by a list that was broken off.
        for kept in self
            .unlisted
            .take()
            .into_iter()
            .flat_map(Store::into_objects)
        {
            known.insert(kept);
        }
        self.unlisted = Some(known);
    }

    fn applied(&mut self, object: Parsed<'_, T>) {
        let mut object = match object {
            Ok(mut object) => {
                object.tidy(&mut self.texts);
                object
            }
            Err(object) => return self.complain(&object),
        };
        let mut old = self.take(name(object.metadata()));
        let version = &object.metadata().resource_version;
        let is_known = |old: &mut T::Kept| !version.is_empty() && *T::version(old) == **version;
        if let Some(known) = old.take_if(is_known) {
            // A list repeats it. It stays the object that others have, too.
            self.known.insert(known);
            return;
        }
        if let Some(old) = &old {
            object.succeed(old);
        }
        let object = Arc::new(object);
        self.known.insert(T::keep(&object, &mut self.texts));
        self.tell(old.map(|old| T::restore(&old)), Some(object));
    }

    fn deleted(&mut self, object: Parsed<'_, T>) {
        match object {
            Ok(object) => {
                // As it was last seen: a pod that has ended is told as deleted, and its last state holds no place. What was
                // never seen woke nobody.
                if let Some(old) = self.take(name(object.metadata())) {
                    self.tell(Some(T::restore(&old)), None);
                }
            }
            Err(object) => self.complain(&object),
        }
    }

    fn up_to_date(&mut self) {
        let gone = self.unlisted.take().map(Store::into_objects);
        for old in gone.into_iter().flatten() {
            self.tell(Some(T::restore(&old)), None);
        }
        if !std::mem::replace(&mut self.listed, true) {
            debug!("{} known of {}", self.known.len(), self.path);
            let _ = self.news.send(News::Listed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::kept::ByName;
    use serde_json::{from_value, json};
    use tokio::sync::mpsc::unbounded_channel;

    #[test]
    fn what_a_list_does_not_name_is_gone_even_if_the_list_before_was_broken_off() {
        let (send, mut news) = unbounded_channel();
        let mut follower: Follower<wire::Namespace> = Follower {
            known: ByName::default(),
            unlisted: None,
            texts: Texts::default(),
            listed: true,
            path: "/api/v1/namespaces",
            told: Box::new(|delta| News::Event(Event::Namespace(delta))),
            news: send,
        };
        let space = |name: &str, version: &str| -> wire::Namespace {
            let metadata = json!({"name": name, "resourceVersion": version});
            from_value(json!({"metadata": metadata})).unwrap()
        };
        let mut told = move || {
            let mut told = Vec::new();
            while let Ok(News::Event(Event::Namespace(Delta { old, new }))) = news.try_recv() {
                let version = |own: Option<Arc<wire::Namespace>>| {
                    own.map(|own| {
                        format!("{}@{}", own.metadata.name, own.metadata.resource_version)
                    })
                };
                told.push((version(old), version(new)));
            }
            told
        };
        let some = |text: &str| Some(text.to_owned());
        follower.begin();
        for name in ["a", "b", "c"] {
            follower.applied(Ok(space(name, "1")));
        }
        follower.up_to_date();
        assert_eq!(told().len(), 3);
        let b = follower.take(["", "b"]).unwrap();
        follower.known.insert(Arc::clone(&b));
        // This one is broken off after a change.
        follower.begin();
        follower.applied(Ok(space("a", "2")));
        assert_eq!(told(), [(some("a@1"), some("a@2"))]);
        follower.begin();
        follower.applied(Ok(space("b", "1")));
        // A server that streams its list may tell changes meanwhile.
        follower.applied(Ok(space("c", "3")));
        follower.deleted(Ok(space("c", "4")));
        assert_eq!(told(), [(some("c@1"), some("c@3")), (some("c@3"), None)]);
        follower.up_to_date();
        assert_eq!(told(), [(some("a@2"), None)]);
        // Nothing is told twice, and what is left is known.
        follower.applied(Ok(space("b", "1")));
        follower.up_to_date();
        assert_eq!(told(), []);
        assert!(Arc::ptr_eq(&b, &follower.take(["", "b"]).unwrap()));
        follower.applied(Ok(space("a", "5")));
        assert_eq!(told(), [(None, some("a@5"))]);
    }
}
