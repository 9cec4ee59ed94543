//! Follows every kind of object that scheduling depends on, and reports each change with the state before it.

use super::resources::Question;
use super::watch_cache::{Interner, Object, key};
use evictd_batch::conf::Conf;
use evictd_batch_objects::{NodeMetrics, Numatopology, PodGroup, Queue, ResourceQuota, Workload};
use evictd_cluster_client::{
    Access, Key, NewsSender, Outline, Reflector, Retry, Store, Unreadable, Watches,
};
use evictd_hyper_nodes::HyperNode;
use evictd_pod::wire;
use evictd_scheduling::{Change, Delta, Event};
use std::sync::Arc;
use tokio::sync::mpsc;

#[derive(Debug)]
pub(crate) enum WatchEvent {
    /// An object of the scheduler was added, updated or deleted.
    Cluster(Event),
    /// The same for an object of batch sessions, or for their configuration.
    Batch(BatchChange),
    /// One more kind is listed completely.
    Listed,
}

#[derive(Debug)]
pub(crate) enum BatchChange {
    Group(Delta<PodGroup>),
    Queue(Delta<Queue>),
    PriorityClass(Delta<wire::PriorityClass>),
    Workload(Delta<Workload>),
    ResourceQuota(Delta<ResourceQuota>),
    HyperNode(Delta<HyperNode>),
    Numatopology(Delta<Numatopology>),
    /// The measured use of all nodes, by name.
    NodeUse(Vec<(String, NodeMetrics)>),
    Conf(Box<Conf>),
    /// The file has changed and is invalid: why.
    InvalidConf(String),
}

/// How many kinds are followed. All are listed before the first attempt.
pub(crate) const KINDS: usize = 21;

/// The pod groups of Kubernetes. A server older than 1.37 has none.
pub(super) const POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1beta1/podgroups";

/// The groups of pod groups, an alpha kind of Kubernetes 1.37. Most servers have none.
pub(super) const COMPOSITE_POD_GROUPS: &str = "/apis/scheduling.k8s.io/v1alpha3/compositepodgroups";

/// The workloads that pod groups are made from.
const WORKLOADS: &str = "/apis/scheduling.k8s.io/v1beta1/workloads";

/// The groups of near nodes. A cluster without their definition has none.
const HYPER_NODES: &str = "/apis/topology.volcano.sh/v1alpha1/hypernodes";

/// The processors of nodes.
const NUMATOPOLOGIES: &str = "/apis/nodeinfo.volcano.sh/v1alpha1/numatopologies";

/// How many further kinds are followed for batch sessions.
pub(super) const BATCH_KINDS: usize = 7;

/// Begins to follow every kind. Must be called inside the runtime. The tasks end with the receiver. `ended`: whether pods
/// are followed after their end, too.
///
/// `questions`: for the resources of all pods.
pub(crate) fn start(follow: Reflectors<'_>, ended: bool, questions: mpsc::Receiver<Question>) {
    // The server leaves out ended pods, which may be most of a cluster's.
    let living = "status.phase!=Succeeded,status.phase!=Failed";
    let living = if ended { "" } else { living };
    follow.changes("/api/v1/nodes", "", Change::Node);
    follow.changes("/api/v1/namespaces", "", Change::Namespace);
    follow.asked("/api/v1/pods", living, false, Some(questions), |delta| {
        WatchEvent::Cluster(Event::Change(Change::Pod(delta)))
    });
    follow.changes("/api/v1/services", "", Change::Service);
    follow.changes(
        "/api/v1/replicationcontrollers",
        "",
        Change::ReplicationController,
    );
    follow.changes("/apis/apps/v1/replicasets", "", Change::ReplicaSet);
    follow.changes("/apis/apps/v1/statefulsets", "", Change::StatefulSet);
    follow.kind(
        "/apis/policy/v1/poddisruptionbudgets",
        "",
        Event::PodDisruptionBudget,
    );
    follow.kind(POD_GROUPS, "", Event::PodGroup);
    follow.kind(COMPOSITE_POD_GROUPS, "", Event::CompositePodGroup);
    follow.changes(
        "/api/v1/persistentvolumeclaims",
        "",
        Change::PersistentVolumeClaim,
    );
    follow.changes("/api/v1/persistentvolumes", "", Change::PersistentVolume);
    follow.changes(
        "/apis/storage.k8s.io/v1/storageclasses",
        "",
        Change::StorageClass,
    );
    follow.changes("/apis/storage.k8s.io/v1/csinodes", "", Change::CsiNode);
    follow.changes("/apis/storage.k8s.io/v1/csidrivers", "", Change::CsiDriver);
    follow.changes(
        "/apis/storage.k8s.io/v1/csistoragecapacities",
        "",
        Change::CsiStorageCapacity,
    );
    follow.changes(
        "/apis/storage.k8s.io/v1/volumeattachments",
        "",
        Change::VolumeAttachment,
    );
    follow.changes(
        "/apis/resource.k8s.io/v1/resourceclaims",
        "",
        Change::ResourceClaim,
    );
    follow.changes(
        "/apis/resource.k8s.io/v1/resourceslices",
        "",
        Change::ResourceSlice,
    );
    follow.changes(
        "/apis/resource.k8s.io/v1/deviceclasses",
        "",
        Change::DeviceClass,
    );
}

