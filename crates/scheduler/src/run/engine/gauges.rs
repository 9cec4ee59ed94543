//! Gauges of the queue, the cache and the bindings.

use crate::run::metrics::Metrics;
use crate::run::writer::Writer;
use evictd_pod::compatibility::Release;
use evictd_scheduling::{Pool, Scheduler, SchedulingQueue};
use std::collections::BTreeMap;

/// Brings the gauges up to date. The engine does this every second.
pub(super) fn update(metrics: &Metrics, scheduler: &mut Scheduler, writer: &Writer) {
    let queue = scheduler.queue();
    let gated = queue.count(Pool::Gated);
    // Before 1.37 the pods of unknown groups are gated as others are (S7-021).
    let has_incomplete = scheduler
        .cluster()
        .compatibility()
        .is_at_least(Release::V1_37);
    let incomplete = if has_incomplete {
        queue.incomplete()
    } else {
        0
    };
    let pools = [
        ("active", queue.count(Pool::Active)),
        (
            "backoff",
            queue.count(Pool::Backoff) + queue.count(Pool::ErrorBackoff),
        ),
        ("unschedulable", queue.count(Pool::Unschedulable)),
        ("gated", gated.saturating_sub(incomplete)),
        ("incomplete", incomplete),
    ];
    for (plugin, profile, count) in queue.rejected_counts() {
        let gauge = &metrics.unschedulable_pods;
        gauge.set([plugin, profile], number(count));
    }
    for (name, count) in pools {
        metrics.pending_pods.set([name], number(count));
    }
    entities(metrics, queue);
    let mut in_flight: BTreeMap<&str, usize> = BTreeMap::new();
    for event in queue.in_flight_events() {
        *in_flight.entry(event).or_default() += 1;
    }
    // Those that have ended are zero.
    metrics.inflight_events.clear();
    for (event, count) in in_flight {
        metrics.inflight_events.set([event], number(count));
    }
    let sizes = scheduler.cluster().sizes();
    let cache = [
        ("nodes", sizes.nodes),
        ("pods", sizes.pods),
        ("assumed_pods", scheduler.bindings().count()),
    ];
    for (name, count) in cache {
        metrics.cache_size.set([name], number(count));
    }
    let bindings = number(writer.bindings_in_flight());
    metrics.goroutines.set(["binding"], bindings);
    writer.update_work_queues();
    for (pool, event, count) in scheduler.take_incoming_pods() {
        // Here, other than in the lengths of the queues, kube-scheduler counts gated pods as unschedulable.
        let queue = match pool {
            Pool::Gated => label(Pool::Unschedulable),
            pool => label(pool),
        };
        metrics.queue_incoming_pods.add([queue, event], count);
    }
    for (pool, event, kind, count) in scheduler.take_incoming_entities() {
        let incoming = &metrics.groups.queue_incoming_entities;
        incoming.add([label(pool), event, kind], count);
    }
}

/// The pods without a group, and the groups, in each queue.
fn entities(metrics: &Metrics, queue: &SchedulingQueue) {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for (pool, kind, count) in queue.entities() {
        *counts.entry((label(pool), kind)).or_default() += count;
    }
    for ((pool, kind), count) in counts {
        let gauge = &metrics.groups.queued_entities;
        gauge.set([pool, kind], number(count));
    }
}

/// The queue of a pool.
const fn label(pool: Pool) -> &'static str {
    match pool {
        Pool::Active => "active",
        Pool::Backoff | Pool::ErrorBackoff => "backoff",
        Pool::Unschedulable => "unschedulable",
        Pool::Gated => "gated",
    }
}

/// Counts of objects in memory fit.
fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
