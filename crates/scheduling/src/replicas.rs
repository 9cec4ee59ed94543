//! How many pods like one fit beside each other, with the claims that each of them would have.

use crate::cycle::Verdict;
use crate::framework::Framework;
use crate::pre_bind::PreBindPlan;
use crate::scheduling_algorithm::SchedulingAlgorithm;
use evictd_placement::{Cluster, Code};
use evictd_pod::resource_claims::StoredClaim;
use evictd_pod::wire::{self, Metadata};
use std::sync::Arc;

/// The search for further replicas ends here.
pub const MOST_REPLICAS: usize = 1000;

/// Places the pod and copies of it one after the other, as the scheduler would, and removes them again. Copies share the claims
/// that the pod shares with others, and have claims of their own where the pod's were made for it. At most
/// [`MOST_REPLICAS`]; `None` if a claim cannot be copied, or a search was given up.
pub fn replicas(cluster: &mut Cluster, framework: &Framework, pod: &wire::Pod) -> Option<usize> {
    count(cluster, framework, pod, 0)
}

/// How many more pods fit beside this one, which has its node already.
pub(crate) fn more_replicas(
    cluster: &mut Cluster,
    framework: &Framework,
    pod: &wire::Pod,
) -> Option<usize> {
    Some(count(cluster, framework, pod, 1)?.saturating_sub(1))
}

/// Number 0 is the pod itself, the others are copies. `first` is the number of the first one that is placed.
fn count(
    cluster: &mut Cluster,
    framework: &Framework,
    pod: &wire::Pod,
    first: usize,
) -> Option<usize> {
    let mut replicas = Replicas {
        cluster,
        framework,
        algorithm: SchedulingAlgorithm::default(),
        placed: Vec::new(),
        made: Vec::new(),
    };
    // Later pods see the devices and volumes of earlier ones, as in a gang.
    replicas.cluster.begin_sharing();
    let mut number = first;
    let counted = loop {
        if number == MOST_REPLICAS {
            break Some(number);
        }
        match replicas.place(pod, number) {
            None => break None,
            Some(false) => break Some(number),
            Some(true) => number += 1,
        }
    };
    replicas.remove();
    counted
}

struct Replicas<'a> {
    cluster: &'a mut Cluster,
    framework: &'a Framework,
    algorithm: SchedulingAlgorithm,
    placed: Vec<Metadata>,
    /// The claims that were made for copies.
    made: Vec<Made>,
}

/// A claim that was made for a copy.
enum Made {
    Volume(Metadata),
    Devices(Metadata),
}

