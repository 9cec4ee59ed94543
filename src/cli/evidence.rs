//! Thresholds and ranked pods in words and tables for people.

use super::table::{amount, table};
use evictd_eviction::{
    DecidingKey, Eviction, Observation, RankedPod, Signal, StarvedResource, Threshold,
    ThresholdValue, decision::Excess, duration, simulation::StepOutcome,
};
use evictd_pod::Quantity;

/// `memory.available < 500Mi`, with its grace period and minimum reclaim where it has them.
pub(super) fn threshold(threshold: &Threshold) -> String {
    let grace = if threshold.is_hard() {
        String::new()
    } else {
        let grace = duration::to_string(threshold.grace_period);
        format!(", soft: acts after {grace}")
    };
    let min_reclaim = threshold.min_reclaim.map_or(String::new(), |more| {
        format!(", then on until {} more is available", value(more))
    });
    format!(
        "{} < {}{grace}{min_reclaim}",
        threshold.signal,
        value(threshold.value)
    )
}

/// `memory.available 400Mi < 500Mi`, as it was observed.
pub(super) fn crossing(threshold: &Threshold, observed: Option<&Observation>) -> String {
    let signal = threshold.signal;
    let available = amount(Some(signal), observed.map(|observed| observed.available));
    format!("{signal} {available} < {}", limit(threshold, observed))
}

/// The threshold's value; `10% (2.4Gi)` where it is a part of the capacity.
pub(super) fn limit(threshold: &Threshold, observed: Option<&Observation>) -> String {
    let written = value(threshold.value);
    match (threshold.value, observed) {
        (ThresholdValue::Percentage(_), Some(observed)) => {
            let quantity = threshold.value.at(observed.capacity).value();
            let quantity = amount(Some(threshold.signal), Some(quantity));
            format!("{written} ({quantity})")
        }
        _ => written,
    }
}

/// `500Mi`, or `5%` where it is a part of the capacity.
pub(super) fn value(value: ThresholdValue) -> String {
    match value {
        ThresholdValue::Quantity(quantity) => quantity.to_string(),
        ThresholdValue::Percentage(fraction) => {
            let percent = format!("{:.4}", f64::from(fraction) * 100.0);
            format!("{}%", percent.trim_end_matches('0').trim_end_matches('.'))
        }
    }
}

/// How much time the pod has to end.
pub(super) fn grace(eviction: &Eviction) -> String {
    match eviction.grace_period_seconds {
        ..=0 => "at once".to_owned(),
        seconds => format!("with {seconds} s to end"),
    }
}

/// What would be freed before any pod goes.
pub(super) fn reclaim(step: &StepOutcome) -> Option<&'static str> {
    match (step.container_gc, step.image_gc) {
        (true, true) => Some("dead containers, then unused images, are deleted first"),
        (true, false) => Some("dead containers are deleted first"),
        (false, true) => Some("unused images are deleted first"),
        (false, false) => None,
    }
}

/// The first `most` pods in ranked order with every key that put them there, and how many there are besides.
pub(super) fn ranking(ranked: &[RankedPod], signal: Signal, most: usize) -> String {
    let mut headings = vec![
        ">#",
        "POD",
        "OVER REQUEST",
        ">PRIORITY",
        ">OVERAGE",
        ">USAGE",
        ">REQUEST",
        "QOS",
        "BEFORE THE NEXT BECAUSE",
    ];
    let resource = signal.resource();
    if resource == StarvedResource::Pids {
        headings[2] = "OVER SHARE";
        headings[6] = ">SHARE";
    }
    let rows = (0..ranked.len())
        .take(most)
        .map(|index| row(ranked, index, signal));
    let table = table(&headings, rows);
    match ranked.len().saturating_sub(most) {
        0 => table,
        more => format!("{table}\n... and {more} more, all of them in -o json"),
    }
}

fn row(ranked: &[RankedPod], index: usize, signal: Signal) -> Vec<String> {
    let pod = &ranked[index];
    let shown = |quantity: Option<Quantity>| {
        amount(Some(signal), quantity.map(|quantity| quantity.value()))
    };
    let over = match pod.excess {
        Excess::Exceeds => "yes",
        Excess::Within => "no",
        Excess::UnknownFirst | Excess::UnknownLast => "?",
    };
    let reason = match (pod.spared, ranked.get(index + 1)) {
        (Some(spared), _) => format!("never goes: {spared}"),
        (None, Some(next)) => reason(pod, next, signal.resource()).to_owned(),
        (None, None) => "last".to_owned(),
    };
    vec![
        (index + 1).to_string(),
        pod.pod.clone(),
        over.to_owned(),
        pod.priority.to_string(),
        shown(pod.overage),
        shown(pod.usage),
        shown(Some(pod.request)),
        pod.qos.as_str().to_owned(),
        reason,
    ]
}

/// The key that decided, in a few words.
fn reason(pod: &RankedPod, next: &RankedPod, resource: StarvedResource) -> &'static str {
    use evictd_eviction::decision::Preference::Prefer;
    match pod.deciding_key(next, resource) {
        DecidingKey::Excess => match pod.excess {
            Excess::UnknownFirst => "no figures: the kubelet puts it first",
            Excess::Exceeds if resource == StarvedResource::Pids => "over an even share",
            Excess::Exceeds => "over its request",
            Excess::Within | Excess::UnknownLast => "the next has no figures",
        },
        DecidingKey::Preference if pod.preference == Prefer => "asked to go early",
        DecidingKey::Preference => "the next asked to go late",
        DecidingKey::Returns => "the next would come straight back",
        DecidingKey::Priority => "lower priority",
        DecidingKey::Terminating => "ending anyway",
        DecidingKey::Overage => match (resource, pod.excess) {
            (StarvedResource::Pids, _) => "more processes",
            (StarvedResource::Inodes, _) => "more inodes over its request",
            (_, Excess::Within) => "less of its request left",
            _ => "more over its request",
        },
        DecidingKey::Order => "equal; first in the list",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentage_reads_as_it_was_written() {
        for (fraction, words) in [(0.05, "5%"), (0.040_999_997, "4.1%"), (1e-4, "0.01%")] {
            assert_eq!(value(ThresholdValue::Percentage(fraction)), words);
        }
    }
}
