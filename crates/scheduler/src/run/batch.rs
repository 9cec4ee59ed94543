//! Batch sessions on the cache of the scheduler: their input, and when one is due.

use super::watches::BatchChange;
use evictd_batch::conf::Conf;
use evictd_batch::session::{
    Cache, Coscheduling, EvictionKind, GroupWrite, Known, Outcome, PodCondition, PodId, Setting,
    Turns, UpstreamOutcome, upstream_job, upstream_job_of,
};
use evictd_batch_objects::{Compat, PodGroup, PodGroupStatus, Queue, QueueState};
use evictd_cluster_client::lease::Memo;
use evictd_placement::{Cluster, NodeId};
use evictd_pod::wire;
use evictd_scheduling::{Delta, PreBindPlan, Scheduler};
use jiff::Timestamp;
use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tracing::warn;

/// The annotation of the sessions' lease that lists the reservations.
pub(super) const RESERVATIONS: &str = "evictd.dev/reservations";

/// The values of `--batch-conf` and of the other batch flags.
#[derive(Debug, Clone)]
pub(crate) struct BatchSettings {
    /// `volcano-scheduler.conf`.
    pub(crate) file: PathBuf,
    /// How long after the end of a session the next one begins (S6-087).
    pub(crate) period: Duration,
    /// The scheduler name and the default queue.
    pub(crate) setting: Setting,
    pub(crate) compat: Compat,
}

/// The sessions' side of the engine.
pub(crate) struct Batch {
    settings: BatchSettings,
    conf: Conf,
    cache: Cache,
    known: Known,
    /// The notices given already about groups that sessions do not read.
    coscheduling: Coscheduling,
    /// The last reported result of each group of `scheduling.k8s.io`, by the job that stands for it.
    reported: HashMap<String, UpstreamOutcome>,
    /// Whether an object or the configuration has changed since the last session.
    changed: bool,
    /// When a session is due although nothing has changed.
    again_at: Option<Timestamp>,
    /// The last change of the cluster at the end of the last session.
    ended_at: u64,
    /// Whether this process has continued the evictions that another one began.
    resumed: bool,
    /// Keeps the reservations over a restart.
    memo: Option<Memo>,
    /// The reservations in the memo. `None` before the first session.
    kept_turns: Option<Turns>,
}

impl Batch {
    /// Sessions with this configuration, before any object is known.
    pub(crate) fn new(settings: BatchSettings, conf: Conf) -> Self {
        let mut cache = Cache::new(settings.setting.clone());
        cache.queue(&stand_in(&settings));
        Self {
            conf,
            cache,
            known: Known::default(),
            coscheduling: Coscheduling::default(),
            reported: HashMap::new(),
            settings,
            changed: true,
            again_at: None,
            ended_at: 0,
            resumed: false,
            memo: None,
            kept_turns: None,
        }
    }

    /// Keeps the reservations in the lease.
    pub(crate) fn keep_reservations(&mut self, memo: Option<Memo>) {
        self.memo = memo;
    }

    /// Takes over the reservations of an earlier leader, before the first session.
    fn restore_reservations(&mut self, now: Timestamp) {
        if self.kept_turns.is_some() {
            return;
        }
        self.kept_turns = Some(Turns::default());
        if let Some(text) = self.memo.as_ref().and_then(Memo::found) {
            self.set_reservations(&text, now);
        }
    }

    fn set_reservations(&mut self, text: &str, now: Timestamp) {
        match Turns::from_text(text, now) {
            Ok(turns) => self.cache.set_turns(turns),
            // Without them only the order among jobs that have waited long is lost.
            Err(error) => {
                warn!("reservations begin anew: the lease's annotation {RESERVATIONS}: {error}");
            }
        }
    }

    /// How long after the end of a session the next one begins.
    pub(crate) const fn period(&self) -> Duration {
        self.settings.period
    }

    /// The scheduler name of its pods and events.
    pub(crate) fn scheduler(&self) -> &str {
        &self.settings.setting.scheduler
    }

