//! The conditions of pod groups.

use super::watches::POD_GROUPS;
use super::writer::{GroupStatus, Writer};
use evictd_cluster_client::discovery::{serves, versions};
use evictd_cluster_client::{Actions, ApiError};
use evictd_pod::wire::Condition;
use evictd_scheduling::{GroupObject, GroupOutcome, GroupResult};
use jiff::Timestamp;
use tracing::{debug, warn};

/// Once true it stays true (S7-051).
const INITIALLY: &str = "PodGroupInitiallyScheduled";
/// The same for composite groups (S7-111).
const COMPOSITE_INITIALLY: &str = "CompositePodGroupInitiallyScheduled";
const DISRUPTED: &str = "DisruptionTarget";

/// Writes the results of attempts (S7-050). A group is scheduled when its pods go to the binding.
pub(super) fn decided(now: Timestamp, results: Vec<GroupResult>, writer: &Writer) {
    for GroupResult { group, outcome } in results {
        let initially = match group {
            GroupObject::PodGroup(_) => INITIALLY,
            GroupObject::CompositePodGroup(_) => COMPOSITE_INITIALLY,
        };
        let (kind, status, reason, message) = match outcome {
            GroupOutcome::Placed => (initially, true, "Scheduled", String::new()),
            GroupOutcome::Unschedulable(message) => (initially, false, "Unschedulable", message),
            GroupOutcome::Error(message) => (initially, false, "SchedulerError", message),
            GroupOutcome::Invalid(message) => (initially, false, "Invalid", message),
            GroupOutcome::Preempted { for_group } => {
                let of_group = if for_group { " group" } else { "" };
                let message = format!("preempting to accommodate a higher priority pod{of_group}");
                (DISRUPTED, true, "PreemptionByScheduler", message)
            }
        };
        if status || !holds(&group, kind) {
            let condition = Condition::new(kind, status, reason, message, now)
                .of_generation(group.metadata().generation);
            write(&group, condition, writer);
        }
    }
}

fn holds(group: &GroupObject, kind: &str) -> bool {
    let mut conditions = group.conditions().iter();
    conditions.any(|condition| condition.holds(kind))
}

/// Writes the condition unless the group has it already.
fn write(group: &GroupObject, mut new: Condition, writer: &Writer) {
    let mut conditions = group.conditions().iter();
    let old = conditions.find(|old| old.kind == new.kind && old.status == new.status);
    if let Some(old) = old {
        // The time of a condition that keeps its status does not change.
        new.last_transition_time = old.last_transition_time.or(new.last_transition_time);
        if old.message == new.message && old.reason == new.reason {
            return;
        }
    }
    let metadata = group.metadata();
    writer.group(GroupStatus {
        kind: match group {
            GroupObject::PodGroup(_) => "v1beta1/podgroups",
            GroupObject::CompositePodGroup(_) => "v1alpha3/compositepodgroups",
        },
        namespace: metadata.namespace_or_default().to_owned(),
        name: metadata.name.clone(),
        uid: metadata.uid.to_string(),
        conditions: vec![new],
    });
}

/// Warns if the server has pod groups only in a version before Kubernetes 1.37. Pods that name one then stay pending.
pub(super) async fn look_for_older_kinds(actions: Actions) {
    let older = async {
        // Kubernetes 1.37 serves them in two versions.
        if serves(&actions, POD_GROUPS).await? {
            return Ok(None);
        }
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
