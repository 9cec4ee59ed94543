//! Gauges of the queue, the cache and the bindings.

use crate::run::metrics::Metrics;
use crate::run::writer::Writer;
use evictd_scheduling::{Pool, Scheduler};
use std::collections::BTreeMap;

/// Brings the gauges up to date. The engine does this every second.
pub(super) fn update(metrics: &Metrics, scheduler: &mut Scheduler, writer: &Writer) {
    let queue = scheduler.queue();
    let pools = [
        ("active", queue.count(Pool::Active)),
        (
            "backoff",
            queue.count(Pool::Backoff) + queue.count(Pool::ErrorBackoff),
        ),
        ("unschedulable", queue.count(Pool::Unschedulable)),
        ("gated", queue.count(Pool::Gated)),
    ];
    for (plugin, profile, count) in queue.rejected_counts() {
        let gauge = &metrics.unschedulable_pods;
        gauge.set([plugin, profile], number(count));
    }
    for (name, count) in pools {
        metrics.pending_pods.set([name], number(count));
    }
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
        let queue = match pool {
            Pool::Active => "active",
            Pool::Backoff | Pool::ErrorBackoff => "backoff",
            Pool::Unschedulable => "unschedulable",
            Pool::Gated => "gated",
        };
        metrics.queue_incoming_pods.add([queue, event], count);
    }
}

/// Counts of objects in memory fit.
fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}