    /// The queue of jobs that name none.
    pub(crate) fn default_queue(&self) -> &str {
        &self.settings.setting.default_queue
    }

    /// The objects of batch sessions as the watches have shown them.
    pub(crate) const fn known(&self) -> &Known {
        &self.known
    }

    /// Writes the reservations into the lease, if the session has changed them.
    fn write_reservations(&mut self) {
        let turns = self.cache.turns();
        if self.kept_turns.as_ref() != Some(turns) {
            self.kept_turns = Some(turns.clone());
            if let Some(memo) = &self.memo {
                memo.write(turns.to_text());
            }
        }
    }

    /// Handles a change of a pod of any scheduler. Returns a pod of batch sessions together with the decisions about it that
    /// no watch shows yet.
    pub(crate) fn on_pod(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        pods: &Delta<wire::Pod>,
    ) -> Option<Arc<wire::Pod>> {
        let is_ours =
            |pod: &Arc<wire::Pod>| pod.spec.scheduler_name == self.settings.setting.scheduler;
        let notice = pods
            .new
            .as_ref()
            .and_then(|new| self.coscheduling.notice(new, &self.settings.setting));
        if let Some(notice) = notice {
            warn!("{notice}");
        }
        let uid = |pod: &Option<Arc<wire::Pod>>| Some(Arc::clone(&pod.as_ref()?.metadata.uid));
        if let Some(old) = pods.old.as_ref().filter(|old| is_ours(old))
            && uid(&pods.new).as_ref() != Some(&old.metadata.uid)
        {
            scheduler.deleted(now, &old.metadata);
            self.known.remove_pod(&old.metadata);
            scheduler.with_cluster(|cluster| self.cache.remove_pod(cluster, &old.metadata));
            self.changed = true;
        }
        match (&pods.old, &pods.new) {
            (_, Some(new)) if is_ours(new) => {
                self.known.put_pod(Arc::clone(new));
                Some(self.show(scheduler, now, new))
            }
            _ => None,
        }
    }

    /// Adds or replaces a pod in the sessions' cache. Returns the pod with the decisions that no watch shows yet.
    fn show(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        pod: &Arc<wire::Pod>,
    ) -> Arc<wire::Pod> {
        self.changed = true;
        let pod = scheduler.shown(now, pod);
        scheduler.with_cluster(|cluster| self.cache.pod(cluster, &pod));
        pod
    }

    /// Undoes a failed decision: the pod is again as the watches show it.
    pub(crate) fn show_again(&mut self, scheduler: &mut Scheduler, now: Timestamp, pod: &str) {
        if let Some(pod) = self.known.pod(pod).cloned() {
            self.show(scheduler, now, &pod);
        }
    }

    /// Assumes a pod on the node that a session has chosen. Returns its `PreBind` plan. `None` if an earlier binding of the pod is
    /// still under way.
    pub(crate) fn bind(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        id: &PodId,
        node: NodeId,
    ) -> Option<(Arc<wire::Pod>, PreBindPlan)> {
        self.changed = true;
        let pod = Arc::clone(self.known.pod(id)?);
        let cache = &mut self.cache;
        let hand_over = |cluster: &Cluster| cache.bind(cluster, id, node);
        let pre_bind = scheduler.bind_of_session(now, &pod, node, hand_over)?;
        Some((pod, pre_bind))
    }

    /// Assumes that a pod terminates, and returns it.
    pub(crate) fn evict(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        id: &PodId,
    ) -> Option<Arc<wire::Pod>> {
        let pod = Arc::clone(self.known.pod(id)?);
        // A terminating pod needs no assumption.
        if pod.metadata.deletion_timestamp.is_none() {
            self.changed = true;
            scheduler.evict_of_session(now, &pod.metadata);
            self.cache.evict(id);
        }
        Some(pod)
    }

