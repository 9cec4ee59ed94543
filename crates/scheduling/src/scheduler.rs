//! The whole scheduler as a value: watch events go in, attempts come out. The caller binds the placed pods, deletes the
//! victims, writes conditions and events, and reports the results.

mod binding;
mod extenders;
mod gang_extenders;
mod gangs;
mod interrupted;
mod reject;
mod stuck_victims;
mod suggest;
mod waiting_pods;

use crate::change::{Change, Delta, pod_key};
use crate::config;
use crate::evidence::RejectedNodes;
use crate::extenders::{ExtenderRequest, ExtenderState};
use crate::framework::Framework;
use crate::gang::{GroupResult, group_of};
use crate::incoming_pods::IncomingPods;
use crate::pre_bind::{ClaimRef, PreBindPlan};
use crate::queue::{Pool, Settings};
use crate::scheduling_algorithm::{ScheduleResult, SchedulingAlgorithm};
use crate::scheduling_queue::SchedulingQueue;
use evictd_placement::{Cluster, InvalidObject, Pod, SpreadSource};
use evictd_pod::wire;
use evictd_preemption::{Action, Budget, Options};
use gang_extenders::Asking;
use hashbrown::HashMap;
use interrupted::Current;
use jiff::Timestamp;
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use stuck_victims::StuckVictims;

pub use binding::NotBound;
pub use suggest::Suggestions;

/// Why a pod is not tried whose earlier binding may still succeed.
const UNANSWERED: &str = "the API server has not answered an earlier binding of this pod";

/// A watch event.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "they are the kinds of the API")]
pub enum Event {
    /// A change that may wake waiting pods.
    Change(Change),
    Namespace(Delta<wire::Namespace>),
    Service(Delta<wire::Service>),
    ReplicationController(Delta<wire::Service>),
    ReplicaSet(Delta<wire::Workload>),
    StatefulSet(Delta<wire::Workload>),
    PodDisruptionBudget(Delta<wire::PodDisruptionBudget>),
    PodGroup(Delta<wire::PodGroup>),
    /// A failed pod was added, changed or deleted. It may also be reported as a change.
    FailedPod(Delta<wire::Pod>),
}

/// An attempt to schedule a pod.
#[derive(Debug)]
pub struct Attempt {
    /// The key of the pod in the queue.
    pub key: Arc<str>,
    /// The pod as it was last seen.
    pub pod: Arc<wire::Pod>,
    /// Which attempt this is, from 1.
    pub number: u32,
    /// How it ended.
    pub outcome: Outcome,
}

/// How an attempt ended.
#[derive(Debug)]
pub enum Outcome {
    /// It has a node and must be bound. [`Scheduler::bound`] or [`Scheduler::bind_failed`] must follow.
    Placed {
        /// The node.
        node: Arc<str>,
        /// The decision, with its evidence.
        decided: ScheduleResult,
        /// The `PreBind` plan of its claims.
        pre_bind: PreBindPlan,
    },
    /// It has a node and waits for plugins to permit its binding. A later attempt reports the result.
    WaitsOnPermit {
        /// The node.
        node: Arc<str>,
    },
    /// Extenders must be asked. [`Scheduler::on_extender_response`] continues the attempt, or that of its gang.
    AskExtenders(ExtenderRequest),
    /// It fits nowhere.
    Unschedulable(Rejected),
    /// There was no decision: the pod is invalid, or there is no node.
    Error(String),
    /// It is being deleted (S5-040).
    Deleting,
    /// No profile has its scheduler name (S5-041).
    NoProfile,
    /// It was not tried, or not to the end, because attempts of its namespace are costly. It is tried in its turn.
    PutOff(String),
}

/// Why a pod fits nowhere, and the actions that follow.
#[derive(Debug)]
pub struct Rejected {
    /// The message of its condition and event (S5-069).
    pub message: String,
    /// The plugins that rejected it.
    pub plugins: BTreeSet<String>,
    /// The reasons by node.
    pub rejections: Arc<[RejectedNodes]>,
    /// Whether preemption was tried, successfully or not.
    pub preempts: bool,
    /// The nominated node.
    pub nominated: Option<String>,
    /// A claim of the pod whose devices must be deallocated, because the pod cannot run where they are.
    pub deallocates: Option<ClaimRef>,
    /// The victims in the order of the plan: `namespace/name` and UID.
    pub victims: Vec<(String, String)>,
    /// The actions of the preemption, in order.
    pub actions: Vec<Action>,
    /// Pods that lose their nomination, `namespace/name`.
    pub nominations_cleared: Vec<String>,
    /// Whether the nomination in the status of the pod must be cleared.
    pub clears_nomination: bool,
}

