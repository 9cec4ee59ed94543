//! Follows everything that the controllers decide by, and reports each change with the state before it.

use evictd_batch::queue::{View, ViewMetadata, ViewSpec, ViewStatus};
use evictd_batch::wire::{Command, Job, PodGroup, TaskPod};
use evictd_cluster_client::{
    Access, ByKey, Key, Keyed, NewsSender, Reflector, Retry, Store, Watches,
};
use evictd_pod::wire::{Metadata, PriorityClass, null_is_default};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object before and after a change; what was not there, or is gone, is `None`.
#[derive(Debug)]
pub(super) struct Delta<T> {
    pub(super) old: Option<Arc<T>>,
    pub(super) new: Option<Arc<T>>,
}

/// What the watches tell.
#[derive(Debug)]
pub(super) enum News {
    Job(Delta<Job>),
    Pod(Delta<TaskPod>),
    PodGroup(Delta<PodGroup>),
    Queue(Delta<WatchedQueue>),
    Command(Delta<Command>),
    PriorityClass(Delta<PriorityClass>),
    Claim(Delta<Claim>),
    /// One more kind is known completely.
    Listed,
}

/// How many kinds are followed, and have to be known before the first decision.
pub(super) const KINDS: usize = 7;

/// A queue, with what identifies it.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WatchedQueue {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    spec: ViewSpec,
    #[serde(deserialize_with = "null_is_default")]
    status: ViewStatus,
}

impl WatchedQueue {
    /// As its controller sees it. What is empty is not stored.
    pub(super) fn view(&self) -> View {
        let annotations = self.metadata.annotations.iter();
        let annotations: BTreeMap<String, String> = annotations
            .map(|(key, text)| (key.to_owned(), text.to_owned()))
            .collect();
        View {
            metadata: ViewMetadata {
                name: self.metadata.name.clone(),
                annotations: (!annotations.is_empty()).then_some(annotations),
            },
            spec: self.spec.clone(),
            status: self.status.clone(),
        }
    }
}

/// A `PersistentVolumeClaim`, of which only the name matters.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Claim {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) metadata: Metadata,
}

/// What every object has.
pub(super) trait Object: DeserializeOwned + Send + Sync + 'static {
    fn metadata(&self) -> &Metadata;
}

macro_rules! objects {
    ($($kind:ty),*) => {
        $(impl Object for $kind {
            fn metadata(&self) -> &Metadata {
                &self.metadata
            }
        })*
    };
}

objects!(
    Job,
    TaskPod,
    PodGroup,
    WatchedQueue,
    Command,
    PriorityClass,
    Claim
);

/// What all watches of one receiver share.
pub(super) struct Start<'a, N> {
    pub(super) access: &'a Access,
    pub(super) news: &'a NewsSender<N>,
    pub(super) watches: &'a Watches,
    /// Reports that one more kind is known completely.
    pub(super) listed: fn() -> N,
}

/// Begins to follow every kind. Must be called inside the runtime; the tasks end with the receiver.
pub(super) fn start(access: &Access, news: &NewsSender<News>, watches: &Watches) {
    let start = Start {
        access,
        news,
        watches,
        listed: || News::Listed,
    };
    start.follow("/apis/batch.volcano.sh/v1alpha1/jobs", News::Job);
    start.follow("/api/v1/pods", News::Pod);
    let groups = "/apis/scheduling.volcano.sh/v1beta1/podgroups";
    start.follow(groups, News::PodGroup);
    let queues = "/apis/scheduling.volcano.sh/v1beta1/queues";
    start.follow(queues, News::Queue);
    let commands = "/apis/bus.volcano.sh/v1alpha1/commands";
    start.follow(commands, News::Command);
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    start.follow(classes, News::PriorityClass);
    let claims = "/api/v1/persistentvolumeclaims";
    start.follow(claims, News::Claim);
}

impl<N: Send + 'static> Start<'_, N> {
    /// Begins to follow the kind at this path.
    pub(super) fn follow<T: Object>(&self, path: &'static str, tell: fn(Delta<T>) -> N) {
        let kind = Kind {
            listed: Some(self.listed),
            tell,
            news: self.news.clone(),
        };
        let reflector = Reflector::new(path, kind, self.watches.budget());
        let (access, watches) = (self.access.clone(), self.watches.clone());
        let news = self.news.clone();
        tokio::spawn(async move {
            let fields = String::new();
            tokio::select! {
                () = news.closed() => {}
                () = reflector.run(fields, access, &watches, Retry::soon()) => {}
            }
        });
    }
}

/// Passes each change of one kind on.
struct Kind<T, N> {
    /// Reported once.
    listed: Option<fn() -> N>,
    tell: fn(Delta<T>) -> N,
    news: NewsSender<N>,
}

/// An object as it was last seen.
struct Known<T>(Arc<T>);

impl<T: Object> Keyed for Known<T> {
    fn key(&self) -> Key<'_> {
        key(self.0.metadata())
    }
}

fn key(metadata: &Metadata) -> Key<'_> {
    [&metadata.namespace, &metadata.name]
}

impl<T: Object, N: Send + 'static> Kind<T, N> {
    fn tell(&self, old: Option<Arc<T>>, new: Option<Arc<T>>) {
        self.news.send((self.tell)(Delta { old, new }));
    }
}

impl<T: Object, N: Send + 'static> Store for Kind<T, N> {
    type Object = T;
    type Kept = Known<T>;
    type Table = ByKey<Known<T>>;

    fn key(object: &T) -> Key<'_> {
        key(object.metadata())
    }

    fn version(object: &T) -> &str {
        &object.metadata().resource_version
    }

    fn has_version(kept: &Known<T>, version: &str) -> bool {
        *kept.0.metadata().resource_version == *version
    }

    fn has_uid(kept: &Known<T>, uid: &str) -> bool {
        *kept.0.metadata().uid == *uid
    }

    fn applied(&mut self, old: Option<Known<T>>, new: T) -> Known<T> {
        let (old, new) = (old.map(|old| old.0), Arc::new(new));
        let is_other = |old: &Arc<T>| old.metadata().uid != new.metadata().uid;
        // Jobs and queues are state machines by name: one of them ends, and another begins.
        if old.as_ref().is_some_and(is_other) {
            self.tell(old, None);
            self.tell(None, Some(Arc::clone(&new)));
        } else {
            self.tell(old, Some(Arc::clone(&new)));
        }
        Known(new)
    }

    /// As it was last seen.
    fn gone(&mut self, old: Known<T>, _: Option<T>) {
        self.tell(Some(old.0), None);
    }

    fn up_to_date(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.news.send(listed());
        }
    }

    fn room(&mut self) -> impl Future<Output = ()> + Send {
        self.news.room()
    }
}
