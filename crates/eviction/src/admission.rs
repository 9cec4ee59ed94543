//! Whether a pod is let in here: the node's pressure first, then what the checks found, then what can be done
//! about it for a critical pod (S1-085 to S1-089, S2-001 to S2-003, S2-022, S2-023).

use crate::{
    NodeCondition,
    critical::{self, Need},
};
use evictd_pod::{Pod, QosClass, node::Taint};
use serde::{Deserialize, Serialize};
use std::borrow::Borrow;
use std::{collections::BTreeMap, fmt};

const MEMORY_PRESSURE_TAINT: &str = "node.kubernetes.io/memory-pressure";

/// What a check before this one found against the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// Too little of a resource is free; the only kind that killing pods can cure.
    Insufficient(Insufficient),
    /// Another predicate does not hold.
    Predicate {
        /// Its name, which is the reason that the pod shows: `NodeAffinity`.
        name: String,
        /// What does not hold, in a sentence.
        why: String,
    },
}

/// Too little of a resource is free. Amounts are millicores of cpu, whole units of anything else.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Insufficient {
    /// Name of the resource.
    pub resource: String,
    /// What the pod requests.
    pub requested: i64,
    /// What the pods here request.
    pub used: i64,
    /// What the node has to give.
    pub capacity: i64,
}

impl Insufficient {
    /// Where only the amount still missing is known.
    pub const fn missing(resource: String, amount: i64) -> Self {
        Self {
            resource,
            requested: amount,
            used: 0,
            capacity: 0,
        }
    }

    /// How much must become free (S2-004).
    pub const fn amount(&self) -> i64 {
        let free = self.capacity.saturating_sub(self.used);
        self.requested.saturating_sub(free)
    }
}

impl Failure {
    /// The reason that the refused pod shows (S2-022).
    pub fn reason(&self) -> String {
        match self {
            Self::Insufficient(insufficient) => format!("OutOf{}", insufficient.resource),
            Self::Predicate { name, .. } => name.clone(),
        }
    }
}

impl fmt::Display for Failure {
    /// The message that the refused pod shows (S2-022).
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

/// Whether the pod is let in.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Answer {
    /// It is, once the pods of `preempt` are gone.
    pub allowed: bool,
    /// Why not, in one word; empty when it is.
    pub reason: String,
    /// Why not, in a sentence; empty when it is.
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

/// An [`Answer`] with names in place of indices: what `evictd admit` and the daemon print.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The pod is let in.
    pub allowed: bool,
    /// Why not, in one word; empty when it is.
    pub reason: String,
    /// Why not, in a sentence; empty when it is.
    pub message: String,
    /// The pods to kill first, `namespace/name`, in kill order.
    pub preempt: Vec<String>,
    /// The QoS class of every pod that was looked at.
    pub qos: BTreeMap<String, String>,
}

impl Answer {
    /// The answer about `pods`, those that it was given for.
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

/// Whether `pod` is let in beside `pods`, while the node holds `conditions` (S1-089: those of the housekeeper, not
/// of the API's node) and the checks found `failures`, in order.
pub fn admit(
    pod: &Pod,
    pods: &[impl Borrow<Pod>],
    conditions: &[NodeCondition],
    failures: &[Failure],
) -> Answer {
    under_pressure(pod, conditions).unwrap_or_else(|| recover(pod, pods, failures))
}

/// The refusal, where the node's pressure demands one (S1-085 to S1-088).
fn under_pressure(pod: &Pod, conditions: &[NodeCondition]) -> Option<Answer> {
    if conditions.is_empty() || pod.critical.is_some() {
        return None;
    }
    let only_memory = conditions
        .iter()
        .all(|condition| *condition == NodeCondition::MemoryPressure);
    if only_memory && (pod.qos != QosClass::BestEffort || tolerates_memory_pressure(pod)) {
        return None;
    }
    let held = NodeCondition::ALL
        .into_iter()
        .filter(|condition| conditions.contains(condition));
    let held: Vec<&str> = held.map(NodeCondition::as_str).collect();
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

/// What becomes of `failures`: for a critical pod that only lacks resources, the pods that go for it.
fn recover(pod: &Pod, pods: &[impl Borrow<Pod>], failures: &[Failure]) -> Answer {
    let refused = |failure: &Failure| Answer::refused(failure.reason(), failure.to_string());
    let incurable =
        |failure: &&Failure| pod.critical.is_none() || matches!(failure, Failure::Predicate { .. });
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

    const NO_PODS: &[Pod] = &[];

    fn pod(json: &str) -> Pod {
        Pod::from_wire(serde_json::from_str(json).unwrap())
    }

    fn best_effort() -> Pod {
        pod(r#"{"metadata":{"name":"b"}}"#)
    }

    fn burstable() -> Pod {
        pod(r#"{"spec":{"containers":[{"resources":{"requests":{"cpu":"1"}}}]}}"#)
    }

    fn critical() -> Pod {
        pod(r#"{"spec":{"priority":2000000000}}"#)
    }

    fn tolerating() -> Pod {
        pod(
            r#"{"spec":{"tolerations":[{"key":"node.kubernetes.io/memory-pressure","operator":"Exists","effect":"NoSchedule"}]}}"#,
        )
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
    fn s2_003_s2_004_only_what_is_missing_is_freed() {
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
