//! Batch sessions: their decisions are carried out like all others.

use super::Engine;
use crate::run::pod_ref::PodRef;
use crate::run::writer::{BatchStatus, Eviction, StatusPatch, With};
use evictd_batch::session::{Event as Told, GroupOutcome, Outcome, PodCondition, UpstreamOutcome};
use evictd_cluster_client::events::{ObjectReference, Subject};
use evictd_cluster_client::lease::Role;
use evictd_pod::wire;
use evictd_scheduling::{Change, Delta, Event, GroupOutcome as Placement, GroupResult};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

impl Engine {
    /// The event as the scheduler sees it: batch sessions keep ended pods, the scheduler does not. `None` if it concerns only
    /// ended pods.
    pub(super) fn of_living(&mut self, event: Event) -> Option<Event> {
        let (Event::Change(Change::Pod(pods)), Some((batch, _))) = (&event, &mut self.batch) else {
            return Some(event);
        };
        // A watch event that does not show a decision yet must not undo it.
        let now = self.steady.now();
        let decided = batch.on_pod(&mut self.scheduler, now, pods);
        let living = |pod: &Option<Arc<wire::Pod>>| {
            let pod = pod.as_ref()?;
            let ended = matches!(pod.status.phase.as_str(), "Succeeded" | "Failed");
            (!ended).then(|| Arc::clone(pod))
        };
        let new = decided.or_else(|| pods.new.clone());
        let (old, new) = (living(&pods.old), living(&new));
        let known = old.is_some() || new.is_some();
        known.then_some(Event::Change(Change::Pod(Delta { old, new })))
    }

    /// Runs a session, if this process leads and all kinds are listed.
    pub(super) fn session(&mut self) {
        let Some((batch, role)) = &mut self.batch else {
            return;
        };
        let leads = [&self.role, role]
            .iter()
            .all(|role| *role.borrow() == Role::Leader);
        if self.listed < self.kinds || !leads {
            return;
        }
        let (now, began) = ((self.now)(), Instant::now());
        let interrupted = batch.interrupted_evictions();
        self.evict_for_session(now, interrupted);
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        let Some(outcome) = batch.session(&mut self.scheduler, now) else {
            return;
        };
        let took = began.elapsed();
        let (bound, evicted) = (outcome.binds.len(), outcome.evicted.len());
        self.metrics.sessions.session(took, &outcome);
        if bound + evicted > 0 {
            info!("a session binds {bound} pods and evicts {evicted}, after {took:?}");
        }
        self.carry_out_session(now, outcome);
    }

    fn carry_out_session(&mut self, now: Timestamp, outcome: Outcome) {
        for (key, node) in &outcome.binds {
            self.bind_of_session(key, node);
        }
        let evicted = outcome.evicted.into_iter();
        let evicted = evicted.map(|eviction| (eviction.pod, eviction.reason));
        self.evict_for_session(now, evicted.collect());
        for (key, condition) in outcome.pod_conditions {
            self.report_of_session(now, &key, condition);
        }
        for event in outcome.events {
            self.event_of_session(event);
        }
        for (key, group) in outcome.pod_groups {
            self.write_group(now, &key, group);
        }
        self.report_upstream(now, outcome.upstream_pod_groups);
        for (name, allocated) in outcome.queue_allocated {
            self.write_queue(&name, allocated);
        }
    }

    /// Reports results of groups of `scheduling.k8s.io`, as for groups of the scheduler's own pods.
    fn report_upstream(&mut self, now: Timestamp, outcomes: BTreeMap<String, UpstreamOutcome>) {
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        for (group, outcome) in batch.news_of(outcomes) {
            let outcome = match outcome {
                UpstreamOutcome::Unschedulable(why) => Placement::Unschedulable(why),
                UpstreamOutcome::Preempted => Placement::Preempted,
                UpstreamOutcome::Scheduled => {
                    let binding = self.scheduler.bindings().map(|binding| &*binding.pod);
                    self.groups.placed(now, group, binding, &self.writer);
                    continue;
                }
            };
            let news = vec![GroupResult { group, outcome }];
            self.groups.decided(now, news, &self.writer);
        }
    }

    /// The pod of sessions of this UID.
    fn pod_of_session(&self, reference: &PodRef) -> Option<Arc<wire::Pod>> {
        let (batch, _) = self.batch.as_ref()?;
        let pod = batch.known().pod(&reference.to_string())?;
        // Another pod of that name is not meant.
        (pod.metadata.uid == reference.uid).then(|| Arc::clone(pod))
    }

    /// A decision about a pod counts at once, as if a watch had shown it.
    fn assume(&mut self, old: Arc<wire::Pod>, new: &Arc<wire::Pod>) {
        let change = Event::Change(Change::Pod(Delta {
            old: Some(old),
            new: Some(Arc::clone(new)),
        }));
        self.scheduler.on(self.steady.now(), &change);
        self.show_sessions(new);
    }

    fn show_sessions(&mut self, pod: &Arc<wire::Pod>) {
        if let Some((batch, _)) = &mut self.batch {
            batch.put_pod(&mut self.scheduler, pod);
        }
    }

