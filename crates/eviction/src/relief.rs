//! Whether those who may go can lift a signal at all, and who holds what is short.

use crate::{
    Observation, Signal,
    decision::{RankedPod, Spared},
    why::human_bytes,
};

use evictd_pod::Quantity;
use serde::{Deserialize, Serialize};

/// Who holds what of a signal, as far as it is known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Shares {
    /// What is missing to the threshold, minimum reclaim left out.
    pub short: Quantity,
    /// What all pods hold.
    pub pods: Quantity,
    /// What those of them hold that may go.
    pub may_go: Quantity,
    /// What is on its way back from those who go already.
    pub on_the_way: Quantity,
    /// What is taken and no pod holds: the host's own programs, the kernel, pods that nobody lists.
    pub in_no_pod: Quantity,
    /// All that there is.
    pub capacity: Quantity,
}

impl Shares {
    /// From what was observed of this signal and a ranking for it; `threshold` is where it should be, `on_the_way` what those
    /// who go already will give back.
    pub fn of(
        signal: Signal,
        (observed, threshold): (&Observation, Quantity),
        ranked: &[RankedPod],
        on_the_way: Quantity,
    ) -> Self {
        let amount = |value| amount(signal, value);
        let sum = |pods: &mut dyn Iterator<Item = &RankedPod>| {
            let held = pods.filter_map(|pod| pod.gives_back(signal));
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

    /// `116Mi of 192Mi are in no pod`
    pub fn in_no_pod_words(&self) -> String {
        let amount = |quantity: Quantity| human_bytes(quantity.value());
        let (outside, capacity) = (amount(self.in_no_pod), amount(self.capacity));
        format!("{outside} of {capacity} are in no pod")
    }

    /// Whether all of them together lift the signal to its threshold.
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

/// What those who are being ended, and are waited for, will give back.
pub(crate) fn on_the_way<'a>(
    signal: Signal,
    ranked: &'a [RankedPod],
    is_credited: impl Fn(&RankedPod) -> bool + 'a,
) -> impl Iterator<Item = (&'a RankedPod, Quantity)> {
    ranked
        .iter()
        .filter(move |pod| pod.spared == Some(Spared::Dying) && is_credited(pod))
        .map(move |pod| (pod, pod.gives_back(signal).unwrap_or_default()))
}
