//! Watches the kinds that the controllers need. Each watch event has the object before and after the change.

use evictd_batch_jobs::queue::{View, ViewMetadata, ViewSpec, ViewStatus};
use evictd_batch_objects::{Command, Job, PodGroup, TaskPod};
use evictd_batch_workflows::{CronJob, JobFlow, JobTemplate};
use evictd_cluster_client::{
    Access, ByKey, Key, Keyed, NewsSender, Reflector, Retry, Store, Watches,
};
use evictd_hyper_nodes::HyperNode;
use evictd_pod::wire::{Metadata, PriorityClass, null_is_default};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An object before and after a change. `old` is `None` for a new object, `new` for a deleted one.
#[derive(Debug)]
pub(super) struct Delta<T> {
    pub(super) old: Option<Arc<T>>,
    pub(super) new: Option<Arc<T>>,
}

impl<T> Clone for Delta<T> {
    fn clone(&self) -> Self {
        let (old, new) = (self.old.clone(), self.new.clone());
        Self { old, new }
    }
}

#[derive(Debug)]
pub(super) enum WatchEvent {
    Job(Delta<Job>),
    Pod(Delta<TaskPod>),
    PodGroup(Delta<PodGroup>),
    Queue(Delta<WatchedQueue>),
    Command(Delta<Command>),
    PriorityClass(Delta<PriorityClass>),
    Claim(Delta<PersistentVolumeClaim>),
    /// One more kind is listed.
    Listed,
}

/// The number of watched kinds.
pub(super) const KINDS: usize = 7;

/// A queue with its whole metadata, which the state machine does not keep.
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
    /// The fields that the state machine reads.
    pub(super) fn view(&self) -> View {
        let annotations: BTreeMap<String, String> = self
            .metadata
            .annotations
            .iter()
            .map(|(key, text)| (key.to_owned(), text.to_owned()))
            .collect();
        View {
            metadata: ViewMetadata {
                name: self.metadata.name.clone(),
                // A JSON patch has to know whether the map exists, and the API server stores no empty one.
                annotations: (!annotations.is_empty()).then_some(annotations),
            },
            spec: self.spec.clone(),
            status: self.status.clone(),
        }
    }
}

/// Only the name of a claim is used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PersistentVolumeClaim {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) metadata: Metadata,
}

/// Only the labels of a node are used.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct WatchedNode {
    #[serde(deserialize_with = "null_is_default")]
    pub(super) metadata: Metadata,
}

/// An object of Kubernetes.
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
    PersistentVolumeClaim,
    CronJob,
    JobFlow,
    JobTemplate,
    HyperNode,
    WatchedNode
);

/// The watches of one receiver.
pub(super) struct WatchSet<'a, E> {
    access: &'a Access,
    sender: &'a NewsSender<E>,
    watches: &'a Watches,
    listed: fn() -> E,
}

/// Starts all watches. Must be called inside the runtime. The tasks end with the receiver.
pub(super) fn start(access: &Access, sender: &NewsSender<WatchEvent>, watches: &Watches) {
    let set = WatchSet::new(access, sender, watches, || WatchEvent::Listed);
    set.watch("/apis/batch.volcano.sh/v1alpha1/jobs", WatchEvent::Job);
    set.watch("/api/v1/pods", WatchEvent::Pod);
    let pod_groups = "/apis/scheduling.volcano.sh/v1beta1/podgroups";
    set.watch(pod_groups, WatchEvent::PodGroup);
    let queues = "/apis/scheduling.volcano.sh/v1beta1/queues";
    set.watch(queues, WatchEvent::Queue);
    let commands = "/apis/bus.volcano.sh/v1alpha1/commands";
    set.watch(commands, WatchEvent::Command);
    let classes = "/apis/scheduling.k8s.io/v1/priorityclasses";
    set.watch(classes, WatchEvent::PriorityClass);
    let claims = "/api/v1/persistentvolumeclaims";
    set.watch(claims, WatchEvent::Claim);
}

impl<'a, E: Send + 'static> WatchSet<'a, E> {
    /// No watch yet. `listed` makes the event that one more kind is listed.
    pub(super) const fn new(
        access: &'a Access,
        sender: &'a NewsSender<E>,
        watches: &'a Watches,
        listed: fn() -> E,
    ) -> Self {
        Self {
            access,
            sender,
            watches,
            listed,
        }
    }

    /// Starts the watch of the kind at this path.
    pub(super) fn watch<T: Object>(&self, path: &'static str, event: fn(Delta<T>) -> E) {
        let store = EventStore {
            listed: Some(self.listed),
            event,
            sender: self.sender.clone(),
        };
        let reflector = Reflector::new(path, store, self.watches.budget());
        let (access, watches) = (self.access.clone(), self.watches.clone());
        let sender = self.sender.clone();
        tokio::spawn(async move {
            let field_selector = String::new();
            tokio::select! {
                // The receiver has ended.
                () = sender.closed() => {}
                () = reflector.run(field_selector, access, &watches, Retry::soon()) => {}
            }
        });
    }
}

/// The store of one kind, which sends each change as an event.
struct EventStore<T, E> {
    /// Sent once.
    listed: Option<fn() -> E>,
    event: fn(Delta<T>) -> E,
    sender: NewsSender<E>,
}

struct Stored<T>(Arc<T>);

impl<T: Object> Keyed for Stored<T> {
    fn key(&self) -> Key<'_> {
        key(self.0.metadata())
    }
}

fn key(metadata: &Metadata) -> Key<'_> {
    [&metadata.namespace, &metadata.name]
}

impl<T: Object, E: Send + 'static> EventStore<T, E> {
    fn send(&self, old: Option<Arc<T>>, new: Option<Arc<T>>) {
        self.sender.send((self.event)(Delta { old, new }));
    }
}

impl<T: Object, E: Send + 'static> Store for EventStore<T, E> {
    type Object = T;
    type Kept = Stored<T>;
    type Table = ByKey<Stored<T>>;

    fn key(object: &T) -> Key<'_> {
        key(object.metadata())
    }

    fn version(object: &T) -> &str {
        &object.metadata().resource_version
    }

    fn has_version(kept: &Stored<T>, version: &str) -> bool {
        *kept.0.metadata().resource_version == *version
    }

    fn has_uid(kept: &Stored<T>, uid: &str) -> bool {
        *kept.0.metadata().uid == *uid
    }

    fn applied(&mut self, old: Option<Stored<T>>, new: T) -> Stored<T> {
        let (old, new) = (old.map(|old| old.0), Arc::new(new));
        let is_other = |old: &Arc<T>| old.metadata().uid != new.metadata().uid;
        // State machines are kept by name: the old one ends, and another one starts.
        if old.as_ref().is_some_and(is_other) {
            self.send(old, None);
            self.send(None, Some(Arc::clone(&new)));
        } else {
            self.send(old, Some(Arc::clone(&new)));
        }
        Stored(new)
    }

    fn gone(&mut self, old: Stored<T>, _: Option<T>) {
        self.send(Some(old.0), None);
    }

    fn up_to_date(&mut self) {
        if let Some(listed) = self.listed.take() {
            self.sender.send(listed());
        }
    }

    fn room(&mut self) -> impl Future<Output = ()> + Send {
        self.sender.room()
    }
}
