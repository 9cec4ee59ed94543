//! `DynamicResources`: the devices that a pod's claims ask for can be had on the node, or are allocated and can be used there.

use super::{Code, Filter, Here, Reason, Rejection};
use crate::cluster::{Cluster, Seen};
use crate::devices::DeviceChoice;
use crate::id::NodeId;
use crate::interrupt::INTERRUPTED;
use crate::pod::Pod;
use crate::template::DeviceClaim;
use evictd_devices::{Demand, Problem, preference, selects};
use evictd_pod::wire::{Allocation, NodeSelector, ResourceClaim};

const NOT_ENOUGH: &str = "cannot allocate all claims";
/// What is said of a node whose devices were not looked at to the end in this attempt, which the next one does.
pub const DEVICES_GO_ON: &str = "the search for devices goes on with the next attempt";
const NOT_HERE: &str = "resourceclaim not available on the node";

/// The claims of a pod, in its order.
///
/// # Errors
/// What is wrong with one of them.
fn claims<'c>(cluster: &'c Cluster, pod: &Pod) -> Result<Vec<&'c ResourceClaim>, String> {
    let template = cluster.template(pod);
    if template.device_claims.is_empty() {
        return Ok(Vec::new());
    }
    let symbols = cluster.symbols();
    let namespace = symbols.text(template.namespace);
    let pod_name = format!("{namespace}/{}", pod.name());
    let claims = template.device_claims.iter().map(|claim| {
        let (name, is_own) = match *claim {
            DeviceClaim::Shared(name) => (symbols.text(name), false),
            DeviceClaim::Own(name) => (symbols.text(name), true),
            DeviceClaim::NotMade => {
                return Err(format!("pod {pod_name:?}: ResourceClaim not created yet"));
            }
            DeviceClaim::Unknown(name) => {
                let name = symbols.text(name);
                let unset = "none of the supported fields are set";
                return Err(format!(
                    "pod {pod_name:?}, spec.resourceClaim {name:?}: {unset}"
                ));
            }
        };
        let full_name = format!("{namespace}/{name}");
        let known = cluster.devices().claim(namespace, name);
        let known = known.ok_or_else(|| format!("could not find ResourceClaim {full_name:?}"))?;
        if known.metadata.deletion_timestamp.is_some() {
            return Err(format!("resourceclaim {name:?} is being deleted"));
        }
        let mut owners = known.metadata.owner_references.iter();
        if is_own && !owners.any(|owner| owner.controller && owner.uid == pod.uid()) {
            return Err(format!(
                "ResourceClaim {full_name} was not created for Pod {pod_name} (Pod is not owner)"
            ));
        }
        Ok(known)
    });
    claims.collect()
}

/// So many pods can use a claim at most.
const MOST_CONSUMERS: usize = 256;

/// The devices of a claim: those that it has, or those that it is promised for a pod that is decided about together with this
/// one, as the pods of a gang are.
fn allocation<'c>(cluster: &'c Cluster, claim: &'c ResourceClaim) -> Option<&'c Allocation> {
    let own = claim.status.allocation.as_ref();
    own.or_else(|| Some(cluster.devices().shared(&claim.metadata.uid)?.0))
}

/// Whether a claim has devices that so many pods use already that no further one can.
fn is_full(cluster: &Cluster, pod: &Pod, claim: &ResourceClaim) -> bool {
    let reserved = &claim.status.reserved_for;
    let coming = cluster.devices().shared(&claim.metadata.uid);
    let count = reserved.len() + coming.map_or(0, |(_, pods)| pods);
    count >= MOST_CONSUMERS
        && allocation(cluster, claim).is_some()
        && reserved.iter().all(|own| own.uid != pod.uid())
}

/// How well what its claims have suits a pod.
pub(crate) fn preference_of_allocated(cluster: &Cluster, pod: &Pod) -> i64 {
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let allocated = claims.filter_map(|claim| Some(preference(claim, allocation(cluster, claim)?)));
    allocated.sum()
}

/// The claims of a pod that have no devices yet.
///
/// # Errors
/// Why the pod can be nowhere now.
pub(crate) fn demand(cluster: &Cluster, pod: &Pod) -> Result<Demand, String> {
    let known = cluster.devices();
    let claims = claims(cluster, pod)?;
    if claims.iter().any(|claim| is_full(cluster, pod, claim)) {
        return Err("resourceclaim in use".to_owned());
    }
    let waiting = claims
        .iter()
        .filter(|claim| allocation(cluster, claim).is_none());
    let waiting: Vec<_> = waiting.collect();
    if let Some(claim) = waiting
        .iter()
        .find(|own| known.is_promised(&own.metadata.uid))
    {
        let metadata = &claim.metadata;
        let name = format!("{}/{}", metadata.namespace_or_default(), metadata.name);
        return Err(format!(
            "resource claim {name} is in the process of being allocated"
        ));
    }
    let namespace = cluster.symbols().text(cluster.template(pod).namespace);
    let names = waiting.iter().map(|claim| claim.metadata.name.as_str());
    Demand::new(known, namespace, names)
}

