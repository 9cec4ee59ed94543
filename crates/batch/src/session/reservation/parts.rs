//! The part of the cluster, and of the time, of a queue and of a namespace in it. Reserved nodes stand idle, so a
//! tenant gets no more of them, in nodes and time, than its part.

use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::QueueId;
use evictd_batch_objects::PodGroupPhase;
use hashbrown::{HashMap, HashSet};

/// The parts of queues with jobs, each above 0 and at most 1.
#[derive(Debug, Default)]
pub(crate) struct Parts {
    by_queue: HashMap<QueueId, f64>,
    /// How many namespaces have jobs in a queue: they share its part evenly.
    namespaces: HashMap<QueueId, usize>,
}

impl Parts {
    /// `deserved` is the part of the cluster that a queue deserves by a plugin. A queue's part is not below its weight,
    /// because the deserved share may depend on current requests.
    pub(crate) fn of(snapshot: &Snapshot, deserved: impl Fn(QueueId) -> Option<f64>) -> Self {
        let mut tenants: HashMap<QueueId, HashSet<&str>> = HashMap::new();
        for (_, job) in snapshot.live_jobs() {
            if job.phase != PodGroupPhase::Completed {
                tenants
                    .entry(job.queue)
                    .or_default()
                    .insert(job.namespace());
            }
        }
        let weight = |queue: QueueId| snapshot.queues[queue].weight.max(0.0);
        let sum: f64 = tenants.keys().map(|queue| weight(*queue)).sum();
        let part = |queue: QueueId| {
            let by_weight = if sum > 0.0 { weight(queue) / sum } else { 1.0 };
            // A queue that waits deserves little by its requests, although it pays for its weight.
            by_weight.max(deserved(queue).unwrap_or(0.0)).min(1.0)
        };
        Self {
            by_queue: tenants.keys().map(|queue| (*queue, part(*queue))).collect(),
            namespaces: tenants
                .iter()
                .map(|(queue, namespaces)| (*queue, namespaces.len()))
                .collect(),
        }
    }

    pub(crate) fn of_queue(&self, queue: QueueId) -> f64 {
        self.by_queue.get(&queue).copied().unwrap_or(1.0)
    }

    pub(crate) fn of_namespace(&self, queue: QueueId) -> f64 {
        let count = self.namespaces.get(&queue).copied().unwrap_or(1).max(1);
        #[expect(
            clippy::cast_precision_loss,
            reason = "there are not so many namespaces"
        )]
        let count = count as f64;
        self.of_queue(queue) / count
    }
}
