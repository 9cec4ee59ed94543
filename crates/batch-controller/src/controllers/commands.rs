//! Commands: each one is deleted before it is carried out, so that it is carried out at most once (S6-012).

use super::calls::{Calls, ObjectId};
use super::garbage_collector::backoff;
use super::results::TaskResult;
use evictd_batch_jobs::job::{CommandTarget, Fate, fate};
use evictd_batch_objects::Command;
use evictd_cluster_client::chance;
use std::sync::Arc;
use tokio::sync::mpsc::UnboundedSender;
use tracing::warn;

/// Deletes a Command. Sends it to the engine if this call has deleted it.
pub(super) async fn delete(
    calls: Calls,
    command: Arc<Command>,
    results: UnboundedSender<TaskResult>,
) {
    if CommandTarget::of(&command).is_none() {
        // It is for the controllers of another kind.
        return;
    }
    let id = ObjectId::of(&command.metadata);
    let mut backoff = backoff();
    // The receiver is closed when this process stops.
    while !results.is_closed() {
        let deleted = calls.delete_command(&id).await;
        match fate(&deleted) {
            Fate::Act => {
                let _ = results.send(TaskResult::CommandDeleted(command));
                return;
            }
            Fate::Drop => return,
            Fate::Retry => {
                if let Err(refusal) = deleted {
                    warn!("cannot delete the Command {id}: {refusal}");
                }
                tokio::time::sleep(backoff.next(chance())).await;
            }
        }
    }
}
