//! Follows everything that the controllers decide by, and tells each change with the state before it. What vanished during
//! a gap counts as deleted, in its last known state.

use evictd_batch::queue::{View, ViewMetadata, ViewSpec, ViewStatus};
use evictd_batch::wire::{Command, Job, PodGroup, TaskPod};
use evictd_cluster_client::{Access, Backoff, Follow, Parsed, Unparsable, Watch, chance};
use evictd_pod::wire::{Metadata, PriorityClass, null_is_default};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{debug, warn};

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
/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

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

/// Begins to follow every kind. Must be called inside the runtime; the tasks end with the receiver.
pub(super) fn start(access: &Access, news: &UnboundedSender<News>) {
    let batch = "/apis/batch.volcano.sh/v1alpha1/jobs";
    let follower = Start {
        access,
        news,
        listed: || News::Listed,
    };
    follower.follow(batch, News::Job);
    follower.follow("/api/v1/pods", News::Pod);
    let groups = "/apis/scheduling.volcano.sh/v1beta1/podgroups";
    follower.follow(groups, News::PodGroup);
    let queues = "/apis/scheduling.volcano.sh/v1beta1/queues";
    follower.follow(queues, News::Queue);
    let commands = "/apis/bus.volcano.sh/v1alpha1/commands";
    follower.follow(commands, News::Command);
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    follower.follow(classes, News::PriorityClass);
    let claims = "/api/v1/persistentvolumeclaims";
    follower.follow(claims, News::Claim);
}

/// What all followers of one receiver share.
pub(super) struct Start<'a, N> {
    pub(super) access: &'a Access,
    pub(super) news: &'a UnboundedSender<N>,
    /// Tells that one more kind is known completely.
    pub(super) listed: fn() -> N,
}

impl<N: Send + 'static> Start<'_, N> {
    /// Begins to follow the kind at this path.
    pub(super) fn follow<T: Object>(&self, path: &'static str, tell: fn(Delta<T>) -> N) {
        let follower = Follower {
            known: HashMap::new(),
            listing: None,
            listed: Some(self.listed),
            path,
            tell,
            news: self.news.clone(),
        };
        let watch = Watch::new(path, String::new());
        tokio::spawn(run(self.access.clone(), watch, follower));
    }
}

/// Follows one kind until nobody listens any more.
async fn run<T: Object, N>(access: Access, mut watch: Watch, mut follower: Follower<T, N>) {
    let mut backoff = Backoff::new(Duration::from_millis(250), LONGEST_PAUSE);
    let mut client = None;
    while !follower.news.is_closed() {
        if client.is_none() {
            let made = access.watch_client();
            client = made.inspect_err(|error| warn!("{error}")).ok();
        }
        let Some(open) = &client else {
            tokio::time::sleep(backoff.next(chance())).await;
            continue;
        };
        // Not all at once, where many were started together.
        let lifetime = Duration::from_mins(5).mul_f64(1.0 + chance());
        match watch.follow(open, lifetime, &mut follower).await {
            Ok(()) => backoff.reset(),
            Err(error) => {
                let hint = match error.code {
                    Some(404) => "; are Volcano's definitions installed?",
                    _ => "",
                };
                warn!("cannot watch {}: {}{hint}", follower.path, error.problem);
                if error.code == Some(401) {
                    // Credentials on disk may have been renewed.
                    client = None;
                }
                tokio::time::sleep(backoff.next(chance())).await;
            }
        }
    }
}

/// The objects of one kind as they were last seen.
struct Follower<T, N> {
    /// By namespace and name.
    known: HashMap<String, Arc<T>>,
    /// During a list: those that are part of it.
    listing: Option<HashSet<String>>,
    /// Told once.
    listed: Option<fn() -> N>,
    path: &'static str,
    tell: fn(Delta<T>) -> N,
    news: UnboundedSender<N>,
}

fn name(metadata: &Metadata) -> String {
    format!("{}/{}", metadata.namespace, metadata.name)
}

impl<T: Object, N> Follower<T, N> {
    fn tell(&self, old: Option<Arc<T>>, new: Option<Arc<T>>) {
        // The receiver is dropped when the controllers end.
        let _ = self.news.send((self.tell)(Delta { old, new }));
    }

    fn gone(&mut self, name: &str) {
        if let Some(old) = self.known.remove(name) {
            self.tell(Some(old), None);
        }
    }

    fn complain(&self, object: &Unparsable<'_>) {
        let start: String = object.text.chars().take(200).collect();
        let (path, error) = (self.path, &object.error);
        warn!("{path}: an object cannot be read and is left out: {error}: {start}");
    }
}

impl<T: Object, N> Follow for Follower<T, N> {
    type Object = T;

    fn version(object: &T) -> &str {
        &object.metadata().resource_version
    }

    fn begin(&mut self) {
        self.listing = Some(HashSet::new());
    }

    fn applied(&mut self, object: Parsed<'_, T>) {
        let object = match object {
            Ok(object) => Arc::new(object),
            Err(object) => return self.complain(&object),
        };
        let name = name(object.metadata());
        if let Some(listing) = &mut self.listing {
            listing.insert(name.clone());
        }
        let version = object.metadata().resource_version.clone();
        let old = self.known.insert(name, Arc::clone(&object));
        // A list repeats what is known.
        let repeated =
            |old: &Arc<T>| !version.is_empty() && old.metadata().resource_version == version;
        if old.as_ref().is_some_and(repeated) {
            return;
        }
        // Another object of the same name came during a gap.
        match old {
            Some(old) if old.metadata().uid != object.metadata().uid => {
                self.tell(Some(old), None);
                self.tell(None, Some(object));
            }
            old => self.tell(old, Some(object)),
        }
    }

    fn deleted(&mut self, object: Parsed<'_, T>) {
        match object {
            Ok(object) => self.gone(&name(object.metadata())),
            Err(object) => self.complain(&object),
        }
    }

    fn up_to_date(&mut self) {
        if let Some(listing) = self.listing.take() {
            let known = self.known.keys();
            let gone: Vec<String> = known
                .filter(|name| !listing.contains(*name))
                .cloned()
                .collect();
            for name in gone {
                self.gone(&name);
            }
        }
        if let Some(listed) = self.listed.take() {
            debug!("{} known of {}", self.known.len(), self.path);
            let _ = self.news.send(listed());
        }
    }
}
