//! `VolumeBinding`: a node scores higher if its storage has more room for the claims that wait for the pod (S7-220).

use super::resources::on_line;
use crate::cluster::Cluster;
use crate::filter::Here;
use crate::filter::volume_binding::{DelayedClaim, delayed};
use crate::plugin::Score;
use crate::pod::Pod;
use crate::symbol::Symbol;
use evictd_pod::compatibility::Gate;

/// A score from 0 to 10 by the utilization in percent.
type Shape = Box<[(i64, i64)]>;

struct VolumeBinding {
    claims: Box<[DelayedClaim]>,
    shape: Shape,
}

/// Bytes of one storage class.
struct Use {
    class: Symbol,
    requested: i64,
    capacity: i64,
}

/// `None` for a pod without claims that wait for it.
pub(crate) fn new(cluster: &Cluster, pod: &Pod, shape: &[(i64, i64)]) -> Option<Box<dyn Score>> {
    if !cluster.compatibility().is_on(Gate::StorageCapacityScoring) {
        return None;
    }
    let claims = delayed(cluster, pod);
    let shape = shape.into();
    (!claims.is_empty()).then(|| Box::new(VolumeBinding { claims, shape }) as _)
}

impl VolumeBinding {
    /// The volumes that exist and would be bound here.
    fn existing(&self, here: Here<'_>) -> Vec<Use> {
        let (mut uses, mut taken) = (Vec::new(), Vec::new());
        let waiting = self.claims.iter();
        for claim in waiting.filter(|claim| claim.selected_node.is_none()) {
            let Some(volume) = claim.find(here, &taken) else {
                continue;
            };
            taken.push(volume);
            let Some(volume) = here.cluster.storage().volumes.get(&volume) else {
                continue;
            };
            let of = of_class(&mut uses, claim.class);
            of.requested = of.requested.saturating_add(claim.requested);
            of.capacity = of.capacity.saturating_add(volume.capacity);
        }
        uses
    }

    /// The volumes that would be made here, where their room is published.
    fn provisioned(&self, here: Here<'_>) -> Vec<Use> {
        let mut uses = Vec::new();
        for claim in &self.claims {
            let Some(room) = claim.room(here) else {
                continue;
            };
            let of = of_class(&mut uses, claim.class);
            of.requested = of.requested.saturating_add(claim.requested);
            // The volumes of a class share its room.
            of.capacity = room;
        }
        uses
    }
}

fn of_class(uses: &mut Vec<Use>, class: Symbol) -> &mut Use {
    let known = uses.iter().position(|known| known.class == class);
    let index = known.unwrap_or(uses.len());
    if known.is_none() {
        uses.push(Use {
            class,
            requested: 0,
            capacity: 0,
        });
    }
    &mut uses[index]
}

impl Score for VolumeBinding {
    fn is_normal(&self) -> bool {
        true
    }

    fn raw(&self, here: Here<'_>) -> i64 {
        // As in kube-scheduler, volumes to be made count only if no existing one would be bound.
        let mut uses = self.existing(here);
        if uses.is_empty() {
            uses = self.provisioned(here);
        }
        let scores = uses.iter().map(|of| {
            let utilization = if of.requested > of.capacity || of.capacity == 0 {
                100
            } else {
                of.requested.saturating_mul(100) / of.capacity
            };
            on_line(&self.shape, utilization)
        });
        let sum: i64 = scores.sum();
        // The number of classes fits in an `i64`.
        match i64::try_from(uses.len()).unwrap_or(i64::MAX) {
            0 => 0,
            // Rounds half up; scores are never negative.
            classes => (2 * sum + classes) / (2 * classes),
        }
    }
}
