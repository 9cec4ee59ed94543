//! The writes of a preemption. The pod lifecycle knows which pods wait for their victims (S5-112).

use super::{ATTEMPTS, Engine, MOST_COST, scheduler_of};
use crate::run::api_retry::Failure;
use crate::run::groups;
use crate::run::pod_ref::PodRef;
use crate::run::writer::{Preemption, Victim};
use evictd_pod::wire;
use evictd_preemption::Action;
use evictd_scheduling::{Outcome as Decision, Rejected};
use jiff::Timestamp;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use tracing::{debug, info, warn};

impl Engine {
    /// Deletes the victims. Until then the pod is not tried (S5-112).
    pub(super) fn preempt(
        &mut self,
        now: Timestamp,
        (key, pod): (&Arc<str>, &wire::Pod),
        rejected: &Rejected,
    ) {
        if rejected.preempts {
            self.metrics.preemption_attempts.add([], 1);
        }
        let Some(preemption) = self.preemption(now, pod, rejected) else {
            return;
        };
        let (preemptor, node) = (&preemption.preemptor, &preemption.node);
        match preemption.victims.len() {
            0 => {
                info!(
                    "{preemptor} is nominated on {node}, where no pod needs to be deleted for it"
                );
                return;
            }
            1 => info!("{preemptor} preempts 1 pod on {node}"),
            count => info!("{preemptor} preempts {count} pods on {node}"),
        }
        let monotonic = self.monotonic.now();
        if self.scheduler.begin_preemption(monotonic, key, node) {
            self.writer.preempt(preemption);
        } else {
            let name = &pod.metadata.name;
            debug!("{name}: the victims of an earlier attempt are still being deleted");
        }
    }

    /// Makes room for deferred resizes on the nodes of their pods (S7-244). Neither condition nor nomination is written.
    /// Returns whether there was one.
    pub(super) fn try_resizes(&mut self) -> bool {
        // Other pods must not wait for all resizes of a cluster, nor for one that is costly.
        let mut cost = 0_u64;
        for count in 0..ATTEMPTS {
            if cost > MOST_COST {
                break;
            }
            self.deadline.begin();
            let Some(attempt) = self.scheduler.attempt_resize(self.monotonic.now()) else {
                return count > 0;
            };
            cost = cost.saturating_add(self.scheduler.take_cost());
            let now = (self.now)();
            groups::decided(now, self.scheduler.take_group_results(), &self.writer);
            let reference = PodRef::of(&attempt.pod.metadata);
            let Decision::Unschedulable(rejected) = attempt.outcome else {
                continue;
            };
            debug!("the resize of {reference}: {}", rejected.message);
            let Some(preemption) = self.preemption(now, &attempt.pod, &rejected) else {
                continue;
            };
            self.metrics.preemption_attempts.add([], 1);
            if !preemption.victims.is_empty() {
                let (node, count) = (&preemption.node, preemption.victims.len());
                info!("the resize of {reference} preempts {count} pods on {node}");
                self.writer.preempt(Preemption {
                    nominates: false,
                    ..preemption
                });
            }
        }
        true
    }

    /// The writes of a preemption. Victims that wait for permits are rejected at once.
    fn preemption(
        &mut self,
        now: Timestamp,
        pod: &wire::Pod,
        rejected: &Rejected,
    ) -> Option<Preemption> {
        let node = rejected.nominated.as_ref()?;
        let reference = |name: &str, uid: &str| {
            let (namespace, name) = name.split_once('/').unwrap_or(("default", name));
            PodRef {
                namespace: namespace.into(),
                name: name.to_owned(),
                uid: uid.into(),
            }
        };
        let mut victims: Vec<Victim> = Vec::new();
        let mut generations = HashMap::new();
        for action in &rejected.actions {
            match action {
                Action::PatchCondition {
                    uid,
                    observed_generation,
                    ..
                } => {
                    generations.insert(uid, *observed_generation);
                }
                // A victim that waits for permits returns to the queue (S4-022).
                Action::RejectWaiting { uid, .. }
                    if self.scheduler.reject_waiting(self.monotonic.now(), uid) => {}
                Action::Delete { pod, uid } | Action::RejectWaiting { pod, uid } => {
                    victims.push(Victim {
                        pod: reference(pod, uid),
                        generation: generations.get(uid).copied().flatten(),
                    });
                }
                _ => {}
            }
        }
        let names: HashSet<&String> = rejected.nominations_cleared.iter().collect();
        let nominated = self.scheduler.cluster().nominated().iter();
        let cluster = self.scheduler.cluster();
        let cleared = nominated.filter_map(|pod| {
            let name = cluster.full_name(pod);
            names.contains(&name).then(|| reference(&name, pod.uid()))
        });
        let preemption = Preemption {
            time: now,
            preemptor: PodRef::of(&pod.metadata),
            scheduler: scheduler_of(pod).to_owned(),
            node: node.clone(),
            nominates: true,
            cleared: cleared.collect(),
            victims,
        };
        // A plan has as many victims as a node has pods.
        let count = u32::try_from(preemption.victims.len()).unwrap_or(u32::MAX);
        self.metrics
            .preemption_victims
            .observe([], f64::from(count));
        Some(preemption)
    }

    /// Handles the moment when every victim but this one terminates.
    pub(super) fn last_victim(&mut self, preemptor: &PodRef, victim: &PodRef) {
        let now = self.monotonic.now();
        self.scheduler.last_victim(now, &preemptor.uid, &victim.uid);
    }

    /// Handles the end of all writes of a preemption.
    pub(super) fn preempted(&mut self, preemptor: &PodRef, failure: Option<Failure>) {
        let now = self.monotonic.now();
        let took = self
            .scheduler
            .end_preemption(now, &preemptor.uid, failure.is_some());
        let Some(took) = took else {
            if let Some(failure) = failure {
                warn!("preemption for {preemptor}: {}", failure.message);
                self.scheduler
                    .resize_failed(&preemptor.uid, &failure.message);
            }
            return;
        };
        let result = if failure.is_some() {
            "error"
        } else {
            "success"
        };
        let metrics = &self.metrics;
        metrics.preemption_goroutines_execution.add([result], 1);
        metrics
            .preemption_goroutines_duration
            .observe([result], took.as_secs_f64());
        if let Some(failure) = failure {
            warn!("preemption for {preemptor}: {}", failure.message);
        }
    }
}