/// Where the devices can be used that claims of the pod have.
fn reaches(cluster: &Cluster, pod: &Pod) -> Vec<NodeSelector> {
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let allocations = claims.filter_map(|claim| allocation(cluster, claim));
    allocations
        .filter_map(|own| own.node_selector.clone())
        .collect()
}

struct Devices {
    demand: Demand,
    reaches: Vec<NodeSelector>,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    if cluster.template(pod).device_claims.is_empty() {
        return None;
    }
    // Where that fails no node is looked at, or it is told that this was not checked.
    let demand = demand(cluster, pod).ok()?;
    let reaches = reaches(cluster, pod);
    let nothing = demand.is_empty() && reaches.is_empty();
    (!nothing).then(|| Box::new(Devices { demand, reaches }) as _)
}

fn seen(here: Here<'_>) -> Seen<'_> {
    Seen {
        symbols: here.cluster.symbols(),
        node: here.node,
    }
}

impl Filter for Devices {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        let node = seen(here);
        if !self.demand.is_empty() {
            // A search on one node may take as long as all else does on a thousand.
            if here.cluster.interrupt().look() {
                return Err(Rejection::unresolvable(INTERRUPTED));
            }
            let found = self.demand.allocate(here.cluster.devices(), &node);
            found.map_err(|problem| Rejection::unresolvable(words(&problem)))?;
        }
        if self.reaches.iter().all(|own| selects(own, &node)) {
            return Ok(());
        }
        Err(Rejection {
            code: Code::UnschedulableAndUnresolvable,
            reason: Reason::Words(NOT_HERE),
        })
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        match self.demand.allocate(here.cluster.devices(), &seen(here)) {
            Err(
                Problem::PoolInUpdate(told) | Problem::Constraint(told) | Problem::Selector(told),
            ) => Some(told),
            _ => None,
        }
    }
}

/// What kube-scheduler says, and for what makes it give the whole attempt up: which other nodes need not suffer from.
const fn words(problem: &Problem) -> &'static str {
    match problem {
        Problem::NotEnough => NOT_ENOUGH,
        Problem::InvalidPools => "invalid resource pools were encountered",
        Problem::PoolInUpdate(_) => "resource pool is currently being updated or invalid",
        Problem::Constraint(_) => "a claim constraint would not be satisfied",
        Problem::Selector(_) => "a selector of devices cannot be evaluated",
        Problem::TooHard => "the search for devices was given up",
        Problem::GoesOn => DEVICES_GO_ON,
    }
}

/// What has to be written into the claims of a pod that goes to this node, on which it fits.
pub fn device_choices(cluster: &Cluster, pod: &Pod, node: NodeId) -> Vec<DeviceChoice> {
    if cluster.template(pod).device_claims.is_empty() {
        return Vec::new();
    }
    let allocations = demand(cluster, pod).ok().and_then(|demand| {
        let node = seen(Here::new(cluster, node));
        demand.allocate(cluster.devices(), &node).ok()
    });
    // In the order of the claims that have none.
    let mut allocations = allocations.unwrap_or_default().into_iter();
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let choices = claims.filter_map(|claim| {
        let shared = cluster.devices().shared(&claim.metadata.uid);
        let allocation = match (&claim.status.allocation, shared) {
            (Some(_), _) => None,
            (None, Some((shared, _))) => Some(shared.clone()),
            (None, None) => allocations.next(),
        };
        let mut reserved = claim.status.reserved_for.iter();
        if allocation.is_none() && reserved.any(|own| own.uid == pod.uid()) {
            return None;
        }
        Some(DeviceChoice {
            claim: claim.metadata.name.clone(),
            uid: claim.metadata.uid.to_string(),
            allocation,
        })
    });
    choices.collect()
}

/// The claims of a pod, by UID, for which pods that are decided about together with it were promised devices that cannot be used
/// everywhere, each with the nodes where they can.
pub fn shared_claims(cluster: &Cluster, pod: &Pod) -> Vec<(String, Vec<NodeId>)> {
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let shared = claims.filter_map(|claim| {
        let uid = &claim.metadata.uid;
        let (allocation, _) = cluster.devices().shared(uid)?;
        let reach = allocation.node_selector.as_ref()?;
        let nodes = cluster.node_ids();
        let nodes = nodes.filter(|node| selects(reach, &seen(Here::new(cluster, *node))));
        Some((uid.to_string(), nodes.collect()))
    });
    shared.collect()
}

/// A claim that has devices which cannot be used on one of these nodes, although the pod could be there otherwise, and that
/// nobody else has reserved: it may give them back. Its name in the pod's namespace.
pub fn unavailable_claim<'c>(
    cluster: &'c Cluster,
    pod: &Pod,
    nodes: &[NodeId],
) -> Option<&'c ResourceClaim> {
    let mut claims = claims(cluster, pod).ok()?.into_iter();
    claims.find(|claim| {
        let allocation = claim.status.allocation.as_ref();
        let reach = allocation.and_then(|own| own.node_selector.as_ref());
        let elsewhere = reach.is_some_and(|reach| {
            let mut nodes = nodes.iter();
            nodes.any(|node| !selects(reach, &seen(Here::new(cluster, *node))))
        });
        let reserved = &claim.status.reserved_for;
        elsewhere && reserved.iter().all(|own| own.uid == pod.uid()) && reserved.len() < 2
    })
}
