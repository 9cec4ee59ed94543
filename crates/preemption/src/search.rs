//! The search: each node is tried, and the best that could be freed is picked.

use crate::actions;
use crate::budget::{Budget, BudgetPolicy, Ledger};
use crate::candidate::{Candidate, NotCandidate};
use crate::extender::{self, Extender, ExtenderError, Offer};
use crate::form::Form;
use crate::pick::pick;
use crate::plan::{Ineligible, Plan};
use crate::victims::{Scratch, Step, select};
use evictd_placement::{Checks, Cluster, NodeId, Pod, Rejection};

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
    let filter: Vec<_> = cluster.node_ids().map(|id| checks.fits(id)).collect();
    if filter.iter().any(Result::is_ok) {
        return Ok(Plan {
            filter,
            ..Plan::default()
        });
    }
    preempt(&mut checks, filter, budgets, options, extenders, waiting)
}

/// Plans the preemption for a pod that fits nowhere. `filter` is what every node says, by [`NodeId::index`]; `checks` are the
/// pod's filters.
pub fn preempt(
    checks: &mut Checks<'_>,
    filter: Vec<Result<(), Rejection>>,
    budgets: &[Budget],
    options: Options,
    extenders: &mut [&mut dyn Extender],
    waiting: &dyn Fn(&Pod) -> bool,
) -> Result<Plan, PlanError> {
    let (cluster, preemptor) = (checks.cluster(), checks.pod());
    let mut plan = Plan {
        filter,
        ..Plan::default()
    };
    plan.ineligible = ineligible(cluster, preemptor, &plan, options.form);
    if plan.ineligible.is_some() {
        return Ok(plan);
    }
    try_nodes(&mut plan, checks, budgets, options);
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
    plan.clear();
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
