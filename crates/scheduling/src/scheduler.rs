//! The whole scheduler as a value: watch events go in, attempts come out. The caller binds the placed pods, deletes the
//! victims, writes conditions and events, and reports the results.

mod attempt;
mod binding_cycle;
mod cache;
mod cluster_state;
mod cost;
mod extender_calls;
mod gang_binding;
mod gang_cycle;
mod gang_preemption;
mod permit;
mod resize_cycle;
mod results;
mod scheduling_cycle;
mod stuck_victims;

use crate::change::{Change, Delta, is_assigned};
use crate::config;
use crate::events::{self, ClusterEvent};
use crate::framework::Framework;
use crate::gang::{GroupOutcome, GroupResult};
use crate::pod_lifecycle::{Binding, added_label};
use crate::pre_bind::PreBindPlan;
use crate::queue::{Pool, Settings};
use crate::recorder::{Recorder, SharedRecorder};
use crate::resizes::{DeferredResize, DeferredResizes};
use crate::scheduling_algorithm::SchedulingAlgorithm;
use crate::scheduling_queue::SchedulingQueue;
use binding_cycle::BindingCycle;
use cluster_state::ClusterState;
use cost::CostMeter;
use evictd_placement::{Cluster, NodeId, Pod};
use evictd_pod::compatibility::{Compatibility, Gate, Release};
use evictd_pod::resource_claims::claims_of;
use evictd_pod::wire;
use evictd_preemption::{Budget, Options};
use extender_calls::ExtenderCalls;
use jiff::{SignedDuration, Timestamp};
use resize_cycle::{DISABLED, ResizeResult, try_resize};
use std::sync::Arc;
use stuck_victims::StuckVictims;

pub use attempt::{Attempt, Outcome, Rejected};
pub use binding_cycle::NotBound;
pub use scheduling_cycle::Suggestions;

/// A watch event.
#[derive(Debug, Clone)]
#[allow(missing_docs, reason = "they are the kinds of the API")]
pub enum Event {
    /// A change that may wake waiting pods.
    Change(Change),
    PodDisruptionBudget(Delta<wire::PodDisruptionBudget>),
    PodGroup(Delta<wire::PodGroup>),
    CompositePodGroup(Delta<wire::CompositePodGroup>),
}

impl Event {
    /// The names of its events in metrics, as `NodeAdd`. Empty if plugins cannot register for it.
    pub fn labels(&self, release: Release) -> Vec<&'static str> {
        let Self::Change(change) = self else {
            return Vec::new();
        };
        if let Change::Pod(Delta { old, new }) = change {
            let is_assigned =
                |pod: &Option<Arc<wire::Pod>>| pod.as_ref().is_some_and(|pod| is_assigned(pod));
            match (is_assigned(old), is_assigned(new)) {
                (false, true) => return vec!["AssignedPodAdd"],
                (true, false) => return vec!["AssignedPodDelete"],
                (false, false) if old.is_none() => return vec![added_label(release)],
                (false, false) if new.is_none() => return vec!["UnschedulablePodDelete"],
                _ => {}
            }
        }
        let events = events::of(change);
        events.iter().map(ClusterEvent::label).collect()
    }
}

/// A pod that is being tried.
#[derive(Clone, Copy)]
struct PodAttempt<'a> {
    key: &'a Arc<str>,
    pod: &'a Arc<wire::Pod>,
    /// Which attempt it is, from 1.
    number: u32,
    /// Index of its profile.
    profile: usize,
}

/// The scheduler: its cache and queue, the scheduling cycle and the binding cycle.
pub struct Scheduler {
    state: ClusterState,
    algorithm: SchedulingAlgorithm,
    binding: BindingCycle,
    extenders: ExtenderCalls,
    stuck_victims: StuckVictims,
    resizes: DeferredResizes,
    /// After this time a parked resize is tried again.
    longest_wait: SignedDuration,
    options: Options,
    cost: CostMeter,
    /// The last pod that fits on no node. Until it is released its texts keep their symbols, so the next equal pod is
    /// recognised.
    last_rejected: Option<Pod>,
}

