//! `DynamicResources`: a node scores higher if its devices satisfy earlier alternatives of the claims.

use crate::cluster::{Cluster, NodeView};
use crate::filter::{Here, devices};
use crate::plugin::{Score, normalize_by_highest};
use crate::pod::Pod;
use evictd_devices::Demand;

/// The score of a pod without claims.
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

/// Scores unallocated claims per node. The score of allocated claims is the same on all nodes.
struct Alternatives {
    demand: Demand,
    allocated: i64,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Box<dyn Score> {
    if cluster.template(pod).device_claims.is_empty() {
        return Box::new(Same);
    }
    match devices::demand(cluster, pod) {
        // Without anything to allocate kube-scheduler does not score, and without alternatives all nodes score 0.
        Ok(demand) if demand.is_empty() || !devices::has_alternatives(cluster, pod) => {
            Box::new(Same)
        }
        Ok(demand) => Box::new(Alternatives {
            allocated: devices::preference_of_allocated(cluster, pod),
            demand,
        }),
        // PreFilter has rejected the pod, so no node is scored.
        Err(_) => Box::new(Same),
    }
}

impl Score for Alternatives {
    fn raw(&self, here: Here<'_>) -> i64 {
        let node = NodeView {
            symbols: here.cluster.symbols(),
            node: here.node,
        };
        let allocations = self.demand.allocate(here.cluster.devices(), &node);
        let found = allocations.map(|allocations| self.demand.preference(&allocations));
        self.allocated + found.unwrap_or(0)
    }

    fn normalize(&self, scores: &mut [i64]) {
        normalize_by_highest(scores, false);
    }
}