/// Begins to follow the rules that taint devices, or counts them as listed where they do not count. Kube-scheduler's role has no
/// right to read them then. Servers before 1.37 have no such kind, and no object.
pub(crate) fn start_taint_rules(follow: Reflectors<'_>, they_count: bool) {
    if they_count {
        let path = "/apis/resource.k8s.io/v1/devicetaintrules";
        follow.changes(path, "", Change::DeviceTaintRule);
    } else {
        follow.events.send(WatchEvent::Listed);
    }
}

/// Begins to follow the kinds of batch sessions.
pub(super) fn start_batch(follow: Reflectors<'_>) {
    follow.from(
        "/apis/scheduling.volcano.sh/v1beta1/podgroups",
        "",
        false,
        |delta| WatchEvent::Batch(BatchChange::Group(delta)),
    );
    follow.from(
        "/apis/scheduling.volcano.sh/v1beta1/queues",
        "",
        false,
        |delta| WatchEvent::Batch(BatchChange::Queue(delta)),
    );
    follow.from(
        "/apis/scheduling.k8s.io/v1/priorityclasses",
        "",
        false,
        |delta| WatchEvent::Batch(BatchChange::PriorityClass(delta)),
    );
    follow.from(WORKLOADS, "", false, |delta| {
        WatchEvent::Batch(BatchChange::Workload(delta))
    });
    // Its exporter may not be installed; then there is no such kind, and no object.
    follow.from(NUMATOPOLOGIES, "", false, |delta| {
        WatchEvent::Batch(BatchChange::Numatopology(delta))
    });
    follow.from("/api/v1/resourcequotas", "", false, |delta| {
        WatchEvent::Batch(BatchChange::ResourceQuota(delta))
    });
    follow.from(HYPER_NODES, "", false, |delta| {
        WatchEvent::Batch(BatchChange::HyperNode(delta))
    });
}

/// Begins to follow the failed pods, which include the evicted ones. No attempt waits until they are listed.
pub(super) fn start_failed(follow: Reflectors<'_>) {
    let failed = "status.phase=Failed";
    follow.from("/api/v1/pods", failed, true, |delta| {
        WatchEvent::Cluster(Event::Change(Change::FailedPod(delta)))
    });
}

/// Starts a reflector for each kind.
#[derive(Clone, Copy)]
pub(crate) struct Reflectors<'a> {
    pub(crate) access: &'a Access,
    /// Where changes are reported.
    pub(crate) events: &'a NewsSender<WatchEvent>,
    /// Their health, and the budget for large objects.
    pub(crate) watches: &'a Watches,
}

