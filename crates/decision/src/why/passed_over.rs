//! Names the pod that a decision passes over although it is the one that an operator looks for.

use crate::{PassedOver, RankedPod, Spared};
use evictd_pod::{Pod, Quantity};
use evictd_signals::Signal;

impl PassedOver {
    /// A pod that exceeds a limit of its own and is never evicted; `message` says which limit.
    pub fn over_limit(pod: &Pod, used: Quantity, spared: Spared, message: &str) -> Self {
        let message = message.trim_end().trim_end_matches('.');
        Self {
            pod: pod.full_name(),
            uid: Some(pod.uid.clone()),
            holds: Some(used),
            because: spared.to_string(),
            sentence: format!(
                "{pod} exceeds a limit of its own and is never evicted ({spared}): {message}"
            ),
        }
    }

    /// The pod that holds more than every other pod, if the rules or the configuration keep it from being evicted.
    pub fn largest(
        signal: Signal,
        ranked: &[RankedPod],
        victim: Option<&RankedPod>,
    ) -> Option<Self> {
        let held = |pod: &RankedPod| pod.gain.unwrap_or_default();
        let first = ranked.iter().max_by_key(|pod| held(pod))?;
        let holds = held(first);
        let more = victim.is_none_or(|victim| holds > held(victim));
        let because = first.spared.filter(|spared| spared.lasts())?;
        (more && holds.is_positive()).then(|| Self {
            pod: first.pod.to_string(),
            uid: None,
            holds: Some(holds),
            because: because.to_string(),
            sentence: format!(
                "{} holds {}, more than any other pod, and is never evicted ({because})",
                first.pod,
                signal.resource().amount(holds)
            ),
        })
    }
}
