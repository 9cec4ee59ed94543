//! Follows everything that a scheduler decides by, and reports each change with the state before it.

use super::kept::{Object, Texts, key};
use evictd_batch::conf::Conf;
use evictd_batch::wire::{PodGroup, Queue, Workload};
use evictd_cluster_client::{
    Access, Key, NewsSender, Outline, Reflector, Retry, Store, Unreadable, Watches,
};
use evictd_pod::wire;
use evictd_scheduling::{Change, Delta, Event};
use std::sync::Arc;

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

/// How many kinds more are followed for batch sessions.
pub(super) const BATCH_KINDS: usize = 4;

/// Begins to follow every kind. Must be called inside the runtime; the tasks end with the receiver. `ended`: whether pods
/// are followed after their end, too.
pub fn start(follow: Start<'_>, ended: bool) {
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
pub(super) fn start_batch(follow: Start<'_>) {
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
pub(super) fn start_failed(follow: Start<'_>) {
    let failed = "status.phase=Failed";
    follow.from("/api/v1/pods", failed, true, |delta| {
        News::Event(Event::FailedPod(delta))
    });
}

/// What all watches share.
#[derive(Clone, Copy)]
pub struct Start<'a> {
    /// The API server.
    pub access: &'a Access,
    /// Where changes are reported.
    pub news: &'a NewsSender<News>,
    /// How the watches are, and what they may keep.
    pub watches: &'a Watches,
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
        let kind = Kind {
            texts: Texts::default(),
            listed,
            told: Box::new(told),
            news: self.news.clone(),
        };
        let reflector = Reflector::new(path, kind, self.watches.budget());
        let (access, watches) = (self.access.clone(), self.watches.clone());
        let (news, fields) = (self.news.clone(), fields.to_owned());
        tokio::spawn(async move {
            tokio::select! {
                () = news.closed() => {}
                () = reflector.run(fields, access, &watches, Retry::soon()) => {}
            }
        });
    }
}

/// Passes each change of one kind on.
struct Kind<T: Object> {
    texts: Texts,
    listed: bool,
    told: Box<dyn Fn(Delta<T>) -> News + Send>,
    news: NewsSender<News>,
}

impl<T: Object> Kind<T> {
    fn tell(&self, old: Option<Arc<T>>, new: Option<Arc<T>>) {
        self.news.send((self.told)(Delta { old, new }));
    }
}

impl<T: Object> Store for Kind<T> {
    type Object = T;
    type Kept = T::Kept;
    type Table = T::Known;

    fn key(object: &T) -> Key<'_> {
        key(object.metadata())
    }

    fn outline(object: &T) -> Outline {
        object.outline()
    }

    fn version(object: &T) -> &str {
        &object.metadata().resource_version
    }

    fn has_version(kept: &T::Kept, version: &str) -> bool {
        T::has_version(kept, version)
    }

    fn has_uid(kept: &T::Kept, uid: &str) -> bool {
        T::has_uid(kept, uid)
    }

    fn tidy(&mut self, object: &mut T) {
        object.tidy(&mut self.texts);
    }

    fn size(object: &T, bytes: usize) -> usize {
        object.size(bytes)
    }

    fn applied(&mut self, old: Option<T::Kept>, mut new: T) -> T::Kept {
        if let Some(old) = &old {
            new.succeed(old);
        }
        let new = Arc::new(new);
        let kept = T::keep(&new, &mut self.texts);
        self.tell(old.map(|old| T::restore(&old)), Some(new));
        kept
    }

    /// As it was last seen: a pod that has ended is reported as deleted, and its last state holds no place.
    fn gone(&mut self, old: T::Kept, _last: Option<T>) {
        self.tell(Some(T::restore(&old)), None);
    }

    fn unreadable(&mut self, old: Option<&T::Kept>, object: &Unreadable) -> Option<T::Kept> {
        let new = Arc::new(T::unreadable(old, object)?);
        let kept = T::keep(&new, &mut self.texts);
        self.tell(old.map(T::restore), Some(new));
        Some(kept)
    }

    fn up_to_date(&mut self) {
        if !std::mem::replace(&mut self.listed, true) {
            self.news.send(News::Listed);
        }
    }

    fn room(&mut self) -> impl Future<Output = ()> + Send {
        self.news.room()
    }
}
