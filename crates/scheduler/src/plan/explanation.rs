//! The steps of the search for victims on one node.

use super::Case;
use evictd_placement::{Checks, Code, NodeId};
use evictd_preemption::{NotCandidate, Options, Plan, Step, Victim, explain_node};
use evictd_scheduling::Filtered;
use serde::Serialize;

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Explanation {
    pub(super) node: String,
    /// Why the pod does not fit without preemption. Empty if it fits.
    pub(super) without_preemption: Vec<String>,
    pub(super) steps: Vec<NamedStep>,
    pub(super) result: String,
}

/// A step with the names of the pods.
#[derive(Debug, Serialize)]
#[serde(
    tag = "step",
    rename_all = "camelCase",
    rename_all_fields = "camelCase"
)]
pub(super) enum NamedStep {
    /// All pods of lower priority are removed.
    Removed {
        /// The pods whose removal would violate a disruption budget.
        violating: Vec<String>,
        others: Vec<String>,
    },
    /// The pod does not fit even then.
    StillNot { obstacle: Option<String> },
    /// A pod is added again, and the preemptor still fits.
    #[serde(rename = "stays")]
    Reprieved { pod: String },
    /// A pod is added again, and the preemptor does not fit with it.
    #[serde(rename = "goes")]
    Victim {
        pod: String,
        obstacle: Option<String>,
    },
}

impl Explanation {
    pub(super) fn of(case: &Case, (filtered, plan): (&Filtered, &Plan), id: NodeId) -> Self {
        let (cluster, pod) = (&case.attempt.cluster, &case.attempt.pod);
        let checks = Checks::new(cluster, pod);
        let rejection = plan.filter[id.index()].err();
        let framework = &case.attempt.framework;
        let without_preemption = filtered.reasons_on(framework, cluster, pod, id);
        let node = case.attempt.cluster.node_name(id).to_owned();
        let settled = match rejection {
            None => Some("the pod fits without preemption"),
            Some(rejection)
                if rejection.code > Code::Unschedulable
                    && !(plan.frees_devices() && rejection.is_for_devices()) =>
            {
                Some("no pod that leaves can change this")
            }
            Some(_) => None,
        };
        if let Some(result) = settled {
            return Self {
                node,
                without_preemption,
                steps: Vec::new(),
                result: result.to_owned(),
            };
        }
        let options = Options {
            frees_devices: plan.frees_devices(),
            ..case.options
        };
        let (steps, end) = explain_node(cluster, case.attempt.victim_rules(), pod, options, id);
        Self {
            node,
            without_preemption,
            steps: steps.into_iter().map(|step| named(case, step)).collect(),
            result: result(plan, &checks, id, end),
        }
    }
}

fn named(case: &Case, step: Step) -> NamedStep {
    let cluster = &case.attempt.cluster;
    let name = |victim: &Victim| cluster.full_name(victim.pod(cluster));
    let together = |pods: &Vec<Victim>| pods.iter().map(name).collect::<Vec<_>>().join(", ");
    let each = |units: &[Vec<Victim>]| units.iter().map(together).collect();
    match step {
        Step::Removed { violating, others } => NamedStep::Removed {
            violating: each(&violating),
            others: each(&others),
        },
        Step::DoesNotFit { obstacle } => NamedStep::StillNot { obstacle },
        Step::Reprieved(pods) => NamedStep::Reprieved {
            pod: together(&pods),
        },
        Step::Victim { pods, obstacle } => NamedStep::Victim {
            pod: together(&pods),
            obstacle,
        },
    }
}

fn result(
    plan: &Plan,
    checks: &Checks<'_>,
    id: NodeId,
    end: Result<usize, NotCandidate>,
) -> String {
    match end {
        Err(why) => {
            let reasons = why.status(checks).1.join(", ");
            format!("no candidate: {} ({reasons})", message(why))
        }
        Ok(violations) => {
            let chosen = plan.choice().is_some_and(|choice| choice.node == id);
            let chosen = if chosen { "chosen" } else { "not chosen" };
            format!(
                "a candidate, {chosen}; {violations} of the victims break a PodDisruptionBudget"
            )
        }
    }
}

pub(super) const fn message(why: NotCandidate) -> &'static str {
    match why {
        NotCandidate::NoVictims => "no pod of lower priority is there",
        NotCandidate::DoesNotFit(_) => "it would not fit without all pods of lower priority either",
        NotCandidate::Budget(_) => "a PodDisruptionBudget would have to be broken",
        NotCandidate::NoVictimNeeded => "no pod would have to be removed, and yet it does not fit",
    }
}
