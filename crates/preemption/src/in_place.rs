//! Preemption for a pod that is to be resized on its node (S7-243, S7-244).

use crate::action::Action;
use crate::actions;
use crate::budget::BudgetUsage;
use crate::candidate::NotCandidate;
use crate::compat::Compat;
use crate::groups::{KnownGroups, VictimRules};
use crate::plan::Plan;
use crate::search::Options;
use crate::victims::{Scratch, select};
use evictd_placement::{Checks, NodeId, Pod};

/// Whether a pod has room for its new requests on the node where it runs.
#[derive(Debug)]
pub enum InPlace {
    /// It has.
    Fits,
    /// It has once the victims of this plan have left.
    Preempts(Box<Plan>),
    /// No victims help.
    NotCandidate {
        /// Why.
        why: NotCandidate,
        /// More detail than the rejection has, if there is any.
        obstacle: Option<String>,
    },
}

/// Plans the preemption for a pod that runs on `node`, as the pod of that index. `checks` holds the filters for its new requests.
/// Neither another node nor a nomination is involved.
pub fn preempt_in_place(
    checks: &mut Checks<'_>,
    (node, index): (NodeId, usize),
    rules: VictimRules<'_>,
    options: Options,
    waiting: &dyn Fn(&Pod) -> bool,
) -> InPlace {
    let (cluster, pod) = (checks.cluster(), checks.pod());
    let rules = rules.of(options.compat);
    let mut usage = BudgetUsage::new(cluster, rules.budgets, options.compat > Compat::V1_18);
    checks.count_steps(usage.take_steps());
    let mut groups = KnownGroups::new(cluster, rules.groups);
    let mut scratch = Scratch::default();
    let mut trial = checks.on(node);
    // Its requests count once, as the new ones.
    trial.remove(index);
    if trial.fits().is_ok() {
        return InPlace::Fits;
    }
    let mut obstacle = None;
    let mut record = |step| {
        if let crate::victims::Step::DoesNotFit { obstacle: found } = step {
            obstacle = found;
        }
    };
    let selected = select(
        trial,
        pod,
        (&mut usage, &mut groups),
        (options.compat, options.policy),
        &mut scratch,
        Some(&mut record),
    );
    checks.count_steps(usage.take_steps());
    let violations = match selected {
        Ok(violations) => violations,
        Err(why) => return InPlace::NotCandidate { why, obstacle },
    };
    let mut plan = Plan::default();
    plan.add(node, violations, &scratch.victims);
    plan.chosen = Some(0);
    plan.groups = groups.evicted(&scratch.victims);
    plan.actions = actions::of(&plan, cluster, pod, options.compat, waiting);
    let nominates = |action: &Action| matches!(action, Action::Nominate { .. });
    plan.actions.retain(|action| !nominates(action));
    InPlace::Preempts(Box::new(plan))
}
