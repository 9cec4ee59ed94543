//! `VolumeZone`: the labels in which volumes told their zone before they had a node affinity, and some still do.

use super::{Filter, Here, Rejection, claims};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::storage::{ZONE_LABELS, Zone};
use crate::symbol::Symbol;

struct VolumeZone {
    /// Labels of the pod's volumes, with the names of the claims.
    zones: Box<[(String, Zone)]>,
    /// The labels that tell a node's zone or region, as far as anything carries them.
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
    /// The first label that the node does not match. A node that tells no zone at all matches every one.
    fn broken(&self, here: Here<'_>) -> Option<&(String, Zone)> {
        let label = |key: Symbol| here.node.labels.get(key);
        let tells = self.labels.iter().any(|key| label(*key).is_some());
        let matches = |zone: &Zone| {
            let value = label(zone.key).or_else(|| label(zone.modern));
            value.is_some_and(|value| zone.values.contains(&value))
        };
        let mut zones = self.zones.iter();
        zones.find(|(_, zone)| tells && !matches(zone))
    }
}

impl Filter for VolumeZone {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        match self.broken(here) {
            None => Ok(()),
            Some(_) => Err(Rejection::unresolvable(
                "node(s) had no available volume zone",
            )),
        }
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        let (claim, zone) = self.broken(here)?;
        let values = zone.values.iter();
        let values: Vec<&str> = values
            .map(|value| here.cluster.symbols().text(*value))
            .collect();
        Some(super::reach(claim, &values.join(" or ")))
    }
}
