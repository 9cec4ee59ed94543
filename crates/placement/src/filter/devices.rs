//! `DynamicResources`: the node can serve the pod's unallocated claims, and the allocated devices are usable there.

use super::{Code, Filter, Here, Reason, Rejection};
use crate::cluster::{Cluster, NodeView};
use crate::devices::DeviceChoice;
use crate::id::NodeId;
use crate::interrupt::INTERRUPTED;
use crate::pod::Pod;
use crate::symbol::Symbol;
use crate::template::DeviceClaim;
use evictd_devices::{Demand, Problem, preference, selects};
use evictd_pod::resource_claims::{PodClaim, StoredClaim};
use evictd_pod::wire::{Allocation, NodeSelector, ResourceClaim};

const NOT_ENOUGH: &str = "cannot allocate all claims";
/// The message of a node whose device search was interrupted. The next attempt continues it.
pub const DEVICES_GO_ON: &str = "the search for devices goes on with the next attempt";
const NOT_HERE: &str = "resourceclaim not available on the node";

/// The claims of a pod, in the order of its spec.
///
/// # Errors
/// The problem with one of them.
fn claims<'c>(cluster: &'c Cluster, pod: &Pod) -> Result<Vec<&'c ResourceClaim>, String> {
    let template = cluster.template(pod);
    if template.device_claims.is_empty() {
        return Ok(Vec::new());
    }
    let symbols = cluster.symbols();
    let namespace = symbols.text(template.namespace);
    let claims = template.device_claims.iter().filter_map(|claim| {
        let claim = match *claim {
            DeviceClaim::Shared(name) => PodClaim::Shared(symbols.text(name)),
            DeviceClaim::Own(name) => PodClaim::Own(symbols.text(name)),
            DeviceClaim::NotMade => PodClaim::NotMade,
            DeviceClaim::Unknown(name) => PodClaim::Unknown(symbols.text(name)),
        };
        let known = claim.name();
        let known = known.and_then(|name| cluster.devices().claim(namespace, name));
        let stored = known.map(|known| StoredClaim::of(&known.metadata));
        match claim.problem((namespace, pod.name(), pod.uid()), stored) {
            Some(problem) => Some(Err(problem)),
            None => known.map(Ok),
        }
    });
    claims.collect()
}

/// How many pods can reserve a claim (API limit).
const MOST_CONSUMERS: usize = 256;

/// The devices of a claim: its allocation, or those assumed for another pod of the same gang.
fn allocation<'c>(cluster: &'c Cluster, claim: &'c ResourceClaim) -> Option<&'c Allocation> {
    let allocated = claim.status.allocation.as_ref();
    allocated.or_else(|| Some(cluster.devices().shared(&claim.metadata.uid)?.0))
}

/// Whether an allocated claim is reserved by the maximum number of pods, so that this one cannot use it.
fn is_full(cluster: &Cluster, pod: &Pod, claim: &ResourceClaim) -> bool {
    let reserved = &claim.status.reserved_for;
    let coming = cluster.devices().shared(&claim.metadata.uid);
    let count = reserved.len() + coming.map_or(0, |(_, pods)| pods);
    count >= MOST_CONSUMERS
        && allocation(cluster, claim).is_some()
        && reserved.iter().all(|consumer| consumer.uid != pod.uid())
}

/// The `DynamicResources` score of the claims that are allocated already.
pub(crate) fn preference_of_allocated(cluster: &Cluster, pod: &Pod) -> i64 {
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let allocated = claims.filter_map(|claim| Some(preference(claim, allocation(cluster, claim)?)));
    allocated.sum()
}

/// The claims of a pod that need devices.
///
/// # Errors
/// Why no node can serve the pod now.
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
        .find(|claim| known.is_assumed(&claim.metadata.uid))
    {
        let name = claim.metadata.full_name();
        return Err(format!(
            "resource claim {name} is in the process of being allocated"
        ));
    }
    let namespace = cluster.symbols().text(cluster.template(pod).namespace);
    let names = waiting.iter().map(|claim| claim.metadata.name.as_str());
    Demand::new(known, namespace, names)
}

/// The node selectors of the allocated claims' devices.
fn reaches(cluster: &Cluster, pod: &Pod) -> Vec<NodeSelector> {
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let allocations = claims.filter_map(|claim| allocation(cluster, claim));
    allocations
        .filter_map(|allocation| allocation.node_selector.clone())
        .collect()
}

struct Devices {
    namespace: Symbol,
    demand: Demand,
    reaches: Vec<NodeSelector>,
}

