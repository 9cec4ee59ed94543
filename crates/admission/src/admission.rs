//! Admission on this node. The order of the checks: node conditions, then the predicates that failed, then which
//! pods a critical pod may preempt (S1-085 to S1-089, S2-001 to S2-003, S2-022, S2-023).

use crate::critical::{self, Need};
use evictd_pod::{Pod, QosClass, wire::Taint};
use evictd_signals::NodeCondition;
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::{collections::BTreeMap, fmt};

const MEMORY_PRESSURE_TAINT: &str = "node.kubernetes.io/memory-pressure";

/// Why an admission check refuses the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Too little of a resource is free. Preemption can only solve this kind of failure.
    Insufficient(Insufficient),
    /// Another predicate failed.
    Predicate {
        /// The predicate's name, which becomes the reason in the refused pod's status: `NodeAffinity`.
        name: String,
        /// One sentence: the part of the pod that does not match the node.
        why: String,
    },
}

/// Too little of a resource is free. Amounts are millicores of cpu, whole units of anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insufficient {
    /// Name of the resource.
    pub resource: String,
    /// The amount that the pod requests.
    pub requested: i64,
    /// The sum of the requests of the pods on this node.
    pub used: i64,
    /// The node's allocatable amount.
    pub capacity: i64,
}

impl Insufficient {
    /// A shortage with only the missing amount known, without the request, the use and the capacity.
    pub const fn missing(resource: String, amount: i64) -> Self {
        Self {
            resource,
            requested: amount,
            used: 0,
            capacity: 0,
        }
    }

    /// How much must be freed so that the pod fits (S2-004).
    pub const fn amount(&self) -> i64 {
        let free = self.capacity.saturating_sub(self.used);
        self.requested.saturating_sub(free)
    }
}

impl Failure {
    /// The reason in the refused pod's status (S2-022).
    pub fn reason(&self) -> String {
        match self {
            Self::Insufficient(insufficient) => format!("OutOf{}", insufficient.resource),
            Self::Predicate { name, .. } => name.clone(),
        }
    }
}

impl fmt::Display for Failure {
    /// The message in the refused pod's status (S2-022).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Insufficient(Insufficient {
                resource,
                requested,
                used,
                capacity,
            }) => write!(
                f,
                "Node didn't have enough resource: {resource}, requested: {requested}, used: {used}, capacity: {capacity}"
            ),
            Self::Predicate { name, why } => write!(f, "Predicate {name} failed: {why}"),
        }
    }
}

/// Whether the pod is admitted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// The pod is admitted, after the pods of `preempt` have terminated.
    pub allowed: bool,
    /// Reason of the refusal in one word; empty when the pod is admitted.
    pub reason: String,
    /// Reason of the refusal in a sentence; empty when the pod is admitted.
    pub message: String,
    /// The pods to kill first, as indices into the pods given, in kill order.
    pub preempt: Vec<usize>,
}

impl Answer {
    const fn allowed(preempt: Vec<usize>) -> Self {
        Self {
            allowed: true,
            reason: String::new(),
            message: String::new(),
            preempt,
        }
    }

    fn refused(reason: impl Into<String>, message: String) -> Self {
        Self {
            allowed: false,
            reason: reason.into(),
            message,
            preempt: Vec::new(),
        }
    }
}

/// An [`Answer`] with names in place of indices, as `evictd admit` and the daemon print it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The pod is admitted.
    pub allowed: bool,
    /// Reason of the refusal in one word; empty when the pod is admitted.
    pub reason: String,
    /// Reason of the refusal in a sentence; empty when the pod is admitted.
    pub message: String,
    /// The pods to kill first, `namespace/name`, in kill order.
    pub preempt: Vec<String>,
    /// The QoS class of every pod considered, by `namespace/name`.
    pub qos: BTreeMap<String, String>,
}

