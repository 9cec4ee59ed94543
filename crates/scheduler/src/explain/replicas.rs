//! How many pods like the one in question fit beside each other.

use crate::attempt::Case;
use evictd_pod::wire;
use evictd_scheduling::SchedulingAlgorithm;

/// The search ends here.
pub(super) const MOST: usize = 1000;

/// Places copies of the pod one after the other, as the scheduler would, and removes them again. `None` for a pod with claims of
/// its own, which copies would need, too.
pub(super) fn count(case: &mut Case) -> Option<usize> {
    let Case {
        cluster,
        framework,
        wire,
        ..
    } = case;
    if !wire.spec.resource_claims.is_empty() || wire.spec.volumes.iter().any(has_claim) {
        return None;
    }
    let mut algorithm = SchedulingAlgorithm::default();
    let mut placed = Vec::new();
    while placed.len() < MOST {
        let mut copy = wire.clone();
        let number = placed.len();
        copy.metadata.name = format!("{}-{number}", wire.metadata.name);
        copy.metadata.uid = format!("{}-copy-{number}", wire.metadata.uid).into();
        let metadata = copy.metadata.clone();
        let Ok(pod) = cluster.pod(copy) else { break };
        let Ok(result) = algorithm.schedule(framework, cluster, &pod) else {
            cluster.release(pod);
            break;
        };
        cluster.assume(pod, result.chosen);
        placed.push(metadata);
    }
    for metadata in &placed {
        cluster.remove_pod(metadata);
    }
    Some(placed.len())
}

fn has_claim(volume: &wire::Volume) -> bool {
    volume.persistent_volume_claim.is_some() || volume.ephemeral.is_some()
}
