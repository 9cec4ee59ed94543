//! Whether evicting all eligible pods can lift a signal, and which of them are worth it.

use crate::Rules;
use evictd_decision::{RankedPod, Shares, Spared, sum_of_gains};
use evictd_pod::Quantity;
use evictd_signals::Signal;

/// A gain below this part of the missing amount is negligible: one hundredth.
const LEAST_PART: i64 = 100;

/// The pods that may be evicted for a signal, in their order, without those whose end gains next to nothing.
pub(crate) struct Eligible<'a> {
    /// These may be chosen.
    pub(crate) pods: Vec<&'a RankedPod>,
    /// How many are passed over, since the others can lift the signal without them.
    pub(crate) small: usize,
}

impl<'a> Eligible<'a> {
    /// Under evictd's rules pods without a gain are passed over. With [`Rules::small_gains_last`], so are those with a
    /// negligible gain while the others can lift the signal. An unknown gain does not count as small.
    pub(crate) fn of(
        signal: Signal,
        ranked: &'a [RankedPod],
        shares: &Shares,
        rules: &Rules,
    ) -> Self {
        let mut pods: Vec<&RankedPod> = ranked.iter().filter(|pod| pod.spared.is_none()).collect();
        // A share of waiting time says nothing of how much a pod would give back.
        if signal.is_pressure() {
            return Self { pods, small: 0 };
        }
        let missing = i128::from(shares.missing().value());
        let is_small = |pod: &&RankedPod| {
            let gain = pod.gain.filter(|_| !pod.at_least && !pod.partly_unknown);
            gain.is_some_and(|gain| i128::from(gain.value()) * i128::from(LEAST_PART) < missing)
        };
        let gains = |pod: &&RankedPod| {
            let gain = pod.gain;
            pod.at_least || pod.partly_unknown || gain.is_none_or(|gain| gain.is_positive())
        };
        // Where no pod gains anything the list stays whole: the decision then names all of them.
        if (rules.small_gains_last || rules.requires_relief) && pods.iter().any(gains) {
            pods.retain(gains);
        }
        let large = pods.iter().filter(|pod| !is_small(pod)).copied();
        // Many small pods may be needed together if the large ones do not suffice.
        if !rules.small_gains_last || sum_of_gains(large) < shares.missing() {
            return Self { pods, small: 0 };
        }
        let all = pods.len();
        pods.retain(|pod| !is_small(pod));
        let small = all - pods.len();
        Self { pods, small }
    }

    /// The first of them; if `alone` is set, the first whose end frees all that is missing, where there is one.
    pub(crate) fn first(&self, shares: &Shares, alone: bool) -> Option<&'a RankedPod> {
        let lifts = |pod: &&&RankedPod| {
            let frees = pod.gain;
            frees.is_some_and(|frees| frees >= shares.missing())
        };
        let alone = self.pods.iter().find(lifts).filter(|_| alone);
        // Without a pod that suffices alone the order of the ranking decides, as always.
        alone.or_else(|| self.pods.first()).copied()
    }
}

/// The terminating pods that are waited for; their usage will be freed.
pub(crate) fn on_the_way<'a>(
    ranked: &'a [RankedPod],
    is_credited: impl Fn(&RankedPod) -> bool + 'a,
) -> impl Iterator<Item = (&'a RankedPod, Quantity)> {
    ranked
        .iter()
        .filter(move |pod| pod.spared == Some(Spared::Dying) && is_credited(pod))
        .map(move |pod| (pod, pod.gain.unwrap_or_default()))
}