impl Answer {
    /// This answer with names in place of indices; `pods` must be the slice that [`admit`] was given.
    pub fn named(self, pods: &[impl Borrow<Pod>]) -> Outcome {
        let name = |index: usize| Some(pods.get(index)?.borrow().full_name());
        let qos = |pod: &Pod| (pod.full_name(), pod.qos.as_str().to_owned());
        Outcome {
            allowed: self.allowed,
            reason: self.reason,
            message: self.message,
            preempt: self.preempt.into_iter().filter_map(name).collect(),
            qos: pods.iter().map(Borrow::borrow).map(qos).collect(),
        }
    }
}

/// Whether `pod` is admitted beside `pods`. `conditions` are those of the housekeeper, not those of the API's Node
/// (S1-089). `failures` are the failed predicates in the order of the checks.
pub fn admit(
    pod: &Pod,
    pods: &[impl Borrow<Pod>],
    conditions: &[NodeCondition],
    failures: &[Failure],
) -> Answer {
    under_pressure(pod, conditions).unwrap_or_else(|| recover(pod, pods, failures))
}

/// Refuses the pod where one of the node's conditions demands it (S1-085 to S1-088).
fn under_pressure(pod: &Pod, conditions: &[NodeCondition]) -> Option<Answer> {
    if conditions.is_empty() || pod.critical.is_some() {
        return None;
    }
    let only_memory = conditions
        .iter()
        .all(|condition| *condition == NodeCondition::MemoryPressure);
    // A pod with requests has memory reserved for it, so memory pressure does not keep it away.
    if only_memory && (pod.qos != QosClass::BestEffort || tolerates_memory_pressure(pod)) {
        return None;
    }
    let held: Vec<&str> = NodeCondition::ALL
        .into_iter()
        .filter(|condition| conditions.contains(condition))
        .map(NodeCondition::as_str)
        .collect();
    let message = format!("The node had condition: [{}]. ", held.join(" "));
    Some(Answer::refused("Evicted", message))
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let taint = Taint {
        key: MEMORY_PRESSURE_TAINT.to_owned(),
        value: String::new(),
        effect: "NoSchedule".to_owned(),
        time_added: None,
    };
    taint.is_tolerated(&pod.tolerations)
}

