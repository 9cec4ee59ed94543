//! Thresholds that also apply to the cgroup with all pods in it.

use super::{Threshold, ThresholdValue};
use crate::Signal;

/// The part of the pods' process ids that stays free where `pid.available` is a number. That number is the reserve of
/// the machine, and may exceed the limit of the pods.
const PIDS: ThresholdValue = ThresholdValue::Percentage(0.1);

/// Copies each hard memory threshold to the pods' cgroup (S1-012).
pub fn with_allocatable(thresholds: &[Threshold]) -> Vec<Threshold> {
    let from = Signal::MemoryAvailable;
    with_copies(thresholds, from, |threshold| Threshold {
        signal: Signal::AllocatableMemoryAvailable,
        ..threshold
    })
}

/// Copies each hard threshold on process ids to the pods' cgroup: a percentage as it is, a number as 10 %. No kubelet
/// does that.
pub fn with_allocatable_pids(thresholds: &[Threshold]) -> Vec<Threshold> {
    let part = |value: &ThresholdValue| matches!(value, ThresholdValue::Percentage(_));
    with_copies(thresholds, Signal::PidAvailable, |threshold| Threshold {
        signal: Signal::AllocatablePidAvailable,
        value: Some(threshold.value).filter(part).unwrap_or(PIDS),
        min_reclaim: threshold.min_reclaim.filter(part),
        ..threshold
    })
}

fn with_copies(
    thresholds: &[Threshold],
    from: Signal,
    copy: impl Fn(Threshold) -> Threshold,
) -> Vec<Threshold> {
    let copies = thresholds
        .iter()
        .filter(|threshold| threshold.signal == from && threshold.is_hard());
    let copies = copies.cloned().map(copy);
    thresholds.iter().cloned().chain(copies).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ThresholdMaps;

    fn of(
        signal: Signal,
        hard: &[(&str, &str)],
        copy: fn(&[Threshold]) -> Vec<Threshold>,
    ) -> Vec<String> {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let mut maps = ThresholdMaps {
            hard: hard.iter().map(owned).collect(),
            ..ThresholdMaps::default()
        };
        for soft in ["memory.available", "pid.available"] {
            maps.soft.insert(soft.to_owned(), "50%".to_owned());
            maps.soft_grace_period
                .insert(soft.to_owned(), "1m".to_owned());
        }
        let all = copy(&maps.parse().unwrap());
        let copies = all.iter().filter(|threshold| threshold.signal == signal);
        copies
            .map(|threshold| threshold.value.to_string())
            .collect()
    }

    #[test]
    fn s1_012_only_hard_memory_is_copied() {
        let hard = [("memory.available", "1Gi"), ("nodefs.available", "10%")];
        let copies = of(Signal::AllocatableMemoryAvailable, &hard, with_allocatable);
        assert_eq!(copies, ["1Gi"]);
    }

    #[test]
    fn process_ids_of_the_pods_are_a_part_of_their_own_limit() {
        let signal = Signal::AllocatablePidAvailable;
        for (written, copied) in [("20%", &["0.2"][..]), ("1000", &["0.1"]), ("0%", &[])] {
            let copies = of(signal, &[("pid.available", written)], with_allocatable_pids);
            assert_eq!(copies, copied, "{written}");
        }
        let memory = [("memory.available", "1Gi")];
        assert!(of(signal, &memory, with_allocatable_pids).is_empty());
    }
}
