//! The claims that the pods of a group share, and for which the group is their user (S7-100 to S7-104).

use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::template::{ClaimSource, DeviceClaim};
use evictd_pod::wire::{Consumer, PodResourceClaim, ResourceClaim};

/// The name of the group of a pod.
pub(super) fn name_of<'c>(cluster: &'c Cluster, pod: &Pod) -> Option<&'c str> {
    let group = cluster.template(pod).scheduling_group?;
    Some(cluster.symbols().text(group))
}

/// The entries of a pod that are claims of its group, with the group. Both have an equal entry then.
fn entries<'c>(
    cluster: &'c Cluster,
    pod: &Pod,
) -> impl Iterator<Item = (&'c DeviceClaim, &'c Consumer)> {
    let template = cluster.template(pod);
    let text = |symbol| cluster.symbols().text(symbol);
    let group = name_of(cluster, pod)
        .filter(|_| !template.device_claims.is_empty())
        .and_then(|name| cluster.group_claims().of(text(template.namespace), name));
    let is_same = move |claim: &DeviceClaim, entry: &PodResourceClaim| {
        let shared = match claim.claim {
            ClaimSource::Shared(name) => Some(text(name)),
            _ => None,
        };
        entry.name == text(claim.entry)
            && entry.resource_claim_name.as_deref() == shared
            && entry.resource_claim_template_name.as_deref() == claim.template.map(text)
    };
    group.into_iter().flat_map(move |group| {
        let claims = template.device_claims.iter();
        let of_group = claims.filter(move |claim| {
            let mut entries = group.entries.iter();
            entries.any(|entry| is_same(claim, entry))
        });
        of_group.map(|claim| (claim, &group.consumer))
    })
}

/// The group of a pod, if this claim of the pod is one of the group.
pub(super) fn consumer<'c>(cluster: &'c Cluster, pod: &Pod, claim: &str) -> Option<&'c Consumer> {
    let mut entries = entries(cluster, pod);
    let is_it = |entry: &DeviceClaim| {
        let name = entry.name();
        name.is_some_and(|name| cluster.symbols().text(name) == claim)
    };
    entries.find_map(|(entry, group)| is_it(entry).then_some(group))
}

/// Whether a consumer of a claim is this pod, or its group.
pub(super) fn is_user(cluster: &Cluster, pod: &Pod, consumer: &Consumer) -> bool {
    consumer.is_pod(pod.name(), pod.uid())
        || name_of(cluster, pod).is_some_and(|group| consumer.is_group(group))
}

/// Lets a pod of the gang use the assumed allocations of its group's claims, also those of earlier attempts (S7-102).
pub fn share_claims_of_group(cluster: &mut Cluster, pod: &Pod) {
    for claim in claims_of_group(cluster, pod) {
        cluster.devices_mut().share(&claim);
    }
}

/// The UIDs of the claims of a pod that are claims of its group.
fn claims_of_group(cluster: &Cluster, pod: &Pod) -> Vec<String> {
    let text = |symbol| cluster.symbols().text(symbol);
    let namespace = text(cluster.template(pod).namespace);
    let claims = entries(cluster, pod).filter_map(|(entry, _)| {
        let claim: &ResourceClaim = cluster.devices().claim(namespace, text(entry.name()?))?;
        Some(claim.metadata.uid.to_string())
    });
    claims.collect()
}