    /// Handles a change of a group of `scheduling.k8s.io`.
    pub(crate) fn on_upstream(&mut self, groups: &Delta<wire::PodGroup>) {
        let uid = |group: &Arc<wire::PodGroup>| Arc::clone(&group.metadata.uid);
        if let Some(old) = &groups.old
            && groups.new.as_ref().map(uid) != Some(uid(old))
        {
            // A group that was made anew gets its result again.
            self.reported.remove(&*upstream_job(&old.metadata));
        }
        match (&groups.old, &groups.new) {
            (_, Some(new)) => {
                self.cache.upstream_group(new);
                self.known.put_upstream(Arc::clone(new));
            }
            (Some(old), None) => {
                self.cache.remove_upstream_group(&old.metadata);
                self.known.remove_upstream(&old.metadata);
            }
            (None, None) => return,
        }
        self.changed = true;
    }

    /// Handles a change of a `ReplicaSet` or a `StatefulSet`, which may say how many of its bare pods start together.
    pub(crate) fn on_owner(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        owners: &Delta<wire::Workload>,
    ) {
        let new = owners.new.as_ref().map(|new| &new.metadata);
        let old = owners.old.as_ref().map(|old| &old.metadata);
        let gone = old.filter(|old| new.is_none_or(|new| new.uid != old.uid));
        let was_gang = gone.is_some_and(|gone| self.cache.remove_owner(gone));
        let has_changed = new.is_some_and(|new| self.cache.owner(new));
        if !was_gang && !has_changed {
            return;
        }
        let is_owner = |owner: &wire::OwnerReference| {
            let mut owners = new.into_iter().chain(gone);
            owner.controller && owners.any(|metadata| *metadata.uid == *owner.uid)
        };
        let pods = self.known.pods().map(|(_, pod)| pod);
        let pods = pods.filter(|pod| pod.metadata.owner_references.iter().any(is_owner));
        let pods: Vec<Arc<wire::Pod>> = pods.map(Arc::clone).collect();
        for pod in pods {
            self.show(scheduler, now, &pod);
        }
    }

    /// Handles a change of a disruption budget.
    pub(crate) fn on_budget(&mut self, budgets: &Delta<wire::PodDisruptionBudget>) {
        match (&budgets.old, &budgets.new) {
            (_, Some(new)) => self.cache.budget(new),
            (Some(old), None) => self.cache.remove_budget(&old.metadata),
            (None, None) => return,
        }
        self.changed = true;
    }

    /// Handles a change of a pod group, a queue, a priority class, a workload or the configuration.
    pub(crate) fn on(&mut self, change: BatchChange) {
        let (cache, known) = (&mut self.cache, &mut self.known);
        match change {
            BatchChange::Group(Delta { new: Some(new), .. }) => {
                cache.group(&known.put_group(new));
            }
            BatchChange::Group(Delta { old: Some(old), .. }) => {
                cache.remove_group(&old.metadata);
                known.remove_group(&old.metadata);
            }
            BatchChange::Queue(Delta { new: Some(new), .. }) => {
                // The first queue ends the need for the stand-in.
                if !known.has_queues() {
                    cache.remove_queue(&self.settings.setting.default_queue);
                }
                cache.queue(&new);
                known.put_queue(new);
            }
            BatchChange::Queue(Delta { old: Some(old), .. }) => {
                cache.remove_queue(&old.metadata.name);
                known.remove_queue(&old.metadata);
                if !known.has_queues() {
                    cache.queue(&stand_in(&self.settings));
                }
            }
            BatchChange::PriorityClass(Delta { new: Some(new), .. }) => cache.class(&new),
            BatchChange::PriorityClass(Delta { old: Some(old), .. }) => {
                cache.remove_class(&old.metadata.name);
            }
            BatchChange::Conf(conf) => self.conf = *conf,
            BatchChange::Workload(Delta { new: Some(new), .. }) => cache.workload(&new),
            BatchChange::Workload(Delta { old: Some(old), .. }) => {
                cache.remove_workload(&old.metadata);
            }
            BatchChange::Numatopology(Delta { new: Some(new), .. }) => cache.numatopology(&new),
            BatchChange::Numatopology(Delta { old: Some(old), .. }) => {
                cache.remove_numatopology(&old.metadata);
            }
            BatchChange::NodeUse(nodes) => cache.measured_nodes(nodes),
            BatchChange::ResourceQuota(Delta { new: Some(new), .. }) => cache.quota(&new),
            BatchChange::ResourceQuota(Delta { old: Some(old), .. }) => {
                cache.remove_quota(&old.metadata);
            }
            BatchChange::HyperNode(Delta { new: Some(new), .. }) => cache.hyper_node(&new),
            BatchChange::HyperNode(Delta { old: Some(old), .. }) => {
                cache.remove_hyper_node(&old.metadata.name);
            }
            BatchChange::Group(_)
            | BatchChange::HyperNode(_)
            | BatchChange::InvalidConf(_)
            | BatchChange::ResourceQuota(_)
            | BatchChange::Numatopology(_)
            | BatchChange::Queue(_)
            | BatchChange::PriorityClass(_)
            | BatchChange::Workload(_) => return,
        }
        self.changed = true;
    }

