//! Gives a pod its node (S5-095).

use super::PodRef;
use super::calls::Calls;
use crate::run::attempts::{Attempts, Failure, FailureKind};

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
