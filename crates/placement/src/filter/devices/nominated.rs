//! Pods that are nominated to a node for devices of their victims. These devices are kept for them.

use super::freed::Freed;
use super::{Devices, node_view};
use crate::cluster::Cluster;
use crate::filter::Here;
use crate::pod::Pod;
use crate::symbol::Symbol;
use evictd_devices::Without;
use evictd_pod::wire::Allocation;

/// The nominated pods that a filter counts.
#[derive(Default)]
pub(super) struct NominatedPods {
    /// Whether there may be any.
    is_awaited: bool,
    /// Those of the entered node.
    pods: Vec<Devices>,
    /// The devices that terminating pods of the node give back, and those of pods that have ended.
    freed: Option<Freed>,
}

impl NominatedPods {
    pub(super) fn new(cluster: &Cluster) -> Self {
        let mut nominated = cluster.nominated().iter();
        Self {
            is_awaited: cluster.keeps_freed_devices()
                && nominated.any(|pod| super::has_claims(cluster, pod)),
            ..Self::default()
        }
    }

    pub(super) const fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Leaves the node.
    pub(super) fn reset(&mut self, cluster: &Cluster) {
        self.pods.clear();
        if let Some(freed) = &mut self.freed {
            freed.reset(cluster);
        }
    }

    /// Counts a nominated pod for a pod that is to be placed.
    pub(super) fn add(&mut self, here: Here<'_>, pod: &Pod, nominated: &Pod) {
        if !self.is_awaited {
            return;
        }
        let devices = Devices::of(here.cluster, nominated);
        let Some(devices) = devices.filter(Devices::needs_some) else {
            return;
        };
        self.pods.push(devices);
        let cluster = here.cluster;
        let freed = self.freed.get_or_insert_with(|| Freed::new(cluster, pod));
        let terminating = here.node.pods.iter().filter(|pod| pod.terminating);
        for victim in terminating {
            freed.change(cluster, victim, -1);
        }
    }

    /// Counts no nominated pod.
    pub(super) fn clear(&mut self) {
        self.pods.clear();
    }

    /// A pod of the node is removed in a trial, or put back.
    pub(super) fn change(&mut self, here: Here<'_>, pod: &Pod, changed: &Pod, times: i64) {
        if self.is_awaited && !changed.terminating {
            let new = || Freed::new(here.cluster, pod);
            let freed = self.freed.get_or_insert_with(new);
            freed.change(here.cluster, changed, times);
        }
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.pods.is_empty()
    }

    /// Whether these allocations leave the nominated pods what they would find without them. `left` counts the cost of a
    /// namespace and returns what is left to it.
    pub(super) fn have_room_beside(
        &self,
        here: Here<'_>,
        allocations: &[Allocation],
        left: &mut dyn FnMut(Symbol, u64) -> u64,
    ) -> bool {
        let Some(freed) = &self.freed else {
            return true;
        };
        let alone = self.fitting(here, freed.without().copied(), left);
        if alone.iter().all(|fits| !fits) {
            return true;
        }
        let mut beside = freed.without().copied();
        for allocation in allocations {
            beside.take(here.cluster.devices(), allocation);
        }
        let beside = self.fitting(here, beside, left);
        let mut both = alone.iter().zip(&beside);
        both.all(|(alone, beside)| *beside || !alone)
    }

    /// For each nominated pod whether it finds its devices beside those before it.
    fn fitting(
        &self,
        here: Here<'_>,
        mut without: Without,
        left: &mut dyn FnMut(Symbol, u64) -> u64,
    ) -> Vec<bool> {
        let known = here.cluster.devices();
        let pods = self.pods.iter().map(|pod| {
            // Each search is paid by the namespace whose claims it is for.
            let left_now = left(pod.namespace, 0);
            let (special, _) = pod.on(here);
            let demand = special.as_deref().unwrap_or(&pod.demand);
            let (found, cost) =
                demand.allocate_without(known, &without, &node_view(here), left_now);
            left(pod.namespace, cost);
            let found = found.unwrap_or_default();
            for allocation in &found {
                without.take(known, allocation);
            }
            demand.is_empty() || !found.is_empty()
        });
        pods.collect()
    }
}
