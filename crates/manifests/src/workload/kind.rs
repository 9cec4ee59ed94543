//! The kinds of workloads whose controllers differ.

use crate::object::{self, group_of};

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
        let known = match kind {
            "Deployment" => (Self::Deployment, "apps"),
            "ReplicaSet" => (Self::ReplicaSet, "apps"),
            "DaemonSet" => (Self::DaemonSet, "apps"),
            "StatefulSet" => (Self::StatefulSet, "apps"),
            "ReplicationController" => (Self::ReplicationController, ""),
            "Job" => (Self::Job, "batch"),
            "CronJob" => (Self::CronJob, "batch"),
            "Rollout" => (Self::Rollout, "argoproj.io"),
            _ => return Self::Other,
        };
        // Other groups have kinds of the same name; without a group the name decides.
        let is_of_group = group_of(api_version).is_none_or(|group| group == known.1);
        if is_of_group { known.0 } else { Self::Other }
    }

    pub(super) const fn is_job(self) -> bool {
        matches!(self, Self::Job | Self::CronJob)
    }
}

impl object::Kind {
    /// The title of objects of another kind in messages: the kind, with its group where a known kind has that name.
    pub fn title_of_other(name: &str, api_version: &str) -> String {
        let is_workload = |version| Kind::of(name, version) != Kind::Other;
        let is_known = Self::of(name, "").is_some() || is_workload("");
        match group_of(api_version) {
            Some(group) if is_known && !is_workload(api_version) => format!("{name} of {group}"),
            _ => name.to_owned(),
        }
    }
}
