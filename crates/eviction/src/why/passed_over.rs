//! Names the pod that a decision passes over although it is the one that an operator looks for.

use crate::{
    Signal,
    decision::{PassedOver, RankedPod, Spared},
};
use evictd_pod::{Pod, Quantity};

/// A pod that exceeds a limit of its own and is never evicted; `message` says which limit.
pub(crate) fn over_limit(pod: &Pod, used: Quantity, spared: Spared, message: &str) -> PassedOver {
    let message = message.trim_end().trim_end_matches('.');
    PassedOver {
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
pub(crate) fn largest(
    signal: Signal,
    ranked: &[RankedPod],
    victim: Option<&RankedPod>,
) -> Option<PassedOver> {
    let held = |pod: &RankedPod| pod.gain.unwrap_or_default();
    let first = ranked.iter().max_by_key(|pod| held(pod))?;
    let holds = held(first);
    let more = victim.is_none_or(|victim| holds > held(victim));
    let because = first.spared.filter(|spared| spared.lasts())?;
    (more && holds.is_positive()).then(|| PassedOver {
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