    /// Runs a session. `None` if nothing has changed since the last one and none is due, because its result would be the same.
    pub(crate) fn session(&mut self, scheduler: &mut Scheduler, now: Timestamp) -> Option<Outcome> {
        let changes = scheduler.cluster().changes().now();
        let due = self.again_at.is_some_and(|at| at <= now);
        if !self.changed && !due && changes == self.ended_at {
            return None;
        }
        self.restore_reservations(now);
        self.cache.set_now(now);
        let (conf, compat) = (&self.conf, self.settings.compat);
        let outcome = scheduler.with_cluster(|cluster| self.cache.session(cluster, conf, compat));
        self.write_reservations();
        self.changed = false;
        self.again_at = outcome.again_at;
        self.ended_at = scheduler.cluster().changes().now();
        Some(outcome)
    }

    /// Evictions that an earlier process announced in a condition and did not carry out. Their room is meant for another job
    /// already. Empty after the first call.
    pub(crate) fn interrupted_evictions(&mut self) -> Vec<(PodId, EvictionKind)> {
        if std::mem::replace(&mut self.resumed, true) {
            return Vec::new();
        }
        let pods = self.known.pods().filter_map(|(id, pod)| {
            let ended = pod.status.phase.has_ended();
            let stays = pod.metadata.deletion_timestamp.is_none() && !ended;
            let mut conditions = pod.status.conditions.iter().filter(|condition| {
                condition.holds("DisruptionTarget") && condition.reason == "PreemptionByScheduler"
            });
            let kind = eviction_kind(self.scheduler(), &conditions.next()?.message)?;
            stays.then(|| (id.clone(), kind))
        });
        pods.collect()
    }

    /// Assumes a status of a job's group. Returns the group as it will be, and the number of the write. The status of a job
    /// without a group is only kept here.
    pub(crate) fn assume_group(
        &mut self,
        key: &str,
        status: PodGroupStatus,
    ) -> Option<(Arc<PodGroup>, u64)> {
        let Some((group, write)) = self.known.assume_group(key, &status) else {
            self.cache.assume_status(key, status);
            return None;
        };
        self.cache.group(&group);
        Some((group, write))
    }

    /// Handles the answer to the write of a group's status.
    pub(crate) fn group_written(&mut self, key: &str, write: u64, answer: GroupWrite) {
        if let Some(group) = self.known.group_written(key, write, answer) {
            self.cache.group(&group);
            self.changed = true;
        }
    }

    /// Assumes a condition of a pod that is being written, so that the next session does not write it again.
    pub(crate) fn assume_condition(&mut self, condition: &PodCondition) {
        self.cache.assume_condition(condition);
    }

    /// Forgets a condition that was not written. The next session reports it again.
    pub(crate) fn forget_condition(&mut self, pod: &str) {
        self.cache.forget_condition(pod);
    }

