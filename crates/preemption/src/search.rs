//! Tries the nodes and picks the best candidate.

use crate::actions;
use crate::budget::{BudgetPolicy, BudgetUsage};
use crate::candidate::{Candidate, NotCandidate};
use crate::compat::Compat;
use crate::extender::{self, Extender, ExtenderError, Offer};
use crate::groups::{KnownGroups, VictimRules};
use crate::pick::pick;
use crate::plan::{Ineligible, Plan};
use crate::victims::{Scratch, Step, select};
use evictd_placement::{Checks, Cluster, NodeId, Pod, Rejection};

/// Options of a plan.
#[derive(Debug, Clone, Copy, Default)]
pub struct Options {
    /// The emulated version.
    pub compat: Compat,
    /// Which nodes are tried.
    pub nodes: Nodes,
    /// Whether victims may violate budgets.
    pub policy: BudgetPolicy,
    /// Whether pods are evicted for their devices where no other eviction helps. kube-scheduler never does that.
    pub frees_devices: bool,
}

/// Which nodes are tried.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Nodes {
    /// Every node where preemption may help. The best candidate is then the best of the cluster.
    #[default]
    All,
    /// As kube-scheduler, from an offset on. The search stops at a tenth of the nodes, at least a hundred, with one
    /// candidate that violates no budget (S4-015, S4-016).
    Sample {
        /// The first node, modulo the number of nodes.
        offset: u64,
    },
}

/// Why there is no plan.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// The cluster has no nodes.
    #[error("no nodes available")]
    NoNodes,
    /// An extender failed that is not ignorable.
    #[error(transparent)]
    Extender(#[from] ExtenderError),
}

/// Plans the preemption for a pod of this cluster. `waiting` returns whether a victim waits in Permit (S4-022).
pub fn plan(
    cluster: &Cluster,
    rules: VictimRules<'_>,
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
        return Ok(Plan::without_candidates(filter));
    }
    preempt(&mut checks, filter, rules, options, extenders, waiting)
}

/// Plans the preemption for a pod that fits on no node. `filter` holds the Filter result of every node, by
/// [`NodeId::index`]; `checks` holds the pod's filters.
pub fn preempt(
    checks: &mut Checks<'_>,
    filter: Vec<Result<(), Rejection>>,
    rules: VictimRules<'_>,
    options: Options,
    extenders: &mut [&mut dyn Extender],
    waiting: &dyn Fn(&Pod) -> bool,
) -> Result<Plan, PlanError> {
    let (cluster, preemptor) = (checks.cluster(), checks.pod());
    let mut plan = Plan::without_candidates(filter);
    let rules = rules.of(options.compat);
    plan.ineligible = ineligible(cluster, preemptor, &plan, (options, rules));
    if plan.ineligible.is_some() {
        return Ok(plan);
    }
    choose(&mut plan, checks, rules, options, extenders)?;
    if plan.chosen.is_none() && options.frees_devices && checks.free_devices() {
        let mut freeing = Plan::without_candidates(plan.filter.clone());
        freeing.frees_devices = true;
        // Devices of pods that have ended are about to become free.
        let is_free = freeing.potential(cluster).any(|id| checks.fits(id).is_ok());
        if is_free {
            let nominated = preemptor.identity.nominated;
            let nominated = nominated.map(|name| cluster.symbols().text(name));
            let nominated = nominated.and_then(|name| cluster.find_node(name));
            plan.awaits_devices = nominated.is_some_and(|id| checks.fits(id).is_ok());
        } else {
            choose(&mut freeing, checks, rules, options, extenders)?;
        }
        if freeing.chosen.is_some() {
            plan = freeing;
        }
        plan.frees_devices = true;
    }
    plan.actions = actions::of(&plan, cluster, preemptor, options.compat, waiting);
    Ok(plan)
}

/// Finds the candidates and picks one.
fn choose(
    plan: &mut Plan,
    checks: &mut Checks<'_>,
    rules: VictimRules<'_>,
    options: Options,
    extenders: &mut [&mut dyn Extender],
) -> Result<(), PlanError> {
    let (cluster, preemptor) = (checks.cluster(), checks.pod());
    try_nodes(plan, checks, rules, options);
    if !plan.candidates.is_empty() {
        ask_extenders(plan, cluster, preemptor, extenders)?;
    }
    let victims = |candidate: &Candidate| plan.victims(candidate);
    if let Some((chosen, why)) = pick(cluster, &plan.candidates, victims, options.compat) {
        plan.chosen = Some(chosen);
        plan.why = why;
        let mut groups = KnownGroups::new(cluster, rules.groups);
        plan.groups = groups.evicted(plan.victims(&plan.candidates[chosen]));
    }
    Ok(())
}

