//! The NUMA nodes of a container by the kubelet's topology policies.

use super::cpus::take;
use crate::session::snapshot::numa::{CpuSet, NumaTopology};

/// NUMA nodes, each as a bit by its place among the machine's.
type Mask = u32;

#[derive(Debug, Clone, Copy)]
struct Hint {
    mask: Mask,
    preferred: bool,
}

/// The NUMA nodes that a policy chooses, or the processors of all under policy `none`.
#[derive(Debug, Clone, Copy)]
pub(super) enum Choice {
    Any,
    Of(Mask),
}

/// The number of whole processors that a container asks for; 0 if it asks for none or for a part of one.
pub(super) fn whole_cpus(milli: Option<i64>) -> usize {
    let whole = milli.filter(|milli| milli % 1000 == 0);
    whole
        .and_then(|milli| usize::try_from(milli / 1000).ok())
        .unwrap_or(0)
}

fn mask_of(machine: &NumaTopology, numa: u32) -> Mask {
    let at = machine.numa_nodes.iter().position(|id| *id == numa);
    at.map_or(0, |at| 1 << at)
}

fn cpus_in(machine: &NumaTopology, mask: Mask) -> impl Iterator<Item = u32> {
    let places = machine.places.iter();
    let within = places.filter(move |(_, place)| mask & mask_of(machine, place.numa) != 0);
    within.map(|(cpu, _)| *cpu)
}

fn all_of(machine: &NumaTopology) -> Mask {
    (1 << machine.numa_nodes.len()) - 1
}

/// Each set of NUMA nodes with enough available processors. Those are preferred that are as small as the machine allows.
fn hints(machine: &NumaTopology, available: &CpuSet, count: usize) -> Vec<Hint> {
    let all = all_of(machine);
    let mut least = all.count_ones();
    let sizes: Vec<(usize, usize)> = (0..least)
        .map(|at| {
            let cpus = || cpus_in(machine, 1 << at);
            let left = cpus().filter(|cpu| available.contains(cpu));
            (cpus().count(), left.count())
        })
        .collect();
    let mut masks = Vec::new();
    for mask in 1..=all {
        let within = sizes.iter().enumerate();
        let within = within.filter(|(at, _)| mask & (1 << at) != 0);
        let (cpus, left) = within.fold((0, 0), |sum, (_, size)| (sum.0 + size.0, sum.1 + size.1));
        if cpus >= count {
            least = least.min(mask.count_ones());
        }
        if left >= count {
            masks.push(mask);
        }
    }
    let hints = masks.into_iter();
    hints
        .map(|mask| Hint {
            mask,
            preferred: mask.count_ones() == least,
        })
        .collect()
}

/// The choice of the node's policy for a container; `None` if the policy admits none.
pub(super) fn choose(
    machine: &NumaTopology,
    available: &CpuSet,
    milli: Option<i64>,
) -> Option<Choice> {
    let policy = &*machine.topology_policy;
    let known = ["best-effort", "restricted", "single-numa-node"];
    if !known.contains(&policy) {
        return Some(Choice::Any);
    }
    let all = all_of(machine);
    let count = whole_cpus(milli);
    // Without whole processors each NUMA node is as good.
    let mut offered = vec![Hint {
        mask: all,
        preferred: true,
    }];
    let exclusive = count > 0 && machine.cpus.is_some();
    if exclusive {
        offered = hints(machine, available, count);
        if policy == "single-numa-node" {
            offered.retain(|hint| hint.preferred && hint.mask.is_power_of_two());
        }
    }
    let narrowest = |preferred: bool| {
        let hints = offered.iter().filter(|hint| hint.preferred == preferred);
        hints.min_by_key(|hint| (hint.mask.count_ones(), hint.mask))
    };
    if let Some(hint) = narrowest(true) {
        return Some(Choice::Of(hint.mask));
    }
    let other = narrowest(false).map_or(all, |hint| hint.mask);
    (policy == "best-effort").then_some(Choice::Of(other))
}

/// The processors that the kubelet keeps for the system.
pub(super) fn reserved(machine: &NumaTopology) -> CpuSet {
    let count = machine
        .reserved_milli
        .map_or(0, |milli| milli.max(0).unsigned_abs().div_ceil(1000));
    let count = usize::try_from(count).unwrap_or(usize::MAX);
    let all: CpuSet = machine.places.keys().copied().collect();
    take(machine, &all, count).unwrap_or_default()
}

/// The processors of a container by a choice; none if there are too few.
pub(super) fn assign(
    machine: &NumaTopology,
    available: &CpuSet,
    choice: Choice,
    milli: Option<i64>,
) -> CpuSet {
    let count = whole_cpus(milli);
    let mut assigned = CpuSet::new();
    if let Choice::Of(mask) = choice {
        let aligned: CpuSet = cpus_in(machine, mask)
            .filter(|cpu| available.contains(cpu))
            .collect();
        match take(machine, &aligned, count.min(aligned.len())) {
            Some(aligned) => assigned = aligned,
            None => return CpuSet::new(),
        }
    }
    let rest = available - &assigned;
    let Some(rest) = take(machine, &rest, count.saturating_sub(assigned.len())) else {
        return CpuSet::new();
    };
    assigned.extend(rest);
    assigned
}

/// How many NUMA nodes processors are on.
pub(super) fn numa_nodes_of(machine: &NumaTopology, cpus: &CpuSet) -> u32 {
    let places = cpus.iter().filter_map(|cpu| machine.places.get(cpu));
    let mask = places.fold(0, |mask, place| mask | mask_of(machine, place.numa));
    mask.count_ones()
}
