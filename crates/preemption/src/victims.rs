//! Selects the victims on one node. All pods of lower priority are removed, then as many as possible are put back.

use crate::budget::{BudgetPolicy, BudgetUsage};
use crate::candidate::NotCandidate;
use crate::compat::Compat;
use evictd_placement::{Pod, Trial};

/// A step while one node is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These pods of lower priority are removed, by index. The first is put back first.
    Removed {
        /// Evicting these violates a budget.
        violating: Vec<usize>,
        /// Evicting these violates no budget.
        others: Vec<usize>,
    },
    /// The pod does not fit even without them.
    DoesNotFit {
        /// More detail than the rejection has, if there is any.
        obstacle: Option<String>,
    },
    /// A pod is put back and the preemptor still fits.
    Reprieved(usize),
    /// A pod is put back, but then the preemptor does not fit: it is a victim.
    Victim {
        /// The pod's index.
        index: usize,
        /// More detail than the rejection has, if there is any.
        obstacle: Option<String>,
    },
}

/// Buffers that are reused for every node.
#[derive(Default)]
pub(crate) struct Scratch {
    violating: Vec<usize>,
    others: Vec<usize>,
    /// The result: indices into the node's pods.
    pub(crate) victims: Vec<u32>,
}

impl Scratch {
    /// The indices of both groups.
    fn indices(&self) -> impl Iterator<Item = usize> {
        self.violating.iter().chain(&self.others).copied()
    }
}

/// Tries one node and leaves the victims in `scratch`, in the order of the version (S3-023). Returns how many victims
/// violate a budget. The trial ends in its first state.
pub(crate) fn select(
    mut trial: Trial<'_, '_>,
    preemptor: &Pod,
    usage: &mut BudgetUsage<'_>,
    (compat, policy): (Compat, BudgetPolicy),
    scratch: &mut Scratch,
    mut record: Option<&mut dyn FnMut(Step)>,
) -> Result<usize, NotCandidate> {
    let pods = trial.pods();
    let first = trial.first_below(preemptor.priority);
    scratch.violating.clear();
    scratch.others.clear();
    scratch.victims.clear();
    if first == pods.len() && compat > Compat::V1_18 {
        return Err(NotCandidate::NoVictims);
    }
    let mut end = Ok(());
    // A later grouping is tried only if the earlier one frees too little.
    for grouping in Grouping::of(policy) {
        scratch.indices().for_each(|index| trial.put_back(index));
        group(pods, first, usage, *grouping, scratch);
        scratch.indices().for_each(|index| trial.remove(index));
        end = trial.fits();
        if end.is_ok() {
            break;
        }
    }
    if let Some(record) = &mut record {
        record(Step::Removed {
            violating: scratch.violating.clone(),
            others: scratch.others.clone(),
        });
    }
    if let Err(rejection) = end {
        if let Some(record) = &mut record {
            let obstacle = trial.obstacle();
            record(Step::DoesNotFit { obstacle });
        }
        let spared = scratch.indices().count() < pods.len() - first;
        return Err(if spared {
            NotCandidate::Budget(rejection)
        } else {
            NotCandidate::DoesNotFit(rejection)
        });
    }
    let mut violations = 0;
    let groups = [(&scratch.violating, 1), (&scratch.others, 0)];
    for (indices, breaks) in groups {
        for index in indices {
            trial.put_back(*index);
            if trial.still_fits() {
                if let Some(record) = &mut record {
                    record(Step::Reprieved(*index));
                }
                continue;
            }
            if let Some(record) = &mut record {
                let (index, obstacle) = (*index, trial.obstacle());
                record(Step::Victim { index, obstacle });
            }
            trial.remove(*index);
            // No node runs 2^32 pods, so the fallback is never used.
            scratch
                .victims
                .push(u32::try_from(*index).unwrap_or(u32::MAX));
            violations += breaks;
        }
    }
    if scratch.victims.is_empty() && compat > Compat::V1_18 {
        return Err(NotCandidate::NoVictimNeeded);
    }
    // A node's pods are sorted by importance, so sorting indices restores that order.
    if compat >= Compat::V1_36 {
        scratch.victims.sort_unstable();
    }
    Ok(violations)
}

/// How the potential victims are grouped by the budgets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grouping {
    /// All are potential victims. Budgets spare the most important first (S3-021, S3-022).
    All,
    /// Only pods within the budgets. The least important use the budgets first, so that they are evicted first.
    SparingImportant,
    /// Only pods within the budgets. The most important use the budgets first, because they may be the ones that free
    /// enough.
    SparingOthers,
}

impl Grouping {
    /// The groupings to try, in order.
    const fn of(policy: BudgetPolicy) -> &'static [Self] {
        match policy {
            BudgetPolicy::Prefer => &[Self::All],
            BudgetPolicy::NeverViolate => &[Self::SparingImportant, Self::SparingOthers],
        }
    }
}

/// Groups the potential victims, each group with the most important first.
fn group(
    pods: &[Pod],
    first: usize,
    usage: &mut BudgetUsage<'_>,
    grouping: Grouping,
    scratch: &mut Scratch,
) {
    usage.reset();
    scratch.violating.clear();
    scratch.others.clear();
    if grouping == Grouping::SparingImportant {
        for (index, pod) in pods.iter().enumerate().skip(first).rev() {
            if usage.allows(pod) {
                usage.count(pod);
                scratch.others.push(index);
            }
        }
        scratch.others.reverse();
        return;
    }
    for (index, pod) in pods.iter().enumerate().skip(first) {
        if !usage.count(pod) {
            scratch.others.push(index);
        } else if grouping == Grouping::All {
            scratch.violating.push(index);
        }
    }
}
