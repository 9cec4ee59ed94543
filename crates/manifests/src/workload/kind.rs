//! The kinds of workloads whose controllers differ.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Deployment,
    ReplicaSet,
    ReplicationController,
    StatefulSet,
    DaemonSet,
    Job,
    CronJob,
    /// Of Argo Rollouts.
    Rollout,
    /// Any other with `spec.template` and `spec.replicas`.
    Other,
}

impl Kind {
    pub(super) fn of(kind: &str, api_version: &str) -> Self {
        let group = api_version.rsplit_once('/').map_or("", |(group, _)| group);
        match (group, kind) {
            ("apps" | "extensions", "Deployment") => Self::Deployment,
            ("apps" | "extensions", "ReplicaSet") => Self::ReplicaSet,
            ("apps" | "extensions", "DaemonSet") => Self::DaemonSet,
            ("apps", "StatefulSet") => Self::StatefulSet,
            ("", "ReplicationController") => Self::ReplicationController,
            ("batch", "Job") => Self::Job,
            ("batch", "CronJob") => Self::CronJob,
            ("argoproj.io", "Rollout") => Self::Rollout,
            _ => Self::Other,
        }
    }

    pub(super) const fn is_job(self) -> bool {
        matches!(self, Self::Job | Self::CronJob)
    }
}
