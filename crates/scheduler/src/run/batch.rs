//! Batch sessions beside the decisions about single pods, on the same cache: what they go by, and when one is due.

use super::watches::BatchChange;
use evictd_batch::compat::Compat;
use evictd_batch::conf::Conf;
use evictd_batch::session::{
    Cache, EvictionKind, Known, Outcome, PodCondition, PodId, Setting, Turns, UpstreamOutcome,
    upstream_job, upstream_job_of,
};
use evictd_batch::wire::{PodGroupStatus, Queue, QueueState};
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

/// The annotation of the sessions' lease that says which jobs nodes are kept for.
pub(super) const TURNS: &str = "evictd.dev/reservations";

/// What `--batch-conf` and the flags beside it say.
#[derive(Debug, Clone)]
pub struct BatchSettings {
    /// `volcano-scheduler.conf`.
    pub file: PathBuf,
    /// How long after the end of a session the next one begins (S6-087).
    pub period: Duration,
    /// Whose pods are placed, and where jobs go that name no queue.
    pub setting: Setting,
    /// How it decides.
    pub compat: Compat,
}

/// The sessions' side of the engine.
pub struct Batch {
    settings: BatchSettings,
    conf: Conf,
    cache: Cache,
    known: Known,
    /// What groups of `scheduling.k8s.io` were told last, by the jobs that they are.
    told: HashMap<String, UpstreamOutcome>,
    /// Whether what sessions go by has changed since the last one.
    changed: bool,
    /// When a session is due although nothing has changed.
    again_at: Option<Timestamp>,
    /// After which change of the cluster the last session ended.
    ended_at: u64,
    /// Whether evictions that another process has begun were looked for.
    resumed: bool,
    /// Where the turns of jobs that nodes are kept for survive a restart.
    memo: Option<Memo>,
    /// The turns as the memo has them; `None` before the first session.
    kept_turns: Option<Turns>,
}

impl Batch {
    /// Sessions by this configuration, of a cluster of which nothing is known.
    pub fn new(settings: BatchSettings, conf: Conf) -> Self {
        let mut cache = Cache::new(settings.setting.clone());
        cache.queue(&stand_in(&settings));
        Self {
            conf,
            cache,
            known: Known::default(),
            told: HashMap::new(),
            settings,
            changed: true,
            again_at: None,
            ended_at: 0,
            resumed: false,
            memo: None,
            kept_turns: None,
        }
    }

    /// Keeps with the lease which jobs nodes are kept for.
    pub fn keep_turns(&mut self, memo: Option<Memo>) {
        self.memo = memo;
    }

    /// Before the first session: takes up the turns of an earlier leader.
    fn take_up_turns(&mut self, now: Timestamp) {
        if self.kept_turns.is_some() {
            return;
        }
        self.kept_turns = Some(Turns::default());
        if let Some(text) = self.memo.as_ref().and_then(Memo::found) {
            self.set_turns(&text, now);
        }
    }

    fn set_turns(&mut self, text: &str, now: Timestamp) {
        match Turns::from_text(text, now) {
            Ok(turns) => self.cache.set_turns(turns),
            Err(error) => warn!(
                "which jobs nodes are kept for begins anew: the lease's annotation {TURNS}: {error}"
            ),
        }
    }

    /// How long after the end of a session the next one begins.
    pub const fn period(&self) -> Duration {
        self.settings.period
    }

    /// The name of its scheduler, by which events are told.
    pub fn scheduler(&self) -> &str {
        &self.settings.setting.scheduler
    }

    /// Where jobs go that name no queue.
    pub fn default_queue(&self) -> &str {
        &self.settings.setting.default_queue
    }

    /// What is known.
    pub const fn known(&self) -> &Known {
        &self.known
    }

    /// Writes the turns down where a session has changed them.
    fn write_turns(&mut self) {
        let turns = self.cache.turns();
        if self.kept_turns.as_ref() != Some(turns) {
            self.kept_turns = Some(turns.clone());
            if let Some(memo) = &self.memo {
                memo.write(turns.to_text());
            }
        }
    }