/// Watch events and time.
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
        let profiles: Arc<[Framework]> = make(&mut cluster)?.into();
        let settings = Settings {
            other_plugins: profiles.iter().any(Framework::has_other_plugins),
            ..settings
        };
        let names = profiles
            .iter()
            .map(|profile| profile.scheduler_name.clone());
        let mut state = ClusterState::new(cluster, settings, names, has_extenders);
        let without_claims = profiles.iter().filter(|profile| !profile.waits_for_claims);
        let without_claims = without_claims.map(|profile| profile.scheduler_name.clone());
        state.queue.ignore_claims(without_claims);
        Ok(Self {
            state,
            algorithm: SchedulingAlgorithm::default(),
            binding: BindingCycle::new(profiles),
            extenders: ExtenderCalls::default(),
            stuck_victims: StuckVictims::default(),
            resizes: DeferredResizes::default(),
            longest_wait: settings.max_unschedulable,
            options: Options::default(),
            cost: CostMeter::default(),
            last_rejected: None,
        })
    }

    /// Sets the extenders, in the order in which they are asked.
    pub fn set_extenders(&mut self, extenders: Vec<config::Extender>) {
        self.extenders.extenders = extenders;
    }

    /// Changes the release of Kubernetes, before the first event.
    pub fn set_compatibility(&mut self, compatibility: Compatibility) {
        self.state.cluster_mut().set_compatibility(compatibility);
        self.state.queue.set_release(compatibility.release());
    }

    /// Measures the queueing hints. The frameworks have recorders of their own.
    pub fn set_recorder(&mut self, recorder: Arc<dyn Recorder>) {
        self.state.queue.set_recorder(SharedRecorder(recorder));
    }

    /// Interrupts attempts once `is_over` returns true. It is called often, by several threads, and only during an attempt. The
    /// pod of an interrupted attempt is tried again after its backoff, as after any other error.
    pub fn interrupt_where(&mut self, is_over: impl Fn() -> bool + Send + Sync + 'static) {
        self.state.cluster_mut().interrupt_mut().ask(is_over);
    }

    /// Applies a watch event.
    pub fn on(&mut self, now: Timestamp, event: &Event) {
        if let Event::Change(change) = event
            && self.preempts_for_resizes()
        {
            let binding = &self.binding;
            let is_responsible = |pod: &wire::Pod| binding.profile_of(pod).is_some();
            self.resizes.on(now, change, is_responsible);
        }
        match event {
            Event::Change(change @ Change::Pod(pods)) => self.on_pod(now, change, pods),
            Event::Change(change) => self.state.apply(now, change),
            Event::PodGroup(delta) => self.state.on_group(now, delta),
            Event::CompositePodGroup(delta) => {
                for (group, problem) in self.state.on_composite_group(now, delta) {
                    let outcome = GroupOutcome::Invalid(problem);
                    self.binding.results.push_group(group, outcome);
                }
            }
            Event::PodDisruptionBudget(delta) => {
                // A pod that could evict no pod before may do so under the new budget.
                self.algorithm.forget_unschedulable();
                self.state.cache.on_budget(delta);
            }
        }
    }

    fn on_pod(&mut self, now: Timestamp, change: &Change, pods: &Delta<wire::Pod>) {
        // Before the change is applied, which then wakes the pods that waited for this victim.
        if let Some(victim) = terminating(pods) {
            let moved = self.state.queue.victim_terminates(now, &victim);
            self.state.count(moved);
        }
        let ended = BindingCycle::take_ended(&mut self.state, pods);
        self.state.apply(now, change);
        self.stuck_victims.on_pod(pods);
        if let Some((key, waiting)) = ended {
            self.binding
                .end_waiting(&mut self.state, now, &key, &waiting);
        }
        self.state.renominate(pods);
    }

    /// Ends the backoffs that have passed; to be called every second.
    pub fn flush_backoff(&mut self, now: Timestamp) {
        let moved = self.state.queue.flush_backoff(now);
        self.state.count(moved);
    }

    /// Wakes the pods that have waited too long for an event; to be called every 30 seconds.
    pub fn flush_unschedulable(&mut self, now: Timestamp) {
        let moved = self.state.queue.flush_unschedulable(now);
        self.state.count(moved);
        self.resizes.flush(now, self.longest_wait);
    }

    /// Devices that are not bound in time, by the time that objects have, are not waited for.
    pub fn give_up_late_devices(&mut self, now: Timestamp) {
        if let Some(profile) = self.binding.profiles.first() {
            profile.give_up_late_devices(self.state.cluster_mut(), now);
        }
    }

    /// Withdraws the nominations to nodes with stuck victims, so that their pods look for another node, and gives up devices that
    /// are not bound in time; to be called every second with the time of the wall clock, which objects have.
    pub fn leave_stuck_victims(&mut self, now: Timestamp) {
        self.give_up_late_devices(now);
        for (pod, node) in self.stuck_victims.preemptors(now, &self.state.queue) {
            self.stuck_victims.abandon(&pod, node);
            self.state.withdraw_nomination(now, &pod);
        }
    }

    /// Tries these pods again at once, because a background action for them failed (S5-034).
    pub fn activate<'k>(&mut self, now: Timestamp, keys: impl IntoIterator<Item = &'k str>) {
        self.state.activate(now, keys);
    }
}

