//! Selects the victims on one node. All pods of lower priority are removed, then as many as possible are put back.

use crate::budget::{BudgetPolicy, BudgetUsage};
use crate::candidate::NotCandidate;
use crate::compat::Compat;
use crate::groups::{KnownGroups, Victim};
use crate::units::{self, Collected, Units};
use evictd_placement::{NodeId, Pod, Trial};

/// A step while one node is tried. A victim is one pod, or all pods of a group with `disruptionMode: all`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// These victims of lower priority are removed. The first is put back first.
    Removed {
        /// Evicting these violates a budget.
        violating: Vec<Vec<Victim>>,
        /// Evicting these violates no budget.
        others: Vec<Vec<Victim>>,
    },
    /// The pod does not fit even without them.
    DoesNotFit {
        /// More detail than the rejection has, if there is any.
        obstacle: Option<String>,
    },
    /// These pods are put back and the preemptor still fits.
    Reprieved(Vec<Victim>),
    /// These pods are put back, but then the preemptor does not fit: they are victims.
    Victim {
        /// The pods.
        pods: Vec<Victim>,
        /// More detail than the rejection has, if there is any.
        obstacle: Option<String>,
    },
}

/// A potential victim.
#[derive(Clone, Copy)]
struct Potential {
    /// Its index among the units.
    unit: usize,
    /// How many of its pods violate a budget (S7-085).
    violations: usize,
}

/// Buffers that are reused for every node.
#[derive(Default)]
pub(crate) struct Scratch {
    /// Those whose eviction violates budgets.
    violating: Vec<Potential>,
    others: Vec<Potential>,
    /// The indices of the units that are evicted.
    evicted: Vec<usize>,
    /// The result.
    pub(crate) victims: Vec<Victim>,
}

impl Scratch {
    fn clear(&mut self) {
        self.violating.clear();
        self.others.clear();
        self.evicted.clear();
        self.victims.clear();
    }

    fn remove_all(&self, trial: &mut Trial<'_, '_>, units: &impl Units) {
        let all = self.violating.iter().chain(&self.others);
        units.remove_all(trial, all.map(|potential| potential.unit));
    }

    fn put_back_all(&self, trial: &mut Trial<'_, '_>, units: &impl Units) {
        for potential in self.violating.iter().chain(&self.others) {
            units.put_back(trial, potential.unit);
        }
    }

    fn removed(&self, node: NodeId, units: &impl Units) -> Step {
        let victims = |potential: &Potential| units.victims(node, potential.unit).collect();
        Step::Removed {
            violating: self.violating.iter().map(victims).collect(),
            others: self.others.iter().map(victims).collect(),
        }
    }

    /// Puts back as many units as possible. Returns the number of violations of the others.
    fn reprieve(
        &mut self,
        trial: &mut Trial<'_, '_>,
        units: &impl Units,
        record: &mut Option<&mut dyn FnMut(Step)>,
    ) -> usize {
        let mut violations = 0;
        for potential in self.violating.iter().chain(&self.others) {
            units.put_back(trial, potential.unit);
            let fits = trial.still_fits();
            if let Some(record) = record {
                let pods = units.victims(trial.node(), potential.unit).collect();
                record(if fits {
                    Step::Reprieved(pods)
                } else {
                    let obstacle = trial.obstacle();
                    Step::Victim { pods, obstacle }
                });
            }
            if !fits {
                units.remove(trial, potential.unit);
                self.evicted.push(potential.unit);
                violations += potential.violations;
            }
        }
        violations
    }
}

/// Tries one node and leaves the victims in `scratch`, in the order of the version (S3-023). Returns how many victims
/// violate a budget. The trial ends in its first state.
pub(crate) fn select(
    trial: Trial<'_, '_>,
    preemptor: &Pod,
    (usage, groups): (&mut BudgetUsage<'_>, &mut KnownGroups<'_>),
    rules: (Compat, BudgetPolicy),
    scratch: &mut Scratch,
    record: Option<&mut dyn FnMut(Step)>,
) -> Result<usize, NotCandidate> {
    match units::collect(&trial, preemptor.priority, groups) {
        Collected::Pods(pods) => select_units(trial, &pods, usage, rules, scratch, record),
        Collected::Groups(groups) => select_units(trial, &groups, usage, rules, scratch, record),
    }
}

fn select_units(
    mut trial: Trial<'_, '_>,
    units: &impl Units,
    usage: &mut BudgetUsage<'_>,
    (compat, policy): (Compat, BudgetPolicy),
    scratch: &mut Scratch,
    mut record: Option<&mut dyn FnMut(Step)>,
) -> Result<usize, NotCandidate> {
    scratch.clear();
    let node = trial.node();
    if units.len() == 0 && compat > Compat::V1_18 {
        return Err(NotCandidate::NoVictims);
    }
    let mut end = Ok(());
    // A later grouping is tried only if the earlier one frees too little.
    for grouping in Grouping::of(policy) {
        scratch.put_back_all(&mut trial, units);
        group(&trial, usage, *grouping, units, scratch);
        scratch.remove_all(&mut trial, units);
        end = trial.fits();
        if end.is_ok() {
            break;
        }
    }
    if let Some(record) = &mut record {
        record(scratch.removed(node, units));
    }
    if let Err(rejection) = end {
        if let Some(record) = &mut record {
            let obstacle = trial.obstacle();
            record(Step::DoesNotFit { obstacle });
        }
        let spared = scratch.violating.len() + scratch.others.len() < units.len();
        return Err(if spared {
            NotCandidate::Budget(rejection)
        } else {
            NotCandidate::DoesNotFit(rejection)
        });
    }
    let violations = scratch.reprieve(&mut trial, units, &mut record);
    if scratch.evicted.is_empty() && compat > Compat::V1_18 {
        return Err(NotCandidate::NoVictimNeeded);
    }
    // Units are sorted by importance, so sorting indices restores that order.
    if compat >= Compat::V1_36 {
        scratch.evicted.sort_unstable();
    }
    let victims = scratch.evicted.iter();
    let victims = victims.flat_map(|unit| units.victims(node, *unit));
    scratch.victims.extend(victims);
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

/// Groups the potential victims by the budgets, each kind with the most important first.
fn group(
    trial: &Trial<'_, '_>,
    usage: &mut BudgetUsage<'_>,
    grouping: Grouping,
    units: &impl Units,
    scratch: &mut Scratch,
) {
    usage.reset();
    let Scratch {
        violating, others, ..
    } = scratch;
    violating.clear();
    others.clear();
    let all = 0..units.len();
    let pods = |unit: usize| units.pods(trial, unit);
    let harmless = |unit: usize| Potential {
        unit,
        violations: 0,
    };
    match grouping {
        Grouping::All => {
            for unit in all {
                let broken = pods(unit).filter(|pod| usage.count(pod)).count();
                let group = if broken == 0 {
                    &mut *others
                } else {
                    &mut *violating
                };
                group.push(Potential {
                    unit,
                    violations: broken,
                });
            }
        }
        Grouping::SparingImportant => {
            let allowed = all.rev().filter(|unit| usage.count_allowed(pods(*unit)));
            others.extend(allowed.map(harmless));
            others.reverse();
        }
        Grouping::SparingOthers => {
            let allowed = all.filter(|unit| usage.count_allowed(pods(*unit)));
            others.extend(allowed.map(harmless));
        }
    }
}