pub(crate) fn new(cluster: &Cluster, pod: &Pod) -> Option<Box<dyn Filter>> {
    if cluster.template(pod).device_claims.is_empty() {
        return None;
    }
    // On an error PreFilter has rejected the pod, or the claim counts as unchecked.
    let demand = demand(cluster, pod).ok()?;
    let reaches = reaches(cluster, pod);
    let nothing = demand.is_empty() && reaches.is_empty();
    let namespace = cluster.template(pod).namespace;
    (!nothing).then(|| {
        Box::new(Devices {
            namespace,
            demand,
            reaches,
        }) as _
    })
}

fn node_view(here: Here<'_>) -> NodeView<'_> {
    NodeView {
        symbols: here.cluster.symbols(),
        node: here.node,
    }
}

impl Filter for Devices {
    fn check(&self, here: Here<'_>) -> Result<(), Rejection> {
        let node = node_view(here);
        if !self.demand.is_empty() {
            // Searching one node may take as long as all other filters on a thousand nodes.
            let interrupt = here.cluster.interrupt();
            if interrupt.look() {
                return Err(Rejection::unresolvable(INTERRUPTED));
            }
            let left = interrupt.left_for_devices(self.namespace);
            let (found, cost) = self
                .demand
                .allocate_within(here.cluster.devices(), &node, left);
            interrupt.charge_devices(self.namespace, cost);
            found.map_err(|problem| Rejection::unresolvable(message(&problem)))?;
        }
        if self.reaches.iter().all(|selector| selects(selector, &node)) {
            return Ok(());
        }
        Err(Rejection {
            code: Code::UnschedulableAndUnresolvable,
            reason: Reason::Message(NOT_HERE),
        })
    }

    fn obstacle(&self, here: Here<'_>, _away: &dyn Fn(usize) -> bool) -> Option<String> {
        match self
            .demand
            .allocate(here.cluster.devices(), &node_view(here))
        {
            Err(
                Problem::PoolInUpdate(detail)
                | Problem::Constraint(detail)
                | Problem::Selector(detail),
            ) => Some(detail),
            _ => None,
        }
    }
}

/// kube-scheduler's message, also for errors that end its whole attempt. Here such an error rejects one node only,
/// because other nodes need not suffer.
const fn message(problem: &Problem) -> &'static str {
    match problem {
        Problem::NotEnough => NOT_ENOUGH,
        Problem::InvalidPools => "invalid resource pools were encountered",
        Problem::PoolInUpdate(_) => "resource pool is currently being updated or invalid",
        Problem::Constraint(_) => "a claim constraint would not be satisfied",
        Problem::Selector(_) => "a selector of devices cannot be evaluated",
        Problem::TooExpensive => "the search for devices was given up",
        Problem::Interrupted => DEVICES_GO_ON,
    }
}

/// The claim updates for a pod that fits on this node.
pub fn device_choices(cluster: &Cluster, pod: &Pod, node: NodeId) -> Vec<DeviceChoice> {
    if cluster.template(pod).device_claims.is_empty() {
        return Vec::new();
    }
    let allocations = demand(cluster, pod).ok().and_then(|demand| {
        let node = node_view(Here::new(cluster, node));
        demand.allocate(cluster.devices(), &node).ok()
    });
    // Allocations come in the order of the unallocated claims.
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
        if allocation.is_none() && reserved.any(|consumer| consumer.uid == pod.uid()) {
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

/// The pod's claims, by UID, that are assumed for pods of the same gang and usable only on some nodes. Each comes with
/// these nodes.
pub fn shared_claims(cluster: &Cluster, pod: &Pod) -> Vec<(String, Vec<NodeId>)> {
    let claims = claims(cluster, pod).unwrap_or_default().into_iter();
    let shared = claims.filter_map(|claim| {
        let uid = &claim.metadata.uid;
        let (allocation, _) = cluster.devices().shared(uid)?;
        let reach = allocation.node_selector.as_ref()?;
        let nodes = cluster.node_ids();
        let nodes = nodes.filter(|node| selects(reach, &node_view(Here::new(cluster, *node))));
        Some((uid.to_string(), nodes.collect()))
    });
    shared.collect()
}

/// The name of an allocated claim that keeps the pod off these nodes and that no other pod has reserved. Deallocating
/// it lets the pod be scheduled.
pub fn unavailable_claim<'c>(
    cluster: &'c Cluster,
    pod: &Pod,
    nodes: &[NodeId],
) -> Option<&'c ResourceClaim> {
    let mut claims = claims(cluster, pod).ok()?.into_iter();
    claims.find(|claim| {
        let allocation = claim.status.allocation.as_ref();
        let reach = allocation.and_then(|allocation| allocation.node_selector.as_ref());
        let elsewhere = reach.is_some_and(|reach| {
            let mut nodes = nodes.iter();
            nodes.any(|node| !selects(reach, &node_view(Here::new(cluster, *node))))
        });
        let reserved = &claim.status.reserved_for;
        elsewhere && reserved.iter().all(|consumer| consumer.uid == pod.uid()) && reserved.len() < 2
    })
}
