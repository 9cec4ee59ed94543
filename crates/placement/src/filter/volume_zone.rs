//! `VolumeZone`: zone labels of volumes. They are older than a volume's node affinity, and some volumes still have
//! them.

use super::{Filter, Here, Rejection, claims};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::storage::{ZONE_LABELS, Zone};
use crate::symbol::Symbol;

struct VolumeZone {
    /// Zone labels of the pod's volumes, with the names of the claims.
    zones: Box<[(String, Zone)]>,
    /// The zone and region labels that some object carries.
    labels: Box<[Symbol]>,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    let known = claims::known(cluster, cluster.template(pod));
    let zones = known
        .filter(|(claim, _)| !claim.ephemeral)
        .flat_map(|(_, claim)| {
            let zones = claims::volume(cluster, claim).map(|volume| &volume.zones);
            let zones = zones.into_iter().flatten();
            zones.map(|zone| (claims::full_name(cluster, claim), zone.clone()))
        });
    let zones: Box<[_]> = zones.collect();
    if zones.is_empty() {
        return None;
    }
    let labels = ZONE_LABELS.into_iter();
    let labels = labels.filter_map(|(label, _)| cluster.symbols().get(label));
    Some(Box::new(VolumeZone {
        zones,
        labels: labels.collect(),
    }))
}

impl VolumeZone {
    /// The first label that the node does not match. A node without any zone label matches all.
    fn mismatched(&self, here: Here<'_>) -> Option<&(String, Zone)> {
        let label = |key: Symbol| here.node.labels.get(key);
        let has_zone = self.labels.iter().any(|key| label(*key).is_some());
        let matches = |zone: &Zone| {
            let value = label(zone.key).or_else(|| label(zone.modern));
            value.is_some_and(|value| zone.values.contains(&value))
        };
        let mut zones = self.zones.iter();
        zones.find(|(_, zone)| has_zone && !matches(zone))
    }
}

impl Filter for VolumeZone {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        match self.mismatched(here) {
            None => Ok(()),
            Some(_) => Err(Rejection::unresolvable(
                "node(s) had no available volume zone",
            )),
        }
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        let (claim, zone) = self.mismatched(here)?;
        let values = zone.values.iter();
        let values: Vec<&str> = values
            .map(|value| here.cluster.symbols().text(*value))
            .collect();
        Some(super::reach(claim, &values.join(" or ")))
    }
}
