//! How the use of the starved resource is divided, and how much evictions can free.

use crate::{RankedPod, Shares};
use evictd_pod::Quantity;
use evictd_signals::{Observation, Signal, Threshold};

impl Shares {
    /// Computes the shares from an observation of this signal, the threshold that acts, and a ranking for the signal.
    /// `on_the_way` is the usage of terminating pods. With `reachable_only`, the target is the threshold alone where
    /// its minimum reclaim is out of reach.
    pub fn of(
        signal: Signal,
        (observed, threshold): (&Observation, &Threshold),
        ranked: &[RankedPod],
        on_the_way: Quantity,
        reachable_only: bool,
    ) -> Self {
        let amount = |value| signal.quantity(value);
        // All amounts are in the unit of the signal, so that counts and bytes are never added.
        let available = amount(observed.available);
        let (pods, taken) = (sum_of_gains(ranked.iter()), amount(observed.taken()));
        // A pod of unknown usage adds nothing to the sums, so that their number has to be known, too.
        let eligible = || ranked.iter().filter(|pod| pod.spared.is_none());
        let may_go = sum_of_gains(eligible());
        let below = |wanted: Quantity| (wanted - available).max(Quantity::ZERO);
        let crossed = below(threshold.value.at(observed.capacity));
        // A percentage of an absurd capacity may be negative.
        let wanted = below(threshold.to_reach(observed.capacity)).max(crossed);
        // Where the minimum reclaim is out of reach, an eviction that lifts the threshold alone is still worth it.
        let out_of_reach = may_go + on_the_way < wanted && crossed.is_positive();
        Self {
            resource: signal.resource(),
            short: if out_of_reach && reachable_only {
                crossed
            } else {
                wanted
            },
            may_go,
            unknown: eligible().filter(|pod| pod.usage.is_none()).count(),
            // Figures of pods and of the node are of different moments, so the difference may be negative.
            on_the_way,
            in_no_pod: (taken - pods).max(Quantity::ZERO),
            pods,
            capacity: amount(observed.capacity),
        }
    }

    /// Whether the end of all eligible pods would free the missing amount and `more`.
    pub fn suffice(&self, more: Quantity) -> bool {
        self.may_go + self.on_the_way >= self.short + more
    }

    /// The missing amount without the usage that is being freed already.
    pub fn missing(&self) -> Quantity {
        (self.short - self.on_the_way).max(Quantity::ZERO)
    }
}

/// The known amount that the end of these pods would free.
pub fn sum_of_gains<'a>(pods: impl Iterator<Item = &'a RankedPod>) -> Quantity {
    let held = pods.filter_map(|pod| pod.gain);
    held.fold(Quantity::ZERO, |sum, held| sum + held)
}
