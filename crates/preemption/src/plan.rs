//! The plan: which nodes could be freed for a pod, by whom, and which one is picked.

use crate::actions::{self, Action};
use crate::budget::{Budget, BudgetPolicy, Ledger};
use crate::extender::{self, Extender, ExtenderError, Offer};
use crate::form::Form;
use crate::pick::{Why, pick};
use crate::victims::{Scratch, Step, select};
use evictd_placement::{Checks, Cluster, NodeId, Pod, Rejection};
use std::ops::Range;

/// How to plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// Which kube-scheduler is followed.
    pub form: Form,
    /// Which nodes are tried.
    pub nodes: Nodes,
    /// Whether budgets may be broken.
    pub policy: BudgetPolicy,
}

/// Which nodes are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Nodes {
    /// All that preemption could help: the best of them is really the best.
    #[default]
    All,
    /// As kube-scheduler: from this node on (counted modulo their number) until a tenth of them, at least a hundred,
    /// could be freed, one of them without breaking a budget (S4-015, S4-016).
    Sample {
        /// Where to begin.
        offset: u64,
    },
}

/// Why a pod may not preempt (S3-011, S3-012, S4-011).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ineligible {
    /// It says so itself.
    Never,
    /// Victims on its nominated node are still ending.
    Terminating,
}

impl Ineligible {
    /// kube-scheduler's words.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Never => "not eligible due to preemptionPolicy=Never.",
            Self::Terminating => "not eligible due to a terminating pod on the nominated node.",
        }
    }
}

/// Why a node that was tried is no candidate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotCandidate {
    /// No pod on it is less important (S4-005).
    NoVictims,
    /// The pod does not fit without the less important pods either.
    StillNot(Rejection),
    /// It would fit only if a budget were broken, or not even then.
    Budget(Rejection),
    /// Everybody could stay, although the pod did not fit (S4-017).
    NobodyMustGo,
}

/// A node that could be freed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// The node.
    pub node: NodeId,
    /// How many victims break a budget.
    pub violations: usize,
    pub(crate) victims: Range<u32>,
}

/// What was found. Nodes are told by [`NodeId`], victims by their indices among the node's pods.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// What every node says without preemption, by [`NodeId::index`].
    pub filter: Vec<Result<(), Rejection>>,
    /// Why the pod may not preempt.
    pub ineligible: Option<Ineligible>,
    /// Nodes that could be freed, in the order of the cluster's nodes.
    pub candidates: Vec<Candidate>,
    /// Nodes that were tried in vain.
    pub not_candidates: Vec<(NodeId, NotCandidate)>,
    /// The candidate that is picked.
    pub chosen: Option<usize>,
    /// Which rules decided.
    pub why: Vec<Why>,
    /// What a scheduler would do, in order.
    pub actions: Vec<Action>,
    victims: Vec<u32>,
    /// How many nodes were tried.
    tried: usize,
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// A cluster without nodes.
    #[error("no nodes available")]
    NoNodes,
    /// An extender failed that must not.
    #[error(transparent)]
    Extender(#[from] ExtenderError),
}

impl Plan {
    /// Whether some node takes the pod as it is; then nobody has to go.
    pub fn fits(&self) -> bool {
        self.filter.iter().any(Result::is_ok)
    }

    /// A candidate's victims: the most important first in the newest form; before, first those that break a budget.
    pub fn victims(&self, candidate: &Candidate) -> &[u32] {
        &self.victims[candidate.victims.start as usize..candidate.victims.end as usize]
    }

    /// The candidate that is picked.
    pub fn choice(&self) -> Option<&Candidate> {
        self.chosen.and_then(|index| self.candidates.get(index))
    }

    /// How many nodes were tried.
    pub(crate) const fn tried(&self) -> usize {
        self.tried
    }

    fn add(&mut self, node: NodeId, violations: usize, victims: &[u32]) {
        // Victims are pods of the cluster, which are counted in 32 bits.
        let end = |victims: &Vec<u32>| u32::try_from(victims.len()).unwrap_or(u32::MAX);
        let start = end(&self.victims);
        self.victims.extend_from_slice(victims);
        self.candidates.push(Candidate {
            node,
            violations,
            victims: start..end(&self.victims),
        });
    }

    /// Nodes that pods that leave could help.
    fn potential(&self, cluster: &Cluster) -> impl Iterator<Item = NodeId> {
        let answers = cluster.node_ids().zip(&self.filter);
        let helped = answers.filter(|(_, answer)| answer.is_err_and(Rejection::is_resolvable));
        helped.map(|(id, _)| id)
    }
}