impl Replicas<'_> {
    /// Whether the replica fits; `None` if its claims cannot be made, or the search was given up.
    fn place(&mut self, pod: &wire::Pod, number: usize) -> Option<bool> {
        let mut copy = pod.clone();
        copy.status.nominated_node_name.clear();
        copy.spec.node_name.clear();
        if number > 0 {
            self.become_copy(&mut copy, pod, number)?;
        }
        let metadata = copy.metadata.clone();
        let pod = self.cluster.pod(copy).ok()?;
        let scheduled = self.algorithm.schedule(self.framework, self.cluster, &pod);
        let result = match scheduled {
            Ok(result) => result,
            Err(filtered) => {
                self.cluster.release(pod);
                let is_known = filtered.verdicts.iter().all(is_known);
                let is_known = is_known && !self.cluster.interrupt().is_raised();
                return is_known.then_some(false);
            }
        };
        let plan = PreBindPlan::begin(self.cluster, &pod, result.chosen);
        self.cluster
            .choose_volumes(&pod, result.chosen, &plan.volumes);
        self.cluster.assume(pod, result.chosen);
        self.placed.push(metadata);
        Some(true)
    }

    /// Gives a copy a name and claims of its own.
    fn become_copy(&mut self, copy: &mut wire::Pod, pod: &wire::Pod, number: usize) -> Option<()> {
        let original = &pod.metadata;
        copy.metadata.name = format!("{}-copy-{number}", original.name);
        copy.metadata.uid = format!("{}-copy-{number}", original.key()).into();
        self.make_volume_claims(copy, original, number)?;
        self.make_device_claims(copy, number)
    }

    fn make_volume_claims(
        &mut self,
        copy: &mut wire::Pod,
        original: &Metadata,
        number: usize,
    ) -> Option<()> {
        let name = copy.metadata.name.clone();
        let mut owners = original.owner_references.iter();
        let set = owners.find(|owner| owner.controller && owner.kind == "StatefulSet");
        let mut made = Vec::new();
        for volume in &mut copy.spec.volumes {
            if volume.ephemeral.is_some() {
                let old = format!("{}-{}", original.name, volume.name);
                made.push((old, format!("{name}-{}", volume.name)));
            }
            if let (Some(claim), Some(set)) = (&mut volume.persistent_volume_claim, set)
                && is_of_set(&claim.claim_name, &volume.name, &set.name)
            {
                let new = format!("{}-copy-{number}", claim.claim_name);
                made.push((claim.claim_name.clone(), new.clone()));
                claim.claim_name = new;
            }
        }
        for (old, new) in made {
            let namespace = original.namespace_or_default();
            let claim = self.cluster.new_claim_like(namespace, &old, new)?;
            self.made.push(Made::Volume(claim));
        }
        Some(())
    }

    fn make_device_claims(&mut self, copy: &mut wire::Pod, number: usize) -> Option<()> {
        let namespace = copy.metadata.namespace_or_default().to_owned();
        let uid = Arc::clone(&copy.metadata.uid);
        for status in &mut copy.status.resource_claim_statuses {
            let Some(name) = &mut status.resource_claim_name else {
                continue;
            };
            let devices = self.cluster.devices_mut();
            let mut claim = devices.claim(&namespace, name)?.clone();
            if StoredClaim::of(&claim.metadata).group.is_some() {
                // All pods of a group share it.
                continue;
            }
            *name = format!("{name}-copy-{number}");
            if devices.claim(&namespace, name).is_some() {
                // The claim of another pod has the name.
                return None;
            }
            let metadata = &mut claim.metadata;
            metadata.name.clone_from(name);
            metadata.uid = format!("{uid}-{name}").into();
            let mut owners = metadata.owner_references.to_vec();
            let of_pod = owners.iter_mut().filter(|owner| owner.controller);
            of_pod.for_each(|owner| owner.uid = uid.to_string());
            metadata.owner_references = owners.into();
            claim.status = wire::ResourceClaimState::default();
            self.made.push(Made::Devices(metadata.clone()));
            devices.put_claim(claim);
        }
        Some(())
    }

    /// Leaves the cluster as it was.
    fn remove(self) {
        for metadata in &self.placed {
            self.cluster.remove_pod(metadata);
        }
        self.cluster.end_sharing();
        for made in &self.made {
            match made {
                Made::Volume(claim) => {
                    self.cluster.remove_claim(claim);
                }
                Made::Devices(claim) => {
                    let namespace = claim.namespace_or_default();
                    let devices = self.cluster.devices_mut();
                    devices.remove_claim(namespace, &claim.name);
                }
            }
        }
    }
}

/// A search for devices that was given up leaves a node undecided.
fn is_known(verdict: &Verdict) -> bool {
    !matches!(verdict, Verdict::Rejected(_, rejection) if rejection.code == Code::Error)
}

/// Whether a `StatefulSet` makes the claim for the volume of one of its pods: `data-db-0`, or `data-db` of its template.
fn is_of_set(claim: &str, volume: &str, set: &str) -> bool {
    let rest = claim
        .strip_prefix(volume)
        .and_then(|rest| rest.strip_prefix('-'))
        .and_then(|rest| rest.strip_prefix(set));
    let ordinal = rest.map(|rest| rest.strip_prefix('-').unwrap_or(rest));
    ordinal.is_some_and(|ordinal| ordinal.bytes().all(|byte| byte.is_ascii_digit()))
}
