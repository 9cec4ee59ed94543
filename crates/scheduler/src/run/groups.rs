//! The conditions of pod groups.

use super::watches::POD_GROUPS;
use super::writer::{GroupStatus, Writer};
use evictd_cluster_client::discovery::{serves, versions};
use evictd_cluster_client::{Actions, ApiError};
use evictd_pod::wire::{self, Condition};
use evictd_scheduling::{GroupOutcome, GroupResult};
use jiff::Timestamp;
use tracing::{debug, warn};

/// Once true it stays true (S7-051).
const INITIALLY: &str = "PodGroupInitiallyScheduled";
const DISRUPTED: &str = "DisruptionTarget";

/// Writes the results of attempts (S7-050). A group is scheduled when its pods go to the binding.
pub(super) fn decided(now: Timestamp, results: Vec<GroupResult>, writer: &Writer) {
    for GroupResult { group, outcome } in results {
        let (kind, status, reason, message) = match outcome {
            GroupOutcome::Placed => (INITIALLY, true, "Scheduled", String::new()),
            GroupOutcome::Unschedulable(message) => (INITIALLY, false, "Unschedulable", message),
            GroupOutcome::Error(message) => (INITIALLY, false, "SchedulerError", message),
            GroupOutcome::Preempted { for_group } => {
                let of_group = if for_group { " group" } else { "" };
                let message = format!("preempting to accommodate a higher priority pod{of_group}");
                (DISRUPTED, true, "PreemptionByScheduler", message)
            }
        };
        if status || !holds(&group, kind) {
            let condition = Condition::new(kind, status, reason, message, now)
                .of_generation(group.metadata.generation);
            write(&group, condition, writer);
        }
    }
}

fn holds(group: &wire::PodGroup, kind: &str) -> bool {
    let mut conditions = group.status.conditions.iter();
    conditions.any(|condition| condition.holds(kind))
}

/// Writes the condition unless the group has it already.
fn write(group: &wire::PodGroup, mut new: Condition, writer: &Writer) {
    let mut conditions = group.status.conditions.iter();
    let old = conditions.find(|old| old.kind == new.kind && old.status == new.status);
    if let Some(old) = old {
        // The time of a condition that keeps its status does not change.
        new.last_transition_time = old.last_transition_time.or(new.last_transition_time);
        if old.message == new.message && old.reason == new.reason {
            return;
        }
    }
    writer.group(GroupStatus {
        namespace: group.metadata.namespace_or_default().to_owned(),
        name: group.metadata.name.clone(),
        uid: group.metadata.uid.to_string(),
        conditions: vec![new],
    });
}

/// Warns if the server has pod groups only in a version before Kubernetes 1.37. Pods that name one then stay pending.
pub(super) async fn look_for_older_kinds(actions: Actions) {
    let older = async {
        let group = "/apis/scheduling.k8s.io";
        let versions = versions(&actions, group).await?;
        let others = versions
            .into_iter()
            .filter(|version| !POD_GROUPS.contains(&format!("/{version}/")));
        for version in others {
            if serves(&actions, &format!("{group}/{version}/podgroups")).await? {
                return Ok(Some(version));
            }
        }
        Ok::<_, ApiError>(None)
    };
    match older.await {
        Ok(Some(version)) => warn!(
            "pod groups of scheduling.k8s.io/{version} are not supported: pods that name one wait for a server with \
             v1beta1, which Kubernetes 1.37 has"
        ),
        Ok(None) => {}
        Err(error) => debug!("the versions of pod groups cannot be read: {error}"),
    }
}