/// Deferred in-place resizes.
impl Scheduler {
    /// Tries the next deferred resize; `None` if there is none. Its outcome is [`Outcome::Unschedulable`] with what the resize
    /// waits for. With a preemption it names the node, which must not be nominated. Without the gate
    /// `InPlacePodVerticalScalingSchedulerPreemption` there never is an attempt.
    pub fn attempt_resize(&mut self, now: Timestamp) -> Option<Attempt> {
        let (key, pod) = self.resizes.next()?;
        let (tried, _) = self.interruptible(true, |scheduler| scheduler.try_resize(&key, &pod));
        let results = &mut self.binding.results;
        results.push_preempted(&self.state.queue, &tried.groups);
        let number = self.resizes.park(now, &key, &tried.rejected.message);
        Some(Attempt {
            key,
            pod,
            number,
            outcome: Outcome::Unschedulable(tried.rejected),
        })
    }

    /// The victims of a resize could not be deleted. It is tried again by the next [`Scheduler::flush_unschedulable`].
    pub fn resize_failed(&mut self, key: &str, why: &str) {
        self.resizes.failed(key, why);
    }

    /// The deferred resizes; empty without the gate.
    pub fn deferred_resizes(&self) -> impl Iterator<Item = &DeferredResize> {
        self.resizes.iter()
    }

    fn preempts_for_resizes(&self) -> bool {
        let gate = Gate::InPlacePodVerticalScalingSchedulerPreemption;
        self.state.cluster().compatibility().is_on(gate)
    }

    fn try_resize(&self, key: &str, pod: &wire::Pod) -> ResizeResult {
        let Some(profile) = self.binding.profile_of(pod) else {
            return ResizeResult::default();
        };
        if self.resizes.is_disabled(&pod.spec.node_name) {
            return ResizeResult::waits(DISABLED);
        }
        let framework = &self.binding.profiles[profile];
        try_resize(&self.state, framework, self.options, (key, pod))
    }
}

/// Results of bindings, evictions and preemptions.
impl Scheduler {
    /// The API server has bound a pod that was placed. Returns its binding, unless the pod was deleted meanwhile.
    pub fn bound(&mut self, now: Timestamp, key: &str) -> Option<Binding> {
        BindingCycle::on_bound(&mut self.state, now, key)
    }

    /// A pod that was placed could not be bound: its node has room again, and it is tried later (S5-065). A pod that has a
    /// node by now, as a watch shows, stays there. A pod of a batch session is not tried again here. `None` if the pod was
    /// deleted meanwhile.
    pub fn bind_failed(&mut self, now: Timestamp, key: &str) -> Option<NotBound> {
        self.binding.on_not_bound(&mut self.state, now, key)
    }

    /// The pod has waited too long for its devices to be bound. Its next attempt deallocates them (S7-163).
    pub fn devices_are_late(&mut self, pod: &wire::Pod) {
        let namespace = pod.metadata.namespace_or_default();
        let devices = self.state.cluster_mut().devices_mut();
        let special = devices.special_claim(&pod.metadata.uid);
        let special = special.map(|claim| claim.metadata.name.clone());
        let named = claims_of(pod);
        let named = named.filter_map(|claim| claim.name().map(str::to_owned));
        for name in named.chain(special) {
            devices.devices_are_late(namespace, &name);
        }
    }

    /// Sends a victim that waits for permits back to the queue instead of deleting it (S4-022). False if it does not wait.
    pub fn reject_waiting(&mut self, now: Timestamp, key: &str) -> bool {
        self.binding.reject_victim(&mut self.state, now, key)
    }

    /// The victims of a pod on this node are to be deleted. Until the last one terminates the pod is not tried (S5-112). Returns
    /// false if the victims of an earlier attempt are still being deleted: then these must not be deleted.
    pub fn begin_preemption(&mut self, now: Timestamp, key: &str, node: &str) -> bool {
        self.state.queue.begin_preemption(now, key, node)
    }

    /// Every victim of a pod but this one terminates. The watch event of the last one wakes the pod.
    pub fn last_victim(&mut self, now: Timestamp, key: &str, victim: &str) {
        let cluster = self.state.cluster();
        let node = self
            .state
            .queue
            .preemption(key)
            .and_then(|preemption| cluster.find_node(&preemption.node));
        let is_running = node.is_some_and(|node| {
            cluster
                .node(node)
                .pods
                .iter()
                .any(|pod| pod.uid() == victim && !pod.terminating)
        });
        // A victim that terminates already sends no further event.
        let moved = self.state.queue.last_victim(now, key, victim, !is_running);
        self.state.count(moved);
    }

    /// Every deletion of the pod's victims is answered. After a failure the pod is tried again. Returns how long the deletions
    /// took.
    pub fn end_preemption(
        &mut self,
        now: Timestamp,
        key: &str,
        has_failed: bool,
    ) -> Option<SignedDuration> {
        let began = self.state.queue.preemption(key)?.began;
        let moved = self.state.queue.end_preemption(now, key, has_failed);
        self.state.count(moved);
        Some(now.duration_since(began))
    }

