//! Plugin proportion: the cluster is divided among queues by weight, and unwanted parts are redistributed (S6-129 to
//! S6-134).

use super::redistribution::redistribute;
use super::shares::Shares;
use crate::compat::{Compat, Difference};
use crate::session::resource::{Resource, Unnamed};
use crate::session::snapshot::Snapshot;
use std::cell::OnceCell;

#[derive(Debug, Clone)]
pub(crate) struct Proportion {
    pub(crate) shares: Shares,
    /// The amounts to divide.
    total: Resource,
    /// By queue, computed on first use: the deserved shares if this queue wanted the whole cluster.
    if_wanted: Vec<OnceCell<Vec<Resource>>>,
}

impl Proportion {
    pub(crate) fn open(snapshot: &Snapshot, compat: Compat) -> Self {
        let mut shares = Shares::open(snapshot, compat);
        let total = if compat.has(Difference::ExcludeForeignPods) {
            left_by_others(snapshot)
        } else {
            snapshot.total.clone()
        };
        shares.divide(&total);
        if compat.has(Difference::LendUnusableShare) {
            redistribute(&mut shares, snapshot, &total);
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
    pub(crate) fn if_wanted(&self, queue: usize) -> &[Resource] {
        self.if_wanted[queue].get_or_init(|| {
            let mut shares = self.shares.clone();
            if let Some(share) = &mut shares.queues[queue] {
                share.reduced = None;
                share.request.raise_to(&self.total);
            }
            shares.divide(&self.total);
            let queues = shares.queues.into_iter();
            queues
                .map(|share| share.map(|share| share.deserved).unwrap_or_default())
                .collect()
        })
    }

    /// Whether a queue has all that it deserves.
    pub(crate) fn is_overused(&self, queue: usize) -> bool {
        let share = self.shares.of(queue);
        share.is_some_and(|share| share.deserved.within(&share.allocated, Unnamed::Zero))
    }

    /// Whether a queue deserves one request more, in the dimensions that it names.
    pub(crate) fn may_have(&self, queue: usize, request: &Resource) -> bool {
        let share = self.shares.of(queue);
        share.is_none_or(|share| share.with(request).within_for(&share.deserved, request))
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
