//! Gauges, the list of pending pods, and suggestions for one of them.

use super::Engine;
use crate::run::view::{Help, Pending};
use evictd_scheduling::Pool;
use evictd_what_if::Suggestion;

/// The most nodes with suggestions for a pod.
const HELPED: usize = 5;

impl Engine {
    /// Answers requests for the pending pods.
    pub(super) fn answer(&mut self) {
        // Equal requests that arrive together are answered from one pass over the queue.
        let mut all = None;
        for asked in self.view.take_asked() {
            let times = ((self.now)(), self.steady.now());
            let queue = self.scheduler.queue();
            let pending = match &asked.pod {
                None => Pending::clone(all.get_or_insert_with(|| Pending::of(queue, times, None))),
                Some(pod) => {
                    let waiting = Pending::of(queue, times, Some(pod));
                    let help = self.help(&pod.0, &pod.1);
                    Pending { help, ..waiting }
                }
            };
            // The client may have left.
            let _ = asked.reply.send(pending);
        }
    }

    /// Suggestions for a pod; `None` if it does not wait.
    fn help(&mut self, namespace: &str, name: &str) -> Option<Help> {
        let words = |way: Vec<Suggestion>| way.iter().map(ToString::to_string).collect();
        self.deadline.begin();
        let help = self.scheduler.suggest(namespace, name, HELPED)?;
        let remedies = help.nodes.into_iter().map(|remedies| {
            let ways = remedies.alternatives.into_iter().map(words);
            (remedies.node, ways.collect())
        });
        Some(Help {
            feasible: help.feasible,
            remedies: remedies.collect(),
        })
    }

    /// Brings the gauges up to date; every second.
    pub(super) fn measure(&mut self) {
        let dropped = self.events.take_dropped();
        self.metrics.events_dropped.add([], dropped);
        let queue = self.scheduler.queue();
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
            let gauge = &self.metrics.unschedulable_pods;
            gauge.set([plugin, profile], i64::try_from(count).unwrap_or(i64::MAX));
        }
        let sizes = self.scheduler.cluster().sizes();
        let cache = [
            ("nodes", sizes.nodes),
            ("pods", sizes.pods),
            ("assumed_pods", self.scheduler.bindings().count()),
        ];
        // Counts of objects in memory fit.
        let number = |count: usize| i64::try_from(count).unwrap_or(i64::MAX);
        for (name, count) in pools {
            self.metrics.pending_pods.set([name], number(count));
        }
        for (name, count) in cache {
            self.metrics.cache_size.set([name], number(count));
        }
        self.metrics
            .goroutines
            .set(["binding"], number(self.writer.bindings_in_flight()));
        for (pool, label, count) in self.scheduler.take_incoming_pods() {
            let queue = match pool {
                Pool::Active => "active",
                Pool::Backoff | Pool::ErrorBackoff => "backoff",
                Pool::Unschedulable => "unschedulable",
                Pool::Gated => "gated",
            };
            self.metrics.queue_incoming_pods.add([queue, label], count);
        }
    }
}