/// The answer after `failures`. A critical pod that only lacks resources is admitted if preemption frees enough.
fn recover(pod: &Pod, pods: &[impl Borrow<Pod>], failures: &[Failure]) -> Answer {
    let refused = |failure: &Failure| Answer::refused(failure.reason(), failure.to_string());
    let incurable =
        |failure: &&Failure| pod.critical.is_none() || matches!(failure, Failure::Predicate { .. });
    // Preemption frees resources; it changes no label, taint or port of another kind.
    if let Some(failure) = failures.iter().find(incurable) {
        return refused(failure);
    }
    let need = |failure: &Failure| match failure {
        Failure::Insufficient(insufficient) => Some(Need {
            resource: insufficient.resource.clone(),
            amount: insufficient.amount(),
        }),
        Failure::Predicate { .. } => None,
    };
    let needs: Vec<Need> = failures.iter().filter_map(need).collect();
    match critical::victims(pod, pods, &needs) {
        Ok(preempt) => Answer::allowed(preempt),
        Err(not_enough) => Answer::refused(
            "UnexpectedAdmissionError",
            format!(
                "Unexpected error while attempting to recover from admission failure: \
                 preemption: error finding a set of pods to preempt: {not_enough}"
            ),
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use NodeCondition::{DiskPressure, MemoryPressure, PidPressure};
    use evictd_test_objects::pod;
    use serde_json::json;

    const NO_PODS: &[Pod] = &[];

    fn best_effort() -> Pod {
        Pod::from_wire(pod("b").parse())
    }

    fn burstable() -> Pod {
        Pod::from_wire(pod("b").cpu("1").parse())
    }

    fn critical() -> Pod {
        Pod::from_wire(pod("c").priority(2_000_000_000).parse())
    }

    fn tolerating() -> Pod {
        let toleration = json!({ "key": "node.kubernetes.io/memory-pressure", "operator": "Exists", "effect": "NoSchedule" });
        let made = pod("t").spec(json!({ "tolerations": [toleration] }));
        Pod::from_wire(made.parse())
    }

    #[test]
    fn s1_085_no_conditions_admit() {
        assert!(admit(&best_effort(), NO_PODS, &[], &[]).allowed);
    }

    #[test]
    fn s1_086_critical_pods_under_any_pressure() {
        assert!(admit(&critical(), NO_PODS, &NodeCondition::ALL, &[]).allowed);
    }

    #[test]
    fn s1_087_memory_pressure_refuses_only_best_effort_that_does_not_tolerate_it() {
        assert!(admit(&burstable(), NO_PODS, &[MemoryPressure], &[]).allowed);
        assert!(admit(&tolerating(), NO_PODS, &[MemoryPressure], &[]).allowed);
        let answer = admit(&best_effort(), NO_PODS, &[MemoryPressure], &[]);
        assert!(!answer.allowed);
        assert_eq!(answer.reason, "Evicted");
        assert_eq!(answer.message, "The node had condition: [MemoryPressure]. ");
    }

    #[test]
    fn s1_088_disk_and_pid_pressure_refuse_every_class() {
        for conditions in [
            &[DiskPressure][..],
            &[PidPressure],
            &[MemoryPressure, DiskPressure],
        ] {
            for pod in [best_effort(), burstable(), tolerating()] {
                assert!(
                    !admit(&pod, NO_PODS, conditions, &[]).allowed,
                    "{conditions:?}"
                );
            }
        }
        let message = admit(&burstable(), NO_PODS, &[PidPressure, DiskPressure], &[]).message;
        assert_eq!(
            message,
            "The node had condition: [DiskPressure PIDPressure]. "
        );
    }

    fn out_of_cpu() -> Failure {
        Failure::Insufficient(Insufficient {
            resource: "cpu".to_owned(),
            requested: 1000,
            used: 3500,
            capacity: 4000,
        })
    }

    fn affinity() -> Failure {
        Failure::Predicate {
            name: "NodeAffinity".to_owned(),
            why: "node(s) didn't match Pod's node affinity/selector".to_owned(),
        }
    }

    #[test]
    fn s2_001_s2_022_a_pod_that_is_not_critical_shows_the_first_failure() {
        let answer = admit(
            &burstable(),
            &[burstable()],
            &[],
            &[out_of_cpu(), affinity()],
        );
        assert!(!answer.allowed && answer.preempt.is_empty());
        assert_eq!(answer.reason, "OutOfcpu");
        assert_eq!(
            answer.message,
            "Node didn't have enough resource: cpu, requested: 1000, used: 3500, capacity: 4000"
        );
    }

    #[test]
    fn s2_002_nothing_is_killed_when_anything_but_resources_is_in_the_way() {
        let answer = admit(
            &critical(),
            &[burstable()],
            &[],
            &[out_of_cpu(), affinity()],
        );
        assert!(!answer.allowed && answer.preempt.is_empty());
        assert_eq!(answer.reason, "NodeAffinity");
        assert_eq!(
            answer.message,
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
        );
    }

    #[test]
    fn s2_003_s2_004_only_the_missing_amount_is_freed() {
        let Failure::Insufficient(insufficient) = out_of_cpu() else {
            unreachable!()
        };
        assert_eq!(insufficient.amount(), 500);
        let answer = admit(
            &critical(),
            &[burstable(), burstable()],
            &[],
            &[out_of_cpu()],
        );
        assert!(answer.allowed);
        assert_eq!((answer.reason.as_str(), answer.preempt.len()), ("", 1));
    }

    #[test]
    fn s2_023_too_few_victims_is_an_unexpected_error() {
        let answer = admit(&critical(), &[best_effort()], &[], &[out_of_cpu()]);
        assert!(!answer.allowed && answer.preempt.is_empty());
        assert_eq!(answer.reason, "UnexpectedAdmissionError");
        assert_eq!(
            answer.message,
            "Unexpected error while attempting to recover from admission failure: preemption: error finding a set of \
             pods to preempt: no set of running pods found to reclaim resources: [(res: cpu, q: 500), ]"
        );
    }
}