/// Why the pod may not preempt, if so.
fn ineligible(
    cluster: &Cluster,
    preemptor: &Pod,
    plan: &Plan,
    (options, rules): (Options, VictimRules<'_>),
) -> Option<Ineligible> {
    let compat = options.compat;
    if preemptor.identity.never_preempts {
        return Some(Ineligible::Never);
    }
    let nominated = cluster.symbols().text(preemptor.identity.nominated?);
    let id = cluster.find_node(nominated)?;
    let is_unresolvable = plan.filter[id.index()].is_err_and(|rejection| {
        let waits_for_devices = options.frees_devices && rejection.is_for_devices();
        !rejection.is_resolvable() && !waits_for_devices
    });
    // No eviction helps on the nominated node, so the pod may preempt on others.
    if is_unresolvable && compat > Compat::V1_18 {
        return None;
    }
    let mut groups = KnownGroups::new(cluster, rules.groups);
    let ending = |pod: &&Pod| pod.terminating && (pod.preempted || compat < Compat::V1_36);
    let mut ending = cluster.node(id).pods.iter().filter(ending);
    ending
        .any(|pod| groups.priority(pod) < preemptor.priority)
        .then_some(Ineligible::Terminating)
}

/// The steps of the filters of one node, as far as no victim is counted.
const STEPS_OF_NODE: usize = 256;

/// Tries the nodes where preemption may help.
fn try_nodes(plan: &mut Plan, checks: &mut Checks<'_>, rules: VictimRules<'_>, options: Options) {
    let (cluster, preemptor) = (checks.cluster(), checks.pod());
    let Options {
        compat,
        nodes,
        policy,
        ..
    } = options;
    let mut potential: Vec<NodeId> = plan.potential(cluster).collect();
    let wanted = rotate(&mut potential, nodes, compat);
    let mut usage = BudgetUsage::new(cluster, rules.budgets, compat > Compat::V1_18);
    checks.count_steps(usage.take_steps());
    let mut groups = KnownGroups::new(cluster, rules.groups);
    let mut scratch = Scratch::default();
    let mut without_violation = false;
    for id in potential {
        if plan.candidates.len() >= wanted && without_violation {
            break;
        }
        // The caller discards the plan of an interrupted attempt.
        if cluster.interrupt().is_raised() {
            break;
        }
        plan.tried += 1;
        checks.count_steps(STEPS_OF_NODE);
        let trial = checks.on(id);
        let end = select(
            trial,
            preemptor,
            (&mut usage, &mut groups),
            (compat, policy),
            &mut scratch,
            None,
        );
        checks.count_steps(usage.take_steps());
        match end {
            Ok(violations) => {
                without_violation |= violations == 0;
                plan.add(id, violations, &scratch.victims);
            }
            Err(why) => plan.not_candidates.push((id, why)),
        }
    }
    // A sample starts at an offset, so the candidates are not in the order of the nodes yet.
    plan.candidates.sort_by_key(|candidate| candidate.node);
}

/// Rotates the list to the start of the sample. Returns how many candidates are enough.
fn rotate(potential: &mut [NodeId], nodes: Nodes, compat: Compat) -> usize {
    let count = potential.len();
    let Nodes::Sample { offset } = nodes else {
        return usize::MAX;
    };
    // `V1_18` tries all nodes (S3-017).
    if count == 0 || compat == Compat::V1_18 {
        return usize::MAX;
    }
    let offset = offset % u64::try_from(count).unwrap_or(u64::MAX);
    potential.rotate_left(usize::try_from(offset).unwrap_or(0));
    (count / 10).max(100).min(count)
}

/// Asks the extenders and keeps the candidates that they accept.
fn ask_extenders(
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

/// Tries one node. Returns each step and the number of budget violations. With `frees_devices` it tries what
/// [`Plan::frees_devices`] means.
pub fn explain_node(
    cluster: &Cluster,
    rules: VictimRules<'_>,
    preemptor: &Pod,
    options: Options,
    node: NodeId,
) -> (Vec<Step>, Result<usize, NotCandidate>) {
    let mut checks = Checks::new(cluster, preemptor);
    if options.frees_devices {
        checks.free_devices();
    }
    let rules = rules.of(options.compat);
    let mut usage = BudgetUsage::new(cluster, rules.budgets, options.compat > Compat::V1_18);
    let mut groups = KnownGroups::new(cluster, rules.groups);
    let mut scratch = Scratch::default();
    let mut steps = Vec::new();
    let mut record = |step| steps.push(step);
    let end = select(
        checks.on(node),
        preemptor,
        (&mut usage, &mut groups),
        (options.compat, options.policy),
        &mut scratch,
        Some(&mut record),
    );
    (steps, end)
}
