//! Checks that lack an object in the input. The check is skipped and reported, never guessed.

use super::{claims, devices};
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::storage::PersistentClaim;

const OF_CLAIMS: &str = "VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone";
const OF_VOLUMES: &str = "NodeVolumeLimits, VolumeBinding, VolumeZone";

/// A line for each missing object, or for its kind if the input holds none of that kind.
pub(super) fn of(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let template = cluster.template(pod);
    let text = |symbol| cluster.symbols().text(symbol);
    let all = claims::of(cluster, template).count();
    let mut lines = Vec::new();
    if let Err(reason) = devices::demand(cluster, pod) {
        lines.push(format!("DynamicResources: {reason}"));
    }
    if all == 0 {
        return lines;
    }
    let storage = cluster.storage();
    if storage.claims.is_empty() {
        lines.push(format!(
            "{OF_CLAIMS}: no PersistentVolumeClaim is in the input, and the pod has {all}"
        ));
        return lines;
    }
    for (claim, known) in claims::of(cluster, template) {
        let missing = || {
            let (namespace, name) = (text(template.namespace), text(claim.name));
            Some(format!(
                "{OF_CLAIMS}: claim {namespace}/{name} is not in the input"
            ))
        };
        lines.extend(known.map_or_else(missing, |claim| of_claim(cluster, claim)));
    }
    lines.extend(limits(cluster, pod));
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// The objects missing to check a claim.
fn of_claim(cluster: &Cluster, claim: &PersistentClaim) -> Option<String> {
    let (storage, name) = (cluster.storage(), claims::full_name(cluster, claim));
    let text = |symbol| cluster.symbols().text(symbol);
    if let Some(volume) = claim.volume {
        if storage.volumes.is_empty() {
            return Some(format!("{OF_VOLUMES}: no PersistentVolume is in the input"));
        }
        let missing = !storage.volumes.contains_key(&volume);
        let volume = text(volume);
        return missing
            .then(|| format!("{OF_VOLUMES}: volume {volume} of {name} is not in the input"));
    }
    let class = claim.class?;
    if storage.classes.is_empty() {
        return Some("NodeVolumeLimits, VolumeBinding: no StorageClass is in the input".to_owned());
    }
    let (known, class) = (storage.classes.get(&class), text(class));
    match known {
        None => Some(format!(
            "NodeVolumeLimits, VolumeBinding: storage class {class} of {name} is not in the input"
        )),
        Some(known) => (known.is_delayed && known.provisioner.is_some()).then(|| {
            format!("VolumeBinding: the room left in storage class {class} is not in the input")
        }),
    }
}

/// The objects missing to check attach limits, if the pod adds a volume.
fn limits(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let storage = cluster.storage();
    let template = cluster.template(pod);
    let mut claims = claims::known(cluster, template);
    if !claims.any(|(_, claim)| claims::attachment(cluster, claim).is_some()) {
        return Vec::new();
    }
    let mut lines = Vec::new();
    let nodes = cluster.nodes().iter();
    let mut without = nodes.filter(|node| !storage.limits.contains_key(&node.name));
    if storage.limits.is_empty() {
        lines.push("NodeVolumeLimits: no CSINode is in the input".to_owned());
    } else if let Some(node) = without.next() {
        let (name, more) = (cluster.symbols().text(node.name), without.count());
        lines.push(match more {
            0 => format!("NodeVolumeLimits: the CSINode of {name} is not in the input"),
            _ => format!(
                "NodeVolumeLimits: the CSINodes of {name} and {more} others are not in the input"
            ),
        });
    }
    let others = cluster.templates().iter();
    let others = others.filter(|other| !std::ptr::eq(*other, template));
    let others = others.flat_map(|other| claims::of(cluster, other));
    let unknown = others.filter(|(_, known)| {
        known.is_none_or(|claim| {
            let missing = claim.volume.is_some() && claims::volume(cluster, claim).is_none();
            missing && claims::attachment(cluster, claim).is_none()
        })
    });
    let unknown = unknown.count();
    if unknown > 0 {
        lines.push(format!(
            "NodeVolumeLimits: {unknown} claims of pods, or their volumes, are not in the input and do not count"
        ));
    }
    lines
}
