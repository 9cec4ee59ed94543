//! The conditions of pod groups.

use super::watches::POD_GROUPS;
use super::writer::{GroupStatus, Writer};
use evictd_cluster_client::discovery::{serves, versions};
use evictd_cluster_client::{Actions, ApiError};
use evictd_pod::wire::{self, Condition};
use evictd_scheduling::{GroupOutcome, GroupResult};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use tracing::{debug, warn};

/// Once true it stays true.
const INITIALLY: &str = "PodGroupInitiallyScheduled";
/// The name of the same condition before Kubernetes 1.37.
const SCHEDULED: &str = "PodGroupScheduled";
const DISRUPTED: &str = "DisruptionTarget";

/// Groups by `namespace/name` whose pods are being bound.
#[derive(Default)]
pub(super) struct GroupStatuses(HashMap<String, Arc<wire::PodGroup>>);

/// Namespace and name of the group that a pod names.
fn group_of(pod: &wire::Pod) -> Option<(&str, &str)> {
    let group = pod.spec.scheduling_group.as_ref()?;
    Some((pod.metadata.namespace_or_default(), &group.pod_group_name))
}

fn full_name((namespace, name): (&str, &str)) -> String {
    format!("{namespace}/{name}")
}

impl GroupStatuses {
    /// Writes the results of attempts. A placed group is scheduled once its pods are bound.
    pub(super) fn decided(&mut self, now: Timestamp, results: Vec<GroupResult>, writer: &Writer) {
        for GroupResult { group, outcome } in results {
            match outcome {
                // A binding may still fail, so that the conditions are written after the last one.
                GroupOutcome::Placed => {
                    let metadata = &group.metadata;
                    let name = full_name((metadata.namespace_or_default(), &metadata.name));
                    self.0.insert(name, group);
                }
                GroupOutcome::Unschedulable(message) => {
                    // A group that was scheduled once keeps that condition.
                    let kinds = [INITIALLY, SCHEDULED];
                    let kinds = kinds.into_iter().filter(|kind| !holds(&group, kind));
                    let conditions =
                        kinds.map(|kind| condition(kind, false, ("Unschedulable", &message), now));
                    write(&group, conditions.collect(), writer);
                }
                GroupOutcome::Preempted => {
                    let message = "preempting to accommodate a higher priority pod group";
                    let disrupted =
                        condition(DISRUPTED, true, ("PreemptionByScheduler", message), now);
                    write(&group, vec![disrupted], writer);
                }
            }
        }
    }

    /// Handles a group with enough placed pods. It is scheduled unless one of them is among the pods that are `binding`.
    pub(super) fn placed<'p>(
        &mut self,
        now: Timestamp,
        group: Arc<wire::PodGroup>,
        binding: impl Iterator<Item = &'p wire::Pod>,
        writer: &Writer,
    ) {
        let metadata = &group.metadata;
        let name = (metadata.namespace_or_default(), &*metadata.name);
        if is_binding(name, binding) {
            self.0.insert(full_name(name), group);
        } else {
            scheduled(&group, now, writer);
        }
    }

    /// Handles a bound pod. `binding` are the other pods that are being bound. The last pod of a group makes it scheduled.
    pub(super) fn bound<'p>(
        &mut self,
        now: Timestamp,
        pod: &wire::Pod,
        binding: impl Iterator<Item = &'p wire::Pod>,
        writer: &Writer,
    ) {
        if self.0.is_empty() {
            return;
        }
        let Some(name) = group_of(pod).filter(|group| !is_binding(*group, binding)) else {
            return;
        };
        if let Some(group) = self.0.remove(&full_name(name)) {
            scheduled(&group, now, writer);
        }
    }

    /// Handles a failed binding. The group is not scheduled until a later attempt places it again.
    pub(super) fn not_bound(&mut self, pod: &wire::Pod) {
        if let Some(group) = group_of(pod) {
            self.0.remove(&full_name(group));
        }
    }
}

fn is_binding<'p>(group: (&str, &str), mut pods: impl Iterator<Item = &'p wire::Pod>) -> bool {
    pods.any(|pod| group_of(pod) == Some(group))
}

fn scheduled(group: &wire::PodGroup, now: Timestamp, writer: &Writer) {
    let kinds = [INITIALLY, SCHEDULED].into_iter();
    let kinds = kinds.filter(|kind| !holds(group, kind));
    let words = ("Scheduled", "all pods that it needs at once have a node");
    let conditions = kinds.map(|kind| condition(kind, true, words, now));
    write(group, conditions.collect(), writer);
}

fn holds(group: &wire::PodGroup, kind: &str) -> bool {
    let mut conditions = group.status.conditions.iter();
    conditions.any(|condition| condition.holds(kind))
}

fn condition(
    kind: &'static str,
    holds: bool,
    (reason, message): (&'static str, &str),
    since: Timestamp,
) -> Condition {
    Condition::new(kind, holds, reason, message.to_owned(), since)
}

/// Writes the conditions that the group does not have yet.
fn write(group: &wire::PodGroup, mut conditions: Vec<Condition>, writer: &Writer) {
    conditions.retain_mut(|new| {
        let mut old = group.status.conditions.iter();
        let old =
            old.find(|condition| condition.kind == new.kind && condition.status == new.status);
        // The time of a condition that keeps its status does not change.
        if let Some(since) = old.and_then(|condition| condition.last_transition_time) {
            new.last_transition_time = Some(since);
        }
        old.is_none_or(|condition| {
            condition.message != new.message || condition.reason != new.reason
        })
    });
    if conditions.is_empty() {
        return;
    }
    writer.group(GroupStatus {
        namespace: group.metadata.namespace_or_default().to_owned(),
        name: group.metadata.name.clone(),
        uid: group.metadata.uid.to_string(),
        conditions,
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
