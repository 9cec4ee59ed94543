//! What is written into the status of pod groups.

use super::watches::POD_GROUPS;
use super::writer::{GroupCondition, GroupStatus, Writer};
use evictd_cluster_client::discovery::{serves, versions};
use evictd_cluster_client::{Actions, ApiError};
use evictd_pod::wire;
use evictd_scheduling::{GroupOutcome, GroupResult};
use jiff::Timestamp;
use std::collections::HashMap;
use std::sync::Arc;
use tracing::{debug, warn};

/// Whether its pods were placed once: once it is true it stays so.
const INITIALLY: &str = "PodGroupInitiallyScheduled";
/// The same under the name that it had before Kubernetes 1.37.
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

fn name_of((namespace, name): (&str, &str)) -> String {
    format!("{namespace}/{name}")
}

impl GroupStatuses {
    /// What the scheduler has decided about groups.
    pub(super) fn decided(&mut self, now: Timestamp, news: Vec<GroupResult>, writer: &Writer) {
        for GroupResult { group, outcome } in news {
            match outcome {
                GroupOutcome::Placed => {
                    let metadata = &group.metadata;
                    let name = name_of((metadata.namespace_or_default(), &metadata.name));
                    self.0.insert(name, group);
                }
                GroupOutcome::Unschedulable(message) => {
                    // What was placed once has been scheduled, whatever happens to it later.
                    let kinds = [INITIALLY, SCHEDULED];
                    let kinds = kinds.into_iter().filter(|kind| !holds(&group, kind));
                    let conditions =
                        kinds.map(|kind| condition(kind, false, ("Unschedulable", &message), now));
                    write(&group, conditions.collect(), writer);
                }
                GroupOutcome::Preempted => {
                    let message = "preempting to accommodate a higher priority pod group";
                    let gone = condition(DISRUPTED, true, ("PreemptionByScheduler", message), now);
                    write(&group, vec![gone], writer);
                }
            }
        }
    }

    /// Enough of a group's pods have a node; `binding` are all pods on their way. Unless some of the group are among them it is
    /// scheduled.
    pub(super) fn placed<'p>(
        &mut self,
        now: Timestamp,
        group: Arc<wire::PodGroup>,
        binding: impl Iterator<Item = &'p wire::Pod>,
        writer: &Writer,
    ) {
        let metadata = &group.metadata;
        let own = (metadata.namespace_or_default(), &*metadata.name);
        if is_binding(own, binding) {
            self.0.insert(name_of(own), group);
        } else {
            scheduled(&group, now, writer);
        }
    }

    /// A pod was bound; `binding` are those on their way. With the last of a group the group is scheduled.
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
        let Some(own) = group_of(pod).filter(|own| !is_binding(*own, binding)) else {
            return;
        };
        if let Some(group) = self.0.remove(&name_of(own)) {
            scheduled(&group, now, writer);
        }
    }

    /// A pod was not bound: its group waits for it again.
    pub(super) fn not_bound(&mut self, pod: &wire::Pod) {
        if let Some(own) = group_of(pod) {
            self.0.remove(&name_of(own));
        }
    }
}

/// Whether a pod of the group is among these.
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
    conditions.any(|own| own.kind == kind && own.status == "True")
}

fn condition(
    kind: &'static str,
    holds: bool,
    (reason, message): (&'static str, &str),
    since: Timestamp,
) -> GroupCondition {
    GroupCondition {
        kind,
        holds,
        reason,
        message: message.to_owned(),
        since,
    }
}

/// Writes what the group does not say already.
fn write(group: &wire::PodGroup, mut conditions: Vec<GroupCondition>, writer: &Writer) {
    conditions.retain_mut(|new| {
        let status = if new.holds { "True" } else { "False" };
        let mut old = group.status.conditions.iter();
        let old = old.find(|own| own.kind == new.kind && own.status == status);
        if let Some(since) = old.and_then(|own| own.last_transition_time) {
            new.since = since;
        }
        old.is_none_or(|own| own.message != new.message || own.reason != new.reason)
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

/// Says so if the server has pod groups only as a kind that came before Kubernetes 1.37: then pods that name one wait.
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
        Err(error) => debug!("which pod groups the server has is not known: {error}"),
    }
}
