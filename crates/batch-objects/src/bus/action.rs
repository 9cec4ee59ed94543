//! The actions on jobs and queues.

/// An action on a job or a queue (S6-007). An unknown one is kept as text, and handled as a sync or as the phase's
/// default (S6-028).
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Action {
    /// Ends all pods; the job can be resumed.
    AbortJob,
    /// Ends all pods and starts them again.
    RestartJob,
    /// The same for the pods of one task.
    RestartTask,
    /// The same for one pod.
    RestartPod,
    /// The same for the pods of one partition.
    RestartPartition,
    /// Ends all pods for good.
    TerminateJob,
    /// Kills the running pods; the job counts as completed.
    CompleteJob,
    /// Starts an aborted job again.
    ResumeJob,
    /// Brings pods and status in line with the job.
    SyncJob,
    /// Lets the job into its queue.
    EnqueueJob,
    /// Brings the state of a queue in line.
    SyncQueue,
    /// Opens a queue.
    OpenQueue,
    /// Closes a queue.
    CloseQueue,
    /// Anything else.
    Other(Box<str>),
}

impl Action {
    const KNOWN: [Self; 13] = [
        Self::AbortJob,
        Self::RestartJob,
        Self::RestartTask,
        Self::RestartPod,
        Self::RestartPartition,
        Self::TerminateJob,
        Self::CompleteJob,
        Self::ResumeJob,
        Self::SyncJob,
        Self::EnqueueJob,
        Self::SyncQueue,
        Self::OpenQueue,
        Self::CloseQueue,
    ];

    /// The action of this name.
    pub fn of(name: &str) -> Self {
        let known = Self::KNOWN.into_iter().find(|known| known.as_str() == name);
        known.unwrap_or_else(|| Self::Other(name.into()))
    }

    /// Its name.
    pub fn as_str(&self) -> &str {
        match self {
            Self::AbortJob => "AbortJob",
            Self::RestartJob => "RestartJob",
            Self::RestartTask => "RestartTask",
            Self::RestartPod => "RestartPod",
            Self::RestartPartition => "RestartPartition",
            Self::TerminateJob => "TerminateJob",
            Self::CompleteJob => "CompleteJob",
            Self::ResumeJob => "ResumeJob",
            Self::SyncJob => "SyncJob",
            Self::EnqueueJob => "EnqueueJob",
            Self::SyncQueue => "SyncQueue",
            Self::OpenQueue => "OpenQueue",
            Self::CloseQueue => "CloseQueue",
            Self::Other(name) => name,
        }
    }

    /// Whether only controllers use it (S6-007).
    pub fn is_internal(&self) -> bool {
        matches!(
            self,
            Self::SyncJob | Self::EnqueueJob | Self::SyncQueue | Self::OpenQueue | Self::CloseQueue
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn s6_007_actions_have_volcanos_names_and_some_are_internal() {
        for action in Action::KNOWN {
            assert_eq!(Action::of(action.as_str()), action);
        }
        let internal = Action::KNOWN.into_iter().filter(Action::is_internal);
        let names: Vec<String> = internal.map(|action| action.as_str().to_owned()).collect();
        let wanted = [
            "SyncJob",
            "EnqueueJob",
            "SyncQueue",
            "OpenQueue",
            "CloseQueue",
        ];
        assert_eq!(names, wanted);
        assert_eq!(Action::of("Dance"), Action::Other("Dance".into()));
    }
}
