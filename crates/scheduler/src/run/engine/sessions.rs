//! Batch sessions. Their decisions are carried out by the same writer as those about single pods.

use super::{Engine, groups};
use crate::run::pod_ref::PodRef;
use crate::run::writer::{BatchStatus, BindOptions, Eviction, StatusPatch};
use evictd_batch::session::{
    Event as SessionEvent, EvictionKind, GroupOutcome, Outcome, PodCondition, PodId,
    UpstreamOutcome,
};
use evictd_cluster_client::events::{ObjectReference, Subject};
use evictd_cluster_client::lease::Role;
use evictd_placement::NodeId;
use evictd_pod::wire;
use evictd_reconcile::Tone;
use evictd_scheduling::{
    Change, Delta, Event, GroupObject, GroupOutcome as Placement, GroupResult,
};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::time::Instant;
use tracing::{debug, info, warn};

impl Engine {
    /// The file of the sessions' configuration is invalid: a metric and an event of the default queue say so.
    pub(super) fn report_invalid_conf(&self, error: &str) {
        if let Some(metrics) = &self.metrics.sessions {
            metrics.conf_refused();
        }
        let Some((batch, _)) = &self.batch else {
            return;
        };
        let Some(queue) = batch.known().queue(batch.default_queue()) else {
            return;
        };
        let subject = Subject::Object(ObjectReference {
            api_version: "scheduling.volcano.sh/v1beta1".to_owned(),
            kind: "Queue".to_owned(),
            namespace: String::new(),
            name: queue.metadata.name.clone(),
            uid: queue.metadata.uid.to_string(),
        });
        let note = format!("the last valid configuration stays in force: {error}");
        let reason = "InvalidConfiguration".to_owned();
        self.events
            .of_session(batch.scheduler(), subject, true, reason, &note);
    }