    /// The results of groups of `scheduling.k8s.io` that differ from the last reported ones. They count as reported.
    pub(crate) fn changed_results(
        &mut self,
        outcomes: BTreeMap<String, UpstreamOutcome>,
    ) -> Vec<(Arc<wire::PodGroup>, UpstreamOutcome)> {
        let mut changed = Vec::new();
        for (job, outcome) in outcomes {
            let Some(group) = self.known.upstream(&job) else {
                continue;
            };
            if self.reported.get(&job) != Some(&outcome) {
                changed.push((Arc::clone(group), outcome.clone()));
                self.reported.insert(job, outcome);
            }
        }
        changed
    }

    /// Forgets the result of a group after a failed binding, so that its next success is reported again.
    pub(crate) fn not_bound(&mut self, pod: &str) {
        if let Some(job) = self.known.pod(pod).and_then(|pod| upstream_job_of(pod)) {
            self.reported.remove(&*job);
        }
    }
}

/// The default queue of a cluster that has no queues, because Volcano's definitions are not installed.
fn stand_in(settings: &BatchSettings) -> Queue {
    let mut queue = Queue::default();
    queue
        .metadata
        .name
        .clone_from(&settings.setting.default_queue);
    queue.spec.weight = 1;
    queue.status.state = QueueState::Open.into();
    queue
}

/// The message of the condition of a pod that is evicted for another job.
pub(super) fn eviction_message(scheduler: &str, kind: EvictionKind) -> String {
    format!("{scheduler}: {} for another job", kind.as_str())
}

/// The kind of eviction in the message of [`eviction_message`]. `None` for another message.
fn eviction_kind(scheduler: &str, message: &str) -> Option<EvictionKind> {
    let rest = message.strip_prefix(scheduler)?.strip_prefix(": ")?;
    EvictionKind::of(rest.strip_suffix(" for another job")?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use evictd_batch_objects::PodGroupPhase;

    #[test]
    fn damaged_reservations_are_dropped_and_those_from_the_future_count_from_now() {
        let settings = BatchSettings {
            file: PathBuf::new(),
            period: Duration::from_secs(1),
            setting: Setting::default(),
            compat: Compat::EVICTD,
        };
        let now: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let turns_after = |text: &str| {
            let conf = Conf::read("actions: \"allocate\"\ntiers: []\n").unwrap();
            let mut batch = Batch::new(settings.clone(), conf);
            batch.set_reservations(text, now);
            batch.cache.turns().clone()
        };
        for damaged in ["", "{", "{}", "null", r#"[{"job": 1}]"#, "\u{0}"] {
            assert_eq!(turns_after(damaged), Turns::default(), "{damaged:?}");
        }
        let future = r#"[{"job":"a/b","queue":"q","since":"2030-01-01T00:00:00Z"}]"#;
        let read = turns_after(future).to_text();
        assert!(read.contains("2026-01-01T00:00:00Z"), "{read}");
    }
    #[test]
    fn an_older_watch_event_does_not_undo_the_status_that_a_session_gave_a_group() {
        let settings = BatchSettings {
            file: PathBuf::new(),
            period: Duration::from_secs(1),
            setting: Setting::default(),
            compat: Compat::EVICTD,
        };
        let mut batch = Batch::new(settings, Conf::read("").unwrap());
        let seen = |batch: &mut Batch, version: &str, phase: &str| {
            let mut group = PodGroup::default();
            group.metadata.name = "train".to_owned();
            group.metadata.resource_version = version.into();
            group.status.phase = PodGroupPhase::of(phase);
            let new = Some(Arc::new(group));
            batch.on(BatchChange::Group(Delta { old: None, new }));
            batch.known.group("default/train").unwrap().status.clone()
        };
        seen(&mut batch, "5", "Pending");
        let enqueued = seen(&mut batch, "5", "Inqueue");
        seen(&mut batch, "5", "Pending");
        batch
            .assume_group("default/train", enqueued.clone())
            .unwrap();
        // The group's controller has written it before the session's status arrived there.
        assert_eq!(seen(&mut batch, "6", "Pending"), enqueued);
        batch.group_written("default/train", 1, GroupWrite::Written(Some(8)));
        assert_eq!(seen(&mut batch, "7", "Pending"), enqueued);
        assert_ne!(seen(&mut batch, "9", "Pending"), enqueued);
    }
}
