//! Gives a pod its node (S5-095).

use super::PodRef;
use super::calls::Calls;
use crate::run::attempts::{Attempts, Failure, FailureKind};
use std::time::Duration;
use tokio::time::sleep;

/// Before each look at a pod that an extender has bound.
const PAUSES: [Duration; 5] = [
    Duration::ZERO,
    Duration::from_millis(100),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(3),
];

/// The API server decides: it binds a pod once, however many schedulers or leaders there are for a moment.
pub(super) async fn bind(calls: &Calls, pod: &PodRef, node: &str) -> Result<(), Failure> {
    let mut attempts = Attempts::default();
    loop {
        let Err(error) = calls.bind(pod, node).await else {
            return Ok(());
        };
        let next = attempts.after(&error).await;
        // A conflict may be with an attempt of our own that got no answer.
        if attempts.unsure()
            && let Some(settled) = look(calls, pod, node).await
        {
            return settled;
        }
        next?;
    }
}

/// Whether a pod has its node that somebody else says to have bound. That may take a while to be seen.
pub(super) async fn confirm(calls: &Calls, pod: &PodRef, node: &str) -> Result<(), Failure> {
    for pause in PAUSES {
        sleep(pause).await;
        if let Some(settled) = look(calls, pod, node).await {
            return settled;
        }
    }
    Err(Failure {
        kind: FailureKind::Unanswered,
        message: "the extender says that it has bound the pod, which has no node".to_owned(),
    })
}

/// What became of an attempt without an answer; `None` if the pod has no node, or cannot be read.
async fn look(calls: &Calls, pod: &PodRef, node: &str) -> Option<Result<(), Failure>> {
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
