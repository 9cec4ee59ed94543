//! Follows how near the node comes to its thresholds, and which pods held most then.

use super::Agent;
use evictd_kernel::signals::Sample;
use evictd_pod::Quantity;
use evictd_signals::{
    ConditionMap, Signal,
    near_misses::{Level, PodUse},
};
use jiff::{SignedDuration, Timestamp};
use std::{cmp::Reverse, sync::Arc, time::Duration};

/// After everything else of a cycle, because it may read the usage of every pod: once when a threshold is near, and seldom
/// again while it gets nearer.
pub(super) fn note(agent: &mut Agent, now: Timestamp, sample: &Sample, sleep: Duration) {
    let housekeeper = &agent.housekeeper;
    let raised: ConditionMap<bool> = housekeeper.conditions().map(|one| (one, true)).collect();
    let levels = housekeeper.thresholds().map(|threshold| Level {
        threshold,
        observed: sample.observations.of(threshold.signal, threshold.value),
        acts: housekeeper.thresholds_met().any(|met| met == threshold),
    });
    let sleep = SignedDuration::try_from(sleep).unwrap_or(SignedDuration::MAX);
    let log = &mut agent.ports.near_misses;
    let has_ended = log.misses().observe(now, sleep, raised, levels);
    log.save(now, has_ended);
    let wanted = log.misses().wants_usage(now);
    // While a pod is leaving, the CPU is left to it.
    let is_calm = !agent.housekeeper.departures().is_any_leaving();
    if let Some(signal) = wanted.filter(|_| is_calm) {
        note_usage(agent, now, signal);
    }
}

fn note_usage(agent: &mut Agent, now: Timestamp, signal: Signal) {
    let set = Arc::clone(agent.active.set());
    let every = 0..set.pods.len();
    let usage = agent.ports.usage.read_these(now, &set, every);
    let ranked = agent.housekeeper.rank(now, signal, &set.pods, &usage);
    let used = ranked.iter().filter_map(|row| {
        let usage = row.usage.filter(Quantity::is_positive)?;
        let pod = row.pod.to_string();
        Some(PodUse { pod, usage })
    });
    let mut used: Vec<PodUse> = used.collect();
    used.sort_by_key(|one| Reverse(one.usage));
    let misses = agent.ports.near_misses.misses();
    misses.note_usage(now, signal, &used);
}
