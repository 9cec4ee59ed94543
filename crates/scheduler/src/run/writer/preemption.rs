//! Deletes victims in the order of S4-028, each after its condition was written.

use super::calls::Calls;
use super::status::{StatusPatch, of_pod, or_gone, patch_until_answered};
use super::{Outcome, PodRef, Shared};
use crate::run::api_retry::{ApiRetry, Failure};
use evictd_pod::wire::{Condition, Generation};
use jiff::Timestamp;
use serde_json::json;
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

/// The preemption of victims for one pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Preemption {
    /// The time of the decision.
    pub(crate) time: Timestamp,
    pub(crate) preemptor: PodRef,
    /// The `schedulerName` of the preemptor.
    pub(crate) scheduler: String,
    /// The node that is being freed.
    pub(crate) node: String,
    /// Whether the node is nominated for the preemptor. One that is resized has it already.
    pub(crate) nominates: bool,
    /// Pods of lower priority that lose their nomination to this node.
    pub(crate) cleared: Vec<PodRef>,
    /// In the order of their deletion, without pods that already terminate (S4-030).
    pub(crate) victims: Vec<Victim>,
}

/// A pod that is deleted for another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Victim {
    pub(crate) pod: PodRef,
    /// The generation of its spec, if it is known.
    pub(crate) generation: Generation,
}

pub(super) async fn carry_out(
    shared: &Arc<Shared>,
    preemption: &Preemption,
) -> Result<(), Failure> {
    if preemption.nominates {
        nominate(shared, preemption).await?;
    }
    clear_nominations(shared, &preemption.cleared).await;
    let Some((last, others)) = preemption.victims.split_last() else {
        return Ok(());
    };
    let mut tasks = JoinSet::new();
    for victim in others {
        let (shared, preemption, victim) = (Arc::clone(shared), preemption.clone(), victim.clone());
        tasks.spawn(async move { end(&shared, &preemption, &victim).await });
    }
    while let Some(ended) = tasks.join_next().await {
        // A failure drops the set, which ends the other tasks. A lost task means that the runtime ends.
        ended.unwrap_or(Ok(()))?;
    }
    shared.report(Outcome::LastVictim {
        preemptor: preemption.preemptor.clone(),
        victim: last.pod.clone(),
    });
    end(shared, preemption, last).await
}

/// Nominates the node before the first deletion, so that the next leader chooses no second set of victims after a crash. If it
/// fails, no victim is deleted (S3-005).
async fn nominate(shared: &Shared, preemption: &Preemption) -> Result<(), Failure> {
    let (ended, end) = oneshot::channel();
    let patch = StatusPatch {
        nominated_node: Some(Some(preemption.node.clone())),
        ..StatusPatch::default()
    };
    shared
        .statuses
        .write(preemption.preemptor.clone().into(), patch, Some(ended));
    end.await.unwrap_or_else(|_| Err(Failure::stopped()))
}

/// Clears nominations. A failure does no harm: the pod is only tried on that node first.
async fn clear_nominations(shared: &Shared, pods: &[PodRef]) {
    let clear = |pod: &PodRef| {
        let (ended, end) = oneshot::channel();
        let patch = StatusPatch {
            nominated_node: Some(None),
            ..StatusPatch::default()
        };
        shared
            .statuses
            .write(pod.clone().into(), patch, Some(ended));
        end
    };
    let ends: Vec<_> = pods.iter().map(clear).collect();
    for end in ends {
        let _ = end.await;
    }
}

/// Writes the condition, deletes the pod, and sends an event. A victim that was deleted before gets no event.
async fn end(shared: &Shared, preemption: &Preemption, victim: &Victim) -> Result<(), Failure> {
    let Ok(_turn) = shared.victims.acquire().await else {
        return Err(Failure::stopped());
    };
    let scheduler = &preemption.scheduler;
    let condition = Condition::new(
        "DisruptionTarget",
        true,
        "PreemptionByScheduler",
        format!("{scheduler}: preempting to accommodate a higher priority pod"),
        preemption.time,
    );
    let condition = condition.of_generation(victim.generation);
    let victim = &victim.pod;
    let status = json!({"conditions": [of_pod(&condition)]});
    let patched = patch_until_answered(&shared.calls, victim, &status).await;
    if or_gone(patched)? || or_gone(delete(&shared.calls, victim).await)? {
        return Ok(());
    }
    let (preemptor, node) = (&preemption.preemptor, &preemption.node);
    shared.events.preempted(scheduler, victim, preemptor, node);
    Ok(())
}

async fn delete(calls: &Calls, victim: &PodRef) -> Result<(), Failure> {
    let mut retry = ApiRetry::default();
    loop {
        let Err(error) = calls.delete(victim).await else {
            return Ok(());
        };
        retry.after(&error).await?;
    }
}
