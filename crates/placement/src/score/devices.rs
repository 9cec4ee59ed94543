//! `DynamicResources`: a node is the better the earlier in their lists the alternatives are that claims get there.

use crate::cluster::{Cluster, Seen};
use crate::filter::{Here, devices};
use crate::plugin::{Score, normalize_by_highest};
use crate::pod::Pod;
use evictd_devices::Demand;

/// For a pod without claims.
struct Same;

impl Score for Same {
    fn is_local(&self) -> bool {
        true
    }

    fn is_normal(&self) -> bool {
        true
    }

    fn raw(&self, _here: Here<'_>) -> i64 {
        0
    }
}

/// What claims without devices get, and what those with some have got, which is the same everywhere.
struct Alternatives {
    demand: Demand,
    allocated: i64,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Box<dyn Score> {
    if cluster.template(pod).device_claims.is_empty() {
        return Box::new(Same);
    }
    match devices::demand(cluster, pod) {
        Ok(demand) => Box::new(Alternatives {
            allocated: devices::preference_of_allocated(cluster, pod),
            demand,
        }),
        // Then no node was looked at.
        Err(_) => Box::new(Same),
    }
}

impl Score for Alternatives {
    fn raw(&self, here: Here<'_>) -> i64 {
        let node = Seen {
            symbols: here.cluster.symbols(),
            node: here.node,
        };
        let allocations = self.demand.allocate(here.cluster.devices(), &node);
        let found = allocations.map(|own| self.demand.preference(&own));
        self.allocated + found.unwrap_or(0)
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_by_highest(scores, false);
    }
}