impl Reflectors<'_> {
    fn changes<T: Object>(&self, path: &'static str, fields: &str, change: fn(Delta<T>) -> Change) {
        self.from(path, fields, false, move |delta| {
            WatchEvent::Cluster(Event::Change(change(delta)))
        });
    }

    fn kind<T: Object>(&self, path: &'static str, fields: &str, event: fn(Delta<T>) -> Event) {
        self.from(path, fields, false, move |delta| {
            WatchEvent::Cluster(event(delta))
        });
    }

    /// `listed`: whether the kind counts as listed from the beginning.
    fn from<T: Object>(
        &self,
        path: &'static str,
        fields: &str,
        listed: bool,
        event_of: impl Fn(Delta<T>) -> WatchEvent + Send + 'static,
    ) {
        self.asked(path, fields, listed, None, event_of);
    }

    fn asked<T: Object>(
        &self,
        path: &'static str,
        fields: &str,
        listed: bool,
        questions: Option<mpsc::Receiver<Question>>,
        event_of: impl Fn(Delta<T>) -> WatchEvent + Send + 'static,
    ) {
        let kind = Kind {
            questions,
            question: None,
            interner: Interner::default(),
            listed,
            event_of: Box::new(event_of),
            events: self.events.clone(),
        };
        let reflector = Reflector::new(path, kind, self.watches.budget());
        let (access, watches) = (self.access.clone(), self.watches.clone());
        let (events, fields) = (self.events.clone(), fields.to_owned());
        tokio::spawn(async move {
            tokio::select! {
                // The receiver is dropped when the scheduler ends.
                () = events.closed() => {}
                () = reflector.run(fields, access, &watches, Retry::soon()) => {}
            }
        });
    }
}

/// The store of one kind. It reports each change.
struct Kind<T: Object> {
    questions: Option<mpsc::Receiver<Question>>,
    /// The one that is to be answered next.
    question: Option<Question>,
    interner: Interner,
    listed: bool,
    event_of: Box<dyn Fn(Delta<T>) -> WatchEvent + Send>,
    events: NewsSender<WatchEvent>,
}

impl<T: Object> Kind<T> {
    fn report(&self, old: Option<Arc<T>>, new: Option<Arc<T>>) {
        self.events.send((self.event_of)(Delta { old, new }));
    }
}

impl<T: Object> Store for Kind<T> {
    type Object = T;
    type Kept = T::Kept;
    type Table = T::Table;

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
        object.prune(&mut self.interner);
    }

    fn size(object: &T, bytes: usize) -> usize {
        object.size(bytes)
    }

    fn applied(&mut self, old: Option<T::Kept>, mut new: T) -> T::Kept {
        if let Some(old) = &old {
            new.share_with(old);
        }
        let new = Arc::new(new);
        let kept = T::compact(&new, &mut self.interner);
        self.report(old.map(|old| T::restore(&old)), Some(new));
        kept
    }

    /// Reports the state before the deletion. A pod that has ended is also reported as deleted, and in its last state it holds
    /// no room that the scheduler could free.
    fn gone(&mut self, old: T::Kept, _last: Option<T>) {
        self.report(Some(T::restore(&old)), None);
    }

    fn unreadable(&mut self, old: Option<&T::Kept>, object: &Unreadable) -> Option<T::Kept> {
        let new = Arc::new(T::unreadable(old, object)?);
        let kept = T::compact(&new, &mut self.interner);
        self.report(old.map(T::restore), Some(new));
        Some(kept)
    }

    fn up_to_date(&mut self) {
        if !std::mem::replace(&mut self.listed, true) {
            self.events.send(WatchEvent::Listed);
        }
    }

    fn room(&mut self) -> impl Future<Output = ()> + Send {
        self.events.room()
    }

    async fn asked(&mut self) {
        let Some(questions) = &mut self.questions else {
            return std::future::pending().await;
        };
        match questions.recv().await {
            Some(question) => self.question = Some(question),
            None => std::future::pending().await,
        }
    }

    fn answer(&mut self, known: &[&T::Table]) {
        if let Some(question) = self.question.take() {
            let all = known.iter().flat_map(|table| T::resources(table));
            // The client may have left.
            let _ = question.send(all.collect());
        }
    }
}
