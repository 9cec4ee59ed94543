//! Who would have to leave one node: all less important pods are taken off, then as many as possible are put back.

use crate::budget::{BudgetPolicy, Ledger};
use crate::candidate::NotCandidate;
use crate::form::Form;
use evictd_placement::{Pod, Trial};

/// What happens while one node is tried.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These less important pods are taken off, by index; the first given are tried again first.
    Removed {
        /// Those whose end would break a budget.
        violating: Vec<usize>,
        /// The others.
        others: Vec<usize>,
    },
    /// Without them the pod does not fit either.
    StillNot {
        /// What remains, where more can be said than in the rejection.
        obstacle: Option<String>,
    },
    /// A pod is put back and may stay.
    Stays(usize),
    /// A pod is put back, and then the incoming one does not fit any more: it is a victim.
    Goes {
        /// The pod, by index.
        index: usize,
        /// What would then be in the way.
        obstacle: Option<String>,
    },
}

/// Room that is used again for every node.
#[derive(Default)]
pub(crate) struct Scratch {
    violating: Vec<usize>,
    others: Vec<usize>,
    /// The result: indices of the node's pods.
    pub(crate) victims: Vec<u32>,
}

impl Scratch {
    /// All that are grouped.
    fn indices(&self) -> impl Iterator<Item = usize> {
        self.violating.iter().chain(&self.others).copied()
    }
}

/// Tries one node. Leaves the victims in `scratch`, in the order of the form (S3-023), and returns how many of them
/// break a budget. The trial ends as it began.
pub(crate) fn select(
    mut trial: Trial<'_, '_>,
    preemptor: &Pod,
    ledger: &mut Ledger<'_>,
    (form, policy): (Form, BudgetPolicy),
    scratch: &mut Scratch,
    mut tell: Option<&mut dyn FnMut(Step)>,
) -> Result<usize, NotCandidate> {
    let pods = trial.pods();
    let first = trial.first_below(preemptor.priority);
    scratch.violating.clear();
    scratch.others.clear();
    scratch.victims.clear();
    if first == pods.len() && form > Form::V1_18 {
        return Err(NotCandidate::NoVictims);
    }
    let mut end = Ok(());
    for grouping in Grouping::of(policy) {
        scratch.indices().for_each(|index| trial.put_back(index));
        group(pods, first, ledger, *grouping, scratch);
        scratch.indices().for_each(|index| trial.remove(index));
        end = trial.fits();
        if end.is_ok() {
            break;
        }
    }
    if let Some(tell) = &mut tell {
        tell(Step::Removed {
            violating: scratch.violating.clone(),
            others: scratch.others.clone(),
        });
    }
    if let Err(rejection) = end {
        if let Some(tell) = &mut tell {
            let obstacle = trial.obstacle();
            tell(Step::StillNot { obstacle });
        }
        let spared = scratch.indices().count() < pods.len() - first;
        return Err(if spared {
            NotCandidate::Budget(rejection)
        } else {
            NotCandidate::StillNot(rejection)
        });
    }
    let mut violations = 0;
    let groups = [(&scratch.violating, 1), (&scratch.others, 0)];
    for (indices, breaks) in groups {
        for index in indices {
            trial.put_back(*index);
            if trial.still_fits() {
                if let Some(tell) = &mut tell {
                    tell(Step::Stays(*index));
                }
                continue;
            }
            if let Some(tell) = &mut tell {
                let (index, obstacle) = (*index, trial.obstacle());
                tell(Step::Goes { index, obstacle });
            }
            trial.remove(*index);
            // Nobody runs four thousand million pods on a node.
            scratch
                .victims
                .push(u32::try_from(*index).unwrap_or(u32::MAX));
            violations += breaks;
        }
    }
    if scratch.victims.is_empty() && form > Form::V1_18 {
        return Err(NotCandidate::NobodyMustGo);
    }
    // A node's pods lie in the order of their importance.
    if form >= Form::V1_36 {
        scratch.victims.sort_unstable();
    }
    Ok(violations)
}

/// Which of the less important pods may go, and which of them break a budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Grouping {
    /// All may go; what budgets allow is given to the most important first (S3-021, S3-022).
    All,
    /// Only what budgets allow, given to the least important first, so that they go rather than others.
    SparingImportant,
    /// Only what budgets allow, given to the most important first: those may be the ones that make enough room.
    SparingOthers,
}

impl Grouping {
    /// What is tried one after the other.
    const fn of(policy: BudgetPolicy) -> &'static [Self] {
        match policy {
            BudgetPolicy::Prefer => &[Self::All],
            BudgetPolicy::NeverViolate => &[Self::SparingImportant, Self::SparingOthers],
        }
    }
}

/// Groups the less important pods, each group the most important first.
fn group(
    pods: &[Pod],
    first: usize,
    ledger: &mut Ledger<'_>,
    grouping: Grouping,
    scratch: &mut Scratch,
) {
    ledger.reset();
    scratch.violating.clear();
    scratch.others.clear();
    if grouping == Grouping::SparingImportant {
        for (index, pod) in pods.iter().enumerate().skip(first).rev() {
            if ledger.allows(pod) {
                ledger.count(pod);
                scratch.others.push(index);
            }
        }
        scratch.others.reverse();
        return;
    }
    for (index, pod) in pods.iter().enumerate().skip(first) {
        if !ledger.count(pod) {
            scratch.others.push(index);
        } else if grouping == Grouping::All {
            scratch.violating.push(index);
        }
    }
}
