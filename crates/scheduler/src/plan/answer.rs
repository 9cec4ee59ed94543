//! The plan for programs, as JSON.

use super::explanation::{Explanation, message};
use super::{Case, Found};
use crate::attempt::{self, Gang};
use evictd_placement::{Checks, NO_START, NodeId, Pod};
use evictd_preemption::{
    Action, Candidate, NotCandidate, Plan, Replacement, breaking, budgets_of, owner, replacements,
};
use evictd_scheduling::{Filtered, NotTried, Verdict};
use jiff::Timestamp;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::HashSet;

/// The result of `plan`. The fields after `elapsedSeconds` are for people and not stable.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Answer {
    pub(super) fits_without_preemption: bool,
    pub(super) eligible: bool,
    pub(super) ineligible_reason: Cow<'static, str>,
    /// Whether the scheduler tries the pod at all.
    #[serde(skip)]
    pub(super) is_tried: bool,
    /// The gang of the pod, which is placed as a whole.
    #[serde(skip)]
    pub(super) gang: Option<Gang>,
    /// The rejection of each node without preemption.
    #[serde(serialize_with = "as_map")]
    pub(super) filter_status: Vec<(String, Status)>,
    pub(super) candidates: Vec<CandidateNode>,
    pub(super) chosen: Option<CandidateNode>,
    pub(super) clear_nominations: Vec<String>,
    pub(super) actions: Vec<Action>,
    pub(super) why: Vec<String>,
    pub(super) elapsed_seconds: Elapsed,
    pub(super) preemptor: Preemptor,
    /// The error with which the attempt ends, as in `explain`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) error: Option<String>,
    /// The message of the pod's condition, if kube-scheduler would write one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) message: Option<String>,
    /// The victims on the chosen node.
    pub(super) victims: Vec<Victim>,
    /// Why preemption does not help on the other nodes that were tried.
    #[serde(serialize_with = "as_map")]
    pub(super) not_candidates: Vec<(String, NotCandidateNode)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) explanation: Option<Explanation>,
    /// How many pods like it fit beside each other, this one included. Absent if it does not fit, or a claim cannot be copied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) replicas: Option<usize>,
    /// The objects that keep the pod from every node, one line each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) blockers: Vec<String>,
    /// Checks that were left out because the input lacks objects for them.
    pub(super) unchecked: Vec<String>,
    pub(crate) warnings: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct Status {
    pub(super) code: &'static str,
    pub(super) reasons: Vec<String>,
}

#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct CandidateNode {
    pub(super) node: String,
    pub(super) victims: Vec<String>,
    #[serde(rename = "numPDBViolations")]
    pub(super) violations: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Elapsed {
    pub(super) load: f64,
    pub(super) plan: f64,
}

#[derive(Debug, Serialize)]
pub(super) struct Preemptor {
    pub(super) pod: String,
    pub(super) priority: i32,
    pub(super) requests: String,
    pub(super) form: &'static str,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Victim {
    pub(super) pod: String,
    pub(super) priority: i32,
    /// `ReplicaSet/web`. Absent if no controller creates a replacement.
    pub(super) owner: Option<String>,
    /// The disruption budgets that cover it.
    pub(super) budgets: Vec<String>,
    pub(super) started: Option<Timestamp>,
    /// On how many other nodes the replacement by its owner would fit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) fits_elsewhere: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct NotCandidateNode {
    #[serde(flatten)]
    pub(super) status: Status,
    /// Why preemption does not help on this node.
    pub(super) why: &'static str,
    /// Amounts and names that the reasons do not contain.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) obstacle: Option<String>,
}

impl Answer {
    /// An answer without nodes and victims.
    fn without_plan(case: &Case, load: f64) -> Self {
        Self {
            fits_without_preemption: false,
            eligible: false,
            ineligible_reason: "".into(),
            is_tried: true,
            gang: None,
            filter_status: Vec::new(),
            candidates: Vec::new(),
            chosen: None,
            clear_nominations: Vec::new(),
            actions: Vec::new(),
            why: Vec::new(),
            elapsed_seconds: Elapsed { load, plan: 0.0 },
            preemptor: Preemptor::of(case),
            error: None,
            message: None,
            victims: Vec::new(),
            not_candidates: Vec::new(),
            explanation: None,
            replicas: None,
            blockers: Vec::new(),
            unchecked: Vec::new(),
            warnings: case.attempt.warnings(),
        }
    }