/// The cluster, the queue and the profiles.
pub struct Scheduler {
    cluster: Cluster,
    queue: SchedulingQueue,
    frameworks: Vec<Framework>,
    decider: SchedulingAlgorithm,
    /// The last pod that fits nowhere. Until it is released its texts keep their symbols, so the next equal pod is recognised.
    last: Option<Pod>,
    budgets: Vec<Budget>,
    options: Options,
    /// Errors in the input, a line each.
    mistakes: Vec<String>,
    /// The moves in the queue since they were last taken.
    moved: IncomingPods,
    /// Finished attempts of gangs and waiting pods, to be returned one by one.
    decided: VecDeque<Attempt>,
    /// Results of pod groups since they were last taken.
    groups: Vec<GroupResult>,
    /// Gangs to be bound all or none, since they were last taken.
    together: Vec<Vec<Arc<str>>>,
    stuck: StuckVictims,
    /// The change of the cluster after which plugins were last asked for permits.
    permits_asked_at: u64,
    extenders: Vec<config::Extender>,
    /// Pods that wait for answers of extenders.
    asked: HashMap<Arc<str>, ExtenderState>,
    /// Gangs that wait for answers of extenders, by the name of the group.
    asking: HashMap<Arc<str>, Asking>,
    cost: u64,
    current: Current,
}

impl Scheduler {
    /// A scheduler of an empty cluster. `make` creates its profiles.
    ///
    /// # Errors
    /// Those of `make`.
    pub fn new<E>(
        settings: Settings,
        has_extenders: bool,
        make: impl FnOnce(&mut Cluster) -> Result<Vec<Framework>, E>,
    ) -> Result<Self, E> {
        let mut cluster = Cluster::new();
        let frameworks = make(&mut cluster)?;
        let names = frameworks
            .iter()
            .map(|framework| framework.scheduler_name.clone());
        let other_plugins = frameworks.iter().any(Framework::has_other_plugins);
        let settings = Settings {
            other_plugins,
            ..settings
        };
        Ok(Self {
            queue: SchedulingQueue::new(settings, names, has_extenders),
            cluster,
            frameworks,
            decider: SchedulingAlgorithm::default(),
            last: None,
            budgets: Vec::new(),
            options: Options::default(),
            mistakes: Vec::new(),
            moved: IncomingPods::default(),
            decided: VecDeque::new(),
            groups: Vec::new(),
            together: Vec::new(),
            stuck: StuckVictims::default(),
            permits_asked_at: 0,
            extenders: Vec::new(),
            asked: HashMap::new(),
            asking: HashMap::new(),
            cost: 0,
            current: Current::default(),
        })
    }

    /// The cluster with its assumed pods.
    pub const fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Lends the cluster to batch sessions. They leave it as it was.
    pub fn with_cluster<T>(&mut self, decide: impl FnOnce(&mut Cluster) -> T) -> T {
        decide(&mut self.cluster)
    }

    /// The pods that wait.
    pub const fn queue(&self) -> &SchedulingQueue {
        &self.queue
    }

    /// Errors in the input since the last call, a line each.
    pub fn take_invalid_objects(&mut self) -> Vec<String> {
        std::mem::take(&mut self.mistakes)
    }

    /// How many pods moved in the queue since the last call, by the pool that they entered and the event that brought them
    /// there.
    pub fn take_incoming_pods(
        &mut self,
    ) -> impl Iterator<Item = (Pool, &'static str, u64)> + use<> {
        self.moved.take()
    }

    /// Results of pod groups since the last call.
    pub fn take_group_results(&mut self) -> Vec<GroupResult> {
        std::mem::take(&mut self.groups)
    }

    /// The keys of pods that were placed since the last call, a list for each gang. No pod of a list may be bound before the
    /// claims of all its pods are prepared.
    pub fn take_gang_bindings(&mut self) -> Vec<Vec<Arc<str>>> {
        std::mem::take(&mut self.together)
    }