/// Plans the preemption for a pod of this cluster. `waiting` tells which victims hold a place that they have not been
/// bound to yet (S4-022).
pub fn plan(
    cluster: &Cluster,
    budgets: &[Budget],
    preemptor: &Pod,
    options: Options,
    extenders: &mut [&mut dyn Extender],
    waiting: &dyn Fn(&Pod) -> bool,
) -> Result<Plan, PlanError> {
    if cluster.nodes().is_empty() {
        return Err(PlanError::NoNodes);
    }
    let mut checks = Checks::new(cluster, preemptor);
    let mut plan = Plan {
        filter: cluster.node_ids().map(|id| checks.fits(id)).collect(),
        ..Plan::default()
    };
    if plan.fits() {
        return Ok(plan);
    }
    plan.ineligible = ineligible(cluster, preemptor, &plan, options.form);
    if plan.ineligible.is_some() {
        return Ok(plan);
    }
    try_nodes(&mut plan, &mut checks, budgets, options);
    if !plan.candidates.is_empty() {
        agree(&mut plan, cluster, preemptor, extenders)?;
    }
    let victims = |candidate: &Candidate| plan.victims(candidate);
    if let Some((chosen, why)) = pick(cluster, &plan.candidates, victims, options.form) {
        plan.chosen = Some(chosen);
        plan.why = why;
    }
    plan.actions = actions::of(&plan, cluster, preemptor, options.form, waiting);
    Ok(plan)
}

/// Whether and why the pod may not preempt.
fn ineligible(cluster: &Cluster, preemptor: &Pod, plan: &Plan, form: Form) -> Option<Ineligible> {
    if preemptor.identity.never_preempts {
        return Some(Ineligible::Never);
    }
    let nominated = cluster.symbols().text(preemptor.identity.nominated?);
    let id = cluster.find_node(nominated)?;
    let lost = plan.filter[id.index()].is_err_and(|rejection| !rejection.is_resolvable());
    if lost && form > Form::V1_18 {
        return None;
    }
    let node = cluster.node(id);
    let lower = &node.pods[node.first_below(preemptor.priority)..];
    let ending = |pod: &Pod| pod.terminating && (pod.preempted || form < Form::V1_36);
    lower.iter().any(ending).then_some(Ineligible::Terminating)
}

/// Tries the nodes that preemption could help.
fn try_nodes(plan: &mut Plan, checks: &mut Checks<'_>, budgets: &[Budget], options: Options) {
    let (cluster, preemptor) = (checks.cluster(), checks.pod());
    let Options {
        form,
        nodes,
        policy,
    } = options;
    let mut potential: Vec<NodeId> = plan.potential(cluster).collect();
    let wanted = rotate(&mut potential, nodes, form);
    let mut ledger = Ledger::new(cluster, budgets, form > Form::V1_18);
    let mut scratch = Scratch::default();
    let mut harmless = false;
    for id in potential {
        if plan.candidates.len() >= wanted && harmless {
            break;
        }
        plan.tried += 1;
        let trial = checks.on(id);
        match select(
            trial,
            preemptor,
            &mut ledger,
            (form, policy),
            &mut scratch,
            None,
        ) {
            Ok(violations) => {
                harmless |= violations == 0;
                plan.add(id, violations, &scratch.victims);
            }
            Err(why) => plan.not_candidates.push((id, why)),
        }
    }
    plan.candidates.sort_by_key(|candidate| candidate.node);
}

/// Turns the list so that it begins where a sample begins; returns how many candidates are enough.
fn rotate(potential: &mut [NodeId], nodes: Nodes, form: Form) -> usize {
    let count = potential.len();
    let Nodes::Sample { offset } = nodes else {
        return usize::MAX;
    };
    // The oldest form tries all (S3-017).
    if count == 0 || form == Form::V1_18 {
        return usize::MAX;
    }
    let offset = offset % u64::try_from(count).unwrap_or(u64::MAX);
    potential.rotate_left(usize::try_from(offset).unwrap_or(0));
    (count / 10).max(100).min(count)
}

/// Asks the extenders and keeps what they agree to.
fn agree(
    plan: &mut Plan,
    cluster: &Cluster,
    preemptor: &Pod,
    extenders: &mut [&mut dyn Extender],
) -> Result<(), ExtenderError> {
    if extenders.is_empty() {
        return Ok(());
    }
    let offers = plan.candidates.iter().map(|candidate| Offer {
        node: candidate.node,
        victims: plan.victims(candidate).to_vec(),
        violations: candidate.violations,
    });
    let agreed = extender::ask_all(extenders, cluster, preemptor, offers.collect())?;
    plan.candidates.clear();
    plan.victims.clear();
    for offer in agreed {
        plan.add(offer.node, offer.violations, &offer.victims);
    }
    Ok(())
}

/// What happens on one node step by step, and how it ends.
pub fn explain_node(
    cluster: &Cluster,
    budgets: &[Budget],
    preemptor: &Pod,
    options: Options,
    node: NodeId,
) -> (Vec<Step>, Result<usize, NotCandidate>) {
    let mut checks = Checks::new(cluster, preemptor);
    let mut ledger = Ledger::new(cluster, budgets, options.form > Form::V1_18);
    let mut scratch = Scratch::default();
    let mut steps = Vec::new();
    let mut tell = |step| steps.push(step);
    let end = select(
        checks.on(node),
        preemptor,
        &mut ledger,
        (options.form, options.policy),
        &mut scratch,
        Some(&mut tell),
    );
    (steps, end)
}