    /// The answer for a pod that the scheduler does not try. It has no victims.
    pub(crate) fn not_tried(case: &Case, reason: &NotTried, load: f64) -> Self {
        Self {
            ineligible_reason: reason.to_string().into(),
            is_tried: false,
            ..Self::without_plan(case, load)
        }
    }

    /// The answer for a pod of a gang, which preempts with the other pods (S4-039). `chosen` has the pod's node and all victims.
    pub(crate) fn of_gang(case: &mut Case, gang: Gang, (load, took): (f64, f64)) -> Self {
        let filtered = case.attempt.filter();
        let (blockers, replicas) = if filtered.feasible.is_empty() {
            (case.attempt.blockers(), None)
        } else {
            (Vec::new(), case.attempt.replicas())
        };
        let mut answer = Self::without_plan(case, load);
        answer.fits_without_preemption = gang.placed.contains_key(&answer.preemptor.pod);
        answer.elapsed_seconds.plan = took;
        match &gang.preemption {
            Some(Ok(actions)) => answer.preempt_with_gang(case, actions),
            Some(Err(reason)) => answer.ineligible_reason = reason.clone().into(),
            None if answer.fits_without_preemption => {}
            None => {
                let message = gang.message.clone();
                let left_out = || format!("its PodGroup {} is placed without it", gang.pod_group);
                answer.ineligible_reason = message.unwrap_or_else(left_out).into();
            }
        }
        answer.filter_status = filter_status(case, &filtered);
        answer.message.clone_from(&gang.message);
        answer.unchecked = case.attempt.unchecked();
        answer.blockers = blockers;
        answer.replicas = replicas;
        answer.error = case.attempt.error(&filtered);
        answer.gang = Some(gang);
        answer
    }

    /// Adds the preemption for the whole gang.
    fn preempt_with_gang(&mut self, case: &Case, actions: &[Action]) {
        let cluster = &case.attempt.cluster;
        let pods = cluster.nodes().iter().flat_map(|node| &node.pods);
        let evicted: HashSet<&str> = actions
            .iter()
            .filter_map(|action| match action {
                Action::Delete { uid, .. } => Some(&**uid),
                _ => None,
            })
            .collect();
        let mut victims: Vec<&Pod> = pods.filter(|pod| evicted.contains(pod.uid())).collect();
        victims.sort_by_key(|pod| Reverse(pod.priority));
        let budgets = &case.attempt.budgets;
        let violations = breaking(cluster, budgets, victims.iter().copied());
        let mut nominations = actions.iter().filter_map(|action| match action {
            Action::Nominate { pod, node } => Some((pod, node)),
            _ => None,
        });
        let of_pod = nominations.find(|(pod, _)| **pod == self.preemptor.pod);
        self.eligible = true;
        self.actions = actions.to_vec();
        self.chosen = of_pod.map(|(_, node)| CandidateNode {
            node: node.clone(),
            victims: victims.iter().map(|pod| cluster.full_name(pod)).collect(),
            violations: violations.into_iter().filter(|breaks| *breaks).count(),
        });
        self.candidates = self.chosen.iter().cloned().collect();
        let victims = victims.into_iter();
        let shown = victims.map(|pod| Victim::of(case, pod, owner(cluster, pod), None));
        self.victims = shown.collect();
    }

    pub(crate) fn new(
        case: &Case,
        found: &Found,
        explained: Option<NodeId>,
        (load, took): (f64, f64),
    ) -> Self {
        let Found {
            filtered,
            plan,
            error,
            message,
            replicas,
        } = found;
        let mut checks = Checks::new(&case.attempt.cluster, &case.attempt.pod);
        let fits = plan.fits();
        let ineligible = plan.ineligible.map(|why| Cow::Borrowed(why.as_str()));
        let ineligible = error.clone().map(Cow::Owned).or(ineligible);
        Self {
            fits_without_preemption: fits,
            eligible: !fits && ineligible.is_none(),
            ineligible_reason: ineligible.unwrap_or_default(),
            error: error.clone(),
            filter_status: filter_status(case, filtered),
            candidates: plan
                .candidates
                .iter()
                .map(|candidate| CandidateNode::of(case, plan, candidate))
                .collect(),
            chosen: plan
                .choice()
                .map(|candidate| CandidateNode::of(case, plan, candidate)),
            clear_nominations: plan.clear_nominations(&case.attempt.cluster, &case.attempt.pod),
            actions: plan.actions.clone(),
            why: plan.reasons(&case.attempt.cluster),
            elapsed_seconds: Elapsed { load, plan: took },
            message: message.clone().or_else(|| plan.message(&checks)),
            victims: victims(case, plan),
            not_candidates: not_candidates(case, plan, &mut checks),
            replicas: *replicas,
            blockers: if fits {
                Vec::new()
            } else {
                case.attempt.blockers()
            },
            explanation: explained.map(|id| Explanation::of(case, (filtered, plan), id)),
            unchecked: checks.unchecked(),
            ..Self::without_plan(case, load)
        }
    }
}

