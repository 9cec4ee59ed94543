//! Selects the victims on one node. All pods of lower priority are removed, then as many as possible are put back.

use crate::budget::{BudgetPolicy, BudgetUsage};
use crate::candidate::NotCandidate;
use crate::compat::Compat;
use crate::groups::{KnownGroups, Victim};
use crate::units::Units;
use evictd_placement::{Pod, Trial};

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

/// Buffers that are reused for every node.
#[derive(Default)]
pub(crate) struct Scratch {
    units: Units,
    /// Indices of units whose eviction violates budgets, each with the number of its pods that do (S7-085).
    violating: Vec<(usize, usize)>,
    others: Vec<usize>,
    /// The indices of the units that are evicted.
    evicted: Vec<usize>,
    /// The result.
    pub(crate) victims: Vec<Victim>,
}

impl Scratch {
    /// The indices of both kinds of units.
    fn indices(&self) -> impl Iterator<Item = usize> {
        let violating = self.violating.iter().map(|(unit, _)| *unit);
        violating.chain(self.others.iter().copied())
    }

    fn begin(&mut self, trial: &Trial<'_, '_>, preemptor: &Pod, groups: &mut KnownGroups<'_>) {
        self.violating.clear();
        self.others.clear();
        self.evicted.clear();
        self.victims.clear();
        self.units.collect(trial, preemptor.priority, groups);
    }

    fn remove_all(&self, trial: &mut Trial<'_, '_>) {
        self.indices()
            .for_each(|unit| self.units.remove(trial, unit));
    }

    fn put_back_all(&self, trial: &mut Trial<'_, '_>) {
        self.indices()
            .for_each(|unit| self.units.put_back(trial, unit));
    }

    fn removed(&self) -> Step {
        let pods = |unit: usize| self.units.pods(unit).to_vec();
        Step::Removed {
            violating: self.violating.iter().map(|(unit, _)| pods(*unit)).collect(),
            others: self.others.iter().map(|unit| pods(*unit)).collect(),
        }
    }

    /// Puts back as many units as possible. Returns the number of violations of the others.
    fn reprieve(
        &mut self,
        trial: &mut Trial<'_, '_>,
        record: &mut Option<&mut dyn FnMut(Step)>,
    ) -> usize {
        let mut violations = 0;
        let violating = self.violating.iter().copied();
        let others = self.others.iter().map(|unit| (*unit, 0));
        for (unit, breaks) in violating.chain(others) {
            self.units.put_back(trial, unit);
            let fits = trial.still_fits();
            if let Some(record) = record {
                let pods = self.units.pods(unit).to_vec();
                record(if fits {
                    Step::Reprieved(pods)
                } else {
                    let obstacle = trial.obstacle();
                    Step::Victim { pods, obstacle }
                });
            }
            if !fits {
                self.units.remove(trial, unit);
                self.evicted.push(unit);
                violations += breaks;
            }
        }
        violations
    }
}

/// Tries one node and leaves the victims in `scratch`, in the order of the version (S3-023). Returns how many victims
/// violate a budget. The trial ends in its first state.
pub(crate) fn select(
    mut trial: Trial<'_, '_>,
    preemptor: &Pod,
    (usage, groups): (&mut BudgetUsage<'_>, &mut KnownGroups<'_>),
    (compat, policy): (Compat, BudgetPolicy),
    scratch: &mut Scratch,
    mut record: Option<&mut dyn FnMut(Step)>,
) -> Result<usize, NotCandidate> {
    scratch.begin(&trial, preemptor, groups);
    if scratch.units.len() == 0 && compat > Compat::V1_18 {
        return Err(NotCandidate::NoVictims);
    }
    let mut end = Ok(());
    // A later grouping is tried only if the earlier one frees too little.
    for grouping in Grouping::of(policy) {
        scratch.put_back_all(&mut trial);
        group(&trial, usage, *grouping, scratch);
        scratch.remove_all(&mut trial);
        end = trial.fits();
        if end.is_ok() {
            break;
        }
    }
    if let Some(record) = &mut record {
        record(scratch.removed());
    }
    if let Err(rejection) = end {
        if let Some(record) = &mut record {
            let obstacle = trial.obstacle();
            record(Step::DoesNotFit { obstacle });
        }
        let spared = scratch.indices().count() < scratch.units.len();
        return Err(if spared {
            NotCandidate::Budget(rejection)
        } else {
            NotCandidate::DoesNotFit(rejection)
        });
    }
    let violations = scratch.reprieve(&mut trial, &mut record);
    if scratch.evicted.is_empty() && compat > Compat::V1_18 {
        return Err(NotCandidate::NoVictimNeeded);
    }
    // Units are sorted by importance, so sorting indices restores that order.
    if compat >= Compat::V1_36 {
        scratch.evicted.sort_unstable();
    }
    for unit in &scratch.evicted {
        scratch.victims.extend(scratch.units.pods(*unit));
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

/// Groups the potential victims by the budgets, each kind with the most important first.
fn group(
    trial: &Trial<'_, '_>,
    usage: &mut BudgetUsage<'_>,
    grouping: Grouping,
    scratch: &mut Scratch,
) {
    usage.reset();
    let Scratch {
        units,
        violating,
        others,
        ..
    } = scratch;
    violating.clear();
    others.clear();
    let (cluster, units) = (trial.cluster(), &*units);
    let all = 0..units.len();
    let pods = |unit: usize| units.pods(unit).iter().map(|victim| victim.pod(cluster));
    match grouping {
        Grouping::All => {
            for unit in all {
                match count(usage, pods(unit)) {
                    0 => others.push(unit),
                    broken => violating.push((unit, broken)),
                }
            }
        }
        Grouping::SparingImportant => {
            let allowed = all.rev().filter(|unit| usage.count_allowed(pods(*unit)));
            others.extend(allowed);
            others.reverse();
        }
        Grouping::SparingOthers => {
            others.extend(all.filter(|unit| usage.count_allowed(pods(*unit))));
        }
    }
}

/// Counts pods as evicted. Returns how many of them violate a budget.
fn count<'p>(usage: &mut BudgetUsage<'_>, pods: impl Iterator<Item = &'p Pod>) -> usize {
    pods.map(|pod| usize::from(usage.count(pod))).sum()
}
