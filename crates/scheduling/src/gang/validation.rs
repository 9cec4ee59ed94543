//! The fields in which all pods of a group must agree (S7-036).

use super::forest::GroupObject;
use super::{CommonFields, Member};
use evictd_pod::compatibility::Release;
use std::borrow::Borrow;

/// Why the pods of a tree with this root cannot be scheduled together; `None` if they can. `scheduled` are the pods that have a node.
///
/// An API server stores `preemptionPolicy` of a group only with the gate `PodGroupPreemptionPolicy`. So a group that has the
/// field is checked as with that gate. kube-scheduler 1.36, which knows no trees, compares only the names of the schedulers.
pub(crate) fn validate(
    release: Release,
    root: &GroupObject,
    members: &[Member],
    scheduled: &[impl Borrow<CommonFields>],
) -> Option<String> {
    let waiting: Vec<CommonFields> = members
        .iter()
        .map(|member| CommonFields::of(&member.wire))
        .collect();
    let first = waiting.first()?;
    let is_tree = matches!(root, GroupObject::CompositePodGroup(_));
    let compares_all = is_tree || release >= Release::V1_37;
    let scheduled = scheduled.iter().map(Borrow::borrow);
    waiting
        .iter()
        .chain(scheduled)
        .find_map(|pod| match other_scheduler(first, pod) {
            None if compares_all => problem(root, first, pod),
            found => found,
        })
}

const START: &str = "all pods in a single pod group should have the same";

fn other_scheduler(first: &CommonFields, pod: &CommonFields) -> Option<String> {
    (pod.scheduler != first.scheduler).then(|| {
        format!(
            "{START} .spec.schedulerName set, got: {:?} and {:?}",
            pod.scheduler, first.scheduler
        )
    })
}

fn problem(root: &GroupObject, first: &CommonFields, pod: &CommonFields) -> Option<String> {
    let priority = root.priority();
    if pod.priority != priority {
        return Some(format!(
            "{START} priority as the pod group's priority, got {} and {priority}",
            pod.priority
        ));
    }
    let of_pod = policy(pod.never_preempts);
    let of_group = root.preemption_policy();
    if of_group.is_empty() {
        let of_first = policy(first.never_preempts);
        return (of_pod != of_first)
            .then(|| format!("{START} preemption policy, got {of_pod} and {of_first}"));
    }
    (of_pod != of_group).then(|| {
        format!("{START} preemption policy as the pod group's preemption policy, got {of_pod} and {of_group}")
    })
}

const fn policy(never_preempts: bool) -> &'static str {
    if never_preempts {
        "Never"
    } else {
        "PreemptLowerPriority"
    }
}
