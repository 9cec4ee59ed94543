//! Whether evicting all eligible pods can bring a signal back to its threshold, and who uses what is short.

use crate::{
    Observation, Signal,
    decision::{RankedPod, Shares, Spared},
};
use evictd_pod::Quantity;

impl Shares {
    /// Computes the shares from an observation of this signal and a ranking for it. `threshold` is the value to
    /// reach, `on_the_way` what terminating pods will free.
    pub fn of(
        signal: Signal,
        (observed, threshold): (&Observation, Quantity),
        ranked: &[RankedPod],
        on_the_way: Quantity,
    ) -> Self {
        let amount = |value| amount(signal, value);
        let sum = |pods: &mut dyn Iterator<Item = &RankedPod>| {
            let held = pods.filter_map(|pod| pod.frees(signal));
            held.fold(Quantity::ZERO, |sum, held| sum + held)
        };
        let available = amount(observed.available);
        let (pods, taken) = (sum(&mut ranked.iter()), amount(observed.taken()));
        Self {
            short: (threshold - available).max(Quantity::ZERO),
            may_go: sum(&mut ranked.iter().filter(|pod| pod.spared.is_none())),
            on_the_way,
            in_no_pod: (taken - pods).max(Quantity::ZERO),
            pods,
            capacity: amount(observed.capacity),
        }
    }

    /// Whether the end of all eligible pods would bring the signal back to its threshold.
    pub(crate) fn suffice(&self) -> bool {
        self.may_go + self.on_the_way >= self.short
    }
}

fn amount(signal: Signal, value: i64) -> Quantity {
    if signal.counts_bytes() {
        Quantity::bytes(value)
    } else {
        Quantity::count(value)
    }
}

/// The pods that are terminating and are waited for; what they use will be freed.
pub(crate) fn on_the_way<'a>(
    signal: Signal,
    ranked: &'a [RankedPod],
    is_credited: impl Fn(&RankedPod) -> bool + 'a,
) -> impl Iterator<Item = (&'a RankedPod, Quantity)> {
    ranked
        .iter()
        .filter(move |pod| pod.spared == Some(Spared::Dying) && is_credited(pod))
        .map(move |pod| (pod, pod.frees(signal).unwrap_or_default()))
}