    fn bind_of_session(&mut self, key: &str, node: &str) {
        let Some((batch, _)) = &self.batch else {
            return;
        };
        let Some(pod) = batch.known().pod(key).cloned() else {
            return;
        };
        let (reference, now) = (PodRef::of(&pod.metadata), self.steady.now());
        if !self.scheduler.bind_of_session(now, &pod, node) {
            debug!("{reference}: an earlier binding is not answered");
            return self.show_sessions(&pod);
        }
        let pre_bind = self.scheduler.pre_bind_plan(&pod, node);
        let mut bound = Arc::clone(&pod);
        node.clone_into(&mut Arc::make_mut(&mut bound).spec.node_name);
        self.assume(pod, &bound);
        debug!("{reference} goes to {node}, by a session");
        let with = With {
            prepares: pre_bind,
            of_many: true,
            ..With::default()
        };
        let started = self
            .writer
            .bind_as(reference.clone(), node.to_owned(), with);
        if let Err(busy) = started {
            warn!("{reference} cannot be bound to {node}: {busy}");
            self.scheduler.bind_failed(now, &reference.uid);
            self.session_not_bound(&reference);
        }
    }

    /// A pod that a session has bound is not on its node.
    pub(super) fn session_not_bound(&mut self, reference: &PodRef) {
        let Some(old) = self.pod_of_session(reference) else {
            return;
        };
        let mut pod = Arc::clone(&old);
        Arc::make_mut(&mut pod).spec.node_name = String::new();
        let (old, new) = (Some(old), None);
        let change = Event::Change(Change::Pod(Delta { old, new }));
        self.scheduler.on(self.steady.now(), &change);
        if let Some((batch, _)) = &mut self.batch {
            batch.not_bound(&pod);
        }
        self.show_sessions(&pod);
    }

    /// Evicts pods, each by its name and for a reason.
    fn evict_for_session(&mut self, now: Timestamp, pods: Vec<(String, String)>) {
        let mut evictions = Vec::new();
        for (key, reason) in pods {
            let Some((batch, _)) = &self.batch else {
                return;
            };
            let scheduler = batch.scheduler().to_owned();
            let Some(pod) = batch.known().pod(&key).cloned() else {
                continue;
            };
            let reference = PodRef::of(&pod.metadata);
            info!("{reference} is evicted, because of {reason}");
            self.events.evicted(&scheduler, &reference, &reason);
            let mut evicted = Arc::clone(&pod);
            if pod.metadata.deletion_timestamp.is_none() {
                self.scheduler.evict_of_session(now, &pod.metadata);
                Arc::make_mut(&mut evicted).metadata.deletion_timestamp = Some(now.into());
            }
            self.assume(pod, &evicted);
            evictions.push(Eviction {
                pod: reference,
                reason,
                scheduler,
                time: now,
            });
        }
        if !evictions.is_empty() {
            self.writer.evict(evictions);
        }
    }

    /// A pod that was to be evicted stays.
    pub(super) fn session_not_evicted(&mut self, reference: &PodRef) {
        let now = self.steady.now();
        if !self.scheduler.eviction_failed(now, &reference.uid) {
            return;
        }
        if let Some(old) = self.pod_of_session(reference) {
            let mut new = Arc::clone(&old);
            Arc::make_mut(&mut new).metadata.deletion_timestamp = None;
            self.assume(old, &new);
        }
    }

    fn report_of_session(&mut self, now: Timestamp, key: &str, condition: PodCondition) {
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        let Some(pod) = batch.known().pod(key).cloned() else {
            return;
        };
        batch.assume_condition(key, &condition);
        let mut conditions = pod.status.conditions.iter();
        let old = conditions.find(|old| old.kind == "PodScheduled" && old.status == "False");
        let since = old.and_then(|old| old.last_transition_time).unwrap_or(now);
        let reason = match condition.reason.as_str() {
            "Schedulable" => "Schedulable",
            _ => "Unschedulable",
        };
        let patch = StatusPatch {
            condition: Some(self.unschedulable(reason, &condition.message, since)),
            nominated_node: condition.nominated_node_name.map(Some),
        };
        self.writer.status(&pod, patch);
    }

    fn event_of_session(&self, told: Told) {
        let Some((batch, _)) = &self.batch else {
            return;
        };
        let (known, is_pod) = (batch.known(), told.object_kind == "Pod");
        let metadata = if is_pod {
            known.pod(&told.object).map(|pod| &pod.metadata)
        } else {
            known.group(&told.object).map(|group| &group.metadata)
        };
        let Some(metadata) = metadata else {
            return;
        };
        let subject = if is_pod {
            let (name, uid) = (told.object.clone(), metadata.uid.to_string());
            Subject::Pod { name, uid }
        } else {
            Subject::Object(ObjectReference {
                api_version: "scheduling.volcano.sh/v1beta1".to_owned(),
                kind: told.object_kind,
                namespace: metadata.namespace_or_default().to_owned(),
                name: metadata.name.clone(),
                uid: metadata.uid.to_string(),
            })
        };
        let warning = told.kind == "Warning";
        let scheduler = batch.scheduler();
        self.events
            .told(scheduler, subject, warning, told.reason, &told.message);
    }

    fn write_group(&mut self, now: Timestamp, key: &str, mut group: GroupOutcome) {
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        if !group.written {
            return;
        }
        for condition in &mut group.status.conditions {
            condition.last_transition_time.get_or_insert(now);
        }
        if let Some(known) = batch.known().group(key) {
            self.writer
                .batch_status(BatchStatus::group(&known.metadata, &group.status));
        }
        batch.assume_group(key, group.status);
    }

    /// Writes the amounts that a queue's pods hold, if they differ from its status.
    fn write_queue(&self, name: &str, allocated: BTreeMap<String, String>) {
        let Some((batch, _)) = &self.batch else {
            return;
        };
        let Some(queue) = batch.known().queue(name) else {
            return;
        };
        let written = queue.status.allocated.iter();
        let written: BTreeMap<String, String> = written
            .map(|(name, amount)| (name.to_owned(), amount.to_string()))
            .collect();
        if written != allocated {
            self.writer
                .batch_status(BatchStatus::queue(name, &written, allocated));
        }
    }
}
