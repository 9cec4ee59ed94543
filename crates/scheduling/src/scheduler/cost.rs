//! The cost of attempts. A pod whose attempt exceeds the usual cost is put off until its namespace has a turn. So a namespace with
//! many costly pods delays the others by one attempt at a time.

use crate::queue::USUAL_COST;
use evictd_placement::{Cluster, Ended, Pod, estimated_cost};

/// The cost of a costly attempt beside its estimated cost. Its results are cached, and the next attempt continues with them.
const MAX_COST: u64 = 8_000_000;

/// The cost of the current attempt, and of all attempts.
#[derive(Debug, Default)]
pub(super) struct CostMeter {
    total: u64,
    /// Whether the pod of the current attempt has a turn of the costly ones.
    pub(super) has_turn: bool,
}

impl CostMeter {
    pub(super) fn begin(&mut self, cluster: &mut Cluster, has_turn: bool) {
        self.has_turn = has_turn;
        let limit = if has_turn { MAX_COST } else { USUAL_COST };
        cluster.interrupt_mut().begin(limit, has_turn);
    }

    /// Begins a batch session, in which searches for devices of each namespace have a share.
    pub(super) fn begin_session(cluster: &mut Cluster) {
        cluster.interrupt_mut().begin_session();
    }

    /// Ends the attempt or session. Returns its cost, and whether it was interrupted.
    pub(super) fn end(&mut self, cluster: &mut Cluster) -> Ended {
        let ended = cluster.interrupt_mut().end();
        self.total = self.total.saturating_add(ended.cost);
        ended
    }

    /// Counts the estimated cost of a pod.
    pub(super) fn charge(cluster: &Cluster, pod: &Pod) {
        let cost = estimated_cost(cluster, pod);
        cluster.interrupt().charge_work(cost);
    }

    pub(super) const fn take_total(&mut self) -> u64 {
        std::mem::replace(&mut self.total, 0)
    }
}
