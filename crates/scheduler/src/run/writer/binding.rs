//! Bind (S5-095).

use super::PodRef;
use super::calls::Calls;
use crate::run::api_retry::{ApiRetry, Failure, FailureKind};
use crate::run::metrics::WorkItem;
use std::time::Duration;
use tokio::time::sleep;

/// The pauses before each read of a pod that an extender has bound.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(3),
];

/// Creates the binding. The API server binds a pod only once, even if two schedulers lead for a moment.
pub(super) async fn bind(
    calls: &Calls,
    pod: &PodRef,
    node: &str,
    work: &WorkItem,
) -> Result<(), Failure> {
    let mut retry = ApiRetry::default();
    loop {
        let Err(error) = calls.bind(pod, node).await else {
            return Ok(());
        };
        let next = retry.after(&error).await;
        // An earlier attempt without an answer may have bound the pod, and may be the reason of a conflict.
        if retry.is_ambiguous()
            && let Some(settled) = read(calls, pod, node).await
        {
            return settled;
        }
        next?;
        work.retried();
    }
}

/// Reads a pod until it shows the node that an extender has bound it to. That may take a few seconds.
pub(super) async fn confirm(calls: &Calls, pod: &PodRef, node: &str) -> Result<(), Failure> {
    for pause in PAUSES {
        sleep(pause).await;
        if let Some(settled) = read(calls, pod, node).await {
            return settled;
        }
    }
    Err(Failure {
        kind: FailureKind::Unanswered,
        message: "the extender reports that it has bound the pod, which has no node".to_owned(),
    })
}

/// The result of a binding as the pod shows it. `None` if the pod has no node, or cannot be read.
async fn read(calls: &Calls, pod: &PodRef, node: &str) -> Option<Result<(), Failure>> {
    let found = calls.get(pod).await.ok()?;
    let Some(found) = found.filter(|found| found.is(pod)) else {
        return Some(Err(Failure {
            kind: FailureKind::Gone,
            message: format!("pods \"{}\" not found", pod.name),
        }));
    };
    match found.node()? {
        bound if bound == node => Some(Ok(())),
        other => Some(Err(Failure {
            kind: FailureKind::Conflict,
            message: format!("pod {} is already assigned to node \"{other}\"", pod.name),
        })),
    }
}
