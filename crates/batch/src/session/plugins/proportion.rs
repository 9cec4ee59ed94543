//! Plugin proportion: the cluster is divided among queues by weight, and unwanted parts are redistributed (S6-129 to
//! S6-134).

use super::redistribution::redistribute;
use super::usable_nodes::UsableNodes;
use super::{Plugin, QueueShare, Shares, Tiers};
use crate::conf::Conf;
use crate::session::snapshot::Snapshot;
use crate::session::snapshot::ids::{QueueId, TaskId};
use crate::session::snapshot::resource::{Resource, Unnamed};
use evictd_batch_objects::{Compat, Difference};
use evictd_placement::Cluster;
use hashbrown::HashMap;
use std::cell::OnceCell;
use std::cmp::Ordering;

#[derive(Debug, Clone)]
pub(super) struct Proportion {
    shares: Shares,
    /// The amounts to divide.
    total: Resource,
    /// By queue, computed on first use: the deserved shares if this queue wanted the whole cluster.
    if_wanted: Vec<OnceCell<Vec<Resource>>>,
}

impl Proportion {
    pub(super) fn open(
        snapshot: &Snapshot,
        cluster: &Cluster,
        (conf, compat): (&Conf, Compat),
    ) -> Self {
        let mut shares = Shares::open(snapshot, compat);
        let total = if compat.has(Difference::ExcludeForeignPods) {
            left_by_others(snapshot)
        } else {
            snapshot.total.clone()
        };
        shares.divide(&total);
        if compat.has(Difference::LendUnusableShare) {
            let nodes = UsableNodes::new(snapshot, cluster, conf);
            redistribute(&mut shares, nodes, snapshot, &total);
        }
        let if_wanted = vec![OnceCell::new(); shares.queues.len()];
        Self {
            shares,
            total,
            if_wanted,
        }
    }

    /// The deserved shares if this queue wanted the whole cluster. Its current share ignores pods that do not exist
    /// yet.
    fn if_wanted(&self, queue: QueueId) -> &[Resource] {
        self.if_wanted[queue].get_or_init(|| {
            let mut shares = self.shares.clone();
            // Reclaim goes by weight alone. The owner of a lent part may need it in the next session.
            for share in shares.queues.iter_mut().flatten() {
                share.reduced = None;
            }
            if let Some(share) = &mut shares.queues[queue] {
                // A demand for everything, so that only weights and capabilities limit its share.
                share.request.raise_to(&self.total);
            }
            shares.divide(&self.total);
            let queues = shares.queues.into_iter();
            queues
                .map(|share| share.map(|share| share.deserved).unwrap_or_default())
                .collect()
        })
    }
}

impl Plugin for Proportion {
    fn queue_order(&self, snapshot: &Snapshot, one: QueueId, other: QueueId) -> Ordering {
        self.shares.compare(snapshot, one, other)
    }

    /// The tasks of queues that hold more than they deserve (S6-133).
    fn reclaimable(
        &self,
        tiers: Tiers<'_>,
        _: TaskId,
        candidates: &[TaskId],
    ) -> Option<Vec<TaskId>> {
        let snapshot = tiers.snapshot;
        let mut left: HashMap<QueueId, Resource> = HashMap::new();
        let victims = candidates.iter().copied().filter(|candidate| {
            let task = &snapshot.tasks[*candidate];
            let queue = snapshot.jobs[task.job].queue;
            let Some(share) = self.shares.of(queue) else {
                return false;
            };
            let left = left.entry(queue).or_insert_with(|| share.allocated.clone());
            // Checked before the task is taken: the last victim may bring the queue below its share.
            let above = !left.within(&share.deserved, Unnamed::Zero);
            if above {
                left.sub(&task.request);
            }
            above
        });
        Some(victims.collect())
    }

    /// A queue evicts no pods for a lent share. Its owner may need it in the next session, and would evict the queue's pods.
    fn preemptive(&self, snapshot: &Snapshot, queue: QueueId, request: &Resource) -> bool {
        let is_owed = |share: &QueueShare| {
            // The share without the lent part may be smaller than by weight, but never larger.
            let mut owed = share.deserved.clone();
            owed.sub(&share.lent);
            share.with(request).within_for(&owed, request)
        };
        self.shares.of(queue).is_none_or(is_owed) && self.allocatable(snapshot, queue, request)
    }

    fn overused(&self, queue: QueueId) -> bool {
        let share = self.shares.of(queue);
        share.is_some_and(|share| share.deserved.within(&share.allocated, Unnamed::Zero))
    }

    fn queue_shares(&self) -> Option<&Shares> {
        Some(&self.shares)
    }

    fn queue_shares_mut(&mut self) -> Option<&mut Shares> {
        Some(&mut self.shares)
    }

    fn deserved_if_wanted(&self, queue: QueueId, wanting: QueueId) -> Option<&Resource> {
        Some(&self.if_wanted(wanting)[queue.index()])
    }

    /// A queue gets no more than it deserves.
    fn limit<'s>(&self, share: &'s QueueShare) -> &'s Resource {
        &share.deserved
    }
}

/// The amounts that jobs hold, and the idle and releasing amounts: all but the room of pods without a job.
fn left_by_others(snapshot: &Snapshot) -> Resource {
    let mut left = Resource::default();
    for node in &snapshot.nodes {
        for (dim, idle) in node.idle.iter() {
            // A node on which there is too much takes nothing from others.
            let free = (idle + node.releasing.get(dim)).max(0.0);
            left.add_to(dim, free);
        }
    }
    for (_, job) in snapshot.live_jobs() {
        left.add(&job.allocated);
    }
    left
}
