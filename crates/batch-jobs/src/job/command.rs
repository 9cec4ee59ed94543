//! A user's Command acts at most once (S6-012): it is deleted first, and only a successful deletion acts.

use super::names::{JOB_API, JOB_KIND};
use evictd_batch_objects::Command;
use evictd_reconcile::Refusal;

/// The target of a Command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CommandTarget<'c> {
    /// A job of the namespace that the Command is in.
    Job {
        /// Its namespace.
        namespace: &'c str,
        /// Its name.
        name: &'c str,
        /// Its UID: it is not for another job of that name.
        uid: &'c str,
    },
    /// A queue.
    Queue {
        /// Its name.
        name: &'c str,
        /// Its UID.
        uid: &'c str,
    },
    /// A queue, from a namespace whose users have no say in queues. It is deleted, and nothing is done.
    Misplaced,
}

/// Where Commands for queues are, which have no namespace. Who may make them there is the administrator's to say; in their own
/// namespaces tenants may.
const OF_QUEUES: &str = "default";

impl<'c> CommandTarget<'c> {
    /// The target of the Command; `None` if it is for another controller.
    pub fn of(command: &'c Command) -> Option<Self> {
        let target = command.target_object.as_ref()?;
        let namespace = command.metadata.namespace_or_default();
        let (name, uid) = (target.name.as_str(), &*target.uid);
        match (target.api_version.as_str(), target.kind.as_str()) {
            (JOB_API, JOB_KIND) => Some(Self::Job {
                namespace,
                name,
                uid,
            }),
            ("scheduling.volcano.sh/v1beta1", "Queue") if namespace == OF_QUEUES => {
                Some(Self::Queue { name, uid })
            }
            ("scheduling.volcano.sh/v1beta1", "Queue") => Some(Self::Misplaced),
            _ => None,
        }
    }
}

/// The result of deleting a Command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is deleted, and acts now.
    Act,
    /// Another client deleted it, or the answer to our deletion was lost.
    Drop,
    /// It is still there; it is tried again.
    Retry,
}

/// The fate of a Command whose deletion was answered like this.
pub fn fate(deletion: &Result<(), Refusal>) -> Fate {
    match deletion {
        Ok(()) => Fate::Act,
        Err(Refusal::NotFound) => Fate::Drop,
        Err(_) => Fate::Retry,
    }
}
