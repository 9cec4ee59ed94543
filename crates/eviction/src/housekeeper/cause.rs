//! Which pods may be evicted for a pressure signal: by which pods wait, and for which resource.

use crate::rules::Rules;
use evictd_decision::{ActingThreshold, RankedPod, Withheld};
use evictd_pod::Quantity;
use evictd_signals::{Observation, Observations, Signal, ThresholdValue, pressure::percent};
use evictd_usage::{StallCause, Usage};

/// While more than this part of the memory is available, in percent, no pod waits because the node lacks memory.
const PLENTY: i64 = 30;
/// The end of a pod that holds less than this part of the node's memory relieves no other pod.
const LEAST: i64 = 100;

/// Which pods may be evicted for a signal, as far as the cause of a pressure matters.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Candidates {
    /// Each pod.
    All,
    /// Those with at least this much memory.
    Holding(Quantity),
    /// The pod with this index, and the hundredths of a percent of the time that it waits at a limit of its own.
    AtOwnLimit(usize, u16),
    /// None.
    None(Box<Withheld>),
}

impl Candidates {
    /// The pods that may be evicted for the acting threshold, as far as the cause of a pressure matters.
    pub(super) fn of(
        acting: &ActingThreshold,
        usage: &Usage,
        ranked: &[RankedPod],
        (last, rules): (&Observations, &Rules),
    ) -> Self {
        let signal = acting.threshold.signal;
        let ThresholdValue::Pressure(limit) = acting.threshold.value else {
            return Self::All;
        };
        let node = u16::try_from(acting.observed.taken()).unwrap_or(u16::MAX);
        let cause = usage.stalls(signal).cause(limit, node);
        // Limits of single cgroups explain the pressure: the end of any other pod would not relieve it.
        if let StallCause::OwnLimits(pods) = &cause {
            let of = |index: usize| ranked.iter().find(|pod| pod.index == index);
            let may_go = |(index, figure): &&(usize, u16)| {
                *figure > limit.most && of(*index).is_some_and(|pod| pod.spared.is_none())
            };
            let worst = pods.iter().find(may_go);
            if let Some((index, figure)) = worst.filter(|_| rules.evict_at_own_limit) {
                return Self::AtOwnLimit(*index, *figure);
            }
            let names = pods.iter().filter_map(|(index, _)| of(*index));
            let pods = names.map(|pod| pod.pod.to_string()).collect();
            return Self::None(Box::new(Withheld::OwnLimits { pods }));
        }
        let left = plenty_of_memory(last).filter(|_| signal == Signal::MemoryPsi);
        match left {
            Some(left) => Self::None(Box::new(Withheld::MemoryLeft {
                available: Quantity::bytes(left.available),
                capacity: Quantity::bytes(left.capacity),
            })),
            None if !rules.requires_relief => Self::All,
            None if cause == StallCause::Unknown => {
                Self::None(Box::new(Withheld::OwnPressureUnknown))
            }
            None if signal == Signal::MemoryPsi => holds_enough(last, ranked),
            None => Self::All,
        }
    }

    /// Whether this pod may be evicted.
    pub(super) fn allow(&self, pod: &RankedPod) -> bool {
        match self {
            Self::All => true,
            Self::Holding(least) => pod.usage.is_some_and(|usage| usage >= *least),
            Self::AtOwnLimit(index, _) => pod.index == *index,
            Self::None(_) => false,
        }
    }

    /// Why the victim alone is evicted, if it waits at a limit of its own.
    pub(super) fn why_alone(&self, signal: Signal, victim: Option<&RankedPod>) -> Option<String> {
        let (Self::AtOwnLimit(_, figure), Some(victim)) = (self, victim) else {
            return None;
        };
        let (pod, resource) = (&victim.pod, signal.resource());
        let waits = percent((*figure).into());
        Some(format!(
            "{pod} waited at a limit of its own on {resource} for {waits} of the time; no other pod is evicted for that"
        ))
    }
}

/// Whether tasks wait for memory although most of it is available. Then the node is not short of memory, and new
/// pods are welcome.
pub(super) fn is_harmless(last: &Observations, signal: Signal) -> bool {
    signal == Signal::MemoryPsi && plenty_of_memory(last).is_some()
}

/// The pods whose end gives back a noticeable part of the node's memory.
fn holds_enough(seen: &Observations, ranked: &[RankedPod]) -> Candidates {
    let memory = seen.get(Signal::MemoryAvailable);
    let least = memory.map_or(0, |memory| memory.capacity / LEAST);
    let least = Quantity::bytes(least.max(1));
    let mut may_go = ranked.iter().filter(|pod| pod.spared.is_none()).peekable();
    let holding = Candidates::Holding(least);
    // Why each pod is spared is said elsewhere.
    if may_go.peek().is_none() || may_go.any(|pod| holding.allow(pod)) {
        holding
    } else {
        Candidates::None(Box::new(Withheld::HoldsTooLittle { least }))
    }
}

/// The available memory, if it is plenty: then no pod waits for memory of the node or of the pods' cgroup.
fn plenty_of_memory(seen: &Observations) -> Option<Observation> {
    let is_plenty = |seen: &Observation| {
        i128::from(seen.available) * 100 > i128::from(seen.capacity) * i128::from(PLENTY)
    };
    let pods = seen.get(Signal::AllocatableMemoryAvailable);
    let node = seen
        .get(Signal::MemoryAvailable)
        .filter(|node| is_plenty(node));
    node.filter(|_| pods.is_none_or(is_plenty)).copied()
}
