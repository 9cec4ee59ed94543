//! What is done beside the rounds: Commands are taken, and finished jobs deleted.

use super::back::Back;
use super::calls::{Calls, Owner};
use evictd_batch::job::{CommandTarget, Fate, expires, fate};
use evictd_batch::wire::Command;
use evictd_cluster_client::{Backoff, chance};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc::UnboundedSender;
use tracing::{info, warn};

/// The longest pause between two attempts.
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

fn backoff() -> Backoff {
    Backoff::new(Duration::from_millis(50), LONGEST_PAUSE)
}

/// Deletes a Command, and brings it back if it was this call that deleted it.
pub(super) async fn take(calls: Calls, command: Arc<Command>, back: UnboundedSender<Back>) {
    let metadata = &command.metadata;
    if CommandTarget::of(&command).is_none() {
        // Of others' controllers.
        return;
    }
    let owner = Owner {
        namespace: metadata.namespace_or_default().to_owned(),
        name: metadata.name.clone(),
        uid: metadata.uid.to_string(),
    };
    let mut backoff = backoff();
    while !back.is_closed() {
        let deleted = calls.delete_command(&owner).await;
        match fate(&deleted) {
            Fate::Act => {
                let _ = back.send(Back::Command(command));
                return;
            }
            Fate::Drop => return,
            Fate::Retry => {
                if let Err(refusal) = deleted {
                    warn!(
                        "cannot take the Command {}/{}: {refusal}",
                        owner.namespace, owner.name
                    );
                }
                tokio::time::sleep(backoff.next(chance())).await;
            }
        }
    }
}

/// Deletes a finished job whose time is over, after it was read once more (S6-054).
pub(super) async fn expire(calls: Calls, owner: Owner) {
    let Owner {
        namespace,
        name,
        uid,
    } = &owner;
    let mut backoff = backoff();
    loop {
        let result = match calls.job(namespace, name).await {
            Ok(fresh) => {
                let fresh = fresh.filter(|job| *job.metadata.uid == **uid);
                let expired = fresh.and_then(|job| expires(&job));
                if expired.is_none_or(|time| time > Timestamp::now()) {
                    return;
                }
                calls.delete_job(&owner).await
            }
            Err(error) => Err(error),
        };
        let Err(error) = result else {
            info!("deleted the job {namespace}/{name}: its time is over");
            return;
        };
        if error
            .status()
            .is_some_and(|status| matches!(status.code, 404 | 409))
        {
            return;
        }
        warn!("cannot delete the finished job {namespace}/{name}: {error}");
        tokio::time::sleep(backoff.next(chance())).await;
    }
}
