//! The objects that keep a pod from every node, by name: claims, their classes and volumes, devices and their holders, and wishes that no node meets.

mod unmet;

use super::claims;
use crate::cluster::Cluster;
use crate::extended_resources::Special;
use crate::pod::Pod;
use crate::storage::{ClaimState, PersistentClaim, PersistentVolume};
use crate::symbol::Symbol;
use evictd_pod::Quantity;
use evictd_pod::quantity::Format;
use evictd_pod::wire::ResourceClaim;

/// The most objects that are named of one kind.
const NAMED: usize = 8;

/// One line for each object.
pub(crate) fn of(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let mut lines = unmet::of(cluster, pod);
    for (_, claim) in claims::known(cluster, cluster.template(pod)) {
        if claim.state == ClaimState::Unbound {
            of_claim(cluster, claim, &mut lines);
        }
    }
    of_devices(cluster, pod, &mut lines);
    lines
}

fn of_claim(cluster: &Cluster, claim: &PersistentClaim, lines: &mut Vec<String>) {
    let text = |symbol: Symbol| cluster.symbols().text(symbol);
    let name = claims::full_name(cluster, claim);
    let storage = cluster.storage();
    let Some(class) = claim.class else {
        lines.push(format!(
            "claim {name} names no StorageClass, and no class is the default"
        ));
        return;
    };
    let known = storage.classes.get(&class);
    if known.is_none() {
        let class = text(class);
        lines.push(format!(
            "claim {name} names StorageClass {class}, which does not exist"
        ));
    }
    if let Some(known) = known.filter(|known| !known.is_delayed) {
        let class = text(class);
        lines.push(match known.provisioner {
            Some(provisioner) => format!(
                "claim {name} waits for {} to make its volume (class {class} binds at once)",
                text(provisioner)
            ),
            None => format!("claim {name} waits for a volume of class {class}, which makes none"),
        });
    }
    let of_class = storage
        .volumes
        .iter()
        .filter(|(_, volume)| volume.class == Some(class));
    for (volume, known) in of_class.take(NAMED) {
        if let Some(problem) = unusable(cluster, claim, known) {
            let volume = text(*volume);
            lines.push(format!("volume {volume} {problem} (claim {name})"));
        }
    }
}

/// Why a volume cannot serve a claim, whatever the node.
fn unusable(
    cluster: &Cluster,
    claim: &PersistentClaim,
    volume: &PersistentVolume,
) -> Option<String> {
    let bytes = |bytes: i64| Quantity::new(bytes, Format::BinarySi).to_string();
    if volume.is_terminating {
        return Some("is being deleted".to_owned());
    }
    if let Some(holder) = volume
        .claim
        .filter(|holder| *holder != (claim.namespace, claim.name))
    {
        let text = |symbol: Symbol| cluster.symbols().text(symbol);
        let holder = format!("{}/{}", text(holder.0), text(holder.1));
        return Some(if volume.is_available {
            format!("is reserved for claim {holder}")
        } else {
            format!("belongs to claim {holder}, or is released and not yet made available again")
        });
    }
    if volume.capacity < claim.requested {
        let (there, wanted) = (bytes(volume.capacity), bytes(claim.requested));
        return Some(format!("is too small: {there} of {wanted}"));
    }
    (!volume.is_available).then(|| "is not available".to_owned())
}

fn of_devices(cluster: &Cluster, pod: &Pod, lines: &mut Vec<String>) {
    let template = cluster.template(pod);
    let text = |symbol: Symbol| cluster.symbols().text(symbol);
    let namespace = text(template.namespace);
    let known = cluster.devices();
    let names = template.device_claims.iter();
    let names = names.filter_map(|claim| claim.name().map(text));
    let claims: Vec<&ResourceClaim> = names
        .filter_map(|name| known.claim(namespace, name))
        .collect();
    let mut wants_devices = false;
    for claim in &claims {
        let name = claim.metadata.full_name();
        if let Some(allocation) = &claim.status.allocation {
            let devices = allocation.devices.results.iter().take(NAMED);
            let devices =
                devices.map(|result| format!("{} of pool {}", result.device, result.pool));
            let devices = devices.collect::<Vec<_>>().join(", ");
            let holders = holders(claim);
            lines.push(format!("claim {name} has {devices}; {holders}"));
            continue;
        }
        wants_devices = true;
        for request in &claim.spec.devices.requests {
            for wanted in request.exactly.iter().chain(&request.first_available) {
                let class = &wanted.device_class_name;
                if !known.has_class(class) {
                    lines.push(format!(
                        "claim {name} names DeviceClass {class}, which does not exist"
                    ));
                }
            }
        }
    }
    if let Some(special) = Special::of(cluster, pod) {
        wants_devices = true;
        for (resource, class) in special.classes() {
            lines.push(format!(
                "{resource} is served by devices of DeviceClass {class} where a node offers none itself"
            ));
        }
    }
    if !wants_devices {
        return;
    }
    let pools = known.unusable_pools().into_iter().take(NAMED);
    lines.extend(pools);
    let others = known.claims().filter(|other| {
        let is_own = |claim: &&ResourceClaim| claim.metadata.uid == other.metadata.uid;
        other.status.allocation.is_some() && !claims.iter().any(is_own)
    });
    for other in others.take(NAMED) {
        for result in other
            .status
            .allocation
            .iter()
            .flat_map(|all| &all.devices.results)
        {
            let (device, pool) = (&result.device, &result.pool);
            let (claim, holders) = (other.metadata.full_name(), holders(other));
            lines.push(format!(
                "device {device} of pool {pool} belongs to claim {claim}; {holders}"
            ));
        }
    }
}

/// The pods, or the group, that a claim is reserved for.
fn holders(claim: &ResourceClaim) -> String {
    let reserved = &claim.status.reserved_for;
    let names = reserved.iter().take(NAMED).map(|consumer| &*consumer.name);
    match reserved.as_slice() {
        [] => "no pod reserves it".to_owned(),
        [group] if group.is_group(&group.name) => format!("reserved for PodGroup {}", group.name),
        [pod] => format!("reserved for pod {}", pod.name),
        all => {
            let (count, names) = (all.len(), names.collect::<Vec<_>>().join(", "));
            format!("reserved for {count} pods: {names}")
        }
    }
}