    /// The event without ended pods, which batch sessions count and the scheduler does not. `None` if it concerns only ended
    /// pods.
    pub(super) fn of_living(&mut self, event: Event) -> Option<Event> {
        let (Event::Change(Change::Pod(pods)), Some((batch, _))) = (&event, &mut self.batch) else {
            return Some(event);
        };
        // The event may be older than a decision of a session. The pod then keeps the decision.
        let now = self.monotonic.now();
        let decided = batch.on_pod(&mut self.scheduler, now, pods);
        let living = |pod: &Option<Arc<wire::Pod>>| {
            let pod = pod.as_ref()?;
            let ended = pod.status.phase.has_ended();
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
        // Both leases are needed, because sessions and profiles place pods onto the same nodes.
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
        let (bound, evicted) = (outcome.bindings.len(), outcome.evicted.len());
        if let Some(sessions) = &self.metrics.sessions {
            sessions.session(took, &outcome);
        }
        if bound + evicted > 0 {
            info!("a session binds {bound} pods and evicts {evicted}, after {took:?}");
        }
        self.carry_out_session(now, outcome);
    }

    fn carry_out_session(&mut self, now: Timestamp, outcome: Outcome) {
        for (pod, node) in outcome.bindings {
            self.bind_of_session(&pod, node);
        }
        let evicted = outcome.evicted.into_iter();
        let evicted = evicted.map(|eviction| (eviction.id, eviction.reason));
        self.evict_for_session(now, evicted.collect());
        for condition in outcome.pod_conditions.into_values() {
            self.report_of_session(now, condition);
        }
        for event in outcome.events {
            self.event_of_session(event);
        }
        for (key, group) in outcome.pod_groups {
            self.write_group(now, &key, group);
        }
        self.report_upstream(now, outcome.upstream_pod_groups);
        // Last, because the amounts include the pods that were bound above.
        for (name, allocated) in outcome.queue_allocated {
            self.write_queue(&name, allocated);
        }
    }

    /// Reports the results of groups of `scheduling.k8s.io`, as for groups of pods that a profile schedules.
    fn report_upstream(&mut self, now: Timestamp, outcomes: BTreeMap<String, UpstreamOutcome>) {
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        for (group, outcome) in batch.changed_results(outcomes) {
            let outcome = match outcome {
                UpstreamOutcome::Unschedulable(why) => Placement::Unschedulable(why),
                UpstreamOutcome::Preempted => Placement::Preempted { for_group: true },
                UpstreamOutcome::Scheduled => Placement::Placed,
            };
            let group = GroupObject::PodGroup(group);
            let results = vec![GroupResult { group, outcome }];
            groups::decided(now, results, &self.writer);
        }
    }

    fn bind_of_session(&mut self, id: &PodId, node: NodeId) {
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        let now = self.monotonic.now();
        let Some((pod, pre_bind)) = batch.bind(&mut self.scheduler, now, id, node) else {
            debug!("{}: an earlier binding is not answered", &**id);
            return;
        };
        let reference = PodRef::of(&pod.metadata);
        let node = self.scheduler.cluster().node_name(node).to_owned();
        debug!("{reference} is assigned to {node} by a session");
        let options = BindOptions {
            scheduler: pod.spec.scheduler_name_or_default().to_owned(),
            device_timeout: self.scheduler.device_timeout(&pod),
            pre_bind,
            of_many: true,
            ..BindOptions::default()
        };
        let started = self.writer.bind(reference.clone(), node.clone(), options);
        if let Err(busy) = started {
            warn!("{reference} cannot be bound to {node}: {busy}");
            self.scheduler.bind_failed(now, &reference.uid);
            self.session_not_bound(&reference);
        }
    }

    /// Makes a pod that a session wanted to bind a pending one again.
    pub(super) fn session_not_bound(&mut self, reference: &PodRef) {
        let now = self.monotonic.now();
        if let Some((batch, _)) = &mut self.batch {
            batch.not_bound(&reference.uid);
            batch.show_again(&mut self.scheduler, now, &reference.uid);
        }
    }

    fn evict_for_session(&mut self, now: Timestamp, pods: Vec<(PodId, EvictionKind)>) {
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        let scheduler = batch.scheduler().to_owned();
        let mut evictions = Vec::new();
        for (id, kind) in pods {
            let Some(pod) = batch.evict(&mut self.scheduler, now, &id) else {
                continue;
            };
            let generation = pod.metadata.generation;
            let (pod, why) = (PodRef::of(&pod.metadata), kind.as_str());
            info!("{pod} is evicted, because of {why}");
            self.events.evicted(&scheduler, &pod, why);
            evictions.push(Eviction {
                pod,
                generation,
                kind,
                scheduler: scheduler.clone(),
                time: now,
            });
        }
        if !evictions.is_empty() {
            self.writer.evict(evictions);
        }
    }

    /// Undoes the assumption that a pod terminates, because it could not be evicted.
    pub(super) fn session_not_evicted(&mut self, reference: &PodRef) {
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        let now = self.monotonic.now();
        let Some(pod) = batch.known().pod(&reference.uid).cloned() else {
            return;
        };
        if self.scheduler.eviction_failed(now, &pod.metadata) {
            batch.show_again(&mut self.scheduler, now, &reference.uid);
        }
    }

    fn report_of_session(&mut self, now: Timestamp, condition: PodCondition) {
        let Some((batch, _)) = &mut self.batch else {
            return;
        };
        let Some(pod) = batch.known().pod(&condition.id).cloned() else {
            return;
        };
        batch.assume_condition(&condition);
        let mut conditions = pod.status.conditions.iter();
        let old = conditions.find(|old| old.fails("PodScheduled"));
        let since = old.and_then(|old| old.last_transition_time).unwrap_or(now);
        let reason = match condition.reason.as_str() {
            "Schedulable" => "Schedulable",
            _ => "Unschedulable",
        };
        let patch = StatusPatch {
            condition: Some(self.failure_handler.pod_scheduled(
                &pod.metadata,
                reason,
                &condition.message,
                since,
            )),
            nominated_node: condition.nominated_node_name.map(Some),
        };
        self.writer.status(&pod, patch);
    }

    fn event_of_session(&self, event: SessionEvent) {
        let Some((batch, _)) = &self.batch else {
            return;
        };
        let subject = if let Some(pod) = event.pod {
            let (name, uid) = (event.object, pod.to_string());
            Subject::Pod { name, uid }
        } else {
            let Some(group) = batch.known().group(&event.object) else {
                return;
            };
            let metadata = &group.metadata;
            Subject::Object(ObjectReference {
                api_version: "scheduling.volcano.sh/v1beta1".to_owned(),
                kind: "PodGroup".to_owned(),
                namespace: metadata.namespace_or_default().to_owned(),
                name: metadata.name.clone(),
                uid: metadata.uid.to_string(),
            })
        };
        let warning = event.kind == Tone::Warning;
        let scheduler = batch.scheduler();
        self.events
            .of_session(scheduler, subject, warning, event.reason, &event.message);
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
        if let Some((group, write)) = batch.assume_group(key, group.status) {
            let status = BatchStatus::group(&group.metadata, &group.status, write);
            self.writer.batch_status(status);
        }
    }

    /// Writes the allocated amounts of a queue, if they differ from its status.
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