impl Preemptor {
    fn of(case: &Case) -> Self {
        Self {
            pod: case.attempt.cluster.full_name(&case.attempt.pod),
            priority: case.attempt.pod.priority,
            requests: case.requests.clone(),
            form: case.options.compat.as_str(),
        }
    }
}

impl Status {
    /// Sorts the reasons, as kube-scheduler does in its messages.
    fn new(code: &'static str, mut reasons: Vec<String>) -> Self {
        reasons.sort_unstable();
        Self { code, reasons }
    }
}

impl CandidateNode {
    fn of(case: &Case, plan: &Plan, candidate: &Candidate) -> Self {
        let cluster = &case.attempt.cluster;
        let victims = plan.victims(candidate).iter();
        Self {
            node: cluster.node_name(candidate.node).to_owned(),
            victims: victims
                .map(|victim| cluster.full_name(victim.pod(cluster)))
                .collect(),
            violations: candidate.violations,
        }
    }
}

impl Victim {
    /// `nodes`: where its replacement fits, if that is known.
    fn of(case: &Case, pod: &Pod, owner: Option<String>, nodes: Option<usize>) -> Self {
        let budgets = budgets_of(
            &case.attempt.cluster,
            &case.attempt.budgets,
            pod,
            case.options.compat,
        );
        let started = (pod.start != NO_START).then_some(pod.start);
        Self {
            pod: case.attempt.cluster.full_name(pod),
            priority: pod.priority,
            fits_elsewhere: nodes.filter(|_| owner.is_some()),
            owner,
            budgets: budgets.into_iter().map(str::to_owned).collect(),
            started: started.and_then(|second| Timestamp::from_second(second).ok()),
        }
    }
}

fn filter_status(case: &Case, filtered: &Filtered) -> Vec<(String, Status)> {
    let attempt = &case.attempt;
    let mut checks = Checks::new(&attempt.cluster, &attempt.pod);
    // kube-scheduler's plan runs the filters on the nodes that PreFilter plugins leave out, too.
    let is_left_out = |verdict: &Verdict| {
        *verdict == Verdict::Excluded && filtered.pre_filter_rejection().is_none()
    };
    let mut statuses = attempt.statuses(filtered);
    for (id, verdict) in attempt.cluster.node_ids().zip(&filtered.verdicts) {
        if !is_left_out(verdict) {
            continue;
        }
        if let Err((_, rejection)) = checks.verdict(id)
            && let Some(status) = statuses.get_mut(attempt.cluster.node_name(id))
        {
            status.reasons = checks.messages(rejection);
        }
    }
    let status = |status: attempt::Status| Status::new(status.code, status.reasons);
    statuses
        .into_iter()
        .map(|(node, rejected)| (node, status(rejected)))
        .collect()
}

fn victims(case: &Case, plan: &Plan) -> Vec<Victim> {
    let cluster = &case.attempt.cluster;
    let replacements = replacements(cluster, plan);
    let victims = replacements.iter();
    let victim = |replacement: &Replacement| {
        let (pod, owner) = (replacement.victim.pod(cluster), replacement.owner.clone());
        Victim::of(case, pod, owner, Some(replacement.nodes))
    };
    victims.map(victim).collect()
}

fn not_candidates(
    case: &Case,
    plan: &Plan,
    checks: &mut Checks<'_>,
) -> Vec<(String, NotCandidateNode)> {
    let tried = plan.not_candidates.iter();
    let not_candidate = |(id, why): &(NodeId, NotCandidate)| {
        let (code, reasons) = why.status(checks);
        let obstacle = match why {
            NotCandidate::DoesNotFit(_) => {
                Plan::obstacle(checks, case.attempt.victim_rules().groups, *id)
            }
            _ => None,
        };
        let node = NotCandidateNode {
            status: Status::new(code.as_str(), reasons),
            why: message(*why),
            obstacle,
        };
        (case.attempt.cluster.node_name(*id).to_owned(), node)
    };
    tried.map(not_candidate).collect()
}

fn as_map<T: Serialize, S: Serializer>(
    entries: &[(String, T)],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(name, value)| (name, value)))
}