    /// Applies a watch event.
    pub fn on(&mut self, now: Timestamp, event: &Event) {
        match event {
            Event::Change(change) => {
                self.apply(change);
                let ended = self.take_ended(change);
                self.moved.extend(self.queue.on(now, change));
                if let Change::Pod(pods) = change {
                    self.stuck.on_pod(pods);
                    if let Some((key, waiting)) = ended {
                        self.end_waiting(now, &key, waiting);
                    }
                    self.renominate(pods);
                }
            }
            Event::Namespace(delta) => match (&delta.old, &delta.new) {
                (_, Some(new)) => self.cluster.add_namespace(new),
                (Some(old), None) => {
                    self.cluster.remove_namespace(&old.metadata.name);
                }
                (None, None) => {}
            },
            Event::Service(delta) => self.spread_by_labels(SpreadSource::Service, delta),
            Event::ReplicationController(delta) => {
                self.spread_by_labels(SpreadSource::ReplicationController, delta);
            }
            Event::ReplicaSet(delta) => self.spread_by(SpreadSource::ReplicaSet, delta),
            Event::StatefulSet(delta) => self.spread_by(SpreadSource::StatefulSet, delta),
            Event::PodDisruptionBudget(delta) => self.on_budget(delta),
            Event::PodGroup(delta) => self.moved.extend(self.queue.on_group(delta)),
            Event::FailedPod(Delta { new: Some(new), .. }) => self.cluster.add_evicted(new),
            Event::FailedPod(Delta { old: Some(old), .. }) => {
                self.cluster.remove_evicted(&old.metadata);
            }
            Event::FailedPod(_) => {}
        }
    }