    /// A batch session binds the pod to this node and hands over the compiled pod, which is assumed there. Returns the
    /// `PreBind` plan, with which the caller binds the pod. `None` if an earlier binding of the pod is not answered: then
    /// it must not be bound.
    pub fn bind_of_session(
        &mut self,
        now: Timestamp,
        pod: &Arc<wire::Pod>,
        node: NodeId,
        hand_over: impl FnOnce(&Cluster) -> Option<Pod>,
    ) -> Option<PreBindPlan> {
        let lifecycles = self.state.queue.lifecycles();
        if lifecycles.awaits_answer(&pod.metadata.key()) {
            return None;
        }
        let compiled = hand_over(self.state.cluster())?;
        Some(self.state.bind_of_session(now, pod, node, compiled))
    }

    /// A batch session evicts the pod, which counts as terminating from now on.
    pub fn evict_of_session(&mut self, now: Timestamp, pod: &wire::Metadata) {
        self.state.queue.evict_of_session(now, pod);
        self.state.cluster_mut().set_terminating(pod, true);
    }

    /// A pod was not evicted. Returns whether it counted as evicted until now.
    pub fn eviction_failed(&mut self, now: Timestamp, pod: &wire::Metadata) -> bool {
        let counted = self.state.queue.eviction_failed(now, &pod.key());
        if counted {
            self.state.cluster_mut().set_terminating(pod, false);
        }
        counted
    }

    /// A watch shows that a pod of batch sessions is deleted. The end of a pod is not reported here.
    pub fn deleted(&mut self, now: Timestamp, pod: &wire::Metadata) {
        self.state.queue.deleted(now, pod);
    }

    /// A watch shows this pod. Returns it with the decisions of batch sessions that the watch does not show yet.
    pub fn shown(&mut self, now: Timestamp, pod: &Arc<wire::Pod>) -> Arc<wire::Pod> {
        self.state.queue.shown(now, pod)
    }
}

/// Views.
impl Scheduler {
    /// The cluster with its assumed pods.
    pub const fn cluster(&self) -> &Cluster {
        self.state.cluster()
    }

    /// Lends the cluster to batch sessions. They leave it as it was.
    pub fn with_cluster<T>(&mut self, decide: impl FnOnce(&mut Cluster) -> T) -> T {
        let cluster = self.state.cluster_mut();
        CostMeter::begin_session(cluster);
        let decided = decide(cluster);
        self.cost.end(cluster);
        decided
    }

    /// The disruption budgets.
    pub(crate) fn budgets(&self) -> &[Budget] {
        &self.state.cache.budgets
    }

    /// The pods that wait.
    pub const fn queue(&self) -> &SchedulingQueue {
        &self.state.queue
    }

    /// The bindings that are not answered, of pods that exist.
    pub fn bindings(&self) -> impl Iterator<Item = &Binding> {
        self.state.queue.lifecycles().bindings()
    }

    /// Errors of objects that were left out since the last call, a line each.
    pub fn take_invalid_objects(&mut self) -> Vec<String> {
        self.state.cache.take_invalid_objects()
    }

    /// How many pods moved in the queue since the last call, by the pool that they entered and the event that brought them
    /// there.
    pub fn take_incoming_pods(
        &mut self,
    ) -> impl Iterator<Item = (Pool, &'static str, u64)> + use<> {
        self.state.take_incoming()
    }

    /// As [`Self::take_incoming_pods`] for entities: pods without a group (`pod`) and trees of groups (`podgroup`).
    pub fn take_incoming_entities(
        &mut self,
    ) -> impl Iterator<Item = (Pool, &'static str, &'static str, u64)> + use<> {
        self.state.take_incoming_entities()
    }

    /// Results of pod groups since the last call.
    pub fn take_group_results(&mut self) -> Vec<GroupResult> {
        self.binding.results.take_groups()
    }

    /// The cost of the attempts since the last call, in the units of
    /// [`estimated_cost`](evictd_placement::estimated_cost).
    pub const fn take_cost(&mut self) -> u64 {
        self.cost.take_total()
    }

    /// The keys of pods that were placed since the last call, a list for each gang. No pod of a list may be bound before the
    /// claims of all its pods are prepared.
    pub fn take_gang_bindings(&mut self) -> Vec<Vec<Arc<str>>> {
        self.binding.results.take_gang_bindings()
    }
}

/// The key of a pod that terminates or was deleted.
fn terminating(pods: &Delta<wire::Pod>) -> Option<Arc<str>> {
    let old = pods.old.as_ref()?;
    let stays = pods
        .new
        .as_ref()
        .is_some_and(|new| new.metadata.deletion_timestamp.is_none());
    (!stays).then(|| old.metadata.key())
}