    /// A pod of any scheduler was added, changed or deleted. Returns a pod of sessions with their decisions that no watch shows
    /// yet.
    pub fn on_pod(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        pods: &Delta<wire::Pod>,
    ) -> Option<Arc<wire::Pod>> {
        let is_ours =
            |pod: &Arc<wire::Pod>| pod.spec.scheduler_name == self.settings.setting.scheduler;
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

    /// Sessions see this pod from now on, with the decisions that no watch shows yet. Returns it with them.
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

    /// Sessions see this pod as watches show it, because a decision about it has failed.
    pub fn show_again(&mut self, scheduler: &mut Scheduler, now: Timestamp, pod: &str) {
        if let Some(pod) = self.known.pod(pod).cloned() {
            self.show(scheduler, now, &pod);
        }
    }

    /// A pod goes to the node that a session has chosen, and counts there from now on. Returns the `PreBind` plan, or
    /// `None` if it must not be bound now.
    pub fn bind(
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

    /// A pod is being evicted, and counts as terminating from now on. Returns the pod.
    pub fn evict(
        &mut self,
        scheduler: &mut Scheduler,
        now: Timestamp,
        id: &PodId,
    ) -> Option<Arc<wire::Pod>> {
        let pod = Arc::clone(self.known.pod(id)?);
        if pod.metadata.deletion_timestamp.is_none() {
            self.changed = true;
            scheduler.evict_of_session(now, &pod.metadata);
            self.cache.evict(id);
        }
        Some(pod)
    }

    /// A group of `scheduling.k8s.io` came, changed or went.
    pub fn on_upstream(&mut self, groups: &Delta<wire::PodGroup>) {
        let uid = |group: &Arc<wire::PodGroup>| Arc::clone(&group.metadata.uid);
        if let Some(old) = &groups.old
            && groups.new.as_ref().map(uid) != Some(uid(old))
        {
            self.told.remove(&*upstream_job(&old.metadata));
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

    /// A pod group, a queue, a priority class or a workload came, changed or went, or the configuration has changed.
    pub fn on(&mut self, change: BatchChange) {
        let (cache, known) = (&mut self.cache, &mut self.known);
        match change {
            BatchChange::Group(Delta { new: Some(new), .. }) => {
                cache.group(&new);
                known.put_group(new);
            }
            BatchChange::Group(Delta { old: Some(old), .. }) => {
                cache.remove_group(&old.metadata);
                known.remove_group(&old.metadata);
            }
            BatchChange::Queue(Delta { new: Some(new), .. }) => {
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
            BatchChange::Group(_)
            | BatchChange::Queue(_)
            | BatchChange::PriorityClass(_)
            | BatchChange::Workload(_) => return,
        }
        self.changed = true;
    }

    /// Runs a session, unless nothing has changed since the last one, and it is not the time either: then it would come to
    /// nothing new.
    pub fn session(&mut self, scheduler: &mut Scheduler, now: Timestamp) -> Option<Outcome> {
        let changes = scheduler.cluster().changes().now();
        let due = self.again_at.is_some_and(|at| at <= now);
        if !self.changed && !due && changes == self.ended_at {
            return None;
        }
        self.take_up_turns(now);
        self.cache.set_now(now);
        let (conf, compat) = (&self.conf, self.settings.compat);
        let outcome = scheduler.with_cluster(|cluster| self.cache.session(cluster, conf, compat));
        self.write_turns();
        self.changed = false;
        self.again_at = outcome.again_at;
        self.ended_at = scheduler.cluster().changes().now();
        Some(outcome)
    }

    /// Before the first session: the pods of which a scheduler of this name has said that they go for another job, and which it
    /// did not come to delete, each with the reason. Their room is promised already.
    pub fn interrupted_evictions(&mut self) -> Vec<(PodId, EvictionKind)> {
        if std::mem::replace(&mut self.resumed, true) {
            return Vec::new();
        }
        let pods = self.known.pods().filter_map(|(id, pod)| {
            let ended = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
            let stays = pod.metadata.deletion_timestamp.is_none() && !ended;
            let mut conditions = pod.status.conditions.iter().filter(|own| {
                own.kind == "DisruptionTarget"
                    && own.status == "True"
                    && own.reason == "PreemptionByScheduler"
            });
            let kind = eviction_kind(self.scheduler(), &conditions.next()?.message)?;
            stays.then(|| (id.clone(), kind))
        });
        pods.collect()
    }

    /// The status of a job's group is written, or kept where it has none.
    pub fn assume_group(&mut self, key: &str, status: PodGroupStatus) {
        match self.known.assume_group(key, &status) {
            Some(group) => self.cache.group(&group),
            None => self.cache.assume_status(key, status),
        }
    }

    /// The condition of a pod is being written.
    pub fn assume_condition(&mut self, condition: &PodCondition) {
        self.cache.assume_condition(condition);
    }

    /// The status of a pod was not written. The next session reports the condition again.
    pub fn forget_condition(&mut self, pod: &str) {
        self.cache.forget_condition(pod);
    }

    /// What groups of `scheduling.k8s.io` are told that were not told just that before.
    pub fn news_of(
        &mut self,
        outcomes: BTreeMap<String, UpstreamOutcome>,
    ) -> Vec<(Arc<wire::PodGroup>, UpstreamOutcome)> {
        let mut news = Vec::new();
        for (job, outcome) in outcomes {
            let Some(group) = self.known.upstream(&job) else {
                continue;
            };
            if self.told.get(&job) != Some(&outcome) {
                news.push((Arc::clone(group), outcome.clone()));
                self.told.insert(job, outcome);
            }
        }
        news
    }

    /// A pod was not bound. Once all pods of its group are bound, that is reported again.
    pub fn not_bound(&mut self, pod: &str) {
        if let Some(job) = self.known.pod(pod).and_then(|pod| upstream_job_of(pod)) {
            self.told.remove(&*job);
        }
    }
}

/// The queue of jobs that name none, as long as there is no queue at all: a cluster without Volcano's definitions has none.
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

/// What a pod that goes for another job of this scheduler says about it.
pub(super) fn eviction_message(scheduler: &str, kind: EvictionKind) -> String {
    format!("{scheduler}: {} for another job", kind.as_str())
}

/// The kind of eviction in such a message; `None` in another one.
fn eviction_kind(scheduler: &str, message: &str) -> Option<EvictionKind> {
    let rest = message.strip_prefix(scheduler)?.strip_prefix(": ")?;
    EvictionKind::of(rest.strip_suffix(" for another job")?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_that_cannot_be_read_are_none_and_those_of_the_future_are_of_now() {
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
            batch.set_turns(text, now);
            batch.cache.turns().clone()
        };
        for damaged in ["", "{", "{}", "null", r#"[{"job": 1}]"#, "\u{0}"] {
            assert_eq!(turns_after(damaged), Turns::default(), "{damaged:?}");
        }
        let future = r#"[{"job":"a/b","queue":"q","since":"2030-01-01T00:00:00Z"}]"#;
        let read = turns_after(future).to_text();
        assert!(read.contains("2026-01-01T00:00:00Z"), "{read}");
    }
}