    fn spread_by_labels(&mut self, kind: SpreadSource, delta: &Delta<wire::Service>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) if kind == SpreadSource::Service => self.cluster.add_service(new),
            (_, Some(new)) => self.cluster.add_replication_controller(new),
            (Some(old), None) => {
                self.cluster.remove_spread_source(kind, &old.metadata);
            }
            (None, None) => {}
        }
    }

    fn spread_by(&mut self, kind: SpreadSource, delta: &Delta<wire::Workload>) {
        match (&delta.old, &delta.new) {
            (_, Some(new)) => {
                let added = self.cluster.add_workload(kind, new);
                self.note(&new.metadata, added);
            }
            (Some(old), None) => {
                self.cluster.remove_spread_source(kind, &old.metadata);
            }
            (None, None) => {}
        }
    }

    fn on_budget(&mut self, delta: &Delta<wire::PodDisruptionBudget>) {
        self.decider.forget_hopeless();
        let name = |budget: &wire::PodDisruptionBudget| {
            let metadata = &budget.metadata;
            format!("{}/{}", metadata.namespace_or_default(), metadata.name)
        };
        if let Some(old) = &delta.old
            && let Some(at) = self
                .budgets
                .iter()
                .position(|budget| budget.name == name(old))
        {
            self.budgets.remove(at).release(&mut self.cluster);
        }
        if let Some(new) = &delta.new {
            match Budget::new(&mut self.cluster, new) {
                Ok(budget) => self.budgets.push(budget),
                Err(error) => self
                    .mistakes
                    .push(format!("{}: spec.selector: {error}", name(new))),
            }
        }
    }

    /// Keeps the error of an object that was not added.
    fn note(&mut self, metadata: &wire::Metadata, added: Result<(), InvalidObject>) {
        if let Err(mistake) = added {
            let name = format!("{}/{}", metadata.namespace_or_default(), metadata.name);
            self.mistakes.push(format!("{name}: {mistake}"));
        }
    }

    /// Applies a change to the cluster.
    fn apply(&mut self, change: &Change) {
        let cluster = &mut self.cluster;
        match change {
            Change::Pod(pods) => self.apply_pod(pods),
            Change::Node(Delta { new: Some(new), .. }) => cluster.update_node(new),
            Change::Node(Delta { old: Some(old), .. }) => {
                cluster.remove_node(&old.metadata.name);
            }
            Change::PersistentVolumeClaim(Delta { new: Some(new), .. }) => {
                let added = cluster.add_claim(new);
                self.note(&new.metadata, added);
            }
            Change::PersistentVolumeClaim(Delta { old: Some(old), .. }) => {
                cluster.remove_claim(&old.metadata);
            }
            Change::PersistentVolume(Delta { new: Some(new), .. }) => {
                let added = cluster.add_volume(new);
                self.note(&new.metadata, added);
            }
            Change::PersistentVolume(Delta { old: Some(old), .. }) => {
                cluster.remove_volume(&old.metadata.name);
            }
            Change::StorageClass(Delta { new: Some(new), .. }) => {
                let added = cluster.add_storage_class(new);
                self.note(&new.metadata, added);
            }
            Change::StorageClass(Delta { old: Some(old), .. }) => {
                cluster.remove_storage_class(&old.metadata.name);
            }
            Change::CsiNode(Delta { new: Some(new), .. }) => cluster.add_csi_node(new),
            Change::CsiNode(Delta { old: Some(old), .. }) => {
                cluster.remove_csi_node(&old.metadata.name);
            }
            Change::VolumeAttachment(Delta { new: Some(new), .. }) => {
                cluster.add_volume_attachment(new);
            }
            Change::VolumeAttachment(Delta { old: Some(old), .. }) => {
                cluster.remove_volume_attachment(&old.metadata.name);
            }
            Change::CsiDriver(Delta { new: Some(new), .. }) => cluster.add_csi_driver(new),
            Change::CsiDriver(Delta { old: Some(old), .. }) => {
                cluster.remove_csi_driver(&old.metadata.name);
            }
            Change::CsiStorageCapacity(Delta { new: Some(new), .. }) => {
                let added = cluster.add_storage_capacity(new);
                self.note(&new.metadata, added);
            }
            Change::CsiStorageCapacity(Delta { old: Some(old), .. }) => {
                cluster.remove_storage_capacity(&old.metadata);
            }
            Change::ResourceClaim(delta) => self.apply_resource_claim(delta),
            Change::ResourceSlice(Delta { new: Some(new), .. }) => {
                cluster.devices_mut().put_slice((**new).clone());
            }
            Change::ResourceSlice(Delta { old: Some(old), .. }) => {
                cluster.devices_mut().remove_slice(&old.metadata.name);
            }
            Change::DeviceClass(Delta { new: Some(new), .. }) => {
                cluster.devices_mut().put_class((**new).clone());
            }
            Change::DeviceClass(Delta { old: Some(old), .. }) => {
                cluster.devices_mut().remove_class(&old.metadata.name);
            }
            _ => {}
        }
    }

    fn apply_resource_claim(&mut self, delta: &Delta<wire::ResourceClaim>) {
        let devices = self.cluster.devices_mut();
        match (&delta.old, &delta.new) {
            (_, Some(new)) => devices.put_claim((**new).clone()),
            (Some(old), None) => {
                let metadata = &old.metadata;
                devices.remove_claim(metadata.namespace_or_default(), &metadata.name);
            }
            (None, None) => {}
        }
    }

    /// Keeps the pods with a node in the cluster. An assumed pod is confirmed on the node that it has now (S5-068).
    fn apply_pod(&mut self, pods: &Delta<wire::Pod>) {
        let has_node = |pod: &Arc<wire::Pod>| !pod.spec.node_name.is_empty();
        match (&pods.old, &pods.new) {
            (old, Some(new)) if has_node(new) => {
                if let Some(old) = old
                    .as_ref()
                    .filter(|old| old.metadata.uid != new.metadata.uid)
                {
                    self.cluster.remove_pod(&old.metadata);
                }
                let added = self.cluster.add_pod((**new).clone());
                self.note(&new.metadata, added);
            }
            (Some(old), new) if new.is_none() || has_node(old) => {
                if old.status.phase == "Failed" {
                    self.cluster.remove_evicted(&old.metadata);
                }
                self.cluster.remove_pod(&old.metadata);
            }
            _ => {}
        }
    }

    /// Updates the nomination of a changed pod in the cluster.
    fn renominate(&mut self, pods: &Delta<wire::Pod>) {
        let both = [&pods.old, &pods.new].into_iter().flatten();
        let keys: BTreeSet<Arc<str>> = both.map(|pod| pod_key(&pod.metadata)).collect();
        for key in keys {
            self.nominate(&key);
        }
    }

    /// Updates the nomination of a waiting pod in the cluster.
    fn nominate(&mut self, key: &Arc<str>) {
        let Some(pod) = self.queue.pod(key).cloned() else {
            return;
        };
        let Some(node) = self.queue.nominated_node(key) else {
            self.cluster.remove_nominated(&pod.metadata);
            return;
        };
        let mut wire = (*pod).clone();
        wire.status.nominated_node_name = node.to_string();
        let added = self.cluster.add_pod(wire);
        self.note(&pod.metadata, added);
    }

    /// Ends the backoffs that have passed; to be called every second.
    pub fn flush_backoff(&mut self, now: Timestamp) {
        self.moved.extend(self.queue.flush_backoff(now));
    }

    /// Wakes the pods that have waited too long for an event; to be called every 30 seconds.
    pub fn flush_unschedulable(&mut self, now: Timestamp) {
        self.moved.extend(self.queue.flush_unschedulable(now));
    }

    /// Tries the next pod, if one waits, together with its gang. Each call returns one attempt of a gang.
    pub fn attempt(&mut self, now: Timestamp) -> Option<Attempt> {
        self.review_permits(now);
        if let Some(attempt) = self.decided.pop_front() {
            return Some(attempt);
        }
        let popped = self.queue.pop()?;
        let (key, number) = (Arc::clone(&popped.pod), popped.attempts);
        let Some(pod) = self.queue.pod(&key).cloned() else {
            // It was deleted after it was popped.
            self.queue.done(now, &key);
            return self.attempt(now);
        };
        let namespace: Arc<str> = pod.metadata.namespace_or_default().into();
        let outcome = if !popped.has_turn && self.queue.takes_turns(&namespace) {
            self.put_off(now, &key, &pod)
        } else if let Some(gang) = self.queue.take_gang(&popped) {
            self.attempt_within(&popped, &namespace, |own| own.attempt_gang(now, gang, 0));
            return self.attempt(now);
        } else {
            self.attempt_within(&popped, &namespace, |own| {
                own.decide(now, &key, &pod, number)
            })
        };
        Some(Attempt {
            key,
            pod,
            number,
            outcome,
        })
    }

    fn decide(
        &mut self,
        now: Timestamp,
        key: &Arc<str>,
        wire: &Arc<wire::Pod>,
        number: u32,
    ) -> Outcome {
        if wire.metadata.deletion_timestamp.is_some() {
            self.queue.done(now, key);
            return Outcome::Deleting;
        }
        let Some(profile) = self.profile_of(wire) else {
            self.queue.done(now, key);
            return Outcome::NoProfile;
        };
        if self.queue.lifecycles().awaits_answer(key) {
            // The pod was deleted and came back. Two bindings at a time could answer in any order.
            return self.error(now, key, UNANSWERED.to_owned());
        }
        if self.cluster.nodes().is_empty() {
            return self.error(now, key, "no nodes available to schedule pods".to_owned());
        }
        let mut copy = (**wire).clone();
        let nominated = self.queue.nominated_node(key);
        let nominated = nominated.as_deref().unwrap_or_default();
        // Pods share their statuses until they are changed.
        if copy.status.nominated_node_name != nominated {
            nominated.clone_into(&mut copy.status.nominated_node_name);
        }
        let pod = match self.cluster.pod(copy) {
            Ok(pod) => pod,
            Err(mistake) => return self.error(now, key, mistake.to_string()),
        };
        self.charge(&pod);
        if self.is_interrupted() {
            self.cluster.release(pod);
            return self.end_interrupted(now, key, wire);
        }
        if self.has_extenders(wire) {
            let (attempt, pod) = ((key, number), (wire, pod));
            return self.decide_with_extenders(now, attempt, pod, profile);
        }
        if let Some(rejected) = self.rejected_alike(key, &pod, profile) {
            self.let_go(pod);
            self.failed(now, key, &rejected.failure());
            return Outcome::Unschedulable(rejected);
        }
        let framework = &self.frameworks[profile];
        let decided = self.decider.decide(framework, &self.cluster, &pod);
        if self.is_interrupted() {
            self.cluster.release(pod);
            return self.end_interrupted(now, key, wire);
        }
        match decided {
            Ok(decided) => self.place(now, (key, wire, number, profile), pod, decided),
            Err(filtered) => self.reject(now, key, (wire, pod), (profile, *filtered)),
        }
    }

    /// The profile of a pod, as an index.
    fn profile_of(&self, wire: &wire::Pod) -> Option<usize> {
        let name = match wire.spec.scheduler_name.as_str() {
            "" => "default-scheduler",
            name => name,
        };
        let mut frameworks = self.frameworks.iter();
        frameworks.position(|framework| framework.scheduler_name == name)
    }

    /// The victims of a pod are being deleted in the background, or no longer (S5-112).
    pub fn set_preempting(&mut self, key: &str, preempts: bool) {
        self.queue.set_preempting(key, preempts);
        let group = self.queue.pod(key).and_then(|pod| group_of(pod));
        if let Some(group) = group.filter(|_| !preempts) {
            // The other pods of its group may have waited for the same victims.
            self.moved.extend(self.queue.retry_group(&group));
        }
    }

    /// Tries these pods again at once, because a background action for them failed (S5-034).
    pub fn activate<'k>(&mut self, keys: impl IntoIterator<Item = &'k str>) {
        self.moved.extend(self.queue.activate(keys));
    }
}
